//! What all answers of `/pmapi`, `/metrics` and `/series` have in common with pmproxy's: methods and headers for other origins
//! (`docs/pcp/webapi.md` 1).
//!
//! Whose pages may read is what the gate says: who is here may. With `--allow-origin '*'` the headers are pmproxy's.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::server::answer::Refusal;
use crate::server::web::Shared;

/// Headers that pages may send. Real servers do not list `Authorization`, so that logins from pages fail (D13).
const HEADERS: HeaderValue =
    HeaderValue::from_static("Accept, Accept-Language, Content-Language, Content-Type, Authorization");
const GETS: HeaderValue = HeaderValue::from_static("GET, HEAD, TRACE, OPTIONS");
const POSTS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, TRACE, OPTIONS");
/// Seconds for which a browser may remember what it was allowed.
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");
/// Most bytes of path and parameters; beyond them clients have to POST.
const MAX_URL: usize = 8191;

/// A layer around the routes: refuses methods and lengths, answers OPTIONS and HEAD, and adds headers.
pub(in crate::server) async fn forms(State(web): State<Shared>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = allowed(&web.args.allow_origin, origin.as_ref());
    let path = request.uri().path();
    let url = path.len() + request.uri().query().map_or(0, |query| query.len() + 1);
    let mut response = match *request.method() {
        Method::OPTIONS => return preflight(path, request.headers(), origin.and(allowed)),
        _ if url > MAX_URL => Refusal::new(StatusCode::URI_TOO_LONG, "request URL too long").into_response(),
        // As real servers do: what a GET would give is not looked for.
        Method::HEAD if path == "/metrics" => head("text/plain"),
        Method::HEAD if path.starts_with("/pmapi") => head("application/json"),
        Method::GET | Method::POST | Method::HEAD => next.run(request).await,
        _ => Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed").into_response(),
    };
    let headers = response.headers_mut();
    if let Some(allowed) = allowed {
        insert_origin(headers, allowed);
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    }
    response
}

/// Whether requests of a path may be POST, as OPTIONS tells it. All of `/pmapi` takes names in a body as well, but clients that ask
/// first expect pmproxy's answer.
fn takes_post(path: &str) -> bool {
    let command = path.rsplit('/').next().unwrap_or_default();
    match path.starts_with("/series/") {
        true => command != "ping",
        false => matches!(command, "derive" | "_derive" | "store" | "_store"),
    }
}

/// The answer to OPTIONS: nothing is done, whatever the parameters (D13).
fn preflight(path: &str, asked: &HeaderMap, origin: Option<HeaderValue>) -> Response {
    let posts = takes_post(path);
    let is_allowed = |method: &HeaderValue| match method.as_bytes() {
        b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" => true,
        b"POST" => posts,
        _ => false,
    };
    let mut response = StatusCode::OK.into_response();
    if !asked.get(header::ACCESS_CONTROL_REQUEST_METHOD).is_none_or(is_allowed) {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return response;
    }
    let headers = response.headers_mut();
    if let Some(origin) = origin {
        // The one that asked, rather than all of them.
        let origin =
            if origin == "*" { asked.get(header::ORIGIN).cloned().unwrap_or(origin) } else { origin };
        insert_origin(headers, origin);
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, if posts { POSTS } else { GETS });
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if asked.contains_key(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    }
    response
}

/// What `Access-Control-Allow-Origin` is: `*` if all may read, else the origin that asks, which the gate has let in.
fn allowed(origins: &[String], origin: Option<&HeaderValue>) -> Option<HeaderValue> {
    match origins.iter().any(|known| known == "*") {
        true => Some(HeaderValue::from_static("*")),
        false => origin.cloned(),
    }
}

fn insert_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    if origin != "*" {
        headers.append(header::VARY, HeaderValue::from(HeaderName::from_static("origin")));
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
}

fn head(content: &'static str) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, HeaderValue::from_static(content))]).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_let_in_may_read() {
        let origin = HeaderValue::from_static("https://grafana.example.com");
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            allowed(&names, Some(&origin))
        };
        assert_eq!(named(&[]), Some(origin.clone()));
        assert_eq!(allowed(&[], None), None);
        assert_eq!(named(&["*"]), Some(HeaderValue::from_static("*")));
    }

    #[test]
    fn posts_are_told_as_pmproxy_tells_them() {
        for (path, posts) in [
            ("/pmapi/fetch", false),
            ("/pmapi/7/derive", true),
            ("/pmapi/_store", true),
            ("/series/query", true),
            ("/series/ping", false),
            ("/metrics", false),
        ] {
            assert_eq!(takes_post(path), posts, "{path}");
        }
    }
}

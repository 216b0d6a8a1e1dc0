//! By which names browsers come here, and which pages may read what they get.
//!
//! A page of somebody else whose name is made to mean this machine (DNS rebinding) comes by that name: only names of ours are answered to,
//! and addresses, which are nobody's to bend. What a page of another origin asks for is refused if it says so (`Origin`), or if the
//! browser does (`Sec-Fetch-Site`), unless that origin may read.

use std::net::{IpAddr, SocketAddr};

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};

use super::super::run::WebError;

/// Names of this machine for itself.
const LOCALHOST: &str = "localhost";

/// Names and origins.
#[derive(Debug)]
pub(super) struct Names {
    names: Vec<String>,
    origins: Vec<String>,
    any_origin: bool,
}

impl Names {
    /// Of the command line, and what the machine is called.
    ///
    /// # Errors
    /// An origin that is none.
    pub(super) fn new(
        listen: &str,
        addresses: &[SocketAddr],
        names: &[String],
        origins: &[String],
    ) -> Result<Names, WebError> {
        let mut known = vec![LOCALHOST.to_owned()];
        known.extend(listen.rsplit_once(':').map(|(host, _)| host.to_ascii_lowercase()));
        if addresses.iter().any(|address| !address.ip().is_loopback()) {
            let own = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
            known.extend(own.map(|name| name.to_ascii_lowercase()));
        }
        known.extend(names.iter().map(|name| name.to_ascii_lowercase()));
        for origin in origins.iter().filter(|origin| *origin != "*") {
            let uri: Option<Uri> = origin.parse().ok();
            let is_one =
                uri.is_some_and(|uri| uri.scheme().is_some() && uri.host().is_some() && uri.path() == "/");
            if !is_one || origin.ends_with('/') {
                return Err(WebError::Usage(format!(
                    "--allow-origin {origin}: not an origin such as https://grafana.example.com, or *"
                )));
            }
        }
        let any_origin = origins.iter().any(|origin| origin == "*");
        let origins = origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        Ok(Names { names: known, origins, any_origin })
    }

    /// Whether a request may be answered.
    ///
    /// # Errors
    /// Why not, and what would help.
    pub(super) fn check<B>(&self, request: &Request<B>, encrypted: bool) -> Result<(), String> {
        let headers = request.headers();
        let host = match request.uri().host() {
            Some(host) => Some(host.to_owned()),
            None => one(headers, header::HOST.as_str())?.map(|host| without_port(host).to_owned()),
        };
        // Programs that leave it out are no browsers.
        if let Some(host) = &host
            && !self.is_ours(host)
        {
            return Err(format!("{host:?} is no name of this server: start it with --allow-name {host}"));
        }
        let origin = one(headers, header::ORIGIN.as_str())?;
        match origin {
            Some(origin) => self.check_origin(origin, headers, encrypted),
            None if self.is_foreign(headers) && !is_visit(request) => {
                Err("a page of another origin asks: start the server with --allow-origin, and let the page ask with CORS".to_owned())
            }
            None => Ok(()),
        }
    }

    fn check_origin(&self, origin: &str, headers: &HeaderMap, encrypted: bool) -> Result<(), String> {
        let scheme = if encrypted { "https" } else { "http" };
        let own = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let is_own = own.is_some_and(|host| origin.eq_ignore_ascii_case(&format!("{scheme}://{host}")));
        if self.any_origin
            || is_own
            || self.origins.contains(&origin.to_ascii_lowercase())
            || is_of_here(origin)
        {
            return Ok(());
        }
        Err(format!(
            "pages of {origin} may not read from here: start the server with --allow-origin {origin}"
        ))
    }

    fn is_foreign(&self, headers: &HeaderMap) -> bool {
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        !self.any_origin && matches!(site, Some(b"cross-site" | b"same-site"))
    }

    fn is_ours(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        self.names.iter().any(|name| name == host) || is_address(host)
    }
}

/// Lets the page that asks read the answer. `first`: it asks whether it may.
pub(super) fn may_read(origin: HeaderValue, first: bool, answer: &mut Response) {
    if first {
        *answer = StatusCode::OK.into_response();
        let headers = answer.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
        headers.insert(
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("Authorization, Content-Type"),
        );
    }
    let headers = answer.headers_mut();
    if !headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
}

/// The value of a header that may be there once.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    let value =
        values.next().map(|value| value.to_str()).transpose().map_err(|_| format!("bad header {name}"))?;
    if values.next().is_some() { Err(format!("more than one header {name}")) } else { Ok(value) }
}

/// A person who follows a link of another page to this one, which that page does not get to read.
fn is_visit<B>(request: &Request<B>) -> bool {
    let mode = request.headers().get("sec-fetch-mode").map(|mode| mode.as_bytes());
    request.method() == Method::GET && request.uri().path() == "/" && mode == Some(b"navigate")
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => name,
        _ => host,
    }
}

fn is_address(host: &str) -> bool {
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inside.unwrap_or(host).parse::<IpAddr>().is_ok()
}

/// Whether an origin is a server on this machine, as a Grafana beside this one.
fn is_of_here(origin: &str) -> bool {
    let Ok(uri) = origin.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case(LOCALHOST) || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(origins: &[&str]) -> Names {
        let origins: Vec<String> = origins.iter().map(|&origin| origin.to_owned()).collect();
        let addresses = ["127.0.0.1:44322".parse().expect("an address")];
        Names::new("localhost:44322", &addresses, &["web.example.com".to_owned()], &origins).expect("good")
    }

    fn asked(names: &Names, headers: &[(&str, &str)]) -> Result<(), String> {
        let mut request = Request::builder().uri("/pmapi/fetch?names=x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        names.check(&request.body(()).expect("a request"), false)
    }

    #[test]
    fn only_names_of_ours_are_answered_to() {
        let names = names(&[]);
        for host in
            ["localhost:44322", "LOCALHOST", "127.0.0.1:1", "[::1]:44322", "web.example.com.", "192.0.2.7"]
        {
            assert_eq!(asked(&names, &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(asked(&names, &[]), Ok(()));
        for host in ["evil.example:44322", "localhost.evil.example", "", "::1:x"] {
            assert!(asked(&names, &[("host", host)]).is_err(), "{host}");
        }
        assert!(asked(&names, &[("host", "localhost"), ("host", "evil")]).is_err());
    }

    #[test]
    fn pages_of_others_may_not_read() {
        let own = ("host", "localhost:44322");
        let closed = names(&[]);
        for origin in
            ["http://localhost:44322", "http://localhost:3000", "http://127.0.0.1:3000", "https://[::1]:3000"]
        {
            assert_eq!(asked(&closed, &[own, ("origin", origin)]), Ok(()), "{origin}");
        }
        for origin in ["https://evil.example", "null", "http://localhost.evil.example", ""] {
            assert!(asked(&closed, &[own, ("origin", origin)]).is_err(), "{origin}");
        }
        assert!(asked(&closed, &[own, ("sec-fetch-site", "cross-site")]).is_err());
        assert_eq!(asked(&closed, &[own, ("sec-fetch-site", "same-origin")]), Ok(()));
        let one = names(&["https://grafana.example.com"]);
        assert_eq!(asked(&one, &[own, ("origin", "https://grafana.example.com")]), Ok(()));
        assert!(asked(&one, &[own, ("origin", "https://grafana.example.com.evil.example")]).is_err());
        assert_eq!(asked(&names(&["*"]), &[own, ("origin", "https://any.example")]), Ok(()));
        assert!(Names::new("localhost:1", &[], &[], &["grafana.example.com".to_owned()]).is_err());
    }

    #[test]
    fn a_link_to_the_page_may_be_followed() {
        let request = Request::builder()
            .uri("/")
            .header("sec-fetch-site", "cross-site")
            .header("sec-fetch-mode", "navigate");
        assert_eq!(names(&[]).check(&request.body(()).expect("a request"), false), Ok(()));
    }
}

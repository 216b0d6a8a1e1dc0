//! Web pages that may send: the origins that the configuration names. Browsers ask before a page sends JSON elsewhere, and let
//! it read an answer only if that names its origin (CORS, in the Fetch standard).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::reply::Reply;

/// How long a browser may remember what it was told, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// Headers that are looked at here.
const HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-encoding, content-type");
/// A page from the network may send to an address of this machine, as it is named.
const ASKS_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The origin of a request, if pages from there may send.
pub(super) fn origin<'a>(headers: &'a HeaderMap, origins: &[String]) -> Option<&'a HeaderValue> {
    let mut given = headers.get_all(ORIGIN).iter();
    let origin = given.next().filter(|_| given.next().is_none())?;
    origins.iter().any(|known| known.as_bytes() == origin.as_bytes()).then_some(origin)
}

/// Whether a browser asks what a page may do.
pub(super) fn is_preflight(parts: &http::request::Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to that.
pub(super) fn preflight(headers: &HeaderMap) -> Response<Reply> {
    let mut response = Response::new(Reply::message(Vec::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let answer = response.headers_mut();
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
    answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    answer.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if headers.contains_key(ASKS_PRIVATE) {
        answer.insert(ALLOWS_PRIVATE, HeaderValue::from_static("true"));
    }
    response
}

/// Lets pages of an origin read an answer.
pub(super) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(VARY, HeaderValue::from_static("origin"));
}

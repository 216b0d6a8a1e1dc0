//! Refusals in the form of the protocol that was asked: each client shows its own.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use super::super::answer::{Refusal, json};

/// A refusal of a request for this path.
pub(in super::super) fn refusal(path: &str, status: StatusCode, why: &str) -> Response {
    if path.starts_with("/api/") {
        return json(status, &Jaeger::of(status, why));
    }
    if path.starts_with("/loki/") {
        return (status, why.to_owned()).into_response();
    }
    Refusal::new(status, why).into_response()
}

/// A refusal for now.
pub(super) fn later(path: &str, why: &str, wait: Duration) -> Response {
    let mut answer = refusal(path, StatusCode::TOO_MANY_REQUESTS, why);
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    answer
}

#[derive(Serialize)]
struct Jaeger<'a> {
    data: (),
    total: u32,
    limit: u32,
    offset: u32,
    errors: [JaegerError<'a>; 1],
}

#[derive(Serialize)]
struct JaegerError<'a> {
    code: u16,
    msg: &'a str,
}

impl Jaeger<'_> {
    fn of(status: StatusCode, why: &str) -> Jaeger<'_> {
        let errors = [JaegerError { code: status.as_u16(), msg: why }];
        Jaeger { data: (), total: 0, limit: 0, offset: 0, errors }
    }
}

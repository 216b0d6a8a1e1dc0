//! What clients are told: the responses of OTLP, and `google.rpc.Status` where a request is refused.

use std::io::Write as _;
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode};
use hyper::ext::ReasonPhrase;
use serde_json::json;

use super::decode::{Outcome, Signal};
use super::http::Format;
use super::json::varint;
use super::reply::Reply;

/// How long a client that came at a bad time is asked to wait, in seconds.
const RETRY_AFTER: &str = "1";

/// Codes of `google.rpc.Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Code {
    /// The request is wrong; the same again would be, too.
    InvalidArgument = 3,
    /// It is longer than what is taken.
    ResourceExhausted = 8,
    /// It is for something there is not here.
    Unimplemented = 12,
    /// It may be sent again later.
    Unavailable = 14,
    /// Whoever sends it has to say who they are.
    Unauthenticated = 16,
}

impl Code {
    /// The code for a status of HTTP.
    pub(super) const fn of_status(status: u16) -> Code {
        match status {
            401 => Code::Unauthenticated,
            404 | 405 => Code::Unimplemented,
            413 | 429 => Code::ResourceExhausted,
            503 => Code::Unavailable,
            _ => Code::InvalidArgument,
        }
    }
}

/// The message of an `ExportTraceServiceResponse` and its like for logs and metrics: empty if all was taken in.
pub(super) fn success(signal: Signal, format: Format, outcome: &Outcome) -> Vec<u8> {
    let refused = refused(outcome);
    match (format, explanation(signal, outcome)) {
        (Format::Protobuf, None) => Vec::new(),
        (Format::Json, None) => b"{}".to_vec(),
        (Format::Protobuf, Some(text)) => {
            let mut partial = Vec::new();
            partial.push(1 << 3);
            varint(&mut partial, refused);
            field(&mut partial, 2, text.as_bytes());
            let mut message = Vec::new();
            field(&mut message, 1, &partial);
            message
        }
        (Format::Json, Some(text)) => {
            let number = match signal {
                Signal::Traces => "rejectedSpans",
                Signal::Logs => "rejectedLogRecords",
                Signal::Metrics => "rejectedDataPoints",
            };
            json!({ "partialSuccess": { number: refused.to_string(), "errorMessage": text } })
                .to_string()
                .into_bytes()
        }
    }
}

/// The message of a `google.rpc.Status`.
pub(super) fn status(code: Code, format: Format, text: &str) -> Vec<u8> {
    match format {
        Format::Protobuf => {
            let mut message = vec![1 << 3, code as u8];
            field(&mut message, 2, text.as_bytes());
            message
        }
        Format::Json => json!({ "code": code as u8, "message": text }).to_string().into_bytes(),
    }
}

/// The same with how long to wait (`google.rpc.RetryInfo`): without it, clients do not send again what was too much.
pub(super) fn retry_info(code: Code, text: &str, wait: Duration) -> Vec<u8> {
    // A Duration: seconds, nanoseconds.
    let mut delay = vec![1 << 3];
    varint(&mut delay, wait.as_secs());
    delay.push(2 << 3);
    varint(&mut delay, wait.subsec_nanos().into());
    let (mut info, mut any) = (Vec::new(), Vec::new());
    field(&mut info, 1, &delay);
    field(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    field(&mut any, 2, &info);
    let mut message = status(code, Format::Protobuf, text);
    field(&mut message, 3, &any);
    message
}

/// What was wrong with a request whose rest could not be read.
pub(super) fn broken(signal: Signal, outcome: &Outcome) -> Option<String> {
    let refusal = outcome.broken.as_ref()?;
    let mut text = format!("byte {}: {}", refusal.column, refusal.detail);
    if outcome.accepted > 0 {
        text += &format!("; {} {} before it are taken in", outcome.accepted, word(signal));
    }
    Some(text)
}

/// A response for hyper. `close`: it is the last of its connection.
pub(super) fn http(status: u16, format: Format, message: Vec<u8>, close: bool) -> Response<Reply> {
    let mut response = Response::new(Reply::message(message));
    let code = StatusCode::from_u16(status);
    debug_assert!(code.is_ok(), "{status} is a status");
    *response.status_mut() = code.unwrap_or(StatusCode::BAD_REQUEST);
    if status == 413 {
        // Of RFC 9110; the crate has that of the one before.
        response.extensions_mut().insert(ReasonPhrase::from_static(b"Content Too Large"));
    }
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static(media(format)));
    if let Some((name, value)) = hint(status) {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if close {
        headers.insert("connection", HeaderValue::from_static("close"));
    }
    response
}

/// The same as bytes, where hyper has no say: for what it cannot read, or has not been asked to.
pub(super) fn response(out: &mut Vec<u8>, status: u16, format: Format, message: &[u8], close: bool) {
    let reason = match status {
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Bad Request",
    };
    let media = media(format);
    let hint = hint(status).map(|(name, value)| format!("{name}: {value}\r\n")).unwrap_or_default();
    let close = if close { "connection: close\r\n" } else { "" };
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {media}\r\ncontent-length: {}\r\n{hint}{close}\r\n",
        message.len()
    );
    out.extend_from_slice(message);
}

fn media(format: Format) -> &'static str {
    match format {
        Format::Protobuf => "application/x-protobuf",
        Format::Json => "application/json",
    }
}

/// The header that says what would do better.
fn hint(status: u16) -> Option<(&'static str, &'static str)> {
    match status {
        401 => Some(("www-authenticate", "Bearer")),
        405 => Some(("allow", "POST")),
        415 => Some(("accept-encoding", "gzip, deflate")),
        503 => Some(("retry-after", RETRY_AFTER)),
        _ => None,
    }
}

/// Spans or log records that are not there in whole.
fn refused(outcome: &Outcome) -> u64 {
    // How many spans the lost records belong to is not known: at most as many as there are.
    outcome.rejected + outcome.lost.min(outcome.accepted)
}

fn explanation(signal: Signal, outcome: &Outcome) -> Option<String> {
    let what = word(signal);
    let mut text = String::new();
    if let Some(first) = first(outcome) {
        let all = outcome.accepted + outcome.rejected;
        text = format!("{} of {all} {what} refused; the first: {first}", outcome.rejected);
    }
    if outcome.lost > 0 {
        let and = if text.is_empty() { "" } else { "; " };
        text += &format!("{and}{} records lost because the agent is behind", outcome.lost);
    }
    if outcome.overflowed > 0 {
        let and = if text.is_empty() { "" } else { "; " };
        let words = "data points went into overflow instances: more series than [series] allows";
        text += &format!("{and}{} {words}", outcome.overflowed);
    }
    (!text.is_empty()).then_some(text)
}

/// Where the first is that was refused, and why.
pub(super) fn first(outcome: &Outcome) -> Option<String> {
    let decoded = outcome.first.as_ref().map(|first| format!("byte {}: {}", first.column, first.detail));
    outcome.left_out.first.clone().or(decoded)
}

fn word(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "spans",
        Signal::Logs => "log records",
        Signal::Metrics => "data points",
    }
}

/// A field with a length.
fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[derive(Clone, PartialEq, Message)]
    struct Status {
        #[prost(int32, tag = "1")]
        code: i32,
        #[prost(string, tag = "2")]
        message: String,
        #[prost(message, repeated, tag = "3")]
        details: Vec<Any>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Any {
        #[prost(string, tag = "1")]
        type_url: String,
        #[prost(bytes = "vec", tag = "2")]
        value: Vec<u8>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct RetryInfo {
        #[prost(message, optional, tag = "1")]
        delay: Option<Delay>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Delay {
        #[prost(int64, tag = "1")]
        seconds: i64,
        #[prost(int32, tag = "2")]
        nanos: i32,
    }

    #[test]
    fn how_long_to_wait_is_told_as_google_rpc_has_it() {
        let bytes = retry_info(Code::ResourceExhausted, "later", Duration::from_millis(61_500));
        let status = Status::decode(&bytes[..]).expect("a status");
        assert_eq!((status.code, status.message.as_str(), status.details.len()), (8, "later", 1));
        assert_eq!(status.details[0].type_url, "type.googleapis.com/google.rpc.RetryInfo");
        let info = RetryInfo::decode(&status.details[0].value[..]).expect("a RetryInfo");
        assert_eq!(info.delay, Some(Delay { seconds: 61, nanos: 500_000_000 }));
    }
}

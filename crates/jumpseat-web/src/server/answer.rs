//! Answers: JSON as PCP's servers send it, one line that ends in CR LF; and refusals.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use super::pool::NotDone;

/// A JSON text with its status.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    json_of(status, text(value))
}

/// The line that a value is.
pub(super) fn text(value: &impl Serialize) -> Bytes {
    // What is sent are structures of texts and numbers: there is nothing in them that JSON does not have.
    let mut text = serde_json::to_vec(value).unwrap_or_default();
    text.extend_from_slice(b"\r\n");
    text.into()
}

/// A JSON text that is there already, with its status.
pub(super) fn json_of(status: StatusCode, text: Bytes) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
}

/// Why a request is refused, in the form of PMWEBAPI and of `/series`: `{"context":N,"message":"...","success":false}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// The context that was asked, if there was one.
    pub context: Option<u32>,
    /// Why, in the texts of the protocol where it has one.
    pub message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal { status, context: None, message: message.into() }
    }

    /// Status 400.
    pub(super) fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, message)
    }
}

impl From<NotDone> for Refusal {
    fn from(not: NotDone) -> Refusal {
        Refusal::new(not.status(), not.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Form<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            context: Option<u32>,
            message: &'a str,
            success: bool,
        }
        json(self.status, &Form { context: self.context, message: &self.message, success: false })
    }
}

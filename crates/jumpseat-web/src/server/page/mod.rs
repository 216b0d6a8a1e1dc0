//! The page at `/`, and what it asks.
//!
//! ```text
//! browser --/--> files (in the program)
//!         --/page/hosts, names, samples--> Source --> live: a thread a host that somebody looks at, with the last half hour
//!                                                --> shelf: contexts on archives --> past
//!         --/page/events, traces, trace, spans, flame--> Look --> Records (live and archives, see there)
//! ```
//!
//! * [`files`]: the page itself. [`hosts`]: hosts and archives. [`names`]: completion. [`samples`]: values over time.
//! * [`source`]: which host or archive is meant. [`lines`]: values over time, put together to so many points. [`found`]: what a name or
//!   an expression is to a context. [`live`], [`past`]: where values come from.
//! * [`look`]: a host and a window of records. [`events`] through a [`sift`]; [`traces`] with their [`critical`] path; [`spans`]; [`flame`].
//!
//! What it asks is answered as JSON; what is refused as `{"error":"..."}` with a status.

mod critical;
mod events;
mod files;
mod flame;
mod found;
#[doc(hidden)]
pub(super) mod fuzzing;
mod hosts;
mod lines;
mod live;
mod look;
mod names;
mod past;
mod samples;
mod shelf;
mod sift;
mod source;
mod spans;
mod traces;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use serde::Serialize;

use super::answer::json;
use super::pool::NotDone;
use super::sources::{SourceError, Sources};
use super::web::Shared;
use live::Live;
use shelf::Shelf;

/// What the page's requests share.
#[derive(Debug)]
pub(super) struct Page {
    live: Live,
    shelf: Shelf,
}

impl Page {
    pub(super) fn new(sources: Arc<Sources>) -> Page {
        Page { live: Live::new(sources), shelf: Shelf::default() }
    }
}

pub(super) fn routes() -> Router<Shared> {
    files::routes()
        .route("/page/hosts", get(hosts::hosts))
        .route("/page/names", get(names::names))
        .route("/page/samples", get(samples::samples))
        .route("/page/events", get(events::events))
        .route("/page/traces", get(traces::traces))
        .route("/page/trace", get(traces::trace))
        .route("/page/spans", get(spans::spans))
        .route("/page/flame", get(spans::flames))
}

/// Why the page gets no answer.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    error: String,
}

impl Refused {
    fn bad(error: impl Into<String>) -> Refused {
        Refused { status: StatusCode::BAD_REQUEST, error: error.into() }
    }

    /// The source is not there, or does not answer.
    fn gone(error: impl Into<String>) -> Refused {
        Refused { status: StatusCode::BAD_GATEWAY, error: error.into() }
    }
}

impl From<NotDone> for Refused {
    fn from(not: NotDone) -> Refused {
        Refused { status: not.status(), error: not.to_string() }
    }
}

impl From<SourceError> for Refused {
    fn from(error: SourceError) -> Refused {
        let status = match error {
            SourceError::Spec(_) | SourceError::TooLong => StatusCode::BAD_REQUEST,
            SourceError::NotAllowed(_) | SourceError::NoHost => StatusCode::FORBIDDEN,
            SourceError::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            SourceError::Client(_) => StatusCode::BAD_GATEWAY,
        };
        Refused { status, error: error.to_string() }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Form {
            error: String,
        }
        json(self.status, &Form { error: self.error })
    }
}

//! What answers hold until they have been sent, or their client has gone: a turn, and memory.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;
use http_body::{Frame, SizeHint};

use super::form;

/// Most bytes of answers that have not been sent yet. Small ones do not count: the turns bound them.
const MAX_BYTES: u64 = 256 << 20;
const SMALL: u64 = 64 << 10;

/// Bytes of answers that have not been sent yet.
#[derive(Debug, Default)]
pub(in super::super) struct Unsent(AtomicU64);

/// Some of them.
#[derive(Debug)]
struct Charge {
    unsent: Arc<Unsent>,
    bytes: u64,
}

impl Unsent {
    fn take(self: &Arc<Unsent>, bytes: u64) -> Option<Charge> {
        let fits = |held: u64| held.checked_add(bytes).filter(|all| *all <= MAX_BYTES);
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits);
        taken.ok().map(|_| Charge { unsent: Arc::clone(self), bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.unsent.0.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// The layer next to the routes, where answers have their whole length still.
pub(in super::super) async fn charge(unsent: Arc<Unsent>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let answer = next.run(request).await;
    let bytes = http_body::Body::size_hint(answer.body()).lower();
    if bytes <= SMALL {
        return answer;
    }
    match unsent.take(bytes) {
        Some(charged) => until_sent(answer, charged),
        None => form::refusal(
            &path,
            StatusCode::SERVICE_UNAVAILABLE,
            "too many large answers are being sent: try again later",
        ),
    }
}

/// The same answer, which holds something until it has been sent.
pub(super) fn until_sent(answer: Response, held: impl Send + Sync + Unpin + 'static) -> Response {
    answer.map(|body| Body::new(Holding { body, _held: held }))
}

struct Holding<T> {
    body: Body,
    _held: T,
}

impl<T: Unpin> http_body::Body for Holding<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_makes_room() {
        let unsent = Arc::new(Unsent::default());
        let most = unsent.take(MAX_BYTES).expect("there is room");
        assert!(unsent.take(1).is_none());
        let answer = until_sent(Response::new(Body::from("x")), most);
        assert!(unsent.take(1).is_none(), "it has not been sent");
        drop(answer);
        assert!(unsent.take(MAX_BYTES).is_some());
        assert!(unsent.take(u64::MAX).is_none());
    }
}

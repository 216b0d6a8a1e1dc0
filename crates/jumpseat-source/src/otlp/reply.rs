//! Bodies of requests as they come in, and of responses.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::server::Port;

/// Memory is taken in steps of this many bytes at least, as bytes come: a length that is only announced costs nothing.
const STEP: usize = 256 * 1024;

/// A body as far as it has come, counted among the memory of all requests that are not complete.
pub(super) struct Held {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What of their memory is counted.
    counted: usize,
    port: Rc<Port>,
}

impl Held {
    /// Nothing yet.
    pub(super) fn new(port: &Rc<Port>) -> Held {
        Held { bytes: Vec::new(), counted: 0, port: Rc::clone(port) }
    }

    /// Adds what has come. `left`: how many bytes are to come, these included, if it is known.
    pub(super) fn extend(&mut self, data: &[u8], left: Option<usize>) {
        if let Some(left) = left
            && data.len() > self.bytes.capacity() - self.bytes.len()
        {
            // Twice as much each time, but not more than there will be.
            self.bytes.reserve_exact(left.min(self.bytes.len().max(STEP)).max(data.len()));
        }
        self.bytes.extend_from_slice(data);
        let more = self.bytes.capacity() - self.counted;
        self.counted += more;
        self.port.held.set(self.port.held.get() + more);
        self.port.stats.memory.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Whether all of them together are more than there may be.
    pub(super) fn is_too_much(&self) -> bool {
        self.port.held.get() > self.port.config.max_memory
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        debug_assert!(self.port.held.get() >= self.counted, "counted by extend");
        self.port.held.set(self.port.held.get().saturating_sub(self.counted));
        self.port.stats.memory.fetch_sub(self.counted as u64, Ordering::Relaxed);
    }
}

/// The next bytes of a body; `None` at its end, or where only trailers are left.
pub(super) async fn next_data(body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
    loop {
        match std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await? {
            Ok(frame) => {
                // Nobody asks for trailers.
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

/// The body of a response: a message that is there in whole, and trailers.
#[derive(Debug, Default)]
pub(super) struct Reply {
    message: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Reply {
    /// A message alone.
    pub(super) fn message(message: Vec<u8>) -> Reply {
        Reply { message: (!message.is_empty()).then(|| message.into()), trailers: None }
    }

    /// A message, and trailers behind it.
    pub(super) fn with_trailers(message: Vec<u8>, trailers: HeaderMap) -> Reply {
        Reply { trailers: Some(trailers), ..Reply::message(message) }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let message = self.message.take().map(Frame::data);
        Poll::Ready(message.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.trailers {
            // hyper makes a length of it, which calls of gRPC do not have.
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.message.as_ref().map_or(0, |message| message.len() as u64)),
        }
    }
}

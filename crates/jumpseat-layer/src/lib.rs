//! A program's spans and events as records of the agent: a layer for `tracing-subscriber`.
//!
//! ```no_run
//! use tracing_subscriber::prelude::*;
//!
//! let layer = jumpseat_layer::layer().source("shop");
//! let _guard = layer.guard();
//! tracing_subscriber::registry().with(layer).init();
//! ```
//!
//! A span becomes a START record when it is made and an END record when it is closed, with its own id (16 hexadecimal digits)
//! as span id and that of the span around it as parent id; the END has `duration_ns`, and fields that are recorded in between. An
//! event becomes a POINT record with the id of the span it is in. The event type is the span's name or the event's
//! target, the severity is the level, all fields keep their types (`docs/ingest-protocol.md`). START and POINT records have
//! `file`, `line`, `thread` and `thread_id`, a START the span's `target`, too, unless the program has a field of this name itself.
//!
//! The program is never held up: each thread fills a ring of its own, and a thread of the layer has the agent of this machine read what is
//! in the rings, or sends it to an agent elsewhere. It stays there until the agent has it on disk, and is sent again if the agent dies before. What does not fit, as
//! long as there is no agent or it is too slow, is lost and counted, and shows as *missed* records in their place. The rings lie in a file without a name that the agent gets to know, so that the last
//! events of a program that is killed, or ends without waiting, are not lost either.
//!
//! # Features
//!
//! | feature | by default | brings |
//! | --- | --- | --- |
//! | `remote` | no | `EventLayer::remote`: an agent on another host, by TCP with TLS and a token |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod chunk;
mod clock;
mod connection;
#[cfg(feature = "remote")]
mod elsewhere;
mod memory;
mod message;
mod ring;
mod shared;
mod sleep;
mod spans;
mod target;
mod thread;
mod writer;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

#[cfg(feature = "remote")]
pub use elsewhere::{Remote, RemoteError};
use jumpseat_wire::ring::message::{END, POINT, START};
use message::{Fields, Words};
use shared::Shared;
use target::Target;
use thread::About;
use writer::Writer;

/// Bytes that a thread's messages may take until they are sent, unless configured otherwise.
pub const BUFFER: usize = 1 << 20;

/// A layer that sends everything to the agent of this machine. Filters go before it, as before any layer.
pub fn layer() -> EventLayer {
    EventLayer {
        shared: Arc::new(Shared::new(BUFFER)),
        target: Arc::new(target::Here),
        source: program(),
        started: false,
    }
}

/// The layer.
pub struct EventLayer {
    shared: Arc<Shared>,
    target: Arc<dyn Target>,
    source: String,
    started: bool,
}

impl EventLayer {
    /// Sends under the name of this source instead of the program's. See `docs/ingest-protocol.md` for what a
    /// source may be called; the agent puts others under its default source.
    pub fn source(mut self, name: impl Into<String>) -> EventLayer {
        self.source = name.into();
        self
    }

    /// Sends to this ingest socket instead of the one that `JUMPSEAT_SOCKET` names, or that is where PCP has its own
    /// (`/run/pcp`, unless `PCP_RUN_DIR` or `pcp.conf` say otherwise), or the user's own if only that is there.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> EventLayer {
        self.target = Arc::new(path.into());
        self
    }

    /// Gives each thread so many bytes, or up to twice as many, for what is not sent yet. An event takes 32 bytes, 16 for each
    /// field, and those of its texts. Call it before [`EventLayer::guard`].
    pub fn buffer(mut self, bytes: usize) -> EventLayer {
        self.shared = Arc::new(Shared::new(bytes.max(4096)));
        self
    }

    /// Something to keep until the end of `main`: dropped, it waits until everything is sent, for a second at
    /// most. The first connection to an agent on another host may take longer than that (five seconds, and looking up its name): a
    /// short program that sends there calls [`Guard::flush`] with more patience at its end, or loses what it has, uncounted.
    pub fn guard(&self) -> Guard {
        Guard { shared: Arc::clone(&self.shared) }
    }

    fn start(&mut self) {
        clock::prepare();
        let sender = self.shared.name();
        let writer = Writer::new(Arc::clone(&self.shared), self.target.clone(), self.source.clone(), sender);
        // Without a thread the rings fill up and all is lost, but the program goes on.
        if let Ok(thread) = std::thread::Builder::new().name("jumpseat".into()).spawn(move || writer.run()) {
            self.started = self.shared.writer.set(thread.thread().clone()).is_ok();
        }
    }
}

/// Sends what has not been sent when it is dropped.
#[must_use = "dropped at once, it is of no use"]
pub struct Guard {
    shared: Arc<Shared>,
}

impl Guard {
    /// Waits until all that was traced before is sent. Does not wait for an agent that is not there, nor beyond
    /// its patience; whether the wait was over before.
    pub fn flush(&self, patience: Duration) -> bool {
        // A forked process has no thread that sends.
        if !self.shared.is_ours() {
            return false;
        }
        let until = Instant::now().checked_add(patience);
        let (asked, done) = &self.shared.flushes;
        let wanted = asked.fetch_add(1, Ordering::AcqRel) + 1;
        loop {
            self.shared.unpark();
            if done.load(Ordering::Acquire) >= wanted {
                return true;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Why there is no connection to the agent: where it should be, and what happened at the last attempt. `None` while there is
    /// one, and before the first attempt, which the layer's thread makes as soon as it runs.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.flush(Duration::from_secs(1));
    }
}

/// What the layer keeps with a span.
struct SpanState {
    id: u64,
    parent: u64,
    /// When it began, in nanoseconds since the epoch.
    start: i64,
    /// Fields that were recorded later.
    later: Vec<u64>,
}

impl<S> Layer<S> for EventLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_layer(&mut self, _: &mut S) {
        if !self.started {
            self.start();
        }
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let parent = span.parent().map_or(0, |parent| number(&parent.extensions()));
        let now = clock::now();
        let mut extensions = span.extensions_mut();
        let (id, start) = match extensions.get_mut::<SpanState>() {
            Some(known) => (known.id, known.start),
            None => {
                let id = new_number();
                extensions.insert(SpanState { id, parent, start: now, later: Vec::new() });
                (id, now)
            }
        };
        drop(extensions);
        let about = About { kind: START, time: start, metadata: attributes.metadata(), span: id, parent };
        thread::send(&self.shared, about, |out| attributes.record(&mut Fields(out)));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        // Before the span is locked: writing a value may trace something itself.
        let mut new = Vec::new();
        values.record(&mut Fields(&mut new));
        if let Some(known) = span.extensions_mut().get_mut::<SpanState>() {
            message::replace_fields(&mut known.later, &new);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let of_span = |id: &Id| context.span(id).map_or(0, |span| number(&span.extensions()));
        let here = if event.is_contextual() { spans::current(self.shared.number, of_span) } else { None };
        let looked_up = || context.event_span(event).map_or(0, |span| number(&span.extensions()));
        let span = here.unwrap_or_else(looked_up);
        let about = About { kind: POINT, time: clock::now(), metadata: event.metadata(), span, parent: 0 };
        thread::send(&self.shared, about, |out| event.record(&mut Fields(out)));
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        spans::enter(self.shared.number, id);
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        spans::leave(self.shared.number, id);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        // It stays there for other layers of this kind, each of which sends the end of the span.
        let extensions = span.extensions();
        let Some(SpanState { id, parent, start, later }) = extensions.get::<SpanState>() else { return };
        let now = clock::now();
        let about = About { kind: END, time: now, metadata: span.metadata(), span: *id, parent: *parent };
        thread::send(&self.shared, about, |out| {
            message::duration(out, now.saturating_sub(*start));
            later.iter().for_each(|word| out.put([*word]));
        });
    }
}

/// The number of a span, 0 if it has none.
fn number(extensions: &tracing_subscriber::registry::Extensions<'_>) -> u64 {
    extensions.get::<SpanState>().map_or(0, |known| known.id)
}

/// A number for a span that no other has, of this or another program, as far as chance goes.
fn new_number() -> u64 {
    static NEXT: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(std::process::id())));
    NEXT.fetch_add(1, Ordering::Relaxed).max(1)
}

/// The program's name.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(|path| path.file_name()?.to_str());
    name.unwrap_or("program").to_owned()
}

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

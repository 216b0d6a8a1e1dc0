//! The thread that sends what is in the rings of the traced threads.
//!
//! It takes everything there is, puts it in the order of time, and writes it to the agent's ingest socket in the
//! binary framing. While there is no connection it leaves the rings alone: they fill, and what does not fit is
//! counted where it was lost.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rtrb::Consumer;
use tracing_core::{Level, Metadata};

use super::message::{self, Message};
use super::ring::{self, RingReader, Shared};
use jumpseat_wire::encode::{EncodeError, Encoder, Id, Phase, Record, Value};
use jumpseat_wire::severity::Severity;

/// Messages are gathered for so long before they are sent.
const GATHER: Duration = Duration::from_millis(2);
/// How long the agent may take to read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pauses between attempts to connect: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Most bytes taken from a ring at a time.
const TAKE: usize = 256 << 10;
// What is taken holds a whole message at least.
const _: () = assert!(TAKE > 2 * ring::MAX_MESSAGE);

/// Sends what comes, until the layer and all its threads are gone.
pub(crate) struct Writer {
    pub shared: Arc<Shared>,
    pub socket: PathBuf,
    pub source: String,
    pub rings: Vec<RingReader>,
    pub connection: Option<Connection>,
    pub retry: Option<(Instant, Duration)>,
    /// Records lost on the way out, to be reported on the next connection.
    pub lost: u64,
}

/// A connection to the agent.
pub(crate) struct Connection {
    stream: UnixStream,
    encoder: Encoder,
}

impl Writer {
    /// Runs until the process ends: the layer is mostly global.
    pub(crate) fn run(mut self) {
        let mut taken = Vec::new();
        loop {
            let wanted = self.shared.flushes.0.load(Ordering::Acquire);
            let mut all = false;
            if self.connect() {
                taken.clear();
                all = self.take(&mut taken);
                self.send(&taken);
            }
            // Whoever flushes does not wait for an agent that is not there.
            if all || self.connection.is_none() {
                // What has come since then is none of theirs.
                self.shared.flushes.1.store(wanted, Ordering::Release);
            }
            if taken.is_empty() || self.connection.is_none() {
                self.rest();
                if Arc::strong_count(&self.shared) == 1 && !self.pending() {
                    return;
                }
            }
            std::thread::sleep(GATHER);
        }
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self) {
        if let Some((again, _)) = self.retry
            && self.pending()
        {
            // Nobody needs to wake this one before it tries again.
            std::thread::park_timeout(again.saturating_duration_since(Instant::now()));
            return;
        }
        self.shared.idle.store(true, Ordering::Relaxed);
        // A thread looks whether this one sleeps after it has filled its ring.
        fence(Ordering::SeqCst);
        if !self.pending() {
            std::thread::park_timeout(Duration::from_secs(60));
        }
        self.shared.idle.store(false, Ordering::Relaxed);
    }

    /// Whether there is something to send.
    fn pending(&self) -> bool {
        self.rings.iter().any(|reader| !reader.ring.is_empty() || reader.lost.load(Ordering::Relaxed) > 0)
            || self.shared.lost.load(Ordering::Relaxed) > 0
            || !self.shared.new_rings.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Has a connection, or not yet.
    fn connect(&mut self) -> bool {
        if self.connection.is_some() {
            return true;
        }
        if self.retry.is_some_and(|(again, _)| Instant::now() < again) {
            return false;
        }
        match Connection::open(self) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.retry = None;
                true
            }
            Err(_) => {
                // Nobody to tell: the program's own output is not ours. The agent counts what is missed.
                let pause = self.retry.map_or(RETRY.0, |(_, pause)| (pause * 2).min(RETRY.1));
                self.retry = Some((Instant::now() + pause, pause));
                false
            }
        }
    }

    /// Empties the rings, as far as there is something in them now. Whether that is all of it.
    fn take(&mut self, taken: &mut Vec<u8>) -> bool {
        let mut all = true;
        self.rings.append(&mut self.shared.new_rings.lock().unwrap_or_else(PoisonError::into_inner));
        let mut message = Vec::new();
        self.rings.retain_mut(|RingReader { ring, lost }| {
            // Before the ring is looked into: what a thread wrote last is in it then.
            let gone = ring.is_abandoned();
            let count = lost.load(Ordering::Acquire);
            let (start, slots) = (taken.len(), ring.slots());
            taken.resize(start + slots.min(TAKE), 0);
            // Messages are put into the ring as a whole, but may be taken in parts.
            let whole = whole_messages(ring, &mut taken[start..]);
            taken.truncate(start + whole);
            all &= whole == slots;
            // Unless the thread has told them itself meanwhile, in front of what came after.
            let alone = whole == slots && count > 0;
            if alone && lost.compare_exchange(count, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                message::lost(&mut message, ring::now(), count);
                taken.extend_from_slice(&message);
            }
            !(gone && ring.is_empty() && lost.load(Ordering::Relaxed) == 0)
        });
        // Of threads that have no ring any more, or are in the middle of a message.
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            message::lost(&mut message, ring::now(), lost);
            taken.extend_from_slice(&message);
        }
        all
    }

    /// Writes messages out, in the order of time.
    fn send(&mut self, taken: &[u8]) {
        let mut messages: Vec<(i64, &[u8])> = message::split(taken).collect();
        // Each thread's are in order, and stay so at the same nanosecond: the sort is stable.
        messages.sort_by_key(|(time, _)| *time);
        // Copied, so that no thread that meets a new callsite waits for the agent to read.
        let sites = self.shared.sites.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut unsent = Unsent { bytes: Vec::with_capacity(taken.len()), records: 0 };
        let mut fields = Vec::new();
        for (time, message) in messages {
            match message::read(message) {
                Some(message) => self.encode(time, message, &sites, &mut fields, &mut unsent),
                None => debug_assert!(false, "the rings hold what this crate has put there"),
            }
        }
        if let Some(connection) = &mut self.connection
            && connection.write(&unsent.bytes).is_err()
        {
            // Some of it may have arrived. To count that as lost is the safe side: nothing is ever missing in silence.
            self.connection = None;
            self.lost += unsent.records;
        }
    }

    /// Adds one message to what is to be written. `fields` is memory to use again.
    fn encode<'a>(
        &mut self,
        time: i64,
        message: Message<'a>,
        sites: &[&'static Metadata<'static>],
        fields: &mut Vec<(&'a [u8], Value<'a>)>,
        unsent: &mut Unsent,
    ) {
        let Some(connection) = &mut self.connection else {
            self.lost += message.records();
            return;
        };
        let (kind, site, origin, mut packed) = match message {
            Message::Lost(count) => {
                connection.encoder.missed(count, time, &mut unsent.bytes);
                unsent.records += count;
                return;
            }
            Message::Record { kind, site, span, parent, fields } => (kind, site, (span, parent), fields),
        };
        let Some(metadata) = sites.get(site as usize) else {
            debug_assert!(false, "a callsite is in the list before a message that names it is in a ring");
            return;
        };
        fields.clear();
        let names = metadata.fields();
        while let Some((index, value)) = message::next_field(&mut packed) {
            let name = names.iter().nth(index).map_or("", |field| field.name());
            fields.push((name.as_bytes(), value));
        }
        let text =
            |(name, value): &(&[u8], Value<'_>)| *name == b"message" && matches!(value, Value::Text(_));
        let text = fields.iter().position(text).map(|at| fields.remove(at).1);
        let record = record(metadata, kind, origin, time, &text, fields);
        match connection.encoder.record(&record, &mut unsent.bytes) {
            Ok(()) => unsent.records += 1,
            Err(EncodeError::TooManyNames) => {
                // A new connection starts with no names. What was encoded for this one goes out before it is closed.
                let failed = connection.write(&unsent.bytes).is_err();
                self.lost += 1 + u64::from(failed) * unsent.records;
                *unsent = Unsent::default();
                self.connection = None;
                self.retry = None;
                self.connect();
            }
            // Such a name can never be sent: the record is lost, and the connection goes on.
            Err(_) => {
                connection.encoder.missed(1, time, &mut unsent.bytes);
                unsent.records += 1;
            }
        }
    }
}

/// What is encoded for a connection and not written yet.
#[derive(Default)]
struct Unsent {
    bytes: Vec<u8>,
    /// Records in it, those reported as lost included.
    records: u64,
}

/// Takes whole messages only, as many as fit; their bytes.
fn whole_messages(ring: &mut Consumer<u8>, out: &mut [u8]) -> usize {
    let Ok(chunk) = ring.read_chunk(out.len()) else { return 0 };
    let (first, second) = chunk.as_slices();
    let (front, back) = out.split_at_mut(first.len());
    front.copy_from_slice(first);
    back.copy_from_slice(second);
    let whole = message::split(out).map(|(_, message)| message.len() + 4).sum();
    chunk.commit(whole);
    whole
}

fn record<'a>(
    metadata: &Metadata<'static>,
    kind: u8,
    (span, parent): (u64, u64),
    time: i64,
    message: &Option<Value<'a>>,
    fields: &'a [(&'a [u8], Value<'a>)],
) -> Record<'a> {
    let severity = match *metadata.level() {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warning,
        Level::INFO => Severity::Info,
        Level::DEBUG => Severity::Debug,
        _ => Severity::Trace,
    };
    Record {
        time: Some(time),
        phase: match kind {
            message::START => Phase::Start,
            message::END => Phase::End,
            _ => Phase::Point,
        },
        source: None,
        // The name of an event is its place in the source code: its target groups better.
        event_type: Some(if metadata.is_span() { metadata.name() } else { metadata.target() }.as_bytes()),
        severity: Some(severity.word().as_bytes()),
        id: (span != 0).then_some(Id::U64(span)),
        parent: (parent != 0).then_some(Id::U64(parent)),
        message: match message {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        },
        fields,
    }
}

impl Connection {
    fn open(writer: &mut Writer) -> io::Result<Connection> {
        let stream = UnixStream::connect(&writer.socket)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder.source(&writer.source, &mut out).map_err(io::Error::other)?;
        if writer.lost > 0 {
            encoder.missed(writer.lost, ring::now(), &mut out);
        }
        let mut connection = Connection { stream, encoder };
        connection.write(&out)?;
        writer.lost = 0;
        Ok(connection)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }
}

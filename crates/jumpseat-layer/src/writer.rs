//! The thread that sends what is in the rings of the traced threads.
//!
//! It takes everything there is, puts it in the order of time, and writes it to the agent's ingest socket in the
//! binary framing. While there is no connection it leaves the rings alone: they fill, and what does not fit is
//! counted where it was lost.
//!
//! Rings in the file are for the agent, too: each connection begins with the file's descriptor, and each chunk of
//! messages with where it lies in the rings. If the connection ends and the program did not say that it left it, the agent
//! goes on where the stream broke off.

use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use jumpseat_wire::encode::Encoder;
use jumpseat_wire::ring::chunk::{put_chunk, put_rings};
use jumpseat_wire::ring::head;
use jumpseat_wire::ring::merge::Item;
use jumpseat_wire::ring::transcribe::Transcriber;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::chunk::Chunk;
use crate::memory::RingFile;
use crate::ring::Ring;
use crate::shared::Shared;
use crate::thread::now;

/// Messages are gathered for so long before they are sent.
const GATHER: Duration = Duration::from_millis(2);
/// How long the agent may take to read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pauses between attempts to connect: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Sends what comes, until the layer and all its threads are gone.
pub(crate) struct Writer {
    pub shared: Arc<Shared>,
    pub socket: PathBuf,
    pub source: String,
    pub rings: Vec<Arc<Ring>>,
    pub connection: Option<Connection>,
    /// How many there were: their numbers.
    pub connections: u64,
    pub retry: Option<(Instant, Duration)>,
}

/// A connection to the agent.
pub(crate) struct Connection {
    stream: UnixStream,
    encoder: Encoder,
    /// Something could not be written.
    is_broken: bool,
}

impl Writer {
    /// Runs until the process ends: the layer is mostly global.
    pub(crate) fn run(mut self) {
        let mut chunks = [Chunk::new(true), Chunk::new(false)];
        loop {
            let wanted = self.shared.flushes.0.load(Ordering::Acquire);
            let (mut all, mut sent) = (false, false);
            if self.connect() {
                (all, sent) = self.pass(&mut chunks);
            }
            // Whoever flushes does not wait for an agent that is not there.
            if all || self.connection.is_none() {
                // What has come since then is none of theirs.
                self.shared.flushes.1.store(wanted, Ordering::Release);
            }
            if !sent || self.connection.is_none() {
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
        let [lost, told] = self.shared.lost();
        self.rings.iter().any(|ring| !ring.is_empty())
            || lost.load(Ordering::Relaxed) != told.load(Ordering::Relaxed)
            || self.shared.has_new()
    }

    /// Has a connection, or not yet.
    fn connect(&mut self) -> bool {
        if self.connection.is_some() {
            return true;
        }
        if self.retry.is_some_and(|(again, _)| Instant::now() < again) {
            return false;
        }
        self.connections += 1;
        match Connection::open(self) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.retry = None;
                true
            }
            Err(_) => {
                self.leave();
                // Nobody to tell: the program's own output is not ours. The agent counts what is missed.
                let pause = self.retry.map_or(RETRY.0, |(_, pause)| (pause * 2).min(RETRY.1));
                self.retry = Some((Instant::now() + pause, pause));
                false
            }
        }
    }

    /// Ends the connection. What is in the rings is for the next one: the agent of this one is told before it can see the
    /// end.
    fn leave(&mut self) {
        if let Some(file) = self.shared.file() {
            file.head(head::LEFT).store(self.connections, Ordering::Release);
        }
        self.connection = None;
    }

    /// Sends what is in the rings, as far as there is something in them now: whether that is all of it, and whether there
    /// was anything.
    fn pass(&mut self, chunks: &mut [Chunk; 2]) -> (bool, bool) {
        self.shared.take_new(&mut self.rings);
        // Before the rings are looked into: what a thread wrote last is in its ring then.
        let left: Vec<bool> = self.rings.iter().map(|ring| ring.is_left()).collect();
        let (mut all, mut sent) = (true, false);
        for chunk in chunks {
            all &= chunk.fill(&self.rings, &self.shared);
            if !chunk.is_empty() {
                sent = true;
                self.send(chunk);
                chunk.release(&self.shared);
                // Not before its losses are counted.
                if self.connection.as_ref().is_some_and(|connection| connection.is_broken) {
                    self.leave();
                }
            }
        }
        let mut left = left.into_iter();
        self.rings.retain(|ring| {
            let done = left.next() == Some(true) && ring.is_empty();
            if done {
                self.shared.put_back(ring);
            }
            !done
        });
        (all, sent)
    }

    /// Writes a chunk out, in the order of time. What may not have arrived is counted as lost.
    fn send(&mut self, chunk: &Chunk) {
        // Copied, so that no thread that meets a new callsite waits for the agent to read.
        let sites = self.shared.sites();
        let mut transcriber = Transcriber::new(&sites, now());
        let mut unsent = Unsent { bytes: Vec::with_capacity(chunk.len()), records: 0 };
        self.announce(chunk, 0, &mut unsent);
        for (index, item) in chunk.items().enumerate() {
            unsent.records += records(&item);
            let Some(connection) = &mut self.connection else { continue };
            if transcriber.put(&item, &mut connection.encoder, &mut unsent.bytes).is_ok() {
                continue;
            }
            // A new connection starts with no names. What was encoded for this one goes out before it is closed.
            unsent.records -= records(&item);
            self.write(&mut unsent);
            self.leave();
            self.retry = None;
            unsent.records += records(&item);
            if self.connect() {
                self.announce(chunk, index as u64, &mut unsent);
                if let Some(connection) = &mut self.connection
                    && transcriber.put(&item, &mut connection.encoder, &mut unsent.bytes).is_err()
                {
                    debug_assert!(false, "a connection has room for the names of one message");
                    connection.encoder.missed(1, now(), &mut unsent.bytes);
                }
            }
        }
        self.write(&mut unsent);
    }

    /// Says where the messages that follow are in the rings, but for the first.
    fn announce(&mut self, chunk: &Chunk, skipped: u64, unsent: &mut Unsent) {
        if self.shared.file().is_some() {
            put_chunk(&mut unsent.bytes, skipped, if chunk.in_file { &chunk.parts } else { &[] });
        }
    }

    /// Writes what was encoded. On failure some of it may have arrived: to count that as lost is the safe side, as nothing
    /// is ever missing in silence. The connection is broken then, but not left yet.
    fn write(&mut self, unsent: &mut Unsent) {
        let written = self.connection.as_mut().is_some_and(|connection| connection.write(&unsent.bytes));
        if !written {
            self.shared.lose(unsent.records);
        }
        unsent.records = 0;
        unsent.bytes.clear();
    }
}

/// What is encoded for a connection and not written yet.
struct Unsent {
    bytes: Vec<u8>,
    /// Records in it, those reported as lost included.
    records: u64,
}

/// How many records are lost if it is not sent.
fn records(item: &Item<'_>) -> u64 {
    match item {
        Item::Message(_) => 1,
        Item::Missed(count, _) => *count,
    }
}

impl Connection {
    fn open(writer: &Writer) -> io::Result<Connection> {
        let stream = UnixStream::connect(&writer.socket)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder.source(&writer.source, &mut out).map_err(io::Error::other)?;
        let mut connection = Connection { stream, encoder, is_broken: false };
        let sent = match writer.shared.file() {
            Some(file) => {
                put_rings(&mut out, writer.connections);
                connection.send_with(&out, file)?
            }
            None => 0,
        };
        connection.stream.write_all(&out[sent..])?;
        Ok(connection)
    }

    /// Writes bytes, unless some before them could not be written. Whether all is well.
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.is_broken = self.is_broken || self.stream.write_all(bytes).is_err();
        !self.is_broken
    }

    /// Sends bytes, with them the descriptor of the rings; how many went out.
    fn send_with(&mut self, bytes: &[u8], file: &RingFile) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [file.file.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        Ok(sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
    }
}

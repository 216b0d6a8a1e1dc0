//! The thread that sends what is in the rings of the traced threads.
//!
//! It takes everything there is, a chunk at a time, and has the agent of this machine read it out of the rings' file. For an agent
//! that does not, or is elsewhere, it puts the chunk in the order of time, and writes it to the agent's ingest socket in the binary
//! framing, with numbers. A chunk stays in the rings until the agent says that it is committed; if the connection
//! breaks, the next one begins with the first that is not; if it broke when the agent was to read a chunk, with frames. While there is no connection the rings fill, and what does not fit
//! is counted where it was lost.
//!
//! Rings in the file are for the agent, too: each connection begins with the file's descriptor, and each chunk stands in the
//! file's table before it is sent. If the connection ends and the program did not say that it left it, the agent sends what
//! was not acknowledged, and what is in no chunk yet, in the program's place: with the same numbers, so that each comes once.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jumpseat_wire::ring::merge::Item;
use jumpseat_wire::ring::site::Site;
use jumpseat_wire::ring::{CHUNKS, head};

use crate::chunk::Chunk;
use crate::clock::now;
use crate::connection::Connection;
use crate::ring::Ring;
use crate::shared::Shared;
use crate::target::Target;

/// Messages are gathered for so long before they are sent.
const GATHER: Duration = Duration::from_millis(2);
/// Frames are written when there are so many bytes of them: they do not leave the processor's cache until then.
const WRITE: usize = 64 << 10;
/// Longest wait for an acknowledgement before the rings are looked into again.
const LOOK: Duration = Duration::from_millis(50);
/// Longest sleep while nothing is traced.
const SLEEP: Duration = Duration::from_secs(60);

/// Sends what comes, until the layer and all its threads are gone.
pub(crate) struct Writer {
    pub shared: Arc<Shared>,
    pub target: Arc<dyn Target>,
    pub source: String,
    /// Who it is to the agent.
    pub sender: String,
    rings: Vec<Arc<Ring>>,
    connection: Option<Connection>,
    /// How many there were: their numbers.
    connections: u64,
    retry: Option<(Instant, Duration)>,
    /// The last connection ended when the agent was to read a chunk and had not yet: this one gets frames.
    is_distrusted: bool,
    /// Chunks that were not acknowledged, and how many of them were sent on this connection.
    unacknowledged: VecDeque<Chunk>,
    sent: usize,
    /// How many chunks there were, and the number of the next item.
    chunks: u64,
    next: u64,
    /// All callsites so far, by their numbers.
    sites: Vec<Arc<Site>>,
    /// Messages of a chunk, and their frames.
    messages: Vec<u8>,
    frames: Vec<u8>,
}

impl Writer {
    /// One that sends there, under the name of this source.
    pub(crate) fn new(
        shared: Arc<Shared>,
        target: Arc<dyn Target>,
        source: String,
        sender: String,
    ) -> Writer {
        Writer {
            shared,
            target,
            source,
            sender,
            rings: Vec::new(),
            connection: None,
            connections: 0,
            retry: None,
            is_distrusted: false,
            unacknowledged: VecDeque::new(),
            sent: 0,
            chunks: 0,
            next: 1,
            sites: Vec::new(),
            messages: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Runs until the process ends: the layer is mostly global.
    pub(crate) fn run(mut self) {
        loop {
            let wanted = self.shared.flushes.0.load(Ordering::Acquire);
            let (mut all, mut sent) = (false, false);
            if self.connect() {
                (all, sent) = self.pass();
            }
            // Whoever flushes does not wait for an agent that is not there.
            if all || self.connection.is_none() {
                // What has come since then is none of theirs.
                self.shared.flushes.1.store(wanted, Ordering::Release);
            }
            if !sent || self.connection.is_none() {
                self.rest();
                if Arc::strong_count(&self.shared) == 1 && !self.pending() && self.unacknowledged.is_empty() {
                    return;
                }
            }
            std::thread::sleep(GATHER);
        }
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self) {
        if let (None, Some((again, _))) = (&self.connection, self.retry)
            && self.pending()
        {
            // Nobody needs to wake this one before it tries again.
            std::thread::park_timeout(again.saturating_duration_since(Instant::now()));
            return;
        }
        if self.connection.is_some() && !self.unacknowledged.is_empty() {
            // Nobody wakes this one before: it looks by itself whether there is more.
            return self.acknowledge(Some(LOOK));
        }
        let is_woken = self.shared.sleep.begin();
        if !self.pending() {
            std::thread::park_timeout(if is_woken { SLEEP } else { LOOK });
        }
        self.shared.sleep.end();
    }

    /// Whether there is something to send.
    fn pending(&self) -> bool {
        self.sent < self.unacknowledged.len()
            || self.rings.iter().any(|ring| !ring.is_sent())
            || self.shared.lost().load(Ordering::Relaxed) != self.shared.sent_told()
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
        let first = self.unacknowledged.front().map_or(self.next, |chunk| chunk.numbers().0);
        let file = self.shared.file().map(|file| (file, self.connections));
        match Connection::open(&*self.target, &self.source, &self.sender, first, file) {
            Ok(connection) => {
                let known = connection.committed;
                self.connection = Some(connection);
                self.shared.set_trouble(None);
                self.release(known);
                true
            }
            Err(error) => {
                self.lose(&error);
                false
            }
        }
    }

    /// There is no connection, or none any more. The next one waits for a while, longer each time, until something is committed on
    /// one: after that, the next one is tried at once.
    fn lose(&mut self, error: &io::Error) {
        let had_progress = self.connection.as_ref().is_some_and(Connection::has_progress);
        self.is_distrusted = !had_progress && self.has_refused();
        self.leave();
        // The program's own output is not ours: whoever wants to know asks. The agent counts what is missed.
        self.shared.set_trouble(Some(format!("{}: {error}", self.target.place())));
        let (first, longest) = self.target.pauses();
        self.retry = match self.retry {
            _ if had_progress => None,
            None => Some((Instant::now() + spread(first), first)),
            Some((_, pause)) => {
                let pause = (pause * 2).min(longest);
                Some((Instant::now() + spread(pause), pause))
            }
        };
    }

    /// Whether there is a chunk that the agent was to read on this connection and has not.
    fn has_refused(&self) -> bool {
        let Some(connection) = &self.connection else { return false };
        let mut sent = self.unacknowledged.iter().take(self.sent).enumerate();
        sent.any(|(place, chunk)| chunk.is_handed_over && !connection.has_read(self.number_of(place)))
    }

    /// Ends the connection. What is not acknowledged is for the next one: the agent of this one is told before it can see
    /// the end.
    fn leave(&mut self) {
        if let Some(file) = self.shared.file() {
            file.head(head::LEFT).store(self.connections, Ordering::Release);
        }
        (self.connection, self.sent) = (None, 0);
    }

    /// Takes in what the agent says; waits so long for it.
    fn acknowledge(&mut self, wait: Option<Duration>) {
        let Some(connection) = &mut self.connection else { return };
        let read = connection.read(wait);
        let committed = connection.committed;
        if connection.has_progress() {
            self.retry = None;
        }
        self.release(committed);
        if let Err(error) = read {
            self.lose(&error);
        }
    }

    /// Everything up to this number is committed.
    fn release(&mut self, committed: u64) {
        while self.unacknowledged.front().is_some_and(|chunk| chunk.numbers().1 <= committed + 1) {
            self.release_first();
        }
    }

    /// Makes room in rings that are nearly full at the cost of what was sent and is not acknowledged yet: it would be missed
    /// if the agent died now. What does not fit is missed for sure.
    fn relieve(&mut self) {
        while self.sent > 0 && self.rings.iter().any(|ring| ring.is_tight()) && self.has_left() {
            self.release_first();
        }
    }

    /// Whether the agent no longer needs the first chunk to be in the rings.
    fn has_left(&self) -> bool {
        let (Some(connection), Some(chunk)) = (&self.connection, self.unacknowledged.front()) else {
            return false;
        };
        !chunk.is_handed_over || connection.has_read(self.number_of(0))
    }

    /// The number of a chunk that was not acknowledged.
    fn number_of(&self, place: usize) -> u64 {
        self.chunks - (self.unacknowledged.len() - place) as u64
    }

    fn release_first(&mut self) {
        if let Some(chunk) = self.unacknowledged.front() {
            if let Some(file) = self.shared.file() {
                // Before its room is given to other messages.
                let first = file.head(head::FIRST);
                first.store(first.load(Ordering::Relaxed) + 1, Ordering::Release);
            }
            chunk.release(&self.shared);
            self.unacknowledged.pop_front();
            self.sent = self.sent.saturating_sub(1);
        }
    }

    /// Sends what is in the rings, as far as there is something in them now: whether that is all of it and is acknowledged,
    /// and whether there was anything.
    fn pass(&mut self) -> (bool, bool) {
        self.acknowledge(None);
        self.relieve();
        self.shared.take_new(&mut self.rings);
        // Before the rings are looked into: what a thread wrote last is in its ring then.
        let left: Vec<bool> = self.rings.iter().map(|ring| ring.is_left()).collect();
        let (mut all, mut sent) = (true, false);
        while self.connection.is_some() && self.sent < self.unacknowledged.len() {
            self.send();
            sent = true;
        }
        for in_file in [true, false] {
            if self.connection.is_none() || self.unacknowledged.len() as u64 >= CHUNKS {
                all = false;
                break;
            }
            let (rings, shared) = (&self.rings, &self.shared);
            let (chunk, is_all) = Chunk::take(in_file, self.next, rings, shared);
            all &= is_all;
            if let Some(chunk) = chunk {
                self.enter(chunk);
                self.send();
                sent = true;
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
        (all && self.unacknowledged.is_empty(), sent)
    }

    /// Notes a chunk, before it is sent.
    fn enter(&mut self, chunk: Chunk) {
        if let Some(file) = self.shared.file() {
            file.set_chunk(self.chunks, &chunk.entry());
        }
        chunk.is_sent(&self.shared);
        self.chunks += 1;
        self.next = chunk.numbers().1;
        self.unacknowledged.push_back(chunk);
    }

    /// Has the agent read the next chunk, or writes it out, but for what the agent has already.
    fn send(&mut self) {
        let in_table = self.number_of(self.sent);
        let (Some(connection), Some(chunk)) = (&mut self.connection, self.unacknowledged.get_mut(self.sent))
        else {
            return;
        };
        let (first, next) = chunk.numbers();
        let is_readable = chunk.is_readable() && self.shared.has_all_sites();
        chunk.is_handed_over =
            connection.has_reader() && is_readable && first == connection.position && !self.is_distrusted;
        if chunk.is_handed_over {
            self.sent += 1;
            if let Err(error) = connection.hand_over(in_table, next) {
                self.lose(&error);
            }
            return;
        }
        chunk.read(&mut self.messages);
        // Copied, so that no thread that meets a new callsite waits for the agent to read.
        self.shared.take_sites(&mut self.sites);
        let (threads, now) = (chunk.threads(), now());
        self.frames.clear();
        let mut number = first;
        let (mut is_full, mut written) = (false, Ok(()));
        for item in chunk.items(&self.messages, &threads) {
            let numbers = item.numbers();
            number += numbers;
            let known = connection.position.saturating_sub(number - numbers);
            if known >= numbers {
                continue;
            }
            let item = match item {
                Item::Missed(count, time) => Item::Missed(count - known, time),
                message => message,
            };
            if connection.transcriber.put(&item, (&self.sites, now), &mut self.frames).is_err() {
                is_full = true;
                break;
            }
            connection.position = number;
            if self.frames.len() >= WRITE {
                written = connection.write(&self.frames);
                self.frames.clear();
            }
            if written.is_err() {
                break;
            }
        }
        self.sent += 1;
        written = written.and_then(|()| connection.write(&self.frames));
        if is_full {
            written = written.and_then(|()| connection.finish());
        }
        if let Err(error) = written {
            return self.lose(&error);
        }
        if is_full {
            // A new connection starts with no names; what was sent on this one is not sent again.
            let committed = connection.committed;
            self.release(committed);
            self.leave();
            self.retry = None;
        }
    }
}

/// A pause, up to a quarter shorter: an agent that comes back is not called by all programs at the same moment.
fn spread(pause: Duration) -> Duration {
    let chance = RandomState::new().hash_one(std::process::id()) % 1024;
    pause - pause.mul_f64(chance as f64 / 4096.0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    use jumpseat_wire::ring::chunk::put_read;
    use jumpseat_wire::{CHUNK, KNOWN, RECORD, frame, put_known};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn an_agent_that_ends_each_connection_is_left_alone_for_a_while() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let layer = crate::layer().source("shop").socket(&socket);
        let guard = layer.guard();
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || tracing::info!("pending"));
        listener.set_nonblocking(true).expect("ours");
        let (until, mut connections) = (Instant::now() + Duration::from_secs(1), 0);
        while Instant::now() < until {
            let Ok((mut served, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            connections += 1;
            served.set_nonblocking(false).expect("ours");
            served.set_read_timeout(Some(Duration::from_secs(5))).expect("ours");
            assert!(served.read(&mut [0; 4096]).expect("its greeting") > 0);
            served.write_all(&[KNOWN, 1, 0]).expect("it reads");
        }
        // After 100, 200, 400 and 800 ms, each up to a quarter shorter.
        assert!((2..=6).contains(&connections), "{connections}");
        drop(listener);
        let start = Instant::now();
        while guard.trouble().is_none_or(|trouble| !trouble.contains("socket: ")) {
            assert!(start.elapsed() < Duration::from_secs(5), "no trouble is told");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until it is so.
    fn until(what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_an_agent_is_to_read_stays_until_it_has_read_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let layer = crate::layer().source("shop").socket(&socket).buffer(4096);
        let shared = Arc::clone(&layer.shared);
        let word = |at: usize| shared.file().expect("there is memory").head(at).load(Ordering::Acquire);
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("first");
            let (mut agent, _) = listener.accept().expect("it connects");
            let mut said = vec![0; 4096];
            let len = agent.read(&mut said).expect("its greeting");
            assert!(len > 0);
            let mut answer = Vec::new();
            put_read(&mut answer, 0);
            put_known(&mut answer, 0);
            agent.write_all(&answer).expect("it reads");
            // More than there is room for.
            let trace = || (0..400).for_each(|number| tracing::info!(number, "more"));
            until("a second chunk", || {
                trace();
                word(head::NEXT) > 1
            });
            for _ in 0..10 {
                trace();
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(word(head::FIRST), 0, "nobody has read it");
            agent.set_nonblocking(true).expect("ours");
            let len = agent.read(&mut said).expect("chunks");
            let (mut rest, mut chunks) = (&said[..len], Vec::new());
            while let Some((kind, payload, len)) = frame(rest) {
                assert_ne!(kind, RECORD);
                // The rest of its greeting may come first.
                chunks.extend((kind == CHUNK).then(|| u64::from(payload[0])));
                rest = &rest[len..];
            }
            assert!(chunks.len() > 1 && chunks.iter().copied().eq(0..chunks.len() as u64), "{chunks:?}");
            answer.clear();
            put_read(&mut answer, 1);
            agent.write_all(&answer).expect("it reads");
            until("room is made of what was read", || {
                trace();
                word(head::FIRST) > 0
            });
            assert_eq!(word(head::FIRST), 1, "and of nothing else");
        });
    }

    #[test]
    fn an_agent_that_ends_the_connection_in_place_of_reading_gets_frames() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let layer = crate::layer().source("shop").socket(&socket);
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            // The kind of the first frame with something in it, on a connection of an agent that reads rings; it ends after that, having
            // committed it or not.
            let connection = |commits: bool| {
                tracing::info!("an event");
                let (mut agent, _) = listener.accept().expect("it connects");
                agent.set_read_timeout(Some(Duration::from_secs(20))).expect("ours");
                let mut answer = Vec::new();
                put_read(&mut answer, 0);
                put_known(&mut answer, 0);
                agent.write_all(&answer).expect("it reads");
                let (mut said, mut at) = (Vec::new(), jumpseat_wire::HELLO.len());
                loop {
                    let mut piece = [0; 4096];
                    let len = agent.read(&mut piece).expect("frames");
                    said.extend_from_slice(&piece[..len]);
                    while let Some((kind, _, len)) = frame(said.get(at..).unwrap_or_default()) {
                        at += len;
                        if kind == CHUNK || kind == RECORD {
                            if commits {
                                let mut answer = Vec::new();
                                jumpseat_wire::put_committed(&mut answer, 1, false, 0);
                                agent.write_all(&answer).expect("it reads");
                                // An end with frames that were not read would come before what was said.
                                std::thread::sleep(Duration::from_millis(300));
                            }
                            return kind;
                        }
                    }
                }
            };
            assert_eq!([false, true, false].map(connection), [CHUNK, RECORD, CHUNK]);
        });
    }
}

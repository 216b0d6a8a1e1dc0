//! The ingest socket: a thread with a mio event loop that serves all connections.
//!
//! Connections take turns: each gets one read of up to 256 KiB a round. Everything is handed over when there is nothing more to
//! read, and each millisecond, so that no sender can starve the others or delay their records. A connection holds memory of its
//! own only for an incomplete line and for replies not yet read; both are bounded.
//!
//! **Cost:** two system calls a round and connection (one to find that there is no more). Bytes are
//! parsed where `read` put them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use mio::net::{UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};
use pcp_net::{End, Life, Limiter, PeerCredentials, UnixListening, Worker, next_connection};
use rustc_hash::FxHashMap;
use slab::Slab;

use super::config::{DEFAULT_GROUP, SocketConfig};
use super::delivery::Peer;
use super::event::Limits;
use super::intake::{Intake, Shared};
use super::origin::Origin;
use super::outlet::Outlet;
use super::start::StartError;
use nix::unistd::{Gid, getegid, geteuid, getgroups};
use pcp_model::Timestamp;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Most bytes of one read.
const READ_BYTES: usize = 256 * 1024;
/// What a frame has besides its payload, which is bounded like a line.
const FRAME_HEAD: usize = 16;
/// How long records may wait for others while there is more to read.
const FLUSH: Duration = Duration::from_millis(1);
/// Replies a client may leave unread before it is dropped.
const MAX_UNREAD: usize = 64 * 1024;
/// An incomplete line's buffer is given back when it was larger than this.
const KEEP_CARRY: usize = 4 * 1024;
/// How long a client may take to read its summary.
const LINGER: Duration = Duration::from_secs(5);
/// After so long without a byte a connection gives way to whoever comes, once all places are taken.
const SILENT: Duration = Duration::from_secs(60);
/// How soon to try again to hand over what did not fit the core's channel.
const RETRY: Duration = Duration::from_millis(20);
/// How soon to try again to accept when there were no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);
/// Told to a client beyond the limit of connections.
const TOO_MANY: &[u8] = b"{\"error\":\"too many connections\"}\n";

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);

/// What the thread counts about its connections. Read without locks.
#[derive(Debug, Default)]
pub struct SocketStats {
    /// Connections open now.
    pub connections: AtomicU64,
    /// Connections accepted so far.
    pub accepted: AtomicU64,
    /// Connections turned away so far: too many, or no descriptors left.
    pub refused: AtomicU64,
    /// Connections closed so far because they were silent and others waited for a place.
    pub silent: AtomicU64,
    /// Connections dropped so far because the client did not read its replies.
    pub unread: AtomicU64,
}

/// A running socket source. Dropping it stops the thread and removes the socket.
#[derive(Debug)]
pub struct SocketSource {
    worker: Option<Worker>,
    /// The thread's counters.
    pub stats: Arc<SocketStats>,
}

impl SocketSource {
    /// Listens, and starts the thread. Deliveries go to `out`; `wake` is called after each.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: &SocketConfig, outlet: &Outlet) -> Result<SocketSource, StartError> {
        config.validate().map_err(StartError::Config)?;
        let stats = Arc::new(SocketStats::default());
        let (config, of_lives, of_thread) = (config.clone(), outlet.clone(), Arc::clone(&stats));
        // Names before anything can be seen of it.
        let shared = SocketSource::shared(&config, &of_lives)?;
        // It outlives the thread's lives: between two of them, senders wait.
        let group = group_of(&config)?;
        let listening = UnixListening::bind_for(&config.path, config.mode, group, &outlet.kept)?;
        let listening = Arc::new(listening);
        let system = StartError::system("the socket source");
        let first = Service::life(&config, shared, &listening, &stats).map_err(&system)?;
        let again = move || {
            let shared = SocketSource::shared(&config, &of_lives)?;
            Service::life(&config, shared, &listening, &of_thread)
                .map_err(StartError::system("the socket source"))
        };
        let worker = Worker::kept("jumpseat-socket", &outlet.restarts, first, again).map_err(&system)?;
        Ok(SocketSource { worker: Some(worker), stats })
    }

    /// What all connections share.
    fn shared(config: &SocketConfig, outlet: &Outlet) -> Result<Shared, StartError> {
        let mut lanes = outlet.lanes(Duration::from_millis(config.patience_ms));
        let address = config.path.display().to_string();
        lanes.default_origin(Origin { kind: "socket", address, service: None });
        let mut shared = Shared::new(lanes, Limits::from(config), &config.source)
            .map_err(StartError::source(&config.source))?;
        shared.default_clock = config.clock;
        Ok(shared)
    }
}

impl Drop for SocketSource {
    fn drop(&mut self) {
        self.worker = None;
        // What was counted is told on; its connections have ended.
        self.stats.connections.store(0, Ordering::Relaxed);
    }
}

struct Conn {
    stream: UnixStream,
    /// Whose it is.
    uid: Option<u32>,
    /// When something came last.
    heard: Instant,
    intake: Intake,
    /// The sender is gone, and what it left is being taken over.
    inherits: bool,
    /// An incomplete line.
    carry: Vec<u8>,
    /// Replies not yet written.
    replies: Vec<u8>,
    written: usize,
    /// The client has stopped listening.
    deaf: bool,
    /// In the queue of those that may have something to read.
    queued: bool,
    /// In the list of those that are to be told what is committed.
    tells: bool,
    /// The summary is queued; gone when it is written, or at this time.
    closing: Option<Instant>,
}

struct Service {
    poll: Poll,
    listener: UnixListener,
    shared: Shared,
    max_connections: usize,
    /// By token, which is also the connection's number in the lanes.
    conns: Slab<Conn>,
    /// The epoch in which their sources were kept last.
    kept: u32,
    /// Those that may have something to read, each once.
    ready: VecDeque<usize>,
    /// When everything was handed over last.
    flushed: Instant,
    /// Those of senders that are to be told what is committed.
    telling: VecDeque<usize>,
    /// Those that have only to read their summary.
    closing: Vec<usize>,
    /// When to accept: readiness is told once, so that a try that failed has to be made again unasked.
    accept_at: Option<Instant>,
    /// For the bytes of one read, whosever they are.
    buffer: Vec<u8>,
    stop: Arc<AtomicBool>,
    stats: Arc<SocketStats>,
    report: Limiter,
}

impl Service {
    /// A life of the thread: one poll, one set of connections.
    fn life(
        config: &SocketConfig,
        shared: Shared,
        listening: &UnixListening,
        stats: &Arc<SocketStats>,
    ) -> io::Result<Life> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let mut listener = UnixListener::from_std(listening.listener.try_clone()?);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let stop = Arc::new(AtomicBool::new(false));
        // Those of an earlier life have ended with it.
        stats.connections.store(0, Ordering::Relaxed);
        let mut service = Service {
            poll,
            listener,
            shared,
            max_connections: config.max_connections,
            conns: Slab::new(),
            kept: 0,
            ready: VecDeque::new(),
            flushed: Instant::now(),
            telling: VecDeque::new(),
            closing: Vec::new(),
            accept_at: None,
            // Room for what a connection carried over, and a whole read behind it.
            buffer: vec![0; config.max_line + FRAME_HEAD + READ_BYTES],
            stop: Arc::clone(&stop),
            stats: Arc::clone(stats),
            report: Limiter::new(3, Duration::from_secs(10)),
        };
        let stop = move || {
            stop.store(true, Ordering::Relaxed);
            // A thread that cannot be woken sees it at the next byte from anybody.
            let _ = waker.wake();
        };
        Ok(Life { run: Box::new(move || service.run()), stop: Box::new(stop) })
    }

    fn run(&mut self) -> End {
        let mut events = Events::with_capacity(256);
        while !self.stop.load(Ordering::Relaxed) && !self.shared.lanes.is_closed() {
            if let Err(error) = self.poll.poll(&mut events, self.timeout())
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::error!("the socket source stops: polling failed: {error}");
                self.shared.lanes.flush();
                return End::Broken;
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept_at = Some(Instant::now()),
                    WAKER => {}
                    Token(index) => {
                        if event.is_writable() {
                            self.write(index);
                        }
                        if event.is_readable() || event.is_read_closed() || event.is_error() {
                            self.enqueue(index);
                        }
                    }
                }
            }
            if self.accept_at.is_some_and(|at| at <= Instant::now()) {
                self.accept();
            }
            self.round();
            self.keep();
            if self.is_flush_due() {
                self.shared.lanes.flush();
                self.flushed = Instant::now();
                self.tell();
            }
            self.close_lingering();
        }
        // What was already read is not lost because of the stop.
        self.shared.lanes.flush();
        End::Asked
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let accept = self.accept_at.map(|at| at.saturating_duration_since(Instant::now()));
        let retry = self.shared.lanes.is_pending().then_some(RETRY);
        let linger = (!self.closing.is_empty()).then_some(LINGER / 5);
        // A connection that sends nothing keeps its source, too.
        let keep = (!self.conns.is_empty()).then(|| self.shared.lanes.period());
        [accept, retry, linger, keep].into_iter().flatten().min()
    }

    /// Everything leaves before the next wait, so that no record is as old as its connection is slow. As long as there is more
    /// to read, it is once in a while: a batch is the larger, and the cheaper for an event, the more has come of its source.
    fn is_flush_due(&self) -> bool {
        self.ready.is_empty() || self.flushed.elapsed() >= FLUSH
    }

    /// Keeps the sources of all connections, once an epoch.
    fn keep(&mut self) {
        let epoch = self.shared.lanes.epoch();
        if std::mem::replace(&mut self.kept, epoch) != epoch {
            self.conns.iter().for_each(|(_, conn)| conn.intake.keep(&mut self.shared.lanes));
        }
    }

    fn accept(&mut self) {
        self.accept_at = None;
        loop {
            match next_connection(|| self.listener.accept()) {
                Ok(Some((stream, _))) => self.admit(stream),
                Ok(None) => return,
                Err(error) => {
                    // Out of descriptors or memory: the connection stays in the backlog.
                    self.stats.refused.fetch_add(1, Ordering::Relaxed);
                    if let Some(held_back) = self.report.allow(Instant::now()) {
                        tracing::warn!(held_back, "cannot accept a connection: {error}");
                    }
                    self.accept_at = Some(Instant::now() + ACCEPT_RETRY);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, mut stream: UnixStream) {
        let peer =
            PeerCredentials::of(&stream).ok().map(|PeerCredentials { pid, uid, gid }| Peer { pid, uid, gid });
        if self.conns.len() >= self.max_connections {
            self.make_room(peer.map(|peer| peer.uid));
        }
        let open = self.conns.len();
        if open >= self.max_connections {
            self.stats.refused.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write(TOO_MANY);
            if let Some(held_back) = self.report.allow(Instant::now()) {
                tracing::warn!(open, held_back, "a connection was turned away: too many");
            }
            return;
        }
        let place = self.conns.vacant_entry();
        let index = place.key();
        // Both directions from the start: edge-triggered readiness costs nothing while nothing changes.
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut stream, Token(index), interest) {
            tracing::warn!("cannot poll a connection: {error}");
            return;
        }
        let intake = Intake::new(index as u32, peer, &self.shared);
        tracing::debug!(
            connection = index,
            pid = peer.map(|peer| peer.pid),
            uid = peer.map(|peer| peer.uid),
            gid = peer.map(|peer| peer.gid),
            "connected"
        );
        place.insert(Conn {
            stream,
            uid: peer.map(|peer| peer.uid),
            heard: Instant::now(),
            intake,
            inherits: false,
            carry: Vec::new(),
            replies: Vec::new(),
            written: 0,
            deaf: false,
            queued: false,
            tells: false,
            closing: None,
        });
        self.stats.accepted.fetch_add(1, Ordering::Relaxed);
        self.stats.connections.store(open as u64 + 1, Ordering::Relaxed);
        self.enqueue(index);
    }

    /// All places are taken: of the user with the most connections the one that has been silent for the longest time is
    /// closed, if somebody with fewer comes; of all users, if it has been silent for a while. So nobody can keep others
    /// out, and who sends stays.
    fn make_room(&mut self, newcomer: Option<u32>) {
        let mut counts: FxHashMap<Option<u32>, usize> = FxHashMap::default();
        self.conns.iter().for_each(|(_, conn)| *counts.entry(conn.uid).or_default() += 1);
        let own = counts.get(&newcomer).copied().unwrap_or(0);
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let greedy = most.filter(|(_, count)| *count > own + 1).map(|(uid, _)| uid);
        let of_greedy = |conn: &Conn| greedy.is_some_and(|uid| conn.uid == uid);
        let mut candidates: Vec<(Instant, usize, Option<u32>)> = Vec::new();
        for (index, conn) in &self.conns {
            if of_greedy(conn) || conn.heard.elapsed() >= SILENT {
                candidates.push((conn.heard, index, conn.uid));
            }
        }
        let Some((_, index, uid)) = candidates.into_iter().min() else { return };
        let Some(conn) = self.conns.get_mut(index) else { return };
        // What has come in this moment is not lost: then it is not silent.
        if !matches!(read(conn, &mut self.shared, &mut self.buffer), Turn::Drained) {
            return self.enqueue(index);
        }
        let rest = std::mem::take(&mut conn.carry);
        conn.intake.finish(&rest, Timestamp::from(SystemTime::now()), &mut self.shared, &mut conn.replies);
        self.stats.silent.fetch_add(1, Ordering::Relaxed);
        if let Some(held_back) = self.report.allow(Instant::now()) {
            tracing::warn!(uid, held_back, "a silent connection was closed: others wait for a place");
        }
        self.close(index);
    }

    fn enqueue(&mut self, index: usize) {
        if let Some(conn) = self.conns.get_mut(index)
            && !conn.queued
        {
            conn.queued = true;
            self.ready.push_back(index);
        }
    }

    /// One read for each connection that may have something.
    fn round(&mut self) {
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else { return };
            let Some(conn) = self.conns.get_mut(index) else { continue };
            conn.queued = false;
            match read(conn, &mut self.shared, &mut self.buffer) {
                Turn::Again => {
                    conn.queued = true;
                    self.ready.push_back(index);
                }
                Turn::Drained => {}
                // It gets some time to read the summary: closed at once, a client that still sends would be reset
                // and lose what it has not read.
                Turn::Ended => {
                    conn.closing = Some(Instant::now() + LINGER);
                    self.closing.push(index);
                }
                Turn::Gone => {
                    self.close(index);
                    continue;
                }
            }
            if conn.intake.has_to_tell() && !std::mem::replace(&mut conn.tells, true) {
                self.telling.push_back(index);
            }
            self.write(index);
            while let Some(other) = self.shared.displaced.pop() {
                self.displace(other as usize);
            }
        }
    }

    /// Tells senders what is committed.
    fn tell(&mut self) {
        for _ in 0..self.telling.len() {
            let Some(index) = self.telling.pop_front() else { return };
            let Some(conn) = self.conns.get_mut(index).filter(|conn| conn.tells) else { continue };
            conn.intake.acknowledge(&self.shared, &mut conn.replies);
            // What waits in an order window, or for room, is told later.
            conn.tells = conn.intake.has_to_tell();
            if conn.tells {
                self.telling.push_back(index);
            }
            self.write(index);
        }
    }

    /// The sender of a connection has come on another one.
    fn displace(&mut self, index: usize) {
        let Some(conn) = self.conns.get_mut(index).filter(|conn| conn.closing.is_none()) else { return };
        conn.carry = Vec::new();
        conn.intake.displace(&mut self.shared, &mut conn.replies);
        conn.closing = Some(Instant::now() + LINGER);
        self.closing.push(index);
        self.write(index);
    }

    /// Writes what replies there are; closes the connection if they were the last.
    fn write(&mut self, index: usize) {
        let Some(conn) = self.conns.get_mut(index) else { return };
        while !conn.deaf && conn.written < conn.replies.len() {
            match conn.stream.write(&conn.replies[conn.written..]) {
                Ok(written) => conn.written += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if conn.replies.len() - conn.written > MAX_UNREAD {
                        self.stats.unread.fetch_add(1, Ordering::Relaxed);
                        self.close(index);
                    }
                    return;
                }
                Err(_) => {
                    // The client does not care for replies, but what it has sent still counts.
                    conn.deaf = true;
                    break;
                }
            }
        }
        conn.replies.clear();
        conn.replies.shrink_to(KEEP_CARRY);
        conn.written = 0;
        if conn.closing.is_some() {
            self.close(index);
        }
    }

    fn close(&mut self, index: usize) {
        let Some(mut conn) = self.conns.try_remove(index) else { return };
        // Its last records must have left before another connection can get its number.
        self.shared.lanes.flush();
        conn.intake.leave(&mut self.shared);
        self.shared.lanes.forget(index as u32);
        // Neither can fail in a way that matters for a connection that is going away.
        let _ = self.poll.registry().deregister(&mut conn.stream);
        let _ = conn.stream.shutdown(Shutdown::Both);
        if conn.closing.is_some() {
            self.closing.retain(|other| *other != index);
        }
        // A ready queue entry that still names it finds nothing, or a successor with nothing to read.
        self.stats.connections.store(self.conns.len() as u64, Ordering::Relaxed);
        let account = &conn.intake.account;
        tracing::debug!(
            connection = index,
            accepted = account.accepted,
            rejected = account.rejected,
            "disconnected"
        );
    }

    fn close_lingering(&mut self) {
        if self.closing.is_empty() {
            return;
        }
        let now = Instant::now();
        let late = |index: &usize| {
            self.conns.get(*index).and_then(|conn| conn.closing).is_some_and(|until| until <= now)
        };
        let late: Vec<usize> = self.closing.iter().copied().filter(late).collect();
        for index in late {
            self.stats.unread.fetch_add(1, Ordering::Relaxed);
            self.close(index);
        }
    }
}

enum Turn {
    /// There may be more to read.
    Again,
    /// Nothing more for now.
    Drained,
    /// The client has sent everything; the summary is among the replies.
    Ended,
    /// The connection broke.
    Gone,
}

/// The group that the socket is to have. One that is not configured is no matter of life and death.
fn group_of(config: &SocketConfig) -> Result<Option<Gid>, StartError> {
    let group = config.gid().map_err(StartError::Config)?;
    let Some(gid) = group else {
        tracing::debug!(
            "there is no group {DEFAULT_GROUP}: who may send is a matter of this process's group"
        );
        return Ok(None);
    };
    let is_member =
        geteuid().is_root() || getegid() == gid || getgroups().is_ok_and(|all| all.contains(&gid));
    if config.group.is_none() && !is_member {
        tracing::info!(
            "{}: not of group {DEFAULT_GROUP}, which this user is no member of",
            config.path.display()
        );
        return Ok(None);
    }
    Ok(Some(gid))
}

/// One read. `buffer` is shared by all connections: what is incomplete is carried over in the connection.
fn read(conn: &mut Conn, shared: &mut Shared, buffer: &mut [u8]) -> Turn {
    if conn.closing.is_some() {
        return Turn::Drained;
    }
    if conn.inherits {
        return take_over(conn, shared);
    }
    let carried = conn.carry.len();
    let Some(room) = buffer.get_mut(carried..carried + READ_BYTES) else {
        // The intake leaves at most a line of the limit: cannot happen.
        return Turn::Gone;
    };
    let read = match receive(&conn.stream, room) {
        Ok((read, None)) => read,
        Ok((read, Some(descriptor))) => {
            conn.intake.descriptor(descriptor, shared);
            read
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Turn::Drained,
        Err(error) if error.kind() == ErrorKind::Interrupted => return Turn::Again,
        // A reset is an end, too: whole lines before it count.
        Err(_) => 0,
    };
    let arrived = Timestamp::from(SystemTime::now());
    conn.heard = Instant::now();
    if read == 0 {
        if conn.intake.inherits(shared) {
            conn.inherits = true;
            conn.carry = Vec::new();
            return Turn::Again;
        }
        let rest = std::mem::take(&mut conn.carry);
        conn.intake.finish(&rest, arrived, shared, &mut conn.replies);
        return Turn::Ended;
    }
    buffer[..carried].copy_from_slice(&conn.carry);
    let input = &buffer[..carried + read];
    let used = conn.intake.feed(input, arrived, shared, &mut conn.replies);
    conn.carry.clear();
    if conn.carry.capacity() > KEEP_CARRY {
        conn.carry.shrink_to(KEEP_CARRY);
    }
    conn.carry.extend_from_slice(&input[used..]);
    if conn.intake.broken {
        conn.intake.finish(&[], arrived, shared, &mut conn.replies);
        return Turn::Ended;
    }
    Turn::Again
}

/// A portion of what a sender that is gone has left.
fn take_over(conn: &mut Conn, shared: &mut Shared) -> Turn {
    let arrived = Timestamp::from(SystemTime::now());
    conn.heard = Instant::now();
    if conn.intake.take_over(arrived, shared, &mut conn.replies) {
        return Turn::Again;
    }
    conn.intake.finish(&[], arrived, shared, &mut conn.replies);
    Turn::Ended
}

/// Reads bytes, and the file descriptor that comes with them, if any: the first; others are closed.
fn receive(stream: &UnixStream, room: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let read = recvmsg(stream, &mut [IoSliceMut::new(room)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptors.for_each(|other| {
                descriptor.get_or_insert(other);
            });
        }
    }
    Ok((read.bytes, descriptor))
}

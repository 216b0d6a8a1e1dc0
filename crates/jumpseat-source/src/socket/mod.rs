//! The ingest socket: a thread with a mio event loop that serves all connections, those of a Unix socket, or of a TCP address.
//!
//! * `listener`: where they come from; `line`: what they run on; `conn`: one of them, and a read of it. Over TCP they are encrypted and begin with a token.
//!
//! Connections take turns: each gets one read of up to 256 KiB a round. Everything is handed over when there is nothing more to
//! read, and else after a millisecond, so that no sender can starve the others or delay their records. For fifty sources and
//! more with a log on disk it is up to twenty milliseconds after the last time: a write takes some ten microseconds, whatever is in it. A
//! connection holds memory of its own only for an incomplete line and for replies not yet read; both are bounded.
//!
//! **Cost:** two system calls a round and connection (one to find that there is no more). Bytes are
//! parsed where `read` put them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jumpseat_wire::ADMITTED;
use mio::{Events, Poll, Token, Waker};
use pcp_net::{End, Holder, Life, Limiter, PeerCredentials, Worker, gives_way, next_connection};
use rustc_hash::FxHashMap;
use serde_json::json;
use slab::Slab;

use super::config::SocketConfig;
use super::delivery::Peer;
use super::event::Limits;
use super::guard::Guard;
use super::guard::tokens::Entered;
use super::intake::{Intake, Shared};
use super::origin::Origin;
use super::outlet::Outlet;
use super::start::StartError;
use pcp_model::Timestamp;

mod conn;
mod line;
mod listener;

use conn::{Conn, KEEP_CARRY, Owner, READ_BYTES, Turn, read};
use line::{Denied, Line, Remote};
use listener::{Comer, Listener, Listening, listen};

/// What a frame has besides its payload, which is bounded like a line.
const FRAME_HEAD: usize = 16;
/// How long records may wait for others while there is more to read, at least and at most.
const MIN_WAIT: Duration = Duration::from_millis(1);
const MAX_WAIT: Duration = Duration::from_millis(20);
/// Between these it is so long for each batch that was written to disk the last time: ten times what writing one takes, so that it is a small
/// part of the time however many sources there are.
const WAIT_PER_WRITE: Duration = Duration::from_micros(100);
/// Where the wait is longer than this, records wait for those that may still be on their way, too.
const SHORT: Duration = Duration::from_millis(5);
/// Replies a client may leave unread before it is dropped.
const MAX_UNREAD: usize = 64 * 1024;
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

/// Connections of a host that have yet to say who they are; further ones are closed.
const MAX_UNKNOWN_OF_HOST: usize = 16;
/// Of all hosts: one in so many of all places.
const UNKNOWN_SHARE: usize = 4;
/// After so long without a byte one of them gives way to whoever comes, once there are as many.
const UNKNOWN_SILENT: Duration = Duration::from_secs(1);
/// Most bytes of one read of such a connection.
const UNKNOWN_READ: usize = 4 * 1024;
/// How often to look who has been unknown for too long, and whose token counts no more.
const LOOK: Duration = Duration::from_millis(500);

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
    /// Connections over TCP refused so far because both sides did not agree on TLS, or not in time.
    pub handshakes_failed: AtomicU64,
    /// Connections over TCP refused or ended so far for want of a token that counts.
    pub unauthenticated: AtomicU64,
    /// Connections over TCP refused so far because their token allows no more at the same time.
    pub over_limit: AtomicU64,
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
        let listening = Arc::new(listen(&config, outlet)?);
        let guard = Arc::new(config.guard(Some(outlet.registry.tokens())).map_err(StartError::Config)?);
        let system = StartError::system("the socket source");
        let first = Service::life(&config, shared, &listening, (&guard, &stats)).map_err(&system)?;
        let again = move || {
            let shared = SocketSource::shared(&config, &of_lives)?;
            Service::life(&config, shared, &listening, (&guard, &of_thread))
                .map_err(StartError::system("the socket source"))
        };
        let worker = Worker::kept("jumpseat-socket", &outlet.restarts, first, again).map_err(&system)?;
        Ok(SocketSource { worker: Some(worker), stats })
    }

    /// What all connections share.
    fn shared(config: &SocketConfig, outlet: &Outlet) -> Result<Shared, StartError> {
        let mut lanes = outlet.lanes(Duration::from_millis(config.patience_ms));
        let address = config.place();
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

struct Service {
    poll: Poll,
    listeners: Vec<Listener>,
    shared: Shared,
    max_connections: usize,
    guard: Arc<Guard>,
    /// How long somebody may be unknown.
    patience: Duration,
    /// Those that have yet to say who they are.
    unknown: Vec<usize>,
    /// Those whose token has them wait before they are read again, until when.
    paused: Vec<(usize, Instant)>,
    looked: Instant,
    /// By token, which is also the connection's number in the lanes.
    conns: Slab<Conn>,
    /// The epoch in which their sources were kept last.
    kept: u32,
    /// Those that may have something to read, each once.
    ready: VecDeque<usize>,
    /// When everything was handed over last.
    flushed: Instant,
    /// How long others may be waited for from then on.
    wait: Duration,
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
        listening: &Listening,
        (guard, stats): (&Arc<Guard>, &Arc<SocketStats>),
    ) -> io::Result<Life> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let mut listeners = listening.listeners()?;
        for listener in &mut listeners {
            listener.register(poll.registry(), LISTENER)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        // Those of an earlier life have ended with it.
        stats.connections.store(0, Ordering::Relaxed);
        let mut service = Service {
            poll,
            listeners,
            shared,
            max_connections: config.max_connections,
            guard: Arc::clone(guard),
            patience: Duration::from_millis(config.timeout_ms),
            unknown: Vec::new(),
            paused: Vec::new(),
            looked: Instant::now(),
            conns: Slab::new(),
            kept: 0,
            ready: VecDeque::new(),
            flushed: Instant::now(),
            wait: MIN_WAIT,
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
            self.resume();
            self.round();
            self.keep();
            self.look();
            if self.is_flush_due() {
                self.flush();
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
        let waits = self.wait > SHORT && (retry.is_some() || !self.telling.is_empty());
        let due = waits.then(|| self.wait.saturating_sub(self.flushed.elapsed()));
        let linger = (!self.closing.is_empty()).then_some(LINGER / 5);
        // A connection that sends nothing keeps its source, too.
        let keep = (!self.conns.is_empty()).then(|| self.shared.lanes.period());
        // Tokens may be revoked, and who does not say one has not forever.
        let look = (self.guard.wants_token() && !self.conns.is_empty()).then_some(LOOK);
        let now = Instant::now();
        let resume = self.paused.iter().map(|(_, until)| until.saturating_duration_since(now)).min();
        [accept, retry, due, linger, keep, look, resume].into_iter().flatten().min()
    }

    /// Everything leaves before the next wait, so that no record is as old as its connection is slow. As long as there is more
    /// to read, or many sources write to disk, it is once in a while: a batch is the larger, and the cheaper for an event, the
    /// more has come of its source.
    fn is_flush_due(&self) -> bool {
        self.ready.is_empty() && self.wait <= SHORT || self.flushed.elapsed() >= self.wait
    }

    /// Hands everything over, and says how long it is until the next time.
    fn flush(&mut self) {
        let writes = self.shared.lanes.writes();
        self.shared.lanes.flush();
        (self.flushed, self.wait) = (Instant::now(), wait_behind(writes));
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
        let mut nth = 0;
        while let Some(listener) = self.listeners.get(nth) {
            match next_connection(|| listener.accept()) {
                Ok(Some(Comer::Local(stream))) => {
                    let peer = PeerCredentials::of(&stream).ok();
                    let peer = peer.map(|PeerCredentials { pid, uid, gid }| Peer { pid, uid, gid });
                    let owner = Owner::User(peer.map(|peer| peer.uid));
                    self.admit(Line::Local(stream), owner, peer);
                }
                Ok(Some(Comer::Remote(stream, peer))) => {
                    // Answers are short and wanted at once.
                    let _ = stream.set_nodelay(true);
                    let Some(Ok(tls)) = self.guard.certificate().map(|certificate| certificate.begin())
                    else {
                        continue;
                    };
                    let until = Instant::now() + self.patience;
                    let line = Line::Remote(Box::new(Remote::new(stream, tls, peer, until)));
                    let host = peer.ip().to_canonical();
                    if self.may_be_unknown(host) {
                        self.admit(line, Owner::Host(host), None);
                    }
                }
                Ok(None) => nth += 1,
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

    /// Whether one more of a host may be there without having said who it is; another one may have to give way. So whoever has a
    /// token is never kept out by those who have none.
    fn may_be_unknown(&mut self, host: IpAddr) -> bool {
        let of_host =
            |index: &&usize| self.conns.get(**index).is_some_and(|conn| conn.line.host() == Some(host));
        let is_greedy = self.unknown.iter().filter(of_host).count() >= MAX_UNKNOWN_OF_HOST;
        let most = (self.max_connections / UNKNOWN_SHARE).max(1);
        if !is_greedy && self.unknown.len() < most {
            return true;
        }
        let holders = self.unknown.iter().filter_map(|index| {
            let conn = self.conns.get(*index)?;
            Some(Holder { place: *index, owner: conn.line.host()?, heard: conn.heard })
        });
        let leaves = if is_greedy { None } else { gives_way(holders, host, UNKNOWN_SILENT) };
        let Some(index) = leaves else {
            self.stats.refused.fetch_add(1, Ordering::Relaxed);
            if let Some(held_back) = self.report.allow(Instant::now()) {
                tracing::warn!(%host, held_back, "a connection was turned away: too many without a token");
            }
            return false;
        };
        self.stats.unauthenticated.fetch_add(1, Ordering::Relaxed);
        self.close(index);
        true
    }

    fn admit(&mut self, mut line: Line, owner: Owner, peer: Option<Peer>) {
        if self.conns.len() >= self.max_connections {
            self.make_room(owner, line.unknown().is_some());
        }
        let open = self.conns.len();
        if open >= self.max_connections {
            self.stats.refused.fetch_add(1, Ordering::Relaxed);
            // Over TLS there is nothing yet that it could read.
            let _ = line.write(TOO_MANY);
            if let Some(held_back) = self.report.allow(Instant::now()) {
                tracing::warn!(open, held_back, "a connection was turned away: too many");
            }
            return;
        }
        let place = self.conns.vacant_entry();
        let index = place.key();
        if let Err(error) = line.register(self.poll.registry(), Token(index)) {
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
        if line.unknown().is_some() {
            self.unknown.push(index);
        }
        place.insert(Conn {
            line,
            owner,
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
    ///
    /// Those that have not said who they are give way first; for another of these nobody else does.
    fn make_room(&mut self, newcomer: Owner, is_unknown: bool) {
        let unknown = self.unknown.iter().filter_map(|at| Some((self.conns.get(*at)?.heard, *at))).min();
        if let Some((_, index)) = unknown {
            self.stats.silent.fetch_add(1, Ordering::Relaxed);
            return self.close(index);
        }
        if is_unknown {
            return;
        }
        let mut counts: FxHashMap<Owner, usize> = FxHashMap::default();
        self.conns.iter().for_each(|(_, conn)| *counts.entry(conn.owner).or_default() += 1);
        let own = counts.get(&newcomer).copied().unwrap_or(0);
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let greedy = most.filter(|(_, count)| *count > own + 1).map(|(owner, _)| owner);
        let of_greedy = |conn: &Conn| greedy.is_some_and(|owner| conn.owner == owner);
        let mut candidates: Vec<(Instant, usize)> = Vec::new();
        for (index, conn) in &self.conns {
            if of_greedy(conn) || conn.heard.elapsed() >= SILENT {
                candidates.push((conn.heard, index));
            }
        }
        let Some((_, index)) = candidates.into_iter().min() else { return };
        let Some(conn) = self.conns.get_mut(index) else { return };
        let owner = conn.owner;
        // What has come in this moment is not lost: then it is not silent.
        if !matches!(read(conn, &mut self.shared, &mut self.buffer), Turn::Drained) {
            return self.enqueue(index);
        }
        let rest = std::mem::take(&mut conn.carry);
        conn.intake.finish(&rest, Timestamp::from(SystemTime::now()), &mut self.shared, &mut conn.replies);
        self.stats.silent.fetch_add(1, Ordering::Relaxed);
        if let Some(held_back) = self.report.allow(Instant::now()) {
            tracing::warn!(?owner, held_back, "a silent connection was closed: others wait for a place");
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
            if conn.line.unknown().is_some() {
                self.knock(index);
                continue;
            }
            match read(conn, &mut self.shared, &mut self.buffer) {
                Turn::Again => {
                    conn.queued = true;
                    self.ready.push_back(index);
                }
                Turn::Drained => {}
                Turn::Later(until) => {
                    // Each small piece that comes meanwhile wakes it again.
                    if !self.paused.iter().any(|(other, _)| *other == index) {
                        self.paused.push((index, until));
                    }
                }
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

    /// A connection that is to say who it is has something to say.
    fn knock(&mut self, index: usize) {
        let Some(conn) = self.conns.get_mut(index).filter(|conn| conn.closing.is_none()) else { return };
        conn.heard = Instant::now();
        let Line::Remote(remote) = &mut conn.line else { return };
        let peer = remote.peer;
        let room = self.buffer.get_mut(..UNKNOWN_READ).unwrap_or_default();
        match remote.knock(&self.guard, room) {
            Ok(false) => {}
            Ok(true) => {
                let Some(Entered { token }) = remote.entered.as_ref() else { return };
                tracing::debug!(connection = index, %peer, token = token.name(), "admitted");
                let name = json!(token.name());
                conn.replies.extend_from_slice(format!("{ADMITTED}{name}}}}}\n").as_bytes());
                conn.intake = Intake::admitted(index as u32, peer.ip(), token, &mut self.shared);
                self.unknown.retain(|other| *other != index);
                self.write(index);
                // What has come behind the token.
                self.enqueue(index);
            }
            Err(denied) => self.deny(index, &denied),
        }
    }

    /// Tells somebody why they are not let in, counts it, and ends the connection.
    fn deny(&mut self, index: usize, denied: &Denied) {
        let Some(conn) = self.conns.get_mut(index).filter(|conn| conn.closing.is_none()) else { return };
        let host = conn.line.host();
        let counter = match denied {
            // Neither side has lost anything.
            Denied::Gone => return self.close(index),
            Denied::Token(_) => &self.stats.unauthenticated,
            Denied::Tls(_) => &self.stats.handshakes_failed,
            Denied::Limit => &self.stats.over_limit,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let words = denied.words();
        if let Some(held_back) = self.report.allow(Instant::now()) {
            let host = host.map(|host| host.to_string()).unwrap_or_default();
            tracing::warn!(host, held_back, "a connection was refused: {words}");
        }
        if matches!(denied, Denied::Tls(_)) {
            return self.close(index);
        }
        conn.replies.extend_from_slice(format!("{}\n", json!({"error": words})).as_bytes());
        conn.closing = Some(Instant::now() + LINGER);
        self.closing.push(index);
        self.write(index);
    }

    /// Ends those that have been unknown for too long, and those whose token counts no more.
    fn look(&mut self) {
        let now = Instant::now();
        if !self.guard.wants_token() || now.saturating_duration_since(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        self.guard.renew(now);
        let late: Vec<usize> = self.unknown.clone();
        for index in late {
            let Some(remote) = self.conns.get_mut(index).and_then(|conn| conn.line.unknown()) else {
                continue;
            };
            if remote.until <= now {
                let denied = match remote.is_secret() {
                    true => Denied::Token("no token in time"),
                    false => Denied::Tls("no agreement on TLS in time".to_owned()),
                };
                self.deny(index, &denied);
            }
        }
        let is_revoked =
            |conn: &Conn| conn.line.entered().is_some_and(|Entered { token }| token.is_revoked());
        let revoked: Vec<usize> =
            self.conns.iter().filter(|(_, conn)| is_revoked(conn)).map(|(index, _)| index).collect();
        for index in revoked {
            // What has come until now counts; what is incomplete has no end any more.
            if let Some(conn) = self.conns.get_mut(index) {
                conn.carry = Vec::new();
            }
            self.deny(index, &Denied::Token("the token counts no more"));
        }
    }

    /// Those that had to wait may go on.
    fn resume(&mut self) {
        if self.paused.is_empty() {
            return;
        }
        let now = Instant::now();
        let due: Vec<usize> =
            self.paused.extract_if(.., |(_, until)| *until <= now).map(|(index, _)| index).collect();
        due.into_iter().for_each(|index| self.enqueue(index));
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
        while !conn.deaf && (conn.written < conn.replies.len() || conn.line.is_unwritten()) {
            match conn.line.write(&conn.replies[conn.written..]) {
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
        conn.line.close(self.poll.registry());
        self.unknown.retain(|other| *other != index);
        self.paused.retain(|(other, _)| *other != index);
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

/// How long others may be waited for behind a hand-over that wrote so many batches to disk.
fn wait_behind(writes: usize) -> Duration {
    WAIT_PER_WRITE.saturating_mul(writes.try_into().unwrap_or(u32::MAX)).clamp(MIN_WAIT, MAX_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_writes_to_disk_for_many_waits_for_long() {
        for (writes, millis) in [(0, 1), (10, 1), (50, 5), (51, 5), (120, 12), (200, 20), (usize::MAX, 20)] {
            assert_eq!(wait_behind(writes).as_millis(), millis, "{writes}");
        }
        // As soon as there is nothing more to read, up to here.
        assert!(wait_behind(50) <= SHORT && wait_behind(51) > SHORT);
    }
}

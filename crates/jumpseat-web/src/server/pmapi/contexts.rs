//! Contexts of clients, by number, until they expire (`docs/pcp/webapi.md` 3).
//!
//! A context that was not used for its polltimeout has expired: the next use is told so, and a task that looks every [`SWEEP`] puts it
//! away, after which its number is unknown. So it is in real servers, and what grafana takes for the sign to begin anew.
//!
//! **Bounds:** [`MAX_CONTEXTS`] in all, [`MAX_OF_CLIENT`] for an address, [`MAX_OF_HOST`] on a host, which share connections
//! ([`super::connections`]), and [`MAX_ON_ARCHIVES`] on archives, as each holds metadata. [`AT_ONCE`] requests of one host or archive use the pool at a time, and contexts are
//! made [`CONNECTING`] at a time, [`CONNECTING_TO_ONE`] on one, so that what hangs leaves places for others. A context is used by one request at
//! a time.
//!
//! **Cost:** to make a context, a look at those that there are, twice, once they may be too many. To put contexts away, a look at those that
//! would have expired by now if nobody had used them since the last look: memory that nobody has touched for a while is slow to get at.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use http::StatusCode;
use pcp_archive::Glance;
use pcp_client::{Context, HostSpec};
use pcp_model::c_number::parse_prefix;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::back_off::BackOff;
use super::busy;
use super::call::Call;
use super::connections::Connections;
use super::moment;
use super::session::Session;
use super::texts::InAll;
use crate::server::answer::Refusal;
use crate::server::library;
use crate::server::pool::Pool;
use crate::server::query::Query;
use crate::server::sources::{self, SourceError, Sources};
use crate::server::web::Shared;

/// Most contexts.
const MAX_CONTEXTS: usize = 4096;
/// Most contexts of clients at one address. Behind it there may be a proxy, with many.
const MAX_OF_CLIENT: usize = 2048;
/// Most contexts on one host: a thousand clients that poll it, and some more.
const MAX_OF_HOST: usize = 1100;
/// Most contexts on archives, each of which holds the metadata of one (tens of megabytes), and most of clients at one address that is not
/// of this machine.
const MAX_ON_ARCHIVES: usize = 64;
const MAX_ON_ARCHIVES_OF_CLIENT: usize = 16;
/// Most bytes of what a host is called by.
const MAX_KEY: usize = 1024;
/// How many requests about one host or archive are done at a time.
const AT_ONCE: usize = 8;
/// How many contexts are made, or connect again, at a time: half of the pool, whatever hosts clients may name.
const CONNECTING: usize = 32;
/// The same of one host or archive: hosts that hang leave places for the others.
const CONNECTING_TO_ONE: usize = 2;
/// How long a request waits for those of the same context, or of the same host.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often contexts that have expired are put away.
const SWEEP: Duration = Duration::from_secs(2);
/// A context's patience if nothing is said of it, and the longest.
const POLL_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_POLL_TIMEOUT: Duration = Duration::from_secs(3600);

/// The contexts.
#[derive(Debug)]
pub(in crate::server) struct Contexts {
    table: Arc<Mutex<Table>>,
    sweeping: Arc<AtomicBool>,
    connecting: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Table {
    back_off: Arc<BackOff>,
    texts_in_all: InAll,
    by_number: HashMap<u32, Arc<WebContext>>,
    /// When each is to be looked at, and its number: not before it may have expired.
    due: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Places of hosts and archives, by what they are.
    places: HashMap<String, Weak<Places>>,
}

/// The places of one host or archive.
#[derive(Debug)]
struct Places {
    is_archive: bool,
    connections: Arc<Connections>,
    /// For requests.
    at_once: Arc<Semaphore>,
    /// For those that make a context.
    connecting: Arc<Semaphore>,
}

/// A context.
#[derive(Debug)]
struct WebContext {
    number: u32,
    peer: Option<IpAddr>,
    patience: Duration,
    last: Mutex<Instant>,
    /// One request at a time.
    turn: Arc<Semaphore>,
    places: Arc<Places>,
    /// Only ever locked with `turn` taken: nobody waits for it.
    session: Mutex<Session>,
}

/// The right to use a context.
#[derive(Debug)]
pub(super) struct Lease {
    context: Arc<WebContext>,
    /// For all that connect.
    connecting: Arc<Semaphore>,
}

/// A context in use: nobody else has it meanwhile.
#[derive(Debug)]
pub(super) struct Held {
    context: Arc<WebContext>,
    /// There, if the request will have to connect.
    connecting: Option<[OwnedSemaphorePermit; 2]>,
    /// The turn, and the place among those of the host.
    _places: [OwnedSemaphorePermit; 2],
}

/// Where a context's metrics are from.
enum Origin {
    Host(Box<HostSpec>),
    Archive(Box<Glance>, moment::Place),
}

impl Contexts {
    pub(in crate::server) fn new() -> Contexts {
        Contexts {
            table: Arc::default(),
            sweeping: Arc::default(),
            connecting: Arc::new(Semaphore::new(CONNECTING)),
        }
    }

    /// The context of a number.
    ///
    /// # Errors
    /// It is unknown, or has expired: in the words that clients look for.
    pub(super) fn find(&self, number: u32) -> Result<Lease, Refusal> {
        let table = locked(&self.table);
        let Some(context) = table.by_number.get(&number) else {
            return Err(Refusal::bad(format!("unknown context identifier: {number}")));
        };
        if context.has_expired(Instant::now()) {
            return Err(Refusal::bad(format!("expired context identifier: {number}")));
        }
        context.touch();
        Ok(Lease { context: Arc::clone(context), connecting: Arc::clone(&self.connecting) })
    }

    /// A new context, as a request says.
    ///
    /// # Errors
    /// Why there is none: it is not allowed, cannot be reached, or there are too many.
    pub(super) async fn make(&self, web: &Shared, call: &Call) -> Result<Lease, Refusal> {
        let patience = poll_timeout(call.query.get("polltimeout"))?;
        let mut origin = Origin::of(web, &call.query)?;
        if let (Origin::Host(spec), Some(credentials)) = (&mut origin, &call.credentials) {
            credentials.add_to(spec);
        }
        let (key, is_archive) = (origin.key()?, matches!(origin, Origin::Archive(..)));
        let (places, room) = {
            let mut table = locked(&self.table);
            let places = table.places_of(key, is_archive);
            let room = table.expect_room(call.peer, &places);
            (places, room)
        };
        // Puts the places away, too, if there will be no context.
        self.sweep();
        room?;
        let first = permit(&places.connecting, "others are connecting to the same host").await?;
        let place = permit(&places.at_once, "others are waiting for the same host").await?;
        let turn = permit(&self.connecting, "others are connecting").await?;
        let (sources, connections) = (Arc::clone(&web.sources), Arc::clone(&places.connections));
        let session = web.pool.run(move || {
            let _places = (first, place, turn);
            origin.open(sources, connections)
        });
        let session = session.await??;
        let turn = Arc::new(Semaphore::new(1));
        let last = Mutex::new(Instant::now());
        let mut table = locked(&self.table);
        // Others may have come meanwhile.
        table.expect_room(call.peer, &places)?;
        let number = table.free_number()?;
        let session = Mutex::new(session);
        let context = WebContext { number, peer: call.peer, patience, last, turn, places, session };
        let context = Arc::new(context);
        table.add(Arc::clone(&context));
        drop(table);
        // It has not ended: there were the places.
        Ok(Lease { context, connecting: Arc::clone(&self.connecting) })
    }

    /// Sees to it that somebody puts away what has expired, as long as there is anything.
    fn sweep(&self) {
        if self.sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        let (table, sweeping) = (Arc::downgrade(&self.table), Arc::clone(&self.sweeping));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                let Some(table) = table.upgrade() else { return };
                let mut table = locked(&table);
                let gone = table.expired(Instant::now());
                let unused = table.unused(Instant::now());
                let is_empty = table.by_number.is_empty() && table.places.is_empty();
                if is_empty {
                    sweeping.store(false, Ordering::Release);
                }
                drop(table);
                // Connections are closed, and texts looked through, outside of the lock.
                for (places, _) in &unused {
                    places.connections.texts().forget_old(Instant::now());
                }
                drop((gone, unused));
                if is_empty {
                    return;
                }
            }
        });
    }
}

impl Table {
    /// Whether a client may have one more context on a host or an archive.
    fn expect_room(&self, peer: Option<IpAddr>, places: &Arc<Places>) -> Result<(), Refusal> {
        // Counting costs, so only when it may be tight.
        let least = if places.is_archive { MAX_ON_ARCHIVES_OF_CLIENT } else { MAX_OF_HOST };
        if self.by_number.len() < least {
            return Ok(());
        }
        let now = Instant::now();
        let alive = self.by_number.values().filter(|context| !context.has_expired(now));
        Count::of(alive.map(|context| (context.peer, &context.places)), peer, places)
            .expect_room(peer, places)
    }

    /// A random number of 31 bits that nobody has.
    fn free_number(&self) -> Result<u32, Refusal> {
        let random = SystemRandom::new();
        loop {
            let mut bytes = [0; 4];
            random.fill(&mut bytes).map_err(|_| busy("the system has no random numbers"))?;
            let number = u32::from_be_bytes(bytes) >> 1;
            if number != 0 && !self.by_number.contains_key(&number) {
                return Ok(number);
            }
        }
    }

    fn add(&mut self, context: Arc<WebContext>) {
        self.due.push(Reverse((context.end(), context.number)));
        self.by_number.insert(context.number, context);
    }

    fn places_of(&mut self, key: String, is_archive: bool) -> Arc<Places> {
        if let Some(places) = self.places.get(&key).and_then(Weak::upgrade) {
            return places;
        }
        let places = Arc::new(Places::new(is_archive, &self.back_off, &self.texts_in_all));
        self.places.insert(key, Arc::downgrade(&places));
        places
    }

    /// Connections that nobody has used for a while; with their places, as all connections are closed with the last one who has them.
    fn unused(&self, now: Instant) -> Vec<(Arc<Places>, Vec<Context>)> {
        let places = self.places.values().filter_map(Weak::upgrade);
        let unused = places.map(|places| {
            let old = places.connections.too_old(now);
            (places, old)
        });
        unused.collect()
    }

    /// Takes out what has expired, and places that nobody has.
    fn expired(&mut self, now: Instant) -> Vec<Arc<WebContext>> {
        let (mut gone, mut later) = (Vec::new(), Vec::new());
        while self.due.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            let Some(Reverse((_, number))) = self.due.pop() else { break };
            let Some(context) = self.by_number.get(&number) else { continue };
            if context.has_expired(now) {
                gone.extend(self.by_number.remove(&number));
            } else {
                // In use, or used meanwhile.
                later.push(Reverse((context.end(), number)));
            }
        }
        self.due.extend(later);
        self.places.retain(|_, places| places.strong_count() > 0);
        gone
    }
}

impl Places {
    fn new(is_archive: bool, back_off: &Arc<BackOff>, texts_in_all: &InAll) -> Places {
        Places {
            is_archive,
            connections: Arc::new(Connections::new(Arc::clone(back_off), Arc::clone(texts_in_all))),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            connecting: Arc::new(Semaphore::new(CONNECTING_TO_ONE)),
        }
    }
}

/// How many contexts there are beside a new one.
#[derive(Debug, Default)]
struct Count {
    all: usize,
    of_client: usize,
    /// On the same host or archive.
    of_source: usize,
    on_archives: usize,
    on_archives_of_client: usize,
}

impl Count {
    fn of<'a>(
        contexts: impl Iterator<Item = (Option<IpAddr>, &'a Arc<Places>)>,
        peer: Option<IpAddr>,
        places: &Arc<Places>,
    ) -> Count {
        let mut count = Count::default();
        for (of, at) in contexts {
            count.all += 1;
            count.of_client += usize::from(of == peer);
            count.of_source += usize::from(Arc::ptr_eq(at, places));
            count.on_archives += usize::from(at.is_archive);
            count.on_archives_of_client += usize::from(at.is_archive && of == peer);
        }
        count
    }

    fn expect_room(&self, peer: Option<IpAddr>, places: &Places) -> Result<(), Refusal> {
        let of_client = |most: usize, what: &str| {
            let message = format!(
                "{most} contexts{what} are in use from this address: use them again by their numbers"
            );
            Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message))
        };
        let in_all =
            |most: usize, what: &str| Err(busy(format!("{most} contexts{what} are in use: try again later")));
        if self.all >= MAX_CONTEXTS {
            return in_all(MAX_CONTEXTS, "");
        }
        if self.of_client >= MAX_OF_CLIENT {
            return of_client(MAX_OF_CLIENT, "");
        }
        if !places.is_archive {
            return if self.of_source >= MAX_OF_HOST { in_all(MAX_OF_HOST, " on this host") } else { Ok(()) };
        }
        let is_far = peer.is_some_and(|peer| !peer.to_canonical().is_loopback());
        if is_far && self.on_archives_of_client >= MAX_ON_ARCHIVES_OF_CLIENT {
            return of_client(MAX_ON_ARCHIVES_OF_CLIENT, " on archives");
        }
        if self.on_archives >= MAX_ON_ARCHIVES { in_all(MAX_ON_ARCHIVES, " on archives") } else { Ok(()) }
    }
}

impl WebContext {
    fn touch(&self) {
        *locked(&self.last) = Instant::now();
    }

    /// When it will have expired, if nobody uses it until then.
    fn end(&self) -> Instant {
        *locked(&self.last) + self.patience
    }

    fn has_expired(&self, now: Instant) -> bool {
        // While a request has it, it is in use.
        self.turn.available_permits() > 0 && now > self.end()
    }
}

impl Lease {
    pub(super) fn number(&self) -> u32 {
        self.context.number
    }

    /// The context, when its turn comes, with the places that a request takes.
    ///
    /// # Errors
    /// The turn does not come.
    pub(super) async fn take(self) -> Result<Held, Refusal> {
        let context = self.context;
        let turn = permit(&context.turn, "another request is using this context").await?;
        let has_to_connect = locked(&context.session).has_to_connect();
        let connecting = match has_to_connect {
            true => Some([
                permit(&context.places.connecting, "others are connecting to the same host").await?,
                permit(&self.connecting, "others are connecting").await?,
            ]),
            false => None,
        };
        let place = permit(&context.places.at_once, "others are waiting for the same host").await?;
        Ok(Held { context, connecting, _places: [turn, place] })
    }
}

impl Held {
    /// What is in the context. Nobody else has it, so nobody waits; it is not for work that may wait.
    pub(super) fn session(&self) -> MutexGuard<'_, Session> {
        // A panic of another request leaves a context that says so itself, if it is broken.
        locked(&self.context.session)
    }

    /// Something has been done with the context.
    pub(super) fn touch(&self) {
        self.context.touch();
    }

    /// Does something with the context that may wait. It is done to its end, also if the client goes away.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) async fn run<T: Send + 'static>(
        mut self,
        pool: &Pool,
        work: impl FnOnce(&mut Session) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let done = pool.run(move || {
            let connecting = self.connecting.take();
            let mut session = self.session();
            session.may_connect(connecting);
            let done = work(&mut session);
            drop(session);
            self.touch();
            drop(self);
            done
        });
        Ok(done.await?)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // However the request ends: also if there is no thread for it, or its client is gone. What a panic has left is nobody else's.
        if !std::thread::panicking() {
            self.session().end();
        }
    }
}

impl Origin {
    fn of(web: &Shared, query: &Query) -> Result<Origin, Refusal> {
        let Some(name) = query.get("archivefile") else {
            let text = query.first(&["hostspec", "hostname"]);
            return web
                .sources
                .allowed(text)
                .map(|spec| Origin::Host(Box::new(spec)))
                .map_err(|error| no_source(&error));
        };
        let glance = web.library.find(name).ok_or_else(|| {
            Refusal::bad(format!(
                "{name} is not among the archives that may be looked at: start jumpseat web with -a"
            ))
        })?;
        Ok(Origin::Archive(Box::new(glance), moment::Place::read(query)?))
    }

    /// What has places of its own in the pool: a host by where it is alone, whoever asks.
    ///
    /// # Errors
    /// A host whose name no host has.
    fn key(&self) -> Result<String, Refusal> {
        match self {
            Origin::Host(spec) => {
                let key = format!("{:?}", sources::place(&spec.place));
                if key.len() > MAX_KEY { Err(Refusal::bad("the host's name is too long")) } else { Ok(key) }
            }
            Origin::Archive(glance, _) => Ok(glance.name.to_string_lossy().into_owned()),
        }
    }

    /// Connects, or reads metadata.
    fn open(self, sources: Arc<Sources>, connections: Arc<Connections>) -> Result<Session, Refusal> {
        match self {
            Origin::Host(spec) => {
                Session::on_host(*spec, sources, connections).map_err(|error| no_source(&error))
            }
            Origin::Archive(glance, place) => {
                let context = library::open(&glance);
                let context =
                    context.map_err(|error| Refusal::bad(format!("cannot open archive: {error}")))?;
                let mut session = Session::new(context);
                place.begin(&mut session)?;
                Ok(session)
            }
        }
    }
}

/// Why there is no context, in the words of a real server where it has some.
fn no_source(error: &SourceError) -> Refusal {
    match error {
        SourceError::Busy(refusal) => refusal.clone(),
        SourceError::Client(error) => Refusal::bad(format!("cannot connect to PMCD: {}", error.code())),
        SourceError::NotAllowed(_) => Refusal::new(StatusCode::FORBIDDEN, error.to_string()),
        SourceError::Spec(_) | SourceError::TooLong | SourceError::NoHost => Refusal::bad(error.to_string()),
    }
}

/// The patience of a context: seconds as `strtod(3)` reads them.
pub(super) fn poll_timeout(text: Option<&str>) -> Result<Duration, Refusal> {
    match text {
        None => Ok(POLL_TIMEOUT),
        Some("") => Ok(Duration::ZERO),
        Some(text) => {
            let seconds = parse_prefix(text.as_bytes())
                .filter(|number| number.rest.is_empty())
                .map(|number| number.value);
            let patience = seconds.filter(|seconds| !seconds.is_nan()).and_then(|seconds| {
                Duration::try_from_secs_f64(seconds.min(MAX_POLL_TIMEOUT.as_secs_f64())).ok()
            });
            patience.ok_or_else(|| Refusal::bad("invalid timeout requested in polltime"))
        }
    }
}

async fn permit(places: &Arc<Semaphore>, what: &str) -> Result<OwnedSemaphorePermit, Refusal> {
    // Mostly there is one, and no timer to be set.
    if let Ok(permit) = Arc::clone(places).try_acquire_owned() {
        return Ok(permit);
    }
    match timeout(PATIENCE, Arc::clone(places).acquire_owned()).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(busy(format!("{what}: try again later"))),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_as_strtod_reads_them() {
        let seconds = |text| poll_timeout(Some(text)).map(|patience| patience.as_secs_f64());
        assert_eq!(poll_timeout(None), Ok(POLL_TIMEOUT));
        for (text, wanted) in
            [("5", 5.0), ("0.5", 0.5), ("1e1", 10.0), ("", 0.0), ("inf", 3600.0), ("1e300", 3600.0)]
        {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for text in ["abc", "5s", "-1", "nan", " "] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn contexts_are_so_many_and_no_more() {
        let places = |is_archive| Arc::new(Places::new(is_archive, &Arc::default(), &InAll::default()));
        let (host, other) = (places(false), places(false));
        let (archive, second) = (places(true), places(true));
        let here = Some(IpAddr::from([127, 0, 0, 1]));
        let (near, far) = (Some(IpAddr::from([192, 0, 2, 1])), Some(IpAddr::from([192, 0, 2, 2])));
        let asked = |held: &[(usize, Option<IpAddr>, &Arc<Places>)], peer, places: &Arc<Places>| {
            let held = held.iter().flat_map(|(count, of, at)| std::iter::repeat_n((*of, *at), *count));
            let answer = Count::of(held, peer, places).expect_room(peer, places);
            answer.map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
        };
        // A host takes a thousand clients that poll it.
        assert_eq!(asked(&[(1099, near, &host)], far, &host), 200);
        assert_eq!(asked(&[(1099, near, &host), (1, here, &host)], far, &host), 503);
        assert_eq!(asked(&[(1100, near, &host)], near, &other), 200);
        assert_eq!(asked(&[(1100, near, &host), (948, near, &other)], near, &other), 429);
        assert_eq!(asked(&[(1100, near, &host), (948, near, &other)], far, &other), 200);
        // Archives hold much.
        assert_eq!(asked(&[(1100, near, &host), (15, near, &archive)], near, &second), 200);
        assert_eq!(asked(&[(16, near, &archive)], near, &second), 429);
        assert_eq!(asked(&[(16, near, &archive)], far, &second), 200);
        assert_eq!(asked(&[(63, here, &archive)], here, &archive), 200);
        assert_eq!(asked(&[(32, here, &archive), (32, here, &second)], here, &archive), 503);
        assert_eq!(asked(&[(64, here, &archive)], here, &host), 200);
    }

    #[test]
    fn contexts_go_once_nobody_uses_them() {
        let context = |number, last, patience| {
            let places = Arc::new(Places::new(false, &Arc::default(), &InAll::default()));
            let spec: HostSpec = "web1".parse().expect("a host");
            let host = Context::host_unconnected(&spec, &pcp_client::HostOptions::default());
            let session = Mutex::new(Session::new(host.expect("not yet connected")));
            let (last, turn) = (Mutex::new(last), Arc::new(Semaphore::new(1)));
            Arc::new(WebContext { number, peer: None, patience, last, turn, places, session })
        };
        let (mut table, begun) = (Table::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        for (number, patience) in [(1, 5), (2, 10), (3, 5), (4, 0)] {
            table.add(context(number, begun, Duration::from_secs(patience)));
        }
        let gone = |table: &mut Table, seconds| {
            let mut gone: Vec<u32> =
                table.expired(at(seconds)).iter().map(|context| context.number).collect();
            gone.sort_unstable();
            gone
        };
        assert_eq!(gone(&mut table, 0), [0; 0], "not later than its patience");
        assert_eq!(gone(&mut table, 2), [4]);
        // One is used again, and one is in use.
        *locked(&table.by_number[&1].last) = at(4);
        let turn = Arc::clone(&table.by_number[&3].turn).try_acquire_owned().expect("nobody has it");
        assert_eq!((gone(&mut table, 6), gone(&mut table, 8)), (vec![], vec![]));
        drop(turn);
        assert_eq!(gone(&mut table, 10), [1, 3]);
        assert_eq!(gone(&mut table, 12), [2]);
        assert!(table.by_number.is_empty() && table.due.is_empty());
    }

    #[test]
    fn places_go_when_nobody_has_them() {
        let mut table = Table::default();
        let first = table.places_of("one".to_owned(), false);
        assert!(Arc::ptr_eq(&first, &table.places_of("one".to_owned(), false)), "one host, the same places");
        drop(table.places_of("two".to_owned(), false));
        table.expired(Instant::now());
        assert_eq!(table.places.keys().collect::<Vec<_>>(), ["one"]);
        drop(first);
        table.expired(Instant::now());
        assert!(table.places.is_empty());
    }

    #[test]
    fn a_host_is_where_it_is_and_its_name_has_an_end() {
        let key = |text: &str| Origin::Host(Box::new(text.parse().expect("a host"))).key();
        assert_eq!(key("pcp://web1"), key("WEB1.:44321"));
        assert!(key("web1") != key("web2") && key(&"x".repeat(MAX_KEY)).is_err());
    }
}

//! Contexts of clients, by number, until they expire (spec `webapi.md` 3).
//!
//! A context that was not used for its polltimeout has expired: the next use is told so, and a task that looks every [`SWEEP`] puts it
//! away, after which its number is unknown. So it is in real servers, and what grafana takes for the sign to begin anew.
//!
//! **Bounds:** [`MAX_CONTEXTS`] in all and [`MAX_OF_CLIENT`] for an address; [`AT_ONCE`] requests of one host or archive use the pool at a
//! time, and contexts are made [`CONNECTING`] at a time, so that what hangs leaves places for others. A context is used by one request at a time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use http::StatusCode;
use pcp_archive::Glance;
use pcp_client::HostSpec;
use pcp_model::c_number::parse_prefix;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::busy;
use super::call::Call;
use super::moment;
use super::session::Session;
use crate::server::answer::Refusal;
use crate::server::library;
use crate::server::pool::Pool;
use crate::server::query::Query;
use crate::server::sources::{SourceError, Sources};
use crate::server::web::Shared;

/// Most contexts.
const MAX_CONTEXTS: usize = 4096;
/// Most contexts of clients at one address. Behind it there may be a proxy, with many.
const MAX_OF_CLIENT: usize = 2048;
/// How many requests about one host or archive are done at a time.
const AT_ONCE: usize = 8;
/// How many contexts are made at a time: half of the pool, whatever hosts clients may name.
const CONNECTING: usize = 32;
/// How long a request waits for those of the same context, or of the same host.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often contexts that have expired are put away.
const SWEEP: Duration = Duration::from_secs(2);
/// A context's patience if nothing is said of it, and the longest.
const POLL_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_POLL_TIMEOUT: Duration = Duration::from_secs(2 * 86_400);

/// The contexts.
#[derive(Debug)]
pub(in crate::server) struct Contexts {
    table: Arc<Mutex<Table>>,
    sweeping: Arc<AtomicBool>,
    connecting: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Table {
    by_number: HashMap<u32, Arc<WebContext>>,
    /// Places of hosts and archives, by what they are.
    places: HashMap<String, Weak<Semaphore>>,
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
    places: Arc<Semaphore>,
    /// Only ever locked with `turn` taken: nobody waits for it.
    session: Mutex<Session>,
}

/// The right to use a context.
#[derive(Debug)]
pub(super) struct Lease {
    context: Arc<WebContext>,
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
        Ok(Lease { context: Arc::clone(context) })
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
        let places = {
            let mut table = locked(&self.table);
            table.expect_room(call.peer)?;
            table.places_of(origin.key())
        };
        let place = permit(&places, "others are waiting for the same host").await?;
        let turn = permit(&self.connecting, "others are connecting").await?;
        let sources = Arc::clone(&web.sources);
        let session = web.pool.run(move || {
            let _places = (place, turn);
            origin.open(&sources)
        });
        let session = session.await??;
        let turn = Arc::new(Semaphore::new(1));
        let last = Mutex::new(Instant::now());
        let mut table = locked(&self.table);
        // Others may have come meanwhile.
        table.expect_room(call.peer)?;
        let number = table.free_number()?;
        let session = Mutex::new(session);
        let context = WebContext { number, peer: call.peer, patience, last, turn, places, session };
        let context = Arc::new(context);
        table.by_number.insert(number, Arc::clone(&context));
        drop(table);
        self.sweep();
        Ok(Lease { context })
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
                table.places.retain(|_, places| places.strong_count() > 0);
                let is_empty = table.by_number.is_empty();
                if is_empty {
                    sweeping.store(false, Ordering::Release);
                }
                drop(table);
                // Connections are closed outside of the lock.
                drop(gone);
                if is_empty {
                    return;
                }
            }
        });
    }
}

impl Table {
    fn expect_room(&self, peer: Option<IpAddr>) -> Result<(), Refusal> {
        let now = Instant::now();
        let alive = || self.by_number.values().filter(|context| !context.has_expired(now));
        // Counting costs, so only when it may be tight.
        if self.by_number.len() >= MAX_CONTEXTS && alive().count() >= MAX_CONTEXTS {
            return Err(busy(format!("{MAX_CONTEXTS} contexts are in use: try again later")));
        }
        let of_peer = || alive().filter(|context| context.peer == peer).count();
        if self.by_number.len() >= MAX_OF_CLIENT && of_peer() >= MAX_OF_CLIENT {
            return Err(Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "{MAX_OF_CLIENT} contexts are in use from this address: use them again by their numbers"
                ),
            ));
        }
        Ok(())
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

    fn places_of(&mut self, key: String) -> Arc<Semaphore> {
        if let Some(places) = self.places.get(&key).and_then(Weak::upgrade) {
            return places;
        }
        let places = Arc::new(Semaphore::new(AT_ONCE));
        self.places.insert(key, Arc::downgrade(&places));
        places
    }

    /// Takes out what has expired.
    fn expired(&mut self, now: Instant) -> Vec<Arc<WebContext>> {
        let gone: Vec<u32> = self
            .by_number
            .values()
            .filter(|context| context.has_expired(now))
            .map(|context| context.number)
            .collect();
        gone.iter().filter_map(|number| self.by_number.remove(number)).collect()
    }
}

impl WebContext {
    fn touch(&self) {
        *locked(&self.last) = Instant::now();
    }

    fn has_expired(&self, now: Instant) -> bool {
        // While a request has it, it is in use.
        self.turn.available_permits() > 0
            && now.saturating_duration_since(*locked(&self.last)) > self.patience
    }
}

impl Lease {
    pub(super) fn number(&self) -> u32 {
        self.context.number
    }

    /// Does something with the context, when its turn comes. It is done to its end, also if the client goes away.
    ///
    /// # Errors
    /// The turn does not come.
    pub(super) async fn run<T: Send + 'static>(
        self,
        pool: &Pool,
        work: impl FnOnce(&mut Session) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let context = self.context;
        let turn = permit(&context.turn, "another request is using this context").await?;
        let place = permit(&context.places, "others are waiting for the same host").await?;
        let done = pool.run(move || {
            // A panic of another request leaves a context that says so itself, if it is broken.
            let done = work(&mut locked(&context.session));
            context.touch();
            drop((place, turn));
            done
        });
        Ok(done.await?)
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

    /// What has places of its own in the pool.
    fn key(&self) -> String {
        match self {
            Origin::Host(spec) => format!("{:?}", spec.place),
            Origin::Archive(glance, _) => glance.name.to_string_lossy().into_owned(),
        }
    }

    /// Connects, or reads metadata.
    fn open(self, sources: &Sources) -> Result<Session, Refusal> {
        match self {
            Origin::Host(spec) => {
                let context = sources.connect(&spec).map_err(|error| no_source(&error))?;
                Ok(Session::new(context))
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
        SourceError::Client(error) => Refusal::bad(format!("cannot connect to PMCD: {}", error.code())),
        SourceError::NotAllowed(_) => Refusal::new(StatusCode::FORBIDDEN, error.to_string()),
        SourceError::Spec(_) | SourceError::TooLong | SourceError::NoHost => Refusal::bad(error.to_string()),
    }
}

/// The patience of a context: seconds as `strtod(3)` reads them.
fn poll_timeout(text: Option<&str>) -> Result<Duration, Refusal> {
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
            [("5", 5.0), ("0.5", 0.5), ("1e1", 10.0), ("", 0.0), ("inf", 172_800.0), ("1e300", 172_800.0)]
        {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for text in ["abc", "5s", "-1", "nan", " "] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}

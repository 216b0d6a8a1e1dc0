//! Event records of hosts and archives: one place for [`super::traces`], [`super::logs`] and the page.
//!
//! * [`record`]: a record. [`read`]: arrays of a collector or an archive become records.
//! * [`ring`], [`follow`]: what hosts told of lately, in memory. [`past`]: what archives have.
//! * [`walk`]: going through both, as often as a query has to in its [`Turn`]. [`spans`]: starts and ends put together. [`duration`]: times
//!   in queries.
//!
//! Hosts of the command line are followed from the start on, as those who look ask for the last hour: [`MEMORY`] for all of them. What
//! had to go, and what agents said was missed, is counted ([`Records::hosts`]).
//!
//! **Cost:** a query looks at each record of its window; those of an archive are made for it, those in memory are shared.

pub(crate) mod duration;
pub(crate) mod follow;
pub(crate) mod past;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod ring;
pub(crate) mod spans;
pub(crate) mod walk;

use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pcp_net::Worker;
use tokio::sync::watch;

use super::library::Library;
use super::pool::{NotDone, Pool};
use super::share::Share;
use super::sources::Sources;
use follow::{Followed, HostState};
use past::Past;
use record::Record;
use walk::{Order, Part, Visitor, Walk, Walked, Window};

/// Bytes of records of hosts in memory.
const MEMORY: usize = 64 << 20;
/// The least for one host.
const LEAST: usize = 256 << 10;
/// Most bytes of records that a query keeps.
const MAX_KEPT: usize = 32 << 20;
/// How many queries are answered at a time, as each may hold so many records; and how long others wait.
const TURNS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(30);
/// How long all walks of a query may take.
const MAX_TIME: Duration = Duration::from_secs(20);

/// A query that looks at the records.
pub(crate) struct Turn<'a> {
    pub(crate) records: &'a Records,
    /// Then its walks end.
    until: Instant,
}

/// Event records.
pub(crate) struct Records {
    hosts: Vec<Arc<Followed>>,
    library: Arc<Library>,
    past: Past,
    turns: Share,
    changed: watch::Receiver<u64>,
    _followers: Vec<Worker>,
}

impl Records {
    /// Follows the hosts of the command line.
    ///
    /// # Errors
    /// There are no threads to be had.
    pub(super) fn start(sources: Arc<Sources>, library: Arc<Library>) -> io::Result<Records> {
        let (changes, changed) = watch::channel(0);
        let changes = Arc::new(changes);
        let named: Vec<_> = sources
            .names()
            .filter_map(|name| sources.allowed(Some(&name)).ok().map(|spec| (name, spec)))
            .collect();
        let budget = (MEMORY / named.len().max(1)).max(LEAST);
        let hosts: Vec<_> =
            named.into_iter().map(|(name, spec)| Arc::new(Followed::new(&name, spec, budget))).collect();
        let past = Past::default();
        let follow = |host: &Arc<Followed>| {
            follow::follow(
                Arc::clone(host),
                Arc::clone(&sources),
                Arc::clone(&past.names),
                Arc::clone(&changes),
            )
        };
        let followers = hosts.iter().map(follow).collect::<io::Result<_>>()?;
        let turns = Share::new(TURNS, PATIENCE);
        Ok(Records { hosts, library, past, turns, changed, _followers: followers })
    }

    /// How it is with the hosts.
    pub(crate) fn hosts(&self) -> Vec<HostState> {
        self.hosts.iter().map(|host| host.state()).collect()
    }

    /// Those that are followed.
    pub(crate) fn followed(&self) -> &[Arc<Followed>] {
        &self.hosts
    }

    /// Tells of changes: there are new records of hosts.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// Does `work` with the records when it is its turn, on a thread that may wait. The turn lasts as long as the work, also if nobody
    /// waits for it any more.
    ///
    /// # Errors
    /// [`NotDone`].
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        pool: &Pool,
        work: impl FnOnce(&Turn<'_>) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let records = Arc::clone(self);
        self.turns.run(pool, move || work(&records.turn())).await
    }

    /// A turn that begins now.
    fn turn(&self) -> Turn<'_> {
        Turn { records: self, until: Instant::now() + MAX_TIME }
    }
}

impl Turn<'_> {
    /// Whether there is no time for another walk.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Goes through all records of a window.
    pub(crate) fn walk(&self, window: Window, order: Order, visitor: &mut dyn Visitor) -> Walked {
        let mut walk = Walk::new(window, order, self.until, visitor);
        let records = self.records;
        let live: Vec<(Arc<str>, &Arc<Followed>)> =
            records.hosts.iter().filter_map(|host| Some((host.host()?, host))).collect();
        let mut archives: Vec<_> = records
            .library
            .all()
            .iter()
            .filter(|glance| walk.visitor.host(&glance.label.host) && past::overlaps(glance, &walk))
            .cloned()
            .collect();
        archives.sort_by_key(|glance| match order {
            Order::Newest => -past::last(glance),
            Order::Oldest => read::nanos(glance.label.start),
        });
        let mut tellers: BTreeMap<&str, usize> = BTreeMap::new();
        let names = live.iter().map(|(name, _)| &**name);
        for name in names.chain(archives.iter().map(|glance| glance.label.host.as_str())) {
            *tellers.entry(name).or_default() += 1;
        }
        let overlaps = |host: &str| tellers.get(host).is_some_and(|&tellers| tellers > 1);
        for (name, host) in &live {
            if !walk.visitor.host(name) {
                continue;
            }
            let (mut of_host, next) = host.within(window.from, window.to);
            walk.walked.next.insert(host.name.clone(), next);
            if order == Order::Newest {
                of_host.reverse();
            }
            let mut part = Part::new(overlaps(name));
            if !of_host.into_iter().all(|record| walk.record(&mut part, record)) {
                return walk.walked;
            }
        }
        for glance in &archives {
            let host = &glance.label.host;
            if order == Order::Newest && walk.visitor.enough(past::last(glance)) {
                continue;
            }
            if !walk.goes_on() || walk.is_late() {
                break;
            }
            records.past.walk(glance, overlaps(host), &mut walk);
        }
        walk.walked
    }

    /// The first so many of the records of a window that are wanted, in their order.
    pub(crate) fn select(
        &self,
        window: Window,
        order: Order,
        limit: usize,
        host: &dyn Fn(&str) -> bool,
        wants: &mut dyn FnMut(&Record) -> bool,
    ) -> (Vec<Arc<Record>>, Walked) {
        let mut first = First::new(order, limit, host, wants);
        let mut walked = self.walk(window, order, &mut first);
        if first.limit < limit {
            walked.cut = Some("more bytes of records than one answer has: ask for fewer");
        }
        let mut kept = first.kept.into_vec();
        kept.sort_unstable();
        (kept.into_iter().map(|kept| kept.record).collect(), walked)
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("hosts", &self.hosts.len()).finish_non_exhaustive()
    }
}

/// Keeps the first records.
struct First<'a> {
    order: Order,
    /// As many as there are, once these are too many bytes.
    limit: usize,
    host: &'a dyn Fn(&str) -> bool,
    wants: &'a mut dyn FnMut(&Record) -> bool,
    /// The last of them on top.
    kept: BinaryHeap<Kept>,
    bytes: usize,
    turn: u64,
}

/// A record, and where it stands.
struct Kept {
    /// Its time, or the same before 0: the less the earlier in the order. Of one time they are as they came.
    key: (i64, u64),
    record: Arc<Record>,
}

impl Ord for Kept {
    fn cmp(&self, other: &Kept) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Kept) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Kept) -> bool {
        self.key == other.key
    }
}

impl Eq for Kept {}

impl<'a> First<'a> {
    fn new(
        order: Order,
        limit: usize,
        host: &'a dyn Fn(&str) -> bool,
        wants: &'a mut dyn FnMut(&Record) -> bool,
    ) -> First<'a> {
        First { order, limit, host, wants, kept: BinaryHeap::new(), bytes: 0, turn: 0 }
    }

    fn rank(&self, time: i64) -> i64 {
        match self.order {
            Order::Newest => -time.max(-i64::MAX),
            Order::Oldest => time,
        }
    }
}

impl Visitor for First<'_> {
    fn host(&self, host: &str) -> bool {
        (self.host)(host)
    }

    fn wants(&mut self, record: &Record) -> bool {
        !self.enough(record.time) && (self.wants)(record)
    }

    fn take(&mut self, record: Arc<Record>) {
        self.turn += 1;
        let key = (self.rank(record.time), self.turn);
        self.bytes += record.bytes();
        self.kept.push(Kept { key, record });
        if self.bytes > MAX_KEPT {
            self.limit = self.limit.min(self.kept.len() - 1).max(1);
        }
        while self.kept.len() > self.limit {
            let gone = self.kept.pop();
            self.bytes -= gone.map_or(0, |gone| gone.record.bytes());
        }
    }

    fn enough(&self, time: i64) -> bool {
        let last = self.kept.peek().filter(|_| self.kept.len() >= self.limit);
        self.limit == 0 || last.is_some_and(|last| self.rank(time) > last.key.0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;

    use pcp_event::EventFlags;

    use super::record::tests::{origin, record};
    use super::*;

    #[test]
    fn the_first_are_kept_in_their_order() {
        let origin = origin("h", "app");
        let times = [5, 1, 4, 9, 4, 7, 2];
        for (order, expected) in [(Order::Newest, [9, 7, 5]), (Order::Oldest, [1, 2, 4])] {
            let mut wants = |_: &Record| true;
            let mut first = First::new(order, 3, &|_| true, &mut wants);
            for ms in times {
                let record = record(&origin, ms, EventFlags::POINT, &[]);
                if first.wants(&record) {
                    first.take(record);
                }
            }
            let mut kept = first.kept.into_vec();
            kept.sort_unstable();
            let kept: Vec<i64> = kept.iter().map(|kept| kept.record.time / 1_000_000).collect();
            assert_eq!(kept, expected);
        }
    }

    /// Does something with records that are of no host.
    pub(crate) fn with_none<T>(work: impl FnOnce(&Turn<'_>) -> T) -> T {
        work(&of_archives(&[]).turn())
    }

    /// The records of archives.
    fn of_archives(archives: &[PathBuf]) -> Arc<Records> {
        let sources = Sources::new(&[], true, false).expect("no hosts");
        let library = Library::open(archives).expect("archives");
        Arc::new(Records::start(Arc::new(sources), Arc::new(library)).expect("no threads"))
    }

    #[tokio::test]
    async fn a_turn_lasts_as_long_as_its_work() {
        let (records, pool) = (of_archives(&[]), Pool::new());
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        let work = move |_: &Turn<'_>| {
            began.send(()).expect("the test waits");
            let _ = goes_on.recv();
        };
        let asking = tokio::spawn({
            let (records, pool) = (Arc::clone(&records), pool.clone());
            async move { records.ask(&pool, work).await }
        });
        has_begun.await.expect("it begins");
        asking.abort();
        assert!(asking.await.is_err_and(|error| error.is_cancelled()), "its client is gone");
        assert_eq!(records.turns.free(), TURNS - 1, "its work is not");
        go_on.send(()).expect("it still waits");
        let until = Instant::now() + Duration::from_secs(10);
        while records.turns.free() < TURNS && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(records.turns.free(), TURNS, "its turn is over");
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let origin = origin("h", "app");
        let large = "x".repeat(1 << 20);
        let mut wants = |_: &Record| true;
        let mut first = First::new(Order::Newest, 5000, &|_| true, &mut wants);
        for ms in 0..100 {
            first.take(record(&origin, ms, EventFlags::POINT, &[("message", &large)]));
        }
        assert!(first.bytes <= MAX_KEPT && first.limit < 33);
        assert_eq!(first.kept.len(), first.limit);
        assert!(first.kept.iter().all(|kept| kept.record.time >= 69 * 1_000_000), "the newest stay");
        assert!(first.enough(0) && !first.enough(i64::MAX));
    }
}

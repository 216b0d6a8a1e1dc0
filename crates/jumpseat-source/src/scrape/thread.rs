//! The thread that scrapes: one small runtime of tokio, a task for each target, which waits for its turn.
//!
//! **Turns:** `interval` after `interval`, counted from the epoch, and within it at the place that [`Target::turn`] says; the first turn comes
//! within five seconds. A turn that comes while the one before is not over is left out, and counted.
//!
//! **Changes:** a table that is the same after a reload goes on as it was, and so do the targets of a file that are still there; what has gone
//! is forgotten at once.

use std::cell::{Cell, RefCell};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use pcp_ids::{IdMap, IdsError};
use pcp_model::InDom;
use pcp_net::{End, Life, Limiter, Stamp, Worker};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinHandle, LocalSet, spawn_local, yield_now};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::TARGET_SERIAL;
use super::config::ScrapeConfig;
use super::exposition::Format;
use super::fetch::{Ask, Body, Connection, Fault, Shared, fetch};
use super::known::{Known, Outcome, Owner};
use super::stats::{Failure, Refusal, ScrapeStats, TargetStats};
use super::target::{self, Chosen, Identity, Left, Listed, Target};
use crate::outlet::Outlet;
use crate::series::Series;
use crate::start::StartError;

/// Scrapes at the same time.
const AT_ONCE: usize = 512;
/// How soon a target has its first turn.
const FIRST: Duration = Duration::from_secs(5);
/// How often the thread looks after its targets.
const LOOK: Duration = Duration::from_secs(1);
/// How often files of targets, of secrets and certificates are looked at.
const FILES: Duration = Duration::from_secs(5);
/// From when on a turn is late.
const LATE: Duration = Duration::from_secs(1);
/// How long to wait for the event loop before an answer is dropped, and how often to look.
const PATIENCE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(10);
/// Targets that may ever have a number: they are on file for ever.
const EVER: usize = 200_000;

/// The running scraper. Dropping this ends it, and has its series forgotten.
#[derive(Debug)]
pub struct ScrapeSource {
    _worker: Worker,
    inbox: Arc<Inbox>,
    /// What it tells.
    pub stats: Arc<ScrapeStats>,
}

/// What the thread is told.
#[derive(Debug, Default)]
struct Inbox {
    tables: Mutex<Vec<ScrapeConfig>>,
    is_new: AtomicBool,
    stop: AtomicBool,
    stir: Notify,
}

impl ScrapeSource {
    /// Starts the thread for these tables.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(tables: &[ScrapeConfig], outlet: &Outlet) -> Result<ScrapeSource, StartError> {
        tables.iter().try_for_each(ScrapeConfig::validate).map_err(StartError::Config)?;
        let system = StartError::system("the scraper");
        let (inbox, stats) = (Arc::<Inbox>::default(), Arc::<ScrapeStats>::default());
        inbox.tell(tables);
        let (of_lives, outlet_of_lives, told) = (Arc::clone(&inbox), outlet.clone(), Arc::clone(&stats));
        let again = move || life(&of_lives, &outlet_of_lives, &told);
        let first = again()?;
        let worker = Worker::kept("jumpseat-scrape", &outlet.restarts, first, again).map_err(&system)?;
        Ok(ScrapeSource { _worker: worker, inbox, stats })
    }

    /// Has it do what these tables say from now on. Files of targets are read again as well.
    pub fn configure(&self, tables: &[ScrapeConfig]) {
        self.inbox.tell(tables);
    }
}

impl Inbox {
    fn tell(&self, tables: &[ScrapeConfig]) {
        *self.tables.lock().unwrap_or_else(PoisonError::into_inner) = tables.to_vec();
        self.is_new.store(true, Ordering::Release);
        self.stir.notify_one();
    }

    fn take(&self) -> Option<Vec<ScrapeConfig>> {
        let is_new = self.is_new.swap(false, Ordering::AcqRel);
        is_new.then(|| self.tables.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// A life of the thread.
fn life(inbox: &Arc<Inbox>, outlet: &Outlet, stats: &Arc<ScrapeStats>) -> Result<Life, StartError> {
    let system = StartError::system("the scraper");
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_io().enable_time().max_blocking_threads(16).thread_name("jumpseat-lookup");
    let runtime = runtime.build().map_err(&system)?;
    let ids = ids(outlet).map_err(io::Error::other).map_err(&system)?;
    let (inbox, stats, outlet) = (Arc::clone(inbox), Arc::clone(stats), outlet.clone());
    // What a life before was told is as good as new for this one.
    inbox.is_new.store(true, Ordering::Release);
    let told = Arc::clone(&inbox);
    let run = move || {
        let local = LocalSet::new();
        let end = local.block_on(&runtime, async {
            let mut scraper = Scraper::new(&stats, &outlet, ids);
            scraper.serve(&inbox).await
        });
        drop(local);
        // Whoever still looks up a name is not waited for.
        runtime.shutdown_background();
        end
    };
    let stop = move || {
        told.stop.store(true, Ordering::Release);
        told.stir.notify_one();
    };
    Ok(Life { run: Box::new(run), stop: Box::new(stop) })
}

fn ids(outlet: &Outlet) -> Result<IdMap, IdsError> {
    let name = InDom::new(outlet.registry.domain(), TARGET_SERIAL).to_string();
    IdMap::load(outlet.state_dir.as_ref().map(|dir| dir.join(name)).as_deref(), pcp_ids::MAX_ID)
}

/// All tables and their targets.
struct Scraper {
    site: Rc<Site>,
    outlet: Outlet,
    ids: IdMap,
    tables: Vec<Table>,
    /// Series of targets that have gone, which are still to be forgotten.
    orphans: Vec<Rc<RefCell<Known>>>,
    looked: Instant,
}

/// What all targets share.
struct Site {
    shared: Rc<Shared>,
    series: Series,
    places: Semaphore,
    report: RefCell<Limiter>,
}

/// A table, and the targets it has now.
struct Table {
    job: Rc<Job>,
    file: Option<File>,
    listed: Listed,
    /// What it names besides its targets, as was told in the log.
    left: Left,
    /// Whether numbers of its targets could not be kept, so that some are missing.
    is_unsettled: bool,
    targets: BTreeMap<String, Running>,
}

/// How the targets of a table are asked.
struct Job {
    config: ScrapeConfig,
    /// Series of all of them.
    count: Rc<Cell<usize>>,
    /// What the files said, when they were read, and which they were: for http, and for https.
    ask: RefCell<[Option<Asking>; 2]>,
}

struct Asking {
    /// Or why nobody can be asked.
    ask: Result<Rc<Ask>, String>,
    /// Whether the files as they are cannot be used.
    is_broken: bool,
    looked: Instant,
    stamps: Vec<Option<Stamp>>,
}

/// A file of targets as it was read last.
struct File {
    stamp: Option<Stamp>,
}

/// A target that has its turns.
struct Running {
    target: Target,
    stats: Arc<TargetStats>,
    known: Rc<RefCell<Known>>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scraper {
    fn new(stats: &Arc<ScrapeStats>, outlet: &Outlet, ids: IdMap) -> Scraper {
        let site = Site {
            shared: Rc::new(Shared::new(stats)),
            series: outlet.series.clone(),
            places: Semaphore::new(AT_ONCE),
            report: RefCell::new(Limiter::new(20, Duration::from_secs(60))),
        };
        Scraper {
            site: Rc::new(site),
            outlet: outlet.clone(),
            ids,
            tables: Vec::new(),
            orphans: Vec::new(),
            looked: Instant::now(),
        }
    }

    async fn serve(&mut self, inbox: &Inbox) -> End {
        while !inbox.stop.load(Ordering::Acquire) {
            let mut is_changed = false;
            if let Some(configs) = inbox.take() {
                self.configure(configs);
                is_changed = true;
            }
            is_changed |= self.look(is_changed);
            if is_changed {
                self.publish();
            }
            self.forget();
            // Too late or stirred, it comes to the same.
            let _ = timeout(LOOK, inbox.stir.notified()).await;
        }
        for table in std::mem::take(&mut self.tables) {
            self.end(table);
        }
        self.forget();
        self.publish();
        End::Asked
    }

    /// Has tables that are the same go on, and others begin or end.
    fn configure(&mut self, configs: Vec<ScrapeConfig>) {
        let mut before: Vec<Table> = std::mem::take(&mut self.tables);
        let mut tables = Vec::with_capacity(configs.len());
        let mut counted = BTreeMap::new();
        for config in configs {
            if let Some(at) = before.iter().position(|table| table.job.config == config) {
                let mut table = before.swap_remove(at);
                // The file is read again, whether or not it looks the same.
                table.file = None;
                tables.push(table);
            } else {
                let job = Job { config, count: Rc::default(), ask: RefCell::default() };
                tables.push(Table {
                    job: Rc::new(job),
                    file: None,
                    listed: Listed::default(),
                    left: Left::default(),
                    is_unsettled: false,
                    targets: BTreeMap::new(),
                });
            }
        }
        for table in before {
            counted.extend(
                table
                    .targets
                    .values()
                    .map(|running| (running.stats.name.clone(), Arc::clone(&running.stats))),
            );
            self.end(table);
        }
        tables.iter_mut().for_each(|table| table.read(&self.site.shared.stats));
        self.update_all(&mut tables, &mut counted);
        self.tables = tables;
    }

    /// Looks at files, and at tasks, which only a panic ends. Whether there are other targets now.
    fn look(&mut self, is_forced: bool) -> bool {
        if !is_forced && self.looked.elapsed() < FILES {
            return false;
        }
        self.looked = Instant::now();
        let mut is_changed = false;
        let mut tables = std::mem::take(&mut self.tables);
        for table in &mut tables {
            if table.is_stale() {
                table.read(&self.site.shared.stats);
                is_changed = true;
            }
            is_changed |= table.is_unsettled;
        }
        if is_changed {
            self.update_all(&mut tables, &mut BTreeMap::new());
        }
        for table in &mut tables {
            for running in table.targets.values_mut().filter(|running| running.task.is_finished()) {
                tracing::error!(target = running.target.url, "scraping a target broke, and begins anew");
                running.task = begin(&self.site, &table.job, running);
            }
        }
        self.tables = tables;
        let left_out = self.tables.iter().map(Table::left_out).sum::<usize>() as u64;
        self.site.shared.stats.left_out.store(left_out, Ordering::Relaxed);
        is_changed
    }

    /// Has the targets of all tables be those that they name. Of targets that would have the same series, the first is asked. `counted`: what
    /// was told so far of targets that have ended.
    fn update_all(&mut self, tables: &mut [Table], counted: &mut BTreeMap<String, Arc<TargetStats>>) {
        let mut taken = BTreeSet::new();
        for table in tables {
            self.update(table, &mut taken, counted);
        }
    }

    fn update(
        &mut self,
        table: &mut Table,
        taken: &mut BTreeSet<Identity>,
        counted: &mut BTreeMap<String, Arc<TargetStats>>,
    ) {
        let Chosen { targets: wanted, left } = target::all(&table.job.config, &table.listed, taken);
        table.leave(left);
        let by_url: BTreeMap<&str, &Target> = wanted.iter().map(|target| (&*target.url, target)).collect();
        let is_wanted = |running: &Running| by_url.get(&*running.target.url) == Some(&&running.target);
        let urls: Vec<String> = table
            .targets
            .iter()
            .filter(|(_, running)| !is_wanted(running))
            .map(|(url, _)| url.clone())
            .collect();
        for running in urls.iter().filter_map(|url| table.targets.remove(url)) {
            counted.insert(running.stats.name.clone(), Arc::clone(&running.stats));
            self.orphans.push(Rc::clone(&running.known));
        }
        let mut targets = std::mem::take(&mut table.targets);
        let mut added = Vec::new();
        for target in wanted {
            let Entry::Vacant(place) = targets.entry(target.url.clone()) else { continue };
            let name = target.name(&table.job.config.name);
            let inst = match self.ids.get(&name) {
                Some(inst) => Ok(inst),
                None if self.ids.len() >= EVER => Err("more targets than there may ever be".to_owned()),
                // All new ones of a table are brought to disk at once, before anybody hears of them.
                None => self.ids.get_or_add_unsettled(&name).map_err(|error| error.to_string()),
            };
            let inst = match inst {
                Ok(inst) => inst,
                Err(error) => {
                    tracing::error!(target = target.url, "a target is left out: {error}");
                    continue;
                }
            };
            let stats = match counted.get(&name) {
                Some(stats) if (&stats.job, &stats.instance) == (&target.job, &target.instance) => {
                    Arc::clone(stats)
                }
                before => Arc::new(TargetStats {
                    inst,
                    name,
                    job: target.job.clone(),
                    instance: target.instance.clone(),
                    url: target.url.clone(),
                    ..before.map(|before| before.counts()).unwrap_or_default()
                }),
            };
            let known = Known::new(Owner::of(&target, &table.job.config, &table.job.count));
            let known = Rc::new(RefCell::new(known));
            let mut running = Running { target, stats, known, task: spawn_local(async {}) };
            running.task = begin(&self.site, &table.job, &running);
            added.push(place.key().clone());
            place.insert(running);
        }
        let settled = self.ids.settle();
        let was_unsettled = std::mem::replace(&mut table.is_unsettled, settled.is_err() && !added.is_empty());
        if let Err(error) = settled {
            if !was_unsettled {
                tracing::error!("new targets are not asked yet, as their numbers cannot be kept: {error}");
            }
            for running in added.iter().filter_map(|url| targets.remove(url)) {
                self.orphans.push(Rc::clone(&running.known));
            }
        }
        table.targets = targets;
    }

    fn end(&mut self, table: Table) {
        self.orphans.extend(table.targets.values().map(|running| Rc::clone(&running.known)));
    }

    /// Has series of targets that have gone forgotten.
    fn forget(&mut self) {
        let stats = &self.site.shared.stats;
        while let Some(known) = self.orphans.pop() {
            let Some(mut session) = self.site.series.begin() else {
                self.orphans.push(known);
                return;
            };
            let mut known = known.borrow_mut();
            stats.known.fetch_sub(known.bytes() as u64, Ordering::Relaxed);
            known.forget_all(&mut session);
            session.commit();
        }
    }

    fn publish(&self) {
        let all = self.tables.iter().flat_map(|table| table.targets.values());
        self.site.shared.stats.publish(all.map(|running| Arc::clone(&running.stats)).collect());
        (self.outlet.wake)();
    }
}

impl Table {
    /// How many targets it names besides those that are asked.
    fn left_out(&self) -> usize {
        self.left.beyond + self.left.alike + self.listed.wrong
    }

    /// Tells in the log what is left out, if that is something else than before.
    fn leave(&mut self, left: Left) {
        let before = std::mem::replace(&mut self.left, left);
        let (name, Left { beyond, alike, first }) = (&self.job.config.name, &self.left);
        if *beyond > 0 && *beyond != before.beyond {
            tracing::warn!(scrape = name, beyond, "targets are left out: there are more than max_targets");
        }
        if let Some(first) = first
            && (alike, first) != (&before.alike, before.first.as_ref().unwrap_or(&String::new()))
        {
            let what = "targets are left out: others have the same job, instance and labels";
            tracing::warn!(scrape = name, alike, "{what}; give them a label. The first of them: {first}");
        }
    }

    /// Whether its file is another one than was read.
    fn is_stale(&self) -> bool {
        let Some(path) = &self.job.config.targets_file else { return false };
        self.file.as_ref().is_none_or(|file| file.stamp != Stamp::of(path))
    }

    /// Reads its file. One that cannot be read leaves the targets as they are.
    fn read(&mut self, stats: &ScrapeStats) {
        let Some(path) = &self.job.config.targets_file else { return };
        self.file = Some(File { stamp: Stamp::of(path) });
        match target::read(path, &self.job.config) {
            Ok(listed) => {
                if let Some(first) = &listed.first {
                    let (shown, wrong) = (path.display(), listed.wrong);
                    tracing::warn!(wrong, "{shown}: targets are left out, the first of them: {first}");
                }
                self.listed = listed;
            }
            Err(error) => {
                stats.unreadable.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("targets stay as they are: {error}");
            }
        }
    }
}

impl Job {
    /// How its targets are asked now. Files that break change nothing, for none of them, until they can be used again; where one is gone, no
    /// target is asked.
    ///
    /// # Errors
    /// A file with a secret or certificates is gone, or could not be used from the beginning.
    fn ask(&self, is_secure: bool) -> Result<Rc<Ask>, Fault> {
        let mut slots = self.ask.borrow_mut();
        let slot = &mut slots[usize::from(is_secure)];
        if slot.as_ref().is_none_or(|asking| asking.looked.elapsed() >= FILES) {
            *slot = Some(self.look(is_secure, slot.take()));
        }
        let ask = slot.as_ref().map_or(Err(String::new()), |asking| asking.ask.clone());
        ask.map_err(|why| Fault::new(Failure::Setup, why))
    }

    /// Looks at the files.
    fn look(&self, is_secure: bool, before: Option<Asking>) -> Asking {
        // Before they are read: what changes meanwhile is read again.
        let (stamps, looked) = (self.stamps(), Instant::now());
        let (kept, was_broken) = match before {
            Some(before) if before.stamps == stamps && !before.is_broken => {
                return Asking { looked, ..before };
            }
            Some(before) => (before.ask.ok(), before.is_broken),
            None => (None, false),
        };
        match Ask::new(&self.config, is_secure) {
            Ok(ask) => Asking { ask: Ok(Rc::new(ask)), is_broken: false, looked, stamps },
            Err(why) => {
                let kept = kept.filter(|_| stamps.iter().all(Option::is_some));
                if kept.is_some() && !was_broken {
                    let name = &self.config.name;
                    tracing::warn!(scrape = name, "targets are asked with what the files said before: {why}");
                }
                Asking { ask: kept.ok_or(why), is_broken: true, looked, stamps }
            }
        }
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        self.config.paths().iter().map(|path| Stamp::of(path)).collect()
    }
}

/// Has a target have its turns.
fn begin(site: &Rc<Site>, job: &Rc<Job>, running: &Running) -> JoinHandle<()> {
    let turns = Turns {
        site: Rc::clone(site),
        job: Rc::clone(job),
        target: running.target.clone(),
        stats: Arc::clone(&running.stats),
        known: Rc::clone(&running.known),
        kept: None,
        is_well: true,
    };
    spawn_local(turns.run())
}

/// A target and its turns.
struct Turns {
    site: Rc<Site>,
    job: Rc<Job>,
    target: Target,
    stats: Arc<TargetStats>,
    known: Rc<RefCell<Known>>,
    kept: Option<Connection>,
    /// Whether the last turn went well, as was told in the log.
    is_well: bool,
}

impl Turns {
    async fn run(mut self) {
        let interval = self.job.config.interval.0;
        let hash = self.target.turn(&self.job.config.name);
        let (soon, mut turn) = first(hash, interval);
        sleep_until(soon).await;
        self.turn(soon).await;
        loop {
            let now = Instant::now();
            while turn <= now {
                self.stats.skipped.fetch_add(1, Ordering::Relaxed);
                turn += interval;
            }
            sleep_until(turn).await;
            self.turn(turn).await;
            turn += interval;
        }
    }

    async fn turn(&mut self, due: Instant) {
        let site = Rc::clone(&self.site);
        let Ok(_place) = site.places.acquire().await else { return };
        let _running = Under::way(&site);
        let begun = Instant::now();
        if begun.saturating_duration_since(due) >= LATE {
            self.stats.late.fetch_add(1, Ordering::Relaxed);
        }
        let scraped = self.scrape().await;
        self.stats.took(begun.elapsed());
        match scraped {
            Ok(outcome) => self.succeeded(&outcome),
            Err(fault) => self.failed(&fault).await,
        }
        self.stats.scrapes.fetch_add(1, Ordering::Relaxed);
    }

    async fn scrape(&mut self) -> Result<Outcome, Fault> {
        let ask = self.job.ask(self.target.is_secure)?;
        let (max, limit) = (self.job.config.max_body, self.job.config.limit());
        let answer = fetch(&self.site.shared, &mut self.kept, &self.target, &self.stats, &ask, max);
        let slow = |_| Fault::new(Failure::Timeout, format!("no whole answer within {limit:?}"));
        // An agent that is behind makes no target slow: to take the answer in has its own patience.
        let (format, body) = timeout(limit, answer).await.map_err(slow)??;
        let outcome = self.take(format, &body).await?;
        match outcome.first.filter(|_| outcome.is_garbage()) {
            Some((line, column, what)) => {
                let message = format!("no metrics: line {line}, column {column}: {what}");
                Err(Fault::new(Failure::Syntax, message))
            }
            None => Ok(outcome),
        }
    }

    /// Takes in an answer, portion by portion.
    async fn take(&self, format: Format, body: &Body) -> Result<Outcome, Fault> {
        let mut before = self.known.borrow().bytes();
        let mut pass = self.known.borrow_mut().begin(&body.bytes, format);
        // Where families have changed, all are set aside.
        let begun = self.known.borrow().bytes();
        self.memory(before, begun);
        before = begun;
        let mut until = Instant::now() + PATIENCE;
        loop {
            let Some(mut session) = self.site.series.begin() else {
                if Instant::now() >= until {
                    return Err(Fault::new(Failure::Busy, "the agent is behind with metrics"));
                }
                sleep(RETRY).await;
                continue;
            };
            let is_done = pass.step(&mut self.known.borrow_mut(), &mut session);
            session.commit();
            let (after, series) = (self.known.borrow().bytes(), self.known.borrow().len());
            self.memory(before, after);
            before = after;
            self.stats.series.store(series as u64, Ordering::Relaxed);
            if is_done {
                return Ok(pass.outcome);
            }
            until = Instant::now() + PATIENCE;
            yield_now().await;
        }
    }

    fn succeeded(&mut self, outcome: &Outcome) {
        self.stats.up.store(1, Ordering::Relaxed);
        self.stats.samples.store(outcome.samples, Ordering::Relaxed);
        for (refused, count) in self.stats.refused.iter().zip(outcome.refused) {
            refused.fetch_add(count, Ordering::Relaxed);
        }
        let problem = outcome.first.map(|(line, column, what)| {
            let refused: u64 = outcome.refused.iter().sum();
            format!("{refused} samples refused, the first in line {line}, column {column}: {what}")
        });
        self.stats.tell(problem.unwrap_or_default());
        if !std::mem::replace(&mut self.is_well, true) {
            tracing::info!(target = self.target.url, "a target is scraped again");
        }
    }

    async fn failed(&mut self, fault: &Fault) {
        self.kept = None;
        self.stats.up.store(0, Ordering::Relaxed);
        self.stats.samples.store(0, Ordering::Relaxed);
        self.stats.failed[fault.failure as usize].fetch_add(1, Ordering::Relaxed);
        self.stats.tell(format!("{}: {}", fault.failure.word(), fault.message));
        if std::mem::replace(&mut self.is_well, false)
            && let Some(held_back) = self.site.report.borrow_mut().allow(std::time::Instant::now())
        {
            let (url, reason) = (&self.target.url, fault.failure.word());
            tracing::warn!(target = url, reason, held_back, "a target is not scraped: {}", fault.message);
        }
        // It is the agent that is behind: values stay as they are.
        if fault.failure == Failure::Busy {
            return;
        }
        let until = Instant::now() + PATIENCE;
        while !self.known.borrow().is_empty() && Instant::now() < until {
            let Some(mut session) = self.site.series.begin() else {
                sleep(RETRY).await;
                continue;
            };
            let mut known = self.known.borrow_mut();
            let before = known.bytes();
            known.forget_all(&mut session);
            session.commit();
            self.memory(before, known.bytes());
        }
        self.stats.series.store(0, Ordering::Relaxed);
    }

    fn memory(&self, before: usize, after: usize) {
        let known = &self.site.shared.stats.known;
        match after >= before {
            true => known.fetch_add((after - before) as u64, Ordering::Relaxed),
            false => known.fetch_sub((before - after) as u64, Ordering::Relaxed),
        };
    }
}

/// A scrape under way, as long as this lives.
struct Under(Rc<Site>);

impl Under {
    fn way(site: &Rc<Site>) -> Under {
        site.shared.stats.running.fetch_add(1, Ordering::Relaxed);
        Under(Rc::clone(site))
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        self.0.shared.stats.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// When a target has its first turn, and its next regular one.
fn first(hash: u64, interval: Duration) -> (Instant, Instant) {
    let (now, nanos) = (Instant::now(), |time: Duration| time.as_nanos().max(1) as u64);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (every, soon) = (nanos(interval), nanos(interval.min(FIRST)));
    let wait = (u128::from(hash % every) + u128::from(every) - since.as_nanos() % u128::from(every))
        % u128::from(every);
    let soon = now + Duration::from_nanos(hash % soon);
    let regular = now + Duration::from_nanos(wait as u64);
    // Not twice within a moment.
    let regular = if regular < soon + interval / 2 { regular + interval } else { regular };
    (soon, regular)
}

/// Reasons are told by their number.
const _: () = assert!(Failure::Busy as usize + 1 == Failure::ALL.len());
const _: () = assert!(Refusal::Limit as usize + 1 == Refusal::ALL.len());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_breaks_is_kept_and_one_that_is_gone_fails_all() {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let write = |text: &str| std::fs::write(file.path(), text).expect("ours");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(file.path(), mode).expect("ours");
        let config = ScrapeConfig { token_file: Some(file.path().to_owned()), ..ScrapeConfig::default() };
        let job = Job { config, count: Rc::default(), ask: RefCell::default() };
        write("");
        let none = job.look(false, None);
        assert!(none.ask.is_err() && none.is_broken);
        write("one");
        let one = job.look(false, Some(none));
        let ask = one.ask.clone().expect("a secret");
        // As often as it is looked at, until it can be used.
        write("");
        let broken = job.look(false, Some(one));
        let broken = job.look(false, Some(broken));
        assert!(broken.is_broken && broken.ask.as_ref().is_ok_and(|kept| Rc::ptr_eq(kept, &ask)));
        write("two");
        let two = job.look(false, Some(broken));
        assert!(!two.is_broken && two.ask.as_ref().is_ok_and(|other| !Rc::ptr_eq(other, &ask)));
        drop(file);
        let gone = job.look(false, Some(two));
        assert!(gone.is_broken && gone.ask.is_err());
    }

    #[test]
    fn turns_are_spread_and_the_first_comes_soon() {
        let interval = Duration::from_secs(60);
        let now = Instant::now();
        let mut buckets = [0; 6];
        for n in 0..600_u64 {
            let hash = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (soon, regular) = first(hash, interval);
            assert!(soon < now + FIRST + LATE, "{:?}", soon - now);
            assert!(regular >= soon + interval / 2 && regular < soon + 2 * interval);
            buckets[(hash % 60_000_000_000 / 10_000_000_000) as usize] += 1;
        }
        assert!(buckets.iter().all(|count| (60..140).contains(count)), "{buckets:?}");
    }
}

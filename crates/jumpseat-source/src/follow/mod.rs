//! Files, commands and the journal as sources: one thread for all of them.
//!
//! ```text
//! file (fstat, pread) --.
//!                        >-- Splitter -- Parser -- Event -- Lanes (held) --> core
//! command (pipe) -------'
//! ```
//!
//! * [`config`], [`multiline`]: the tables of the configuration; [`lines`]: the formats; `stream`: lines to records.
//! * [`file`]: finding files, rotation, positions; `command` and `journal`: children.
//! * [`stats`]: what the thread tells about itself.
//!
//! Files and commands take turns: one read of up to 256 KiB (64 KiB) each, then everything is handed over. When the core's
//! channel is full nothing is lost: the lines stay in their files and pipes, and the thread tries again. It never waits
//! for the core longer than [`PATIENCE`] at a time.
//!
//! **Cost:** three system calls a turn and file, and a few small allocations each time the thread wakes up. A line is parsed
//! where `read` put it, and nothing is allocated for it (`benches/follow.rs`).

pub mod config;
pub mod lines;
pub mod multiline;
pub mod stats;

mod command;
mod file;
mod journal;
mod stream;

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub use config::{CommandConfig, FileConfig, FormatName, From, JournalConfig, Restart, Run};
pub use file::look;
pub use multiline::{Multiline, Stack};
pub use stats::{FollowStats, Phase};

use pcp_net::{End, Life, Worker};

use super::lanes::Numbered;
use super::registry::Taker;
use super::{Origin, Outlet, StartError};
use command::{Job, Plan};
use file::{Files, Positions};
use journal::Start;
use lines::{Join, Journal, Parser, Splitter};
use stream::{Format, Sink, Stream};

/// How long to wait for room in the core's channel before other things are seen to.
pub const PATIENCE: Duration = Duration::from_millis(20);
/// Batches that the core's channel should have room for.
pub const QUEUE: usize = 32;
/// How soon to try again to hand over.
const RETRY: Duration = Duration::from_millis(5);
/// How soon to look again for records whose turn in the order of time has come.
const ORDER: Duration = Duration::from_millis(20);
/// Longer than records may wait for their turn (`order_window`).
const LONGEST_ORDER: Duration = Duration::from_secs(61);
/// How long to wait for the thread when it is told to follow other things.
const CHANGE: Duration = Duration::from_secs(10);
/// How often the account is brought up to date while there is no rest.
const ACCOUNT_EVERY: Duration = Duration::from_millis(100);

/// What to follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowConfig {
    /// Files.
    pub files: Vec<FileConfig>,
    /// Commands.
    pub commands: Vec<CommandConfig>,
    /// Journals.
    pub journals: Vec<JournalConfig>,
}

impl FollowConfig {
    /// Whether there is nothing to follow.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.commands.is_empty() && self.journals.is_empty()
    }
}

/// The running thread. Dropping this ends it and its commands; what was read is handed over, positions are written.
#[derive(Debug)]
pub struct Follow {
    _worker: Worker,
    orders: Arc<Orders>,
    /// Tells the thread that there are other orders.
    wake: PipeWriter,
    /// What the thread tells about itself.
    pub stats: Arc<FollowStats>,
}

/// What the thread is to follow, which may change while it runs.
#[derive(Debug)]
struct Orders {
    newest: Mutex<Order>,
    /// One has been carried out.
    done: Condvar,
    /// Has a byte for each.
    changed: PipeReader,
}

#[derive(Debug)]
struct Order {
    config: FollowConfig,
    /// How many there were, and how many of them are done with.
    given: u64,
    done: u64,
}

impl Orders {
    fn newest(&self) -> MutexGuard<'_, Order> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is to be followed, which [`Orders::finish`] says it is.
    fn take(&self) -> (FollowConfig, u64) {
        let newest = self.newest();
        (newest.config.clone(), newest.given)
    }

    fn finish(&self, order: u64) {
        self.newest().done = order;
        self.done.notify_all();
    }
}

impl Follow {
    /// Starts the thread. `max_sources`: how many sources there may be.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: &FollowConfig, max_sources: usize, outlet: &Outlet) -> Result<Follow, StartError> {
        let stats = Arc::new(FollowStats::new(max_sources));
        let (changed, wake) = io::pipe().map_err(StartError::system("following"))?;
        let newest = Mutex::new(Order { config: config.clone(), given: 0, done: 0 });
        let orders = Arc::new(Orders { newest, done: Condvar::new(), changed });
        let (of_lives, of_thread, to_lives) = (outlet.clone(), Arc::clone(&stats), Arc::clone(&orders));
        let again = move || Service::life(&to_lives, &of_lives, &of_thread);
        let first = again()?;
        let worker = Worker::kept("jumpseat-follow", &outlet.restarts, first, again);
        Ok(Follow { _worker: worker.map_err(StartError::system("following"))?, orders, wake, stats })
    }

    /// Has the thread follow other things. What is the same is not touched: its files stay open, its commands run on. What
    /// cannot be followed is in the log. Gives whether it has happened by now: the thread first hands over what it has, and
    /// is waited for a while.
    pub fn follow(&self, config: &FollowConfig) -> bool {
        let mut newest = self.orders.newest();
        newest.config.clone_from(config);
        newest.given += 1;
        let number = newest.given;
        // A pipe has room for thousands of bytes, and one is enough.
        let _ = (&self.wake).write(&[0]);
        let done = self.orders.done.wait_timeout_while(newest, CHANGE, |order| order.done < number);
        done.is_ok_and(|(_, wait)| !wait.timed_out())
    }
}

/// A command, or a journal, which is one with a cursor.
struct Source {
    job: Job,
    kind: Kind,
    /// The cursor of a journal up to which everything has left, or soon will have, and the number of bytes up to there.
    noted: (Vec<u8>, u64),
}

enum Kind {
    Command(CommandConfig),
    Journal(JournalConfig),
}

impl Source {
    fn command(config: &CommandConfig, sink: &mut Sink) -> Result<Source, StartError> {
        let parser = Parser::new(&config.reading()).map_err(StartError::Format)?;
        let name = config.source_name();
        let origin = Origin { kind: "command", address: config.run.to_string(), service: None };
        let stream = stream(sink, &name, origin)?;
        let plan = Plan {
            name: format!("command {}", config.run),
            restart: config.restart,
            backoff: (Duration::from_millis(config.backoff_ms), Duration::from_millis(config.max_backoff_ms)),
        };
        let join = config.multiline.as_ref().map(Join::new).transpose().map_err(StartError::Format)?;
        let job = Job::new(plan, Format { parser, limits: config.limits(), join }, stream);
        Ok(Source { job, kind: Kind::Command(config.clone()), noted: <_>::default() })
    }

    fn journal(config: &JournalConfig, sink: &mut Sink) -> Result<Source, StartError> {
        let address = match &config.directory {
            Some(directory) => directory.display().to_string(),
            None => "journalctl".to_owned(),
        };
        let stream = stream(sink, &config.source, Origin { kind: "journal", address, service: None })?;
        let plan = Plan {
            name: format!("journal {}", config.source),
            restart: Restart::Always,
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
        };
        let parser = Parser::Journal(Journal::new(&config.fields));
        let job = Job::new(plan, Format { parser, limits: config.limits(), join: None }, stream);
        Ok(Source { job, kind: Kind::Journal(config.clone()), noted: <_>::default() })
    }

    /// Takes it out of what is wanted. Gives whether it was there.
    fn take_from(&self, wanted: &mut FollowConfig) -> bool {
        match &self.kind {
            Kind::Command(command) => take(&mut wanted.commands, command),
            Kind::Journal(journal) => take(&mut wanted.journals, journal),
        }
    }

    fn tick(&mut self, now: Instant, sink: &mut Sink, positions: &mut Positions) {
        let Source { job, kind, .. } = self;
        let (starts_without_output, lane) = (job.starts_without_output, job.lane());
        job.tick(now, sink, |sink| match kind {
            Kind::Command(config) => {
                let argv = config.run.argv();
                let mut command = Command::new(argv.first().map_or("", String::as_str));
                command.args(argv.iter().skip(1));
                (command, None)
            }
            Kind::Journal(config) => {
                let cursor = positions.journals.get(&config.source).map(String::as_str);
                let start = journal::start(config, cursor, starts_without_output);
                let stream = sink.lanes.stream(format!("journal:{}", config.source).as_bytes());
                let kept = positions.journal_bytes.get(&config.source).copied();
                let reached = sink.lanes.reached(lane, stream);
                let number = kept.filter(|_| start.comes_again()).unwrap_or(reached);
                let command = journal::command(config, start);
                if start == Start::Beginning && kept.is_none() {
                    // Before anything is read of it: whoever begins there once more knows by this what the log has.
                    positions.journal_bytes.insert(config.source.clone(), number);
                    positions.save_at(now);
                }
                (command, Some(Numbered { stream, number }))
            }
        });
    }

    /// Notes a journal's cursor: it will be kept when everything before it has left.
    fn note(&mut self) {
        if let Parser::Journal(journal) = &self.job.format.parser {
            self.noted.0.clone_from(&journal.cursor);
            self.noted.1 = self.job.number().unwrap_or_default();
        }
    }

    /// Everything that was read has been handed over: a journal's cursor is kept.
    fn handed(&mut self, positions: &mut Positions) {
        self.note();
        self.handed_as_noted(positions);
    }

    /// The same for what was read up to the note.
    fn handed_as_noted(&mut self, positions: &mut Positions) {
        let Kind::Journal(config) = &self.kind else { return };
        let Ok(cursor) = std::str::from_utf8(&self.noted.0) else { return };
        let kept = positions.journals.get(&config.source);
        if !cursor.is_empty() && kept.is_none_or(|kept| kept != cursor) {
            positions.journals.insert(config.source.clone(), cursor.to_owned());
            positions.journal_bytes.insert(config.source.clone(), self.noted.1);
            positions.dirty = true;
        }
    }
}

struct Service {
    files: Files,
    children: Vec<Source>,
    sink: Sink,
    stopped: PipeReader,
    orders: Arc<Orders>,
    /// There are other orders, which are followed once everything that was read has been handed over.
    changed: bool,
    /// Room for a read of a command's output.
    buffer: Vec<u8>,
    next_account: Instant,
    /// When positions were noted, as records wait for their turn in the order of time.
    ordered: Option<Instant>,
}

impl Service {
    /// A life of the thread: it begins at the positions that are kept, and starts its commands.
    fn life(orders: &Arc<Orders>, outlet: &Outlet, stats: &Arc<FollowStats>) -> Result<Life, StartError> {
        let (config, order) = orders.take();
        let mut sink = Sink::new(outlet.lanes(PATIENCE), Arc::clone(stats));
        let positions = Positions::load(outlet.state_dir.as_deref(), outlet.registry.domain());
        let files = Files::new(&config.files, positions, &mut sink)?;
        let mut children = Vec::new();
        for config in &config.commands {
            children.push(Source::command(config, &mut sink)?);
        }
        for config in &config.journals {
            children.push(Source::journal(config, &mut sink)?);
        }
        let (stopped, stop) = io::pipe().map_err(StartError::system("following"))?;
        let mut service = Service {
            files,
            children,
            sink,
            stopped,
            orders: Arc::clone(orders),
            changed: false,
            buffer: Vec::new(),
            next_account: Instant::now(),
            ordered: None,
        };
        orders.finish(order);
        let mut stop = Some(stop);
        // The thread polls the other end, which becomes readable when this one is closed.
        let stop = move || drop(stop.take());
        Ok(Life { run: Box::new(move || service.run()), stop: Box::new(stop) })
    }

    fn run(&mut self) -> End {
        let (mut held, mut end) = (false, End::Asked);
        while !self.sink.lanes.is_closed() {
            match self.wait(held) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::error!("files and commands are no longer followed: polling failed: {error}");
                    end = End::Broken;
                    break;
                }
            }
            let now = Instant::now();
            self.files.notified();
            if !held {
                self.files.look(&mut self.sink);
                self.files.round(&mut self.sink);
                self.files.end_records(now, &mut self.sink);
            }
            for child in &mut self.children {
                child.job.round(&mut self.sink, &mut self.buffer);
                child.tick(now, &mut self.sink, self.files.positions());
            }
            held = !self.hand_over(now);
            if self.changed && !held {
                self.change();
            }
            if self.files.positions().due().is_some_and(|due| due <= now) {
                self.files.save(&self.sink);
            }
            self.account(now, held);
        }
        for child in &mut self.children {
            child.job.take_open_record(&mut self.sink);
        }
        // What was read is not lost because of the end, unless nobody takes it any more: then it is read again.
        self.hand_over(Instant::now());
        self.files.save(&self.sink);
        end
    }

    /// Follows the orders as they are now.
    fn change(&mut self) {
        self.changed = false;
        let (mut wanted, order) = self.orders.take();
        let Service { files, children, sink, .. } = self;
        let (kept, mut gone): (Vec<Source>, Vec<Source>) =
            children.drain(..).partition(|child| child.take_from(&mut wanted));
        *children = kept;
        for child in &mut gone {
            child.job.take_open_record(sink);
        }
        command::end_all(gone.iter_mut().map(|child| &mut child.job));
        gone.iter().for_each(|child| sink.stats.ended(child.job.slot()));
        files.reconfigure(&wanted.files, sink);
        // What is left is new.
        for command in &wanted.commands {
            start(children, &format_args!("command {}", command.run), Source::command(command, sink));
        }
        for journal in &wanted.journals {
            start(children, &format_args!("journal {}", journal.source), Source::journal(journal, sink));
        }
        self.orders.finish(order);
    }

    /// Hands over what there is. Gives whether there was room for it.
    fn hand_over(&mut self, now: Instant) -> bool {
        let Service { files, children, sink, ordered, .. } = self;
        sink.lanes.flush();
        if sink.lanes.is_stuck() || sink.lanes.is_closed() {
            return false;
        }
        if !sink.lanes.is_pending() {
            *ordered = None;
            files.handed();
            for child in children {
                child.handed(files.positions());
            }
            return true;
        }
        // Records wait for earlier ones, and there may always be some. What was read has left when the longest wait is over.
        match ordered {
            None => {
                *ordered = Some(now);
                files.note();
                children.iter_mut().for_each(Source::note);
            }
            Some(since) if now.saturating_duration_since(*since) > LONGEST_ORDER => {
                *ordered = None;
                files.handed_as_noted();
                for child in children {
                    child.handed_as_noted(files.positions());
                }
            }
            Some(_) => {}
        }
        true
    }

    /// Waits for something to do. Gives whether to go on.
    fn wait(&mut self, held: bool) -> io::Result<bool> {
        let busy = self.files.has_work() || self.children.iter().any(|child| child.job.has_work());
        let due = self.files.positions().due();
        let looks = self.files.next_look().into_iter().chain(self.files.record_due()).filter(|_| !held);
        let ticks = self.children.iter().filter_map(|child| child.job.next_tick());
        let order = self.sink.lanes.is_pending().then(|| Instant::now() + ORDER);
        let next = ticks.chain(due).chain(looks).chain(order).min();
        let rest = next.map(|next| next.saturating_duration_since(Instant::now()));
        let timeout = match (held, busy) {
            (true, _) => Some(RETRY),
            (false, true) => Some(Duration::ZERO),
            (false, false) => rest,
        };
        // A whole millisecond more than asked for, so as not to come too early and again.
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            let millis = timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128);
            PollTimeout::try_from(millis as i32).unwrap_or(PollTimeout::MAX)
        });
        let orders = Arc::clone(&self.orders);
        let mut fds = vec![
            PollFd::new(self.stopped.as_fd(), PollFlags::POLLIN),
            PollFd::new(orders.changed.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.files.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        for child in &self.children {
            fds.extend(child.job.fds(held).map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |number: usize| fds.get(number).and_then(PollFd::any).unwrap_or(false);
        let (stopped, changed) = (is_ready(0), is_ready(1));
        if changed {
            let _ = (&orders.changed).read(&mut [0; 64]);
            self.changed = true;
        }
        Ok(!stopped)
    }

    fn account(&mut self, now: Instant, held: bool) {
        if now < self.next_account && (self.files.has_work() || held) {
            return;
        }
        self.next_account = now + ACCOUNT_EVERY;
        self.files.account(&self.sink, held);
        for Source { job, .. } in &self.children {
            if let Some(stats) = self.sink.stats.slot(job.slot()) {
                stats.set_phase(job.phase(held));
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // However its life has ended: the next one starts its own.
        command::end_all(self.children.iter_mut().map(|child| &mut child.job));
    }
}

/// Takes an element out of a list. Gives whether it was there.
fn take<T: PartialEq>(list: &mut Vec<T>, element: &T) -> bool {
    let found = list.iter().position(|other| other == element);
    found.map(|at| list.swap_remove(at)).is_some()
}

/// Takes in one that has come new, if it can be.
fn start(children: &mut Vec<Source>, what: &dyn std::fmt::Display, made: Result<Source, StartError>) {
    match made {
        Ok(source) => children.push(source),
        Err(error) => tracing::error!("{what}: not started: {error}"),
    }
}

/// The stream of a source, which is told where its records come from.
fn stream(sink: &mut Sink, name: &str, origin: Origin) -> Result<Stream, StartError> {
    let refused = StartError::source(name);
    sink.lanes.set_taker(Taker::Trusted);
    let lane = sink.lanes.source(name.as_bytes()).map_err(&refused)?;
    let inst = sink.lanes.registry().source(name).map_err(&refused)?;
    sink.lanes.origin(lane, origin);
    let slot = sink.stats.add(inst);
    Ok(Stream { splitter: Splitter::default(), lane, slot, numbers: None })
}

//! The thread of a kernel source: sets up its instance, then reads rounds until it is stopped.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustc_hash::FxHashMap;

use super::clock::Converter;
use super::comm::Names;
use super::config::KernelConfig;
use super::merge::{Cpus, Item, Progress};
use super::opener::{Opener, Session};
use super::page::{Layout, Lost};
use super::plan::{About, Plan};
use super::setup::Opened;
use super::table::Table;
use super::{KernelStats, TracefsError};
use crate::delivery::Reason;
use crate::lanes::{LaneId, Lanes};
use crate::origin::Origin;
use pcp_event::EventFlags;
use pcp_model::Timestamp;
use pcp_net::Limiter;

/// Time between two rounds while there are events. The kernel's buffers hold much more than comes meanwhile.
const PERIOD: Duration = Duration::from_millis(10);
/// Time between two comparisons of clocks, and between two looks at what the kernel counts.
const TICK: Duration = Duration::from_millis(100);
/// Most rounds after the stop, each as much as there is room for.
const LAST_ROUNDS: u32 = 1000;
/// Bytes of a file `stats`, and more than enough.
const MAX_STATS: usize = 2048;
/// Most system calls that are known to be under way.
const MAX_CALLS: usize = 64 * 1024;

/// What the thread does, to its end.
pub fn run(
    config: &KernelConfig,
    opener: &Opener,
    lanes: Lanes,
    lane: LaneId,
    stats: &KernelStats,
    stopped: &UnixStream,
) {
    let mut reader = match Reader::open(config, opener, lanes, lane, stats) {
        Ok(reader) => reader,
        Err(error) => {
            tracing::warn!("no events of the kernel for source {}: {error}", config.source);
            let _ = stats.failure.set(error.to_string());
            return;
        }
    };
    stats.running.store(true, Ordering::Relaxed);
    reader.work(stopped);
    reader.finish();
    let _ = stats.failure.set("ended".to_owned());
}

struct Reader<'a> {
    /// Before what is of it: fields go in this order.
    cpus: Cpus,
    /// Each CPU's file `stats`.
    cpu_stats: Vec<(u32, File)>,
    /// The file `tracing_on`.
    switch: File,
    session: Session,
    window: u64,
    accounts: FxHashMap<u32, CpuAccount>,
    sink: Sink<'a>,
    ticked: Instant,
    report: Limiter,
}

/// Where events go, and what is needed for that.
struct Sink<'a> {
    lanes: Lanes,
    lane: LaneId,
    table: Table,
    names: Names,
    calls: Calls,
    converter: Converter,
    /// The newest time given on.
    newest: u64,
    comm: bool,
    /// Memory for values that become text.
    text: String,
    /// Bytes of records that are not counted yet.
    bytes: usize,
    stats: &'a KernelStats,
    report: Limiter,
}

/// The spans of system calls.
struct Calls {
    /// Those under way, by thread.
    under_way: FxHashMap<i32, u64>,
    last_span: u64,
}

impl Calls {
    /// The span that a call's START begins, or that its END ends, if its START was seen.
    fn span(&mut self, phase: EventFlags, thread: i32) -> Option<(EventFlags, u64)> {
        if phase != EventFlags::START {
            return self.under_way.remove(&thread).map(|id| (phase, id));
        }
        if self.under_way.len() >= MAX_CALLS {
            // Threads that were killed within a call.
            self.under_way.clear();
        }
        self.last_span += 1;
        self.under_way.insert(thread, self.last_span);
        Some((phase, self.last_span))
    }
}

/// What a CPU's file `stats` says, as far as it has been told to clients.
#[derive(Debug, Default)]
struct CpuAccount {
    /// Events overwritten before they were read.
    overrun: u64,
    /// Whether pages did not always say how many, so that the kernel's own sum decides.
    by_sum: bool,
    /// Events for which there was no room at all.
    dropped: u64,
}

impl<'a> Reader<'a> {
    fn open(
        config: &KernelConfig,
        opener: &Opener,
        mut lanes: Lanes,
        lane: LaneId,
        stats: &'a KernelStats,
    ) -> Result<Reader<'a>, TracefsError> {
        let (session, opened) = opener.open(config)?;
        let Opened { texts, cpus, switch } = opened;
        let layout = Layout::parse(&texts.header_page)
            .ok_or_else(|| TracefsError::Layout(format!("{}/events/header_page", texts.dir).into()))?;
        for reason in &texts.refused {
            tracing::warn!("source {}: not enabled: {reason}", config.source);
        }
        stats.enabled.store(texts.enabled.into(), Ordering::Relaxed);
        stats.refused.store(texts.refused.len() as u64, Ordering::Relaxed);
        tracing::info!("source {}: {} events of the kernel, in {}", config.source, texts.enabled, texts.dir);
        lanes.origin(lane, Origin { kind: "kernel", address: texts.dir, service: None });
        let table = Table::new(config, &texts.events);
        let (pages, cpu_stats): (Vec<_>, Vec<_>) =
            cpus.into_iter().map(|cpu| ((cpu.number, cpu.pages), (cpu.number, cpu.stats))).unzip();
        let converter = Converter::new(config.clock, || now_of(&cpu_stats));
        let seed = Converter::new(super::clock::TraceClock::Tai, || None).now();
        Ok(Reader {
            cpus: Cpus::new(pages, layout, texts.page_bytes),
            cpu_stats,
            switch,
            session,
            window: config.window_ms * 1_000_000,
            accounts: FxHashMap::default(),
            sink: Sink {
                lanes,
                lane,
                table,
                names: Names::default(),
                // Spans of an agent that ran before had smaller numbers.
                calls: Calls { under_way: FxHashMap::default(), last_span: seed },
                converter,
                newest: 0,
                comm: config.comm,
                text: String::new(),
                bytes: 0,
                stats,
                report: Limiter::new(3, Duration::from_secs(10)),
            },
            ticked: Instant::now(),
            report: Limiter::new(3, Duration::from_secs(10)),
        })
    }

    /// Reads rounds until the other end of `stopped` says something, or the core is gone.
    fn work(&mut self, stopped: &UnixStream) {
        // Whether the last wait was for something to read. If then there is nothing, the next is for a time: a file
        // that is ready for ever shall not keep a CPU busy.
        let mut idle = false;
        loop {
            let progress = self.round(None);
            if self.sink.lanes.is_closed() {
                return;
            }
            let waiting = self.cpus.is_waiting() || self.sink.lanes.is_pending();
            let period = PollTimeout::try_from(PERIOD).unwrap_or(PollTimeout::ZERO);
            let timeout;
            (timeout, idle) = match progress {
                Progress::More => (PollTimeout::ZERO, false),
                Progress::Drained => (period, false),
                Progress::Nothing if waiting || idle => (period, false),
                Progress::Nothing => (PollTimeout::NONE, true),
            };
            let mut fds = vec![PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
            if idle {
                fds.extend(self.cpus.files().map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN)));
            }
            // An interruption is as good as a time-out.
            let _ = poll(&mut fds, timeout);
            if fds.first().and_then(|fd| fd.any()).unwrap_or(false) {
                return;
            }
        }
    }

    /// Reads what there is and gives on what is older than the window, or all up to `horizon`.
    fn round(&mut self, horizon: Option<u64>) -> Progress {
        if self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            self.sink.converter.adjust(|| now_of(&self.cpu_stats));
        }
        // What is older than this when reading begins is there to be read.
        let now = self.sink.converter.now();
        let arrived = self.sink.converter.realtime(now);
        let progress = self.cpus.read().unwrap_or_else(|(cpu, error)| {
            if let Some(held_back) = self.report.allow(Instant::now()) {
                tracing::warn!(held_back, "cannot read the events of CPU {cpu}: {error}");
            }
            Progress::Drained
        });
        let horizon = horizon.unwrap_or(now.saturating_sub(self.window));
        let Reader { cpus, cpu_stats, session, accounts, sink, .. } = self;
        cpus.merge(horizon, |cpu, time, item| match item {
            Item::Event(record) => sink.event(session, arrived, cpu, time, record),
            Item::Lost(lost) => {
                let overrun = || {
                    let (_, stats) = cpu_stats.iter().find(|(number, _)| *number == cpu)?;
                    stat(&read_stats(stats), "overrun")
                };
                let count = accounts.entry(cpu).or_default().settle(lost, overrun);
                sink.lost(count, time);
            }
            Item::Broken(bytes) => sink.broken(cpu, bytes),
        });
        if sink.bytes > 0 {
            sink.lanes.bytes(sink.lane, std::mem::take(&mut sink.bytes));
        }
        sink.lanes.flush();
        progress
    }

    /// Gives on everything that the kernel still has.
    fn finish(&mut self) {
        if let Err(error) = self.switch.write_all(b"0") {
            tracing::warn!("cannot switch the kernel's tracing off: {error}");
        }
        for _ in 0..LAST_ROUNDS {
            if self.round(Some(u64::MAX)) == Progress::Nothing && !self.cpus.is_waiting() {
                break;
            }
        }
        // What was lost behind the last event that could be read, or where there was no room at all.
        for (cpu, stats) in &self.cpu_stats {
            let account = self.accounts.entry(*cpu).or_default();
            let text = read_stats(stats);
            let overrun = stat(&text, "overrun").unwrap_or(0).saturating_sub(account.overrun);
            let dropped =
                stat(&text, "commit overrun").unwrap_or(0) + stat(&text, "dropped events").unwrap_or(0);
            let count = overrun + dropped.saturating_sub(account.dropped);
            if count > 0 {
                self.sink.lost(count, self.sink.converter.now());
            }
        }
        self.sink.lanes.flush();
    }
}

impl CpuAccount {
    /// How many were lost where a page says that some were, so that the sum of all is the kernel's own.
    fn settle(&mut self, lost: Lost, overrun: impl FnOnce() -> Option<u64>) -> u64 {
        let count = match lost {
            Lost::Nothing => 0,
            Lost::Count(count) if !self.by_sum => count,
            // The kernel's sum may hold later losses as well; what pages say of these is then told already.
            Lost::Count(count) => count.min(overrun().unwrap_or(u64::MAX).saturating_sub(self.overrun)),
            Lost::Some => {
                self.by_sum = true;
                overrun().unwrap_or(0).saturating_sub(self.overrun)
            }
        };
        self.overrun = self.overrun.saturating_add(count);
        count
    }
}

impl Sink<'_> {
    #[inline]
    fn event(&mut self, session: &Session, arrived: Timestamp, cpu: u32, time: u64, record: &[u8]) {
        let Sink { lanes, lane, table, names, calls, .. } = self;
        let lane = *lane;
        let Some(id) = record.first_chunk::<2>().map(|id| u16::from_ne_bytes(*id)) else {
            return self.broken(cpu, record.len());
        };
        if table.find(id).is_none() && table.search(id, |id| session.search(id)).is_none() {
            lanes.reject(lane, Reason::Undefined);
            if let Some(held_back) = self.report.allow(Instant::now()) {
                tracing::warn!(held_back, "an event of the kernel has the unknown number {id}");
            }
            return;
        }
        let Some(slot) = table.find(id) else { return };
        if let Some(role) = &slot.role {
            names.note(role, record);
        }
        if !slot.shown {
            return;
        }
        let plan = match &mut slot.plan {
            Some(plan) => plan,
            none => none.insert(Plan::new(&slot.format, lanes, lane, self.comm)),
        };
        let pid =
            if plan.wants_comm() || slot.phase.is_some() { common_pid(&slot.format, record) } else { 0 };
        let span = slot.phase.and_then(|phase| calls.span(phase, pid));
        let comm = if plan.wants_comm() { names.get(pid) } else { &[] };
        if time < self.newest {
            self.stats.late.fetch_add(1, Ordering::Relaxed);
        } else {
            self.newest = time;
        }
        let about = About { arrived, time: self.converter.realtime(time), cpu, comm, span };
        self.bytes += record.len();
        if plan.write(record, &about, lanes, lane, &mut self.text).is_err() {
            lanes.reject(lane, Reason::Frame);
        }
    }

    fn lost(&mut self, count: u64, time: u64) {
        if count == 0 {
            return;
        }
        self.stats.lost.fetch_add(count, Ordering::Relaxed);
        self.lanes.missed(self.lane, count, self.time(time));
        self.names.clear();
        self.calls.under_way.clear();
    }

    #[cold]
    fn broken(&mut self, cpu: u32, bytes: usize) {
        self.lanes.reject(self.lane, Reason::Frame);
        if let Some(held_back) = self.report.allow(Instant::now()) {
            tracing::warn!(held_back, "{bytes} bytes of a page of CPU {cpu} make no sense");
        }
    }

    fn time(&self, time: u64) -> Timestamp {
        self.converter.realtime(time)
    }
}

/// The thread that a record is about: the field is where it is in all events of a kernel.
#[inline]
fn common_pid(format: &super::format::Format, record: &[u8]) -> i32 {
    let field = format.fields.get(3).filter(|field| field.name == "common_pid");
    field.or_else(|| format.field("common_pid")).and_then(|field| field.int(record)).unwrap_or(0) as i32
}

/// What a CPU's file `stats` says now.
fn read_stats(stats: &File) -> String {
    let mut text = [0; MAX_STATS];
    // Fresh at each read from its begin. Nothing, if it cannot be read: what is counted here is only checked by it.
    let read = stats.read_at(&mut text, 0).unwrap_or(0);
    String::from_utf8_lossy(&text[..read]).into_owned()
}

/// A number in a file `stats`.
fn stat(text: &str, key: &str) -> Option<u64> {
    let value = |line: &str| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned());
    text.lines().find_map(value)?.parse().ok()
}

/// Now, by the clock of the instance, in nanoseconds.
fn now_of(stats: &[(u32, File)]) -> Option<u64> {
    let text = read_stats(&stats.first()?.1);
    let (sec, fraction) =
        text.lines().find_map(|line| line.strip_prefix("now ts:"))?.trim().split_once('.')?;
    let micros: u64 = fraction.parse().ok()?;
    Some(sec.parse::<u64>().ok()?.checked_mul(1_000_000_000)? + micros * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_events_sum_up_to_what_the_kernel_counts() {
        let mut account = CpuAccount::default();
        assert_eq!(account.settle(Lost::Count(5), || panic!("not asked")), 5);
        // 3 here, and 4 that a later page will tell of.
        assert_eq!(account.settle(Lost::Some, || Some(12)), 7);
        assert_eq!(account.settle(Lost::Count(4), || Some(12)), 0);
        assert_eq!(account.settle(Lost::Count(2), || Some(14)), 2);
        assert_eq!(account.overrun, 14);
    }

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        let text = "entries: 0\noverrun: 17\ncommit overrun: 3\nbytes: 5\n";
        assert_eq!((stat(text, "overrun"), stat(text, "commit overrun")), (Some(17), Some(3)));
        assert_eq!(stat(text, "read"), None);
    }
}

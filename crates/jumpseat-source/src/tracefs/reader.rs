//! The thread of a kernel source: sets up its instance, then reads rounds until it is stopped.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::libc::O_NONBLOCK;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustc_hash::FxHashMap;

use super::clock::Converter;
use super::comm::Names;
use super::config::KernelConfig;
use super::instance::Instance;
use super::merge::{Cpus, Item, Progress};
use super::mount::Tracefs;
use super::page::{Layout, Lost};
use super::plan::{About, Plan};
use super::select::folders;
use super::table::Table;
use super::{KernelStats, TracefsError, read_file};
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
/// Largest sub-buffer, in KiB.
const MAX_SUB_BUFFER: u64 = 64;
/// A buffer has at least so many sub-buffers.
const SUB_BUFFERS: u64 = 16;
/// Most system calls that are known to be under way.
const MAX_CALLS: usize = 64 * 1024;

/// What the thread does, to its end.
pub fn run(config: &KernelConfig, lanes: Lanes, lane: LaneId, stats: &KernelStats, stopped: &UnixStream) {
    let mut reader = match Reader::open(config, lanes, lane, stats) {
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
    instance: Instance,
    _tracefs: Tracefs,
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
        mut lanes: Lanes,
        lane: LaneId,
        stats: &'a KernelStats,
    ) -> Result<Reader<'a>, TracefsError> {
        let tracefs = Tracefs::find()?;
        let instance = Instance::create(tracefs.root(), &config.instance)?;
        let page_bytes = set_up_buffer(config, &instance)?;
        let header = instance.path("events/header_page");
        let layout = read_file(&tracefs.root().join("events/header_page")).unwrap_or_default();
        let layout = Layout::parse(&layout).ok_or(TracefsError::Layout(header))?;
        let files = open_pipes(&instance)?;
        let (table, outcome) = Table::enable(config, &instance);
        for reason in &outcome.refused {
            tracing::warn!("source {}: not enabled: {reason}", config.source);
        }
        stats.enabled.store(outcome.enabled.into(), Ordering::Relaxed);
        stats.refused.store(outcome.refused.len() as u64, Ordering::Relaxed);
        let enabled = outcome.enabled;
        tracing::info!(
            "source {}: {enabled} events of the kernel, in {}",
            config.source,
            instance.dir.display()
        );
        let address = instance.dir.display().to_string();
        lanes.origin(lane, Origin { kind: "kernel", address, service: None });
        let converter = Converter::new(config.clock, || now_of(&instance));
        let seed = Converter::new(super::clock::TraceClock::Tai, || None).now();
        Ok(Reader {
            cpus: Cpus::new(files, layout, page_bytes),
            instance,
            _tracefs: tracefs,
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
            self.sink.converter.adjust(|| now_of(&self.instance));
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
        let Reader { cpus, instance, accounts, sink, .. } = self;
        cpus.merge(horizon, |cpu, time, item| match item {
            Item::Event(record) => sink.event(instance, arrived, cpu, time, record),
            Item::Lost(lost) => {
                let count = accounts.entry(cpu).or_default().settle(lost, || overrun(instance, cpu));
                sink.lost(count, time);
            }
            Item::Broken(bytes) => sink.broken(cpu, bytes),
        });
        self.sink.lanes.flush();
        progress
    }

    /// Gives on everything that the kernel still has.
    fn finish(&mut self) {
        if let Err(error) = self.instance.set("tracing_on", "0") {
            tracing::warn!("cannot stop {}: {error}", self.instance.dir.display());
        }
        for _ in 0..LAST_ROUNDS {
            if self.round(Some(u64::MAX)) == Progress::Nothing && !self.cpus.is_waiting() {
                break;
            }
        }
        // What was lost behind the last event that could be read, or where there was no room at all.
        for cpu in cpu_numbers(&self.instance) {
            let account = self.accounts.entry(cpu).or_default();
            let text = read_stats(&self.instance, cpu);
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
    fn event(&mut self, instance: &Instance, arrived: Timestamp, cpu: u32, time: u64, record: &[u8]) {
        let Sink { lanes, lane, table, names, calls, .. } = self;
        let lane = *lane;
        let Some(id) = record.first_chunk::<2>().map(|id| u16::from_ne_bytes(*id)) else {
            return self.broken(cpu, record.len());
        };
        if table.find(id).is_none() && table.search(instance, id).is_none() {
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
        lanes.bytes(lane, record.len());
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

/// Sets clock, size and wake-up of an instance's buffers. Returns the bytes of a sub-buffer.
fn set_up_buffer(config: &KernelConfig, instance: &Instance) -> Result<usize, TracefsError> {
    let failed = |doing| move |reason| TracefsError::Setup { doing, reason };
    let clock = config.clock.name();
    instance.set("trace_clock", clock).map_err(failed("set the trace clock"))?;
    let kib = (config.buffer_size.0 >> 10).max(1);
    // Larger ones mean fewer system calls. Kernels before 6.8 have no choice.
    let wanted = (kib / SUB_BUFFERS).clamp(1, MAX_SUB_BUFFER);
    let wanted = 1 << wanted.ilog2();
    let _ = instance.set("buffer_subbuf_size_kb", &format!("{wanted}\n"));
    let sub_buffer = read_file(&instance.path("buffer_subbuf_size_kb")).ok();
    let sub_buffer = sub_buffer.and_then(|text| text.trim().parse::<usize>().ok());
    let page =
        nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096) as usize;
    instance.set("buffer_size_kb", &format!("{kib}\n")).map_err(failed("set the size of the buffers"))?;
    // A lone event is not kept waiting. Before 5.1 there is no such file, and no such waiting.
    let _ = instance.set("buffer_percent", "0\n");
    instance.set("tracing_on", "1").map_err(failed("switch tracing on"))?;
    Ok(sub_buffer.map_or(page, |kib| kib << 10))
}

/// The numbers of CPUs, in order.
fn cpu_numbers(instance: &Instance) -> Vec<u32> {
    let names = folders(&instance.path("per_cpu"));
    let mut numbers: Vec<u32> =
        names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

fn open_pipes(instance: &Instance) -> Result<Vec<(u32, File)>, TracefsError> {
    let open = |cpu: u32| {
        let path = instance.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&path);
        let doing = "open the buffer of a CPU";
        let failed = |error| TracefsError::Setup { doing, reason: format!("{}: {error}", path.display()) };
        Ok((cpu, file.map_err(failed)?))
    };
    cpu_numbers(instance).into_iter().map(open).collect()
}

/// A CPU's file `stats`.
fn read_stats(instance: &Instance, cpu: u32) -> String {
    let path = instance.path(&format!("per_cpu/cpu{cpu}/stats"));
    read_file(Path::new(&path)).unwrap_or_default()
}

fn overrun(instance: &Instance, cpu: u32) -> Option<u64> {
    stat(&read_stats(instance, cpu), "overrun")
}

/// A number in a file `stats`.
fn stat(text: &str, key: &str) -> Option<u64> {
    let value = |line: &str| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned());
    text.lines().find_map(value)?.parse().ok()
}

/// Now, by the clock of an instance, in nanoseconds.
fn now_of(instance: &Instance) -> Option<u64> {
    let text = read_stats(instance, 0);
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

//! The kernel source with a flood of `sched:sched_switch`, end to end to the event log: reader thread (pages, order,
//! decoding, packing, hand over) and core thread (take, append). Pairs of threads pass a byte to and fro meanwhile.
//!
//! Printed: CPU time an event of both threads together, and that of the peers that are installed: `cat trace_pipe` (the
//! kernel's own text), and `trace-cmd record` (which copies pages to a file and decodes nothing). Needs root.

use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use jumpseat::event::log::{EventLog, LogConfig};
use jumpseat::model::Pmid;
use jumpseat::source::delivery::Inlet;
use jumpseat::source::registry::{Registry, RegistryConfig};
use jumpseat::source::tracefs::{KernelConfig, Opener, QUEUE, TracefsSource};
use jumpseat::source::{ByteSize, Outlet};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

mod common;
use common::si;

const EVENT: &str = "sched:sched_switch";
const BUFFER_KIB: u64 = 16 * 1024;
/// Events a second that are to be taken without a loss of ours.
const RATE_GOAL: f64 = 500_000.0;
/// How long each contender records.
const SPELL: Duration = Duration::from_secs(2);

/// What one contender needed.
#[derive(Clone, Copy)]
struct Figures {
    cpu: Duration,
    events: u64,
    lost: u64,
    wall: Duration,
}

impl Figures {
    fn nanos(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.events.max(1) as f64
    }
}

fn main() {
    if !nix::unistd::geteuid().is_root() {
        println!("kernel source: NOT MEASURED: this takes root");
        return;
    }
    let rounds = common::rounds(5);
    let ours = best((0..rounds).map(|_| jumpseat()));
    let rate = ours.events as f64 / ours.wall.as_secs_f64();
    println!(
        "kernel source, {EVENT}, to the log: {:.0} ns of CPU an event, {} events/s by the clock (as many as there were; \
         goal {}: {}), {} lost by the kernel, none by us",
        ours.nanos(),
        si(rate),
        si(RATE_GOAL),
        if rate >= RATE_GOAL { "met" } else { "not reached: the load was less" },
        ours.lost,
    );
    for (peer, figures) in [
        ("cat trace_pipe", Some(best((0..rounds).map(|_| cat())))),
        (
            "trace-cmd record",
            trace_cmd().map(|warm| best((1..rounds).filter_map(|_| trace_cmd()).chain([warm]))),
        ),
    ] {
        match figures {
            Some(figures) => println!(
                "  {peer}: {:.0} ns of CPU an event at {} events/s, {} lost; jumpseat takes {:.2} of that, goal 1: {}",
                figures.nanos(),
                si(figures.events as f64 / figures.wall.as_secs_f64()),
                figures.lost,
                ours.nanos() / figures.nanos(),
                if ours.nanos() <= figures.nanos() { "met" } else { "MISSED" },
            ),
            None => println!("  {peer}: NOT MEASURED: not installed, or it does not run on this kernel"),
        }
    }
}

fn best(rounds: impl Iterator<Item = Figures>) -> Figures {
    rounds.min_by(|a, b| a.nanos().total_cmp(&b.nanos())).expect("at least one round")
}

/// Pairs of threads that wake each other. They end when this is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start() -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let pairs = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        for _ in 0..pairs {
            let (there, mut first) = std::io::pipe().expect("a pipe");
            let (back, second) = std::io::pipe().expect("a pipe");
            first.write_all(b"x").expect("room for a byte");
            for (mut reader, mut writer) in [(there, second), (back, first)] {
                let stop = Arc::clone(&stop);
                threads.push(std::thread::spawn(move || {
                    let mut byte = [0];
                    // When the other one has stopped there is nothing to read, or nobody to write to.
                    while !stop.load(Ordering::Relaxed)
                        && matches!(reader.read(&mut byte), Ok(1))
                        && writer.write_all(&byte).is_ok()
                    {}
                }));
            }
        }
        Load { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("it cannot fail");
        }
    }
}

fn jumpseat() -> Figures {
    let config = KernelConfig {
        events: vec![EVENT.to_owned()],
        buffer_size: ByteSize(BUFFER_KIB << 10),
        comm: false,
        ..KernelConfig::default()
    };
    let (registry, definitions) = Registry::open(&RegistryConfig::new(400)).expect("in memory");
    let (out, deliveries) = bounded(QUEUE);
    let core = std::thread::current();
    let wake = Arc::new(move || core.unpark());
    let load = Load::start();
    let source = TracefsSource::start(
        &config,
        Opener::Here,
        &Outlet {
            registry,
            out,
            wake,
            state_dir: None,
            restarts: Arc::default(),
            kept: Default::default(),
            starting: Default::default(),
        },
    )
    .expect("starts");
    while source.stats.state() == "starting" {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(source.stats.state(), "running");
    let inlet = Inlet::new(definitions, deliveries);
    let mut log = EventLog::new(LogConfig {
        budget: 64 * 1024 * 1024,
        recent: 100,
        missed_pmid: Pmid::new(400, 16, 5),
    });
    // Without a reader the log keeps next to nothing.
    log.join();
    let (begun, core_cpu, source_cpu) = (Instant::now(), thread_cpu(), cpu_of("jumpseat-kernel"));
    let (mut events, mut missed) = (0, 0);
    let lost = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let before = lost(&source.stats.lost);
    while begun.elapsed() < SPELL {
        while let Some(delivery) = inlet.take(|definition| drop(black_box(definition))) {
            missed += delivery.missed.map_or(0, |loss| loss.received);
            events += delivery.tallies.received;
            log.append(delivery.batch);
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let wall = begun.elapsed();
    let cpu = thread_cpu() - core_cpu + cpu_of("jumpseat-kernel") - source_cpu;
    assert_eq!(missed, 0, "the core keeps up");
    let lost = lost(&source.stats.lost) - before;
    drop(load);
    // The thread may have more than fits the channel.
    drop(inlet);
    drop(source);
    Figures { cpu, events, lost, wall }
}

/// An instance for `cat`, with the same buffer.
fn cat() -> Figures {
    let dir = PathBuf::from("/sys/kernel/tracing/instances").join(format!("bench{}", std::process::id()));
    fs::create_dir(&dir).expect("an instance");
    let put = |file: &str, text: &str| {
        let mut file = fs::OpenOptions::new().write(true).open(dir.join(file)).expect("a file of tracefs");
        file.write_all(text.as_bytes()).expect("the kernel takes it");
    };
    put("trace_clock", "mono");
    put("buffer_size_kb", &BUFFER_KIB.to_string());
    let load = Load::start();
    put("events/sched/sched_switch/enable", "1");
    let begun = Instant::now();
    let before = children_cpu();
    let mut child =
        Command::new("cat").arg(dir.join("trace_pipe")).stdout(Stdio::null()).spawn().expect("cat");
    std::thread::sleep(SPELL);
    put("events/sched/sched_switch/enable", "0");
    let wall = begun.elapsed();
    drop(load);
    // It may still have to read.
    let count = |key: &str| -> u64 {
        let cpus = fs::read_dir(dir.join("per_cpu")).expect("tracefs").flatten();
        let stats = cpus.map(|cpu| fs::read_to_string(cpu.path().join("stats")).expect("tracefs"));
        stats
            .map(|text| {
                text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<u64>().ok()).unwrap_or(0)
            })
            .sum()
    };
    while count("entries:") > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it runs");
    child.wait().expect("it ends");
    let cpu = children_cpu() - before;
    let figures = Figures { cpu, events: count("read events:"), lost: count("overrun:"), wall };
    fs::remove_dir(&dir).expect("nobody uses it");
    figures
}

/// `None` if it cannot record. How many events it gets is known from the kernel's own count of context switches.
fn trace_cmd() -> Option<Figures> {
    let dir = tempfile::tempdir().expect("temporary directory");
    let load = Load::start();
    let cpu = children_cpu();
    let mut child = Command::new("trace-cmd")
        .args(["record", "-C", "mono", "-b", &BUFFER_KIB.to_string(), "-e", EVENT, "-o"])
        .arg(dir.path().join("trace.dat"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    // Its start is not counted among the events, and takes little of the time.
    std::thread::sleep(Duration::from_millis(500));
    let (begun, before) = (Instant::now(), switches());
    std::thread::sleep(SPELL);
    let (wall, events) = (begun.elapsed(), switches() - before);
    if child.try_wait().expect("it is our child").is_some() {
        // It gave up, and what it took is no figure.
        return None;
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    child.wait().expect("it ends");
    drop(load);
    Some(Figures { cpu: children_cpu() - cpu, events, lost: 0, wall })
}

fn switches() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("Linux tells");
    stat.lines().find_map(|line| line.strip_prefix("ctxt ")?.parse().ok()).expect("Linux tells")
}

/// CPU time of children that have ended.
fn children_cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("Linux tells");
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
    Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()))
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    run_time(&fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells"))
}

/// CPU time of the thread of this process with this name.
fn cpu_of(name: &str) -> Duration {
    for task in fs::read_dir("/proc/self/task").expect("Linux tells").flatten() {
        let comm = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if comm.trim_end() == name {
            return run_time(&fs::read_to_string(task.path().join("schedstat")).expect("it is alive"));
        }
    }
    panic!("no thread {name}");
}

/// The first number of `schedstat`: nanoseconds on a CPU.
fn run_time(schedstat: &str) -> Duration {
    let nanos = schedstat.split(' ').next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanos.expect("schedstat starts with a number"))
}

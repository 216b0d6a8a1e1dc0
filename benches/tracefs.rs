//! The kernel source with a flood of `sched:sched_switch`, end to end to the event log: reader thread (pages, order,
//! decoding, packing, hand over) and core thread (take, append). Pairs of threads pass a byte to and fro meanwhile.
//!
//! Printed: CPU time an event of both threads together, and that of the peers that are installed: `cat trace_pipe` (the
//! kernel's own text), `trace-cmd record` (which copies pages to a file and decodes nothing), and a thread that reads the pages and
//! does nothing else. Needs root.

use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
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
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

mod common;
use common::clock::{children_cpu, cpu_of, thread_cpu};
use common::report::si;
use common::{Figure, Goal, Row};

const EVENT: &str = "sched:sched_switch";
const BUFFER_KIB: u64 = 16 * 1024;
const NANOS_GOAL: f64 = 100.0;
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
    let (mut ours, mut cats, mut records, mut floors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // The first round is to warm up.
    for round in 0..=common::rounds(5) {
        let figures = (jumpseat(), cat(), trace_cmd(), pages());
        if round > 0 {
            ours.push(figures.0);
            cats.push(figures.1);
            records.extend(figures.2);
            floors.push(figures.3);
        }
    }
    let each = |rounds: &[Figures]| Figure::costs(rounds.iter().map(Figures::nanos).collect(), "ns an event");
    let rates = ours.iter().map(|figures| figures.events as f64 / figures.wall.as_secs_f64());
    let rate = rates.fold(0.0, f64::max);
    let lost: u64 = ours.iter().map(|figures| figures.lost).sum();
    let note =
        format!("{}/s by the clock, as many as there were; {lost} lost by the kernel, none by us", si(rate));
    let what = format!("kernel events, {EVENT}, CPU of reader and core");
    Row::new(&what, each(&ours))
        .peer("cat trace_pipe, text of the kernel", each(&cats))
        .goal(Goal::AtMost(NANOS_GOAL))
        .headline()
        .note(note)
        .print();
    Row::new(&what, each(&ours)).peer("reading the pages, nothing else", each(&floors)).print();
    match records.is_empty() {
        false => Row::new(what, each(&ours))
            .peer("trace-cmd record, which decodes nothing", each(&records))
            .print(),
        true => {
            println!("  trace-cmd record: NOT MEASURED: not installed, or it does not run on this kernel")
        }
    }
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
            series: Default::default(),
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
        // As an agent has unless it is told otherwise.
        budget: 8 << 20,
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
            // As the agent does.
            let rest = log.absorb(delivery.batch);
            if let Some(home) = delivery.home {
                home.give_back(rest);
            }
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

/// An instance of the kernel's tracing, with the same buffer as ours; removed when this is dropped.
struct Instance {
    dir: PathBuf,
}

impl Instance {
    fn new() -> Instance {
        let dir = PathBuf::from("/sys/kernel/tracing/instances").join(format!("bench{}", std::process::id()));
        fs::create_dir(&dir).expect("an instance");
        let instance = Instance { dir };
        instance.put("trace_clock", "mono");
        instance.put("buffer_size_kb", &BUFFER_KIB.to_string());
        instance
    }

    fn put(&self, file: &str, text: &str) {
        let mut file =
            fs::OpenOptions::new().write(true).open(self.dir.join(file)).expect("a file of tracefs");
        file.write_all(text.as_bytes()).expect("the kernel takes it");
    }

    fn enable(&self, on: bool) {
        self.put("events/sched/sched_switch/enable", if on { "1" } else { "0" });
    }

    /// The directories of the processors.
    fn cpus(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(self.dir.join("per_cpu")).expect("tracefs").flatten().map(|cpu| cpu.path())
    }

    /// What the kernel has counted, of all processors.
    fn count(&self, key: &str) -> u64 {
        let stats = self.cpus().map(|cpu| fs::read_to_string(cpu.join("stats")).expect("tracefs"));
        stats
            .map(|text| {
                text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<u64>().ok()).unwrap_or(0)
            })
            .sum()
    }

    fn figures(&self, cpu: Duration, wall: Duration) -> Figures {
        Figures { cpu, events: self.count("read events:"), lost: self.count("overrun:"), wall }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        fs::remove_dir(&self.dir).expect("nobody uses it");
    }
}

fn cat() -> Figures {
    let instance = Instance::new();
    let load = Load::start();
    instance.enable(true);
    let begun = Instant::now();
    let before = children_cpu();
    let mut child =
        Command::new("cat").arg(instance.dir.join("trace_pipe")).stdout(Stdio::null()).spawn().expect("cat");
    std::thread::sleep(SPELL);
    instance.enable(false);
    let wall = begun.elapsed();
    drop(load);
    // It may still have to read.
    while instance.count("entries:") > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it runs");
    child.wait().expect("it ends");
    instance.figures(children_cpu() - before, wall)
}

/// Reads the pages of all processors, in turn, and does nothing with them.
fn pages() -> Figures {
    let instance = Instance::new();
    let open = |cpu: PathBuf| {
        let mut options = fs::OpenOptions::new();
        options
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(cpu.join("trace_pipe_raw"))
            .expect("tracefs")
    };
    let mut pipes: Vec<fs::File> = instance.cpus().map(open).collect();
    let load = Load::start();
    instance.enable(true);
    let (begun, before) = (Instant::now(), thread_cpu());
    let mut page = [0; 4096];
    while begun.elapsed() < SPELL {
        for pipe in &mut pipes {
            while pipe.read(&mut page).is_ok_and(|len| len > 0) {
                black_box(&page);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (wall, cpu) = (begun.elapsed(), thread_cpu() - before);
    instance.enable(false);
    drop(load);
    drop(pipes);
    instance.figures(cpu, wall)
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

//! The kernel as a source: real events of real processes, through a real agent, read with PCP's own tools.
//!
//! This needs root and tracefs. Where either is missing the tests fail, unless JUMPSEAT_TEST_NO_TRACEFS is set: that
//! says that the machine cannot run them, and each then says so.

use crate::seat::{DOMAIN, Endpoint, JUMPSEAT, PMDA, Seat, Transport};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{AgentSpec, PcpEnv, PrivatePmcd, Process, Record, eventually, records, temp_dir};

const NOBODY: Uid = Uid::from_raw(65534);
const UNABLE: &str = "JUMPSEAT_TEST_NO_TRACEFS";

/// Whether this machine lets us trace. Else it must say so itself.
#[track_caller]
fn can_trace() -> bool {
    if std::env::var_os(UNABLE).is_some() {
        eprintln!("NOT TESTED: {UNABLE} says that this machine cannot trace its kernel.");
        return false;
    }
    assert!(
        nix::unistd::geteuid().is_root() && Path::new("/sys/kernel/tracing").is_dir(),
        "tests of the kernel source need root and tracefs; set {UNABLE}=1 on a machine that has not"
    );
    true
}

/// A prefix for instances that no other test has, on a machine where several runs are under way.
fn prefix(name: &str) -> String {
    format!("jst{}{name}", std::process::id())
}

fn settings(prefix: &str, keys: &str) -> String {
    format!("[events]\nrecent = 1000\n[[kernel]]\ninstance = {prefix:?}\n{keys}\n")
}

/// An agent of its own endpoint that traces.
struct Kernel {
    endpoint: Endpoint,
    seat: Seat,
    prefix: String,
    _dir: tempfile::TempDir,
}

impl Kernel {
    #[track_caller]
    fn start(name: &str, keys: &str) -> Kernel {
        let (dir, prefix) = (temp_dir(), prefix(name));
        let seat = Seat::in_dir(dir.path(), &settings(&prefix, keys));
        let endpoint = seat.serve([]);
        let kernel = Kernel { endpoint, seat, prefix, _dir: dir };
        let state = eventually("the kernel source to start", || {
            kernel.value("jumpseat.kernel.state").filter(|state| state != "starting")
        });
        assert_eq!(state, "running", "{}", kernel.log());
        kernel
    }

    fn value(&self, metric: &str) -> Option<String> {
        let text = self.endpoint.run("pminfo", ["-f", metric]).stdout;
        let value = text.lines().find_map(|line| line.split_once("or \"kernel\"] value "))?.1;
        Some(value.trim_matches('"').to_owned())
    }

    fn number(&self, metric: &str) -> u64 {
        self.value(metric).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    fn records(&self) -> Vec<Record> {
        records(&self.endpoint.run("pminfo", ["-x", "jumpseat.event.recent"]).ok())
    }

    /// The process that has opened the kernel's files for the agent.
    #[track_caller]
    fn helper(&self) -> i32 {
        let told = self.endpoint.run("pminfo", ["-f", "jumpseat.self.confined.kernel"]).ok();
        let pid =
            told.split("process ").nth(1).and_then(|rest| rest.trim().trim_end_matches('"').parse().ok());
        pid.unwrap_or_else(|| panic!("{told}"))
    }

    fn log(&self) -> String {
        self.endpoint.process.text() + &self.seat.log()
    }

    fn instance(&self) -> PathBuf {
        instances(&self.prefix).pop().expect("the agent has an instance")
    }

    /// Writes to one of the instance's files, a write for each text.
    #[track_caller]
    fn write<'a>(&self, file: &str, texts: impl IntoIterator<Item = &'a [u8]>) {
        let path = self.instance().join(file);
        let mut file = OpenOptions::new().write(true).open(path).expect("there is such a file");
        for text in texts {
            file.write_all(text).expect("the kernel takes it");
        }
    }
}

/// Where tracefs is. The agents have mounted it if nobody else has.
fn tracefs() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("Linux tells");
    let place = mounts.lines().find(|line| line.split(' ').nth(2) == Some("tracefs"));
    place.and_then(|line| line.split(' ').nth(1)).expect("tracefs is mounted").into()
}

fn instances(prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(tracefs().join("instances")).expect("root may look");
    let ours = entries.flatten().filter(|entry| {
        entry.file_name().to_string_lossy().strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-'))
    });
    ours.map(|entry| entry.path()).collect()
}

fn probes(prefix: &str) -> usize {
    let list = fs::read_to_string(tracefs().join("uprobe_events")).expect("this kernel has uprobes");
    list.lines().filter(|line| line.contains(&format!(":{prefix}_"))).count()
}

fn field<'a>(record: &'a Record, name: &str) -> &'a str {
    record.get(&format!("jumpseat.field.{name}")).unwrap_or_else(|| panic!("no {name} in {record:?}"))
}

/// A program of its own name that does what `of` does.
fn program(dir: &Path, name: &str, of: &str) -> PathBuf {
    let path = dir.join(name);
    fs::copy(of, &path).expect("there is such a program");
    path
}

/// Runs it to its end and returns its process id.
fn run(program: &Path) -> u32 {
    let mut child = Command::new(program).stdout(std::process::Stdio::null()).spawn().expect("it can run");
    child.wait().expect("it ends");
    child.id()
}

#[test]
fn exec_events_reach_pcp_tools_with_filename_and_pid_and_a_filter_holds() {
    if !can_trace() {
        return;
    }
    let builder = PrivatePmcd::with([]);
    let prefix = prefix("exec");
    let (wanted, other) =
        (program(builder.dir(), "wanted", "/bin/true"), program(builder.dir(), "other", "/bin/true"));
    let keys = format!("events = ['sched:sched_process_exec if filename == {wanted:?}']");
    let seat = Seat::in_dir(builder.dir(), &settings(&prefix, &keys));
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    eventually("the source to run", || {
        let state = pmcd.run("pminfo", ["-f", "jumpseat.kernel.state"]).stdout;
        state.contains("value \"running\"").then_some(())
    });
    let reader = pmcd.spawn("pmevent", ["-t", "0.1", "jumpseat.event.records[kernel]"], "pmevent");
    eventually("pmevent's first fetch", || {
        let readers = pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        readers.contains("or \"kernel\"] value 1\n").then_some(())
    });
    let mut pids = Vec::new();
    for _ in 0..3 {
        run(&other);
        pids.push(run(&wanted).to_string());
    }
    eventually("three records", || (records(&reader.stdout()).len() >= 3).then_some(()));
    for text in [reader.stdout(), pmcd.run("pminfo", ["-x", "jumpseat.event.recent"]).ok()] {
        let shown = records(&text);
        assert_eq!(shown.len(), 3, "{text}");
        for (record, pid) in shown.iter().zip(&pids) {
            assert_eq!(record.flags, 1, "{text}");
            assert_eq!(field(record, "type"), "sched:sched_process_exec", "{text}");
            assert_eq!(field(record, "filename"), wanted.to_str().unwrap(), "{text}");
            assert_eq!((field(record, "pid"), field(record, "common_pid")), (pid.as_str(), pid.as_str()));
            // The name changes with the exec, before the event.
            assert_eq!(field(record, "comm"), "wanted", "{text}");
        }
    }
    let labels = pmcd.run("pminfo", ["-l", "jumpseat.source.received"]).ok();
    assert!(labels.contains("\"kind\":\"kernel\"") && labels.contains(&prefix), "{labels}");
}

#[test]
fn names_of_short_lived_processes_are_right_under_many_forks() {
    if !can_trace() {
        return;
    }
    let dir = temp_dir();
    let quick = program(dir.path(), "quick", "/bin/true");
    let kernel =
        Kernel::start("fork", &format!("events = ['sched:sched_process_exec if filename == {quick:?}']"));
    let script = format!("for i in $(seq 100); do {} & done; wait", quick.display());
    let shells: Vec<_> =
        (0..4).map(|_| Command::new("sh").args(["-c", &script]).spawn().expect("a shell")).collect();
    for mut shell in shells {
        shell.wait().expect("it ends");
    }
    eventually("all events", || (kernel.number("jumpseat.source.received") == 400).then_some(()));
    let shown = kernel.records();
    assert_eq!(shown.len(), 400);
    assert!(shown.iter().all(|record| field(record, "comm") == "quick"));
    let pids: HashSet<&str> = shown.iter().map(|record| field(record, "pid")).collect();
    assert_eq!(pids.len(), 400);
    assert_eq!(kernel.number("jumpseat.source.malformed"), 0);
}

#[test]
fn what_is_written_to_the_markers_becomes_records() {
    if !can_trace() {
        return;
    }
    let kernel = Kernel::start("marker", "");
    kernel.write("trace_marker", [&b"begin of work\n"[..], "g\u{fc}nstig".as_bytes()]);
    let long = [b'x'; 700];
    kernel.write("trace_marker", [&long[..]]);
    let mut raw = 0x1234u32.to_ne_bytes().to_vec();
    raw.extend([1, 0, 2, 255]);
    kernel.write("trace_marker_raw", [&raw[..]]);
    eventually("four records", || (kernel.number("jumpseat.source.received") == 4).then_some(()));
    let shown = kernel.records();
    assert_eq!(field(&shown[0], "message"), "begin of work");
    assert_eq!(field(&shown[0], "type"), "ftrace:print");
    assert_eq!(field(&shown[0], "common_pid"), nix::unistd::gettid().to_string());
    assert_eq!(field(&shown[1], "message").len(), "g\u{fc}nstig".len(), "bytes are kept: {:?}", shown[1]);
    assert_eq!(field(&shown[2], "message").len(), 700);
    assert_eq!((field(&shown[3], "type"), field(&shown[3], "id")), ("ftrace:raw_data", "4660"));
    assert!(field(&shown[3], "buf").contains("010002ff"), "{:?}", shown[3]);
}

#[test]
fn what_the_kernel_loses_is_missed_at_its_place_and_the_sum_holds() {
    if !can_trace() {
        return;
    }
    const WRITTEN: u64 = 30_000;
    let kernel = Kernel::start("lost", "buffer_size = \"8KiB\"\ncomm = false");
    let mut reader = kernel.endpoint.process_of("pmval", &["-t", "0.1", "jumpseat.event.records[kernel]"]);
    eventually("the reader's first fetch", || (kernel.number("jumpseat.source.readers") == 1).then_some(()));
    let texts: Vec<String> = (0..WRITTEN).map(|number| format!("number {number}")).collect();
    // The kernel tells of a loss by CPU: before the next event that the same CPU has kept. Were this thread moved, those
    // it writes meanwhile on another CPU would be between what was lost and the word of it.
    stay_on_one_cpu();
    kernel.write("trace_marker", texts.iter().map(String::as_bytes));
    // Those that were lost on the way count as received, too.
    let received = || kernel.number("jumpseat.source.received");
    eventually("everything to be accounted for", || (received() == WRITTEN).then_some(()));
    let lost = kernel.number("jumpseat.kernel.lost");
    assert!(lost > 0 && lost == kernel.number("jumpseat.source.missed"), "{lost}");
    // The reader sees the same: what it got and what it missed, at the place where it is missing.
    let total = |shown: &[Record]| shown.iter().map(|record| record.missed.unwrap_or(1)).sum::<u64>();
    let text =
        eventually("the reader", || Some(reader.stdout()).filter(|text| total(&records(text)) == WRITTEN));
    let mut expected = 0;
    for record in records(&text) {
        match record.missed {
            Some(count) => expected += count,
            None => {
                assert_eq!(field(&record, "message"), format!("number {expected}"));
                expected += 1;
            }
        }
    }
    reader.signal(Signal::SIGTERM);
}

/// Keeps the calling thread on one CPU of those that it may have.
fn stay_on_one_cpu() {
    let may = sched_getaffinity(Pid::from_raw(0)).expect("Linux tells");
    let first = (0..CpuSet::count()).find(|cpu| may.is_set(*cpu).unwrap_or(false)).expect("it runs on one");
    let mut only = CpuSet::new();
    only.set(first).expect("it is one of them");
    sched_setaffinity(Pid::from_raw(0), &only).expect("a thread may have less");
}

#[test]
fn events_of_all_cpus_come_in_the_order_of_time() {
    if !can_trace() {
        return;
    }
    let kernel = Kernel::start("order", "comm = false");
    let marker = kernel.instance().join("trace_marker");
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let allowed =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("Linux tells");
    let cpus: Vec<u32> =
        allowed.trim().split([',', '-']).filter_map(|cpu| cpu.parse().ok()).take(2).collect();
    let script = format!("for i in $(seq 450); do echo $i; done > {}", marker.display());
    let writers: Vec<_> = cpus
        .iter()
        .map(|cpu| {
            Command::new("taskset").args(["-c", &cpu.to_string(), "sh", "-c", &script]).spawn().unwrap()
        })
        .collect();
    for mut writer in writers {
        assert!(writer.wait().expect("it ends").success());
    }
    let written = 450 * cpus.len() as u64;
    eventually("all records", || (kernel.number("jumpseat.source.received") == written).then_some(()));
    let shown = kernel.records();
    let seen: HashSet<&str> = shown.iter().map(|record| field(record, "common_cpu")).collect();
    assert_eq!(seen.len(), cpus.len(), "each on its CPU");
    // As text: a test at midnight may see it begin again, once.
    let falls = shown.windows(2).filter(|pair| pair[0].time > pair[1].time).count();
    assert!(falls == 0 || falls == 1 && shown[0].time.starts_with("23:59"), "{falls} times backwards");
    for cpu in seen {
        let of_cpu = shown.iter().filter(|record| field(record, "common_cpu") == cpu);
        let numbers: Vec<u32> = of_cpu.map(|record| field(record, "message").parse().unwrap()).collect();
        assert!(numbers.is_sorted() && numbers.len() == 450, "{numbers:?}");
    }
    assert_eq!((kernel.number("jumpseat.kernel.late"), kernel.number("jumpseat.kernel.lost")), (0, 0));
}

/// A program with a function to put a probe on, and that function's offset in the file.
fn probed(dir: &Path) -> (PathBuf, u64) {
    let (source, program) = (dir.join("probed.c"), dir.join("probed"));
    let text = "int __attribute__((noinline)) tick(int n) { __asm__ volatile(\"\"); return n * 10; }\n\
                int main(void) { int i, sum = 0; for (i = 0; i < 5; i++) sum += tick(i); return sum != 100; }\n";
    fs::write(&source, text).unwrap();
    let mut gcc = Command::new("gcc");
    let compiled = gcc.args(["-O1", "-no-pie", "-o"]).arg(&program).arg(&source).status().expect("gcc");
    assert!(compiled.success());
    let tool = |name: &str, option: &str| {
        let output = Command::new(name).arg(option).arg(&program).output().expect("binutils");
        String::from_utf8(output.stdout).unwrap()
    };
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let symbols = tool("nm", "-p");
    let address =
        hex(symbols.lines().find(|line| line.ends_with(" tick")).unwrap().split(' ').next().unwrap());
    for line in tool("readelf", "-lW").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["LOAD", offset, start, _, length, ..] = words[..]
            && (hex(start)..hex(start) + hex(length)).contains(&address)
        {
            return (program, address - hex(start) + hex(offset));
        }
    }
    panic!("no segment holds {address:#x}");
}

#[test]
fn probes_in_programs_tell_arguments_and_results() {
    if !can_trace() {
        return;
    }
    let dir = temp_dir();
    let (program, offset) = probed(dir.path());
    let argument = if cfg!(target_arch = "x86_64") { "%di" } else { "%x0" };
    let place = format!("{}:{offset:#x}", program.display());
    let keys =
        format!("probes = ['p:tick {place} n={argument}:s32 if n > 2', 'r:tock {place} ret=$retval:u64']");
    let kernel = Kernel::start("uprobe", &keys);
    assert_eq!(probes(&kernel.prefix), 2, "{}", kernel.log());
    run(&program);
    eventually("all records", || (kernel.number("jumpseat.source.received") == 7).then_some(()));
    let shown = kernel.records();
    let of = |kind: &str, name: &str| -> Vec<String> {
        let wanted = shown.iter().filter(|record| field(record, "type") == kind);
        wanted.map(|record| field(record, name).to_owned()).collect()
    };
    assert_eq!(of("uprobes:tick", "n"), ["3", "4"]);
    assert_eq!(of("uprobes:tock", "ret"), ["0", "10", "20", "30", "40"]);
    assert_eq!(of("uprobes:tock", "comm"), ["probed"; 5]);
    let Kernel { mut endpoint, prefix, .. } = kernel;
    endpoint.process.signal(Signal::SIGTERM);
    endpoint.process.wait();
    assert_eq!((probes(&prefix), instances(&prefix).len()), (0, 0));
}

#[test]
fn probes_in_the_kernel_work_or_the_reason_is_told() {
    if !can_trace() {
        return;
    }
    let kernel = Kernel::start("kprobe", "probes = ['p:look vfs_open']");
    if tracefs().join("kprobe_events").exists() {
        eventually("a record", || {
            let shown = kernel.records();
            shown.iter().any(|record| field(record, "type") == "kprobes:look").then_some(())
        });
    } else {
        eprintln!("NOT TESTED: kprobes, which this kernel does not have (CONFIG_KPROBE_EVENTS).");
        let told =
            "not enabled: probe look: this kernel does not have kprobe_events (it was built without CONFIG_";
        assert!(kernel.log().contains(told), "{}", kernel.log());
        assert_eq!(kernel.number("jumpseat.kernel.refused"), 1);
    }
}

#[test]
fn system_calls_become_spans() {
    if !can_trace() {
        return;
    }
    let dir = temp_dir();
    let pwd = program(dir.path(), "whereami", "/bin/pwd");
    let kernel = Kernel::start(
        "span",
        "spans = true\nevents = ['syscalls:sys_enter_getcwd', 'syscalls:sys_exit_getcwd']",
    );
    let pid = run(&pwd).to_string();
    let shown = eventually("begin and end", || {
        let mut shown = kernel.records();
        shown.retain(|record| field(record, "common_pid") == pid);
        (shown.len() >= 2).then_some(shown)
    });
    // start, end; each with an identifier
    assert_eq!((shown[0].flags, shown[1].flags), (0x2 | 0x8, 0x4 | 0x8), "{shown:?}");
    assert_eq!(field(&shown[0], "span_id_u64"), field(&shown[1], "span_id_u64"));
    assert_eq!(field(&shown[0], "type"), "syscalls:sys_enter_getcwd");
    assert_eq!(field(&shown[0], "comm"), "whereami");
}

#[test]
fn what_cannot_be_enabled_is_told_and_the_rest_works() {
    if !can_trace() {
        return;
    }
    let keys = "events = ['sched:sched_process_exce', 'nothing:*', 'sched:sched_process_exit if pdi == 3', \
                'sched:sched_process_f*']";
    let kernel = Kernel::start("wrong", keys);
    let log = kernel.log();
    let told = "there is no event sched:sched_process_exce; nearest are sched:sched_process_exec, sched:";
    assert!(log.contains(told), "{log}");
    assert!(log.contains("there is no event nothing:*; nearest are "), "{log}");
    assert!(log.contains("sched:sched_process_exit: filter \"pdi == 3\": Field not found"), "{log}");
    assert_eq!(kernel.number("jumpseat.kernel.refused"), 3);
    // sched_process_fork and sched_process_free at least
    assert!(kernel.number("jumpseat.kernel.enabled") >= 2);
    run(Path::new("/bin/true"));
    eventually("an event", || (kernel.number("jumpseat.source.received") > 0).then_some(()));
}

#[test]
fn instances_of_killed_agents_go_and_those_of_live_ones_stay() {
    if !can_trace() {
        return;
    }
    let dir = temp_dir();
    let (program, offset) = probed(dir.path());
    let keys =
        format!("events = ['sched:sched_switch']\nprobes = ['p:tick {}:{offset:#x}']", program.display());
    let mut killed = Kernel::start("clean", &keys);
    let left = killed.instance();
    // The helper first, or it would remove what it has made.
    kill(Pid::from_raw(killed.helper()), Signal::SIGKILL).expect("it runs");
    killed.endpoint.process.signal(Signal::SIGKILL);
    killed.endpoint.process.wait();
    assert!(left.exists() && probes(&killed.prefix) == 1, "the kernel keeps it");
    let second = Kernel::start("clean", &keys);
    assert!(!left.exists(), "{}", second.log());
    assert_eq!(probes(&second.prefix), 1);
    assert!(second.log().contains("which an agent left that has ended"), "{}", second.log());
    let live = second.instance();
    let third = Kernel::start("clean", &keys);
    assert!(live.exists() && instances(&third.prefix).len() == 2 && probes(&third.prefix) == 2);
    for mut kernel in [second, third] {
        kernel.endpoint.process.signal(Signal::SIGTERM);
        kernel.endpoint.process.wait();
    }
    assert_eq!((instances(&killed.prefix).len(), probes(&killed.prefix)), (0, 0));
}

#[test]
fn an_agent_that_is_killed_leaves_no_instance() {
    if !can_trace() {
        return;
    }
    let mut kernel = Kernel::start("killed", "events = ['sched:sched_process_exec']");
    let instance = kernel.instance();
    kernel.endpoint.process.signal(Signal::SIGKILL);
    kernel.endpoint.process.wait();
    eventually("the helper to clean up", || (!instance.exists()).then_some(()));
}

#[test]
fn an_agent_whose_helper_is_killed_goes_on_reading() {
    if !can_trace() {
        return;
    }
    let kernel = Kernel::start("orphan", "comm = false");
    kill(Pid::from_raw(kernel.helper()), Signal::SIGKILL).expect("it runs");
    kernel.write("trace_marker", [&b"after the helper"[..]]);
    eventually("a record", || (kernel.number("jumpseat.source.received") == 1).then_some(()));
    assert_eq!(field(&kernel.records()[0], "message"), "after the helper");
    // What is left over goes with the next one that starts.
    let prefix = kernel.prefix.clone();
    drop(kernel);
    let (mut child, mut stream) = helper(&prefix);
    stream.write_all(b"o\0\0c\0\0").expect("it listens");
    drop(stream);
    child.wait().expect("it ends");
    assert_eq!(instances(&prefix).len(), 0);
}

#[test]
fn an_agent_that_is_not_root_traces_the_kernel_through_its_helper() {
    if !can_trace() {
        return;
    }
    let builder = PrivatePmcd::with([]);
    let prefix = prefix("helper");
    let wanted = program(builder.dir(), "wanted", "/bin/true");
    let keys = format!("events = ['sched:sched_process_exec if filename == {wanted:?}']");
    let seat = Seat::in_dir(builder.dir(), &settings(&prefix, &keys));
    let pmcd = builder.agent(as_nobody(&seat)).start();
    eventually("the source to run", || {
        let state = pmcd.run("pminfo", ["-f", "jumpseat.kernel.state"]).stdout;
        state.contains("value \"running\"").then_some(())
    });
    let pid = run(&wanted).to_string();
    let shown = eventually("a record", || {
        let shown = records(&pmcd.run("pminfo", ["-x", "jumpseat.event.recent"]).ok());
        (!shown.is_empty()).then_some(shown)
    });
    assert_eq!((field(&shown[0], "pid"), field(&shown[0], "comm")), (pid.as_str(), "wanted"));
    // The agent is nobody, and stays that.
    let number = pmcd.value("jumpseat.self.pid").expect("the agent tells");
    let status = fs::read_to_string(format!("/proc/{number}/status")).expect("Linux tells");
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("Linux tells");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of("Uid:"), ["65534"; 4]);
    assert_eq!((of("CapEff:"), of("CapBnd:").len()), (vec!["0".repeat(16)], 1));
    assert_eq!((of("NoNewPrivs:"), of("Seccomp:")), (vec!["1".to_owned()], vec!["2".to_owned()]));
    // And says so.
    let told = pmcd.run(JUMPSEAT, ["self-check"]).ok();
    assert!(told.contains("runs as              nobody\n"), "{told}");
    assert!(told.contains("capabilities         none\n"), "{told}");
    assert!(told.contains("kernel files opened  by a helper, process "), "{told}");
    // With pmcd the agent goes, and with it the helper and its instance.
    let instance = instances(&prefix).pop().expect("the helper has made it");
    drop(pmcd);
    eventually("the instance to go", || (!instance.exists()).then_some(()));
}

#[test]
fn a_reload_leaves_a_kernel_source_alone_and_tells_what_its_helper_cannot() {
    if !can_trace() {
        return;
    }
    let dir = temp_dir();
    let prefix = prefix("reload");
    let wanted = program(dir.path(), "wanted", "/bin/true");
    let keys = format!("events = ['sched:sched_process_exec if filename == {wanted:?}']");
    let base = settings(&prefix, &keys);
    let seat = Seat::in_dir(dir.path(), &base);
    let mut endpoint = seat.serve([]);
    let state = |endpoint: &Endpoint| endpoint.run("pminfo", ["-f", "jumpseat.kernel.state"]).ok();
    let is_running = |endpoint: &Endpoint| state(endpoint).contains("value \"running\"").then_some(());
    eventually("the source to run", || is_running(&endpoint));
    let before = instances(&prefix);
    let mut reloads = 0;
    let mut reload = |endpoint: &mut Endpoint, settings: &str| {
        Seat::in_dir(dir.path(), settings);
        endpoint.process.signal(Signal::SIGHUP);
        reloads += 1;
        eventually("the reload", || {
            let done = endpoint.process.text().matches("sources are as configured").count();
            (done == reloads).then_some(())
        });
    };
    let received = |endpoint: &Endpoint| {
        let text = endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
        let line = text.lines().find(|line| line.contains("\"kernel\"")).unwrap_or_default();
        line.rsplit_once("value ").map_or(0, |(_, value)| value.trim().parse::<u64>().expect("a number"))
    };
    // Beside it, tables come and go while programs are started.
    for round in 0..5 {
        let other = format!("[[file]]\npath = '/nonexistent/{round}.log'\n");
        run(&wanted);
        reload(&mut endpoint, &if round % 2 == 0 { base.clone() + &other } else { base.clone() });
        run(&wanted);
    }
    eventually("all ten", || (received(&endpoint) == 10).then_some(()));
    assert_eq!(instances(&prefix), before, "it was never made anew");
    // Other events are the helper's to refuse, and the source goes on.
    reload(&mut endpoint, &settings(&prefix, "events = ['sched:*']"));
    let text = endpoint.process.text();
    let told = "not started: kernel source kernel: the helper that opens the kernel's files opens what it was told at its start only, and the source goes on as it was: restart the agent";
    assert!(text.contains(told), "{text}");
    run(&wanted);
    eventually("another one", || (received(&endpoint) == 11).then_some(()));
    // Gone, it leaves nothing; what the helper knows it opens again.
    reload(&mut endpoint, "[events]\nrecent = 1000\n");
    assert_eq!(instances(&prefix).len(), 0);
    reload(&mut endpoint, &base);
    eventually("the source to run again", || is_running(&endpoint));
    run(&wanted);
    eventually("one more", || (received(&endpoint) == 12).then_some(()));
    assert!(endpoint.process.stop().success());
    eventually("the instance to go", || instances(&prefix).is_empty().then_some(()));
}

/// An agent for pmcd.conf that becomes nobody.
#[track_caller]
fn as_nobody(seat: &Seat) -> AgentSpec {
    let nobody = nix::unistd::User::from_name("nobody").unwrap().expect("every system has one");
    let dir = seat.config().parent().expect("it is in a directory").to_owned();
    for path in [dir, seat.state_dir()] {
        nix::unistd::chown(&path, Some(nobody.uid), None).expect("root may");
    }
    let mut argv = vec![PMDA.to_owned()];
    argv.extend(seat.args());
    let user = argv.iter().position(|word| word == "-U").expect("the agent's user") + 1;
    "nobody".clone_into(&mut argv[user]);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    AgentSpec::pipe("jumpseat", DOMAIN, &argv).with_pmns(seat.pmns())
}

/// A helper of the test's own, told that it is for one event; the test is the agent.
fn helper(prefix: &str) -> (std::process::Child, UnixStream) {
    let (mut ours, theirs) = UnixStream::pair().expect("sockets");
    let child = Command::new(JUMPSEAT)
        .arg("kernel-helper")
        .stdin(OwnedFd::from(theirs))
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it runs");
    let config =
        format!("{{\"instance\":{prefix:?},\"events\":[\"sched:sched_process_exec\"],\"comm\":false}}");
    ours.write_all(&(config.len() as u32).to_le_bytes()).expect("it listens");
    ours.write_all(config.as_bytes()).expect("it listens");
    (child, ours)
}

#[test]
fn who_takes_the_agent_over_gets_no_more_of_the_helper_than_was_configured() {
    if !can_trace() {
        return;
    }
    let prefix = prefix("taken");
    let (mut child, mut stream) = helper(&prefix);
    stream.write_all(b"o\0\0").expect("it listens");
    let enabled = |event: &str| {
        let path = instances(&prefix).pop()?.join("events/sched").join(event).join("enable");
        // The kernel makes the instance before what is in it.
        Some(fs::read_to_string(path).ok()?.trim().to_owned())
    };
    eventually("the instance", || enabled("sched_process_exec").filter(|on| on == "1"));
    assert_eq!(enabled("sched_switch").as_deref(), Some("0"));
    // It cannot leave tracefs, start anything, or become more than it is.
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("Linux tells");
    for line in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line} in {status}");
    }
    // Another configuration is no request, and who says such a thing is not served any more.
    let other = b"{\"events\":[\"sched:sched_switch\"]}";
    stream.write_all(&(other.len() as u32).to_le_bytes()).expect("it listens");
    let _ = stream.write_all(other);
    // With it the descriptors go that are on their way.
    drop(stream);
    assert!(!child.wait().expect("it ends").success());
    assert_eq!(instances(&prefix).len(), 0);
}

#[test]
fn a_helper_ends_with_what_it_has_made_whatever_it_is_told() {
    if !can_trace() {
        return;
    }
    let prefix = prefix("told");
    let mut random = support::random::Random::new(7, 0);
    for _ in 0..12 {
        let (mut child, mut stream) = helper(&prefix);
        let mut bytes = b"o\0\0".to_vec();
        bytes.extend((0..random.below(40)).map(|_| random.pick(b"osc\0\x01\xff")));
        let _ = stream.write_all(&bytes);
        drop(stream);
        child.wait().expect("it ends");
    }
    assert_eq!(instances(&prefix).len(), 0);
}

#[test]
fn without_privileges_the_agent_runs_and_says_what_to_do() {
    if !can_trace() {
        return;
    }
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), &settings(&prefix("nobody"), "events = ['sched:*']"));
    for path in [dir.path(), &seat.state_dir()] {
        nix::unistd::chown(path, Some(NOBODY), None).expect("root may");
    }
    // Not root at any time, so that there is nobody to help.
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        &NOBODY.to_string(),
        "--clear-groups",
        JUMPSEAT,
        "serve",
        "--listen",
        "127.0.0.1:0",
    ]);
    command.arg("--config").arg(seat.config());
    let process = Process::start(&mut command, dir.path(), "serve");
    let host = eventually("jumpseat serve to listen", || {
        let text = process.stdout();
        Some(text.lines().find_map(|line| line.strip_prefix("PCP clients: "))?.trim().to_owned())
    });
    let state = eventually("the kernel source to give up", || {
        let shown = PcpEnv::new().run("pminfo", ["-h", &host, "-f", "jumpseat.kernel.state"]).stdout;
        shown.contains("run the agent as root").then_some(shown)
    });
    assert!(state.contains("or \"kernel\"]"), "{state}");
    let log = process.text();
    assert!(log.contains("no events of the kernel for source kernel: "), "{log}");
    let version = PcpEnv::new().run("pminfo", ["-h", &host, "-f", "jumpseat.self.version"]);
    assert!(version.ok().contains("value"));
}

#[test]
fn the_demo_shows_events_of_the_kernel() {
    if !can_trace() {
        return;
    }
    let shown = PcpEnv::new().run(JUMPSEAT, ["demo", "--kernel", "--seconds", "3"]).ok();
    assert!(shown.contains("* sched:sched_process_exec "), "{shown}");
    let has_rate = |line: &str| line.starts_with("-- ") && line.contains("kernel ");
    assert!(shown.lines().any(has_rate), "{shown}");
}

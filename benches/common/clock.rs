//! Processor time, as the system accounts for it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// Of the thread that asks, to the nanosecond: what [`run_time`] tells of a thread that runs is as of its last tick.
pub(crate) fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).expect("threads have a clock")
}

/// Of the thread of this process with this name.
pub(crate) fn cpu_of(name: &str) -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux tells").flatten().map(|task| task.path());
    let mut named =
        tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name));
    run_time(&named.next().unwrap_or_else(|| panic!("no thread {name}")))
}

/// Of all threads of a process that live.
pub(crate) fn process_cpu(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten();
    tasks.map(|task| run_time(&task.path())).sum()
}

/// Of a process, with threads that have ended.
pub(crate) fn whole_cpu(pid: u32) -> Duration {
    let pid = Pid::from_raw(i32::try_from(pid).expect("pids are small"));
    let clock = clock_getcpuclockid(pid).expect("it lives");
    Duration::from(clock_gettime(clock).expect("the clock is there"))
}

/// Of the children of this process that have ended.
pub(crate) fn children_cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("every process has it");
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.unsigned_abs())
}

/// Resident memory of a process, in KiB.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS:")
}

/// The most of it that there ever was.
pub(crate) fn peak_kib(pid: u32) -> u64 {
    status_kib(pid, "VmHWM:")
}

fn status_kib(pid: u32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// The first number of `schedstat`: nanoseconds on a processor. 0 for a thread that has ended meanwhile.
fn run_time(task: &Path) -> Duration {
    let text = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

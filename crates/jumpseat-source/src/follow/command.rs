//! Commands whose standard output is a source.
//!
//! Each runs in a process group of its own, with nothing on its standard input. It is started again after it has ended,
//! later and later if its runs are short. What it says on standard error goes to the agent's log. While the core has no room
//! its output is not read, so that it waits in its pipe. At the agent's end the group gets SIGTERM, then SIGKILL. An agent that
//! is killed itself leaves its commands; they get SIGPIPE when they write next.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::config::Restart;
use super::lines::{Piece, Splitter};
use super::stats::Phase;
use super::stream::{Chunk, Format, Sink, Stream};
use crate::lanes::{LaneId, Numbered};
use pcp_net::Limiter;

/// Most bytes of one read.
const READ: usize = 64 * 1024;
/// Longest line of standard error in the log.
const ERROR_LINE: usize = 1024;
/// How often to see whether a command has ended without closing its output.
const TICK: Duration = Duration::from_millis(500);
/// How long a command may live on after it has closed its output.
const AFTER_OUTPUT: Duration = Duration::from_secs(2);
/// How long commands have at the agent's end before they are killed.
const AT_END: Duration = Duration::from_millis(500);

/// What to run, and when again.
pub(super) struct Plan {
    /// What it is called in messages.
    pub name: String,
    /// When to start it again.
    pub restart: Restart,
    /// The shortest and the longest time before it is started again.
    pub backoff: (Duration, Duration),
}

/// A command.
pub(super) struct Job {
    plan: Plan,
    /// How its lines are read.
    pub format: Format,
    stream: Stream,
    state: State,
    /// How long to wait before the next start.
    backoff: Duration,
    /// Output of an incomplete line, or that there was no room for.
    carry: Vec<u8>,
    /// The carry may have whole lines.
    has_unread: bool,
    /// When output was read last.
    read_at: Instant,
    started: bool,
    /// Runs in a row that have given no output.
    pub starts_without_output: u32,
    report: Limiter,
}

enum State {
    /// To be started at this time.
    Waiting(Instant),
    Running(Box<Run>),
    /// Not to be started again.
    Ended,
}

struct Run {
    child: Child,
    out: Option<ChildStdout>,
    errors: Option<ChildStderr>,
    /// An incomplete line of standard error.
    error_carry: Vec<u8>,
    error_lines: Splitter,
    began: Instant,
    /// The newest read of the output found nothing.
    empty: bool,
    /// When the output or the process ended.
    silent: Option<Instant>,
    next_tick: Instant,
}

impl Job {
    /// A command that has not been started.
    pub(super) fn new(plan: Plan, format: Format, stream: Stream) -> Job {
        Job {
            backoff: plan.backoff.0,
            plan,
            format,
            stream,
            state: State::Waiting(Instant::now()),
            carry: Vec::new(),
            has_unread: false,
            read_at: Instant::now(),
            started: false,
            starts_without_output: 0,
            report: Limiter::new(10, Duration::from_secs(6)),
        }
    }

    /// What to poll: standard output unless the core has no room, and standard error.
    pub(super) fn fds(&self, held: bool) -> impl Iterator<Item = BorrowedFd<'_>> {
        let run = match &self.state {
            State::Running(run) => Some(run),
            _ => None,
        };
        let out = run.and_then(|run| run.out.as_ref()).filter(|_| !held).map(AsFd::as_fd);
        out.into_iter().chain(run.and_then(|run| run.errors.as_ref()).map(AsFd::as_fd))
    }

    /// Whether there are lines that only the core had no room for.
    pub(super) fn has_work(&self) -> bool {
        self.has_unread
    }

    /// When [`Job::tick`] has something to do.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting(at) => Some(*at),
            State::Running(run) => {
                Some(self.record_due().map_or(run.next_tick, |due| due.min(run.next_tick)))
            }
            State::Ended => None,
        }
    }

    /// When a record of several lines has waited long enough for the next.
    fn record_due(&self) -> Option<Instant> {
        let join = self.format.join.as_ref().filter(|_| self.stream.splitter.has_open_record())?;
        Some(self.read_at + join.timeout)
    }

    /// Ends a record that no further line has come to for so long.
    fn end_record(&mut self, now: Instant, sink: &mut Sink) {
        if self.record_due().is_some_and(|due| due <= now) && !sink.lanes.is_stuck() {
            self.take_open_record(sink);
        }
    }

    /// Takes the lines of a record that waits for more, which are nowhere else.
    pub(super) fn take_open_record(&mut self, sink: &mut Sink) {
        if self.has_unread || !self.stream.splitter.has_open_record() {
            return;
        }
        let carry = Chunk::now(&self.carry);
        let used = self.stream.end_record(carry, &mut self.format, sink, &Place(&self.plan.name));
        self.stream.advance(used);
        self.carry.drain(..used);
    }

    /// Starts it if it is time to, with what `command` gives, which also numbers its output if that can come again; sees
    /// whether it has ended.
    pub(super) fn tick(
        &mut self,
        now: Instant,
        sink: &mut Sink,
        command: impl FnOnce(&mut Sink) -> (Command, Option<Numbered>),
    ) {
        self.end_record(now, sink);
        match &mut self.state {
            State::Waiting(at) if *at <= now && !self.has_unread => {
                let (command, numbers) = command(sink);
                self.stream.numbers = numbers;
                self.start(now, sink, command);
            }
            State::Running(run) if run.next_tick <= now && !self.has_unread => {
                run.next_tick = now + TICK;
                self.see_whether_ended(now, sink);
            }
            _ => {}
        }
    }

    /// One read of each output, as far as the core has room.
    pub(super) fn round(&mut self, sink: &mut Sink, buffer: &mut Vec<u8>) {
        self.read_errors();
        if std::mem::take(&mut self.has_unread) {
            let carry = std::mem::take(&mut self.carry);
            self.take(&carry, sink);
        }
        if self.has_unread || sink.lanes.is_stuck() {
            return;
        }
        let State::Running(run) = &mut self.state else { return };
        let Some(out) = &mut run.out else { return };
        let carried = self.carry.len();
        buffer.resize(buffer.len().max(carried + READ), 0);
        match out.read(&mut buffer[carried..carried + READ]) {
            Ok(0) => self.output_ended(sink),
            Ok(read) => {
                run.empty = false;
                self.read_at = Instant::now();
                self.starts_without_output = 0;
                buffer[..carried].copy_from_slice(&self.carry);
                self.take(&buffer[..carried + read], sink);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => run.empty = true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.output_ended(sink),
        }
    }

    /// Asks its processes to end.
    pub(super) fn ask_to_end(&self) {
        if let State::Running(run) = &self.state {
            signal(&run.child, Signal::SIGTERM);
        }
    }

    /// Waits until its processes have ended, and insists after `limit`.
    pub(super) fn end(&mut self, limit: Instant) {
        if let State::Running(run) = &mut self.state {
            while !has_ended(&run.child) && Instant::now() < limit {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Before it is waited for: until then its number is nobody else's.
            signal(&run.child, Signal::SIGKILL);
            let _ = run.child.wait();
        }
        self.state = State::Ended;
    }

    /// What is going on.
    pub(super) fn phase(&self, held: bool) -> Phase {
        match &self.state {
            State::Running(_) if held && self.has_unread => Phase::Held,
            State::Running(_) => Phase::Running,
            State::Waiting(_) if self.started => Phase::Restarting,
            State::Waiting(_) => Phase::Waiting,
            State::Ended => Phase::Ended,
        }
    }

    /// Its account's number.
    pub(super) fn slot(&self) -> usize {
        self.stream.slot
    }

    /// The number behind what was taken of its output, if that is numbered.
    pub(super) fn number(&self) -> Option<u64> {
        self.stream.numbers.map(|next| next.number)
    }

    /// Where its lines go.
    pub(super) fn lane(&self) -> LaneId {
        self.stream.lane
    }

    fn start(&mut self, now: Instant, sink: &mut Sink, mut command: Command) {
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if std::mem::replace(&mut self.started, true)
            && let Some(stats) = sink.stats.slot(self.stream.slot)
        {
            stats.restarts.fetch_add(1, Ordering::Relaxed);
        }
        self.starts_without_output = self.starts_without_output.saturating_add(1);
        match spawn(&mut command) {
            Ok((child, out, errors)) => {
                tracing::info!(pid = child.id(), "{}: started", self.plan.name);
                self.stream.splitter = Splitter::default();
                self.state = State::Running(Box::new(Run {
                    child,
                    out: Some(out),
                    errors: Some(errors),
                    error_carry: Vec::new(),
                    error_lines: Splitter::default(),
                    began: now,
                    empty: false,
                    silent: None,
                    next_tick: now + TICK,
                }));
            }
            Err(error) => {
                sink.stats.error();
                let wait = self.again(now, Duration::ZERO);
                self.say(format_args!("cannot be started: {error}{wait}"));
            }
        }
    }

    fn take(&mut self, input: &[u8], sink: &mut Sink) {
        let used = self.stream.take(Chunk::now(input), &mut self.format, sink, &Place(&self.plan.name));
        self.stream.advance(used);
        self.has_unread = sink.lanes.is_stuck();
        self.carry.clear();
        self.carry.extend_from_slice(&input[used..]);
        self.carry.shrink_to(READ);
    }

    /// The last line need not have a newline.
    fn output_ended(&mut self, sink: &mut Sink) {
        let rest = std::mem::take(&mut self.carry);
        self.stream.last(Chunk::now(&rest), &mut self.format, sink, &Place(&self.plan.name));
        let now = Instant::now();
        if let State::Running(run) = &mut self.state {
            run.out = None;
            run.silent = Some(now);
        }
        self.see_whether_ended(now, sink);
    }

    fn see_whether_ended(&mut self, now: Instant, sink: &mut Sink) {
        let State::Running(run) = &mut self.state else { return };
        if !has_ended(&run.child) {
            match run.silent {
                Some(since) if now >= since + AFTER_OUTPUT => signal(&run.child, Signal::SIGKILL),
                Some(_) => run.next_tick = now + TICK / 10,
                None => {}
            }
            return;
        }
        // What it left behind in its group goes with it; others may hold its output open.
        signal(&run.child, Signal::SIGKILL);
        if run.out.is_some() {
            // The pipe ends when all that could write are gone, unless one has left the group.
            let waited = *run.silent.get_or_insert(now) + AFTER_OUTPUT;
            if now < waited || !run.empty {
                run.next_tick = now + TICK / 10;
                return;
            }
        }
        let rest = std::mem::take(&mut self.carry);
        self.stream.last(Chunk::now(&rest), &mut self.format, sink, &Place(&self.plan.name));
        self.read_errors();
        let State::Running(run) = &mut self.state else { return };
        let status = run.child.wait();
        let lasted = now.saturating_duration_since(run.began);
        self.ended(status, lasted, now, sink);
    }

    fn ended(&mut self, status: io::Result<ExitStatus>, lasted: Duration, now: Instant, sink: &Sink) {
        let (code, text) = match &status {
            Ok(status) => {
                (status.code().unwrap_or_else(|| -status.signal().unwrap_or(0)), status.to_string())
            }
            Err(error) => (1, error.to_string()),
        };
        if let Some(stats) = sink.stats.slot(self.stream.slot) {
            stats.set_status(code);
        }
        let again = match self.plan.restart {
            Restart::Always => true,
            Restart::OnFailure => code != 0,
            Restart::Never => false,
        };
        let wait = if again {
            self.again(now, lasted)
        } else {
            self.state = State::Ended;
            String::new()
        };
        self.say(format_args!("ended after {:.1} s, {text}{wait}", lasted.as_secs_f64()));
    }

    /// Plans the next start after a run that has lasted so long; says when.
    fn again(&mut self, now: Instant, lasted: Duration) -> String {
        let (least, most) = self.plan.backoff;
        if lasted > most {
            self.backoff = least;
        }
        let wait = self.backoff;
        self.backoff = (wait * 2).min(most);
        self.state = State::Waiting(now + wait);
        format!("; starting it again in {:.1} s", wait.as_secs_f64())
    }

    fn read_errors(&mut self) {
        let State::Running(run) = &mut self.state else { return };
        let Some(errors) = &mut run.errors else { return };
        let mut bytes = [0; 4096];
        let read = match errors.read(&mut bytes) {
            Ok(0) => {
                run.errors = None;
                return;
            }
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(_) => {
                run.errors = None;
                return;
            }
        };
        run.error_carry.extend_from_slice(&bytes[..read]);
        let carry = std::mem::take(&mut run.error_carry);
        let mut lines = run.error_lines;
        let mut at = 0;
        while let Some(Piece::Line(line) | Piece::Cut(line)) = lines.next(&carry, &mut at, ERROR_LINE) {
            self.say(format_args!("{}", String::from_utf8_lossy(line).escape_debug()));
        }
        if let State::Running(run) = &mut self.state {
            run.error_lines = lines;
            run.error_carry.extend_from_slice(&carry[at..]);
        }
    }

    fn say(&mut self, what: fmt::Arguments<'_>) {
        if let Some(held_back) = self.report.allow(Instant::now()) {
            tracing::warn!(held_back, "{}: {what}", self.plan.name);
        }
    }
}

/// Ends all: they have the same half second for it.
pub(super) fn end_all<'a>(jobs: impl Iterator<Item = &'a mut Job>) {
    let mut asked: Vec<&mut Job> = jobs.collect();
    for job in &asked {
        job.ask_to_end();
    }
    let limit = Instant::now() + AT_END;
    for job in &mut asked {
        job.end(limit);
    }
}

struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Starts a process whose outputs do not block their reader.
fn spawn(command: &mut Command) -> io::Result<(Child, ChildStdout, ChildStderr)> {
    // The agent's threads block the signals that its event loop takes, and a process inherits that: it could not even be
    // asked to end. So this thread lets some of them in while it starts one. One that comes just then ends the agent, as it
    // asks for; SIGHUP, which does not, stays blocked.
    let mut allowed = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGPIPE] {
        allowed.add(signal);
    }
    let before = allowed.thread_swap_mask(SigmaskHow::SIG_UNBLOCK)?;
    let spawned = command.spawn();
    before.thread_set_mask()?;
    let mut child = spawned?;
    let (Some(out), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("its outputs are no pipes"));
    };
    for fd in [out.as_fd(), errors.as_fd()] {
        let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
        fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    }
    Ok((child, out, errors))
}

/// Whether the process has ended; it is not waited for, so that its number stays its own.
fn has_ended(child: &Child) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(pid(child)), flags) {
        Ok(WaitStatus::StillAlive) => false,
        Ok(_) => true,
        Err(error) => error != Errno::EINTR,
    }
}

/// Sends a signal to the process and all of its group.
fn signal(child: &Child, signal: Signal) {
    // There may be nobody left.
    let _ = killpg(pid(child), signal);
}

fn pid(child: &Child) -> Pid {
    // Process numbers fit.
    Pid::from_raw(child.id() as i32)
}

//! An agent that this program has started, and its end.
//!
//! pmcd gives an agent two pipes; here it has the one end of a socket pair for both, which it reads and writes the same way. It runs in a
//! folder of its own: the log that it begins there must not take the place of that of the agent that pmcd has started. The folder is this
//! user's alone, also where the agent becomes somebody else later: an agent begins its log before that, and nobody else can put a link in
//! its place.
//!
//! An agent leads a process group, so that what it starts ends with it. Its input ends with this program, however that ends; an agent that
//! ignores it runs on where this program was killed by a signal. The folder is left then, too, if the agent had not begun yet.

use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, User, geteuid};
use tempfile::TempDir;

use super::table::Program;

/// How long agents may take to end once their input has, and again once they are killed.
const GRACE: Duration = Duration::from_secs(1);
/// Pauses between two looks whether they have.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// The folder of an agent, which may be in it still when it has become somebody else. The umask may take from it.
const DIR_MODE: u32 = 0o755;

/// Environment variables that act like options of PCP's tools (`pmGetOptions(3)`, ENVIRONMENT). Agents that a context starts do not have them:
/// they are for the tool, a host specification among them may hold a password, and a tool that an agent calls would start agents in turn.
pub const OPTION_VARIABLES: [&str; 22] = [
    "PCP_ALIGN_TIME",
    "PCP_ARCHIVE",
    "PCP_ARCHIVE_LIST",
    "PCP_DEBUG",
    "PCP_FINISH_TIME",
    "PCP_FOLIO",
    "PCP_GUIMODE",
    "PCP_GUIPORT",
    "PCP_HOST",
    "PCP_HOSTZONE",
    "PCP_HOST_LIST",
    "PCP_INTERVAL",
    "PCP_LOCALMODE",
    "PCP_LOCALPMDA",
    "PCP_NAMESPACE",
    "PCP_ORIGIN",
    "PCP_ORIGIN_TIME",
    "PCP_SAMPLES",
    "PCP_SPECLOCAL",
    "PCP_START_TIME",
    "PCP_TIMEZONE",
    "PCP_UNIQNAMES",
];

/// A started agent. Dropped, it is waited for, and killed if it does not end. Its end of the socket pair should be closed before.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// It has been waited for, or does not end though it was killed.
    over: bool,
}

impl Process {
    /// Starts a program, and gives the other end of its input and output, and the folder that it runs in. That may go once the agent has
    /// begun its log.
    pub(super) fn start(program: &Program) -> io::Result<(Process, UnixStream, TempDir)> {
        let mode = Permissions::from_mode(DIR_MODE);
        let dir = tempfile::Builder::new().prefix("pcp-agent-").permissions(mode).tempdir()?;
        let (ours, its) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let input = Stdio::from(OwnedFd::from(its.try_clone()?));
        let output = Stdio::from(OwnedFd::from(its));
        let (path, arguments) =
            program.words.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut command = Command::new(path);
        // What it has to say before it has a log is for the user.
        command.args(arguments).current_dir(dir.path()).stdin(input).stdout(output).process_group(0);
        OPTION_VARIABLES.iter().for_each(|variable| {
            command.env_remove(variable);
        });
        if let Some(user) = own_user() {
            command.env("PCP_USER", user);
        }
        let child = command.spawn()?;
        Ok((Process { child, over: false }, ours, dir))
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it without waiting for what it does.
    pub(super) fn kill(self) {
        self.kill_group();
    }

    /// Ends all of them, whose input has ended, at the same time.
    pub(super) fn end_all(processes: &mut [Process]) {
        wait_until(|| processes.iter().all(Process::has_ended));
        // Also where it has ended by itself, for what it may have left.
        processes.iter().for_each(Process::kill_group);
        wait_until(|| processes.iter_mut().all(|process| !matches!(process.child.try_wait(), Ok(None))));
        processes.iter_mut().for_each(|process| process.over = true);
    }

    /// Whether it has ended. It keeps its number until it is waited for.
    fn has_ended(&self) -> bool {
        self.over || !matches!(self.look(), Ok(WaitStatus::StillAlive))
    }

    /// Kills it and what it has started.
    fn kill_group(&self) {
        // Not once it has been waited for, here or by the system: the number may be another's then.
        if self.look().is_ok() {
            // Nothing is left to do about one that is gone or cannot be killed.
            let _ = killpg(self.pid(), Signal::SIGKILL);
        }
    }

    fn look(&self) -> nix::Result<WaitStatus> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(self.pid()), flags)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.over {
            Process::end_all(std::slice::from_mut(self));
        }
    }
}

/// Waits a while for something to be so.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let limit = Instant::now() + GRACE;
    let mut pause = FIRST_PAUSE;
    while !is_so() && Instant::now() < limit {
        sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Who this is, unless it is root: agents that want to become PCP's user end when they may not, and as this one they may go on.
fn own_user() -> Option<String> {
    let uid = geteuid();
    if uid.is_root() {
        return None;
    }
    User::from_uid(uid).ok().flatten().map(|user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(script: &str) -> (Process, UnixStream, TempDir) {
        let words = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        Process::start(&Program { words, notready: false }).unwrap()
    }

    #[test]
    fn agents_that_do_not_end_are_given_their_time_together() {
        let begin = Instant::now();
        let (mut processes, _dirs): (Vec<Process>, Vec<TempDir>) =
            (0..4).map(|_| started("exec sleep 1000")).map(|(process, _, dir)| (process, dir)).unzip();
        Process::end_all(&mut processes);
        let took = begin.elapsed();
        assert!(took >= GRACE && took < GRACE * 3, "{took:?}");
        assert!(processes.iter().all(|process| process.over && killpg(process.pid(), None).is_err()));
    }

    #[test]
    fn what_an_agent_has_started_ends_with_it() {
        use std::io::Read as _;
        // The agent ends, or does not; what it has started has its end of the connection in both.
        for script in ["sleep 1000 & echo", "sleep 1000 & echo; wait"] {
            let (process, mut ours, _dir) = started(script);
            ours.set_nonblocking(false).unwrap();
            let mut said = [0];
            ours.read_exact(&mut said).unwrap();
            drop(process);
            assert_eq!(ours.read(&mut said).unwrap(), 0, "{script}");
        }
    }

    #[test]
    fn the_folder_of_an_agent_is_nobody_elses() {
        use std::os::unix::fs::MetadataExt as _;
        let (_process, _ours, dir) = started("exec cat");
        let metadata = dir.path().metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.mode() & 0o7722), (geteuid().as_raw(), 0o700));
    }
}

//! An agent that this program has started, and its end.
//!
//! pmcd gives an agent two pipes; here it has the one end of a socket pair for both, which it reads and writes the same way. It runs in a
//! folder of its own: the log that it begins there must not take the place of that of the agent that pmcd has started.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::unistd::{User, chown, geteuid};
use tempfile::TempDir;

use super::table::Program;
use crate::options::configured;

/// How long an agent may take to end once its input has.
const GRACE: Duration = Duration::from_secs(1);
/// Pauses between two looks whether it has.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// A started agent. Dropped, it is waited for, and killed if it does not end. Its end of the socket pair should be closed before.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Where it runs. The folder goes once the agent has begun its log: then nothing is left of it however this program ends.
    dir: Option<TempDir>,
}

impl Process {
    /// Starts a program, and gives the other end of its input and output.
    pub(super) fn start(program: &Program) -> io::Result<(Process, UnixStream)> {
        let dir = own_dir()?;
        let (ours, its) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let input = Stdio::from(OwnedFd::from(its.try_clone()?));
        let output = Stdio::from(OwnedFd::from(its));
        let (path, arguments) =
            program.words.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut command = Command::new(path);
        // What it has to say before it has a log is for the user.
        command.args(arguments).current_dir(dir.path()).stdin(input).stdout(output);
        let child = command.spawn()?;
        Ok((Process { child, dir: Some(dir) }, ours))
    }

    /// It runs, and has begun its log.
    pub(super) fn runs(&mut self) {
        self.dir = None;
    }

    /// Ends it without waiting for what it does.
    pub(super) fn kill(mut self) {
        // It may have ended by itself: then there is nothing to kill.
        let _ = self.child.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let limit = Instant::now() + GRACE;
        let mut pause = FIRST_PAUSE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < limit {
            sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        // Nothing is left to do about one that cannot be killed.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// A folder that the agent may write to, also once it has become PCP's user.
fn own_dir() -> io::Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("pcp-agent-").tempdir()?;
    if geteuid().is_root() {
        let name = configured("PCP_USER").and_then(|name| name.to_str().map(str::to_owned));
        if let Ok(Some(user)) = User::from_name(name.as_deref().unwrap_or("pcp")) {
            chown(dir.path(), Some(user.uid), Some(user.gid))?;
        }
    }
    Ok(dir)
}

//! The page of the demo: `jumpseat web`, as a process of its own beside it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long it may take to end.
const PATIENCE: Duration = Duration::from_secs(3);

/// A running `jumpseat web`. Dropping this ends it.
pub(super) struct Page {
    child: Child,
    /// Where browsers find it.
    pub url: String,
}

impl Page {
    /// Starts it, at a free port, for the collector at an address. `None` where that program is not there; it has said so then.
    pub(super) fn start(collector: SocketAddr) -> Option<Page> {
        let mut child = Command::new(std::env::current_exe().ok()?)
            .args(["web", "--listen", "127.0.0.1:0", "-h", &collector.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut url = String::new();
        // Its first line; or nothing, when it has ended.
        let read = BufReader::new(child.stdout.take()?).read_line(&mut url);
        let page = Page { child, url: url.trim().to_owned() };
        (read.is_ok_and(|bytes| bytes > 0)).then_some(page)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let until = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

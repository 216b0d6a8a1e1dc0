//! The helper: a process that keeps the right to trace when the agent gives it up, and the agent's side of it.
//!
//! ```text
//! agent, root          spawns the helper, and tells it the configuration of one source, once
//! agent, pcp           open --->  helper makes the instance    ---> texts, descriptors (SCM_RIGHTS)
//!   reads descriptors  search ->  one event's description      ---> text
//!                      close -->  helper removes the instance  ---> done
//! ```
//!
//! **Invariants.** After the configuration, a request is a byte, or three: whoever takes the agent over gets what was
//! configured, and no other event. When the agent ends, however it ends, the helper removes its instance and ends, too.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::TracefsError;
use super::config::KernelConfig;
use super::opener::Opener;
use super::setup::{EventText, Opened};
use super::wire::{self, Answer, Request};

/// What the program is told by its first argument, to be a helper.
pub const HELPER_ARGUMENT: &str = "kernel-helper";
/// How long the helper may take to remove an instance.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// How long it may take to end, and the time between two looks.
const END_TIME: Duration = Duration::from_secs(2);
const END_LOOK: Duration = Duration::from_millis(5);

/// A helper, which opens the files of one source. Dropping it ends it.
#[derive(Debug)]
pub struct Helper {
    stream: Mutex<UnixStream>,
    process: Mutex<Child>,
}

impl Helper {
    /// Starts the program that runs now once more, as the helper for a source; it must begin with [`super::serve`] if its
    /// first argument is [`HELPER_ARGUMENT`]. The helper keeps the rights that the caller has, as far as it needs them.
    ///
    /// # Errors
    /// The system's.
    pub fn spawn(config: &KernelConfig) -> io::Result<Helper> {
        let (mut ours, theirs) = UnixStream::pair()?;
        // Whatever the file is called now, this is what runs.
        let process = Command::new("/proc/self/exe")
            .arg0("jumpseat-kernel-helper")
            .arg(HELPER_ARGUMENT)
            .env_clear()
            .current_dir("/")
            // What ends the agent from a terminal ends the helper after it.
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        wire::send(&mut ours, config)?;
        Ok(Helper { stream: Mutex::new(ours), process: Mutex::new(process) })
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    pub(super) fn open(&self) -> Result<Opened, TracefsError> {
        let mut stream = self.stream();
        let answer = ask(&mut stream, Request::Open).map_err(lost)?;
        match answer {
            Answer::Opened(texts) => {
                let (cpus, switch) = wire::receive_files(&stream).map_err(lost)?;
                Ok(Opened { texts, cpus, switch })
            }
            Answer::Refused(reason) => Err(TracefsError::Helper(reason)),
            Answer::Event(_) | Answer::Closed => Err(lost(io::ErrorKind::InvalidData.into())),
        }
    }

    pub(super) fn search(&self, id: u16) -> Option<EventText> {
        match ask(&mut self.stream(), Request::Search(id)).ok()? {
            Answer::Event(event) => event,
            _ => None,
        }
    }

    pub(super) fn close(&self) {
        let mut stream = self.stream();
        let closed = stream
            .set_read_timeout(Some(CLOSE_TIME))
            .and_then(|()| ask(&mut stream, Request::Close))
            .and_then(|_| stream.set_read_timeout(None));
        if let Err(error) = closed {
            tracing::warn!("the helper has not said that the kernel's tracing is removed: {error}");
        }
    }

    fn stream(&self) -> MutexGuard<'_, UnixStream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        let stream = self.stream.get_mut().unwrap_or_else(PoisonError::into_inner);
        // For the helper this is the agent's end.
        let _ = stream.shutdown(std::net::Shutdown::Both);
        let begun = Instant::now();
        while let Ok(None) = process.try_wait() {
            if begun.elapsed() > END_TIME {
                // It may be another user's by now: then it stays, and ends when it can.
                let _ = process.kill();
                return;
            }
            std::thread::sleep(END_LOOK);
        }
    }
}

/// The helpers of all kernel sources, by source.
#[derive(Clone, Debug, Default)]
pub struct Helpers {
    helpers: Vec<(KernelConfig, Arc<Helper>)>,
}

impl Helpers {
    /// Starts a helper for each source.
    ///
    /// # Errors
    /// The system's; those that were started have ended then.
    pub fn spawn(configs: &[KernelConfig]) -> io::Result<Helpers> {
        let one = |config: &KernelConfig| Ok((config.clone(), Arc::new(Helper::spawn(config)?)));
        Ok(Helpers { helpers: configs.iter().map(one).collect::<io::Result<_>>()? })
    }

    /// Who opens the files of a source.
    pub fn opener(&self, source: &str) -> Opener {
        let helper = self.helpers.iter().find(|(config, _)| config.source == source);
        helper.map_or(Opener::Here, |(_, helper)| Opener::Helper(Arc::clone(helper)))
    }

    /// What each helper was told to open.
    pub fn configs(&self) -> impl Iterator<Item = &KernelConfig> {
        self.helpers.iter().map(|(config, _)| config)
    }

    /// The helpers' process numbers.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.helpers.iter().map(|(_, helper)| helper.pid())
    }
}

fn ask(stream: &mut UnixStream, request: Request) -> io::Result<Answer> {
    stream.write_all(&request.bytes())?;
    wire::receive(stream)
}

fn lost(error: io::Error) -> TracefsError {
    TracefsError::Helper(format!("the helper that opens the kernel's files is gone: {error}"))
}

//! Events of the Linux kernel: tracepoints, probes and markers, through tracefs.
//!
//! ```text
//! per_cpu/cpuN/trace_pipe_raw --> merge::Cpus --> page::Walk --> plan::Plan --> Lanes --> core
//!                                 (time order)    (records)      (parameters)
//! ```
//!
//! * [`config`]: what to take; [`select`]: which events that means.
//! * [`mount`] and [`instance`]: tracefs itself, and an instance in it that is ours alone.
//! * [`mod@format`] and [`plan`]: how an event's records look, and how they are packed.
//! * [`page`] and [`merge`]: the ring buffers, and time order over all CPUs; [`clock`]: real time.
//! * [`table`]: the events by number; [`comm`]: names of threads.
//! * [`reader`]: the thread that does it.
//! * `setup`: making the instance and opening its files, which takes rights; `opener`: who does so. A [`Helper`], with
//!   `wire` and `serve`, is a process that keeps these rights when the agent gives them up.
//!
//! **Invariant:** what the kernel says it lost becomes missed records at that place: before the CPU's next event that was kept, which is
//! all that the kernel knows. What other CPUs had between the two may be before it. Whatever pages and format files hold, nothing panics.
//!
//! **Cost:** 90 to 95 ns of CPU for a context switch, up to the event log: a system call for each sub-buffer of up to 64 KiB, one pass
//! over each record, no allocation and no look-up by name for a record. The thread sleeps while there are no events, and for 10 ms
//! between two rounds.

pub mod clock;
pub mod comm;
pub mod config;
pub mod format;
mod helper;
pub mod instance;
pub mod merge;
pub mod mount;
mod opener;
pub mod page;
pub mod plan;
pub mod reader;
pub mod select;
mod serve;
mod setup;
pub mod table;
mod wire;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use config::KernelConfig;
pub use helper::{HELPER_ARGUMENT, Helper, Helpers};
pub use opener::Opener;
pub use serve::serve;

use super::outlet::Outlet;
use super::start::StartError;
use pcp_model::Inst;
use pcp_net::{End, Life, Worker};

/// Batches of up to 64 KiB of a kernel source that may wait for the core.
pub const QUEUE: usize = 64;
/// How long to wait for the core when there are as many. Meanwhile events wait in the kernel.
const PATIENCE: Duration = Duration::from_millis(50);

/// Why there are no events of the kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracefsError {
    /// There is no tracefs.
    #[error("tracefs is not mounted and cannot be: {error}; {}", advice(.error))]
    Mount {
        /// The system's answer.
        error: nix::Error,
    },
    /// There can be no instance.
    #[error("cannot make an instance in {}: {error}; {}", .dir.display(), advice_io(.error))]
    Instance {
        /// The directory of instances.
        dir: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// Pages have a form that is not known.
    #[error("{}: this kernel's ring buffer has a form not known here", .0.display())]
    Layout(PathBuf),
    /// What the helper says, or that it is gone.
    #[error("{0}")]
    Helper(String),
    /// Something of the instance.
    #[error("cannot {doing}: {reason}")]
    Setup {
        /// What was tried.
        doing: &'static str,
        /// Why it did not work.
        reason: String,
    },
}

/// Reads one of tracefs' files. Some of them are over after the first read, however little that asked for.
///
/// # Errors
/// The system's.
pub fn read_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut text, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(read) => text.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn advice(error: &nix::Error) -> &'static str {
    use nix::errno::Errno;
    match error {
        Errno::EPERM | Errno::EACCES => {
            "run the agent as root (option -U root), or mount it (mount -t tracefs nodev /sys/kernel/tracing) and \
             give the agent's user access"
        }
        Errno::ENODEV => "this kernel was built without tracing (CONFIG_FTRACE)",
        _ => "mount it: mount -t tracefs nodev /sys/kernel/tracing",
    }
}

fn advice_io(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "run the agent as root (option -U root), or give its user access",
        _ => "the agent's log has said more if there is more to say",
    }
}

/// What the thread tells of itself. Read without locks.
#[derive(Debug)]
pub struct KernelStats {
    /// The source's instance.
    pub source: Inst,
    /// It runs.
    pub running: AtomicBool,
    /// Why it does not run any more, or never did.
    pub failure: OnceLock<String>,
    /// Events enabled.
    pub enabled: AtomicU64,
    /// Events, patterns and probes that could not be enabled.
    pub refused: AtomicU64,
    /// Events the kernel lost.
    pub lost: AtomicU64,
    /// Events that came too late for their place in the order.
    pub late: AtomicU64,
}

impl KernelStats {
    fn new(source: Inst) -> KernelStats {
        KernelStats {
            source,
            running: AtomicBool::new(false),
            failure: OnceLock::new(),
            enabled: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            late: AtomicU64::new(0),
        }
    }

    /// How it is: `starting`, `running`, or why not.
    pub fn state(&self) -> &str {
        match self.failure.get() {
            Some(failure) => failure,
            None if self.running.load(Ordering::Relaxed) => "running",
            None => "starting",
        }
    }
}

/// A running kernel source. Dropping it stops the thread, which hands over what the kernel has left and removes
/// its instance.
#[derive(Debug)]
pub struct TracefsSource {
    _worker: Worker,
    /// What the thread tells.
    pub stats: Arc<KernelStats>,
}

impl TracefsSource {
    /// Starts the thread, which then has set up what the configuration says, by `opener`. What the kernel does not allow
    /// is no error here: the source says so itself, by [`KernelStats::state`].
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        config: &KernelConfig,
        opener: Opener,
        outlet: &Outlet,
    ) -> Result<TracefsSource, StartError> {
        config.validate().map_err(StartError::Config)?;
        let source = outlet.registry.source(&config.source).map_err(StartError::source(&config.source))?;
        let stats = Arc::new(KernelStats::new(source));
        let (config, of_lives, of_thread) = (config.clone(), outlet.clone(), Arc::clone(&stats));
        let again = move || life(&config, &opener, &of_lives, &of_thread);
        let first = again()?;
        // The source shall be known even if it never has a record.
        (outlet.wake)();
        let worker = Worker::kept("jumpseat-kernel", &outlet.restarts, first, again);
        Ok(TracefsSource { _worker: worker.map_err(StartError::system("the kernel source"))?, stats })
    }
}

/// A life of the thread: one instance. It is over as soon as the kernel gives no more, which the state tells: only a panic
/// is worth another.
fn life(
    config: &KernelConfig,
    opener: &Opener,
    outlet: &Outlet,
    stats: &Arc<KernelStats>,
) -> Result<Life, StartError> {
    let mut lanes = outlet.lanes(PATIENCE);
    let lane = lanes.source(config.source.as_bytes()).map_err(StartError::source(&config.source))?;
    let (mut stop, stopped) = UnixStream::pair().map_err(StartError::system("the kernel source"))?;
    let (config, opener, stats) = (config.clone(), opener.clone(), Arc::clone(stats));
    let run = move || {
        reader::run(&config, &opener, lanes, lane, &stats, &stopped);
        End::Asked
    };
    let stop = move || {
        // The thread may have ended by itself just now.
        let _ = stop.write_all(b"x");
    };
    Ok(Life { run: Box::new(run), stop: Box::new(stop) })
}

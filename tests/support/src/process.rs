//! Processes with a clean environment and a time limit; nothing here knows pmcd.

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where PCP keeps the programs that are not for every day (pmcd, pmnsmerge, newhelp).
const BINADM_DIR: &str = "/usr/lib/pcp/bin";

/// No single command of a test may take longer.
const COMMAND_LIMIT: Duration = Duration::from_secs(90);

/// How long `eventually` and the start of a process may take. Long, because the machine may be busy;
/// nothing waits this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(40);

/// What a finished command left behind.
#[derive(Debug, Clone)]
pub struct Output {
    pub command: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// Standard output of a command that must have succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.status.success(), "{self}");
        self.stdout
    }

    /// Standard output and standard error of a command that must have failed with this exit code.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self.stdout + &self.stderr
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Output { command, status, stdout, stderr } = self;
        write!(f, "$ {command}\n{status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

/// The environment PCP programs are run in: the caller's without anything that configures PCP, plus `vars`.
#[derive(Debug, Clone, Default)]
pub struct PcpEnv {
    vars: Vec<(String, OsString)>,
}

impl PcpEnv {
    /// Only isolation, no pmcd: for archives and direct connections.
    pub fn new() -> PcpEnv {
        let mut env = PcpEnv::default();
        env.set("TZ", "UTC");
        env.set("LC_ALL", "C");
        // Five seconds by default: a machine with much other work takes that.
        env.set("PMCD_REQUEST_TIMEOUT", "40");
        env.set("PMCD_CONNECT_TIMEOUT", "40");
        env
    }

    /// Sets one variable for every later command.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.vars.push((name.to_owned(), value.into()));
    }

    /// A command in this environment. PCP's private programs are found by their bare name.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program_path(program.as_ref()));
        for (name, _) in std::env::vars_os() {
            if is_pcp_setting(&name) {
                command.env_remove(name);
            }
        }
        command.envs(self.vars.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end, nothing on its standard input.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = A>) -> Output {
        self.run_with_input(program, args, b"")
    }

    /// Runs a command to its end with `input` on its standard input. A command that cannot be started or
    /// does not end within the limit is a failure of the test.
    #[track_caller]
    pub fn run_with_input<A: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Output {
        let mut command = self.command(program);
        command.args(args);
        finish(&mut command, input)
    }
}

/// PCP's libraries and tools take settings from these; a test must not depend on the caller's.
fn is_pcp_setting(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["PCP_", "PMCD_", "PMNS_", "PMDA_", "PMLOGGER_", "PMPROXY_"].iter().any(|prefix| name.starts_with(prefix))
}

/// The root of the repository: what tests read lies below it.
pub fn repository() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_owned()
}

/// Where tests may leave files for the next run, such as compiled C programs: below the target directory.
pub fn scratch_dir() -> PathBuf {
    let program = std::env::current_exe().expect("a running test is a file");
    // TARGET/PROFILE/deps/PROGRAM
    let target = program.ancestors().nth(3).expect("cargo builds tests into a target directory");
    let dir = target.join("tmp");
    std::fs::create_dir_all(&dir).expect("the target directory is writable");
    dir
}

/// `program` itself when it is a path, else PCP's private directory if it has one of that name, else the
/// bare name for a search in PATH.
pub fn program_path(program: &OsStr) -> PathBuf {
    let private = Path::new(BINADM_DIR).join(program);
    if Path::new(program).components().count() == 1 && private.is_file() {
        private
    } else {
        PathBuf::from(program)
    }
}

/// Runs `command` to its end, reading both outputs at once so that neither pipe fills up.
#[track_caller]
fn finish(command: &mut Command, input: &[u8]) -> Output {
    let text = display(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command);
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let stdout = scope.spawn(move || read_all(stdout.expect("stdout is piped")));
        let stderr = scope.spawn(move || read_all(stderr.expect("stderr is piped")));
        // a program may end without reading its input
        scope.spawn(move || stdin.write_all(input).ok());
        let limit = Instant::now() + COMMAND_LIMIT;
        let mut pause = Duration::from_millis(1);
        let mut timed_out = false;
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child of this process can be waited for") {
                break status;
            }
            if Instant::now() > limit && !timed_out {
                timed_out = true;
                child.kill().expect("a child of this process can be killed");
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        let read =
            |reader: thread::ScopedJoinHandle<'_, String>| reader.join().expect("reading does not panic");
        let output = Output { command: text, status, stdout: read(stdout), stderr: read(stderr) };
        assert!(!timed_out, "still running after {COMMAND_LIMIT:?}:\n{output}");
        output
    })
}

fn read_all(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).expect("a pipe from a child can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[track_caller]
fn spawn(command: &mut Command) -> Child {
    match command.spawn() {
        Ok(child) => child,
        Err(error) => panic!(
            "cannot run {:?}: {error}\nInterop tests need PCP's packages: run ./test, which installs them on Debian.",
            command.get_program()
        ),
    }
}

fn display(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        text += " ";
        text += &arg.to_string_lossy();
    }
    text
}

/// A process in the background, its outputs in files. Stopped and waited for when dropped.
#[derive(Debug)]
pub struct Process {
    command: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `command` with nothing on its standard input; what it writes goes to `name.out` and `name.err`
    /// in `dir`, appended, so that the output of a process started again is kept.
    #[track_caller]
    pub fn start(command: &mut Command, dir: &Path, name: &str) -> Process {
        Process::start_with_input(command.stdin(Stdio::null()), dir, name)
    }

    /// As [`Process::start`], with the standard input that the command has already.
    #[track_caller]
    pub fn start_with_input(command: &mut Command, dir: &Path, name: &str) -> Process {
        let file = |path: &Path| {
            std::fs::File::options()
                .create(true)
                .append(true)
                .open(path)
                .expect("the test's directory is writable")
        };
        let stdout = dir.join(format!("{name}.out"));
        let stderr = dir.join(format!("{name}.err"));
        let text = display(command);
        command.stdout(file(&stdout)).stderr(file(&stderr));
        Process { command: text, child: spawn(command), stdout, stderr }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status if it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of this process can be waited for")
    }

    /// What it wrote so far, both outputs.
    pub fn text(&self) -> String {
        let read =
            |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        format!("$ {}\n--- stdout\n{}\n--- stderr\n{}", self.command, read(&self.stdout), read(&self.stderr))
    }

    /// What it wrote so far on standard output.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.stdout).unwrap_or_default()).into_owned()
    }

    /// Sends a signal to this very process (which, not being reaped, still owns its id).
    pub fn signal(&mut self, signal: Signal) {
        if self.exited().is_none() {
            let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("process ids fit an i32"));
            kill(pid, signal).expect("a child of this process can be signalled");
        }
    }

    /// Waits for the end of a process that is about to end by itself.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "still running:\n{}", self.text());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks it to end (SIGTERM), insists after five seconds (SIGKILL), waits for it.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        let start = Instant::now();
        let mut insisted = false;
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            if !insisted && start.elapsed() > Duration::from_secs(5) {
                insisted = true;
                self.signal(Signal::SIGKILL);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills it (SIGKILL) as a crash would, and waits for it.
    #[track_caller]
    pub fn crash(&mut self) {
        self.signal(Signal::SIGKILL);
        let status = self.wait();
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32), "it had ended before:\n{}", self.text());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Repeats `probe` until it gives a value; fails the test with `what` after a long time.
#[track_caller]
pub fn eventually<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    wait_until(PATIENCE, probe).unwrap_or_else(|| panic!("waited {PATIENCE:?} in vain: {what}"))
}

/// Repeats `probe`, in growing intervals up to 50 ms, until it gives a value or `limit` has passed.
pub fn wait_until<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(value) = probe() {
            return Some(value);
        }
        if start.elapsed() > limit {
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// The user running the tests: what `-U` of pmcd's agents gets, so that they need not change identity.
pub fn user() -> String {
    let uid = Uid::effective();
    User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// A directory of the test's own; open to other users for reading, as agents may run as another user.
/// Its path is short: socket paths are limited to about a hundred bytes.
pub fn temp_dir() -> TempDir {
    let dir = tempfile::Builder::new().prefix("jumpseat-").tempdir_in("/tmp").expect("/tmp is writable");
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("our own directory");
    dir
}

/// Whether any process listens on the TCP port, found without connecting: the agent would take a connection for
/// pmcd's.
pub fn is_listening(port: u16) -> bool {
    let local = format!(":{port:04X} ");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|path| {
        let table = std::fs::read_to_string(path).unwrap_or_default();
        // "sl: local_address rem_address state": 0A is LISTEN
        table.lines().any(|line| line.contains(&local) && line.split_whitespace().nth(3) == Some("0A"))
    })
}

//! libpcp, in a program of its own: compiled when needed, asked batch by batch.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use pcp_derive::Scope;

use super::generate::Batch;
use super::world::{hex, name_space};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/c/derive_oracle.c");

/// The program and what it needs.
pub(super) struct Program {
    prefix: Vec<String>,
    program: PathBuf,
    agent: PathBuf,
    names: PathBuf,
}

impl Program {
    /// Compiles the program, for another PCP than the installed one with a command that runs commands
    /// where that is (and sees this directory).
    pub(super) fn compile(prefix: &str) -> Program {
        static COMPILING: Mutex<()> = Mutex::new(());
        let _turn = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let file = |name: &str| directory.join(format!("derive-oracle-{}{name}", std::process::id()));
        let (program, agent, names) = (file(""), file(".so"), file(".pmns"));
        std::fs::write(&names, name_space()).expect("the target directory is writable");
        let prefix: Vec<String> = prefix.split_whitespace().map(str::to_owned).collect();
        let this = Program { prefix, program, agent, names };
        let (program, agent) = (path(&this.program), path(&this.agent));
        this.cc(&["-O1", "-Wall", "-rdynamic", "-o", program, SOURCE, "-lpcp"]);
        this.cc(&["-shared", "-fPIC", "-DAGENT", "-o", agent, SOURCE]);
        this
    }

    fn command(&self, program: &str) -> Command {
        let mut words = self.prefix.iter().map(String::as_str).chain([program]);
        let mut command = Command::new(words.next().expect("the program is there at least"));
        command.args(words);
        command
    }

    fn cc(&self, arguments: &[&str]) {
        let output = self.command("cc").args(arguments).output();
        let why = match output {
            Ok(output) if output.status.success() => return,
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        panic!(
            "cannot compile {SOURCE}: {why}\nThis needs a C compiler and PCP's libraries with their headers \
             (Debian: gcc libpcp3-dev libpcp-pmda3-dev). Run ./test, which installs them."
        );
    }

    /// Starts it, once for each of [`FILLS`].
    pub(super) fn start(&self) -> Oracles {
        Oracles(FILLS.map(|fill| self.start_one(fill)).into())
    }

    /// Starts it, with memory that is filled with a byte when it is allocated and when it is freed, and behind its end.
    fn start_one(&self, fill: u8) -> Oracle {
        let mut child = self
            .command(path(&self.program))
            .args([path(&self.agent), path(&self.names), &fill.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", self.program.display()));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (stdin, stdout) = (stdin.expect("piped above"), stdout.expect("piped above"));
        let mut oracle =
            Oracle { child, stdin: Some(stdin), stdout: BufReader::new(stdout), ready: String::new() };
        oracle.ready = oracle.line();
        oracle
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        for file in [&self.program, &self.agent, &self.names] {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("cargo's directories are named in UTF-8 where this test runs")
}

/// What memory is filled with: nothing, and numbers of both signs, tiny, ordinary and huge ones.
pub(super) const FILLS: [u8; 6] = [0x55, 0xfe, 0, 0xc0, 0x3f, 0x01];
/// The one of nothing.
pub(super) const ZERO: usize = 2;

/// Running programs that differ in what memory is filled with.
pub(super) struct Oracles(Vec<Oracle>);

impl Oracles {
    /// What all of them say first.
    pub(super) fn ready(&self) -> &str {
        let ready = &self.0[0].ready;
        assert!(self.0.iter().all(|oracle| oracle.ready == *ready), "they are one program");
        ready
    }

    /// The answers of some of them to a batch; or how one of these died.
    pub(super) fn answers(&mut self, script: &str, which: Range<usize>) -> Result<Vec<Vec<String>>, String> {
        let some = &mut self.0[which];
        some.iter_mut().for_each(|oracle| oracle.ask(script));
        // All are read, whatever the first says.
        let answers: Vec<_> = some.iter_mut().map(Oracle::answer).collect();
        answers.into_iter().collect()
    }
}

/// A running program.
struct Oracle {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Its first words: the version.
    ready: String,
}

impl Oracle {
    /// Sends a batch; the answer is to be read before the next one is sent.
    fn ask(&mut self, batch: &str) {
        let stdin = self.stdin.as_mut().expect("taken only when dropped");
        stdin.write_all(batch.as_bytes()).and_then(|()| stdin.flush()).expect("the oracle reads");
    }

    /// The answer: its lines, or how libpcp died.
    fn answer(&mut self) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        let mut crash = None;
        loop {
            let line = self.line();
            match line.strip_prefix("crash ") {
                _ if line == "end" => return crash.map_or(Ok(lines), Err),
                Some(how) => crash = Some(how.to_owned()),
                None => lines.push(line),
            }
        }
    }

    fn line(&mut self) -> String {
        let mut bytes = Vec::new();
        let n = self.stdout.read_until(b'\n', &mut bytes).expect("the oracle's output is readable");
        let line = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
        assert!(n > 0 && !line.starts_with("oracle:"), "the oracle failed: {line}");
        line
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // The program ends at the end of its input; waiting leaves no zombie behind.
        self.stdin = None;
        let ended = self.child.wait();
        let well = ended.as_ref().is_ok_and(std::process::ExitStatus::success);
        assert!(well || std::thread::panicking(), "the oracle ended with {ended:?}");
    }
}

/// A batch in the oracle's words.
pub(super) fn script(batch: &Batch) -> String {
    let mut text = String::new();
    batch.world.write(&mut text);
    for definition in &batch.definitions {
        let scope = if definition.scope == Scope::Global { 'g' } else { 'c' };
        // Writing to a String does not fail.
        let _ = writeln!(text, "def {scope} {} x{}", definition.name, hex(definition.expression.as_bytes()));
    }
    for fetch in &batch.fetches {
        let _ = write!(text, "fetch {}", fetch.sample);
        for n in &fetch.list {
            let _ = write!(text, " {n}");
        }
        text.push('\n');
    }
    text.push_str("run\n");
    text
}

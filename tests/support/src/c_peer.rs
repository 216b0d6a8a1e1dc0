//! C programs linked with PCP's own libraries, used as oracle by tests and as opponent by benches: they
//! are compiled when needed and answer each line on their standard input with one line.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::process::{repository, scratch_dir};

/// A running C program.
pub struct CPeer {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl CPeer {
    /// Compiles `source` (a path below the repository's root) unless that has been done, and starts it.
    ///
    /// # Panics
    /// If PCP's development files or a C compiler are missing: the test or bench cannot do its work.
    pub fn start(source: &str) -> CPeer {
        CPeer::run(source, &mut Command::new(compile(source)))
    }

    /// The same for a source that takes other libraries than PCP's, such as `-lpcre2-8`.
    ///
    /// # Errors
    /// What the compiler says, if it does not compile: they may not be there.
    pub fn start_with(source: &str, libraries: &[&str]) -> Result<CPeer, String> {
        Ok(CPeer::run(source, &mut Command::new(try_compile(source, &[], libraries)?)))
    }

    /// Starts a program that has been compiled elsewhere, say against another version of PCP.
    ///
    /// # Panics
    /// If it cannot be run.
    pub fn run(name: &str, command: &mut Command) -> CPeer {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {name}: {error}"));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stdout = BufReader::new(stdout.expect("stdout is piped above"));
        CPeer { name: name.to_owned(), child, stdin, stdout }
    }

    /// The same as [`CPeer::start`] against the PCP that commands run by `prefix` meet, as those of a container do; it
    /// sees this repository and its target directory under the same paths. Without words, the installed one.
    ///
    /// # Panics
    /// As [`CPeer::start`].
    pub fn start_behind(prefix: &str, source: &str) -> CPeer {
        let prefix: Vec<&str> = prefix.split_whitespace().collect();
        let Some((program, arguments)) = prefix.split_first() else { return CPeer::start(source) };
        let mut command = Command::new(program);
        command.args(arguments).arg(compile_behind(&prefix, source));
        CPeer::run(source, &mut command)
    }

    /// Sends a line and returns the line that answers it.
    pub fn ask(&mut self, line: &str) -> String {
        let stdin = self.stdin.as_mut().expect("taken only when dropped");
        let mut answer = String::new();
        let done = stdin
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| stdin.flush())
            .and_then(|()| self.stdout.read_line(&mut answer));
        match done {
            Ok(n) if n > 0 && !answer.starts_with("oracle:") => answer.trim_end().to_owned(),
            _ => panic!("{} failed at {line:.200}: {answer:?} {done:?}", self.name),
        }
    }
}

impl Drop for CPeer {
    fn drop(&mut self) {
        // The program ends at the end of its input; waiting leaves no zombie behind.
        self.stdin = None;
        let ended = self.child.wait();
        let well = ended.as_ref().is_ok_and(std::process::ExitStatus::success);
        assert!(well || std::thread::panicking(), "{} ended with {ended:?}", self.name);
    }
}

/// Compiles a C source as a library to preload, unless that has been done, and returns its path.
///
/// # Panics
/// If a C compiler is missing.
pub fn preload(source: &str) -> PathBuf {
    compile_with(source, &["-shared", "-fPIC"], &["-ldl"])
}

/// Compiles a C source against libpcp and libpcp_pmda and returns the program.
fn compile(source: &str) -> PathBuf {
    compile_with(source, &[], &["-lpcp_pmda", "-lpcp"])
}

/// Once for each process: which PCP it is may change from run to run.
fn compile_behind(prefix: &[&str], source: &str) -> PathBuf {
    static COMPILED: Mutex<Vec<(String, PathBuf)>> = Mutex::new(Vec::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, program)) = compiled.iter().find(|(name, _)| name == source) {
        return program.clone();
    }
    let path = repository().join(source);
    let stem = path.file_stem().expect("a source has a name").to_string_lossy();
    let program = scratch_dir().join(format!("c-{stem}-behind-{}", std::process::id()));
    let output = Command::new(prefix[0])
        .args(&prefix[1..])
        .args(["cc", "-O2", "-Wall", "-o"])
        .args([&program, &path])
        .args(["-lpcp_pmda", "-lpcp"])
        .output()
        .unwrap_or_else(|error| panic!("cannot run {prefix:?}: {error}"));
    assert!(output.status.success(), "{prefix:?}: {}", String::from_utf8_lossy(&output.stderr));
    compiled.push((source.to_owned(), program.clone()));
    program
}

fn compile_with(source: &str, options: &[&str], libraries: &[&str]) -> PathBuf {
    try_compile(source, options, libraries).unwrap_or_else(|why| {
        panic!(
            "cannot compile {source}:\n{why}\nThis needs a C compiler and PCP's libraries with their headers \
             (Debian: gcc libpcp3-dev libpcp-pmda3-dev). Run ./test, which installs them."
        )
    })
}

fn try_compile(source: &str, options: &[&str], libraries: &[&str]) -> Result<PathBuf, String> {
    let source = repository().join(source);
    let stem = source.file_stem().expect("a source has a name").to_string_lossy();
    let program = scratch_dir().join(format!("c-{stem}"));
    // Threads of a process take turns; each process builds a file of its own and moves it into place.
    static COMPILING: Mutex<()> = Mutex::new(());
    let _turn = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    let modified = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    if modified(&program).is_some_and(|built| modified(&source).is_some_and(|written| written < built)) {
        return Ok(program);
    }
    let fresh = program.with_extension(std::process::id().to_string());
    let output = Command::new("cc")
        .args(["-O2", "-Wall"])
        .args(options)
        .arg("-o")
        .args([&fresh, &source])
        .args(libraries)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            std::fs::rename(&fresh, &program).expect("both are in the same directory");
            Ok(program)
        }
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("cc: {error}")),
    }
}

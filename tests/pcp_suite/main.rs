//! PCP's own test suite (the package pcp-testsuite), with `jumpseat` in the place of the five tools that it stands in for: links under
//! their names, before PCP's in PATH. Each of its tests is a test here, in a machine of its own (`inside.sh`).
//!
//! What runs is said by lists beside this file, of which `run` makes and explains the first:
//! `candidates` (the suite's tests that call one of the tools and pass with PCP's own), `sample` (those that run every time; all others
//! are ignored tests: `tests/pcp_suite/run`), and `expected-failures`, each with its reason; a fourth, `untraced`, says which are run
//! without debug options. **Invariant**: a test passes, or is on the list of failures and its output differs; one that begins to pass has
//! to leave it, and what hangs, panics, crashes or did not run at all is never excused.
//!
//! Needs root, or sudo without a password, for the namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

/// The lists are of this version of the suite.
const SUITE_VERSION: &str = "6.0.3";
/// How many tests are on which list: what becomes shorter or longer is said here, too.
const LENGTHS: [(&str, usize); 4] =
    [("candidates", 345), ("sample", 120), ("expected-failures", 16), ("untraced", 30)];

/// What `inside.sh` says of a test whose output is not what is expected.
const DIFFERS: i32 = 10;
/// Of one that PCP's suite itself does not run here.
const NOT_RUN: i32 = 77;
/// Of one that came to no end, or in which a program panicked or crashed.
const BROKEN: i32 = 98;
/// Where there is no machine to run it in, or PCP's own tools fail.
const NO_MACHINE: i32 = 99;

fn main() {
    let arguments = Arguments::from_args();
    let lists = Lists::read();
    let in_order = {
        let lists = lists.clone();
        move || lists.check()
    };
    let mut trials = vec![
        Trial::test("the_lists_are_in_order", in_order),
        Trial::test("only_other_output_is_excused", only_other_output_is_excused),
    ];
    for test in &lists.candidates {
        let name = test.clone();
        let reason = lists.expected_failures.get(test).cloned();
        let untraced = lists.untraced.contains(test);
        let trial = Trial::test(test.clone(), move || run(&name, reason.as_deref(), untraced));
        trials.push(trial.with_ignored_flag(!lists.sample.contains(test)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// A test passes, or fails as expected.
fn run(test: &str, reason: Option<&str>, untraced: bool) -> Result<(), Failed> {
    check_version()?;
    let layer = prepared()?;
    let program = Path::new(env!("CARGO_BIN_EXE_jumpseat"));
    let mut command = inside();
    command.arg("run").arg(layer).arg(test).arg(program);
    if untraced {
        command.arg("untraced");
    }
    let output = command.output()?;
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    match (output.status.code(), reason) {
        (Some(0), None) => Ok(()),
        (Some(0), Some(reason)) => {
            Err(format!("passes now: take it off the list of expected failures ({reason})").into())
        }
        (Some(DIFFERS), Some(_)) => Ok(()),
        (Some(DIFFERS), None) => Err(format!("< what PCP's suite expects, > what there was\n{said}").into()),
        (Some(BROKEN), _) => Err(format!("hangs, panics or crashes: {said}").into()),
        (Some(NOT_RUN), _) => Err(format!("not run by the suite: {said}").into()),
        (status, _) => Err(format!("could not run ({status:?}): {said}").into()),
    }
}

/// Programs in the place of the tools that do what is never excused, and one that prints something else.
fn only_other_output_is_excused() -> Result<(), Failed> {
    /// One that takes few seconds, and is expected to fail.
    const TEST: &str = "607";
    check_version()?;
    let layer = prepared()?;
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pcp_suite");
    let no_layer = dir.join("no-layer.tar");
    fs::write(&no_layer, "no archive")?;
    let programs = [
        ("other", "echo other", &layer, DIFFERS),
        ("panic", "echo \"thread 'main' panicked at it:\" >&2; exit 101", &layer, BROKEN),
        ("crash", "kill -SEGV $$", &layer, BROKEN),
        ("nowhere", "echo other", &no_layer, NO_MACHINE),
    ];
    for (name, line, layer, wanted) in programs {
        let program = dir.join(name);
        fs::write(&program, format!("#!/bin/sh\n{line}\n"))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let output = inside().arg("run").arg(layer).arg(TEST).arg(&program).output()?;
        if output.status.code() != Some(wanted) {
            let (status, said) = (output.status, String::from_utf8_lossy(&output.stdout));
            return Err(format!("{name}: {status}, not {wanted}: {said}").into());
        }
    }
    Ok(())
}

fn check_version() -> Result<(), Failed> {
    let conf = fs::read_to_string("/etc/pcp.conf")
        .map_err(|error| format!("PCP is needed: /etc/pcp.conf: {error}"))?;
    let version = conf.lines().find_map(|line| line.strip_prefix("PCP_VERSION=")).unwrap_or("unknown");
    if version != SUITE_VERSION {
        return Err(format!("the lists are of the suite of {SUITE_VERSION}; {version} is installed").into());
    }
    Ok(())
}

/// The layer that all tests begin with; made once, by whoever comes first.
fn prepared() -> Result<PathBuf, Failed> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pcp_suite");
    fs::create_dir_all(&dir)?;
    let lock = File::create(dir.join("lock"))?;
    lock.lock()?;
    let mut hasher = DefaultHasher::new();
    fs::read(script())?.hash(&mut hasher);
    fs::metadata("/var/lib/pcp/testsuite/group")?.modified()?.hash(&mut hasher);
    let layer = dir.join(format!("{:016x}.tar", hasher.finish()));
    if !layer.exists() {
        let unfinished = dir.join("unfinished.tar");
        let output = inside()
            .arg("prepare")
            .stdout(File::create(&unfinished)?)
            .stderr(Stdio::piped())
            .spawn()?
            .wait_with_output()?;
        if !output.status.success() {
            return Err(format!("no layer: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        fs::rename(&unfinished, &layer)?;
    }
    Ok(layer)
}

/// The script, as root.
fn inside() -> Command {
    let mut command = if nix::unistd::geteuid().is_root() {
        Command::new(script())
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg("-n").arg(script());
        sudo
    };
    command.stdin(Stdio::null());
    command
}

fn script() -> PathBuf {
    beside("inside.sh")
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pcp_suite").join(name)
}

#[derive(Clone)]
struct Lists {
    candidates: Vec<String>,
    sample: BTreeSet<String>,
    untraced: BTreeSet<String>,
    /// The reason of each.
    expected_failures: BTreeMap<String, String>,
}

impl Lists {
    fn read() -> Lists {
        let entries =
            lines("expected-failures").into_iter().map(|line| match line.split_once(char::is_whitespace) {
                Some((test, reason)) => (test.to_owned(), reason.trim().to_owned()),
                None => (line, String::new()),
            });
        Lists {
            candidates: lines("candidates"),
            sample: lines("sample").into_iter().collect(),
            untraced: lines("untraced").into_iter().collect(),
            expected_failures: entries.collect(),
        }
    }

    fn check(&self) -> Result<(), Failed> {
        let candidates: BTreeSet<&String> = self.candidates.iter().collect();
        let mut wrong = Vec::new();
        if candidates.len() != self.candidates.len() {
            wrong.push("a candidate is there twice".to_owned());
        }
        for (list, length) in LENGTHS {
            let found = lines(list).len();
            if found != length {
                wrong.push(format!("{list} has {found} tests, not {length}"));
            }
        }
        let listed = self.sample.iter().chain(&self.untraced).chain(self.expected_failures.keys());
        wrong.extend(
            listed.filter(|test| !candidates.contains(test)).map(|test| format!("{test} is no candidate")),
        );
        let unexplained = self.expected_failures.iter().filter(|(_, reason)| reason.is_empty());
        wrong.extend(unexplained.map(|(test, _)| format!("{test} has no reason")));
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
    }
}

/// The lines of a list that are no comments.
fn lines(name: &str) -> Vec<String> {
    let path = beside(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

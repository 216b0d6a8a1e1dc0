//! `jumpseat check` next to pmlogcheck: processor time of the programs, from their start to their end.
//!
//! What they find is compared first: of a sound archive nothing, of those of PCP's test suite as many counters that went back.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::clock::{children_cpu, thread_cpu};
use crate::common::{Figure, Goal, Row, Times, race, rounds};
use crate::tools::seat::JUMPSEAT;

/// Of pmlogcheck's time, at most.
const GOAL: f64 = 10.0;
const SUITE: &str = "/var/lib/pcp/testsuite/archives";
/// Those whose oldest 64-bit values pmlogcheck reads the wrong way round ([the differences](docs/differences.md)).
const UNTYPED: [&str; 3] = ["960624.08.17_v2", "babylon.pmview_v2", "bozo.client_v2"];

pub(crate) fn run(large: &str) {
    row("check of 1 GB", &[large.to_owned()], 10);
    let archives = suite();
    row(&format!("check of {} archives of PCP's test suite", archives.len()), &archives, 3);
}

/// The names of the archives.
fn suite() -> Vec<String> {
    let entries =
        fs::read_dir(SUITE).unwrap_or_else(|error| panic!("{SUITE}: {error}; install pcp-testsuite"));
    let files =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("a usual name"));
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.strip_suffix(".meta")?.to_owned()))
        .filter(|name| !UNTYPED.contains(&name.as_str()))
        .collect();
    names.sort();
    names.iter().map(|name| Path::new(SUITE).join(name).to_str().expect("a usual name").to_owned()).collect()
}

/// All archives: at once by ours, one after the other by pmlogcheck, which takes one.
fn row(what: &str, archives: &[String], count: usize) {
    let ours = || output(Command::new(JUMPSEAT).args(["check", "--json"]).args(archives));
    let theirs =
        || archives.iter().map(|name| output(Command::new("pmlogcheck").arg(name))).collect::<Vec<_>>();
    let reports = ours().0;
    let found: Vec<u64> = reports.lines().map(wraps).collect();
    let lines = |text: &str| text.lines().filter(|line| line.ends_with(" wrap")).count() as u64;
    let told: Vec<u64> = theirs().iter().map(|(text, _)| lines(text)).collect();
    assert_eq!(found, told, "counters that went back in {archives:?}");
    // Names of archives can begin with those of others.
    let files: BTreeSet<PathBuf> = archives.iter().flat_map(|name| parts(Path::new(name))).collect();
    let files: Vec<PathBuf> = files.into_iter().collect();
    let took = race(
        rounds(count),
        [&mut || ours().1, &mut || theirs().iter().map(|(_, took)| *took).sum(), &mut || unpacked(&files)],
    );
    let ms = |times: &Times| Figure::time(times, 1.0, 1e-3, "ms of CPU");
    let [ours, theirs, floor] = &took;
    Row::new(what, ms(ours)).peer("pmlogcheck", ms(theirs)).goal(Goal::Ratio(GOAL)).headline().print();
    Row::new(what, ms(ours))
        .peer("reading their bytes, with xz and the like for those that are packed", ms(floor))
        .print();
}

/// The files of an archive.
fn parts(name: &Path) -> Vec<PathBuf> {
    let start = name.file_name().and_then(|name| name.to_str()).expect("a usual name").to_owned() + ".";
    let entries = fs::read_dir(name.parent().expect("in a directory")).expect("readable").flatten();
    entries.map(|entry| entry.path()).filter(|path| is_part(path, &start)).collect()
}

fn is_part(path: &Path, start: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(start))
}

/// Processor time of reading the files, and of the programs that unpack them.
fn unpacked(files: &[PathBuf]) -> Duration {
    let (own, children) = (thread_cpu(), children_cpu());
    let mut piece = vec![0; 256 << 10];
    for (program, suffixes) in [("xz", ["xz", "lzma"]), ("bzip2", ["bz2", "bz"]), ("gzip", ["gz", "Z"])] {
        let is_packed = |path: &&PathBuf| {
            path.extension()
                .and_then(|suffix| suffix.to_str())
                .is_some_and(|suffix| suffixes.contains(&suffix))
        };
        let packed: Vec<&PathBuf> = files.iter().filter(is_packed).collect();
        if packed.is_empty() {
            continue;
        }
        let mut child = Command::new(program).arg("-dc").args(packed).stdout(Stdio::piped()).spawn();
        let child = child.as_mut().expect("it is installed");
        let mut out = child.stdout.take().expect("it is piped");
        while out.read(&mut piece).expect("a pipe") > 0 {}
        assert!(child.wait().expect("it ends").success());
    }
    for path in files {
        let mut file = fs::File::open(path).expect("readable");
        while file.read(&mut piece).expect("readable") > 0 {}
    }
    thread_cpu() - own + children_cpu() - children
}

/// How many values of counters were less than the one before, by a report.
fn wraps(report: &str) -> u64 {
    let report: Value = serde_json::from_str(report).expect("an object a line");
    let findings = report["findings"].as_array().expect("findings").iter();
    findings.filter(|finding| finding["kind"] == "wrap").filter_map(|finding| finding["count"].as_u64()).sum()
}

/// What a program says, and its processor time.
fn output(command: &mut Command) -> (String, Duration) {
    let before = children_cpu();
    let output = command.output().expect("it is installed");
    let took = children_cpu() - before;
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), took)
}

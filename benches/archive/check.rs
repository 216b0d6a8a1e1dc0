//! `jumpseat check` next to pmlogcheck: processor time of the programs, from their start to their end.
//!
//! What they find is compared first: of a sound archive nothing, of those of PCP's test suite as many counters that went back.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::common::clock::children_cpu;
use crate::common::{Figure, Goal, Row, Times, race, rounds};
use crate::suite;
use crate::tools::seat::JUMPSEAT;

/// Of pmlogcheck's time, at most.
const GOAL: f64 = 10.0;
/// Those whose oldest 64-bit values pmlogcheck reads the wrong way round ([the differences](docs/differences.md)).
const UNTYPED: [&str; 3] = ["960624.08.17_v2", "babylon.pmview_v2", "bozo.client_v2"];

pub(crate) fn run(large: &str) {
    row("check of 1 GB", &[large.to_owned()], 10);
    let archives = suite::archives_without(&UNTYPED);
    row(&format!("check of {} archives of PCP's test suite", archives.len()), &archives, 3);
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
    let files = suite::files(archives);
    let took = race(
        rounds(count),
        [&mut || ours().1, &mut || theirs().iter().map(|(_, took)| *took).sum(), &mut || {
            suite::unpacked(&files)
        }],
    );
    let ms = |times: &Times| Figure::time(times, 1.0, 1e-3, "ms of CPU");
    let [ours, theirs, floor] = &took;
    Row::new(what, ms(ours)).peer("pmlogcheck", ms(theirs)).goal(Goal::Ratio(GOAL)).headline().print();
    Row::new(what, ms(ours)).peer(suite::UNPACKED, ms(floor)).print();
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

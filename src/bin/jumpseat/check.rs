//! `jumpseat check`: all that is wrong with archives, and what is whole of one written anew.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use jumpseat::archive::{self, Checked, Finding, Grade, Kind, LeftOut, Repaired};
use jumpseat_tools::complain;
use serde_json::{Value, json};

use crate::say::sayln;

#[derive(Args)]
#[command(
    after_help = "Exit status: 0 if no archive has an error, with --repair if it was written; 1 if one has; \
    2 if one cannot be looked at, or not at all of its files, or nothing was written."
)]
pub(crate) struct CheckArgs {
    /// Archives, by their names or those of files of them.
    #[arg(value_name = "ARCHIVE", required = true)]
    archives: Vec<PathBuf>,
    /// Write what is whole of the archive to one of this name, which must not be there yet.
    #[arg(long, value_name = "OUT")]
    repair: Option<PathBuf>,
    /// Tell nothing of counters that went back.
    #[arg(short = 'w', long)]
    nowrap: bool,
    /// One JSON object for each archive.
    #[arg(long)]
    json: bool,
}

/// Everything is as it should be, or was written.
const GOOD: u8 = 0;
/// An archive has an error.
const DAMAGED: u8 = 1;
/// An archive cannot be looked at, or not at all of its files, or nothing was written.
const FAILED: u8 = 2;

pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    if let Some(out) = &args.repair {
        let [name] = args.archives.as_slice() else {
            complain!("jumpseat check: --repair takes one archive");
            return ExitCode::from(FAILED);
        };
        return ExitCode::from(repair(args, name, out));
    }
    let worst = args.archives.iter().map(|name| check(args, name)).max();
    ExitCode::from(worst.unwrap_or(GOOD))
}

fn check(args: &CheckArgs, name: &Path) -> u8 {
    match archive::check(name) {
        Ok(checked) => {
            let told = findings(args, &checked);
            if args.json {
                sayln!("{}", report(name, &checked, &told));
            } else {
                tell(&told);
                summary(args, name, &checked);
            }
            match checked.worst() {
                _ if checked.count(Kind::Unreadable) > 0 => FAILED,
                Some(Grade::Error) => DAMAGED,
                _ => GOOD,
            }
        }
        Err(error) => {
            complain!("jumpseat check: {error}");
            FAILED
        }
    }
}

fn repair(args: &CheckArgs, name: &Path, out: &Path) -> u8 {
    let mut progress = Progress::new();
    let repaired = archive::repair(name, out, &mut |bytes| progress.show(bytes));
    progress.end();
    match repaired {
        Ok(repaired) => {
            let told = findings(args, &repaired.checked);
            if args.json {
                let mut report = report(name, &repaired.checked, &told);
                report["repaired"] = written(out, &repaired);
                sayln!("{report}");
                return GOOD;
            }
            tell(&told);
            summary(args, name, &repaired.checked);
            let Repaired { records, marks, metadata, .. } = repaired;
            sayln!(
                "{}: {records} records, {metadata} of metadata, {marks} marks where some were lost",
                out.display()
            );
            for LeftOut { loss, count, .. } in &repaired.left_out {
                sayln!("  left out: {count} {}", loss.what());
            }
            GOOD
        }
        Err(error) => {
            complain!("jumpseat check: {error}");
            FAILED
        }
    }
}

fn findings<'a>(args: &CheckArgs, checked: &'a Checked) -> Vec<&'a Finding> {
    checked.findings.iter().filter(|finding| !args.nowrap || finding.kind != Kind::Wrap).collect()
}

fn tell(findings: &[&Finding]) {
    for Finding { kind, file, at, count, message, .. } in findings {
        let place = at.map_or_else(String::new, |at| format!(" at byte {at}"));
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        sayln!("{}{place}: {}: {message}{times}", file.display(), kind.grade().word());
    }
}

fn summary(args: &CheckArgs, name: &Path, checked: &Checked) {
    let counts = || checked.counts.iter().filter(|(kind, _)| !args.nowrap || **kind != Kind::Wrap);
    let of = |grade| counts().filter(|(kind, _)| kind.grade() == grade).map(|(_, count)| count).sum::<u64>();
    let (errors, warnings, notes) = (of(Grade::Error), of(Grade::Warning), of(Grade::Note));
    let more = if checked.more() > 0 { format!(", {} not told", checked.more()) } else { String::new() };
    let Checked { records, metadata, .. } = checked;
    let name = name.display();
    sayln!(
        "{name}: {records} records, {metadata} of metadata: {errors} errors, {warnings} warnings, {notes} notes{more}"
    );
}

fn report(name: &Path, checked: &Checked, findings: &[&Finding]) -> Value {
    let one = |finding: &&Finding| {
        json!({"grade": finding.kind.grade().word(), "kind": finding.kind.word(), "file": finding.file, "at": finding.at,
            "count": finding.count, "message": finding.message})
    };
    let counts: serde_json::Map<String, Value> =
        checked.counts.iter().map(|(kind, count)| (kind.word().to_owned(), json!(count))).collect();
    json!({"archive": name, "records": checked.records, "marks": checked.marks, "metadata": checked.metadata,
        "findings": findings.iter().map(one).collect::<Vec<Value>>(), "counts": counts, "more": checked.more()})
}

fn written(out: &Path, repaired: &Repaired) -> Value {
    let left = repaired
        .left_out
        .iter()
        .map(|LeftOut { loss, count, .. }| json!({"kind": loss.word(), "what": loss.what(), "count": count}));
    json!({"archive": out, "records": repaired.records, "marks": repaired.marks, "metadata": repaired.metadata,
        "left_out": left.collect::<Vec<Value>>()})
}

/// How far it is, on a terminal.
struct Progress {
    shows: bool,
    next: Instant,
}

impl Progress {
    const EVERY: Duration = Duration::from_millis(500);

    fn new() -> Progress {
        Progress { shows: io::stderr().is_terminal(), next: Instant::now() + Progress::EVERY }
    }

    fn show(&mut self, bytes: u64) {
        if self.shows && Instant::now() >= self.next {
            self.next = Instant::now() + Progress::EVERY;
            let _ = write!(io::stderr(), "\r{} MB", bytes / 1_000_000);
        }
    }

    fn end(&mut self) {
        if self.shows {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

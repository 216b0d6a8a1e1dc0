//! `jumpseat check`: all that is wrong with archives, and what is whole of one written anew.

use std::io::{self, IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use jumpseat_tools::complain;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use pcp_archive::{self as archive, Checked, Finding, Grade, Kind, LeftOut, Repaired};
use serde_json::{Value, json};

use crate::say::sayln;

#[derive(Args)]
#[command(
    after_help = "Exit status: 0 if no archive has an error, with --repair if all that is whole was written; 1 if one \
    has; 2 if one cannot be looked at, or not at all of its files, also with --repair, which then writes what it can read; \
    2 if nothing was written."
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

/// Everything is as it should be, or all that is whole was written.
const GOOD: u8 = 0;
/// An archive has an error.
const DAMAGED: u8 = 1;
/// An archive cannot be looked at, or not at all of its files, of which the rest may have been written; or nothing was.
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
                sayln!("{}", report(args, name, &checked, &told));
            } else {
                tell(&told);
                summary(args, name, &checked, told.len());
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
    let mut progress = match Progress::new() {
        Ok(progress) => progress,
        Err(error) => {
            complain!("jumpseat check: signals: {error}");
            return FAILED;
        }
    };
    let repaired = archive::repair(name, out, &mut |bytes| progress.show(bytes));
    progress.end();
    match repaired {
        Ok(repaired) => {
            let told = findings(args, &repaired.checked);
            // What cannot be read may be whole, and is not in what was written.
            let status = if repaired.checked.count(Kind::Unreadable) > 0 { FAILED } else { GOOD };
            if args.json {
                let mut report = report(args, name, &repaired.checked, &told);
                report["repaired"] = written(out, &repaired);
                sayln!("{report}");
                return status;
            }
            tell(&told);
            summary(args, name, &repaired.checked, told.len());
            let Repaired { records, marks, metadata, left_out, .. } = repaired;
            sayln!(
                "{}: {records} records, {metadata} of metadata, {marks} marks where some were lost",
                out.display()
            );
            for LeftOut { loss, count, .. } in &left_out {
                sayln!("  left out: {count} {}", loss.what());
            }
            status
        }
        Err(error) => {
            complain!("jumpseat check: {error}");
            FAILED
        }
    }
}

fn is_told(args: &CheckArgs, kind: Kind) -> bool {
    !args.nowrap || kind != Kind::Wrap
}

fn findings<'a>(args: &CheckArgs, checked: &'a Checked) -> Vec<&'a Finding> {
    checked.findings.iter().filter(|finding| is_told(args, finding.kind)).collect()
}

/// How many there are of each kind that is told.
fn counts(args: &CheckArgs, checked: &Checked) -> Vec<(Kind, u64)> {
    let counts = checked.counts.iter().map(|(kind, count)| (*kind, *count));
    counts.filter(|(kind, _)| is_told(args, *kind)).collect()
}

/// How many there are besides those that are told one by one.
fn more(counts: &[(Kind, u64)], told: usize) -> u64 {
    counts.iter().map(|(_, count)| count).sum::<u64>().saturating_sub(told as u64)
}

fn tell(findings: &[&Finding]) {
    for Finding { kind, file, at, count, message, .. } in findings {
        let place = at.map_or_else(String::new, |at| format!(" at byte {at}"));
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        sayln!("{}{place}: {}: {message}{times}", file.display(), kind.grade().word());
    }
}

fn summary(args: &CheckArgs, name: &Path, checked: &Checked, told: usize) {
    let counts = counts(args, checked);
    let of =
        |grade| counts.iter().filter(|(kind, _)| kind.grade() == grade).map(|(_, count)| count).sum::<u64>();
    let (errors, warnings, notes) = (of(Grade::Error), of(Grade::Warning), of(Grade::Note));
    let more = match more(&counts, told) {
        0 => String::new(),
        more => format!(", {more} not told"),
    };
    let Checked { records, metadata, .. } = checked;
    let name = name.display();
    sayln!(
        "{name}: {records} records, {metadata} of metadata: {errors} errors, {warnings} warnings, {notes} notes{more}"
    );
}

fn report(args: &CheckArgs, name: &Path, checked: &Checked, findings: &[&Finding]) -> Value {
    let one = |finding: &&Finding| {
        json!({"grade": finding.kind.grade().word(), "kind": finding.kind.word(), "file": finding.file.to_string_lossy(), "at": finding.at,
            "count": finding.count, "message": finding.message})
    };
    let counts = counts(args, checked);
    let more = more(&counts, findings.len());
    let counts: serde_json::Map<String, Value> =
        counts.into_iter().map(|(kind, count)| (kind.word().to_owned(), json!(count))).collect();
    json!({"archive": name.to_string_lossy(), "records": checked.records, "marks": checked.marks, "metadata": checked.metadata,
        "findings": findings.iter().map(one).collect::<Vec<Value>>(), "counts": counts, "more": more})
}

fn written(out: &Path, repaired: &Repaired) -> Value {
    let left = repaired
        .left_out
        .iter()
        .map(|LeftOut { loss, count, .. }| json!({"kind": loss.word(), "what": loss.what(), "count": count}));
    json!({"archive": out.to_string_lossy(), "records": repaired.records, "marks": repaired.marks, "metadata": repaired.metadata,
        "left_out": left.collect::<Vec<Value>>()})
}

/// How far it is, on a terminal; and whether a signal has come that ends it, so that nothing is left over.
struct Progress {
    shows: bool,
    next: Instant,
    /// When signals are looked for.
    next_look: Instant,
    signals: SignalFd,
}

impl Progress {
    const EVERY: Duration = Duration::from_millis(500);
    const LOOK_EVERY: Duration = Duration::from_millis(50);

    /// From now on signals that end a command are blocked.
    fn new() -> io::Result<Progress> {
        let mut end = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            end.add(signal);
        }
        end.thread_block()?;
        let signals = SignalFd::with_flags(&end, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let now = Instant::now();
        Ok(Progress {
            shows: io::stderr().is_terminal(),
            next: now + Progress::EVERY,
            next_look: now,
            signals,
        })
    }

    fn show(&mut self, bytes: u64) -> ControlFlow<()> {
        let now = Instant::now();
        if now >= self.next_look {
            self.next_look = now + Progress::LOOK_EVERY;
            if matches!(self.signals.read_signal(), Ok(Some(_))) {
                return ControlFlow::Break(());
            }
        }
        if self.shows && now >= self.next {
            self.next = now + Progress::EVERY;
            let _ = write!(io::stderr(), "\r{} MB", bytes / 1_000_000);
        }
        ControlFlow::Continue(())
    }

    fn end(&mut self) {
        if self.shows {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

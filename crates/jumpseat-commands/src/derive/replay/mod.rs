//! `jumpseat derive replay`: recorded cases through the engine.

mod binding;
mod cases;
mod config;
mod evaluation;
mod parsing;
mod source;

use jumpseat_tools::complain;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs::File, io};

use clap::Args;
use pcp_derive::Level;

use cases::{Outcome, replay};

/// Exit status when cases could not be read.
const UNREADABLE: u8 = 2;

#[derive(Args)]
pub(super) struct ReplayArgs {
    /// The PCP release whose rules count: 6.0.3, 6.3.8 or 7.2.1.
    #[arg(long, default_value = "6.3.8", value_name = "RELEASE")]
    level: Level,

    /// Files of cases, one JSON object a line.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    undefined: u64,
}

pub(super) fn run(args: &ReplayArgs) -> ExitCode {
    let mut counts = Counts::default();
    let mut out = BufWriter::new(io::stdout().lock());
    for file in &args.files {
        if let Err(error) = replay_file(file, args.level, &mut counts, &mut out) {
            // What was printed so far belongs before the error.
            let _ = out.flush();
            complain!("jumpseat: {}: {error}", file.display());
            return ExitCode::from(UNREADABLE);
        }
    }
    let Counts { passed, failed, undefined } = counts;
    let note = match undefined {
        0 => Ok(()),
        n => writeln!(out, "{n} cases without a defined result in this release"),
    };
    if note
        .and_then(|()| writeln!(out, "{passed} passed, {failed} failed"))
        .and_then(|()| out.flush())
        .is_err()
    {
        return ExitCode::from(UNREADABLE);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay_file(path: &Path, level: Level, counts: &mut Counts, out: &mut impl Write) -> io::Result<()> {
    for (number, line) in (1..).zip(BufReader::new(File::open(path)?).lines()) {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let place = |what: &dyn std::fmt::Display| format!("{}:{number}: {what}", path.display());
        match replay(&line, level) {
            Ok(Outcome::Passed) => counts.passed += 1,
            Ok(Outcome::Undefined) => counts.undefined += 1,
            Ok(Outcome::Failed(how)) => {
                counts.failed += 1;
                writeln!(out, "{}", place(&how))?;
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, place(&error))),
        }
    }
    Ok(())
}

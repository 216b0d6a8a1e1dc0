//! What a command line asks for, done.

use std::process::ExitCode;

use jumpseat_tools::{complain, debug_environment};

use crate::args::ExportArgs;
use crate::formats::error::ExportError;
use crate::formats::source::{self, Source};
use crate::formats::text::Output;
use crate::formats::walk::{Format, walk};
use crate::formats::{csv, json, openmetrics, otlp, parquet};

/// Exports what a command line asks for. What goes wrong is said on standard error.
pub fn run(args: &ExportArgs) -> ExitCode {
    debug_environment();
    match done(args) {
        Ok(done) => {
            // All is written, and the program ends: to free what is known of each metric one by one would only take time.
            std::mem::forget(done);
            ExitCode::SUCCESS
        }
        // `| head` is no failure.
        Err(ExportError::Write { path, error })
            if path.as_os_str() == "-" && error.kind() == std::io::ErrorKind::BrokenPipe =>
        {
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain!("{}: {error}", source::NAME);
            ExitCode::FAILURE
        }
    }
}

/// Exports what a command line asks for. How many samples there were.
///
/// # Errors
/// Why not all of it is exported.
pub fn export(args: &ExportArgs) -> Result<u64, ExportError> {
    done(args).map(|(count, ..)| count)
}

/// The same, with what it took.
fn done(args: &ExportArgs) -> Result<(u64, Source, Box<dyn Format>), ExportError> {
    let mut source = Source::open(args)?;
    let mut format = format(args, &mut source)?;
    let count = walk(args, &mut source, &mut *format)?;
    Ok((count, source, format))
}

/// The format that a command line asks for.
fn format(args: &ExportArgs, source: &mut Source) -> Result<Box<dyn Format>, ExportError> {
    if let Some(path) = &args.csv {
        return Ok(Box::new(csv::Csv::new(Output::new(path)?, source)));
    }
    if let Some(path) = &args.json {
        return Ok(Box::new(json::Json::new(Output::new(path)?, source)));
    }
    if let Some(path) = &args.openmetrics {
        let timed = source.is_archive() || args.samples != Some(1);
        return Ok(Box::new(openmetrics::OpenMetrics::new(Output::new(path)?, source, timed)));
    }
    if let Some(target) = &args.parquet {
        return Ok(Box::new(parquet::Lake::new(target, args, source)?));
    }
    if let Some(url) = &args.otlp.otlp {
        return Ok(Box::new(otlp::Otlp::new(&args.otlp, url, source)?));
    }
    Err(ExportError::Usage(
        "say in which format: --csv, --json, --openmetrics, --parquet DIR or --otlp URL".to_owned(),
    ))
}

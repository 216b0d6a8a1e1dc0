//! What `val` and `events` do: one metric's values, sample by sample (`docs/pcp/tools.md` 5 and 6). In PCP the two are one
//! program by two names, and each shows what the metric has, numbers or event records; so they are here.
//!
//! ```text
//! options -> subject (the source, the metric) -> schedule -> run (sample by sample) -> sink: table, records, JSON, trace
//! ```

mod flat;
mod header;
mod json;
mod options;
mod pace;
mod rate;
mod real;
mod record_lines;
mod records;
mod run;
mod schedule;
mod since;
mod sink;
mod spec;
mod style;
mod subject;
mod table;
mod trace;

use std::process::ExitCode;

use crate::tool::{Call, CommandLine, Tool};
use options::SamplingSettings;
pub(crate) use options::{BEYOND, JSON, PMVAL, SAMPLING, SamplingOption};
use subject::Subject;

/// Runs a tool that samples.
pub(crate) fn run(tool: &'static Tool<SamplingOption>, call: Call, words: Vec<String>) -> ExitCode {
    let mut line = CommandLine::new(tool, call, words);
    let wanted = SamplingSettings::read(&mut line);
    let sampled = line.finish().and_then(|ready| run::run(Subject::new(ready, &wanted)?, &wanted));
    sampled.unwrap_or_else(|code| code)
}

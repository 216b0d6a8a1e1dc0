//! `jumpseat val`, which stands in for `pmval(1)`.

use std::process::ExitCode;

use crate::sampling::{self, PMVAL, SAMPLING, SamplingOption};
use crate::tool::{Call, Tool};

/// The command line.
pub(crate) const TOOL: Tool<SamplingOption> = Tool { name: PMVAL, subcommand: "val", ..SAMPLING };

/// Runs the tool.
pub(crate) fn run(call: Call, words: Vec<String>) -> ExitCode {
    sampling::run(&TOOL, call, words)
}

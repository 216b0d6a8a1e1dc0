//! `jumpseat events`, which stands in for `pmevent(1)`.

use std::process::ExitCode;

use crate::sampling::{self, BEYOND, JSON, SAMPLING, SamplingOption};
use crate::tool::{Call, Opt, Row, Standard, Tool};

/// The command line.
pub(crate) const TOOL: Tool<SamplingOption> = Tool {
    name: "pmevent",
    subcommand: "events",
    extra: &[
        BEYOND,
        JSON,
        Row::Own(
            SamplingOption::Perfetto,
            Opt::with(None, "perfetto", "FILE", "write event records as a trace for ui.perfetto.dev"),
        ),
        Row::Own(
            SamplingOption::Since,
            Opt::with(None, "since", "WHEN", "begin with records from a time, an age, a position, or oldest"),
        ),
        Row::Standard(Standard::PcpLevel),
    ],
    ..SAMPLING
};

/// Runs the tool.
pub(crate) fn run(call: Call, words: Vec<String>) -> ExitCode {
    sampling::run(&TOOL, call, words)
}

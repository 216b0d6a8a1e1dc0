//! `jumpseat`: the command line. One file a subcommand.

mod definitions;
mod demo;
mod derive;
mod events;
mod feed;
mod info;
mod later;
mod probe;
mod record;
mod say;
mod serve;
mod store;
mod tool;
mod top;
mod val;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use tool::{Call, Tool};

/// An observer's seat for Performance Co-Pilot: event records from tracing sources, as PCP metrics.
#[derive(Parser)]
#[command(name = "jumpseat", version, about, propagate_version = true, after_help = after_help())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the agent at work on a real workload; needs nothing installed.
    Demo(demo::DemoArgs),

    /// Work with definitions of derived metrics.
    Derive(derive::DeriveArgs),

    /// Send events to a running agent: one JSON object a line, or plain lines.
    Feed(feed::FeedArgs),

    /// Record metrics of a collector into a PCP archive, event records included.
    Record(record::RecordArgs),

    /// Run the agent and answer PCP clients directly, without pmcd.
    Serve(serve::ServeArgs),

    /// Watch metrics, expressions and event records of a collector on the terminal.
    Top(top::TopArgs),
}

/// Runs a tool that stands in for one of PCP's.
type Run = fn(Call, Vec<String>) -> ExitCode;

/// The tools that stand in for PCP's: as subcommands, and by the names of PCP's.
const TOOLS: [(&Tool, Run, &str); 5] = [
    (&val::EVENTS, val::run_events, "Report event records as they come"),
    (&info::TOOL, info::run, "Report all about metrics: names, descriptions, help, labels, values"),
    (&probe::TOOL, probe::run, "Report how many values metrics have, and which"),
    (&store::TOOL, store::run, "Change the value of a metric"),
    (&val::VAL, val::run_val, "Report a metric's values as they come"),
];

fn main() -> ExitCode {
    // They have PCP's way with options, which is not clap's.
    if let Some((run, call, words)) =
        tool_called(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))
    {
        return run(call, words);
    }
    match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Derive(args) => derive::run(&args),
        Command::Feed(args) => feed::run(args),
        Command::Record(args) => record::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Top(args) => top::run(&args),
    }
}

/// The tool that a command line calls, and the words that are for it.
fn tool_called(mut words: impl Iterator<Item = String>) -> Option<(Run, Call, Vec<String>)> {
    let program = words.next()?;
    let program = Path::new(&program).file_name()?.to_str()?;
    if let Some((_, run, _)) = TOOLS.iter().find(|(tool, ..)| tool.name == program) {
        return Some((*run, Call { name: program.to_owned(), pcp: true }, words.collect()));
    }
    let subcommand = words.next()?;
    let (_, run, _) = TOOLS.iter().find(|(tool, ..)| tool.subcommand == subcommand)?;
    Some((*run, Call { name: format!("jumpseat {subcommand}"), pcp: false }, words.collect()))
}

/// What `--help` says about the tools.
fn after_help() -> String {
    let mut text = "In place of PCP's tools, also by their names (symbolic links will do):\n".to_owned();
    for (tool, _, about) in TOOLS {
        text.push_str(&format!("  {:<7} {about} ({})\n", tool.subcommand, tool.name));
    }
    text
}

//! `jumpseat`: the command line. One file or folder a subcommand; `top` and the tools that stand in for PCP's are crates.

mod demo;
mod derive;
mod feed;
mod generate;
mod helper;
mod log;
mod names;
mod passwd;
mod record;
mod say;
mod self_check;
mod serve;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use jumpseat_tools::{TOOLS, definitions};
use jumpseat_top::{self as top, TopArgs};

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

    /// Print manual pages and completions for shells, made from what `--help` knows.
    #[command(hide = true)]
    Generate(generate::GenerateArgs),

    /// Look at the records that an agent keeps on disk: list, show, verify, trim.
    Log(log::LogArgs),

    /// List the names that an agent has given numbers to, or retire those that nobody uses.
    Names(names::NamesArgs),

    /// Write a user's password into a file for `jumpseat serve --passwords`.
    Passwd(passwd::PasswdArgs),

    /// Record metrics of a collector into a PCP archive, event records included.
    Record(record::RecordArgs),

    /// Tell what an agent has given up of its rights, and what this machine allows to.
    SelfCheck(self_check::SelfCheckArgs),

    /// Run the agent and answer PCP clients directly, without pmcd.
    Serve(serve::ServeArgs),

    /// Watch metrics, expressions and event records of a collector on the terminal.
    Top(TopArgs),
}

fn main() -> ExitCode {
    if let Some(code) = helper::run() {
        return code;
    }
    // They have PCP's way with options, which is not clap's.
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    if let Some(run) = jumpseat_tools::called(words) {
        return run();
    }
    match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Derive(args) => derive::run(&args),
        Command::Feed(args) => feed::run(args),
        Command::Generate(args) => generate::run(&args, Cli::command()),
        Command::Log(args) => log::run(&args),
        Command::Names(args) => names::run(&args),
        Command::Passwd(args) => passwd::run(&args),
        Command::Record(args) => record::run(&args),
        Command::SelfCheck(args) => self_check::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Top(args) => top::run(&args),
    }
}

/// What `--help` says about the tools.
fn after_help() -> String {
    let mut text = "In place of PCP's tools, also by their names (symbolic links will do):\n".to_owned();
    for tool in TOOLS {
        text.push_str(&format!("  {:<7} {} ({})\n", tool.subcommand, tool.about, tool.name));
    }
    text
}

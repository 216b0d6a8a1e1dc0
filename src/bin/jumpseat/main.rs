//! `jumpseat`: the command line. One file a subcommand.

mod demo;
mod derive;
mod feed;
mod say;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An observer's seat for Performance Co-Pilot: event records from tracing sources, as PCP metrics.
#[derive(Parser)]
#[command(name = "jumpseat", version, about, propagate_version = true)]
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

    /// Run the agent and answer PCP clients directly, without pmcd.
    Serve(serve::ServeArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Derive(args) => derive::run(&args),
        Command::Feed(args) => feed::run(args),
        Command::Serve(args) => serve::run(&args),
    }
}

//! `jumpseat derive`: derived metrics without a collector.

mod replay;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Check and replay definitions of derived metrics.
#[derive(Args)]
pub struct DeriveArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replay recorded cases of what a real PCP did, and print those that come out differently.
    Replay(replay::ReplayArgs),
}

/// Runs the subcommand.
pub fn run(args: &DeriveArgs) -> ExitCode {
    match &args.command {
        Command::Replay(args) => replay::run(args),
    }
}

//! `jumpseat derive`: derived metrics without a collector.

mod check;
mod explain;
mod metadata;
mod replay;

use jumpseat_tools::{complain, debug_environment};
use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Exit status when files or collectors cannot be read.
const FAILED: u8 = 2;

/// Check, explain and replay definitions of derived metrics.
#[derive(Args)]
pub(crate) struct DeriveArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check definition files, and with --host, --agent or --metrics what they mean; exit 1 if anything is wrong.
    Check(check::CheckArgs),

    /// Show how a definition is understood: type, semantics, units and scale factors of every part.
    Explain(explain::ExplainArgs),

    /// Replay recorded cases of what a real PCP did, and print those that come out differently.
    Replay(replay::ReplayArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: &DeriveArgs) -> ExitCode {
    debug_environment();
    let result = match &args.command {
        Command::Check(args) => check::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Replay(args) => return replay::run(args),
    };
    result.unwrap_or_else(|error| {
        complain!("jumpseat: {error}");
        ExitCode::from(FAILED)
    })
}

//! Being one of the agent's other processes, which both programs may be started as: the helper that opens the kernel's files,
//! the keeper of listeners.

use std::process::ExitCode;

use jumpseat_agent::handover;
use jumpseat_source::tracefs;
use pcp_pmda::log::Log;

/// Is one of them to its end, if the command line says so.
pub fn run() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    if first == handover::KEEPER_ARGUMENT {
        // It outlives the agent, and has nobody to tell anything.
        return Some(handover::serve().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS));
    }
    if first != tracefs::HELPER_ARGUMENT {
        return None;
    }
    Log::new("jumpseat-kernel-helper", tracing::Level::INFO).install();
    Some(match tracefs::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    })
}

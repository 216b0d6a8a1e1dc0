//! Being the helper that opens the kernel's files, which both programs may be started as.

use std::process::ExitCode;

use jumpseat::pmda::log::Log;
use jumpseat::source::tracefs;

/// Is the helper to its end, if the command line says so.
pub(crate) fn run() -> Option<ExitCode> {
    std::env::args_os().nth(1).filter(|first| first == tracefs::HELPER_ARGUMENT)?;
    Log::new("jumpseat-kernel-helper", tracing::Level::INFO).install();
    Some(match tracefs::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    })
}

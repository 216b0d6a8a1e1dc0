//! The usual life of a PMDA, start to end, for agents that need nothing out of the ordinary.

use std::io::Write as _;
use std::process::ExitCode;

use super::log::{self, Log, LogFile};
use super::{BuildError, Core, Exit, Options, PmcdOptions, ServeError, Server, Transport, identity};

/// Why an agent could not start, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The agent's parts do not fit.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Serving failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The user could not be switched to.
    #[error(transparent)]
    Identity(#[from] identity::IdentityError),
    /// Something of the agent's own.
    #[error("{0}")]
    Other(#[from] Box<dyn std::error::Error>),
}

/// Runs an agent under pmcd: reads the standard options, opens the log, makes the agent, and serves pmcd until
/// it goes away. `make` is given the options, and the result is what `main` returns.
///
/// The order is that of PCP's own agents: the log first, so that errors land in it; then `make`, still as root
/// if started so; then the socket; then the switch to the user of `-U`, or `pcp`.
pub fn run<S>(
    program: &str,
    domain: u16,
    make: impl FnOnce(&Options) -> Result<Core<S>, DaemonError>,
) -> ExitCode {
    let options = match Options::parse(program, domain, std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(usage) => {
            // Nobody is left to tell that standard error is gone.
            let _ = write!(std::io::stderr(), "{usage}");
            return ExitCode::from(usage.exit_code() as u8);
        }
    };
    run_with(program, options, make)
}

/// As [`run`], with options that were read before.
pub fn run_with<S>(
    program: &str,
    options: Options,
    make: impl FnOnce(&Options) -> Result<Core<S>, DaemonError>,
) -> ExitCode {
    let path = options.log.clone().unwrap_or_else(|| format!("{}.log", log_name(program)).into());
    let level = if options.debug.is_some() { tracing::Level::DEBUG } else { tracing::Level::INFO };
    Log::new(program, level).install();
    let log = log::open(program, &path)
        .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "cannot open the log"));
    match serve(&options, make, log.as_ref().ok()) {
        Ok(exit) => {
            tracing::info!(?exit, "ending");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve<S>(
    options: &Options,
    make: impl FnOnce(&Options) -> Result<Core<S>, DaemonError>,
    log: Option<&LogFile>,
) -> Result<Exit, DaemonError> {
    let mut server = Server::new(make(options)?)?;
    server.handle_signals()?;
    server.serve_pmcd(&options.transport, PmcdOptions::default(), false)?;
    let socket = match &options.transport {
        Transport::Unix(path) => Some(path.as_path()),
        _ => None,
    };
    identity::drop_privileges(
        options.username.as_deref().unwrap_or(&identity::default_user()),
        log,
        socket,
        &[],
    )?;
    Ok(server.run()?)
}

/// The default log of `pmdaNAME` is `NAME.log`.
fn log_name(program: &str) -> &str {
    program.strip_prefix("pmda").filter(|name| !name.is_empty()).unwrap_or(program)
}

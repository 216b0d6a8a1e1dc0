//! `pmdajumpseat`: the jumpseat agent under pmcd.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jumpseat::agent::{self, Clients, Config, RunningAgent, Setup, Signals, Trust};
use jumpseat::pmda::log::{self, Log, LogFile};
use jumpseat::pmda::{Exit, Options, PmcdOptions, Transport, identity};
use jumpseat::source::SocketConfig;
use jumpseat_tools::complain;
use pcp_net::is_served;

#[path = "jumpseat/helper.rs"]
mod helper;

const PROGRAM: &str = "pmdajumpseat";
/// Stands for a domain that the command line does not name.
const NO_DOMAIN: u16 = 0;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    if let Some(code) = helper::run() {
        return code;
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == "--version" || first == "-V") {
        let _ = writeln!(std::io::stdout(), "{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(PROGRAM, NO_DOMAIN, std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(usage) => {
            // Nobody is left to tell that standard error is gone.
            let _ = write!(std::io::stderr(), "{usage}");
            return ExitCode::from(usage.exit_code() as u8);
        }
    };
    // Read before the log takes over standard error, so that a mistake shows where the agent was started,
    // and again in the log, where an operator looks.
    let config = configuration(options.config.as_deref());
    if let Err(error) = &config {
        complain!("{PROGRAM}: {error}");
    }
    if options.transport != Transport::Pipe
        && let Ok((config, _)) = &config
        && let Some(socket) = served_already(config)
    {
        // An agent on a socket outlives pmcd, which on its return starts another one and then connects to that
        // which is there. The other one must not take the log away from it.
        complain!("{PROGRAM}: not started: the agent that serves {} is running", socket.display());
        return ExitCode::FAILURE;
    }
    let level = if options.debug.is_some() { tracing::Level::DEBUG } else { tracing::Level::INFO };
    Log::new(PROGRAM, level).install();
    let path = options.log.clone().unwrap_or_else(|| "jumpseat.log".into());
    let log = log::open(PROGRAM, &path)
        .inspect_err(|error| tracing::warn!("cannot open the log {}: {error}", path.display()));
    match config.and_then(|(config, file)| serve(&options, &config, file.as_deref(), log.as_ref().ok())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The configuration and the file it is from: the one named, else the installed one, else the defaults.
fn configuration(named: Option<&Path>) -> Result<(Config, Option<PathBuf>), Failure> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => {
            let etc = std::env::var_os("PCP_SYSCONF_DIR").map_or_else(|| "/etc/pcp".into(), PathBuf::from);
            etc.join("jumpseat/jumpseat.toml")
        }
    };
    if named.is_none() && !path.exists() {
        return Ok((Config { socket: vec![SocketConfig::default()], ..Config::default() }, None));
    }
    Ok((Config::load(&path)?, Some(path)))
}

/// An ingest socket that somebody serves.
fn served_already(config: &Config) -> Option<&Path> {
    let paths = config.socket.iter().map(|socket| socket.path.as_path());
    paths.into_iter().find(|path| is_served(path).unwrap_or(false))
}

fn serve(
    options: &Options,
    config: &Config,
    file: Option<&Path>,
    log: Option<&LogFile>,
) -> Result<(), Failure> {
    // Helpers keep the rights that are given up next.
    let mut trust = Trust::prepare(config)?;
    // What is made from here on, sockets and files with identifiers, must belong to the user that the agent will also be
    // next time.
    let user = options.username.clone().unwrap_or_else(identity::default_user);
    identity::drop_privileges(&user, log, None, &trust.groups)?;
    let domain = match options.domain {
        NO_DOMAIN => config.domain.unwrap_or(agent::DEFAULT_DOMAIN),
        domain => domain,
    };
    let state_dir = config.state_dir.clone().unwrap_or_else(agent::default_state_dir);
    let help = options.help_file.as_deref().map(read_help).transpose()?;
    let socket = match &options.transport {
        Transport::Unix(path) => Some(path.clone()),
        _ => None,
    };
    trust.confine(config, &state_dir, socket.as_slice());
    let mut running = RunningAgent::open(&Setup {
        config,
        domain,
        state_dir: Some(&state_dir),
        help: help.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
        signals: Signals::Handle { reload: file },
        clients: Clients::Pmcd,
        trust: &trust,
    })?;
    // On a socket the agent outlives pmcd and waits for the next one: what clients will want to know about
    // happens meanwhile.
    let stay = options.transport != Transport::Pipe;
    let attributes = PmcdOptions { identity: true, notready: config.notready, ..PmcdOptions::default() };
    if config.notready {
        // What takes time, reading the saved identifiers, is done by now.
        running.server.ready_when(|_| true);
    }
    running.server.serve_pmcd(&options.transport, attributes, stay)?;
    let exit = running.server.run()?;
    match exit {
        Exit::PmcdGone => tracing::info!("ended: pmcd has closed the connection"),
        Exit::Signal(number) => tracing::info!("ended by signal {number}"),
        Exit::Stopped => tracing::info!("ended"),
    }
    Ok(())
}

/// A help file's name and text.
fn read_help(path: &Path) -> Result<(String, String), Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the help file {name}: {error}"))?;
    Ok((name, text))
}

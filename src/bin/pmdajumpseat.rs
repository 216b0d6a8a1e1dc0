//! `pmdajumpseat`: the jumpseat agent under pmcd.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jumpseat::agent::check::{Grade, Setting};
use jumpseat::agent::{self, Clients, Config, RunningAgent, Setup, Signals, Trust, handover};
use jumpseat::pmda::log::{self, Log, LogFile};
use jumpseat::pmda::{Exit, Options, PmcdOptions, Transport, identity};
use jumpseat::source::SocketConfig;
use jumpseat_commands::helper;
use jumpseat_tools::complain;
use nix::unistd::geteuid;
use pcp_net::is_served;

const PROGRAM: &str = "pmdajumpseat";
/// What is done in place of serving anybody.
const CHECK: &str = "--check";
const LET_GO: &str = "--let-go";
const ASIDES: [&str; 2] = [CHECK, LET_GO];
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
    let (asides, words): (Vec<_>, Vec<_>) =
        std::env::args_os().skip(1).partition(|word| ASIDES.iter().any(|aside| word == aside));
    let options = match Options::parse(PROGRAM, NO_DOMAIN, words) {
        Ok(options) => options,
        Err(usage) => {
            // Nobody is left to tell that standard error is gone.
            let _ = write!(std::io::stderr(), "{usage}");
            return ExitCode::from(usage.exit_code() as u8);
        }
    };
    match asides.first() {
        None => {}
        Some(aside) if aside == CHECK => return check(&options),
        Some(_) => return let_go(&options),
    }
    // Read before the log takes over standard error, so that a mistake shows where the agent was started,
    // and again in the log, where an operator looks.
    let config = configuration(options.config.as_deref());
    if let Err(error) = &config {
        // A configuration has all its mistakes told, a line each.
        error.to_string().lines().for_each(|line| complain!("{PROGRAM}: {line}"));
    }
    if options.transport != Transport::Pipe
        && let Ok((config, _)) = &config
        && let Some(socket) = served_already(config, domain(&options, config))
    {
        // An agent on a socket outlives pmcd, which on its return starts another one and then connects to that
        // which is there. The other one must not take the log away from it.
        complain!("{PROGRAM}: not started: the agent that serves {} is running", socket.display());
        return ExitCode::FAILURE;
    }
    let level = if options.debug.is_some() { tracing::Level::DEBUG } else { tracing::Level::INFO };
    Log::new(PROGRAM, level).format(options.log_format).install();
    let path = options.log.clone().unwrap_or_else(|| "jumpseat.log".into());
    let log = log::open(PROGRAM, &path)
        .inspect_err(|error| tracing::warn!("cannot open the log {}: {error}", path.display()));
    match config.and_then(|(config, file)| serve(&options, &config, file.as_deref(), log.as_ref().ok())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.to_string().lines().for_each(|line| tracing::error!(target: log::EVERY, "{line}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells what is wrong with the configuration, as `jumpseat config check` does, in place of serving anybody.
fn check(options: &Options) -> ExitCode {
    let report = configuration(options.config.as_deref()).and_then(|(config, _)| {
        let user = options.username.clone().unwrap_or_else(identity::default_user);
        let setting = Setting {
            state_dir: config.state_dir.clone().unwrap_or_else(agent::default_state_dir),
            domain: domain(options, &config),
            user: geteuid().is_root().then_some(user),
        };
        Ok(agent::check::check(&config, &setting)?)
    });
    match report {
        Ok(report) => {
            report.findings.iter().for_each(|finding| complain!("{PROGRAM}: {finding}"));
            match report.findings.iter().any(|finding| finding.grade == Grade::Error) {
                true => ExitCode::FAILURE,
                false => ExitCode::SUCCESS,
            }
        }
        Err(error) => {
            error.to_string().lines().for_each(|line| complain!("{PROGRAM}: {line}"));
            ExitCode::FAILURE
        }
    }
}

/// Has what was left to a next agent closed, as none is going to come; where one runs, when it ends.
fn let_go(options: &Options) -> ExitCode {
    // A configuration that is wrong, or gone, does not keep anybody from removing the agent.
    let config =
        configuration(options.config.as_deref()).map_or_else(|_| Config::default(), |(config, _)| config);
    let state_dir = config.state_dir.clone().unwrap_or_else(agent::default_state_dir);
    match handover::end(&state_dir, domain(options, &config)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            complain!(
                "{PROGRAM}: the keeper of listeners in {}: {error}; it ends by itself",
                state_dir.display()
            );
            ExitCode::FAILURE
        }
    }
}

/// The domain that the command line names, else the configuration.
fn domain(options: &Options, config: &Config) -> u16 {
    match options.domain {
        NO_DOMAIN => config.domain.unwrap_or(agent::DEFAULT_DOMAIN),
        domain => domain,
    }
}

/// The configuration and the file it is from: the one named, else the installed one, else the defaults.
fn configuration(named: Option<&Path>) -> Result<(Config, Option<PathBuf>), Failure> {
    let path = named.map_or_else(agent::default_config, Path::to_owned);
    if named.is_none() && !path.exists() {
        return Ok((Config { socket: vec![SocketConfig::default()], ..Config::default() }, None));
    }
    Ok((Config::load(&path)?, Some(path)))
}

/// An ingest socket that somebody serves, and not only keeps for the next agent.
fn served_already(config: &Config, domain: u16) -> Option<&Path> {
    let mut paths = config.socket.iter().filter_map(|socket| socket.unix());
    let served = paths.find(|path| is_served(path).unwrap_or(false))?;
    let state_dir = config.state_dir.clone().unwrap_or_else(agent::default_state_dir);
    let waiting = handover::waiting(&state_dir, domain).unix;
    (!waiting.iter().any(|path| path == served)).then_some(served)
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
    let domain = domain(options, config);
    let state_dir = config.state_dir.clone().unwrap_or_else(agent::default_state_dir);
    let help = options.help_file.as_deref().map(read_help).transpose()?;
    let socket = match &options.transport {
        Transport::Unix(path) => Some(path.clone()),
        _ => None,
    };
    trust.keep_listeners(config, &state_dir, domain, &[]);
    trust.confine(config, &state_dir, socket.as_slice());
    let mut running = RunningAgent::open(&Setup {
        config,
        domain,
        state_dir: Some(&state_dir),
        help: help.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
        signals: Signals::Handle { reload: file, adjust: None },
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
    let exit = running.run()?;
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

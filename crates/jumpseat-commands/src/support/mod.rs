//! `jumpseat support`: what helps to find a fault, in one file. `parts` says what is in it.

mod parts;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use jumpseat_agent::{self as agent, Config};
use jumpseat_tools::complain;
use pcp_files::Writes;

use crate::say::sayln;
use parts::{Part, Site};

/// Puts together what helps to find a fault, in a tar file: versions, the configuration without what may be a secret and what
/// its check says, the agent's own metrics and those of its sources, the end of its log, its limits and what it has given
/// up, and a list of its files. No contents of records, and no names of fields, are in it; the log has what the agent and
/// its commands have said: look at it before you send it to others.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct SupportArgs {
    /// File to write, which must not be there yet; - is standard output [default: jumpseat-support-SECONDS.tar].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The agent's configuration; the installed one by default.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Collector that serves the agent, as PCP's tools take it.
    #[arg(short, long, value_name = "HOST", default_value = "local:")]
    host: String,
    /// Directory of the identifiers, over what the configuration says.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Number of the performance metrics domain, over what the configuration says.
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..=510))]
    domain: Option<u16>,
    /// The agent's log; that of an agent under pmcd by default.
    #[arg(short, long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Leave the log out.
    #[arg(long, conflicts_with = "log")]
    no_log: bool,
    /// Show this help and end
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

pub(crate) fn run(args: &SupportArgs) -> ExitCode {
    let file = args.config.clone().unwrap_or_else(agent::default_config);
    // What is wrong with it is part of what is told.
    let config = Config::load(&file);
    let known = config.as_ref().ok();
    let state_dir = args.state_dir.clone().or_else(|| known.and_then(|config| config.state_dir.clone()));
    let state_dir = state_dir.unwrap_or_else(agent::default_state_dir);
    let domain = args.domain.or(known.and_then(|config| config.domain)).unwrap_or(agent::DEFAULT_DOMAIN);
    let log = args.log.clone().unwrap_or_else(parts::log_under_pmcd);
    let site = Site { file, config, state_dir, domain, host: &args.host, log: (!args.no_log).then_some(log) };
    let parts = parts::all(&site);
    match write(args, &parts) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain!("jumpseat: {message}");
            ExitCode::FAILURE
        }
    }
}

fn write(args: &SupportArgs, parts: &[Part]) -> Result<(), String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let bytes = tar(parts, now).map_err(|error| error.to_string())?;
    let path = args.output.clone().unwrap_or_else(|| format!("jumpseat-support-{now}.tar").into());
    if path == Path::new("-") {
        return io::stdout().write_all(&bytes).map_err(|error| format!("standard output: {error}"));
    }
    let mut file = pcp_files::create(&path, Writes::Anywhere).map_err(|error| error.to_string())?;
    file.write_all(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    sayln!("{}: {} bytes", path.display(), bytes.len());
    for part in parts {
        let problem = part.problem.as_ref().map_or_else(String::new, |problem| format!(": {problem}"));
        sayln!("  {:<20} {}{problem}", part.name, part.about);
    }
    sayln!("Look at it before you send it to others, agent.log above all: tar -xf {}", path.display());
    Ok(())
}

fn tar(parts: &[Part], now: u64) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for part in parts {
        let mut header = tar::Header::new_gnu();
        header.set_size(part.text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now);
        header.set_entry_type(tar::EntryType::Regular);
        tar.append_data(&mut header, format!("jumpseat-support/{}", part.name), part.text.as_slice())?;
    }
    tar.into_inner()
}

//! `jumpseat config`: a configuration looked at before an agent reads it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jumpseat_agent::changes::{Change, changes};
use jumpseat_agent::check::{Grade, Report, Setting, check};
use jumpseat_agent::{self as agent, Config, ConfigError};
use jumpseat_tools::complain;
use nix::unistd::{User, geteuid};
use serde_json::{Value, json};

use crate::say::sayln;

#[derive(Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Tell everything that is wrong with a configuration, and what a reload would change.
    Check(CheckArgs),
}

/// A configuration, and for whom it is.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 if nothing keeps the agent from doing what the configuration says, else 1."
)]
struct CheckArgs {
    /// The configuration; the installed one by default.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Tell what changes for an agent that runs with this configuration, instead of asking which one runs.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Directory of the identifiers, over what the configuration says; an agent that runs with it is found by it.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Number of the performance metrics domain, over what the configuration says.
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..=510))]
    domain: Option<u16>,
    /// User that the agent runs as, whose permissions count; for root by default pcp, as under pmcd, and else who asks.
    #[arg(short = 'U', long, value_name = "USER")]
    user: Option<String>,
    /// All of it as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The user that agents under pmcd run as.
const PMCDS_USER: &str = "pcp";

pub(crate) fn run(args: &ConfigArgs) -> ExitCode {
    let ConfigCommand::Check(args) = &args.command;
    let file = args.file.clone().unwrap_or_else(agent::default_config);
    let done = match Config::load(&file) {
        Ok(config) => look(args, &file, &config),
        Err(error) => Ok(refuse(args, &file, &error)),
    };
    done.unwrap_or_else(|message| {
        message.lines().for_each(|line| complain!("jumpseat: {line}"));
        ExitCode::FAILURE
    })
}

/// Tells of mistakes in the text: without it there is nothing else to look at.
fn refuse(args: &CheckArgs, file: &Path, error: &ConfigError) -> ExitCode {
    let messages = error.messages();
    if args.json {
        let told: Vec<Value> = match error {
            ConfigError::Invalid { mistakes, .. } => {
                let one = |mistake: &agent::config::Mistake| json!({"grade": "error", "line": mistake.line, "message": mistake.problem.to_string()});
                mistakes.iter().map(one).collect()
            }
            other => vec![json!({"grade": "error", "line": null, "message": other.to_string()})],
        };
        sayln!("{}", json!({"file": file, "errors": error.count(), "findings": told}));
    } else {
        messages.iter().for_each(|message| sayln!("{message}"));
        sayln!("{}: {}", file.display(), count(error.count(), "mistake"));
    }
    ExitCode::FAILURE
}

fn look(args: &CheckArgs, file: &Path, config: &Config) -> Result<ExitCode, String> {
    let against = match &args.against {
        Some(path) => {
            let before = Config::load(path).map_err(|error| error.to_string())?;
            Some((path, changes(&before, config)))
        }
        None => None,
    };
    let state_dir = args.state_dir.clone().or_else(|| config.state_dir.clone());
    let setting = Setting {
        state_dir: state_dir.unwrap_or_else(agent::default_state_dir),
        domain: args.domain.or(config.domain).unwrap_or(agent::DEFAULT_DOMAIN),
        user: args.user.clone().or_else(user_under_pmcd),
    };
    let report = check(config, &setting)?;
    let errors = report.findings.iter().filter(|finding| finding.grade == Grade::Error).count();
    if args.json {
        let mut told = json!({"file": file, "errors": errors, "findings": report.findings});
        match &against {
            Some((path, changes)) => told["against"] = json!({"config": path, "changes": changes}),
            None => told["running"] = json!(report.running),
        }
        sayln!("{told}");
    } else {
        report.findings.iter().for_each(|finding| sayln!("{finding}"));
        match &against {
            Some((path, changes)) => tell(&format!("Against {}", path.display()), changes),
            None => running(&report, &setting),
        }
        sayln!("{}: {}", file.display(), count(errors, "error"));
    }
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn running(report: &Report, setting: &Setting) {
    let Some(agent) = &report.running else {
        let dir = setting.state_dir.display();
        sayln!("No agent runs with {dir}; --against FILE tells what changes from another configuration.");
        return;
    };
    tell(
        &format!("A reload of the agent that runs (process {}, {})", agent.pid, agent.config.display()),
        &agent.changes,
    );
    for finding in &agent.unreachable {
        sayln!("  not with a reload: {}: {}", finding.what, finding.message);
    }
}

fn tell(what: &str, changes: &[Change]) {
    if changes.is_empty() {
        sayln!("{what} changes nothing.");
        return;
    }
    sayln!("{what} changes:");
    changes.iter().for_each(|change| sayln!("  {change}"));
}

/// Root looks at what will be another's.
fn user_under_pmcd() -> Option<String> {
    let is_there = || matches!(User::from_name(PMCDS_USER), Ok(Some(_)));
    (geteuid().is_root() && is_there()).then(|| PMCDS_USER.to_owned())
}

fn count(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

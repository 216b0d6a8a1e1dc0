//! `jumpseat self-check`: what an agent has given up of its rights.

use jumpseat_tools::complain;
use std::process::ExitCode;

use clap::Args;
use jumpseat_agent::{Config, Trust};
use pcp_client::group::{FetchGroup, ItemHandle, Scale};
use pcp_client::{Context, HostOptions, HostSpec, without_password};

use crate::say::sayln;

/// What is told, in this order: the name of the metric below [`ROOT`], and words for it.
const LINES: [(&str, &str); 6] = [
    ("user", "runs as"),
    ("privileges", "privileges"),
    ("capabilities", "capabilities"),
    ("files", "files"),
    ("system_calls", "system calls"),
    ("kernel", "kernel files opened"),
];
const ROOT: &str = "jumpseat.self.confined";
/// How a measure begins that is not taken.
const NOT: &str = "not ";

#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "Exit status: 0 if all measures are in force, 1 if one is not or nobody answers."
)]
pub(crate) struct SelfCheckArgs {
    /// Collector that serves the agent, as PCP's tools take it; that of this host by default
    #[arg(short, long, value_name = "HOST", conflicts_with = "here")]
    host: Option<String>,
    /// Ask no agent: take the measures here, for this process, and tell what this machine can do
    #[arg(long)]
    here: bool,
    /// Show this help and end
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

pub(crate) fn run(args: &SelfCheckArgs) -> ExitCode {
    let found = if args.here { Ok(here()) } else { ask(args.host.as_deref().unwrap_or("local:")) };
    let found = match found {
        Ok(found) => found,
        Err(message) => {
            complain!("jumpseat: {message}");
            return ExitCode::FAILURE;
        }
    };
    for (label, state) in &found {
        sayln!("{label:<20} {state}");
    }
    match found.iter().any(|(_, state)| state.starts_with(NOT)) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// What the agent of a collector says.
fn ask(host: &str) -> Result<Vec<(&'static str, String)>, String> {
    let shown = without_password(host);
    let failed =
        |error: String| format!("{shown}: {error}; --host names another collector, --here asks none");
    let spec: HostSpec = host.parse().map_err(|error| format!("-h {shown}: {error}"))?;
    let (options, warnings) = HostOptions::from_env();
    warnings.iter().for_each(|warning| complain!("jumpseat: {warning}"));
    let context = Context::host_with(&spec, &options).map_err(|error| failed(error.to_string()))?;
    let mut group = FetchGroup::new(context);
    let mut items = Vec::new();
    for (name, label) in LINES {
        let item = group.item::<String>(&format!("{ROOT}.{name}"), None, Scale::None);
        items.push((label, item.map_err(|error| failed(error.to_string()))?));
    }
    group.fetch().map_err(|error| failed(error.to_string()))?;
    let value = |item: ItemHandle<String>| match group.value(item) {
        Ok(value) => value.to_owned(),
        Err(error) => format!("{NOT}told: {error}"),
    };
    Ok(items.into_iter().map(|(label, item)| (label, value(item))).collect())
}

/// What this machine allows to.
fn here() -> Vec<(&'static str, String)> {
    let mut trust = Trust::default();
    trust.confine(&Config::default(), &std::env::temp_dir(), &[]);
    // What concerns an agent that runs is not told.
    let of_machine = LINES.iter().filter(|(name, _)| !["user", "kernel"].contains(name));
    of_machine.map(|(name, label)| (*label, trust.state(name))).collect()
}

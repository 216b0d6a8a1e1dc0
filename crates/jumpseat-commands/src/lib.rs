//! The commands of the program `jumpseat`: [`run`]. One file or folder a subcommand; `top` and the tools that stand in for PCP's
//! are crates.
//!
//! A crate of its own, and not of the package with the programs, for the way programs are linked: the level of optimization of
//! that package is that of all code they have, when it is linked. What is here is done once for a person, and compiled for size.
//!
//! # Features
//!
//! | feature | brings |
//! | --- | --- |
//! | `web-inside` | `jumpseat web` within this one program, and not in one of its own |

mod check;
mod config;
mod default_address;
mod demo;
mod derive;
mod feed;
mod generate;
pub mod helper;
mod log;
mod names;
mod passwd;
mod program;
mod record;
mod say;
mod self_check;
mod serve;
mod support;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};
use pcp_model::text::nearest;

use jumpseat_export::ExportArgs;
use jumpseat_tools::{TOOLS, complain, definitions};
use jumpseat_top::{self as top, TopArgs};
use jumpseat_web::WebArgs;

/// An observer's seat for Performance Co-Pilot: event records from tracing sources, as PCP metrics.
#[derive(Parser)]
#[command(name = "jumpseat", version, about, propagate_version = true, after_help = after_help())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Look at every record of archives, tell all that is wrong, and write what is whole anew.
    Check(check::CheckArgs),

    /// Check a configuration: all that is wrong with it, and what a reload would change.
    Config(config::ConfigArgs),

    /// Show the agent at work on a real workload; needs nothing installed.
    Demo(demo::DemoArgs),

    /// Work with definitions of derived metrics.
    Derive(derive::DeriveArgs),

    /// Export metrics and event records, live or from archives: CSV, JSON, OpenMetrics, Parquet.
    Export(Box<ExportArgs>),

    /// Send events to a running agent: one JSON object a line, or plain lines.
    Feed(feed::FeedArgs),

    /// Print manual pages and completions for shells, made from what `--help` knows.
    #[command(hide = true)]
    Generate(generate::GenerateArgs),

    /// Look at the records that an agent keeps on disk: list, show, verify, trim.
    Log(log::LogArgs),

    /// List the names that an agent has given numbers to, or retire those that nobody uses.
    Names(names::NamesArgs),

    /// Write a user's password into a file for `jumpseat serve --passwords`.
    Passwd(passwd::PasswdArgs),

    /// Record metrics of a collector into a PCP archive, event records included.
    Record(record::RecordArgs),

    /// Tell what an agent has given up of its rights, and what this machine allows to.
    SelfCheck(self_check::SelfCheckArgs),

    /// Run the agent and answer PCP clients directly, without pmcd.
    Serve(serve::ServeArgs),

    /// Put together what helps to find a fault, without the contents of any record.
    Support(support::SupportArgs),

    /// Watch metrics, expressions and event records of a collector on the terminal.
    Top(TopArgs),

    /// Show metrics, events and spans of hosts and archives on the web: a page, Grafana's data sources, Prometheus.
    Web(Box<WebArgs>),
}

/// Does what the words of the command line of this process say, and tells how it went.
pub fn run() -> ExitCode {
    if let Some(code) = helper::run() {
        return code;
    }
    // They have PCP's way with options, which is not clap's.
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    if let Some(run) = jumpseat_tools::called(words) {
        return run();
    }
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == "export" => return program::run("export", words),
        Some(word) if word == "web" && cfg!(not(feature = "web-inside")) => {
            return program::run("web", words);
        }
        _ => {}
    }
    match Cli::try_parse().unwrap_or_else(|error| refuse(&error)).command {
        Command::Check(args) => check::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Derive(args) => derive::run(&args),
        // Was gone on with in another program.
        Command::Export(_) => program::run("export", std::env::args_os().skip(2)),
        Command::Feed(args) => feed::run(args),
        Command::Generate(args) => generate::run(&args, Cli::command()),
        Command::Log(args) => log::run(&args),
        Command::Names(args) => names::run(&args),
        Command::Passwd(args) => passwd::run(&args),
        Command::Record(args) => record::run(&args),
        Command::SelfCheck(args) => self_check::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Support(args) => support::run(&args),
        Command::Top(args) => top::run(&args),
        #[cfg(feature = "web-inside")]
        Command::Web(args) => {
            pcp_pmda::log::Log::new("jumpseat-web", tracing::Level::WARN).install();
            jumpseat_web::run(&args)
        }
        #[cfg(not(feature = "web-inside"))]
        Command::Web(_) => program::run("web", std::env::args_os().skip(2)),
    }
}

/// Ends with the message about a command line that is none. The tools are commands, too, which clap does not know of.
fn refuse(error: &clap::Error) -> ! {
    let word = std::env::args_os().nth(1).and_then(|word| word.into_string().ok());
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(word) = word
    {
        let cli = Cli::command();
        let own = cli.get_subcommands().map(clap::Command::get_name);
        let known: Vec<&str> = own.chain(TOOLS.iter().map(|tool| tool.subcommand)).chain(["help"]).collect();
        // One below another command is clap's to tell of.
        if !known.contains(&word.as_str()) {
            let near = nearest(&word, known);
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            complain!("jumpseat: there is no command {word:?}{hint}\nFor all of them: jumpseat --help");
            std::process::exit(error.exit_code());
        }
    }
    error.exit()
}

/// What `--help` says about the tools.
fn after_help() -> String {
    let mut text = "In place of PCP's tools, also by their names (symbolic links will do):\n".to_owned();
    for tool in TOOLS {
        text.push_str(&format!("  {:<7} {} ({})\n", tool.subcommand, tool.about, tool.name));
    }
    text
}

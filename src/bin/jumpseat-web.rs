//! `jumpseat-web`: what `jumpseat web` starts, where it is not part of `jumpseat` itself.

use std::process::ExitCode;

use clap::Parser;
use jumpseat::pmda::log::Log;
use jumpseat_web::{WebArgs, run};

#[derive(Parser)]
#[command(name = "jumpseat web", bin_name = "jumpseat web", version)]
struct Cli {
    #[command(flatten)]
    args: WebArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    Log::new("jumpseat-web", tracing::Level::WARN).install();
    run(&cli.args)
}

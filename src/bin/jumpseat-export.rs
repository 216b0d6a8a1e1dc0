//! `jumpseat-export`: what `jumpseat export` starts. A program of its own, as columns, compression and object stores are as large
//! as all other commands together.

use std::process::ExitCode;

use clap::Parser;
use jumpseat_export::{ExportArgs, run};

/// Columns are many small pieces of memory that one thread takes and gives back: a quarter of the time of a wide archive was glibc's.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "jumpseat export", bin_name = "jumpseat export", version)]
struct Cli {
    #[command(flatten)]
    args: ExportArgs,
}

fn main() -> ExitCode {
    run(&Cli::parse().args)
}

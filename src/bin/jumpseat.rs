//! `jumpseat`: the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    jumpseat_commands::run()
}

//! Subcommands that are programs of their own: each is started in the place of this one, with the same words.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use jumpseat_tools::complain;

/// Goes on as the program of a subcommand, which is next to this one, or else in PATH. Comes back only if there is none.
pub(crate) fn run(subcommand: &str, words: impl Iterator<Item = OsString>) -> ExitCode {
    let name = format!("jumpseat-{subcommand}");
    let words: Vec<OsString> = words.collect();
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(&name)));
    for program in beside.into_iter().chain([PathBuf::from(&name)]) {
        let error = Command::new(&program).args(&words).exec();
        if error.kind() != ErrorKind::NotFound {
            complain!("jumpseat {subcommand}: cannot start {}: {error}", program.display());
            return ExitCode::FAILURE;
        }
    }
    complain!(
        "jumpseat {subcommand}: the program {name} is neither next to jumpseat nor in PATH: it comes with the package \
         jumpseat; in a checkout, `cargo build --features {subcommand}` (with --release, if jumpseat was built so) makes it"
    );
    ExitCode::FAILURE
}

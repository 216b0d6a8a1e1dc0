//! `jumpseat export`: starts the program `jumpseat-export` in its place, with the same words.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use jumpseat_tools::complain;

const PROGRAM: &str = "jumpseat-export";

/// Goes on as that program, which is next to this one, or else in PATH. Comes back only if there is none.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(PROGRAM)));
    for program in beside.into_iter().chain([PathBuf::from(PROGRAM)]) {
        let error = Command::new(&program).args(&words).exec();
        if error.kind() != ErrorKind::NotFound {
            complain!("jumpseat export: cannot start {}: {error}", program.display());
            return ExitCode::FAILURE;
        }
    }
    complain!(
        "jumpseat export: the program {PROGRAM} is neither next to jumpseat nor in PATH: it comes with the package \
         jumpseat; in a checkout, `cargo build --features export` (with --release, if jumpseat was built so) makes it"
    );
    ExitCode::FAILURE
}

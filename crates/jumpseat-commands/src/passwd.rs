//! `jumpseat passwd`: writes passwords for `jumpseat serve`.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::User;
use pcp_net::Passwords;

#[derive(Args)]
pub(crate) struct PasswdArgs {
    /// The file; it is made if it is not there, for its owner alone.
    file: PathBuf,
    /// A user of this machine: rules about who may do what go by that.
    user: String,
}

pub(crate) fn run(args: &PasswdArgs) -> ExitCode {
    match write(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("jumpseat: {message}");
            ExitCode::FAILURE
        }
    }
}

fn write(PasswdArgs { file, user }: &PasswdArgs) -> Result<(), String> {
    if User::from_name(user).map_err(|error| error.to_string())?.is_none() {
        return Err(format!("there is no user {user:?} on this machine; only such can log in"));
    }
    let failed = |error: io::Error| format!("cannot read the password: {error}");
    let password = if io::stdin().is_terminal() {
        let password = ask("Password: ").map_err(failed)?;
        if ask("Again: ").map_err(failed)? != password {
            return Err("that was another password; nothing is written".to_owned());
        }
        password
    } else {
        line().map_err(failed)?
    };
    Passwords::set(file, user, &password).map_err(|error| error.to_string())
}

/// Asks on the terminal, which does not show the answer.
fn ask(question: &str) -> io::Result<String> {
    let mut error = io::stderr();
    write!(error, "{question}")?;
    let _hidden = Hidden::begin()?;
    let answer = line();
    writeln!(error)?;
    answer
}

/// A line of standard input.
fn line() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().lock().read_line(&mut text)?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// What is typed is not shown as long as this is there.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> io::Result<Hidden> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &hidden)?;
        Ok(Hidden(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // The terminal has gone, then.
        let _ = tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &self.0);
    }
}

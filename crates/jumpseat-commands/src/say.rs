//! Standard output for lines that a command can do without. On a terminal, what archives and files say does not drive it.

use std::fmt::Arguments;
use std::io::{IsTerminal as _, Write as _};

use jumpseat_tools::Harmless;

/// Prints as `print!` does, except that a reader who has gone (`jumpseat derive check | head`) or a full disk does
/// not end the program: an agent serves on, and a result is also in the exit code.
pub(crate) fn say(text: Arguments<'_>) {
    let mut out = std::io::stdout();
    let _ = if out.is_terminal() { Harmless(out).write_fmt(text) } else { out.write_fmt(text) };
}

/// [`say`] with the arguments of `println!`.
macro_rules! sayln {
    ($($part:tt)+) => { $crate::say::say(format_args!("{}\n", format_args!($($part)+))) };
}
pub(crate) use sayln;

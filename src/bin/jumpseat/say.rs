//! Standard output for lines that a command can do without.

use std::fmt::Arguments;
use std::io::Write as _;

/// Prints as `print!` does, except that a reader who has gone (`jumpseat derive check | head`) or a full disk does
/// not end the program: an agent serves on, and a result is also in the exit code.
pub(crate) fn say(text: Arguments<'_>) {
    let _ = std::io::stdout().write_fmt(text);
}

/// [`say`] with the arguments of `println!`.
macro_rules! sayln {
    ($($part:tt)+) => { $crate::say::say(format_args!("{}\n", format_args!($($part)+))) };
}
pub(crate) use sayln;

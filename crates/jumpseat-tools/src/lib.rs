//! Tools that stand in for PCP's own, as subcommands of `jumpseat` and by PCP's names.
//!
//! A tool has a folder or file of its own: `info`, `probe`, `val`, `events`, `store`. What they share is below
//! them: `sampling` is what `val` and `events` do, in PCP one program by two names; `tool` is the command line in PCP's
//! way, the source of metrics, and output. Nothing in `tool` knows a tool.
//!
//! Programs call a tool by [`called`]. Other commands take from here what has to be the same everywhere: definitions of
//! derived metrics, archives, event records as text, names and units for Prometheus ([`exposition`]).

/// Writes a line to standard error, as `eprintln!` does, which however ends the program where that cannot be written to: a
/// full disk, a terminal that is gone. Then nobody is left to tell, and the work goes on.
#[macro_export]
macro_rules! complain {
    ($($part:tt)+) => {{
        use ::std::io::Write as _;
        let _ = ::std::writeln!(::std::io::stderr(), $($part)+);
    }};
}

pub mod definitions;
mod events;
pub mod exposition;
#[doc(hidden)]
pub mod fuzzing;
mod info;
mod later;
pub mod measure;
pub mod operand;
mod probe;
mod sampling;
mod store;
pub mod ticker;
mod tool;
mod val;

use std::path::Path;
use std::process::ExitCode;

use tool::{Row, Tool};

pub use later::later;
pub use tool::record::{Emphasis, param_text};
pub use tool::{Call, Definitions, Harmless, archive, debug_environment};

/// A tool, by the names it has.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// PCP's name for it.
    pub name: &'static str,
    /// What it is called as a subcommand.
    pub subcommand: &'static str,
    /// What it is for, in a line.
    pub about: &'static str,
    /// What follows the options.
    pub operands: &'static str,
    run: fn(Call, Vec<String>) -> ExitCode,
    choices: fn() -> Vec<Choice>,
}

/// An option that a tool has as a subcommand, for manual pages and completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The group it is in.
    pub heading: &'static str,
    /// Its letter.
    pub short: Option<char>,
    /// Its long name.
    pub long: &'static str,
    /// What its argument is called; empty if it takes none.
    pub argument: &'static str,
    /// What it is for, in a line.
    pub help: &'static str,
}

impl Entry {
    const fn of<O>(
        tool: &Tool<O>,
        run: fn(Call, Vec<String>) -> ExitCode,
        choices: fn() -> Vec<Choice>,
        about: &'static str,
    ) -> Entry {
        Entry { name: tool.name, subcommand: tool.subcommand, about, operands: tool.operands, run, choices }
    }

    /// Its options, in the order of the usage text.
    pub fn choices(&self) -> Vec<Choice> {
        (self.choices)()
    }
}

/// The options that the usage text of a tool shows.
fn choices<O: Copy>(tool: &'static Tool<O>) -> Vec<Choice> {
    let mut heading = "";
    let mut found = Vec::new();
    let call = Call::subcommand(tool.subcommand);
    for row in tool.rows(&call) {
        if let Row::Heading(name) = row {
            heading = *name;
        }
        let Some((option, _)) = row.option() else { continue };
        let help = option.help(call.level);
        if help.is_empty() {
            continue;
        }
        found.push(Choice {
            heading,
            short: option.short.filter(|_| option.short_works),
            long: option.long,
            argument: option.argument,
            help,
        });
    }
    found
}

/// All tools, in the order of their subcommands.
pub const TOOLS: [Entry; 5] = [
    Entry::of(&events::TOOL, events::run, || choices(&events::TOOL), "Report event records as they come"),
    Entry::of(
        &info::TOOL,
        info::run,
        || choices(&info::TOOL),
        "Report all about metrics: names, descriptions, help, labels, values",
    ),
    Entry::of(
        &probe::TOOL,
        probe::run,
        || choices(&probe::TOOL),
        "Report how many values metrics have, and which",
    ),
    Entry::of(&store::TOOL, store::run, || choices(&store::TOOL), "Change the value of a metric"),
    Entry::of(&val::TOOL, val::run, || choices(&val::TOOL), "Report a metric's values as they come"),
];

/// The tool that a command line calls, ready to run: by PCP's name as the name of the program, or as a subcommand.
/// `words` begin with the name of the program, whose folder does not matter.
pub fn called(mut words: impl Iterator<Item = String>) -> Option<impl FnOnce() -> ExitCode> {
    let program = words.next()?;
    let program = Path::new(&program).file_name()?.to_str()?;
    let (run, call) = match TOOLS.iter().find(|tool| tool.name == program) {
        Some(tool) => (tool.run, Call::by_pcps_name(program)),
        None => {
            let subcommand = words.next()?;
            let tool = TOOLS.iter().find(|tool| tool.subcommand == subcommand)?;
            (tool.run, Call::subcommand(&subcommand))
        }
    };
    let words: Vec<String> = words.collect();
    Some(move || run(call, words))
}

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use pcp_model::Level;

    use super::*;

    #[test]
    fn tools_are_called_by_both_of_their_names() {
        let is_called = |words: &[&str]| called(words.iter().map(|&word| word.to_owned())).is_some();
        assert!(is_called(&["/usr/bin/pmval", "x"]) && is_called(&["jumpseat", "val"]));
        assert!(!is_called(&["jumpseat"]) && !is_called(&["jumpseat", "pmval"]) && !is_called(&["val"]));
        assert!(!is_called(&[]) && !is_called(&["jumpseat", "top"]));
    }

    /// Each row of a table is an option that can be given, by a name and a letter that no other has.
    fn check_table<O: Copy>(tool: &'static Tool<O>) {
        for level in Level::ALL {
            check_table_at(tool, level);
        }
    }

    fn check_table_at<O: Copy>(tool: &'static Tool<O>, level: Level) {
        let subcommand = Call { level, ..Call::subcommand(tool.subcommand) };
        let (mut names, mut letters) = (HashSet::new(), HashSet::new());
        for row in tool.rows(&subcommand) {
            let Some((option, _)) = row.option() else {
                assert!(matches!(row, Row::Heading(_)), "{}: a standard option that has no form", tool.name);
                continue;
            };
            assert!(names.insert(option.long), "{}: --{} twice", tool.name, option.long);
            let letter = option.short.filter(|_| option.short_works);
            assert!(letter.is_none_or(|letter| letters.insert(letter)), "{}: {letter:?} twice", tool.name);
        }
    }

    #[test]
    fn options_can_be_told_apart() {
        check_table(&info::TOOL);
        check_table(&probe::TOOL);
        check_table(&store::TOOL);
        check_table(&val::TOOL);
        check_table(&events::TOOL);
    }
}

//! A process gives up what it does not need.
//!
//! [`confine`] takes measures that nothing can take back: neither the process nor what it starts. Call it while there is
//! one thread, as some measures are of the thread that takes them and of those it starts.
//!
//! | measure | what is gone | file |
//! | --- | --- | --- |
//! | `privileges` | rights that a program started from here would have by its file (setuid) | `privileges` |
//! | `capabilities` | what root may do besides reading its own files | `privileges` |
//! | `files` | files that are not named, by Landlock | `files` |
//! | `system_calls` | system calls that are not needed, by seccomp | `calls` |
//!
//! What the system cannot do is told, and the rest done all the same: an agent on an old kernel is better than none.
//!
//! **Cost:** once, some tenths of a millisecond; a system call afterwards takes some ten nanoseconds more.

mod calls;
mod files;
mod filter;
mod privileges;

pub use calls::Calls;
pub use caps::Capability;
pub use files::Files;

/// What a process keeps.
#[derive(Clone, Debug)]
pub struct Confinement<'a> {
    /// Capabilities that are kept, of those there are.
    pub capabilities: &'a [Capability],
    /// System calls.
    pub calls: Calls,
    /// Files.
    pub files: Files,
}

/// One measure, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// `privileges`, `capabilities`, `files` or `system_calls`.
    pub name: &'static str,
    /// What is in force, or why it is not.
    pub state: Result<String, String>,
}

/// Takes all measures, in the order of the table above: each is allowed by those before it.
pub fn confine(confinement: &Confinement<'_>) -> Vec<Measure> {
    vec![
        Measure { name: "privileges", state: privileges::no_new() },
        Measure { name: "capabilities", state: privileges::keep(confinement.capabilities) },
        Measure { name: "files", state: files::restrict(&confinement.files) },
        Measure { name: "system_calls", state: calls::restrict(confinement.calls) },
    ]
}

/// The example of README.md is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

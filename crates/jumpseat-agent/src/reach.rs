//! What an agent that has given up rights may still do for tables that come new while it runs.

use std::path::{Path, PathBuf};

use jumpseat_source::follow::{CommandConfig, FollowConfig, JournalConfig};
use jumpseat_source::tracefs::KernelConfig;
use serde::{Deserialize, Serialize};

use crate::config::Config;

/// Where the kernel's files may be.
pub(crate) const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What helps where a reload does not.
const RESTART: &str = "restart the agent (pmstore jumpseat.control.handover 1)";

/// What the process may still do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// Where it may write; `None`: as any process of its user.
    pub(crate) writable: Option<Vec<PathBuf>>,
    /// Whether it may start commands.
    pub(crate) commands: bool,
    /// Whether it may start `journalctl`.
    pub(crate) journals: bool,
    /// What helpers open of the kernel's.
    pub(crate) helpers: Vec<KernelConfig>,
}

impl Default for Reach {
    fn default() -> Reach {
        Reach { writable: None, commands: true, journals: true, helpers: Vec::new() }
    }
}

/// What a source needs of what an agent gives up at its start.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need<'a> {
    /// Nothing.
    Nothing,
    /// To make this file.
    Place(&'a Path),
    /// To open the kernel's files for this source.
    Kernel(&'a KernelConfig),
}

impl Reach {
    /// Why a source that comes new cannot be started, if that takes what was given up.
    pub(crate) fn refuses(&self, need: Need<'_>) -> Option<String> {
        match need {
            Need::Nothing => None,
            Need::Place(path) => {
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
                (!self.may_write(dir)).then(|| {
                    let dir = dir.display();
                    format!("the agent has given up writing to {dir}, where it made nothing when it started: {RESTART}")
                })
            }
            Need::Kernel(kernel) => match self.helpers.iter().find(|told| told.source == kernel.source) {
                Some(told) if told == kernel => None,
                Some(_) => {
                    let words =
                        "the helper that opens the kernel's files opens what it was told at its start only";
                    Some(format!("{words}, and the source goes on as it was: {RESTART}"))
                }
                None if self.may_write(Path::new(TRACEFS[0])) => None,
                None => {
                    Some(format!("the agent has given up the right to open the kernel's files: {RESTART}"))
                }
            },
        }
    }

    /// Of what a configuration says to follow, what the process may.
    pub(crate) fn allows(&self, config: &Config) -> FollowConfig {
        FollowConfig {
            files: config.file.clone(),
            commands: if self.commands { config.command.clone() } else { Vec::new() },
            journals: if self.journals { config.journal.clone() } else { Vec::new() },
        }
    }

    /// The programs of a configuration that the process may not start, and why.
    pub(crate) fn refused_programs(&self, config: &Config) -> Vec<(String, String)> {
        let why = |table: &str| {
            format!("the agent has given up starting programs, as it had no {table} then: {RESTART}")
        };
        let command = |run: &CommandConfig| (format!("command {}", run.run), why("[[command]]"));
        let journal = |journal: &JournalConfig| (format!("journal {}", journal.source), why("[[journal]]"));
        let commands = config.command.iter().filter(|_| !self.commands).map(command);
        commands.chain(config.journal.iter().filter(|_| !self.journals).map(journal)).collect()
    }

    fn may_write(&self, path: &Path) -> bool {
        self.writable.as_ref().is_none_or(|places| places.iter().any(|dir| path.starts_with(dir)))
    }
}

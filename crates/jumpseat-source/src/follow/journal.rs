//! The systemd journal: `journalctl` as a command, with a cursor that outlives it.

use std::process::Command;

use super::config::{From, JournalConfig};

/// After so many starts without any output the cursor is doubted: the journal it is of may be gone.
const DOUBT: u32 = 3;

/// Where a journal is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start<'a> {
    /// After the entry of this cursor.
    After(&'a str),
    /// From its oldest entry on.
    Beginning,
    /// What comes from now on.
    Now,
}

impl Start<'_> {
    /// Whether the bytes that come are the same as when it was last begun there: those that the log has are known by their numbers.
    pub(super) fn comes_again(self) -> bool {
        self != Start::Now
    }
}

/// Where to begin. `starts_without_output`: how often the command was started in a row without giving any.
pub(super) fn start<'a>(
    config: &JournalConfig,
    cursor: Option<&'a str>,
    starts_without_output: u32,
) -> Start<'a> {
    match (cursor, config.from) {
        (Some(cursor), _) if starts_without_output <= DOUBT => Start::After(cursor),
        (None, From::Beginning) => Start::Beginning,
        // A cursor that is of no use: better nothing twice than all of it.
        (_, _) => Start::Now,
    }
}

/// The command that gives the entries from there on.
pub(super) fn command(config: &JournalConfig, start: Start<'_>) -> Command {
    let mut command = Command::new("journalctl");
    // All fields in full; otherwise long ones are left out. Without --merge, --follow shows the current boot only (systemd
    // 252), and what came last before the machine was started again would be lost.
    command.args(["--output=json", "--follow", "--all", "--quiet", "--merge"]);
    match start {
        Start::After(cursor) => command.arg("--no-tail").arg(format!("--after-cursor={cursor}")),
        Start::Beginning => command.arg("--no-tail"),
        Start::Now => command.arg("--lines=0"),
    };
    if let Some(directory) = &config.directory {
        command.arg("--directory").arg(directory);
    }
    for unit in &config.units {
        command.arg("--unit").arg(unit);
    }
    command.args(&config.matches);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(config: &JournalConfig, cursor: Option<&str>, starts_without_output: u32) -> String {
        let command = command(config, start(config, cursor, starts_without_output));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn where_to_begin() {
        let config = JournalConfig::default();
        assert!(words(&config, None, 0).ends_with("--quiet --merge --lines=0"));
        assert!(words(&config, Some("s=1;i=2"), 1).ends_with("--no-tail --after-cursor=s=1;i=2"));
        assert!(words(&config, Some("s=1;i=2"), 4).ends_with("--lines=0"));
        let config = JournalConfig {
            from: From::Beginning,
            units: vec!["a.service".into()],
            matches: vec!["_UID=0".into()],
            directory: Some("/j".into()),
            ..config
        };
        assert!(words(&config, None, 0).ends_with("--no-tail --directory /j --unit a.service _UID=0"));
    }
}

//! The systemd journal: `journalctl` as a command, with a cursor that outlives it.

use std::process::Command;

use super::config::{From, JournalConfig};

/// After so many starts without any output the cursor is doubted: the journal it is of may be gone.
const DOUBT: u32 = 3;

/// Whether a journal is read from its cursor on.
pub(super) fn trusts_cursor(starts_without_output: u32) -> bool {
    starts_without_output <= DOUBT
}

/// The command that gives the entries after `cursor`. `starts_without_output`: how often it was started in a row without giving any.
pub(super) fn command(config: &JournalConfig, cursor: Option<&str>, starts_without_output: u32) -> Command {
    let mut command = Command::new("journalctl");
    // All fields in full; otherwise long ones are left out. Without --merge, --follow shows the current boot only (systemd
    // 252), and what came last before the machine was started again would be lost.
    command.args(["--output=json", "--follow", "--all", "--quiet", "--merge"]);
    match (cursor, config.from) {
        (Some(cursor), _) if trusts_cursor(starts_without_output) => {
            command.arg("--no-tail").arg(format!("--after-cursor={cursor}"));
        }
        (None, From::Beginning) => {
            command.arg("--no-tail");
        }
        // A cursor that is of no use: better nothing twice than all of it.
        (_, _) => {
            command.arg("--lines=0");
        }
    }
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
        let command = command(config, cursor, starts_without_output);
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

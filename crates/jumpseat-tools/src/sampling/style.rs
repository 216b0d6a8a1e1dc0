//! Colours, for people at terminals.

use std::io::IsTerminal;

use crate::tool::Call;

/// Whether to colour.
#[derive(Clone, Copy)]
pub(super) struct Style {
    on: bool,
}

impl Style {
    /// Colours on a terminal, unless the tool was called by PCP's name or `NO_COLOR` is set.
    pub(super) fn of(call: &Call) -> Style {
        let wanted = !call.pcp && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Style { on: wanted && std::io::stdout().is_terminal() }
    }

    /// What everybody knows already.
    pub(super) fn label(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// Names of instances.
    pub(super) fn name(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Kinds of records.
    pub(super) fn kind(self, text: &str) -> String {
        self.wrap("36", text)
    }

    /// What is missing or wrong.
    pub(super) fn warning(self, text: &str) -> String {
        self.wrap("33", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

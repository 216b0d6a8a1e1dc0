//! Labels of this machine, where there is no collector to tell them (`pmLookupLabels(3)`, "context labels").

use std::fs;

use nix::unistd::{getegid, geteuid};

use super::host::this_host;
use pcp_model::{Label, LabelFlags, LabelKind, LabelSet, PM_IN_NULL};

/// What is said of a machine that has no domain.
const NO_DOMAIN: &str = "localdomain";
/// What is said of a machine that has no identifier.
const NO_MACHINE: &str = "localmachine";

/// The labels of a context on this machine, in the order of their names: those that PCP makes up.
pub(crate) fn of_this_host() -> Vec<LabelSet> {
    let flags = LabelFlags(LabelKind::Context.code() as u8);
    let domain = word_of("/proc/sys/kernel/domainname").filter(|domain| domain != "(none)");
    let labels = [
        ("domainname", text(domain.as_deref().unwrap_or(NO_DOMAIN))),
        ("groupid", getegid().to_string()),
        ("hostname", text(&this_host())),
        ("machineid", text(word_of("/etc/machine-id").as_deref().unwrap_or(NO_MACHINE))),
        ("userid", geteuid().to_string()),
    ];
    let label = |(name, value): (&str, String)| Label { name: name.to_owned(), value, flags };
    vec![LabelSet { inst: PM_IN_NULL, labels: Ok(labels.into_iter().map(label).collect()) }]
}

/// A text as the value of a label.
pub(crate) fn text(text: &str) -> String {
    format!("\"{}\"", text.replace(['"', '\\'], "_"))
}

/// The word that a file of the system holds.
fn word_of(file: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let word = text.trim();
    (!word.is_empty()).then(|| word.to_owned())
}

//! Where a source's records come from, for its labels.

/// The kinds of sources.
pub const KINDS: [&str; 6] = ["socket", "kernel", "otlp", "file", "command", "journal"];

/// What is known of a source besides its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The kind of source, one of [`KINDS`].
    pub kind: &'static str,
    /// Where it is: a path, an address, a command.
    pub address: String,
    /// The service that its sender says it is.
    pub service: Option<String>,
}

/// Names and values that a sender gave of itself. The names are such as labels may have, each there once.
pub type Labels = Vec<(String, String)>;

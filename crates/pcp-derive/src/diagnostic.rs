//! What is wrong with a definition in a context, as a value.

use std::fmt;
use std::sync::Arc;

use super::dialect::Level;
use super::meta::Meta;
use super::tree::{NodeId, Span};
use pcp_model::PmError;

/// Why a definition does not bind.
#[derive(Clone, Debug, PartialEq)]
pub struct BindError {
    /// The node that breaks a rule.
    pub node: NodeId,
    /// Where the problem is written.
    pub span: Span,
    /// What is wrong.
    pub kind: BindErrorKind,
    /// For broken type rules the operands of the node: where they are, and what is known of them.
    pub operands: Vec<(Span, Meta)>,
}

/// What is wrong with a definition.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BindErrorKind {
    /// No such metric.
    UnknownOperand(Box<str>),
    /// A metric without a descriptor.
    NoMetadata {
        /// Its name.
        name: Box<str>,
        /// The source's error.
        code: PmError,
    },
    /// A derived metric as operand, which PCP does not allow.
    Nested(Box<str>),
    /// No such metric, on a side of a ternary that counts.
    UnknownInTernary(Box<str>),
    /// A broken type rule: PCP's view of the operands, and its words.
    Semantic {
        /// The operator with its operands.
        context: String,
        /// The rule.
        text: &'static str,
    },
    /// A derived operand that does not bind itself (beyond PCP).
    BrokenOperand(Box<str>),
    /// Definitions that need each other: the names, the first being the last again (beyond PCP).
    Cycle(Vec<Arc<str>>),
    /// Definitions in definitions are too many or too large (beyond PCP).
    NestedTooDeeply(Box<str>),
}

impl BindError {
    /// PCP's words for the problem alone.
    pub fn text(&self) -> &'static str {
        match &self.kind {
            BindErrorKind::UnknownOperand(_) => "Unknown operand metric",
            BindErrorKind::NoMetadata { .. } => "Metadata for operand metric not available",
            BindErrorKind::Nested(_) => "Illegal nested derived metric",
            BindErrorKind::UnknownInTernary(_) => "Unknown metric for ternary expression",
            BindErrorKind::Semantic { text, .. } => text,
            BindErrorKind::BrokenOperand(_) => "Derived operand has errors",
            BindErrorKind::Cycle(_) => "Definitions need each other",
            BindErrorKind::NestedTooDeeply(_) => "Derived operands nested too deeply",
        }
    }

    /// The text that `pmAddDerived(3)` leaves; at some levels PCP has none for names that it does not
    /// find, and takes the definition.
    pub fn add_text(&self, level: Level) -> Option<&'static str> {
        let missing =
            matches!(self.kind, BindErrorKind::UnknownOperand(_) | BindErrorKind::NoMetadata { .. });
        Some(self.text()).filter(|_| !missing || level >= Level::V638)
    }

    /// The line that PCP prints when the definition of `name` is bound, if it prints any.
    pub fn printed(&self, name: &str, level: Level) -> Option<String> {
        let missing =
            matches!(self.kind, BindErrorKind::UnknownOperand(_) | BindErrorKind::NoMetadata { .. });
        (!missing || level >= Level::V721).then(|| format!("Semantic error: derived metric {name}: {self}\n"))
    }
}

impl fmt::Display for BindError {
    /// The problem and where it is, in PCP's form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            BindErrorKind::UnknownOperand(name)
            | BindErrorKind::NoMetadata { name, .. }
            | BindErrorKind::Nested(name)
            | BindErrorKind::UnknownInTernary(name)
            | BindErrorKind::BrokenOperand(name)
            | BindErrorKind::NestedTooDeeply(name) => write!(f, "operand {name}: {}", self.text()),
            BindErrorKind::Semantic { context, text } => write!(f, "{context}: {text}"),
            BindErrorKind::Cycle(path) => {
                for name in path {
                    write!(f, "{name} ")?;
                    if !std::ptr::eq(name, path.last().unwrap_or(name)) {
                        f.write_str("-> ")?;
                    }
                }
                write!(f, ": {}", self.text())
            }
        }
    }
}

impl std::error::Error for BindError {}

//! Metric labels (`docs/pcp/wire.md` 17, `pmLookupLabels(3)`).

use super::{Inst, PmError};

/// The level a label belongs to; also what a label request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum LabelKind {
    /// The host or container.
    Context = 1,
    /// All metrics of an agent.
    Domain = 2,
    /// All metrics with an instance domain.
    InDom = 4,
    /// A cluster of an agent's metrics.
    Cluster = 8,
    /// One metric.
    Item = 0x10,
    /// Each instance of an instance domain.
    Instances = 0x20,
}

impl LabelKind {
    /// The kind of a number from the wire; combinations and unknown bits are `None`.
    pub const fn from_code(code: i32) -> Option<LabelKind> {
        match code {
            1 => Some(LabelKind::Context),
            2 => Some(LabelKind::Domain),
            4 => Some(LabelKind::InDom),
            8 => Some(LabelKind::Cluster),
            0x10 => Some(LabelKind::Item),
            0x20 => Some(LabelKind::Instances),
            _ => None,
        }
    }

    /// The number on the wire.
    pub const fn code(self) -> i32 {
        self as i32
    }
}

/// A label's flag byte: its level, plus [`LabelFlags::COMPOUND`] and [`LabelFlags::OPTIONAL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LabelFlags(pub u8);

impl LabelFlags {
    /// The name is the innermost of a nested object.
    pub const COMPOUND: u8 = 0x40;
    /// Not part of a metric's identity.
    pub const OPTIONAL: u8 = 0x80;
}

/// One label: a name and its value as JSON text (strings keep their quotes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The name: a letter, then letters, digits or `_`, at most 254 bytes.
    pub name: String,
    /// The value, as JSON.
    pub value: String,
    /// Level and attributes.
    pub flags: LabelFlags,
}

/// The labels of one instance, or (instance [`super::PM_IN_NULL`]) of anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSet {
    /// The instance, or `PM_IN_NULL`.
    pub inst: Inst,
    /// The labels sorted by name, or why there are none.
    pub labels: Result<Vec<Label>, PmError>,
}

impl LabelSet {
    /// Labels in the order in which somebody else told them; of one name the later one stays behind the other.
    pub fn sorted(inst: Inst, mut labels: Vec<Label>) -> LabelSet {
        labels.sort_by(|a, b| a.name.cmp(&b.name));
        LabelSet { inst, labels: Ok(labels) }
    }
}

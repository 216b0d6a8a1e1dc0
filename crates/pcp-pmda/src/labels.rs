//! Metric labels: what an agent says about itself, its instance domains, clusters, metrics and instances
//! (`docs/pcp/wire.md` 17, `pmLookupLabels(3)`).

use pcp_model::{InDom, Inst, Label, LabelFlags, LabelKind, PmError, Pmid};

/// Most labels of one thing.
const MAX_LABELS: usize = 254;
/// Longest label name, in bytes.
const MAX_NAME: usize = 254;
/// Longest JSON text of all labels of one thing, in bytes.
const MAX_JSON: usize = 65_534;

/// What labels are about, among what an agent has. Context labels are the collector's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelSubject {
    /// All metrics of the agent.
    Domain,
    /// All metrics with this instance domain.
    InDom(InDom),
    /// All metrics of this cluster.
    Cluster(u16),
    /// This metric.
    Item(Pmid),
    /// This instance; asked once for each that is there.
    Instance(InDom, Inst),
}

impl LabelSubject {
    /// The level such labels belong to.
    pub fn kind(self) -> LabelKind {
        match self {
            LabelSubject::Domain => LabelKind::Domain,
            LabelSubject::InDom(_) => LabelKind::InDom,
            LabelSubject::Cluster(_) => LabelKind::Cluster,
            LabelSubject::Item(_) => LabelKind::Item,
            LabelSubject::Instance(..) => LabelKind::Instances,
        }
    }
}

/// Adds the labels of a subject to the list. An error is passed to the client in place of the labels.
pub(super) type LabelFn<S> = Box<dyn Fn(&S, LabelSubject, &mut LabelList) -> Result<(), PmError>>;

/// A label's value.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelValue {
    /// Text; escaped as JSON needs.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A whole number.
    Uint(u64),
    /// A number; JSON has none that are not finite, they become `null`.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
}

impl LabelValue {
    /// The value as JSON text.
    fn to_json(&self) -> String {
        match self {
            LabelValue::Text(text) => json_string(text),
            LabelValue::Int(number) => number.to_string(),
            LabelValue::Uint(number) => number.to_string(),
            LabelValue::Float(number) if number.is_finite() => format!("{number:?}"),
            LabelValue::Bool(truth) => truth.to_string(),
            LabelValue::Float(_) | LabelValue::Null => "null".to_owned(),
        }
    }
}

macro_rules! from {
    ($($rust:ty => $variant:ident),* $(,)?) => {
        $(impl From<$rust> for LabelValue {
            fn from(value: $rust) -> LabelValue {
                LabelValue::$variant(value.into())
            }
        })*
    };
}
from!(&str => Text, String => Text, i32 => Int, i64 => Int, u32 => Uint, u64 => Uint, f64 => Float, bool => Bool);

/// Why a label cannot be. As a [`PmError`] it is `EINVAL`, as in PCP's own label functions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// Not a letter followed by letters, digits or `_`, or too long.
    #[error("not a label name: {0:?}")]
    Name(String),
    /// The name is there already.
    #[error("label {0:?} twice")]
    Duplicate(String),
    /// More labels or bytes than a set of labels can hold.
    #[error("no room for label {0:?}")]
    Full(String),
}

impl From<LabelError> for PmError {
    fn from(_: LabelError) -> PmError {
        PmError::from_errno(nix::errno::Errno::EINVAL as i32)
    }
}

/// The labels of one subject being put together.
#[derive(Debug)]
pub struct LabelList {
    kind: LabelKind,
    labels: Vec<Label>,
    /// Length of the JSON text so far, braces included.
    json: usize,
}

impl LabelList {
    pub(super) fn new(kind: LabelKind) -> LabelList {
        LabelList { kind, labels: Vec::new(), json: 2 }
    }

    /// Adds a label that is part of the metrics' identity.
    ///
    /// # Errors
    /// [`LabelError`]; the list is as before then.
    pub fn add(&mut self, name: &str, value: impl Into<LabelValue>) -> Result<(), LabelError> {
        self.push(name, &value.into(), 0)
    }

    /// Adds a label that is not part of the metrics' identity.
    ///
    /// # Errors
    /// As [`LabelList::add`].
    pub fn add_optional(&mut self, name: &str, value: impl Into<LabelValue>) -> Result<(), LabelError> {
        self.push(name, &value.into(), LabelFlags::OPTIONAL)
    }

    /// Keeps the list sorted, and within what the format can say of a set: lengths and offsets of 16 bits.
    fn push(&mut self, name: &str, value: &LabelValue, flags: u8) -> Result<(), LabelError> {
        if !is_name(name) {
            return Err(LabelError::Name(name.to_owned()));
        }
        let at = match self.labels.binary_search_by(|label| label.name.as_str().cmp(name)) {
            Ok(_) => return Err(LabelError::Duplicate(name.to_owned())),
            Err(at) => at,
        };
        let value = value.to_json();
        // Two quotes, a colon, a comma.
        let json = self.json + name.len() + value.len() + 4;
        if self.labels.len() == MAX_LABELS || json > MAX_JSON {
            return Err(LabelError::Full(name.to_owned()));
        }
        self.json = json;
        let flags = LabelFlags(self.kind.code() as u8 | flags);
        self.labels.insert(at, Label { name: name.to_owned(), value, flags });
        Ok(())
    }

    /// The labels, sorted by name.
    pub(super) fn into_labels(self) -> Vec<Label> {
        self.labels
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= MAX_NAME
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `text` as a JSON string, quotes included.
pub(super) fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            c if (c as u32) < 0x20 => json.push_str(&format!("\\u{:04x}", c as u32)),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json() {
        for (value, json) in [
            (LabelValue::from("a\"b\\c\n\u{1}é"), r#""a\"b\\c\n\u0001é""#),
            (LabelValue::from(-5i64), "-5"),
            (LabelValue::from(u64::MAX), "18446744073709551615"),
            (LabelValue::from(1.0), "1.0"),
            (LabelValue::from(1e300), "1e300"),
            (LabelValue::from(f64::NAN), "null"),
            (LabelValue::from(true), "true"),
            (LabelValue::Null, "null"),
        ] {
            assert_eq!(value.to_json(), json);
            let read: serde_json::Value = serde_json::from_str(json).unwrap();
            if let LabelValue::Text(text) = value {
                assert_eq!(read, text);
            }
        }
    }

    #[test]
    fn labels_are_sorted_flagged_and_checked() {
        let mut list = LabelList::new(LabelKind::Cluster);
        list.add("b", "x").unwrap();
        list.add_optional("a_1", 7).unwrap();
        assert_eq!(list.add("b", "y"), Err(LabelError::Duplicate("b".into())));
        for bad in ["", "1a", "_a", "a.b", "a-b", "é", &"n".repeat(255)] {
            assert_eq!(list.add(bad, 1), Err(LabelError::Name(bad.into())));
        }
        assert!(matches!(list.add("c", "x".repeat(MAX_JSON)), Err(LabelError::Full(_))));
        let labels = list.into_labels();
        assert_eq!(
            labels.iter().map(|l| (l.name.as_str(), l.flags.0)).collect::<Vec<_>>(),
            [("a_1", 0x88), ("b", 0x08)]
        );
    }

    #[test]
    fn a_set_holds_no_more_than_the_format_can_say() {
        let mut list = LabelList::new(LabelKind::Item);
        for n in 0..MAX_LABELS {
            list.add(&format!("l{n}"), n as u64).unwrap();
        }
        assert!(matches!(list.add("more", 1), Err(LabelError::Full(_))));
    }
}

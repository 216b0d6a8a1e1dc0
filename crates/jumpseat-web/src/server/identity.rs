//! Identifiers of sources, series and instances: SHA-1 of texts, as PCP computes them (`docs/pcp/webapi.md` 9).
//!
//! Nothing of where something is recorded is hashed: the same metric in two archives of a host, and live, has one identifier.

use std::fmt;
use std::str::FromStr;

use pcp_model::{Desc, LabelFlags, LabelSet};
use serde::{Serialize, Serializer};
use sha1::{Digest, Sha1};

/// An identifier; as text 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id([u8; LEN]);

const LEN: usize = 20;

/// A text that is no identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoId {
    /// Where it is none.
    pub at: usize,
}

impl Id {
    /// What expressions have for a source.
    pub(super) const ZERO: Id = Id([0; LEN]);

    /// A source: what has these labels.
    pub(super) fn source(labels: &str) -> Id {
        Id::of(&["{\"series\":\"source\",\"labels\":", labels, "}"])
    }

    /// A metric of a source.
    pub(super) fn metric(name: &str, labels: &str, desc: &Desc) -> Id {
        let units = desc.units.to_string();
        let (semantics, kind) = (desc.semantics.name(), desc.value_type.name());
        Id::of(&[
            "{\"series\":\"metric\",\"name\":\"",
            name,
            "\",\"labels\":",
            labels,
            ",\"semantics\":\"",
            semantics,
            "\",\"type\":\"",
            kind,
            "\",\"units\":\"",
            &units,
            "\"}",
        ])
    }

    /// An instance.
    pub(super) fn instance(name: &str, labels: &str) -> Id {
        Id::of(&["{\"series\":\"instance\",\"name\":\"", name, "\",\"labels\":", labels, "}"])
    }

    /// What an expression computes.
    pub(super) fn expression(canonical: &str) -> Id {
        Id::of(&["{\"series\":\"expr\",\"expr\":\"", canonical, "\"}"])
    }

    /// Its 40 digits.
    pub(super) fn digits(self) -> [u8; 2 * LEN] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 2 * LEN];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        text
    }

    fn of(parts: &[&str]) -> Id {
        let mut hash = Sha1::new();
        parts.iter().for_each(|part| hash.update(part));
        Id(hash.finalize().into())
    }
}

impl FromStr for Id {
    type Err = NoId;

    fn from_str(text: &str) -> Result<Id, NoId> {
        let mut id = Id::ZERO;
        let bytes = text.as_bytes();
        for (number, byte) in id.0.iter_mut().enumerate() {
            let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
            let at = 2 * number;
            let (Some(high), Some(low)) = (digit(at), digit(at + 1)) else { return Err(NoId { at }) };
            *byte = u8::try_from(high << 4 | low).unwrap_or_default();
        }
        if bytes.len() == 2 * LEN { Ok(id) } else { Err(NoId { at: 2 * LEN }) }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Names and values, as JSON, of labels that several levels give: of one name the later level's. Without optional labels, which
/// are no part of what something is. Sorted by name.
pub(super) fn merged<'a>(sets: impl IntoIterator<Item = &'a LabelSet>) -> Vec<(String, String)> {
    let mut labels: Vec<(String, String)> = Vec::new();
    for label in sets.into_iter().filter_map(|set| set.labels.as_ref().ok()).flatten() {
        if label.flags.0 & LabelFlags::OPTIONAL != 0 {
            continue;
        }
        match labels.iter_mut().find(|(name, _)| *name == label.name) {
            Some((_, value)) => value.clone_from(&label.value),
            None => labels.push((label.name.clone(), label.value.clone())),
        }
    }
    labels.sort();
    labels
}

/// Labels as a JSON object without blanks; `null` for none.
pub(super) fn object(labels: &[(String, String)]) -> String {
    if labels.is_empty() {
        return "null".to_owned();
    }
    let mut text = String::from("{");
    for (number, (name, value)) in labels.iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        text.extend(["\"", name, "\":", value]);
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use pcp_model::{InDom, Pmid, Semantics, Units, ValueType};

    use super::*;

    /// The examples of the specification, which are real.
    #[test]
    fn identifiers_are_pcps() {
        let labels = object(&[("hostname".to_owned(), "\"bozo\"".to_owned())]);
        assert_eq!(Id::source(&labels).to_string(), "d674bbe4c84aa072789f77d85e8dbb1a46028926");
        let desc = Desc {
            pmid: Pmid::new(60, 0, 4),
            value_type: ValueType::U64,
            indom: InDom::new(60, 1),
            semantics: Semantics::Counter,
            units: Units::COUNT,
        };
        let read = Id::metric("disk.dev.read", &labels, &desc);
        assert_eq!(read.to_string(), "b2d8247efe39e8b95394f04c0e4f508cbaf3d7ee");
        assert_eq!(read.to_string().parse(), Ok(read));
        let instance = Id::instance("sdc", &labels);
        assert_eq!(instance.to_string(), "e10b5e9d62afdb34c4e858b61db99ff79f66382b");
    }

    #[test]
    fn what_is_no_identifier_is_told_with_its_place() {
        assert_eq!("xyz".parse::<Id>(), Err(NoId { at: 0 }));
        assert_eq!("84b94b4357ca0dfcc36f663b81127870a1b5f5b".parse::<Id>(), Err(NoId { at: 38 }));
        assert_eq!(format!("{}0", Id::ZERO).parse::<Id>(), Err(NoId { at: 40 }));
    }
}

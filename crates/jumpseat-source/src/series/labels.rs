//! Sets of labels, and the names of the instances that stand for them.
//!
//! ```text
//! shop@web-1{http.route=/cart,method=GET}     head { name = value , ... }, sorted by name
//! ```
//!
//! What would be read otherwise, and blanks, which end names for PCP's tools, are %HH; so every name reads back. The labels of the
//! instance have the names as PCP allows them, the name of the instance has them as they came.

use std::fmt;
use std::sync::Arc;

use jumpseat_wire::series::{RESOURCE_NAMES, escape};

use crate::registry::sanitize;

/// Longest name of an instance, in bytes, and most labels. What is longer is refused: two sets that differ only behind it would
/// be one.
pub const MAX_INSTANCE: usize = 4096;
/// See [`MAX_INSTANCE`].
pub const MAX_LABELS: usize = 64;

/// The value of a label.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum LabelText {
    Text(Box<str>),
    Int(i64),
    Bool(bool),
    Double(f64),
    /// A text that many have.
    Shared(Arc<str>),
}

/// A set of labels that identifies a series, and what else is to be told of it.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    head: String,
    identity: Vec<(String, LabelText)>,
    /// The labels that do not tell series apart.
    about: Vec<(String, LabelText)>,
    resource: Option<Arc<str>>,
}

impl Labels {
    /// A set. `head`: what its instances' names begin with, which is part of the identity.
    pub fn new(head: &str, identity: &[(String, LabelText)]) -> Labels {
        Labels { head: head.to_owned(), identity: identity.to_vec(), about: Vec::new(), resource: None }
    }

    /// Adds a label that tells the series from others.
    pub fn push(&mut self, name: &str, value: LabelText) {
        self.identity.push((name.to_owned(), value));
    }

    /// Adds a label that does not.
    pub fn push_about(&mut self, name: &str, value: LabelText) {
        self.about.push((name.to_owned(), value));
    }

    /// Says which labels are of the resource: their names, as [`jumpseat_wire::series::names`] writes them.
    pub fn set_resource_names(&mut self, names: Arc<str>) {
        self.resource = Some(names);
    }

    /// The set with one more label.
    pub fn with(&self, name: &str, value: LabelText) -> Labels {
        let mut more = self.clone();
        more.push(name, value);
        more
    }

    /// The name of the instance; `None` if it is too long, or there are too many labels.
    pub(super) fn instance(&self) -> Option<String> {
        if self.identity.len() + self.about.len() > MAX_LABELS {
            return None;
        }
        let mut sorted: Vec<&(String, LabelText)> = self.identity.iter().collect();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        // The last one of a name counts, as with maps.
        let mut name = String::new();
        escape(&mut name, &self.head, "{");
        if !sorted.is_empty() {
            let mut before = '{';
            for (index, (key, value)) in sorted.iter().enumerate() {
                if sorted.get(index + 1).is_some_and(|next| next.0 == *key) {
                    continue;
                }
                name.push(std::mem::replace(&mut before, ','));
                escape(&mut name, key, "=,{");
                name.push('=');
                escape(&mut name, &value.to_string(), ",");
                if name.len() > MAX_INSTANCE {
                    return None;
                }
            }
            name.push('}');
        }
        (!name.is_empty() && name.len() <= MAX_INSTANCE).then_some(name)
    }

    /// The labels for PCP: names as it allows them, each once.
    pub(super) fn told(&self) -> Arc<[(String, LabelText)]> {
        let mut told: Vec<(String, LabelText)> = Vec::with_capacity(self.identity.len() + self.about.len());
        // The last one of a name counts here, too.
        for (name, value) in self.identity.iter().rev().chain(&self.about) {
            let name = sanitize(name);
            // Two names that PCP cannot tell apart: the name of the instance has both.
            if !told.iter().any(|(known, _)| *known == name) {
                told.push((name, value.clone()));
            }
        }
        if let Some(names) = &self.resource
            && !told.iter().any(|(known, _)| known == RESOURCE_NAMES)
        {
            told.push((RESOURCE_NAMES.to_owned(), LabelText::Shared(Arc::clone(names))));
        }
        told.into()
    }

    /// Bytes of all texts.
    pub(super) fn bytes(&self) -> usize {
        let of = |labels: &[(String, LabelText)]| -> usize {
            labels.iter().map(|(name, value)| name.len() + value.len() + 64).sum()
        };
        of(&self.identity) + of(&self.about) + if self.resource.is_some() { 64 } else { 0 }
    }
}

impl LabelText {
    fn len(&self) -> usize {
        match self {
            LabelText::Text(text) => text.len(),
            _ => 8,
        }
    }
}

impl From<&str> for LabelText {
    fn from(text: &str) -> LabelText {
        LabelText::Text(text.into())
    }
}

impl fmt::Display for LabelText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelText::Text(text) => f.write_str(text),
            LabelText::Shared(text) => f.write_str(text),
            LabelText::Int(number) => number.fmt(f),
            LabelText::Bool(bit) => bit.fmt(f),
            LabelText::Double(number) => number.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_one_name_in_whatever_order_they_come() {
        let labels = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            Labels::new("shop", &pairs).instance()
        };
        let expected = Some("shop{a=1,http.route=/x%20y%2c{id}}".to_owned());
        assert_eq!(labels(&[("http.route", "/x y,{id}"), ("a", "1")]), expected);
        assert_eq!(labels(&[("a", "1"), ("http.route", "/x y,{id}")]), expected);
        assert_eq!(labels(&[("a", "0"), ("a", "1")]).as_deref(), Some("shop{a=1}"));
        assert_ne!(labels(&[("a", "1,b=2")]), labels(&[("a", "1"), ("b", "2")]));
        assert_eq!(labels(&[]).as_deref(), Some("shop"));
        assert_eq!(labels(&[("a", &"x".repeat(1 << 20))]), None);
        assert_eq!(Labels::new("", &[]).instance(), None);
        assert_eq!(Labels::new("(retired:1) x", &[]).instance().as_deref(), Some("%28retired:1)%20x"));
    }
    proptest::proptest! {
        #[test]
        fn every_name_comes_apart_again(head in "\\PC{0,8}|[a-z{}=,% ]{1,6}", pairs in proptest::collection::btree_map("\\PC{0,8}|[a-z{}=,% ]{0,6}", "\\PC{0,8}|[a-z{}=,% ]{0,6}", 0..4)) {
            let identity: Vec<(String, LabelText)> =
                pairs.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            if let Some(name) = Labels::new(&head, &identity).instance() {
                let parsed = jumpseat_wire::series::parse(&name);
                let expected = jumpseat_wire::series::Parsed { head, pairs: pairs.into_iter().collect() };
                proptest::prop_assert_eq!(parsed, Some(expected));
            }
        }
    }
}

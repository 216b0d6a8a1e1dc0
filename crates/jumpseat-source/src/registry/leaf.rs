//! What the metric of an event field is called: from field name and type to a leaf below
//! `jumpseat.field`.
//!
//! The first type seen of a field gets the plain name (`latency`), later types get the type appended
//! (`latency_double`), and a name that is taken by then gets a number (`latency_2`). The outcome depends
//! only on the order in which (field, type) pairs were first seen. That order is what the id file
//! keeps, so replaying it gives every field the same name again after a restart.

use std::collections::{HashMap, HashSet};

use jumpseat_wire::series;
#[cfg(test)]
use jumpseat_wire::series::MAX_LABEL as MAX_LEAF;
use pcp_model::ValueType;
/// Hands out leaf names and remembers which are taken.
#[derive(Debug, Default)]
pub(super) struct LeafNames {
    taken: HashSet<String>,
    /// The plain name each field got, or would have got, for its first type.
    seen: HashMap<String, String>,
    /// By a name that was taken, the number to try for the next that wants it: all smaller ones are taken, too.
    next: HashMap<String, u64>,
    /// How many names were tried so far.
    #[cfg(test)]
    tried: u64,
}

impl LeafNames {
    /// The leaf name of a (field, type) pair that was not seen before.
    pub(super) fn allocate(&mut self, field: &str, value_type: ValueType) -> String {
        let wanted = match self.seen.get(field) {
            None => {
                let plain = sanitize(field);
                self.seen.insert(field.to_owned(), plain.clone());
                plain
            }
            Some(plain) => format!("{plain}_{}", type_word(value_type)),
        };
        let leaf = if self.is_taken(&wanted) { self.numbered(&wanted) } else { wanted };
        self.taken.insert(leaf.clone());
        leaf
    }

    /// A name that is free, made of one that is not.
    fn numbered(&mut self, wanted: &str) -> String {
        let mut number = self.next.get(wanted).copied().unwrap_or(2);
        let mut name = format!("{wanted}_{number}");
        while self.is_taken(&name) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        self.next.insert(wanted.to_owned(), number + 1);
        name
    }

    fn is_taken(&mut self, name: &str) -> bool {
        #[cfg(test)]
        {
            self.tried += 1;
        }
        self.taken.contains(name)
    }
}

/// A name the PMNS accepts, as labels have them, too.
pub(crate) fn sanitize(field: &str) -> String {
    series::label(field)
}

/// The word for a type in leaf names and in the id file.
pub(super) const fn type_word(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::I32 => "i32",
        ValueType::U32 => "u32",
        ValueType::I64 => "i64",
        ValueType::U64 => "u64",
        ValueType::Float => "float",
        ValueType::Double => "double",
        ValueType::String => "string",
        _ => "aggregate",
    }
}

/// The type of a [`type_word`].
pub(super) fn type_of_word(word: &str) -> Option<ValueType> {
    Some(match word {
        "i32" => ValueType::I32,
        "u32" => ValueType::U32,
        "i64" => ValueType::I64,
        "u64" => ValueType::U64,
        "float" => ValueType::Float,
        "double" => ValueType::Double,
        "string" => ValueType::String,
        "aggregate" => ValueType::Aggregate,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ValueType::{Double, I64, String as Text};

    #[test]
    fn names_the_pmns_accepts() {
        for (field, leaf) in [
            ("latency", "latency"),
            ("http.status-code", "http_status_code"),
            ("9lives", "f9lives"),
            ("_x", "f_x"),
            ("", "f"),
            ("größe", "gr__e"),
            ("日本", "f__"),
        ] {
            assert_eq!(sanitize(field), leaf);
        }
        assert_eq!(sanitize(&"n".repeat(500)).len(), MAX_LEAF);
    }

    #[test]
    fn later_types_and_collisions_get_suffixes() {
        let mut names = LeafNames::default();
        for (field, value_type, leaf) in [
            ("latency", I64, "latency"),
            ("latency", Double, "latency_double"),
            ("latency.", Text, "latency_"),
            ("a.b", I64, "a_b"),
            ("a-b", I64, "a_b_2"),
            ("a_b", I64, "a_b_3"),
            ("a-b", Double, "a_b_double"),
            ("a.b", Double, "a_b_double_2"),
            ("latency_double", I64, "latency_double_2"),
        ] {
            assert_eq!(names.allocate(field, value_type), leaf, "{field} {value_type:?}");
        }
    }

    #[test]
    fn names_that_collide_cost_no_more_than_others() {
        let mut names = LeafNames::default();
        const FIELDS: u32 = 4096;
        for number in 0..FIELDS {
            let field = char::from_u32(0x4e00 + number).expect("a character").to_string();
            let leaf = names.allocate(&field, I64);
            assert_eq!(leaf, if number == 0 { "f_".to_owned() } else { format!("f__{}", number + 1) });
        }
        assert!(names.tried <= 2 * u64::from(FIELDS), "{} tries", names.tried);
    }

    #[test]
    fn every_parameter_type_has_a_word() {
        for code in 0..=7 {
            let value_type = ValueType::from_code(code);
            assert_eq!(type_of_word(type_word(value_type)), Some(value_type));
        }
        assert_eq!(type_of_word("reserved"), None);
    }
}

//! A TOML text as values that know where they stand, and the types of the configuration read from it.
//!
//! The `toml` crate's own deserializer gives an error as text with a place. What people need is the key with its
//! table, and words for the form that is allowed, so serde is driven over the parsed values here.

use std::fmt;
use std::ops::Range;

use serde::Deserializer;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error as _, Expected, IntoDeserializer as _, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A parsed configuration text.
pub(crate) struct Document<'a> {
    text: &'a str,
    root: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    /// Parses a text; nothing is known of its keys yet.
    ///
    /// # Errors
    /// The text is no TOML.
    pub(crate) fn parse(text: &'a str) -> Result<Document<'a>, toml::de::Error> {
        Ok(Document { text, root: DeTable::parse(text)? })
    }

    /// Reads all of it as a type.
    ///
    /// # Errors
    /// The first key that the type does not have, or whose value is not of its form.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, FormError> {
        T::deserialize(MapAccessDeserializer::new(Entries::new(self.root.get_ref())))
    }

    /// The line, from 1, of a key in the `nth` table of a name; of that table where it lacks the key; `None` where the
    /// table is not there either. The table with the empty name is the whole text.
    pub(crate) fn line_of_key(&self, table: &str, nth: usize, key: &str) -> Option<usize> {
        if table.is_empty() {
            let (found, _) = self.root.get_ref().get_key_value(key)?;
            return Some(line_at(self.text, found.span().start));
        }
        let table = match self.root.get_ref().get(table)? {
            // `[[table]]`: the parser makes an array of tables of all with this name.
            table if table.get_ref().is_array() => table.get_ref().get(nth)?,
            table => table,
        };
        let found = table.get_ref().as_table().and_then(|table| table.get_key_value(key));
        // A limit may be wrong because of a key that is not there; its table is where to put it.
        let span = found.map_or_else(|| table.span(), |(key, _)| key.span());
        Some(line_at(self.text, span.start))
    }
}

/// The line of an offset, from 1.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// A key that does not exist, or a value of the wrong form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormError {
    subject: Subject,
    message: String,
}

/// What is wrong: known from the inside to the outside, as deserializers return.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// Not known yet.
    Unknown,
    /// A key, or a table as a whole: the message names it, so its place is enough.
    Header(Range<usize>),
    /// The value of a key, with the tables it is in.
    Value(String, Range<usize>),
}

impl FormError {
    /// Bytes from the beginning of the text.
    pub fn offset(&self) -> usize {
        match &self.subject {
            Subject::Unknown => 0,
            Subject::Header(span) | Subject::Value(_, span) => span.start,
        }
    }

    fn at_key(self, key: &Spanned<DeString<'_>>) -> FormError {
        FormError { subject: Subject::Header(key.span()), ..self }
    }

    /// Says of an error that came out of a value under which key that was.
    fn within(self, key: &str, value: &Spanned<DeValue<'_>>) -> FormError {
        let subject = match self.subject {
            // A table where there should be none, or the other way round: the message is about the brackets.
            Subject::Unknown if value.get_ref().is_table() => Subject::Header(value.span()),
            Subject::Unknown => Subject::Value(key.to_owned(), value.span()),
            Subject::Value(inner, span) => Subject::Value(format!("{key}.{inner}"), span),
            // A key that does not exist is not made clearer by the tables it is in: the line is.
            header @ Subject::Header(_) => header,
        };
        FormError { subject, ..self }
    }
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Value(key, _) => write!(f, "{key}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for FormError {}

impl serde::de::Error for FormError {
    fn custom<T: fmt::Display>(message: T) -> FormError {
        FormError { subject: Subject::Unknown, message: message.to_string() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> FormError {
        FormError::custom(format_args!("invalid type: {found}, expected {}", plain(found, expected)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> FormError {
        FormError::custom(format_args!("invalid value: {found}, expected {}", plain(found, expected)))
    }
}

/// Serde names types of the language that this is written in; those who write configurations need not know them.
fn plain(found: Unexpected<'_>, expected: &dyn Expected) -> String {
    let words = match (expected.to_string(), found) {
        (number, _) if matches!(&*number, "u16" | "u32" | "u64" | "usize") => "a whole number, 0 or more",
        (text, _) if matches!(&*text, "path string" | "a string") => "text in quotes",
        (flag, _) if flag == "a boolean" => "true or false",
        (list, Unexpected::Map) if list == "a sequence" => {
            "tables of this name in double brackets, such as [[socket]]"
        }
        (list, _) if list == "a sequence" => "a list in brackets",
        (other, _) => return other,
    };
    words.to_owned()
}

/// One value on its way into a type.
struct Value<'a, 'i>(&'a Spanned<DeValue<'i>>);

impl<'de> Deserializer<'de> for Value<'_, '_> {
    type Error = FormError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        match self.0.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            // The parser has checked the digits and taken out the underscores, but not the size.
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => {
                    Err(FormError::invalid_value(Unexpected::Other("a number beyond 64 bits"), &visitor))
                }
            },
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => {
                    Err(FormError::invalid_value(Unexpected::Other("a number beyond 64 bits"), &visitor))
                }
            },
            DeValue::Boolean(flag) => visitor.visit_bool(*flag),
            DeValue::Datetime(_) => {
                Err(FormError::invalid_type(Unexpected::Other("a date or a time"), &visitor))
            }
            DeValue::Array(items) => visitor.visit_seq(Items(items.iter())),
            DeValue::Table(table) => visitor.visit_map(Entries::new(table)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FormError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FormError> {
        match self.0.get_ref() {
            // All enums of the configuration are words.
            DeValue::String(text) => visitor.visit_enum((**text).into_deserializer()),
            _ => Err(FormError::custom("wanted string or table")),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// The elements of an array.
struct Items<'a, 'i>(std::slice::Iter<'a, Spanned<DeValue<'i>>>);

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = FormError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, FormError> {
        self.0.next().map(|item| seed.deserialize(Value(item))).transpose()
    }
}

/// The keys of a table and their values.
struct Entries<'a, 'i> {
    table: <&'a DeTable<'i> as IntoIterator>::IntoIter,
    /// The entry whose key was given out last.
    entry: Option<(&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>)>,
}

impl<'a, 'i> Entries<'a, 'i> {
    fn new(table: &'a DeTable<'i>) -> Entries<'a, 'i> {
        Entries { table: table.into_iter(), entry: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = FormError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FormError> {
        self.entry = self.table.next();
        let Some((key, _)) = self.entry else { return Ok(None) };
        seed.deserialize((**key.get_ref()).into_deserializer())
            .map(Some)
            .map_err(|error: FormError| error.at_key(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FormError> {
        debug_assert!(self.entry.is_some(), "a value is asked for after its key");
        let Some((key, value)) = self.entry else { return Err(FormError::custom("a value without a key")) };
        seed.deserialize(Value(value)).map_err(|error| error.within(key.get_ref(), value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn keys_are_found_however_they_are_written() {
        let text = "a.x = 1\n\n[[b]]\ny = [\n  1,\n]\n[[b]]\n\n[c]\n";
        let document = Document::parse(text).expect("it is TOML");
        for (table, nth, key, line) in [
            ("a", 0, "x", Some(1)),
            ("b", 0, "y", Some(4)),
            ("b", 1, "y", Some(7)),
            ("b", 2, "y", None),
            ("c", 0, "z", Some(9)),
            ("d", 0, "z", None),
            ("", 0, "c", Some(9)),
            ("", 0, "z", None),
        ] {
            assert_eq!(document.line_of_key(table, nth, key), line, "{table} {nth} {key}");
        }
    }

    #[test]
    fn an_error_tells_the_key_with_its_tables_and_where_the_value_is() {
        let error = |text: &str| {
            let document = Document::parse(text).expect("it is TOML");
            let error = document.read::<BTreeMap<String, BTreeMap<String, Vec<u16>>>>().expect_err(text);
            (error.to_string(), line_at(text, error.offset()))
        };
        let number = "a whole number, 0 or more";
        for (text, message, line) in [
            (
                "[a]\nb = [1,\n2]\nc = [\n'x']",
                format!("a.c: invalid type: string \"x\", expected {number}"),
                4,
            ),
            ("a = { b = [70000] }", format!("a.b: invalid value: integer `70000`, expected {number}"), 1),
            (
                "a.b = [0x1_0000_0000_0000_0000]",
                format!("a.b: invalid value: a number beyond 64 bits, expected {number}"),
                1,
            ),
            ("a.b = [1979-05-27]", format!("a.b: invalid type: a date or a time, expected {number}"), 1),
            (
                "[a]\n[a.b]\n",
                "invalid type: map, expected tables of this name in double brackets, such as [[socket]]"
                    .to_owned(),
                2,
            ),
        ] {
            assert_eq!(error(text), (message, line));
        }
    }
}

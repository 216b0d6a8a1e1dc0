//! A TOML text as values that know where they stand, and the types of the configuration read from it.
//!
//! The `toml` crate's own deserializer gives an error as text with a place. What people need is the key with its
//! table, and words for the form that is allowed, so serde is driven over the parsed values here.

use std::cell::Cell;
use std::collections::HashSet;
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

use pcp_model::text::nearest;

/// A parsed configuration text.
///
/// What is wrong in it is told entry by entry: the one that was told of is set aside, as if it were not there, and all
/// is read again. So each mistake is told once, and none that is but the consequence of another.
pub(crate) struct Document<'a> {
    text: &'a str,
    root: Spanned<DeTable<'a>>,
    aside: HashSet<Entry>,
}

/// An entry of a table or an array: where its value is in memory, which is the same as long as the document lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry(usize);

impl Entry {
    fn of(value: &Spanned<DeValue<'_>>) -> Entry {
        Entry(std::ptr::from_ref(value).addr())
    }
}

/// Where a key of a table is, or should be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Located {
    /// Its line, from 1; that of its table where it is not there; `None` where the table is not there either.
    pub(crate) line: Option<usize>,
    /// Its entry.
    pub(crate) key: Option<Entry>,
    /// That of its table.
    pub(crate) table: Option<Entry>,
    /// It, or what must have been meant for it, has been set aside.
    pub(crate) is_aside: bool,
}

impl<'a> Document<'a> {
    /// Parses a text, as far as it is TOML, and gives what is not; nothing is known of its keys yet.
    pub(crate) fn parse(text: &'a str) -> (Document<'a>, Vec<toml::de::Error>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        (Document { text, root, aside: HashSet::new() }, errors)
    }

    /// Reads all of it as a type, but for what has been set aside.
    ///
    /// # Errors
    /// The first key that the type does not have, or whose value is not of its form, and which entry that is.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, (FormError, Option<Entry>)> {
        let reading = Reading { aside: &self.aside, culprit: Cell::new(None) };
        T::deserialize(MapAccessDeserializer::new(Entries::new(self.root.get_ref(), &reading)))
            .map_err(|error| (error, reading.culprit.get()))
    }

    /// Has an entry count as not there. Gives whether it did not before.
    pub(crate) fn set_aside(&mut self, entry: Entry) -> bool {
        self.aside.insert(entry)
    }

    /// Where a key is in the `nth` table of a name, those that were set aside not counted. The table with the empty name
    /// is the whole text.
    pub(crate) fn locate(&self, table: &str, nth: usize, key: &str) -> Located {
        let root = self.root.get_ref();
        if table.is_empty() {
            return self.locate_in(root, key);
        }
        let Some(value) = root.get(table) else { return Located::default() };
        let value = match value.get_ref().as_array() {
            // `[[table]]`: the parser makes an array of tables of all with this name.
            Some(tables) => {
                let mut present = tables.iter().filter(|table| !self.aside.contains(&Entry::of(table)));
                let Some(value) = present.nth(nth) else { return Located::default() };
                value
            }
            None => value,
        };
        let found = value.get_ref().as_table().map_or(Located::default(), |table| self.locate_in(table, key));
        // A limit may be wrong because of a key that is not there; its table is where to put it.
        let line = found.line.or_else(|| Some(line_at(self.text, value.span().start)));
        Located { line, table: Some(Entry::of(value)), ..found }
    }

    fn locate_in(&self, table: &DeTable<'a>, key: &str) -> Located {
        let Some((found, value)) = table.get_key_value(key) else {
            let mut aside = table.iter().filter(|(_, value)| self.aside.contains(&Entry::of(value)));
            let is_aside = aside.any(|(other, _)| nearest(other.get_ref(), [key]).is_some());
            return Located { is_aside, ..Located::default() };
        };
        let entry = Entry::of(value);
        Located {
            line: Some(line_at(self.text, found.span().start)),
            key: Some(entry),
            table: None,
            is_aside: self.aside.contains(&entry),
        }
    }
}

/// One reading of a document.
struct Reading<'a> {
    /// What is not to be seen.
    aside: &'a HashSet<Entry>,
    /// The innermost entry that an error came out of.
    culprit: Cell<Option<Entry>>,
}

impl Reading<'_> {
    fn shows(&self, value: &Spanned<DeValue<'_>>) -> bool {
        !self.aside.contains(&Entry::of(value))
    }

    fn blame(&self, value: &Spanned<DeValue<'_>>) {
        self.culprit.set(self.culprit.get().or(Some(Entry::of(value))));
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
    /// An element of a list whose key is not known yet.
    Element(Range<usize>),
}

impl FormError {
    /// Bytes from the beginning of the text.
    pub fn offset(&self) -> usize {
        match &self.subject {
            Subject::Unknown => 0,
            Subject::Header(span) | Subject::Value(_, span) | Subject::Element(span) => span.start,
        }
    }

    fn at_key(self, key: &Spanned<DeString<'_>>) -> FormError {
        FormError { subject: Subject::Header(key.span()), ..self }
    }

    /// Says of an error that came out of an element which one it was.
    fn within_list(self, element: &Spanned<DeValue<'_>>) -> FormError {
        match self.subject {
            Subject::Unknown => FormError { subject: Subject::Element(element.span()), ..self },
            _ => self,
        }
    }

    /// Says of an error that came out of a value under which key that was.
    fn within(self, key: &str, value: &Spanned<DeValue<'_>>) -> FormError {
        let subject = match self.subject {
            // A table where there should be none, or the other way round: the message is about the brackets.
            Subject::Unknown if value.get_ref().is_table() => Subject::Header(value.span()),
            Subject::Unknown => Subject::Value(key.to_owned(), value.span()),
            Subject::Element(span) => Subject::Value(key.to_owned(), span),
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

    fn unknown_field(found: &str, known: &'static [&'static str]) -> FormError {
        unknown("field", found, known)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> FormError {
        unknown("variant", found, known)
    }
}

/// What there is instead, the nearest of it last, where it is seen best.
fn unknown(what: &str, found: &str, known: &'static [&'static str]) -> FormError {
    let mut words: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    let expected = match words.len() {
        0 => "there is none".to_owned(),
        1 => format!("expected {}", words.remove(0)),
        2 => format!("expected {}", words.join(" or ")),
        _ => format!("expected one of {}", words.join(", ")),
    };
    let hint = nearest(found, known.iter().copied());
    let hint = hint.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    FormError::custom(format_args!("unknown {what} `{found}`, {expected}{hint}"))
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
        (table, _) if table.starts_with("struct ") => "a table",
        (other, _) => return other,
    };
    words.to_owned()
}

/// One value on its way into a type.
struct Value<'a, 'i> {
    value: &'a Spanned<DeValue<'i>>,
    reading: &'a Reading<'a>,
}

impl<'de> Deserializer<'de> for Value<'_, '_> {
    type Error = FormError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        match self.value.get_ref() {
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
            DeValue::Array(items) => visitor.visit_seq(Items { items: items.iter(), reading: self.reading }),
            DeValue::Table(table) => visitor.visit_map(Entries::new(table, self.reading)),
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
        match self.value.get_ref() {
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
struct Items<'a, 'i> {
    items: std::slice::Iter<'a, Spanned<DeValue<'i>>>,
    reading: &'a Reading<'a>,
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = FormError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, FormError> {
        let reading = self.reading;
        let Some(item) = self.items.find(|item| reading.shows(item)) else { return Ok(None) };
        let value = seed.deserialize(Value { value: item, reading }).map_err(|error: FormError| {
            reading.blame(item);
            error.within_list(item)
        })?;
        Ok(Some(value))
    }
}

/// The keys of a table and their values.
struct Entries<'a, 'i> {
    table: <&'a DeTable<'i> as IntoIterator>::IntoIter,
    /// The entry whose key was given out last.
    entry: Option<(&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>)>,
    reading: &'a Reading<'a>,
}

impl<'a, 'i> Entries<'a, 'i> {
    fn new(table: &'a DeTable<'i>, reading: &'a Reading<'a>) -> Entries<'a, 'i> {
        Entries { table: table.into_iter(), entry: None, reading }
    }
}

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = FormError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FormError> {
        let reading = self.reading;
        self.entry = self.table.find(|(_, value)| reading.shows(value));
        let Some((key, value)) = self.entry else { return Ok(None) };
        seed.deserialize((**key.get_ref()).into_deserializer()).map(Some).map_err(|error: FormError| {
            reading.blame(value);
            error.at_key(key)
        })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FormError> {
        debug_assert!(self.entry.is_some(), "a value is asked for after its key");
        let Some((key, value)) = self.entry else { return Err(FormError::custom("a value without a key")) };
        let reading = self.reading;
        seed.deserialize(Value { value, reading }).map_err(|error| {
            reading.blame(value);
            error.within(key.get_ref(), value)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn keys_are_found_however_they_are_written() {
        let text = "a.x = 1\n\n[[b]]\ny = [\n  1,\n]\n[[b]]\n\n[c]\n";
        let (document, errors) = Document::parse(text);
        assert!(errors.is_empty(), "{errors:?}");
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
            assert_eq!(document.locate(table, nth, key).line, line, "{table} {nth} {key}");
        }
    }

    #[test]
    fn an_error_tells_the_key_with_its_tables_and_where_the_value_is() {
        let error = |text: &str| {
            let (document, errors) = Document::parse(text);
            assert!(errors.is_empty(), "{errors:?}");
            let (error, _) = document.read::<BTreeMap<String, BTreeMap<String, Vec<u16>>>>().expect_err(text);
            (error.to_string(), line_at(text, error.offset()))
        };
        let number = "a whole number, 0 or more";
        for (text, message, line) in [
            (
                "[a]\nb = [1,\n2]\nc = [\n'x']",
                format!("a.c: invalid type: string \"x\", expected {number}"),
                5,
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

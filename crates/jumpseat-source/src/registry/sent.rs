//! Names of event types and spans as they were sent, and the words that stand for them in names of instances.
//!
//! An instance is called `SOURCE/WORD`. The word is the name with blanks and control characters as underscores, and cut: for
//! PCP a name of an instance ends at its first blank. Names that would have the same word are told apart: who comes first has
//! it, the others' have a `~` and six digits behind it, which come from the name, so that they are the same on all hosts.
//!
//! The id file has both: `SOURCE/WORD`, a blank, and the name as it was sent with `\` in front of what a line cannot have.
//! A word that can stand for one name only stands alone, and so do the words for names that nobody sent ([`UNTYPED`],
//! [`OTHER_TYPES`]).
//!
//! In files of 0.2.0 and before there are words only, each for all names that gave it. Such a word is taken by the first of them that comes,
//! with its id.

use std::borrow::Cow;
use std::fmt::Write as _;

use pcp_ids::IdMap;
use pcp_model::Inst;
use pcp_model::text::cut;

use super::words::{MAX_TYPE_NAME, OTHER_TYPES, UNTYPED};

/// Longest name of an event type or span that is told apart from others, in bytes; what is longer is cut.
pub const MAX_SENT_NAME: usize = 256;

/// Most words that are tried for a name.
const MAX_TRIES: u32 = 4;

/// The name of an event type or of a span.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SentName {
    /// None, or an empty one.
    Untyped,
    /// Any of those beyond the cap.
    Other,
    /// As it was sent, up to [`MAX_SENT_NAME`] bytes.
    As(Box<str>),
}

/// Where a name stands in the id file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// There, or to be put there: this text.
    Text(String),
    /// The text with this id is to become this one.
    Claim(Inst, String),
    /// There is no word for it.
    None,
}

impl SentName {
    /// A name as an event has it; not UTF-8 is read lossily.
    pub fn of(name: Option<&[u8]>) -> SentName {
        match name {
            None | Some([]) => SentName::Untyped,
            Some(name) => {
                // Not all of a long one is looked at: a character more than fits, for the cut.
                let begin = &name[..name.len().min(MAX_SENT_NAME + 4)];
                SentName::As(cut(&String::from_utf8_lossy(begin), MAX_SENT_NAME).into())
            }
        }
    }

    /// For labels.
    pub fn as_str(&self) -> &str {
        match self {
            SentName::Untyped => UNTYPED,
            SentName::Other => OTHER_TYPES,
            SentName::As(name) => name,
        }
    }

    /// Where it stands, or shall stand, among the names of a source.
    pub(super) fn place(&self, source: &str, ids: &IdMap) -> Place {
        let SentName::As(name) = self else { return Place::Text(format!("{source}/{}", self.as_str())) };
        let plain = word(name);
        let mut hash = None;
        for attempt in 0..=MAX_TRIES {
            let word = match (attempt, &mut hash) {
                // These words are not for names that somebody sends.
                (0, _) if plain == UNTYPED || plain == OTHER_TYPES => continue,
                (0, _) => Cow::Borrowed(&*plain),
                (_, hash) => {
                    let hash = hash.get_or_insert_with(|| fnv1a(name.as_bytes()));
                    let digits = (*hash >> (attempt - 1)) & 0x00ff_ffff;
                    Cow::Owned(format!("{plain}~{digits:06x}"))
                }
            };
            let instance = format!("{source}/{word}");
            let text = text(&instance, &word, name);
            match ids.owner(&instance) {
                None => return Place::Text(text),
                Some((_, owner)) if owner == text => return Place::Text(text),
                // Of 0.2.0 or before.
                Some((id, owner)) if attempt == 0 && owner == instance => return Place::Claim(id, text),
                Some(_) => {}
            }
        }
        Place::None
    }
}

/// A text of the id file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed<'a> {
    /// The name of the instance, `SOURCE/WORD`.
    pub instance: &'a str,
    pub source: &'a str,
    pub name: SentName,
}

/// Reads a text of the id file; `None` if there is no source in it.
pub(super) fn parse(text: &str) -> Option<Parsed<'_>> {
    let (instance, sent) = match text.split_once(' ') {
        Some((instance, sent)) => (instance, Some(sent)),
        None => (text, None),
    };
    let (source, word) = instance.split_once('/')?;
    let name = match (sent, word) {
        (Some(sent), _) => SentName::As(unescape(sent).into()),
        (None, UNTYPED) => SentName::Untyped,
        (None, OTHER_TYPES) => SentName::Other,
        (None, word) => SentName::As(word.into()),
    };
    Some(Parsed { instance, source, name })
}

/// The word for a name.
fn word(name: &str) -> String {
    let tidy = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
    cut(name, MAX_TYPE_NAME).chars().map(tidy).collect()
}

/// What stands in the file for a name.
fn text(instance: &str, word: &str, name: &str) -> String {
    // Nothing else gives such a word: neither a blank nor a cut.
    let is_only = word == name && !word.contains('_') && word.len() + 3 < MAX_TYPE_NAME;
    match is_only {
        true => instance.to_owned(),
        false => format!("{instance} {}", escape(name)),
    }
}

fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            // Writing to a String cannot fail.
            c if c.is_control() => _ = write!(escaped, "\\{:x};", c as u32),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Whatever is no escape is as it stands.
fn unescape(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        name.push_str(before);
        let control = after.split_once(';').and_then(|(digits, after)| {
            Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, after))
        });
        rest = match (after.strip_prefix('\\'), control) {
            (Some(after), _) => {
                name.push('\\');
                after
            }
            (None, Some((c, after))) => {
                name.push(c);
                after
            }
            (None, None) => {
                name.push('\\');
                after
            }
        };
    }
    name.push_str(rest);
    name
}

/// The FNV-1a hash, which is the same on all machines and for all time.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(ids: &mut IdMap, name: &str) -> (Inst, String) {
        match SentName::of(Some(name.as_bytes())).place("app", ids) {
            Place::Text(text) => {
                let id = ids.get_or_add(&text).expect("a name that a file can have");
                (id, text)
            }
            Place::Claim(id, text) => {
                ids.extend(id, &text).expect("a name that a file can have");
                (id, text)
            }
            Place::None => panic!("no word for {name:?}"),
        }
    }

    #[test]
    fn distinct_names_have_distinct_words_and_come_back() {
        let mut ids = IdMap::in_memory();
        let long = "n".repeat(100);
        let names = [
            "login",
            "x y",
            "x_y",
            "x\ty",
            "x\\9;y",
            " x",
            "(none)",
            "(other)",
            "größe_1",
            "a/b c",
            "\\",
            "",
            &long,
            &format!("{long}2"),
            "x_y x_y",
            "[01] x",
            "(retired:1) x",
        ];
        let known: Vec<(Inst, String)> = names.iter().map(|name| add(&mut ids, name)).collect();
        let mut instances: Vec<&str> = known.iter().filter_map(|(_, text)| text.split(' ').next()).collect();
        assert_eq!(instances[..3], ["app/login", "app/x_y", "app/x_y~b97783"]);
        for ((id, text), name) in known.iter().zip(names) {
            assert_eq!(add(&mut ids, name), (*id, text.clone()), "{name:?}");
            let parsed = parse(text).expect("one of ours");
            assert_eq!((parsed.source, parsed.name), ("app", SentName::of(Some(name.as_bytes()))), "{text}");
        }
        instances.sort_unstable();
        instances.dedup();
        assert_eq!(instances.len(), names.len());
    }

    #[test]
    fn a_word_from_before_is_taken_by_the_first_name_that_comes() {
        let mut ids = IdMap::in_memory();
        ids.get_or_add("app/GET_/x").expect("added");
        ids.get_or_add("app/login").expect("added");
        assert_eq!(add(&mut ids, "GET /x"), (0, "app/GET_/x GET /x".to_owned()));
        assert_eq!(add(&mut ids, "login"), (1, "app/login".to_owned()));
        let (id, text) = add(&mut ids, "GET_/x");
        assert_eq!((id, text.starts_with("app/GET_/x~")), (2, true), "{text}");
        assert_eq!(add(&mut ids, "GET /x").0, 0);
    }

    #[test]
    fn names_made_to_collide_are_refused_and_not_searched_for() {
        let mut ids = IdMap::in_memory();
        let name = "x y";
        let hash = fnv1a(name.as_bytes());
        ids.get_or_add("app/x_y something").expect("added");
        for shift in 0..MAX_TRIES {
            let digits = (hash >> shift) & 0x00ff_ffff;
            ids.get_or_add(&format!("app/x_y~{digits:06x} something")).expect("added");
        }
        assert_eq!(SentName::of(Some(name.as_bytes())).place("app", &ids), Place::None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_escaped_comes_back(name in "\\PC*|[\\x00-\\x7f]{0,20}") {
            let escaped = escape(&name);
            proptest::prop_assert!(!escaped.contains(char::is_control));
            proptest::prop_assert_eq!(unescape(&escaped), name);
        }

        #[test]
        fn any_text_can_be_read(text in "\\PC*") {
            parse(&text);
        }
    }
}

//! What the members of lines were called, and in which order they came: a program's lines mostly have the same members, line
//! after line. A name that comes where it was expected is one comparison; neither its end is looked for, nor what it means,
//! nor its metric.
//!
//! Each name knows which one came behind it last, so that lines of several kinds are foreseen as well. Nothing follows from
//! what is expected but where to look first: what is there is compared each time.
//!
//! **Bounds:** [`MAX_MEMBERS`] names of up to [`MAX_NAME`] bytes, some 130 bytes each; when they are used up, all are forgotten.
//!
//! **Cost:** 2 ns for a name that was expected, a hash and a look-up for any other.

use std::fmt::{self, Debug, Formatter};
use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use rustc_hash::FxHashMap;

use crate::meaning::Meaning;
use crate::registry::FieldMemo;
use crate::word::word_at;

/// Most names that are remembered.
const MAX_MEMBERS: usize = 4096;
/// Longest name, with its quotes and the colon.
const MAX_NAME: usize = 32;
/// What is compared at once.
const WORDS: usize = 16;
/// The bytes of two words that belong to a name of so many.
const MASKS: [[u64; 2]; WORDS + 1] = {
    let mut masks = [[0; 2]; WORDS + 1];
    let mut len = 1;
    while len <= WORDS {
        let all = u128::MAX >> (128 - 8 * len);
        masks[len] = [all as u64, (all >> 64) as u64];
        len += 1;
    }
    masks
};

/// The place of a name, until names are forgotten: within one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberId(u32);

/// No name yet.
const NONE: MemberId = MemberId(u32::MAX);

/// The names of members.
#[derive(Clone)]
pub(crate) struct Outline {
    members: Vec<Member>,
    /// By the hash of a name, with a key of its own: names are the senders'.
    by_hash: FxHashMap<u64, MemberId>,
    hasher: DefaultHashBuilder,
    /// What the line before began with.
    first: MemberId,
    /// The member that came last in this line.
    last: MemberId,
    /// What is expected next.
    next: MemberId,
}

#[derive(Clone, Debug)]
struct Member {
    /// `"name":`, and zeros.
    name: [u8; MAX_NAME],
    len: u8,
    meaning: Meaning,
    /// What came behind it last.
    next: MemberId,
    memo: FieldMemo,
}

/// A name that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub id: MemberId,
    pub meaning: Meaning,
    /// Of the name with its quotes and the colon.
    pub len: usize,
}

/// Without the key of the hashes.
impl Debug for Outline {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outline").field("members", &self.members).finish_non_exhaustive()
    }
}

impl Default for Outline {
    fn default() -> Outline {
        let (by_hash, hasher) = (FxHashMap::default(), DefaultHashBuilder::default());
        Outline { members: Vec::new(), by_hash, hasher, first: NONE, last: NONE, next: NONE }
    }
}

impl Outline {
    /// A line begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        (self.last, self.next) = (NONE, self.first);
    }

    /// Whether the expected name is at `at`, and with it nothing but a colon.
    #[inline]
    pub(super) fn expected(&mut self, line: &[u8], at: usize) -> Option<Found> {
        let id = self.next;
        let member = self.members.get(id.0 as usize)?;
        let len = usize::from(member.len);
        let [first, second] = MASKS[len.min(WORDS)];
        let differs = (word_at(line, at) ^ word_at(&member.name, 0)) & first
            | (word_at(line, at + 8) ^ word_at(&member.name, 8)) & second;
        if differs != 0 || len > WORDS && line.get(at + WORDS..at + len) != member.name.get(WORDS..len) {
            return None;
        }
        (self.last, self.next) = (id, member.next);
        Some(Found { id, meaning: member.meaning, len })
    }

    /// Another name came than was expected: `"name":`. It is remembered, and expected there next time.
    #[cold]
    pub(super) fn came(&mut self, quoted: &[u8], meaning: Meaning) -> Option<MemberId> {
        let id = self.find_or_add(quoted, meaning)?;
        let next = match self.members.get_mut(self.last.0 as usize) {
            Some(last) => &mut last.next,
            None => &mut self.first,
        };
        *next = id;
        self.last = id;
        self.next = self.members.get(id.0 as usize).map_or(NONE, |member| member.next);
        Some(id)
    }

    fn find_or_add(&mut self, quoted: &[u8], meaning: Meaning) -> Option<MemberId> {
        let mut name = [0; MAX_NAME];
        name.get_mut(..quoted.len())?.copy_from_slice(quoted);
        let hash = self.hasher.hash_one(quoted);
        if let Some(&id) = self.by_hash.get(&hash) {
            // Of two names with one hash the first is remembered.
            return Some(id)
                .filter(|id| self.members.get(id.0 as usize).is_some_and(|member| member.name == name));
        }
        if self.members.len() >= MAX_MEMBERS {
            // Not those of this event.
            return None;
        }
        let id = MemberId(self.members.len() as u32);
        let member =
            Member { name, len: quoted.len() as u8, meaning, next: NONE, memo: FieldMemo::default() };
        self.members.push(member);
        self.by_hash.insert(hash, id);
        Some(id)
    }

    /// An event begins: names that were found so far are not used any more.
    #[inline]
    pub(crate) fn renew(&mut self) {
        if self.members.len() >= MAX_MEMBERS {
            *self = Outline::default();
        }
    }

    /// What is known of a name as a field's.
    #[inline]
    pub(crate) fn memo(&self, id: MemberId) -> Option<&FieldMemo> {
        self.members.get(id.0 as usize).map(|member| &member.memo)
    }
}

#[cfg(test)]
mod tests {
    use pcp_model::Timestamp;
    use proptest::prelude::*;

    use super::super::{Dialect, Protocol, parse_as};
    use super::*;
    use crate::event::{Event, Limits, Refusal};

    /// The protocol, with nothing foreseen.
    struct Unforeseen;

    impl Dialect for Unforeseen {
        fn meaning(&self, name: &[u8], top: bool) -> Meaning {
            Protocol.meaning(name, top)
        }

        fn time(&self, text: &[u8], is_number: bool) -> Result<Timestamp, &'static str> {
            Protocol.time(text, is_number)
        }

        fn must_be_time(&self, name: &[u8]) -> bool {
            Protocol.must_be_time(name)
        }
    }

    /// All that is in a line, without what was remembered for it.
    fn parsed<D: Dialect>(dialect: &D, line: &[u8], cut: bool, event: &mut Event) -> Result<String, Refusal> {
        let kind = parse_as(dialect, line, &Limits::default(), cut, event)?;
        let mut seen = Event { outline: Outline::default(), ..event.clone() };
        seen.fields.iter_mut().for_each(|field| field.member = None);
        Ok(format!("{kind:?} {seen:?}"))
    }

    /// Parses a line with what `event` remembers of lines before: it is what it is without, and what is remembered with each
    /// field is its own name's.
    fn agrees(line: &str, cut: bool, event: &mut Event) -> Result<(), TestCaseError> {
        let unforeseen = parsed(&Unforeseen, line.as_bytes(), cut, &mut Event::default());
        prop_assert_eq!(parsed(&Protocol, line.as_bytes(), cut, event), unforeseen, "{}", line);
        for field in &event.fields {
            let Some(id) = field.member else { continue };
            let member = &event.outline.members[id.0 as usize];
            let name = event.text(line.as_bytes(), field.name);
            prop_assert_eq!(&member.name[1..usize::from(member.len) - 2], name, "{}", line);
        }
        Ok(())
    }

    fn came(outline: &mut Outline, name: &str) -> Option<MemberId> {
        outline.came(format!("\"{name}\":").as_bytes(), Meaning::Field)
    }

    /// The names of a line that were where they were expected.
    fn foreseen(outline: &mut Outline, names: &[&str]) -> Vec<bool> {
        outline.begin();
        let one = |name: &&str| {
            let is_foreseen = outline.expected(format!("\"{name}\":1").as_bytes(), 0).is_some();
            if !is_foreseen {
                came(outline, name);
            }
            is_foreseen
        };
        names.iter().map(one).collect()
    }

    #[test]
    fn what_came_behind_a_name_last_is_expected_there() {
        let mut outline = Outline::default();
        assert_eq!(foreseen(&mut outline, &["a", "b", "c"]), [false; 3]);
        assert_eq!(foreseen(&mut outline, &["a", "b", "c"]), [true; 3]);
        // One is left out, and is back.
        assert_eq!(foreseen(&mut outline, &["a", "c"]), [true, false]);
        assert_eq!(foreseen(&mut outline, &["a", "b", "c"]), [true, false, true]);
        // Another kind of line, that ends as the first does.
        assert_eq!(foreseen(&mut outline, &["x", "b", "c"]), [false, false, true]);
        // Twice the same.
        assert_eq!(foreseen(&mut outline, &["x", "x", "x"]), [true, false, true]);
    }

    #[test]
    fn names_that_begin_or_end_alike_are_others() {
        // With quotes and colon: of one word, of two, of more, and the longest.
        for len in [1, 4, 5, 6, 12, 13, 14, 20, MAX_NAME - 3] {
            let name = "n".repeat(len);
            let mut outline = Outline::default();
            assert_eq!(foreseen(&mut outline, &[&name]), [false], "{name}");
            for at in 0..len {
                let mut other = name.clone();
                other.replace_range(at..=at, "m");
                outline.begin();
                assert!(outline.expected(format!("\"{other}\":").as_bytes(), 0).is_none(), "{other}");
            }
            for line in [
                format!("\"{name}n\":1"),
                format!("\"{}\":1", &name[1..]),
                format!("\"{name}\" :1"),
                format!("\"{name}\""),
                String::new(),
            ] {
                assert!(outline.expected(line.as_bytes(), 0).is_none(), "{line}");
                assert!(outline.expected(format!("\"{name}\":").as_bytes(), 1).is_none());
            }
            assert!(outline.expected(format!("{{\"{name}\":").as_bytes(), 1).is_some(), "{name}");
        }
        assert_eq!(came(&mut Outline::default(), &"n".repeat(MAX_NAME - 2)), None, "too long");
    }

    #[test]
    fn of_names_with_one_hash_only_the_first_is_remembered() {
        let mut outline = Outline::default();
        let first = came(&mut outline, "first").expect("there is room");
        let hash = outline.hasher.hash_one(b"\"second\":".as_slice());
        outline.by_hash.insert(hash, first);
        assert_eq!(foreseen(&mut outline, &["second", "first"]), [false, true]);
        assert_eq!(came(&mut outline, "second"), None);
        assert_eq!(came(&mut outline, "first"), Some(first));
        assert_eq!(outline.members.len(), 1);
    }

    #[test]
    fn too_many_names_are_forgotten_with_the_next_event() {
        let mut outline = Outline::default();
        for n in 0..MAX_MEMBERS {
            outline.renew();
            assert_eq!(came(&mut outline, &n.to_string()), Some(MemberId(n as u32)));
        }
        // In the event that they belong to they stay as they are.
        assert_eq!(came(&mut outline, "one more"), None);
        assert_eq!(came(&mut outline, "7"), Some(MemberId(7)));
        assert!(outline.memo(MemberId(MAX_MEMBERS as u32 - 1)).is_some());
        outline.renew();
        assert!(
            outline.members.is_empty() && outline.by_hash.is_empty() && outline.memo(MemberId(7)).is_none()
        );
        assert_eq!(foreseen(&mut outline, &["one more"]), [false]);
        assert_eq!(foreseen(&mut outline, &["one more"]), [true]);
    }

    #[test]
    fn lines_with_ever_new_names_are_what_they_are() {
        let mut event = Event::default();
        for line in 0..3 * MAX_MEMBERS / 100 {
            let members: Vec<String> = (0..100).map(|n| format!("\"n{}\":{n}", line * 70 + n)).collect();
            agrees(&format!("{{{}}}", members.join(",")), false, &mut event).expect("the same");
            assert!(event.outline.members.len() <= MAX_MEMBERS);
        }
    }

    /// A member, as it is written.
    fn member() -> impl Strategy<Value = String> {
        // Of all meanings; some that differ in the last byte of a word, the longest that is remembered, and one more.
        let names = [
            "a",
            "b",
            "ms",
            "time",
            "type",
            "event",
            "message",
            "msg",
            "severity",
            "level",
            "span_id",
            "id",
            "parent",
            "phase",
            "source",
            "jumpseat",
            "",
            "é",
            "a.ms",
            r"\u0061",
            r#"a\"b"#,
            r"a\nb",
            "thirteen_byte",
            "thirteen_bytf",
            "fourteen_bytes",
            "fourteen_bytet",
            "twenty_nine_bytes_are_the_end",
            "thirty_bytes_are_not_remembered",
        ];
        let values = [
            "1",
            "-2.5",
            "18446744073709551615",
            "1e400",
            "1700000000.25",
            "1700000000",
            r#""x""#,
            r#""\n\u00e9""#,
            r#""end""#,
            r#""error""#,
            "true",
            "false",
            "null",
            "[1,{\"a\":2}]",
            "{}",
            r#"{"a":1,"ms":{"time":2}}"#,
            r#""2024-01-01T00:00:00Z""#,
            "nul",
            "01",
        ];
        let colons = [":", ":", ":", ":", " :", ": ", " : "];
        // The last values are no JSON, and rarely wanted: the line ends there.
        let value = prop_oneof![40 => 0..values.len() - 2, 1 => values.len() - 2..values.len()];
        (0..names.len(), 0..colons.len(), value).prop_map(move |(name, colon, value)| {
            format!("\"{}\"{}{}", names[name], colons[colon], values[value])
        })
    }

    /// Lines of a few kinds, in any order, their members mostly as they were.
    fn lines() -> impl Strategy<Value = Vec<(String, bool)>> {
        let kinds = prop::collection::vec(prop::collection::vec(member(), 0..8), 1..4);
        kinds.prop_flat_map(|kinds| {
            let line = (0..kinds.len(), any::<(u8, u8, u8, u8)>(), any::<bool>());
            prop::collection::vec(line, 1..24).prop_map(move |all| {
                let one = |(kind, (what, from, to, end), cut): (usize, (u8, u8, u8, u8), bool)| {
                    let mut members = kinds[kind].clone();
                    let count = members.len().max(1);
                    let (from, to) = (usize::from(from) % count, usize::from(to) % count);
                    match what % 8 {
                        _ if members.is_empty() => {}
                        0 => members.swap(from, to),
                        1 => drop(members.remove(from)),
                        2 => members.insert(to, members[from].clone()),
                        _ => {}
                    }
                    let mut line = format!("{{{}}}", members.join([",", ", "][usize::from(what / 8 % 2)]));
                    if what % 8 == 3 {
                        let end = usize::from(end) % (line.len() + 1);
                        line.truncate(line.floor_char_boundary(end));
                    }
                    (line, cut)
                };
                all.into_iter().map(one).collect()
            })
        })
    }

    proptest! {
        #[test]
        fn what_is_foreseen_changes_nothing(lines in lines()) {
            let mut event = Event::default();
            for (line, cut) in &lines {
                agrees(line, *cut, &mut event)?;
            }
        }
    }
}

//! [`Walk`]: a regular expression that is matched by going along the line once, without ever going back.
//!
//! Most expressions for lines of logs are so: words, blanks, brackets, and runs of what is not the next delimiter. Where there is a
//! choice (how far a run goes, whether a group is there, which of several), the next byte decides it. [`read`] makes such an expression a
//! list of parts: bytes that must be there, runs of a set of bytes, places to note. [`fuse`] puts those together that always come one
//! behind the other: a field with its delimiter is one [`Step`]. A run is [as many bytes as the set has](super::scan), not a state for
//! each byte.
//!
//! **Exact:** among several matches at a place the first in the order of preference counts, as everywhere. Each step takes
//! what is preferred, and leaves it out only if the next byte refutes it; so an end that is reached without a way back is the end that
//! is preferred. What cannot be said so (`None` of [`Walk::new`], or a [`Field`] at a character of which the set has some only), and
//! every line that does not match, is for the regular expression itself: a walk says yes or nothing.
//!
//! **Cost:** three to six nanoseconds a step and nothing else (`benches/follow.rs`); bytes of which each has a set of its own, as in a time,
//! are one step as well. A step looks at bytes that no step before it has taken, so the time is linear in the line.

mod fuse;
mod read;

use super::scan::{ByteSet, Template};

/// A place that is not there.
const NOWHERE: u32 = u32::MAX;

/// An expression as steps.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    steps: Vec<Step>,
    sets: Vec<ByteSet>,
    /// Places in the line.
    places: Vec<u32>,
    /// Which of the places groups begin and end at, the whole match first.
    groups: Vec<[usize; 2]>,
    /// Places of groups that need not be there; all others are noted in each line that matches.
    optional: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Step {
    Field(Field),
    Fixed(Fixed),
    /// These bytes are next.
    Word(Word),
    /// The same for more than a word has.
    Bytes(Box<[u8]>),
    /// Bytes of a set, so many at least and at most.
    Counted(Run, u32),
    /// This is a place.
    Note(usize),
    /// If the next byte is not in this set, goes on elsewhere.
    Unless(usize, usize),
    /// Goes on elsewhere.
    Jump(usize),
    /// The line ends here.
    End,
}

/// Bytes of a set, as many as there are, and what is behind them.
#[derive(Clone, Copy, Debug)]
struct Field {
    run: Run,
    /// Where it begins is this place, where it ends the one behind it.
    places: usize,
    behind: Word,
}

/// So many bytes, each of a set of its own, and what is behind them.
#[derive(Clone, Debug)]
struct Fixed {
    bytes: Template,
    /// Where it begins is this place, where it ends the one behind it.
    places: usize,
    behind: Word,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    set: usize,
    least: u32,
    /// Of the characters beyond ASCII the set has some only, of which the bytes do not tell.
    has_some: bool,
}

/// Eight bytes at most, none of which is 0; or none, which are everywhere.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    word: u64,
    mask: u64,
    len: usize,
}

impl Walk {
    /// Reads an expression; `None` if it needs more than one way along the line, or does not begin at the line's beginning.
    pub(super) fn new(expression: &str) -> Option<Walk> {
        read::read(expression).map(fuse::fuse)
    }

    /// Goes along a line, which is UTF-8. `false`: ask the expression.
    #[inline]
    pub(super) fn matches(&mut self, line: &[u8]) -> bool {
        let Walk { steps, sets, places, optional, .. } = self;
        optional.iter().for_each(|place| places[*place] = NOWHERE);
        let (mut step, mut at) = (0, 0);
        while let Some(now) = steps.get(step) {
            step += 1;
            let end = match now {
                Step::Field(Field { run, places: noted, behind }) => {
                    let end = run.end(&sets[run.set], line, at);
                    end.filter(|end| note(places, *noted, at, *end)).and_then(|end| behind.end(line, end))
                }
                Step::Fixed(Fixed { bytes, places: noted, behind }) => {
                    let end = bytes.is_at(sets, line, at).then_some(at + bytes.len());
                    end.filter(|end| note(places, *noted, at, *end)).and_then(|end| behind.end(line, end))
                }
                Step::Word(word) => word.end(line, at),
                Step::Bytes(bytes) => {
                    let is_there = line.get(at..).is_some_and(|rest| rest.starts_with(bytes));
                    is_there.then_some(at + bytes.len())
                }
                Step::Counted(run, most) => run.counted_end(*most, &sets[run.set], line, at),
                Step::Note(place) => {
                    places[*place] = at as u32;
                    continue;
                }
                Step::Unless(set, elsewhere) => {
                    if !line.get(at).is_some_and(|byte| sets[*set].has(*byte)) {
                        step = *elsewhere;
                    }
                    continue;
                }
                Step::Jump(elsewhere) => {
                    step = *elsewhere;
                    continue;
                }
                Step::End => (at == line.len()).then_some(at),
            };
            match end {
                Some(end) => at = end,
                None => return false,
            }
        }
        true
    }

    /// Where a group is in the line that has matched.
    #[inline]
    pub(super) fn group(&self, number: usize) -> Option<(usize, usize)> {
        let [begin, end] = self.groups.get(number)?.map(|place| self.places.get(place).copied());
        match (begin?, end?) {
            (NOWHERE, _) | (_, NOWHERE) => None,
            (begin, end) => Some((begin as usize, end as usize)),
        }
    }
}

/// Notes where a step begins and ends; whether there is room, which there always is.
#[inline]
fn note(places: &mut [u32], noted: usize, at: usize, end: usize) -> bool {
    let room = places.get_mut(noted..).and_then(<[u32]>::first_chunk_mut);
    room.map(|room: &mut [u32; 2]| *room = [at as u32, end as u32]).is_some()
}

impl Run {
    #[inline]
    fn end(self, set: &ByteSet, line: &[u8], at: usize) -> Option<usize> {
        let end = set.end(line, at);
        // It may be that the run goes on with this character.
        let is_told = !self.has_some || line.get(end).is_none_or(u8::is_ascii);
        (is_told && end - at >= self.least as usize).then_some(end)
    }

    fn counted_end(self, most: u32, set: &ByteSet, line: &[u8], at: usize) -> Option<usize> {
        let most = most as usize;
        let rest = line.get(at..).unwrap_or_default();
        let end = at + rest.iter().take(most).take_while(|byte| set.has(**byte)).count();
        let is_told = !self.has_some || end - at == most || line.get(end).is_none_or(u8::is_ascii);
        (is_told && end - at >= self.least as usize).then_some(end)
    }
}

impl Word {
    const MOST: usize = 8;

    /// `None` if these bytes are none.
    fn new(bytes: &[u8]) -> Option<Word> {
        let (mut word, mut mask) = ([0; Word::MOST], [0; Word::MOST]);
        let is_one = bytes.len() <= Word::MOST && !bytes.contains(&0);
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        mask.get_mut(..bytes.len())?.fill(u8::MAX);
        let [word, mask] = [word, mask].map(u64::from_le_bytes);
        is_one.then_some(Word { word, mask, len: bytes.len() })
    }

    /// Where these bytes end, if they are at a place, which is not behind the line's end.
    #[inline]
    fn end(&self, line: &[u8], at: usize) -> Option<usize> {
        if self.len == 1 {
            return (line.get(at) == Some(&(self.word as u8))).then_some(at + 1);
        }
        let there = match line.len().checked_sub(Word::MOST) {
            Some(last) => {
                // Near the line's end there is something in front of what counts, which leaves zeros behind it.
                let begin = at.min(last);
                let there = line.get(begin..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
                let bits = 4 * (at - begin) as u32;
                u64::from_le_bytes(there).wrapping_shr(bits).wrapping_shr(bits)
            }
            None => {
                let mut there = [0; Word::MOST];
                let rest = line.get(at..).unwrap_or_default();
                there.iter_mut().zip(rest).for_each(|(there, byte)| *there = *byte);
                u64::from_le_bytes(there)
            }
        };
        (there & self.mask == self.word).then_some(at + self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::bytes::Regex;

    /// Whether an expression is a walk, and one that goes along this line.
    fn walk(expression: &str, line: &str) -> Option<bool> {
        Walk::new(expression).map(|mut walk| goes_along(&mut walk, expression, line))
    }

    /// Where a walk finds the groups, compared with the expression itself if it does.
    fn goes_along(walk: &mut Walk, expression: &str, line: &str) -> bool {
        if !walk.matches(line.as_bytes()) {
            return false;
        }
        let regex = Regex::new(expression).expect("an expression");
        let found = regex.captures(line.as_bytes()).unwrap_or_else(|| panic!("{expression} {line:?}"));
        for group in 1..found.len() {
            let expected = found.get(group).map(|found| (found.start(), found.end()));
            assert_eq!(walk.group(group), expected, "{expression} {line:?} group {group}");
        }
        true
    }

    #[test]
    fn expressions_for_logs_are_walks() {
        for (expression, line) in [
            (
                r#"^(?<client>\S+) \S+ (?<user>\S+) \[(?<time>[^\]]+)\] "(?<message>(?<method>\S+) (?<path>\S+) (?<protocol>[^"]+))" (?<status>\d+) (?<bytes>\d+|-) "(?<referer>[^"]*)" "(?<agent>[^"]*)"$"#,
                r#"10.0.0.1 - anna [22/Nov/2026:22:30:01 +0000] "GET /a HTTP/1.1" 200 - "-" "curl/8.5 – ü""#,
            ),
            (
                r"^(?<time>\w{3} [ \d]\d \d\d:\d\d:\d\d) (?<host>\S+) (?<type>[^\[: ]+)(?:\[(?<pid>\d+)\])?: (?<message>.*)$",
                "Nov 22 22:30:01 web1 sshd[31]: Accepted für anna",
            ),
            (
                r"^(?<time>\w{3} [ \d]\d \d\d:\d\d:\d\d) (?<host>\S+) (?<type>[^\[: ]+)(?:\[(?<pid>\d+)\])?: (?<message>.*)$",
                "Nov  2 22:30:01 web1 kernel: up",
            ),
            (
                r"^(?<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,9}Z) (?<level>\w+) +(?<message>\S.*)",
                "2026-11-22T22:30:01.123456Z INFO  up, über",
            ),
            (r"^(?:(?<a>[a-z])=(?<b>\d+) ?)+", "x=1 y=22 3"),
            (r"^(?<level>INFO|WARN|ERROR)(?<rest> .*)?$", "WARN"),
            (r"^(?i)(?<level>info|warn) (?<a>x{2,3})", "wArN xxxx"),
            (r"^(?<a>a*?)b", "aab"),
        ] {
            assert_eq!(walk(expression, line), Some(true), "{expression}");
        }
    }

    #[test]
    fn what_needs_a_way_back_is_no_walk() {
        for expression in [
            r"(?<a>\d+)",
            r"^(?<a>.*) (?<b>.*)$",
            r"^(?<a>.*?)(?<b>\d*)$",
            r"^(?<a>ab|ac)",
            r"^(?<a>\w+)\b",
            r"^(?:(?<a>\w)=(?<b>\d+) ?)+",
            r"^(?m)(?<a>x)$",
            r"^(?<a>(?:x?)*)",
            r"^(?-u:(?<a>[\x80-\xff]))",
        ] {
            assert_eq!(walk(expression, "x"), None, "{expression}");
        }
    }

    #[test]
    fn characters_that_only_the_expression_knows() {
        // A letter beyond ASCII is a word's, a dash is not.
        for (expression, line, walks) in [
            (r"^(?<a>\w+)", "abc déf", true),
            (r"^(?<a>\w+)", "dé", false),
            (r"^(?<a>\w+)", "d–", false),
            (r"^(?<a>[^ ]+) ", "dé–f ", true),
            (r"^(?<a>[^ ]{2})", "dé", false),
            (r"^(?<a>[a-z]+)", "dé", true),
            (r"^(?<a>é)+", "ééx", true),
            // Literals longer and shorter than a word, with more behind them and without.
            (r"^abcdefghij(?<a>k)", "abcdefghijk", true),
            (r"^abcdefghij(?<a>k)", "abcdefgxijk", false),
            (r"^(?<a>k)abcdefgh$", "kabcdefgh", true),
            (r"^(?<a>k)abcdefgh$", "kabcdefgx", false),
            (r"^(?<a>k)abc$", "kabc", true),
            (r"^(?<a>k)abc", "kabcabcabc", true),
            (r"^(?<a>k)abc", "kabxabcabc", false),
            // Counted, and in choices.
            (r"^(?<a>\d\d:\d{2}:\d\d)", "01:02:03", true),
            (r"^(?<a>\d\d:\d{2}:\d\d)", "01:02:0", false),
            (r"^(?<a>\d\d:\d{2}:\d\d)", "01:0x:03", false),
            (r"^[éü][ab](?<a>x)", "aax", false),
            (r"^(?:[ab][cd][ef])+x[0-9](?<a>[0-9])", "acebdfx12", true),
            (r"^[ab]{0}[cd](?:[ab][cd]|x)?[0-9][0-9](?<a>[0-9])", "cx123", true),
        ] {
            assert_eq!(walk(expression, line), Some(walks), "{expression} {line}");
        }
    }

    /// Parts of expressions, and of what they match.
    fn part() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(vec![
            "a", "b", "é", "[ab]", "[^a]", "[^ ]", ".", r"\d", r"\w", r"\S", " ", "ab", "$", "1",
        ]);
        leaf.prop_map(str::to_owned).prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                (
                    inner.clone(),
                    prop::sample::select(vec!["*", "+", "?", "{2}", "{1,2}", "*?", "+?", "{0,3}"])
                )
                    .prop_map(|(part, times)| format!("(?:{part}){times}")),
                prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
                prop::collection::vec(inner.clone(), 1..4)
                    .prop_map(|parts| format!("(?:{})", parts.join("|"))),
                inner.prop_map(|part| format!("({part})")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
        #[test]
        fn a_walk_finds_what_the_expression_finds(
            parts in prop::collection::vec(part(), 1..5),
            lines in prop::collection::vec("[ab1é –]{0,24}", 8),
        ) {
            let expression = format!("^{}", parts.concat());
            // One after the other: nothing of a line may be left for the next.
            let mut walk = Walk::new(&expression);
            for line in lines {
                walk.iter_mut().for_each(|walk| _ = goes_along(walk, &expression, &line));
            }
        }
    }
}

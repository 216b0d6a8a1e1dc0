//! [`Walk`]: a regular expression that is matched by going along the line once, without ever going back.
//!
//! Most expressions for lines of logs are so: words, blanks, brackets, and runs of what is not the next delimiter. Where there is a
//! choice (how far a run goes, whether a group is there, which of several), the next byte decides it. Such an expression becomes
//! a list of steps: bytes that must be there, runs of a set of bytes, places to note. A run is [as many bytes as the set
//! has](super::scan), not a state for each byte.
//!
//! **Exact:** among several matches at a place the first in the order of preference counts, as everywhere. Each step takes
//! what is preferred, and leaves it out only if the next byte refutes it; so an end that is reached without a way back is the end that
//! is preferred. What cannot be said so (`None` of [`Walk::new`], or [`Step::Run`] at a character of which the set has some only), and
//! every line that does not match, is for the regular expression itself: a walk says yes or nothing.
//!
//! **Cost:** two to four nanoseconds a step and nothing else, half of which is going on to the next one: so a group that is a run is
//! one step, not three (`benches/follow.rs`). A step looks at bytes that no step before it has taken, so the time is linear in the line.

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use super::scan::ByteSet;

/// Most steps: an expression that takes more is for the library.
const MAX_STEPS: usize = 512;
/// A group's end that is not there.
const NOWHERE: u32 = u32::MAX;

/// An expression as steps.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    steps: Vec<Step>,
    sets: Vec<ByteSet>,
    /// Where groups begin and end: two for each, the whole match first.
    slots: Vec<u32>,
    /// Those of groups that need not be there; all others are noted in each line that matches.
    optional_slots: Vec<usize>,
    /// Choices that the steps which are being added lie inside.
    depth: usize,
}

#[derive(Clone, Debug)]
enum Step {
    /// This byte is next.
    Byte(u8),
    /// These bytes are next.
    Bytes(Bytes),
    /// A byte of this set is next.
    One(usize),
    /// Bytes of a set, as many as there are.
    Run(Run),
    /// The same, which is a group: where it begins is noted in this slot, its end in the one behind it.
    Group(Run, usize),
    /// Bytes of a set, so many at least and at most.
    Counted(Run, u32),
    /// A group begins or ends here.
    Note(usize),
    /// If the next byte is not in this set, goes on elsewhere.
    Unless(usize, usize),
    /// Goes on elsewhere.
    Jump(usize),
    /// The line ends here.
    End,
}

/// Two bytes or more. Eight of them are compared as a word, where the line has as many, without a call.
#[derive(Clone, Debug)]
struct Bytes {
    all: Box<[u8]>,
    word: u64,
    mask: u64,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    set: usize,
    least: u32,
    /// Of the characters beyond ASCII the set has some only, of which the bytes do not tell.
    has_some: bool,
}

impl Walk {
    /// Reads an expression; `None` if it needs more than one way along the line, or does not begin at the line's beginning.
    pub(super) fn new(expression: &str) -> Option<Walk> {
        let hir = regex_syntax::parse(expression).ok()?;
        if !hir.properties().is_utf8() {
            return None;
        }
        let HirKind::Concat(parts) = hir.kind() else { return None };
        let [begin, parts @ ..] = &parts[..] else { return None };
        if *begin.kind() != HirKind::Look(Look::Start) {
            return None;
        }
        let groups = 1 + hir.properties().explicit_captures_len();
        let mut walk = Walk {
            steps: Vec::new(),
            sets: Vec::new(),
            slots: vec![NOWHERE; 2 * groups],
            optional_slots: Vec::new(),
            depth: 0,
        };
        walk.sequence(parts.iter(), &Next { bytes: [false; 256], is_end: true })?;
        Some(walk)
    }

    /// Goes along a line, which is UTF-8. `false`: ask the expression.
    #[inline]
    pub(super) fn matches(&mut self, line: &[u8]) -> bool {
        let Walk { steps, sets, slots, optional_slots, .. } = self;
        optional_slots.iter().for_each(|slot| slots[*slot] = NOWHERE);
        let (mut step, mut at) = (0, 0);
        while let Some(now) = steps.get(step) {
            step += 1;
            match now {
                Step::Byte(byte) => {
                    if line.get(at) != Some(byte) {
                        return false;
                    }
                    at += 1;
                }
                Step::Bytes(bytes) => {
                    if !bytes.are_at(line, at) {
                        return false;
                    }
                    at += bytes.all.len();
                }
                Step::One(set) => {
                    if !line.get(at).is_some_and(|byte| sets[*set].has(*byte)) {
                        return false;
                    }
                    at += 1;
                }
                Step::Run(run) => match run.end(&sets[run.set], line, at) {
                    Some(end) => at = end,
                    None => return false,
                },
                Step::Group(run, slot) => match run.end(&sets[run.set], line, at) {
                    Some(end) => {
                        let Some([begin, behind]) = slots.get_mut(*slot..).and_then(<[u32]>::first_chunk_mut)
                        else {
                            return false;
                        };
                        (*begin, *behind) = (at as u32, end as u32);
                        at = end;
                    }
                    None => return false,
                },
                Step::Counted(run, most) => match run.counted_end(*most, &sets[run.set], line, at) {
                    Some(end) => at = end,
                    None => return false,
                },
                Step::Note(slot) => slots[*slot] = at as u32,
                Step::Unless(set, elsewhere) => {
                    if !line.get(at).is_some_and(|byte| sets[*set].has(*byte)) {
                        step = *elsewhere;
                    }
                }
                Step::Jump(elsewhere) => step = *elsewhere,
                Step::End => {
                    if at < line.len() {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Where a group is in the line that has matched.
    #[inline]
    pub(super) fn group(&self, number: usize) -> Option<(usize, usize)> {
        match self.slots.get(2 * number..2 * number + 2)? {
            [NOWHERE, _] | [_, NOWHERE] => None,
            [begin, end] => Some((*begin as usize, *end as usize)),
            _ => None,
        }
    }
}

impl Bytes {
    fn new(bytes: &[u8]) -> Bytes {
        let (mut word, mut mask) = ([0; 8], [0; 8]);
        for ((word, mask), byte) in word.iter_mut().zip(&mut mask).zip(bytes) {
            (*word, *mask) = (*byte, u8::MAX);
        }
        Bytes { all: bytes.into(), word: u64::from_ne_bytes(word), mask: u64::from_ne_bytes(mask) }
    }

    #[inline]
    fn are_at(&self, line: &[u8], at: usize) -> bool {
        let rest = line.get(at..).unwrap_or_default();
        match rest.first_chunk() {
            Some(word) if u64::from_ne_bytes(*word) & self.mask != self.word => false,
            Some(_) if self.all.len() <= 8 => true,
            _ => rest.starts_with(&self.all),
        }
    }
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

/// What may come next.
#[derive(Clone, Debug)]
struct Next {
    bytes: [bool; 256],
    /// Nothing, as the expression may end here.
    is_end: bool,
}

impl Next {
    fn is_apart_from(&self, other: &Next) -> bool {
        !self.bytes.iter().zip(&other.bytes).any(|(one, other)| *one && *other)
    }

    fn or(mut self, other: &Next) -> Next {
        self.bytes.iter_mut().zip(&other.bytes).for_each(|(one, other)| *one |= *other);
        self.is_end |= other.is_end;
        self
    }
}

/// What a part may begin with, or what is behind it, if it may be empty.
fn next(part: &Hir, behind: &Next) -> Next {
    let mut next = Next { bytes: [false; 256], is_end: false };
    match part.kind() {
        HirKind::Empty => return behind.clone(),
        // Where a line ends, nothing is next.
        HirKind::Look(_) => next.is_end = true,
        HirKind::Literal(literal) => {
            literal.0.iter().take(1).for_each(|byte| next.bytes[usize::from(*byte)] = true)
        }
        HirKind::Class(class) => {
            let beyond = beyond_ascii(class);
            for (byte, has) in (0..=u8::MAX).zip(&mut next.bytes) {
                *has = if byte.is_ascii() { has_ascii(class, byte) } else { beyond != Beyond::None };
            }
        }
        HirKind::Repetition(Repetition { min, sub, .. }) => {
            let inside = self::next(sub, behind);
            return if *min == 0 { inside.or(behind) } else { inside };
        }
        HirKind::Capture(capture) => return self::next(&capture.sub, behind),
        HirKind::Concat(parts) => {
            return parts.iter().rev().fold(behind.clone(), |behind, part| self::next(part, &behind));
        }
        HirKind::Alternation(parts) => {
            return parts.iter().fold(next, |all, part| all.or(&self::next(part, behind)));
        }
    }
    next
}

impl Walk {
    fn push(&mut self, step: Step) -> Option<usize> {
        (self.steps.len() < MAX_STEPS).then(|| self.steps.push(step))?;
        Some(self.steps.len() - 1)
    }

    fn set(&mut self, has: [bool; 256]) -> usize {
        let set = ByteSet::new(has);
        self.sets.iter().position(|known| *known == set).unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        })
    }

    /// Parts one behind the other, and `behind` behind them.
    fn sequence<'a>(&mut self, parts: impl DoubleEndedIterator<Item = &'a Hir>, behind: &Next) -> Option<()> {
        let mut tails = Vec::new();
        let mut tail = behind.clone();
        for part in parts.rev() {
            let before = next(part, &tail);
            tails.push((part, std::mem::replace(&mut tail, before)));
        }
        tails.into_iter().rev().try_for_each(|(part, behind)| self.part(part, &behind))
    }

    /// Adds the steps of a part; `None` if the next byte does not decide what to do.
    fn part(&mut self, part: &Hir, behind: &Next) -> Option<()> {
        match part.kind() {
            HirKind::Empty => {}
            HirKind::Look(Look::End) => _ = self.push(Step::End)?,
            HirKind::Look(_) => return None,
            HirKind::Literal(literal) => {
                let step = match &*literal.0 {
                    [byte] => Step::Byte(*byte),
                    bytes => Step::Bytes(Bytes::new(bytes)),
                };
                self.push(step)?;
            }
            HirKind::Class(class) => self.run(class, 1, Some(1))?,
            HirKind::Capture(capture) => {
                let slot = 2 * capture.index as usize;
                if self.depth > 0 {
                    self.optional_slots.extend([slot, slot + 1]);
                }
                let begin = self.push(Step::Note(slot))?;
                self.part(&capture.sub, behind)?;
                match self.steps[begin..] {
                    [_, Step::Run(run)] => {
                        self.steps.truncate(begin);
                        self.push(Step::Group(run, slot))?;
                    }
                    _ => _ = self.push(Step::Note(slot + 1))?,
                }
            }
            HirKind::Concat(parts) => self.sequence(parts.iter(), behind)?,
            HirKind::Alternation(parts) => self.choice(parts, behind)?,
            HirKind::Repetition(repetition) => self.repetition(repetition, behind)?,
        }
        Some(())
    }

    fn repetition(&mut self, repetition: &Repetition, behind: &Next) -> Option<()> {
        let Repetition { min, max, greedy, sub } = repetition;
        let inside = next(sub, behind);
        // One that would rather be short has a choice at the end as well.
        let is_decided = inside.is_apart_from(behind) && (*greedy || !behind.is_end);
        if !is_decided && *max != Some(*min) {
            return None;
        }
        if let HirKind::Class(class) = sub.kind() {
            return self.run(class, *min, *max);
        }
        // A part that may be empty could be repeated without end.
        if sub.properties().minimum_len().is_none_or(|least| least == 0) {
            return None;
        }
        let set = self.set(inside.bytes);
        // With itself or what is behind it behind it.
        let behind_each = inside.or(behind);
        match (min, max) {
            (0 | 1, None) => {
                if *min == 1 {
                    self.part(sub, &behind_each)?;
                }
                let unless = self.push(Step::Unless(set, 0))?;
                self.optional(sub, &behind_each)?;
                self.push(Step::Jump(unless))?;
                self.leads_here(unless);
                Some(())
            }
            (0, Some(1)) => {
                let unless = self.push(Step::Unless(set, 0))?;
                self.optional(sub, behind)?;
                self.leads_here(unless);
                Some(())
            }
            (min, Some(max)) if min == max => (0..*min)
                .try_for_each(|round| self.part(sub, if round + 1 < *min { &behind_each } else { behind })),
            _ => None,
        }
    }

    fn choice(&mut self, parts: &[Hir], behind: &Next) -> Option<()> {
        let nexts: Vec<Next> = parts.iter().map(|part| next(part, behind)).collect();
        let mut ends = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            let is_apart = nexts[at + 1..].iter().all(|other| nexts[at].is_apart_from(other));
            // One that may be empty is never refuted.
            let may_be_empty = part.properties().minimum_len().is_none_or(|least| least == 0);
            if !is_last && (!is_apart || may_be_empty) {
                return None;
            }
            let unless = if is_last {
                None
            } else {
                let set = self.set(nexts[at].bytes);
                self.push(Step::Unless(set, 0))
            };
            self.optional(part, behind)?;
            if let Some(unless) = unless {
                ends.push(self.push(Step::Jump(0))?);
                self.leads_here(unless);
            }
        }
        ends.into_iter().for_each(|end| self.leads_here(end));
        Some(())
    }

    /// A part that a line need not have.
    fn optional(&mut self, part: &Hir, behind: &Next) -> Option<()> {
        self.depth += 1;
        self.part(part, behind)?;
        self.depth -= 1;
        Some(())
    }

    fn leads_here(&mut self, step: usize) {
        let here = self.steps.len();
        if let Some(Step::Unless(_, elsewhere) | Step::Jump(elsewhere)) = self.steps.get_mut(step) {
            *elsewhere = here;
        }
    }

    fn run(&mut self, class: &Class, least: u32, most: Option<u32>) -> Option<()> {
        let most = most.unwrap_or(u32::MAX);
        // A bound counts characters, which are bytes in ASCII only.
        let is_counted = least > 1 || most < u32::MAX;
        let beyond = beyond_ascii(class);
        let has_some = beyond == Beyond::Some || (is_counted && beyond == Beyond::All);
        let mut has = [false; 256];
        for (byte, has) in (0..=u8::MAX).zip(&mut has) {
            *has =
                if byte.is_ascii() { has_ascii(class, byte) } else { beyond == Beyond::All && !is_counted };
        }
        let set = self.set(has);
        if (least, most) == (1, 1) {
            return self.push(Step::One(set)).map(drop);
        }
        let run = Run { set, least, has_some };
        self.push(if most == u32::MAX { Step::Run(run) } else { Step::Counted(run, most) }).map(drop)
    }
}

/// Which characters beyond ASCII a class has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    None,
    Some,
    All,
}

fn beyond_ascii(class: &Class) -> Beyond {
    let Class::Unicode(class) = class else { return Beyond::None };
    match class.ranges().last() {
        Some(last) if last.start() <= '\u{80}' && last.end() == char::MAX => Beyond::All,
        Some(last) if last.end().is_ascii() => Beyond::None,
        None => Beyond::None,
        Some(_) => Beyond::Some,
    }
}

fn has_ascii(class: &Class, byte: u8) -> bool {
    match class {
        Class::Unicode(class) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&char::from(byte)))
        }
        Class::Bytes(class) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&byte))
        }
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

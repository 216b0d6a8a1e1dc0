//! An expression as a list of parts, if the next byte decides at each what to do.

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use super::Run;
use crate::follow::lines::scan::ByteSet;

/// Most parts: an expression that takes more is for the library.
const MAX_PARTS: usize = 512;

/// Parts, of which each is gone along behind the one before it.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) parts: Vec<Part>,
    pub(super) sets: Vec<ByteSet>,
    /// How many groups there are, with the whole match.
    pub(super) groups: usize,
    /// Ends of groups that need not be there, as [`Part::Note`] has them.
    pub(super) optional: Vec<usize>,
    /// Choices that the parts which are being added lie inside.
    depth: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    /// These bytes are next.
    Literal(Box<[u8]>),
    /// Bytes of a set, as many as there are, and at most so many.
    Run(Run, u32),
    /// A group's beginning is here, or its end: twice its number, and one more.
    Note(usize),
    /// If the next byte is not in this set, goes on elsewhere.
    Unless(usize, usize),
    /// Goes on elsewhere.
    Jump(usize),
    /// The line ends here.
    End,
}

/// The place of a set among others, which it joins if it is not one of them.
pub(super) fn set(sets: &mut Vec<ByteSet>, has: [bool; 256]) -> usize {
    let set = ByteSet::new(has);
    sets.iter().position(|known| *known == set).unwrap_or_else(|| {
        sets.push(set);
        sets.len() - 1
    })
}

/// Reads an expression; `None` if it needs more than one way along the line, or does not begin at the line's beginning.
pub(super) fn read(expression: &str) -> Option<Parts> {
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
    let mut all = Parts { parts: Vec::new(), sets: Vec::new(), groups, optional: Vec::new(), depth: 0 };
    all.sequence(parts.iter(), &Next { bytes: [false; 256], is_end: true })?;
    Some(all)
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

impl Parts {
    fn push(&mut self, part: Part) -> Option<usize> {
        (self.parts.len() < MAX_PARTS).then(|| self.parts.push(part))?;
        Some(self.parts.len() - 1)
    }

    fn set(&mut self, has: [bool; 256]) -> usize {
        set(&mut self.sets, has)
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

    /// Adds what a part needs; `None` if the next byte does not decide what to do.
    fn part(&mut self, part: &Hir, behind: &Next) -> Option<()> {
        match part.kind() {
            HirKind::Empty => {}
            HirKind::Look(Look::End) => _ = self.push(Part::End)?,
            HirKind::Look(_) => return None,
            HirKind::Literal(literal) => _ = self.push(Part::Literal(literal.0.clone()))?,
            HirKind::Class(class) => self.run(class, 1, Some(1))?,
            HirKind::Capture(capture) => {
                let begin = 2 * capture.index as usize;
                if self.depth > 0 {
                    self.optional.extend([begin, begin + 1]);
                }
                self.push(Part::Note(begin))?;
                self.part(&capture.sub, behind)?;
                self.push(Part::Note(begin + 1))?;
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
                let unless = self.push(Part::Unless(set, 0))?;
                self.optional(sub, &behind_each)?;
                self.push(Part::Jump(unless))?;
                self.leads_here(unless);
                Some(())
            }
            (0, Some(1)) => {
                let unless = self.push(Part::Unless(set, 0))?;
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
                self.push(Part::Unless(set, 0))
            };
            self.optional(part, behind)?;
            if let Some(unless) = unless {
                ends.push(self.push(Part::Jump(0))?);
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

    fn leads_here(&mut self, part: usize) {
        let here = self.parts.len();
        if let Some(Part::Unless(_, elsewhere) | Part::Jump(elsewhere)) = self.parts.get_mut(part) {
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
        self.push(Part::Run(Run { set, least, has_some }, most)).map(drop)
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

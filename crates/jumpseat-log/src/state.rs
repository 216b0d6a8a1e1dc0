//! [`State`]: what a source's log knows besides its records, carried on by each batch.
//!
//! A batch says what has changed; a segment's head says all of it, so that older segments can go.
//!
//! ```text
//! counters := n varint | n x (key varint, sum or addition varint)
//! marks    := n varint | n x mark
//! mark     := stream text | number varint | m varint | m x (gap varint, length varint) | text
//! text     := length varint | bytes
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use jumpseat_wire::{put_text, put_varint, varint};

/// Most streams whose marks a source keeps. Of whoever has most of them, those go first that nothing has come of for longest.
pub const MAX_MARKS: usize = 1024;
/// Most bytes in the name, and in the text, of a mark.
pub const MAX_MARK_TEXT: usize = 4096;
/// Most ranges above a mark's number.
pub const MAX_ABOVE: usize = 65_536;

/// Most bytes that the marks of a source take in a segment's head; those that nothing has come of for longest go first.
const MAX_MARK_BYTES: usize = 8 << 20;

/// How far a stream of numbered records is in a source's log: everything up to `number` is there, or was lost, refused or
/// dropped on purpose, and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which stream: who sends it, or what it is read from.
    pub stream: Arc<[u8]>,
    /// The number.
    pub number: u64,
    /// First and last of the numbers above that which are there, too, ascending: records leave an order window in the order
    /// of their times.
    pub above: Vec<(u64, u64)>,
    /// What else is needed to go on reading there.
    pub text: Vec<u8>,
}

impl Mark {
    /// The most bytes that it takes in a file.
    fn bytes(&self) -> usize {
        40 + self.stream.len() + self.text.len() + 20 * self.above.len()
    }

    /// Whether the record of this number is there already.
    pub fn covers(&self, number: u64) -> bool {
        number <= self.number
            || self
                .above
                .get(self.above.partition_point(|range| range.1 < number))
                .is_some_and(|range| range.0 <= number)
    }
}

/// Sums and marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    counters: BTreeMap<u32, u64>,
    marks: BTreeMap<Arc<[u8]>, (u64, Mark)>,
    /// Grows with each mark that is set.
    turn: u64,
    mark_bytes: usize,
}

impl State {
    /// A counter's sum.
    pub fn counter(&self, key: u32) -> u64 {
        self.counters.get(&key).copied().unwrap_or(0)
    }

    /// All sums that are not 0.
    pub fn counters(&self) -> impl Iterator<Item = (u32, u64)> {
        self.counters.iter().map(|(key, sum)| (*key, *sum))
    }

    /// The marks, in no order.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.marks.values().map(|(_, mark)| mark)
    }

    /// The mark of a stream.
    pub fn mark(&self, stream: &[u8]) -> Option<&Mark> {
        self.marks.get(stream).map(|(_, mark)| mark)
    }

    /// Adds to sums and moves marks.
    pub fn change<'a>(&mut self, added: &[(u32, u64)], marks: impl IntoIterator<Item = &'a Mark>) {
        for (key, count) in added.iter().filter(|(_, count)| *count > 0) {
            let sum = self.counters.entry(*key).or_default();
            *sum = sum.saturating_add(*count);
        }
        for mark in marks {
            self.turn += 1;
            self.mark_bytes += mark.bytes();
            if let Some((_, old)) = self.marks.insert(Arc::clone(&mark.stream), (self.turn, mark.clone())) {
                self.mark_bytes -= old.bytes();
            }
            while self.marks.len() > MAX_MARKS || self.mark_bytes > MAX_MARK_BYTES {
                let Some((_, gone)) = self.to_forget().and_then(|stream| self.marks.remove(&stream)) else {
                    break;
                };
                self.mark_bytes -= gone.bytes();
            }
        }
    }

    /// The stream whose mark has to go for another one: nobody can have all those of others forgotten.
    fn to_forget(&self) -> Option<Arc<[u8]>> {
        let mut of_owners: BTreeMap<&[u8], usize> = BTreeMap::new();
        self.marks
            .keys()
            .filter_map(|stream| owner(stream))
            .for_each(|owner| *of_owners.entry(owner).or_default() += 1);
        let most = of_owners.into_iter().max_by_key(|(_, count)| *count).map(|(owner, _)| owner);
        // What the agent reads itself is as much as is configured.
        let theirs = self.marks.iter().filter(|(stream, _)| most.is_none() || owner(stream) == most);
        theirs.min_by_key(|(_, (turn, _))| *turn).map(|(stream, _)| Arc::clone(stream))
    }

    /// Appends all of it, the marks in the order in which they were set.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let counters: Vec<_> = self.counters().collect();
        let mut marks: Vec<_> = self.marks.values().collect();
        marks.sort_unstable_by_key(|(turn, _)| *turn);
        put_changes(out, &[], &counters, marks.into_iter().map(|(_, mark)| mark));
    }

    /// Takes in what [`put_changes`] wrote. `None`: it is not that; nothing has changed then.
    pub(crate) fn take(&mut self, bytes: &mut &[u8]) -> Option<()> {
        let mut counters = Vec::new();
        for _ in 0..take_count(bytes, 2)? {
            counters.push((u32::try_from(take(bytes)?).ok()?, take(bytes)?));
        }
        let marks = (0..take_count(bytes, 4)?).map(|_| take_mark(bytes)).collect::<Option<Vec<_>>>()?;
        self.change(&counters, &marks);
        Some(())
    }
}

/// Whose a stream is: the user in `sender:USER:NAME`; nobody's for the agent's own.
fn owner(stream: &[u8]) -> Option<&[u8]> {
    let user = stream.strip_prefix(b"sender:")?;
    user.split(|byte| *byte == b':').next()
}

/// Appends what a batch changes: two lists of counters, and marks.
pub(crate) fn put_changes<'a>(
    out: &mut Vec<u8>,
    own: &[(u32, u64)],
    counters: &[(u32, u64)],
    marks: impl ExactSizeIterator<Item = &'a Mark>,
) {
    let changed = || own.iter().chain(counters).filter(|(_, count)| *count > 0);
    put_varint(out, changed().count() as u64);
    for (key, count) in changed() {
        put_varint(out, u64::from(*key));
        put_varint(out, *count);
    }
    put_varint(out, marks.len() as u64);
    for mark in marks {
        put_text(out, &mark.stream);
        put_varint(out, mark.number);
        put_varint(out, mark.above.len() as u64);
        let mut before = mark.number;
        for (first, last) in &mark.above {
            put_varint(out, first.wrapping_sub(before));
            put_varint(out, last.wrapping_sub(*first));
            before = *last;
        }
        put_text(out, &mark.text);
    }
}

fn take_mark(bytes: &mut &[u8]) -> Option<Mark> {
    let stream = take_text(bytes)?.into();
    let number = take(bytes)?;
    let mut above = Vec::new();
    let mut before = number;
    for _ in 0..take_count(bytes, 2).filter(|count| *count <= MAX_ABOVE)? {
        let first = before.checked_add(take(bytes)?)?;
        let last = first.checked_add(take(bytes)?)?;
        above.push((first, last));
        before = last;
    }
    Some(Mark { stream, number, above, text: take_text(bytes)?.to_vec() })
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (value, width) = varint(bytes)?;
    *bytes = &bytes[width..];
    Some(value)
}

/// A count of things that take `least` bytes each.
fn take_count(bytes: &mut &[u8], least: usize) -> Option<usize> {
    let count = usize::try_from(take(bytes)?).ok()?;
    (count <= bytes.len() / least).then_some(count)
}

pub(crate) fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take(bytes)?).ok().filter(|len| *len <= MAX_MARK_TEXT)?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(stream: &str, number: u64) -> Mark {
        Mark {
            stream: stream.as_bytes().into(),
            number,
            above: vec![(number + 2, number + 5)],
            text: b"t".into(),
        }
    }

    #[test]
    fn changes_add_up_and_come_back() {
        let mut state = State::default();
        state.change(&[(1, 5), (70_000, 1), (2, 0)], &[mark("a", 7)]);
        state.change(&[(1, 5)], &[mark("a", 9), mark("b", u64::MAX - 5)]);
        let mut bytes = Vec::new();
        state.put(&mut bytes);
        let mut back = State::default();
        assert_eq!(back.take(&mut &bytes[..]), Some(()));
        assert_eq!(back.counters().collect::<Vec<_>>(), [(1, 10), (70_000, 1)]);
        assert_eq!(back.marks().cloned().collect::<Vec<_>>(), [mark("a", 9), mark("b", u64::MAX - 5)]);
        for end in 0..bytes.len() {
            assert_eq!(State::default().take(&mut &bytes[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn a_mark_covers_what_is_below_it_and_its_ranges() {
        let mark = mark("a", 10);
        let covered: Vec<_> = (9..18).filter(|number| mark.covers(*number)).collect();
        assert_eq!(covered, [9, 10, 12, 13, 14, 15]);
    }

    #[test]
    fn the_marks_that_were_set_longest_ago_go_first() {
        let mut state = State::default();
        for number in 0..=MAX_MARKS as u64 {
            state.change(&[], &[mark("first", number), mark(&format!("s{number}"), 1)]);
        }
        assert_eq!(state.marks().count(), MAX_MARKS);
        assert!(state.marks().any(|mark| &*mark.stream == b"first"));
        assert!(!state.marks().any(|mark| &*mark.stream == b"s0"));
    }
}

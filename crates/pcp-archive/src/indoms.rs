//! Instance domains over time (`docs/pcp/archive.md` 5.2, 5.3, 9.2).
//!
//! Each record is kept as it came: a full list, or what was added and deleted. A domain at a time is put
//! together when it is asked for, and the last one put together is kept, so that going forward in time
//! costs the changes only.
//!
//! Cost: 8 bytes for each instance of each record, and the names, each once while it does not change.

use memchr::Memchr;
use rustc_hash::FxHashMap;

use super::fields::{Fields, Stamp, until_nul};
use pcp_model::{InDom, Inst, Timestamp};

/// All records of one instance domain.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Oldest first, once settled.
    records: Vec<Record>,
    unsettled: bool,
    names: Vec<u8>,
    /// The number of a record and the whole domain at its time.
    built: Option<(usize, Vec<Entry>)>,
}

/// A record of an instance domain, as it is in the file.
#[derive(Debug, PartialEq)]
struct Record {
    stamp: Timestamp,
    kind: Kind,
    /// By id; of a delta, those added.
    entries: Vec<Entry>,
    /// Of a delta.
    deleted: Vec<Inst>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Full,
    Delta,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    id: Inst,
    /// Where its name starts; a NUL ends it.
    name: u32,
}

/// How many times as long as the strings of a record all its names together may be.
const MAX_SHARED: usize = 16;
/// From how many bytes on the strings of a record are many.
const MANY: usize = 4096;
/// How many bytes between two strings are looked at one by one.
const FAR: usize = 64;

/// An instance of a record that is being added.
struct Named {
    id: Inst,
    /// Where its name starts in the record.
    start: usize,
    /// The string it is the end of.
    string: usize,
}

/// A string of a record.
struct Kept {
    start: usize,
    end: usize,
    /// Where it is among the names that are kept, if it is.
    at: Option<usize>,
}

/// When an instance was there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Life {
    pub id: Inst,
    /// The stamp of the first record that has it.
    pub birth: Timestamp,
    /// The stamp of the first record behind the last that has it.
    pub death: Option<Timestamp>,
    last: usize,
    name: u32,
}

/// A record that is not one, or names of more than 4 GiB.
#[derive(Debug)]
pub(super) struct Malformed;

/// One record as `pmdumplog -I` shows it: names are missing where instances were deleted.
pub struct OnDisk<'a> {
    /// Since when it holds.
    pub stamp: Timestamp,
    /// Whether it only tells changes.
    pub delta: bool,
    /// Instances there or added, and those deleted.
    pub instances: Vec<(Inst, Option<&'a [u8]>)>,
}

/// The fields in front of the instances.
pub(super) struct Head {
    pub stamp: Timestamp,
    pub indom: InDom,
    delta: bool,
}

impl Head {
    /// Decodes the head of a record body whose type says which stamp it has and whether it is a delta.
    pub(crate) fn decode(fields: &mut Fields<'_>, stamp: Stamp, delta: bool) -> Option<Head> {
        Some(Head { stamp: fields.stamp(stamp)?, indom: InDom(fields.u32()?), delta })
    }
}

impl History {
    /// Adds the record whose head has been read; `fields` is what follows, up to the trailer.
    pub(crate) fn add(&mut self, head: &Head, mut fields: Fields<'_>) -> Result<(), Malformed> {
        const NO_INSTANCES: [i32; 2] = [0, -1];
        // Such a record leaves the domain as it was.
        let mut peek = fields;
        if peek.i32().is_some_and(|count| NO_INSTANCES.contains(&count)) {
            return Ok(());
        }
        let count = fields.count(8).ok_or(Malformed)?;
        let mut ids = Fields(fields.bytes(4 * count).ok_or(Malformed)?);
        let mut offsets = Fields(fields.bytes(4 * count).ok_or(Malformed)?);
        let strings = fields.0;
        let mut deleted = Vec::new();
        let mut named = Vec::with_capacity(count);
        while let (Some(id), Some(offset)) = (ids.i32(), offsets.i32()) {
            if id < 0 {
                return Err(Malformed);
            }
            if offset == -1 && head.delta {
                deleted.push(id);
                continue;
            }
            let start = usize::try_from(offset).ok().filter(|start| *start < strings.len());
            named.push(Named { id, start: start.ok_or(Malformed)?, string: 0 });
        }
        deleted.sort_unstable();
        let mut kept = strings_of(&mut named, strings)?;
        named.sort_by_key(|name| name.id);
        let entries = self.store(&named, strings, &mut kept)?;
        let kind = if head.delta { Kind::Delta } else { Kind::Full };
        let record = Record { stamp: head.stamp, kind, entries, deleted };
        // A record that says the same again would only make `lives` slower.
        match self.records.last() {
            Some(last) if *last == record => return Ok(()),
            Some(last) => self.unsettled |= last.stamp > record.stamp,
            None => {}
        }
        self.records.push(record);
        Ok(())
    }

    /// Puts what has been added in order. Records of one stamp stay in the order of the file: the last one holds.
    pub(crate) fn settle(&mut self) {
        if std::mem::take(&mut self.unsettled) {
            self.records.sort_by_key(|record| record.stamp);
            self.records.dedup();
            self.built = None;
        }
    }

    /// Entries for instances, with the names of the record added before where they are the same. A string that
    /// several instances share is kept once.
    fn store(&mut self, named: &[Named], strings: &[u8], kept: &mut [Kept]) -> Result<Vec<Entry>, Malformed> {
        let mut entries = Vec::with_capacity(named.len());
        let known = self.records.last();
        let mut known = known.map_or(&[][..], |record| &record.entries).iter().peekable();
        for Named { id, start, string } in named {
            let Some(string) = kept.get_mut(*string) else { return Err(Malformed) };
            let name = strings.get(*start..string.end).ok_or(Malformed)?;
            // Both are sorted by id, so that one walk finds all names that have not changed.
            while known.next_if(|entry| entry.id < *id).is_some() {}
            let same = known
                .peek()
                .filter(|entry| entry.id == *id && is_text(&self.names, entry.name, name))
                .map(|entry| entry.name);
            let name = match same {
                Some(name) => name,
                None => {
                    let at = *string.at.get_or_insert(self.names.len());
                    if at == self.names.len() {
                        self.names.extend_from_slice(&strings[string.start..string.end]);
                        self.names.push(0);
                    }
                    u32::try_from(at + (start - string.start)).map_err(|_| Malformed)?
                }
            };
            entries.push(Entry { id: *id, name });
        }
        Ok(entries)
    }

    /// The domain at `time`, by id; `None` before its first record.
    pub(crate) fn at(&mut self, time: Timestamp) -> Option<impl Iterator<Item = (Inst, &[u8])>> {
        let newest = self.records.partition_point(|record| record.stamp <= time).checked_sub(1)?;
        self.build(newest);
        let Self { names, built, records, .. } = self;
        let entries = match (built, &records[newest]) {
            (_, Record { kind: Kind::Full, entries, .. }) => entries,
            (Some((_, entries)), _) => entries,
            (None, record) => &record.entries,
        };
        Some(entries.iter().map(|entry| (entry.id, text(names, entry.name))))
    }

    /// Has `built` hold the domain of record `number`, unless that is a full one.
    fn build(&mut self, number: usize) {
        let full = self.records[..=number].iter().rposition(|record| record.kind == Kind::Full);
        if full == Some(number) {
            return;
        }
        let (mut at, mut entries) = match (self.built.take(), full) {
            // What was built goes on only if no full record in between makes it void.
            (Some((at, entries)), full) if at <= number && full.is_none_or(|full| full <= at) => {
                (at, entries)
            }
            (_, Some(full)) => (full, self.records[full].entries.clone()),
            // Changes without anything they change: to nothing.
            (_, None) => (0, self.records[0].entries.clone()),
        };
        while at < number {
            at += 1;
            self.records[at].apply(&mut entries);
        }
        self.built = Some((number, entries));
    }

    /// Every instance there ever was, once, in the order of `pmGetInDomArchive(3)`: by the newest record
    /// that has it, then by id. With it the largest number of instances at a time.
    pub(crate) fn lives(&self) -> (Vec<Life>, usize) {
        let mut lives: FxHashMap<Inst, Life> = FxHashMap::default();
        let mut entries: Vec<Entry> = Vec::new();
        let mut largest = 0;
        for (number, record) in self.records.iter().enumerate() {
            let mut see = |id: Inst, name: Option<u32>, last| {
                let new = Life { id, birth: record.stamp, death: None, last, name: name.unwrap_or_default() };
                let life = lives.entry(id).or_insert(new);
                (life.last, life.name) = (last, name.unwrap_or(life.name));
            };
            // Who was there stays in the life of an instance until a record ends it.
            let before = number.saturating_sub(1);
            match record.kind {
                Kind::Full => entries.iter().for_each(|entry| see(entry.id, None, before)),
                Kind::Delta => {
                    let there = |id: &&Inst| entries.binary_search_by_key(*id, |entry| entry.id).is_ok();
                    record.deleted.iter().filter(there).for_each(|id| see(*id, None, before));
                }
            }
            record.apply(&mut entries);
            for Entry { id, name } in &record.entries {
                see(*id, Some(*name), number);
            }
            largest = largest.max(entries.len());
        }
        let newest = self.records.len().saturating_sub(1);
        for entry in &entries {
            lives.entry(entry.id).and_modify(|life| life.last = newest);
        }
        let mut lives: Vec<Life> = lives.into_values().collect();
        for life in &mut lives {
            life.death = self.records.get(life.last + 1).map(|record| record.stamp);
        }
        lives.sort_by_key(|life| (std::cmp::Reverse(life.last), life.id));
        (lives, largest)
    }

    /// The newest name of an instance.
    pub(crate) fn name(&self, life: &Life) -> &[u8] {
        text(&self.names, life.name)
    }

    /// The records oldest first, such that readers of them see what readers of these do, whatever they know of the domain: the
    /// first has all instances, and a change only what it changes. `room`: instances that may be gone through; the rest is
    /// left out. Returns how many records were.
    ///
    /// # Errors
    /// Those of `put`.
    pub(crate) fn anew<E>(
        &self,
        room: &mut u64,
        mut put: impl FnMut(OnDisk<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut has_base = false;
        for (number, record) in self.records.iter().enumerate() {
            let work = 1 + entries.len() + record.entries.len() + record.deleted.len();
            match room.checked_sub(work as u64) {
                Some(left) => *room = left,
                None => return Ok(self.records.len() - number),
            }
            let before = std::mem::take(&mut entries);
            entries.clone_from(&before);
            record.apply(&mut entries);
            let delta = has_base && record.kind == Kind::Delta;
            let named = |entry: &Entry| (entry.id, Some(text(&self.names, entry.name)));
            let instances: Vec<_> = match delta {
                true => changes(&before, &entries)
                    .map(|(id, name)| (id, name.map(|at| text(&self.names, at))))
                    .collect(),
                false => entries.iter().map(named).collect(),
            };
            // Readers pass over a record without instances.
            if !instances.is_empty() {
                has_base = true;
                put(OnDisk { stamp: record.stamp, delta, instances })?;
            }
        }
        Ok(0)
    }

    /// Whether there is no record with instances.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The records as they are in the file, oldest first.
    pub(crate) fn on_disk(&self) -> impl Iterator<Item = OnDisk<'_>> {
        self.records.iter().map(|record| {
            let there = record.entries.iter().map(|entry| (entry.id, Some(text(&self.names, entry.name))));
            let deleted = record.deleted.iter().map(|id| (*id, None));
            let mut instances: Vec<_> = there.chain(deleted).collect();
            instances.sort_by_key(|(id, _)| *id);
            OnDisk { stamp: record.stamp, delta: record.kind == Kind::Delta, instances }
        })
    }
}

/// Finds the strings that names are in or end with, and which of them each is in. Cost: one walk over the strings,
/// however many names share them.
fn strings_of(named: &mut [Named], strings: &[u8]) -> Result<Vec<Kept>, Malformed> {
    named.sort_by_key(|name| name.start);
    let mut ends = Ends::of(strings);
    let mut kept: Vec<Kept> = Vec::new();
    let mut total: usize = 0;
    for name in named {
        // In the order of their starts: what starts before the last one's end has the same end.
        let end = match kept.last() {
            Some(last) if name.start <= last.end => last.end,
            _ => {
                let end = ends.next(name.start);
                kept.push(Kept { start: name.start, end, at: None });
                end
            }
        };
        name.string = kept.len() - 1;
        total = total.saturating_add(end - name.start);
    }
    // Whoever lists the instances writes every name in full.
    if total > MAX_SHARED.saturating_mul(strings.len()) {
        return Err(Malformed);
    }
    Ok(kept)
}

/// Where the strings of a record end, asked for in the order of their starts.
struct Ends<'a> {
    strings: &'a [u8],
    /// All NULs, of many strings: to find each by itself took a third of opening an archive of processes. Of few it is not worth it
    /// (see [`until_nul`]).
    nuls: Option<Nuls<'a>>,
}

/// NULs from a place on.
struct Nuls<'a> {
    from: usize,
    ends: Memchr<'a>,
    /// The one that was found last.
    last: usize,
}

impl<'a> Ends<'a> {
    fn of(strings: &'a [u8]) -> Ends<'a> {
        let all = || Nuls { from: 0, ends: memchr::memchr_iter(0, strings), last: 0 };
        Ends { strings, nuls: (strings.len() >= MANY).then(all) }
    }

    /// Where the string ends that is at `start`, behind the end that was told before.
    fn next(&mut self, start: usize) -> usize {
        let rest = self.strings.get(start..).unwrap_or_default();
        let Some(nuls) = &mut self.nuls else { return start + until_nul(rest).len() };
        // Usually it is the next byte; what nobody names may be full of NULs.
        if start > nuls.last + FAR {
            (nuls.from, nuls.ends) = (start, memchr::memchr_iter(0, rest));
        }
        let end = nuls.ends.find(|end| nuls.from + end >= start);
        nuls.last = end.map_or(self.strings.len(), |end| nuls.from + end);
        nuls.last
    }
}

impl Record {
    /// Turns the domain in front of this record into the one it makes.
    fn apply(&self, entries: &mut Vec<Entry>) {
        match self.kind {
            Kind::Full => entries.clone_from(&self.entries),
            Kind::Delta => {
                entries.retain(|entry| self.deleted.binary_search(&entry.id).is_err());
                // An instance that is there already keeps its name.
                let added = self
                    .entries
                    .iter()
                    .filter(|new| entries.binary_search_by_key(&new.id, |entry| entry.id).is_err());
                let added: Vec<Entry> = added.copied().collect();
                entries.extend(added);
                entries.sort_by_key(|entry| entry.id);
            }
        }
    }
}

/// Which instances went and which came, with where their names start, by id; both are.
fn changes(before: &[Entry], after: &[Entry]) -> impl Iterator<Item = (Inst, Option<u32>)> {
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let gone = before.peek().copied();
            let came = after.peek().copied();
            match (gone, came) {
                (Some(gone), Some(came)) if gone == came => {
                    before.next();
                    after.next();
                }
                // One with another name goes before it comes.
                (Some(gone), came) if came.is_none_or(|came| gone.id <= came.id) => {
                    before.next();
                    return Some((gone.id, None));
                }
                (_, came) => {
                    let came = came?;
                    after.next();
                    return Some((came.id, Some(came.name)));
                }
            }
        }
    })
}

/// Whether the text at a place is this one, in which there is no NUL.
fn is_text(names: &[u8], at: u32, text: &[u8]) -> bool {
    let kept = names.get(at as usize..).and_then(|names| names.strip_prefix(text));
    kept.is_some_and(|rest| rest.first().is_none_or(|end| *end == 0))
}

fn text(names: &[u8], at: u32) -> &[u8] {
    until_nul(names.get(at as usize..).unwrap_or(&[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instances with one-letter names; a blank name means deleted.
    fn add(
        history: &mut History,
        sec: i64,
        delta: bool,
        instances: &[(Inst, &str)],
    ) -> Result<(), Malformed> {
        let head = Head { stamp: Timestamp::new(sec, 0), indom: InDom::new(245, 1), delta };
        let mut body = (instances.len() as i32).to_be_bytes().to_vec();
        instances.iter().for_each(|(id, _)| body.extend(id.to_be_bytes()));
        let mut strings = Vec::new();
        for (_, name) in instances {
            let offset = if name.is_empty() { -1 } else { strings.len() as i32 };
            body.extend(offset.to_be_bytes());
            if !name.is_empty() {
                strings.extend(name.bytes().chain([0]));
            }
        }
        body.extend(strings);
        history.add(&head, Fields(&body))
    }

    fn at(history: &mut History, sec: i64) -> Option<String> {
        let show = |(id, name): (Inst, &[u8])| format!("{id}{}", name.escape_ascii());
        history.at(Timestamp::new(sec, 0)).map(|all| all.map(show).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn all_instances_come_newest_first() {
        let mut history = History::default();
        for (sec, ids) in [(0, &[1, 3, 5][..]), (1, &[1, 4, 5]), (2, &[1, 4, 5, 7])] {
            let old: Vec<_> = ids.iter().map(|id| (*id, "o")).collect();
            add(&mut history, sec, false, &old).unwrap();
        }
        add(&mut history, 3, false, &[(2, "two"), (1, "one")]).unwrap();
        let (lives, largest) = history.lives();
        assert_eq!(largest, 4);
        assert_eq!(lives.iter().map(|life| life.id).collect::<Vec<_>>(), [1, 2, 4, 5, 7, 3]);
        assert_eq!(history.name(&lives[0]), b"one");
        assert_eq!((lives[0].birth.sec, lives[0].death), (0, None));
        assert_eq!((lives[5].birth.sec, lives[5].death), (0, Some(Timestamp::new(1, 0))));
    }

    #[test]
    fn deltas_in_any_order_of_asking() {
        let mut history = History::default();
        add(&mut history, 10, false, &[(0, "a"), (7, "b")]).unwrap();
        add(&mut history, 20, true, &[(7, ""), (9, "c")]).unwrap();
        add(&mut history, 30, true, &[(9, "other"), (8, "")]).unwrap();
        add(&mut history, 40, false, &[]).unwrap();
        add(&mut history, 15, true, &[(5, "late")]).unwrap();
        history.settle();
        for _ in 0..2 {
            assert_eq!(at(&mut history, 9), None);
            assert_eq!(at(&mut history, 50).unwrap(), "0a 5late 9c");
            assert_eq!(at(&mut history, 10).unwrap(), "0a 7b");
            assert_eq!(at(&mut history, 15).unwrap(), "0a 5late 7b");
            assert_eq!(at(&mut history, 20).unwrap(), "0a 5late 9c");
        }
        let (lives, _) = history.lives();
        let lives: Vec<_> = lives.iter().map(|life| (life.id, life.death.map(|death| death.sec))).collect();
        assert_eq!(lives, [(0, None), (5, None), (9, None), (7, Some(20))]);
        let mut orphan = History::default();
        add(&mut orphan, 1, true, &[(1, ""), (2, "x")]).unwrap();
        assert_eq!(at(&mut orphan, 1).unwrap(), "2x");
        assert!(add(&mut orphan, 1, false, &[(1, "")]).is_err());
        assert!(add(&mut orphan, 1, false, &[(-1, "x")]).is_err());
    }

    #[test]
    fn strings_end_at_the_next_nul() {
        // One after the other, some with bytes between them that nobody names, some of them many NULs; the last without an end.
        let mut strings = Vec::new();
        let mut starts = Vec::new();
        for number in 0..600_usize {
            starts.push(strings.len());
            strings.extend_from_slice(format!("process {number}").as_bytes());
            if number % 3 == 0 {
                starts.push(strings.len() - 2);
            }
            strings.extend(std::iter::repeat_n(0, if number % 50 == 7 { 500 } else { 1 + number % 4 }));
        }
        while strings.last() == Some(&0) {
            strings.pop();
        }
        for count in [20, 600] {
            let last = starts[count];
            let strings = if count < 600 { &strings[..last] } else { &strings[..] };
            let starts = starts.iter().filter(|start| **start < strings.len());
            let mut named: Vec<Named> =
                starts.rev().map(|start| Named { id: 0, start: *start, string: 0 }).collect();
            let kept = strings_of(&mut named, strings).expect("short");
            for Named { start, string, .. } in named {
                let end = strings[start..].iter().position(|byte| *byte == 0);
                assert_eq!(kept[string].end, end.map_or(strings.len(), |end| start + end), "from {start}");
            }
        }
    }
}

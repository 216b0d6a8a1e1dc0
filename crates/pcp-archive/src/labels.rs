//! Labels over time (`docs/pcp/archive.md` 5.4, 9.3).
//!
//! ```text
//! set   := inst i32 | length u32 | JSON | nlabels i32 (below 0: an error) | nlabels x label
//! label := name offset u16 | name length u8 | flags u8 | value offset u16 | value length u16
//! ```
//! Offsets are into the JSON; names are without their quotes, values with them.

use hashbrown::{HashMap, HashSet};

use super::fields::{Fields, Stamp};
use pcp_model::{Inst, Label, LabelFlags, LabelKind, LabelSet, PmError, Timestamp};

/// Longest JSON of a set, and the most labels it may have.
const MAX_JSON: usize = 65535;
const MAX_LABELS: i32 = 255;

/// What labels belong to: level and identifier.
pub(super) type Key = (i32, u32);

/// All label records of an archive.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// Oldest first, once settled.
    records: HashMap<Key, Vec<Record>>,
    /// Those that are out of order.
    unsettled: HashSet<Key>,
}

/// The label sets of something since a time, as they are in the file.
#[derive(Debug, PartialEq)]
pub(super) struct Record {
    stamp: Timestamp,
    nsets: usize,
    sets: Box<[u8]>,
}

/// A set as it is in the file.
pub(super) struct RawSet<'a> {
    pub inst: Inst,
    pub json: &'a [u8],
    pub labels: Result<Vec<RawLabel>, PmError>,
}

/// The place of a label in its JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawLabel {
    pub name: (usize, usize),
    pub flags: u8,
    pub value: (usize, usize),
}

impl Labels {
    /// Adds the record whose body follows its type. `None`: it is not one.
    pub(crate) fn add(&mut self, mut fields: Fields<'_>, stamp: Stamp) -> Option<()> {
        let stamp = fields.stamp(stamp)?;
        let (kind, ident) = (fields.i32()?, fields.u32()?);
        let nsets = usize::try_from(fields.i32()?).ok()?;
        let sets = fields.0;
        for _ in 0..nsets {
            raw_set(&mut fields)?;
        }
        let len = sets.len() - fields.0.len();
        let record = Record { stamp, nsets, sets: sets[..len].into() };
        let key = (kind, ident);
        let records = self.records.entry(key).or_default();
        match records.last() {
            Some(last) if last.stamp > stamp => drop(self.unsettled.insert(key)),
            // What says nothing new is not kept.
            Some(last) if last.says_as(&record) && !self.unsettled.contains(&key) => return Some(()),
            _ => {}
        }
        records.push(record);
        Some(())
    }

    /// Puts what has been added in order. Records of one stamp stay in the order of the file: the last one holds.
    pub(crate) fn settle(&mut self) {
        for key in self.unsettled.drain() {
            if let Some(records) = self.records.get_mut(&key) {
                records.sort_by_key(|record| record.stamp);
                records.dedup_by(|later, earlier| earlier.says_as(later));
            }
        }
    }

    /// The newest record not after `time`; and whether there is any record.
    pub(crate) fn at(&self, key: Key, time: Timestamp) -> (Option<&Record>, bool) {
        let Some(records) = self.records.get(&key) else { return (None, false) };
        let newest = records.partition_point(|record| record.stamp <= time).checked_sub(1);
        (newest.and_then(|at| records.get(at)), true)
    }

    /// When something got labels that it did not have before, oldest first.
    pub(crate) fn changes(&self, key: Key) -> impl Iterator<Item = Timestamp> {
        self.records.get(&key).into_iter().flatten().map(|record| record.stamp)
    }
}

impl Record {
    fn says_as(&self, other: &Record) -> bool {
        self.nsets == other.nsets && self.sets == other.sets
    }

    /// The sets as they are in the file.
    pub(crate) fn raw(&self) -> impl Iterator<Item = RawSet<'_>> {
        let mut fields = Fields(&self.sets);
        (0..self.nsets).map_while(move |_| raw_set(&mut fields))
    }

    /// The sets.
    pub(crate) fn sets(&self) -> Vec<LabelSet> {
        let text = |json: &[u8], (at, len): (usize, usize)| {
            json.get(at..at + len).map(|text| String::from_utf8_lossy(text).into_owned())
        };
        let label = |json: &[u8], raw: &RawLabel| {
            let (name, value) = (text(json, raw.name)?, text(json, raw.value)?);
            Some(Label { name, value, flags: LabelFlags(raw.flags) })
        };
        let set = |set: RawSet<'_>| match &set.labels {
            Ok(labels) => {
                let labels = labels.iter().filter_map(|raw| label(set.json, raw)).collect();
                LabelSet::sorted(set.inst, labels)
            }
            Err(error) => LabelSet { inst: set.inst, labels: Err(*error) },
        };
        self.raw().map(set).collect()
    }
}

/// The labels of a context that has no record: its host's name.
pub(super) fn host_only(host: &str) -> LabelSet {
    let mut value = String::with_capacity(host.len() + 2);
    value.push('"');
    for c in host.chars() {
        if matches!(c, '"' | '\\') {
            value.push('\\');
        }
        value.push(c);
    }
    value.push('"');
    let flags = LabelFlags(LabelKind::Context.code() as u8);
    let host = Label { name: "hostname".to_owned(), value, flags };
    LabelSet { inst: pcp_model::PM_IN_NULL, labels: Ok(vec![host]) }
}

fn raw_set<'a>(fields: &mut Fields<'a>) -> Option<RawSet<'a>> {
    let inst = fields.i32()?;
    let len = usize::try_from(fields.u32()?).ok().filter(|len| *len <= MAX_JSON)?;
    let json = fields.bytes(len)?;
    let count = fields.i32()?;
    if count < 0 {
        return Some(RawSet { inst, json, labels: Err(PmError(count)) });
    }
    if count > MAX_LABELS {
        return None;
    }
    // Labels that share bytes are refused: a few bytes of them would be a lot of text.
    let mut room = len;
    let mut labels = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let (name_at, name_len, flags) = (fields.u16()?, fields.u8()?, fields.u8()?);
        let (value_at, value_len) = (fields.u16()?, fields.u16()?);
        room = room.checked_sub(usize::from(name_len) + usize::from(value_len))?;
        let name = (name_at.into(), name_len.into());
        labels.push(RawLabel { name, flags, value: (value_at.into(), value_len.into()) });
    }
    Some(RawSet { inst, json, labels: Ok(labels) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of one set with this many labels, each of which is the whole JSON.
    fn record(sec: u8, labels: u8) -> Vec<u8> {
        let mut record = vec![0, 0, 0, sec, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 1];
        record.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 4, b'a', b'b', b'c', sec, 0, 0, 0, labels]);
        record.extend([0, 0, 1, 0, 0, 1, 0, 3].repeat(labels.into()));
        record
    }

    #[test]
    fn labels_do_not_share_bytes() {
        let mut labels = Labels::default();
        assert!(labels.add(Fields(&record(1, 1)), Stamp::Micro).is_some());
        assert!(labels.add(Fields(&record(1, 2)), Stamp::Micro).is_none());
    }

    #[test]
    fn labels_are_in_the_order_of_their_names() {
        let json = br#"{"b":1,"a":2}"#;
        // Of a metric, at a second; one set, with two labels.
        let mut record = vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 1];
        record.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, json.len() as u8]);
        record.extend(json);
        record.extend([0, 0, 0, 2, 0, 2, 1, 16, 0, 5, 0, 1, 0, 8, 1, 16, 0, 11, 0, 1]);
        let mut labels = Labels::default();
        labels.add(Fields(&record), Stamp::Micro).unwrap();
        let sets = labels.at((16, 1), Timestamp::new(1, 0)).0.unwrap().sets();
        let found = sets[0].labels.as_ref().unwrap().iter().map(|label| (&*label.name, &*label.value));
        assert_eq!(found.collect::<Vec<_>>(), [("a", "2"), ("b", "1")]);
    }

    #[test]
    fn records_come_in_any_order() {
        let mut labels = Labels::default();
        for sec in [3, 1, 2, 1] {
            labels.add(Fields(&record(sec, 1)), Stamp::Micro).unwrap();
        }
        labels.settle();
        for sec in 1..4 {
            let (found, _) = labels.at((16, 1), Timestamp::new(sec, 0));
            assert_eq!(found.map(|record| record.stamp.sec), Some(sec));
        }
    }
}

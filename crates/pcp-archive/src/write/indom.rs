//! What the archive says about instance domains, and how to say what has changed (`docs/pcp/archive.md` 5.2, 5.3).

use std::collections::HashMap;

use super::metadata::{put_delta, put_indom};
use pcp_model::{InDom, Inst, Instance, Timestamp};

/// The instances of each domain as of its last record, in ascending order.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<InDom, Vec<Instance>>);

impl Known {
    /// Whether a domain has an instance.
    pub(super) fn has(&self, indom: InDom, inst: Inst) -> bool {
        let known = self.0.get(&indom).map(Vec::as_slice).unwrap_or_default();
        known.binary_search_by_key(&inst, |instance| instance.id).is_ok()
    }

    /// Takes a domain as the archive has it.
    pub(super) fn insert(&mut self, indom: InDom, mut instances: Vec<Instance>) {
        instances.sort_by_key(|instance| instance.id);
        self.0.insert(indom, instances);
    }

    /// Appends a record if the domain is not what it was: of the changes if that is shorter, else of all.
    /// Readers refuse negative identifiers and ignore records without instances; both are left out.
    pub(super) fn update(
        &mut self,
        out: &mut Vec<u8>,
        time: Timestamp,
        indom: InDom,
        instances: &[Instance],
    ) {
        let mut new: Vec<Instance> = instances.iter().filter(|instance| instance.id >= 0).cloned().collect();
        new.sort_by_key(|instance| instance.id);
        new.dedup_by_key(|instance| instance.id);
        if new.is_empty() {
            return;
        }
        let old = self.0.entry(indom).or_default();
        if *old == new {
            return;
        }
        let changes = if old.is_empty() { None } else { changes(old, &new) };
        match changes.filter(|changes| names(changes) + 8 * changes.len() < full(&new)) {
            Some(changes) => {
                let bytes = changes.iter().map(|(inst, name)| (*inst, name.map(str::as_bytes)));
                put_delta(out, time, indom, bytes);
            }
            None => put_indom(out, time, indom, &new),
        }
        *old = new;
    }
}

/// Which instances went and came, in ascending order. `None` if one has got another name: there is no record
/// for that.
fn changes<'a>(old: &[Instance], new: &'a [Instance]) -> Option<Vec<(Inst, Option<&'a str>)>> {
    let mut changes = Vec::new();
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        match (old.peek(), new.peek()) {
            (None, None) => return Some(changes),
            (Some(gone), came) if came.is_none_or(|came| gone.id < came.id) => {
                changes.push((gone.id, None));
                old.next();
            }
            (gone, Some(came)) if gone.is_none_or(|gone| came.id < gone.id) => {
                changes.push((came.id, Some(came.name.as_str())));
                new.next();
            }
            (Some(before), Some(after)) if before.name != after.name => return None,
            _ => {
                old.next();
                new.next();
            }
        }
    }
}

fn names(changes: &[(Inst, Option<&str>)]) -> usize {
    changes.iter().filter_map(|(_, name)| name.map(|name| name.len() + 1)).sum()
}

fn full(instances: &[Instance]) -> usize {
    instances.iter().map(|instance| 8 + instance.name.len() + 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instances(list: &[(i32, &str)]) -> Vec<Instance> {
        list.iter().map(|&(id, name)| Instance { id, name: name.to_owned() }).collect()
    }

    /// The type of the record written, its identifiers and string offsets; `None` if there is none.
    fn update(known: &mut Known, list: &[(i32, &str)]) -> Option<(u32, Vec<(i32, i32)>)> {
        let mut out = Vec::new();
        known.update(&mut out, Timestamp::new(1, 2), InDom::new(1, 2), &instances(list));
        let word = |at: usize| i32::from_be_bytes(out[at..at + 4].try_into().expect("four bytes"));
        if out.is_empty() {
            return None;
        }
        assert_eq!(word(0) as usize, out.len());
        let count = word(24) as usize;
        let entry = |at: usize| (word(28 + 4 * at), word(28 + 4 * (count + at)));
        Some((word(4) as u32, (0..count).map(entry).collect()))
    }

    #[test]
    fn changes_are_written_where_that_is_shorter() {
        let mut known = Known::default();
        assert_eq!(update(&mut known, &[(5, "b"), (1, "a")]), Some((5, vec![(1, 0), (5, 2)])));
        assert_eq!(update(&mut known, &[(1, "a"), (5, "b")]), None);
        let three = [(1, "a"), (5, "b"), (7, "a long name")];
        assert_eq!(update(&mut known, &three), Some((6, vec![(7, 0)])));
        assert_eq!(update(&mut known, &[(1, "a"), (7, "a long name")]), Some((6, vec![(5, -1)])));
        assert_eq!(update(&mut known, &[(2, "x")]), Some((5, vec![(2, 0)])), "all others went");
        assert_eq!(update(&mut known, &[(2, "y")]), Some((5, vec![(2, 0)])), "renamed");
        assert_eq!(update(&mut known, &[]), None);
        assert_eq!(update(&mut known, &[(-1, "bad"), (2, "y"), (2, "again")]), None);
        assert!(known.has(InDom::new(1, 2), 2) && !known.has(InDom::new(1, 2), 7));
    }
}

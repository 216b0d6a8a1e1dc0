//! The filters of a log's cursors, each distinct one once, and what they would have let pass of the
//! records that were evicted.
//!
//! A filtered cursor that falls behind is not visited at each eviction: its group counts for all
//! such cursors at once, and the cursor takes the difference when it is used next.

use std::cmp::Reverse;
use std::sync::Arc;

use super::chunk::Chunk;
use super::cursor::{Cursor, CursorTable, Lag};
use crate::batch::record_time;
use crate::filter::{BoundFilter, FieldResolver, Filter};
use crate::work::Work;
use pcp_model::Timestamp;

#[derive(Debug)]
pub(super) struct Group {
    pub filter: BoundFilter,
    /// Cursors with this filter.
    members: usize,
    /// Those of them that have fallen behind.
    lagging: usize,
    /// Evicted records that pass, while there were any.
    passed: u64,
    /// Evicted records that do not.
    failed: u64,
    /// When the newest of the passed ones happened.
    time: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Option<Group>>,
}

/// A filtered cursor whose next entry is in a chunk that is being evicted.
struct EvictedReader<'a> {
    group: usize,
    /// How many of the chunk's records it has read.
    index: usize,
    cursor: &'a mut Cursor,
}

impl Groups {
    pub(super) fn join(&mut self, filter: Arc<Filter>, resolver: &dyn FieldResolver) -> usize {
        let same = |group: &Group| *group.filter.filter() == filter;
        // Clients mostly set one of a few filters: shared, an evicted record is matched once for all of them.
        if let Some(index) = self.groups.iter().position(|group| group.as_ref().is_some_and(same)) {
            self.get_mut(index).members += 1;
            self.get_mut(index).filter.rebind(resolver);
            return index;
        }
        let filter = filter.bind(resolver);
        let group =
            Group { filter, members: 1, lagging: 0, passed: 0, failed: 0, time: Timestamp::default() };
        match self.groups.iter().position(Option::is_none) {
            Some(index) => {
                self.groups[index] = Some(group);
                index
            }
            None => {
                self.groups.push(Some(group));
                self.groups.len() - 1
            }
        }
    }

    pub(super) fn leave(&mut self, index: usize) {
        self.get_mut(index).members -= 1;
        if self.get(index).members == 0 {
            self.groups[index] = None;
        }
    }

    pub(super) fn rebind(&mut self, resolver: &dyn FieldResolver) {
        self.groups.iter_mut().flatten().for_each(|group| group.filter.rebind(resolver));
    }

    pub(super) fn get(&self, index: usize) -> &Group {
        self.groups[index].as_ref().expect("a group lives as long as a cursor is its member")
    }

    /// Counts the passing and the other records of a chunk for the cursors that have not read them.
    pub(super) fn evict(&mut self, chunk: &Chunk, cursors: &mut CursorTable, work: &mut Work) {
        let mut fallen: Vec<EvictedReader<'_>> = Vec::new();
        // A walk over all cursors, so only where there is one to be found. Those without a filter need no visit: what
        // they have lost is the distance to the first entry that is left.
        if chunk.filtered > 0 {
            fallen.extend(cursors.iter_mut().filter_map(|cursor| {
                let group = cursor.group.filter(|_| cursor.lag.is_none() && cursor.seq < chunk.end())?;
                Some(EvictedReader { group, index: chunk.position(cursor.seq).0, cursor })
            }));
            // Groups in the order of the list below, and in each the order in which its walk backwards meets them.
            fallen.sort_unstable_by_key(|fallen| (fallen.group, Reverse(fallen.cursor.seq)));
        }
        let mut fallen = &mut fallen[..];
        for (number, group) in self.groups.iter_mut().enumerate() {
            let (own, rest) = fallen.split_at_mut(fallen.partition_point(|fallen| fallen.group <= number));
            fallen = rest;
            if let Some(group) = group {
                group.evict(chunk, own, work);
            }
        }
    }

    /// What has been lost for a lagging cursor since it fell behind: how many records that pass, the
    /// time of the newest, and how many that do not.
    pub(super) fn lost(&self, index: usize, lag: Lag) -> (u64, Timestamp, u64) {
        let group = self.get(index);
        (group.passed - lag.passed, group.time, group.failed - lag.failed)
    }

    /// A cursor that had fallen behind is back.
    pub(super) fn catch_up(&mut self, index: usize) {
        self.get_mut(index).lagging -= 1;
    }

    fn get_mut(&mut self, index: usize) -> &mut Group {
        self.groups[index].as_mut().expect("a group lives as long as a cursor is its member")
    }
}

impl Group {
    /// The work of trying a chunk's records from `lowest` on.
    fn cost(&self, chunk: &Chunk, lowest: usize) -> u64 {
        // As of one long record, and what is due for each however short it is.
        let bytes = chunk.bytes.len() - chunk.start_of(lowest);
        self.filter.cost(bytes) + (chunk.len() - lowest) as u64 * self.filter.cost(0)
    }

    /// `fallen` are this group's cursors in the chunk, the one that has read most first.
    fn evict(&mut self, chunk: &Chunk, fallen: &mut [EvictedReader<'_>], work: &mut Work) {
        // Nobody has lost anything by this filter: no record needs to be looked at.
        if self.lagging == 0 && fallen.is_empty() {
            return;
        }
        // A cursor that has been behind before has read nothing of this chunk: all of it counts.
        let lowest = if self.lagging > 0 { 0 } else { fallen.last().map_or(0, |fallen| fallen.index) };
        // Nobody who reads slowly may have the others wait for a filter: beyond what is allowed all counts as missed.
        let is_looked_at = work.take(self.cost(chunk, lowest));
        // The newest entry that counts as missed: its sequence number and time.
        let mut newest = chunk.losses.last().map(|loss| (loss.seq, loss.time));
        let mut passed = 0;
        let mut waiting = fallen.iter_mut().peekable();
        // Backwards, so that each record is matched once for all cursors of the group: at a cursor's place `passed` is
        // just what it has lost.
        for index in (lowest..=chunk.len()).rev() {
            if index < chunk.len() && (!is_looked_at || self.filter.matches(chunk.record(index))) {
                passed += 1;
                if passed == 1 {
                    newest = newest.max(Some((chunk.seq_of(index), record_time(chunk.record(index)))));
                }
            }
            while let Some(EvictedReader { cursor, .. }) = waiting.next_if(|fallen| fallen.index == index) {
                // Losses that the source reported have no record to match: they count whatever the filter.
                let missed = passed + chunk.lost_from(cursor.seq);
                // If the newest lies before the cursor's place, nothing has been missed.
                if let Some((_, time)) = newest {
                    cursor.owed.add(missed, time);
                }
                cursor.missed += missed;
                cursor.filtered += (chunk.len() - index) as u64 - passed;
            }
        }
        if self.lagging > 0 {
            self.passed += passed + chunk.lost_from(chunk.base);
            self.failed += chunk.len() as u64 - passed;
            if let Some((_, time)) = newest {
                self.time = time;
            }
        }
        // From here on the group counts for these too; what it has counted so far is none of theirs.
        for fallen in fallen {
            fallen.cursor.lag = Some(Lag { passed: self.passed, failed: self.failed });
            self.lagging += 1;
        }
    }
}

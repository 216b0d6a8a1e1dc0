//! Slices on tracks: a viewer wants those of one track to be nested or apart.
//!
//! A source has one lane, and more when its activities overlap without one being the parent of the other. On a
//! lane the open slices are a stack, each within the one below it. One that outlives its parent moves, with all
//! that is within it, to a lane that was free from its start on.

use pcp_model::Timestamp;

/// An open slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    id: u64,
    start: Timestamp,
    /// When the last slice directly within it ended.
    busy: Timestamp,
}

#[derive(Debug, Default)]
struct Lane {
    open: Vec<Open>,
    /// When its last slice ended.
    busy: Option<Timestamp>,
}

impl Lane {
    fn is_free(&self, from: Timestamp) -> bool {
        self.open.is_empty() && self.busy.is_none_or(|busy| busy <= from)
    }
}

/// The lanes of a source. Slices are known by numbers of the caller's.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
}

impl Lanes {
    /// Opens a slice: within its parent if that is the innermost open one of a lane, on a free lane else. The lane.
    pub(super) fn open(&mut self, id: u64, start: Timestamp, parent: Option<u64>) -> usize {
        let slice = Open { id, start, busy: start };
        let fits =
            |lane: &Lane| lane.open.last().is_some_and(|top| Some(top.id) == parent && top.busy <= start);
        // On another lane its bar would lie over what its parent does meanwhile.
        if let Some(at) = self.lanes.iter().position(fits) {
            self.lanes[at].open.push(slice);
            return at;
        }
        let at = self.free(start);
        self.lanes[at].open.push(slice);
        at
    }

    /// Closes a slice. Its lane, if it is open.
    pub(super) fn close(&mut self, id: u64, end: Timestamp) -> Option<usize> {
        let (at, depth) = self.find(id)?;
        let lane = &mut self.lanes[at];
        // Those within it are still open: in a viewer they cannot stick out of a slice that has ended.
        let outliving = lane.open.split_off(depth + 1);
        lane.open.pop();
        match lane.open.last_mut() {
            Some(outer) => outer.busy = outer.busy.max(end),
            None => lane.busy = lane.busy.max(Some(end)),
        }
        if let Some(first) = outliving.first() {
            // From the first one's start on, as their bars begin there.
            let to = self.free(first.start);
            self.lanes[to].open = outliving;
        }
        Some(at)
    }

    /// The lane of an open slice.
    pub(super) fn lane_of(&self, id: u64) -> Option<usize> {
        self.find(id).map(|(at, _)| at)
    }

    fn find(&self, id: u64) -> Option<(usize, usize)> {
        self.lanes
            .iter()
            .enumerate()
            .find_map(|(at, lane)| Some((at, lane.open.iter().position(|slice| slice.id == id)?)))
    }

    /// A lane without slices from a time on.
    fn free(&mut self, from: Timestamp) -> usize {
        match self.lanes.iter().position(|lane| lane.is_free(from)) {
            Some(at) => at,
            None => {
                self.lanes.push(Lane::default());
                self.lanes.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sec: i64) -> Timestamp {
        Timestamp { sec, nsec: 0 }
    }

    #[test]
    fn children_are_within_their_parents_and_others_apart() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.open(1, at(0), None), 0);
        assert_eq!(lanes.open(2, at(1), Some(1)), 0);
        assert_eq!(lanes.open(3, at(2), None), 1);
        // Not within 1: 2 still is there.
        assert_eq!(lanes.open(4, at(2), Some(1)), 2);
        assert_eq!(lanes.close(2, at(3)), Some(0));
        assert_eq!(lanes.open(5, at(4), Some(1)), 0);
        assert_eq!(lanes.close(1, at(5)), Some(0));
        // It outlived its parent, and has gone where there was nothing since its start.
        assert_eq!(lanes.lane_of(5), Some(3));
        assert_eq!(lanes.close(5, at(6)), Some(3));
        assert_eq!(lanes.close(5, at(6)), None);
        assert_eq!(lanes.open(6, at(5), None), 0);
    }
}

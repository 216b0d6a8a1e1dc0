//! Slices on tracks: a viewer wants those of one track to be nested or apart.
//!
//! A source has one lane, and more when its activities overlap without one being the parent of the other. On a
//! lane the open slices are a stack, each within the one below it. One that outlives its parent moves, with all
//! that is within it, to a lane that was free from its start on.
//!
//! **Cost:** senders decide how many slices are open, and how deep. So a slice is found by a hash, a free lane in a search tree,
//! and of a stack that falls into two only the smaller part moves: n slices are at most n log n moves, however they end.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};

use pcp_model::Timestamp;

/// An open slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    id: u64,
    start: Timestamp,
    /// When the last slice directly within it ended.
    busy: Timestamp,
}

/// The open slices of a lane, outermost first.
#[derive(Debug, Default)]
struct Stack {
    lane: usize,
    open: VecDeque<Open>,
    /// How many slices have gone from its bottom: places count from the first that it ever had.
    gone: usize,
}

/// Where an open slice is.
#[derive(Clone, Copy, Debug)]
struct Place {
    stack: usize,
    at: usize,
}

/// The lanes of a source. Slices are known by numbers of the caller's.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: usize,
    /// Those without an open slice, by when their last one ended.
    free: BTreeSet<(Timestamp, Reverse<usize>)>,
    stacks: Vec<Stack>,
    /// Stacks that are empty.
    spare: Vec<usize>,
    places: HashMap<u64, Place>,
}

impl Lanes {
    /// Opens a slice: within its parent if that is the innermost open one of a lane, on a free lane else. The lane.
    pub(super) fn open(&mut self, id: u64, start: Timestamp, parent: Option<u64>) -> usize {
        let place = parent.and_then(|parent| self.places.get(&parent)).copied();
        let innermost = place.filter(|place| {
            let Stack { open, gone, .. } = &self.stacks[place.stack];
            open.len() + gone == place.at + 1 && open.back().is_some_and(|top| top.busy <= start)
        });
        // On another lane its bar would lie over what its parent does meanwhile.
        let stack = match innermost {
            Some(place) => place.stack,
            None => {
                let lane = self.free_lane(start);
                self.new_stack(lane)
            }
        };
        let Stack { lane, open, gone } = &mut self.stacks[stack];
        self.places.insert(id, Place { stack, at: open.len() + *gone });
        open.push_back(Open { id, start, busy: start });
        *lane
    }

    /// Closes a slice. Its lane, if it is open.
    pub(super) fn close(&mut self, id: u64, end: Timestamp) -> Option<usize> {
        let Place { stack, at } = self.places.remove(&id)?;
        let Stack { lane, open, gone } = &mut self.stacks[stack];
        let lane = *lane;
        let depth = at - *gone;
        // Those within it are still open: in a viewer they cannot stick out of a slice that has ended.
        let outliving = open.len() - depth - 1;
        if let Some(outer) = depth.checked_sub(1).and_then(|outer| open.get_mut(outer)) {
            outer.busy = outer.busy.max(end);
        }
        let upper = if outliving <= depth {
            let moved = open.split_off(depth + 1);
            open.pop_back();
            self.move_to_new_stack(moved, lane)
        } else {
            let moved = (0..depth).filter_map(|_| open.pop_front()).collect();
            open.pop_front();
            *gone += depth + 1;
            self.move_to_new_stack(moved, lane);
            Some(stack)
        };
        if depth == 0 {
            self.free.insert((end, Reverse(lane)));
        }
        if outliving > 0
            && let Some(upper) = upper
            && let Some(first) = self.stacks[upper].open.front().copied()
        {
            // From the first one's start on, as their bars begin there.
            self.stacks[upper].lane = self.free_lane(first.start);
        }
        if self.stacks[stack].open.is_empty() {
            self.spare.push(stack);
        }
        Some(lane)
    }

    /// The lane of an open slice.
    pub(super) fn lane_of(&self, id: u64) -> Option<usize> {
        self.places.get(&id).map(|place| self.stacks[place.stack].lane)
    }

    /// A lane without slices from a time on, which is not free any more: the one that was busy latest, so that those that
    /// have been free for longer are there for what began earlier.
    fn free_lane(&mut self, from: Timestamp) -> usize {
        let fits = self.free.range(..=(from, Reverse(0))).next_back().copied();
        if let Some(lane) = fits {
            self.free.remove(&lane);
            return lane.1.0;
        }
        self.lanes += 1;
        self.lanes - 1
    }

    fn new_stack(&mut self, lane: usize) -> usize {
        let stack = Stack { lane, ..Stack::default() };
        match self.spare.pop() {
            Some(at) => {
                self.stacks[at] = stack;
                at
            }
            None => {
                self.stacks.push(stack);
                self.stacks.len() - 1
            }
        }
    }

    /// The new stack, if anything moves.
    fn move_to_new_stack(&mut self, slices: VecDeque<Open>, lane: usize) -> Option<usize> {
        if slices.is_empty() {
            return None;
        }
        let stack = self.new_stack(lane);
        for (at, slice) in slices.iter().enumerate() {
            self.places.insert(slice.id, Place { stack, at });
        }
        self.stacks[stack].open = slices;
        Some(stack)
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

    #[test]
    fn many_open_slices_are_no_more_work_each_than_few() {
        let many = 100_000;
        // Side by side, and each within the one before. Looking through all of them each time, and moving all within the one
        // that ends, are 5,000,000,000 steps each.
        for nested in [false, true] {
            let mut lanes = Lanes::default();
            for id in 0..many {
                let lane = lanes.open(id, at(0), id.checked_sub(1).filter(|_| nested));
                assert_eq!(lane, if nested { 0 } else { id as usize });
            }
            assert!((0..many).all(|id| lanes.lane_of(id).is_some()));
            assert!((0..many).all(|id| lanes.close(id, at(1)).is_some()));
            assert_eq!(lanes.free.len(), lanes.lanes);
            assert!(lanes.places.is_empty() && lanes.stacks.iter().all(|stack| stack.open.is_empty()));
        }
    }

    #[test]
    fn what_outlives_others_is_found_wherever_it_moves() {
        let mut lanes = Lanes::default();
        for id in 0..8 {
            assert_eq!(lanes.open(id, at(id as i64), id.checked_sub(1)), 0);
        }
        // From the middle, from the bottom, from the top.
        assert_eq!(lanes.close(5, at(20)), Some(0));
        assert_eq!((lanes.lane_of(4), lanes.lane_of(6), lanes.lane_of(7)), (Some(0), Some(1), Some(1)));
        assert_eq!(lanes.close(0, at(21)), Some(0));
        assert_eq!((lanes.lane_of(1), lanes.lane_of(4), lanes.lane_of(6)), (Some(2), Some(2), Some(1)));
        assert_eq!((lanes.close(4, at(22)), lanes.close(7, at(23))), (Some(2), Some(1)));
        assert_eq!(lanes.open(9, at(24), Some(6)), 1);
        assert_eq!([1, 3, 2, 9, 6].map(|id| lanes.close(id, at(25)).is_some()), [true; 5]);
        assert!(lanes.places.is_empty());
    }
}

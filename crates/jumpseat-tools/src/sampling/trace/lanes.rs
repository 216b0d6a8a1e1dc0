//! Lanes: tracks on which slices lie within each other or one after the other, never across.

use std::collections::HashMap;
use std::rc::Rc;

use pcp_model::Inst;

use super::file::{TraceFile, Track};

/// Lanes of one group that are in use at a time, and more for what comes too late for these.
const MAX_LANES: usize = 256;
const MAX_LATE: usize = 64;
/// Threads of a source with lanes of their own.
const MAX_THREADS: usize = 1024;

/// Whose lanes they are: those of a thread, those of a source, or those of what a source has missed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    Source,
    Thread(Rc<str>),
    Missed,
}

/// A lane by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId(usize);

/// The lanes of all sources.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    groups: HashMap<(Inst, Group), GroupLanes>,
    threads: HashMap<Inst, usize>,
}

struct Lane {
    track: Track,
    /// The slices that are open on it, innermost last.
    open: Vec<u64>,
}

#[derive(Default)]
struct GroupLanes {
    lanes: Vec<LaneId>,
    /// For what comes late: each track with the time from which on it is free.
    late: Vec<(Track, u64)>,
}

/// What the tracks of a source are made with.
pub(super) struct Owner<'a> {
    pub inst: Inst,
    pub process: Track,
    pub label: &'a str,
}

impl Lanes {
    /// The group of a thread, or the source's where it has very many threads.
    pub(super) fn group(&mut self, inst: Inst, thread: Option<&str>) -> Group {
        let Some(thread) = thread else { return Group::Source };
        let group = Group::Thread(thread.into());
        if self.groups.contains_key(&(inst, group.clone())) {
            return group;
        }
        let threads = self.threads.entry(inst).or_default();
        if *threads == MAX_THREADS {
            return Group::Source;
        }
        *threads += 1;
        self.groups.insert((inst, group.clone()), GroupLanes::default());
        group
    }

    /// The track of a lane.
    pub(super) fn track(&self, lane: LaneId) -> Track {
        self.lanes[lane.0].track
    }

    /// The first track of a group.
    pub(super) fn first(&mut self, file: &mut TraceFile, owner: &Owner<'_>, group: &Group) -> Track {
        let first = self.groups.get(&(owner.inst, group.clone())).and_then(|own| own.lanes.first().copied());
        let lane = first.unwrap_or_else(|| self.add(file, owner, group));
        self.track(lane)
    }

    /// A lane on which nothing is open; `None` if there are too many in use.
    pub(super) fn free(&mut self, file: &mut TraceFile, owner: &Owner<'_>, group: &Group) -> Option<LaneId> {
        let own = self.groups.entry((owner.inst, group.clone())).or_default();
        let free = own.lanes.iter().copied().find(|lane| self.lanes[lane.0].open.is_empty());
        let has_room = own.lanes.len() < MAX_LANES;
        free.or_else(|| has_room.then(|| self.add(file, owner, group)))
    }

    /// The innermost slice that is open on a lane.
    pub(super) fn innermost(&self, lane: LaneId) -> Option<u64> {
        self.lanes[lane.0].open.last().copied()
    }

    /// Opens a slice on a lane, within those that are open there.
    pub(super) fn open(&mut self, lane: LaneId, slice: u64) {
        self.lanes[lane.0].open.push(slice);
    }

    /// Closes a slice and those within it, which are returned, outermost first.
    pub(super) fn close(&mut self, lane: LaneId, slice: u64) -> Vec<u64> {
        let open = &mut self.lanes[lane.0].open;
        match open.iter().rposition(|other| *other == slice) {
            Some(at) => open.split_off(at).split_off(1),
            None => Vec::new(),
        }
    }

    /// A track for a slice that comes too late for its place on a lane; `None` if none is free for so long.
    pub(super) fn late(
        &mut self,
        file: &mut TraceFile,
        owner: &Owner<'_>,
        group: &Group,
        (start, end): (u64, u64),
    ) -> Option<Track> {
        let own = self.groups.entry((owner.inst, group.clone())).or_default();
        if let Some((track, until)) = own.late.iter_mut().find(|(_, until)| *until <= start) {
            *until = end;
            return Some(*track);
        }
        if own.late.len() == MAX_LATE {
            return None;
        }
        let track = file.track(owner.process, name(owner, group));
        own.late.push((track, end));
        Some(track)
    }

    fn add(&mut self, file: &mut TraceFile, owner: &Owner<'_>, group: &Group) -> LaneId {
        let track = file.track(owner.process, name(owner, group));
        let lane = LaneId(self.lanes.len());
        self.lanes.push(Lane { track, open: Vec::new() });
        self.groups.entry((owner.inst, group.clone())).or_default().lanes.push(lane);
        lane
    }
}

fn name<'a>(owner: &'a Owner<'_>, group: &'a Group) -> &'a str {
    match group {
        Group::Source => owner.label,
        Group::Thread(name) => name,
        Group::Missed => "missed",
    }
}

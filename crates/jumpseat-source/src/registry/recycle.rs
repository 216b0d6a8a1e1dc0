//! Which names give their places to newcomers: those that nobody has used for long enough, the least recently used first,
//! and only when a newcomer finds no place. A table with room keeps all.
//!
//! **When a name was used** is known by this clock while the agent runs, and by the file, in seconds of real time, from lives
//! before. A thread notes a name it uses when [`Registry::epoch`](super::Registry::epoch) has moved on, which is once a
//! [`period`] at most: what counts as unused for a time may have been unused a [`period`] less, and so a thread that has
//! noted a name may use it for several periods more before the name can go.
//!
//! **Cost:** all names are looked at once a [`period`] at most, and only when a newcomer finds no place; what was found is a
//! queue from then on. Whoever offers names without end gets an answer from the queue's head, in constant time. A place
//! costs a new file of names; so that it is not written for each newcomer, a sixty-fourth of the places is made at once.
//!
//! **Who loses:** somebody who has had his share of the names gives his own place, never another's.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustc_hash::FxHashMap;

use super::taker::{Taken, Taker};
use pcp_ids::IdMap;
use pcp_model::Inst;

/// How exactly it is known when a name was used: a quarter of the time after which it may go.
pub(super) fn period(after: Duration) -> Duration {
    const LONGEST: Duration = Duration::from_secs(3600);
    if after.is_zero() { LONGEST } else { (after / 4).clamp(Duration::from_millis(1), LONGEST) }
}

/// A name that has given its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    pub id: Inst,
    pub name: String,
    /// For how long nobody had used it.
    pub idle: Duration,
}

/// When the names of a table were used, and by whom they were taken.
#[derive(Debug)]
pub(super) struct Uses {
    after: Duration,
    /// Since the start.
    noted: FxHashMap<Inst, Instant>,
    takers: FxHashMap<Inst, Taker>,
    /// Names that were unused for long enough when all were looked at, the least recently used first.
    idle: VecDeque<Inst>,
    /// Of these, those that were taken since the start, by whom.
    of_taker: FxHashMap<Taker, VecDeque<Inst>>,
    looked: Option<Instant>,
    /// How far the clock of a test is ahead.
    #[cfg(test)]
    pub ahead: Duration,
    /// How many names were looked at.
    #[cfg(test)]
    pub looks: u64,
}

impl Uses {
    pub(super) fn new(after: Duration) -> Uses {
        Uses {
            after,
            noted: FxHashMap::default(),
            takers: FxHashMap::default(),
            idle: VecDeque::new(),
            of_taker: FxHashMap::default(),
            looked: None,
            #[cfg(test)]
            ahead: Duration::ZERO,
            #[cfg(test)]
            looks: 0,
        }
    }

    /// After which time names may go; zero: never.
    pub(super) fn after(&self) -> Duration {
        self.after
    }

    /// Another time from now on.
    pub(super) fn set_after(&mut self, after: Duration) {
        (self.after, self.looked) = (after, None);
        self.idle.clear();
        self.of_taker.clear();
    }

    /// Notes that a name is in use now.
    pub(super) fn note(&mut self, id: Inst) {
        self.noted.insert(id, self.now());
    }

    /// Notes who has taken a name.
    pub(super) fn took(&mut self, id: Inst, taker: Taker) {
        self.takers.insert(id, taker);
    }

    /// Notes a name that has gone.
    pub(super) fn gone(&mut self, id: Inst, taken: &mut Taken) {
        self.noted.remove(&id);
        if let Some(taker) = self.takers.remove(&id) {
            taken.give_back(taker);
        }
    }

    /// Those that were used since the start, and when, in seconds since the epoch.
    pub(super) fn noted(&self) -> impl Iterator<Item = (Inst, u64)> {
        let (now, seconds) = (self.now(), self.seconds());
        self.noted.iter().map(move |(id, at)| (*id, seconds.saturating_sub((now - *at).as_secs())))
    }

    /// The names that go so that `taker` has a place: at most `many`, at least as many as are `lacking`, or none if nobody
    /// has to go for him. `keeps`: those that never go.
    pub(super) fn choose(
        &mut self,
        ids: &IdMap,
        taken: &Taken,
        taker: Taker,
        (lacking, many): (usize, usize),
        keeps: &dyn Fn(Inst, &str) -> bool,
    ) -> Vec<Gone> {
        if self.after.is_zero() {
            return Vec::new();
        }
        if self.looked.is_none_or(|at| self.now() - at >= period(self.after)) {
            self.look(ids, keeps);
        }
        // Those of others only if the table is full, and he may have one of them.
        let of_all = lacking > 0 && taken.allows(taker, self.idle.len());
        let mut own = self.of_taker.remove(&taker).unwrap_or_default();
        let mut gone = self.take(&mut own, ids, lacking.max(1), keeps);
        if !own.is_empty() {
            self.of_taker.insert(taker, own);
        }
        if of_all {
            let mut all = std::mem::take(&mut self.idle);
            let more = self.take(&mut all, ids, many.max(lacking).saturating_sub(gone.len()), keeps);
            let more = more.into_iter().filter(|more| gone.iter().all(|known| known.id != more.id));
            gone.extend(more.collect::<Vec<_>>());
            self.idle = all;
        }
        if gone.len() < lacking {
            // The places of these are not enough for a newcomer: they stay, and are found again.
            self.idle.extend(gone.drain(..).map(|gone| gone.id));
        }
        gone
    }

    /// The first of a queue that still are unused.
    fn take(
        &self,
        queue: &mut VecDeque<Inst>,
        ids: &IdMap,
        most: usize,
        keeps: &dyn Fn(Inst, &str) -> bool,
    ) -> Vec<Gone> {
        let mut gone = Vec::new();
        while gone.len() < most
            && let Some(id) = queue.pop_front()
        {
            let name = ids.name(id).filter(|name| ids.get(name) == Some(id) && !keeps(id, name));
            let idle = self.idle_for(ids, id, (self.now(), self.seconds()));
            if let Some(name) = name
                && idle >= self.after
            {
                gone.push(Gone { id, name: name.to_owned(), idle });
            }
        }
        gone
    }

    /// For how long a name has not been used, by the clock and by the seconds since the epoch.
    fn idle_for(&self, ids: &IdMap, id: Inst, (now, seconds): (Instant, u64)) -> Duration {
        match self.noted.get(&id) {
            Some(at) => now - *at,
            None => {
                let used = ids.last_used(id).unwrap_or(u64::MAX);
                Duration::from_secs(seconds.saturating_sub(used))
            }
        }
    }

    /// Looks at all names.
    fn look(&mut self, ids: &IdMap, keeps: &dyn Fn(Inst, &str) -> bool) {
        // One time for all: they are put in order by it.
        let (now, seconds) = (self.now(), self.seconds());
        self.looked = Some(now);
        let idle = ids.iter().map(|(id, name)| (self.idle_for(ids, id, (now, seconds)), id, name));
        let mut idle: Vec<(Duration, Inst)> = idle
            .filter(|(idle, id, name)| *idle >= self.after && !keeps(*id, name))
            .map(|(idle, id, _)| (idle, id))
            .collect();
        #[cfg(test)]
        {
            self.looks += ids.len() as u64;
        }
        // Of those from before the start the smaller number, as it is the older name.
        idle.sort_unstable_by_key(|(idle, id)| (std::cmp::Reverse(*idle), *id));
        self.idle = idle.iter().map(|(_, id)| *id).collect();
        self.of_taker.clear();
        for id in &self.idle {
            if let Some(taker) = self.takers.get(id) {
                self.of_taker.entry(*taker).or_default().push_back(*id);
            }
        }
    }

    fn now(&self) -> Instant {
        let now = Instant::now();
        #[cfg(test)]
        let now = now + self.ahead;
        now
    }

    /// Since the epoch.
    fn seconds(&self) -> u64 {
        let now = SystemTime::now();
        #[cfg(test)]
        let now = now + self.ahead;
        now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

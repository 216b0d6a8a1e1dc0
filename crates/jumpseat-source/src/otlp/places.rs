//! The connections of a listener: how many there may be, and which goes when all places are taken and somebody comes.
//!
//! As long as there are places, a connection may be idle for as long as the configuration says. When there are none, the
//! one that has been without a request for the longest time goes: of the address with the most connections at once, if
//! somebody with fewer comes; of everybody after [`RESTED`]. An address that holds more than half of all places makes room
//! even if all of its connections are busy. So nobody can keep others out.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use slab::Slab;
use tokio::sync::Notify;

/// After so long without a request a connection gives way to whoever comes, once all places are taken.
const RESTED: Duration = Duration::from_secs(1);

/// All connections, by their number in the lanes.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    taken: Slab<Taken>,
    /// How many of them have been told to go, and have not gone yet.
    leaving: usize,
}

#[derive(Debug)]
struct Taken {
    address: IpAddr,
    /// A request is under way.
    is_busy: bool,
    /// Since when that is so, or is not.
    since: Instant,
    is_leaving: bool,
    leave: Arc<Notify>,
}

impl Places {
    /// So many places, all free.
    pub(super) fn new(most: usize) -> Places {
        Places { most, taken: Slab::new(), leaving: 0 }
    }

    /// Whether nobody is there.
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Whether somebody must go before anybody can come.
    pub(super) fn is_full(&self) -> bool {
        self.taken.len() - self.leaving >= self.most
    }

    /// Takes a place. Gives its number, and what tells whoever has it to go.
    pub(super) fn take(&mut self, address: IpAddr, now: Instant) -> (u32, Arc<Notify>) {
        let leave = Arc::new(Notify::new());
        let of_place = Arc::clone(&leave);
        let taken = Taken { address, is_busy: false, since: now, is_leaving: false, leave: of_place };
        // There are at most as many as the configuration allows, and those that leave.
        (self.taken.insert(taken) as u32, leave)
    }

    /// A request has begun, or its answer has left.
    pub(super) fn mark(&mut self, place: u32, is_busy: bool, now: Instant) {
        if let Some(taken) = self.taken.get_mut(place as usize) {
            (taken.is_busy, taken.since) = (is_busy, now);
        }
    }

    /// The place is free.
    pub(super) fn free(&mut self, place: u32) {
        if let Some(taken) = self.taken.try_remove(place as usize) {
            self.leaving -= usize::from(taken.is_leaving);
        }
    }

    /// Makes room for somebody from `newcomer`, if anybody there is to go. Gives whose connection that was.
    pub(super) fn make_room(&mut self, newcomer: IpAddr, now: Instant) -> Option<IpAddr> {
        let here = || self.taken.iter().filter(|(_, taken)| !taken.is_leaving);
        let mut counts: FxHashMap<IpAddr, usize> = FxHashMap::default();
        here().for_each(|(_, taken)| *counts.entry(taken.address).or_default() += 1);
        let own = counts.get(&newcomer).copied().unwrap_or(0);
        let greedy = counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > own + 1);
        let of_greedy = |taken: &Taken| greedy.is_some_and(|(address, _)| taken.address == address);
        let has_too_many = greedy.is_some_and(|(_, count)| count > self.most / 2);
        let goes = |taken: &Taken| match taken.is_busy {
            false => of_greedy(taken) || now.saturating_duration_since(taken.since) >= RESTED,
            true => of_greedy(taken) && has_too_many,
        };
        let first = here()
            .filter(|(_, taken)| goes(taken))
            .min_by_key(|(_, taken)| (taken.is_busy, taken.since))
            .map(|(place, _)| place)?;
        let taken = self.taken.get_mut(first)?;
        taken.is_leaving = true;
        taken.leave.notify_one();
        self.leaving += 1;
        Some(taken.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn full_of(addresses: &[IpAddr], began: Instant) -> Places {
        let mut places = Places::new(addresses.len());
        for (nth, address) in addresses.iter().enumerate() {
            assert!(!places.is_full());
            let (place, _) = places.take(*address, began + Duration::from_millis(nth as u64));
            assert_eq!(place as usize, nth);
        }
        assert!(places.is_full());
        places
    }

    #[test]
    fn who_has_rested_longest_goes_and_who_is_busy_stays() {
        let began = Instant::now();
        let mut places = full_of(&[A, A, A], began);
        assert_eq!(places.make_room(A, began), None, "all have just come");
        places.mark(0, true, began);
        let later = began + RESTED * 2;
        assert_eq!(places.make_room(A, later), Some(A));
        assert!(!places.is_full(), "who leaves takes no place");
        assert_eq!(places.take(A, later).0, 3);
        assert_eq!(places.make_room(A, later), Some(A));
        places.free(1);
        places.free(2);
        assert_eq!(places.take(A, later).0, 2);
        assert!(places.is_full());
        assert_eq!(places.make_room(A, later), None, "one is busy, two have just come");
    }

    #[test]
    fn an_address_with_most_of_the_places_makes_room_for_others_at_once() {
        let began = Instant::now();
        let mut places = full_of(&[A, A, A, A], began);
        for place in 0..4 {
            places.mark(place, true, began);
        }
        for _ in 0..2 {
            assert_eq!(places.make_room(B, began), Some(A));
            let (place, _) = places.take(B, began);
            places.mark(place, true, began);
        }
        assert_eq!(places.make_room(B, began), None, "half are its own");
        assert_eq!(places.make_room(A, began), None, "half are its own");
    }
}

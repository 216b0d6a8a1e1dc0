//! How many requests, or connections, there are at a time: in all, and of one address, so that nobody takes all places.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Places for what there is at a time.
#[derive(Debug)]
pub(in super::super) struct Turns {
    most: usize,
    most_of_one: usize,
    busy: Mutex<Busy>,
}

#[derive(Debug, Default)]
struct Busy {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(in super::super) struct Turn {
    turns: Arc<Turns>,
    address: Option<IpAddr>,
}

impl Turns {
    /// So many places, and so many of them for one address. This machine's may have three quarters: Grafana or a proxy may ask from there
    /// for many people.
    pub(in super::super) fn new(most: usize, most_of_one: usize) -> Arc<Turns> {
        Arc::new(Turns { most, most_of_one, busy: Mutex::default() })
    }

    /// A place, if there is one.
    pub(in super::super) fn take(self: &Arc<Turns>, address: Option<IpAddr>) -> Option<Turn> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = address.map_or(0, |address| busy.by_address.get(&address).copied().unwrap_or_default());
        let is_here = address.is_none_or(|address| address.is_loopback());
        let most_of_one = if is_here { self.most - self.most / 4 } else { self.most_of_one };
        if busy.all >= self.most || of_one >= most_of_one {
            return None;
        }
        busy.all += 1;
        if let Some(address) = address {
            *busy.by_address.entry(address).or_default() += 1;
        }
        Some(Turn { turns: Arc::clone(self), address })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut busy = self.turns.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.all -= 1;
        if let Some(address) = self.address
            && let Some(of_one) = busy.by_address.get_mut(&address)
        {
            *of_one -= 1;
            if *of_one == 0 {
                busy.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_all_places() {
        let turns = Turns::new(100, 10);
        let far = Some(IpAddr::from([192, 0, 2, 1]));
        let taken: Vec<Turn> = (0..10).map(|_| turns.take(far).expect("a place")).collect();
        assert!(turns.take(far).is_none());
        assert!(turns.take(Some(IpAddr::from([192, 0, 2, 2]))).is_some());
        drop(taken);
        assert!(turns.take(far).is_some());
        assert_eq!(turns.busy.lock().expect("whole").by_address.len(), 0, "nothing is kept of who is gone");
    }

    #[test]
    fn there_are_not_more_in_all_than_there_may_be() {
        let turns = Turns::new(100, 25);
        let here = Some(IpAddr::from([127, 0, 0, 1]));
        let of_here: Vec<Turn> = (0..75).map(|_| turns.take(here).expect("a place")).collect();
        assert!(turns.take(here).is_none());
        let of_others: Vec<Turn> =
            (0..25).map(|_| turns.take(Some(IpAddr::from([192, 0, 2, 1]))).expect("a place")).collect();
        assert!(turns.take(Some(IpAddr::from([192, 0, 2, 2]))).is_none());
        drop((of_here, of_others));
        assert!(turns.take(here).is_some());
    }
}

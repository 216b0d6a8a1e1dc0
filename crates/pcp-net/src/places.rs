//! Who gives way when all places are taken and somebody comes.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Who holds a place.
#[derive(Clone, Copy, Debug)]
pub struct Holder<K> {
    /// Which place.
    pub place: usize,
    /// Whose it is: a user, an address.
    pub owner: K,
    /// When something was heard last.
    pub heard: Instant,
}

/// The place that somebody of `newcomer` gets: of whoever holds most, if that is more than the newcomer would have, the one
/// that has been silent for the longest time; else of all the most silent one, if nothing was heard of it for `silence`.
/// So nobody keeps others out by holding many places, and nobody by holding them silently.
pub fn gives_way<K: Copy + Eq + Hash>(
    holders: impl Iterator<Item = Holder<K>> + Clone,
    newcomer: K,
    silence: Duration,
) -> Option<usize> {
    let mut counts: HashMap<K, usize> = HashMap::new();
    holders.clone().for_each(|holder| *counts.entry(holder.owner).or_default() += 1);
    let own = counts.get(&newcomer).copied().unwrap_or(0);
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    let greedy = most.filter(|(_, count)| *count > own + 1).map(|(owner, _)| owner);
    holders
        .filter(|holder| Some(holder.owner) == greedy || holder.heard.elapsed() >= silence)
        .min_by_key(|holder| (holder.heard, holder.place))
        .map(|holder| holder.place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(3600);

    fn holders(owners: &[u32]) -> Vec<Holder<u32>> {
        let begun = Instant::now();
        let holder = |(place, owner): (usize, &u32)| Holder {
            place,
            owner: *owner,
            heard: begun + Duration::from_micros(place as u64),
        };
        owners.iter().enumerate().map(holder).collect()
    }

    #[test]
    fn whoever_holds_most_gives_up_the_most_silent() {
        let places = holders(&[1, 2, 2, 2, 3]);
        assert_eq!(gives_way(places.iter().copied(), 9, SILENCE), Some(1));
        // Who has as many gets none of the others'.
        assert_eq!(gives_way(places.iter().copied(), 2, SILENCE), None);
        assert_eq!(gives_way(holders(&[1, 2, 3]).into_iter(), 1, SILENCE), None);
        assert_eq!(gives_way(holders(&[]).into_iter(), 1, SILENCE), None);
    }

    #[test]
    fn silence_gives_way_whoever_comes() {
        let mut places = holders(&[1, 2, 3]);
        let Some(before) = places[1].heard.checked_sub(Duration::from_secs(2)) else { return };
        places[1].heard = before;
        assert_eq!(gives_way(places.iter().copied(), 1, Duration::from_secs(1)), Some(1));
    }
}

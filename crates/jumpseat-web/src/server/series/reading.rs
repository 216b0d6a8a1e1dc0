//! What archives say, read by several threads and taken in the order of the archives.
//!
//! ```text
//! archive 0, 2, 4 ... --read--> lane 0 --+
//! archive 1, 3, 5 ... --read--> lane 1 --+--> taken in turn
//! ```
//!
//! **Invariant:** a thread is [`AHEAD`] archives in front of whoever takes them at most, so that memory does not grow with their
//! number. They are taken in their order: an index does not depend on which thread was faster.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use pcp_archive::{ArchiveError, Glance};
use pcp_model::Timestamp;

use super::cache::Cache;
use super::facts::{Facts, Ids, Stamp};

/// Threads that read when several archives wait.
const LANES: usize = 2;
/// Archives that each of them has read before they are taken.
const AHEAD: usize = 4;

/// What an archive says.
#[derive(Debug)]
pub(super) struct Found {
    pub facts: Facts,
    pub ids: Ids,
    /// The time of its last record, as far as that is known.
    pub end: Option<Timestamp>,
    /// The metadata that it is of.
    pub stamp: Stamp,
    /// How long it took to read the metadata; `None` if it was kept.
    pub took: Option<Duration>,
}

/// What an archive says: as it was kept, or by its metadata, and then it is kept.
///
/// # Errors
/// It cannot be read.
pub(super) fn find(cache: &Cache, glance: &Glance) -> Result<Found, ArchiveError> {
    // Taken first: what changes meanwhile makes another stamp.
    let stamp = Stamp::of(glance);
    if let Some(stamp) = &stamp
        && let Some((facts, end)) = cache.load(glance, stamp)
    {
        let ids = Ids::of(&facts);
        return Ok(Found { facts, ids, end, stamp: stamp.clone(), took: None });
    }
    let begun = Instant::now();
    let (facts, end) = Facts::read(glance)?;
    let took = Some(begun.elapsed());
    let stamp = stamp.unwrap_or_default();
    if let Err(error) = cache.store(glance, &stamp, &facts, end) {
        tracing::debug!("{}: index not kept: {error}", glance.name.display());
    }
    let ids = Ids::of(&facts);
    Ok(Found { facts, ids, end: Some(end), stamp, took })
}

/// Has `read` read each of `all`, and `take` take what came of it, in their order, until it says that it is enough. Whether all were
/// taken.
pub(super) fn each<I: Sync, T: Send>(
    all: &[I],
    read: impl Fn(&I) -> T + Sync,
    mut take: impl FnMut(&I, T) -> bool,
) -> bool {
    if all.len() < LANES {
        return all.iter().all(|one| take(one, read(one)));
    }
    let read = &read;
    thread::scope(|scope| {
        let lanes: Vec<mpsc::Receiver<T>> = (0..LANES)
            .map(|lane| {
                let (sender, receiver) = mpsc::sync_channel(AHEAD);
                let run = move || {
                    // Nobody takes any more when it is enough.
                    let _ = all.iter().skip(lane).step_by(LANES).try_for_each(|one| sender.send(read(one)));
                };
                let thread = thread::Builder::new().name("jumpseat-read".to_owned());
                // Without a thread its lane is closed.
                let _ = thread.spawn_scoped(scope, run);
                receiver
            })
            .collect();
        all.iter().zip(lanes.iter().cycle()).all(|(one, lane)| {
            let found = lane.recv().unwrap_or_else(|_| read(one));
            take(one, found)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn all_are_taken_in_their_order_and_none_far_ahead() {
        for count in [0, 1, 2, 3, 100] {
            let all: Vec<usize> = (0..count).collect();
            let (read, mut taken) = (AtomicUsize::new(0), Vec::new());
            let whole = each(
                &all,
                |&one| {
                    read.fetch_add(1, Ordering::Relaxed);
                    2 * one
                },
                |&one, twice| {
                    assert_eq!(twice, 2 * one);
                    taken.push(one);
                    // One under way in each lane, and one that waits for its place.
                    assert!(read.load(Ordering::Relaxed) <= taken.len() + LANES * (AHEAD + 2));
                    true
                },
            );
            assert!(whole && taken == all);
        }
    }

    #[test]
    fn nothing_is_read_that_nobody_takes() {
        let (all, read) = ((0..1000).collect::<Vec<usize>>(), AtomicUsize::new(0));
        let whole = each(
            &all,
            |_| {
                read.fetch_add(1, Ordering::Relaxed);
            },
            |&one, ()| one < 10,
        );
        assert!(!whole && read.load(Ordering::Relaxed) < 100);
    }
}

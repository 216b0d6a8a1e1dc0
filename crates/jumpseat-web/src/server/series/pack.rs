//! [`Packs`]: entries one behind the other in a file, found by their keys.
//!
//! ```text
//! DIRECTORY/NUMBER.pack := "jumpseat series 3\n" | entry ...
//! entry := "fact" | length of the body u32 | key | SHA-1 of the body | body
//! ```
//!
//! A process writes to one pack, which it has locked; it takes over those that others have left behind, and reads those that
//! others write to as they were when it began. A key has the entry that was written last. When more than half of its pack is
//! entries that have been replaced or forgotten, what is left is written to a new one in its place.
//!
//! **Invariant:** an entry that is not whole is as if it was not there; what is behind the first whose head is none is cut off. So nothing has
//! to wait for the disk. **Bounds:** [`MAX_TOTAL`] bytes in all files, [`MAX_ENTRIES`] entries, some 100 bytes of memory each.
//!
//! **Cost:** a read for each entry when a pack is opened, another one when it is asked for; one write for a new one. A file for each would
//! take a new inode, which costs file systems more than what is written to it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{Flock, FlockArg};
use pcp_files::Replacement;
use sha1::{Digest, Sha1};

/// What an entry is found by: the SHA-1 of a name.
pub(super) type Key = [u8; SUM];

const MAGIC: &[u8; 18] = b"jumpseat series 3\n";
const MARK: &[u8; 4] = b"fact";
const SUM: usize = 20;
/// Before each body.
pub(super) const HEAD: usize = MARK.len() + 4 + 2 * SUM;
/// Longest body.
const MAX_BODY: usize = 64 << 20;
/// Most bytes of all files together.
const MAX_TOTAL: u64 = 2 << 30;
/// Most keys: some more than the library has archives.
const MAX_ENTRIES: usize = 1 << 17;
/// Most entries that a pack is searched for: of many keys there are some that were replaced.
const MAX_FOUND: usize = 4 * MAX_ENTRIES;
/// Most files that are looked at.
const MAX_PACKS: usize = 64;
/// With less that nobody needs a pack stays as it is.
const WORN: u64 = 1 << 20;
const END: &str = "pack";

/// The packs of a directory.
#[derive(Debug)]
pub(super) struct Packs {
    path: PathBuf,
    /// The one that is written to, and its lock.
    own: Arc<File>,
    _lock: Flock<File>,
    /// Where the next entry goes.
    end: u64,
    /// Bytes of it that no key leads to any more.
    dead: u64,
    /// From so many on it is worth while to write it anew.
    worn: u64,
    /// Bytes of those that others write to.
    others: u64,
    places: HashMap<Key, Place>,
}

/// Where an entry is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    file: Arc<File>,
    at: u64,
    /// With its head.
    len: u64,
}

impl Packs {
    /// Opens what is in a directory.
    ///
    /// # Errors
    /// There can be no pack of ours.
    pub(super) fn open(directory: &Path) -> io::Result<Packs> {
        let (mut left, mut others) = (Vec::new(), Vec::new());
        for path in paths(directory)? {
            match pcp_files::try_lock(&path) {
                Ok(Some(lock)) => left.push((path, lock)),
                Ok(None) => others.extend(pcp_files::read(&path).ok()),
                Err(error) => tracing::debug!("{}: left out: {error}", path.display()),
            }
        }
        let (path, lock) = if left.is_empty() { new(directory)? } else { left.remove(0) };
        let (own, places) = (Arc::new(lock.try_clone()?), HashMap::new());
        let mut packs = Packs { path, own, _lock: lock, end: 0, dead: 0, worn: WORN, others: 0, places };
        packs.begin()?;
        for (path, lock) in left {
            // Locked until it is gone: nobody else writes to it.
            packs.take_over(&Arc::new(lock.try_clone()?), &path);
        }
        others.into_iter().for_each(|file| packs.look_into(Arc::new(file)));
        Ok(packs)
    }

    /// Where the entry of a key is.
    pub(super) fn find(&self, key: &Key) -> Option<Place> {
        self.places.get(key).cloned()
    }

    /// Writes an entry, which takes the place of the one with the same key.
    ///
    /// # Errors
    /// There is no room, or it cannot be written: then what was there is still there.
    pub(super) fn put(&mut self, key: &Key, entry: &[u8]) -> io::Result<()> {
        let len = entry.len() as u64;
        // Not for each entry that is replaced: to write a full one anew takes long.
        if self.is_full(len) && self.dead >= self.worn.max(self.end / 16) {
            self.renew_or_wait();
        }
        let is_new = !self.places.contains_key(key);
        if self.is_full(len) || (is_new && self.places.len() >= MAX_ENTRIES) {
            return Err(io::Error::other("the index has no room for more archives"));
        }
        if let Err(error) = self.own.write_all_at(entry, self.end) {
            // What there was no room for takes none; the next entry goes to the same place.
            let _ = self.own.set_len(self.end);
            return Err(error);
        }
        self.insert(*key, Place { file: Arc::clone(&self.own), at: self.end, len });
        self.end += len;
        self.renew_if_worn();
        Ok(())
    }

    /// Forgets an entry.
    pub(super) fn forget(&mut self, key: &Key) {
        if let Some(place) = self.places.remove(key) {
            self.gone(&place);
        }
    }

    /// Forgets those of which the beginning of the body says that nobody needs them.
    pub(super) fn retain(&mut self, mut is_used: impl FnMut(&[u8]) -> bool) {
        let mut beginning = Vec::new();
        let unused = self.places.iter().filter(|(_, place)| {
            place.beginning(&mut beginning);
            !is_used(&beginning)
        });
        let unused: Vec<Key> = unused.map(|(key, _)| *key).collect();
        unused.iter().for_each(|key| self.forget(key));
        self.renew_if_worn();
    }

    fn is_full(&self, more: u64) -> bool {
        self.end + self.others + more > MAX_TOTAL
    }

    fn insert(&mut self, key: Key, place: Place) {
        if let Some(before) = self.places.insert(key, place) {
            self.gone(&before);
        }
    }

    fn gone(&mut self, place: &Place) {
        if Arc::ptr_eq(&place.file, &self.own) {
            self.dead += place.len;
        }
    }

    /// Learns what is in the own pack, and makes it end behind the last entry.
    fn begin(&mut self) -> io::Result<()> {
        let len = self.own.metadata()?.len();
        let (mut found, own) = (Vec::new(), Arc::clone(&self.own));
        self.end = entries(&*own, len.min(MAX_TOTAL), |key, at, len| found.push((key, at, len)));
        for (key, at, len) in found {
            if self.places.len() < MAX_ENTRIES || self.places.contains_key(&key) {
                self.insert(key, Place { file: Arc::clone(&own), at, len });
            } else {
                self.dead += len;
            }
        }
        if self.end == 0 {
            own.set_len(0)?;
            own.write_all_at(MAGIC, 0)?;
            self.end = MAGIC.len() as u64;
        } else if len > self.end {
            own.set_len(self.end)?;
        }
        Ok(())
    }

    /// Writes the entries of a pack that is left behind to the own one, and removes it.
    fn take_over(&mut self, file: &Arc<File>, path: &Path) {
        let mut found = Vec::new();
        entries(&**file, len_of(file), |key, at, len| found.push((key, at, len)));
        // Of the same key the last one.
        for (key, at, len) in found.into_iter().rev() {
            let place = Place { file: Arc::clone(file), at, len };
            // What is not whole, or has no room, is read from its archive again.
            if !self.places.contains_key(&key)
                && let Some(entry) = place.entry()
                && self.put(&key, &entry).is_err()
            {
                break;
            }
        }
        if let Err(error) = fs::remove_file(path) {
            tracing::debug!("{}: cannot be removed: {error}", path.display());
        }
    }

    /// Learns what is in a pack that somebody else writes to.
    fn look_into(&mut self, file: Arc<File>) {
        self.others += len_of(&file);
        let mut found = HashMap::new();
        // Of the same key the last one.
        entries(&*file, len_of(&file), |key, at, len| _ = found.insert(key, (at, len)));
        for (key, (at, len)) in found {
            if self.places.len() < MAX_ENTRIES {
                self.places.entry(key).or_insert_with(|| Place { file: Arc::clone(&file), at, len });
            }
        }
    }

    fn renew_if_worn(&mut self) {
        if self.dead >= self.worn.max(self.end / 2) {
            self.renew_or_wait();
        }
    }

    /// Writes the own pack anew; where that cannot be, not again before twice as much of it is not needed.
    fn renew_or_wait(&mut self) {
        if let Err(error) = self.renew() {
            tracing::debug!("{}: not written anew: {error}", self.path.display());
            self.worn = 2 * self.dead;
        }
    }

    /// Writes what is needed of the own pack to a new one, which takes its place.
    fn renew(&mut self) -> io::Result<()> {
        let mut live: Vec<(Key, Place)> =
            self.places.iter().map(|(key, place)| (*key, place.clone())).collect();
        live.retain(|(_, place)| Arc::ptr_eq(&place.file, &self.own));
        live.sort_unstable_by_key(|(_, place)| place.at);
        let mut new = Replacement::begin(&self.path).map_err(io::Error::other)?;
        // Before it has the name: whoever finds it finds that it is somebody's.
        let lock = Flock::lock(new.file().try_clone()?, FlockArg::LockExclusiveNonblock);
        let lock = lock.map_err(|(_, errno)| errno)?;
        new.file().write_all_at(MAGIC, 0)?;
        let (mut end, mut lost, mut moved) = (MAGIC.len() as u64, Vec::new(), Vec::new());
        for (key, place) in live {
            match place.entry() {
                Some(entry) => {
                    new.file().write_all_at(&entry, end)?;
                    moved.push((key, end, place.len));
                    end += place.len;
                }
                None => lost.push(key),
            }
        }
        self.own = Arc::new(new.finish_unsynced().map_err(io::Error::other)?);
        for (key, at, len) in moved {
            self.places.insert(key, Place { file: Arc::clone(&self.own), at, len });
        }
        lost.iter().for_each(|key| _ = self.places.remove(key));
        self._lock = lock;
        (self.end, self.dead, self.worn) = (end, 0, WORN);
        Ok(())
    }
}

impl Place {
    /// The body, if the entry is whole.
    pub(super) fn body(&self) -> Option<Vec<u8>> {
        let mut entry = self.entry()?;
        entry.drain(..HEAD);
        Some(entry)
    }

    fn entry(&self) -> Option<Vec<u8>> {
        // Entries are looked for with these bounds.
        let mut entry = vec![0; usize::try_from(self.len).ok()?];
        self.file.read_exact_at(&mut entry, self.at).ok()?;
        let (head, body) = entry.split_at_checked(HEAD)?;
        head.ends_with(&Sha1::digest(body)).then_some(entry)
    }

    /// Puts the first bytes of the body there, whether it is whole or not; none if it cannot be read.
    fn beginning(&self, bytes: &mut Vec<u8>) {
        const ENOUGH: u64 = 8192;
        bytes.resize(ENOUGH.min(self.len - HEAD as u64) as usize, 0);
        if self.file.read_exact_at(bytes, self.at + HEAD as u64).is_err() {
            bytes.clear();
        }
    }
}

/// An entry with this body, which `write` appends to what it is given. `None`: it does, or is too long.
pub(super) fn entry(key: &Key, write: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut entry = write(vec![0; HEAD])?;
    let (head, body) = entry.split_at_mut_checked(HEAD)?;
    let len = u32::try_from(body.len()).ok().filter(|_| body.len() <= MAX_BODY)?;
    let parts: [&[u8]; 4] = [MARK, &len.to_be_bytes(), key, &Sha1::digest(&*body)];
    let mut at = 0;
    for part in parts {
        head[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    Some(entry)
}

/// Calls with the key, the place and the length (with its head) of each entry of a pack of so many bytes. Gives where the last one ends; 0: it is no pack.
pub(super) fn entries(pack: &(impl ReadAt + ?Sized), len: u64, mut each: impl FnMut(Key, u64, u64)) -> u64 {
    let mut magic = [0; MAGIC.len()];
    if pack.read_at(&mut magic, 0).is_none() || magic != *MAGIC {
        return 0;
    }
    let (mut at, mut head) = (MAGIC.len() as u64, [0; HEAD]);
    for _ in 0..MAX_FOUND {
        if pack.read_at(&mut head, at).is_none() {
            break;
        }
        let (mark, rest) = head.split_at(MARK.len());
        let Some((body, rest)) = rest.split_first_chunk::<4>() else { break };
        let Some(key) = rest.first_chunk::<SUM>() else { break };
        let body = u32::from_be_bytes(*body);
        let end = at + HEAD as u64 + u64::from(body);
        if mark != MARK || body as usize > MAX_BODY || end > len {
            break;
        }
        each(*key, at, end - at);
        at = end;
    }
    at
}

/// Bytes that can be read at a place.
pub(super) trait ReadAt {
    /// Fills the buffer; `None` if there are not as many.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> Option<()>;
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> Option<()> {
        self.read_exact_at(buffer, at).ok()
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> Option<()> {
        let at = usize::try_from(at).ok()?;
        buffer.copy_from_slice(self.get(at..at.checked_add(buffer.len())?)?);
        Some(())
    }
}

/// The packs of a directory, the lowest number first.
fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    let number = |path: &PathBuf| -> Option<usize> {
        let stem = path.file_stem()?.to_str()?;
        let number: usize = stem.parse().ok().filter(|number| *number < MAX_PACKS)?;
        (path.extension()? == END && stem == number.to_string()).then_some(number)
    };
    let mut numbered: Vec<(usize, PathBuf)> = paths.filter_map(|path| Some((number(&path)?, path))).collect();
    numbered.sort_unstable();
    Ok(numbered.into_iter().map(|(_, path)| path).collect())
}

/// A new pack, with the first number that is free.
fn new(directory: &Path) -> io::Result<(PathBuf, Flock<File>)> {
    for number in 0..MAX_PACKS {
        let path = directory.join(format!("{number}.{END}"));
        // What is there was not to be had a moment ago.
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        // Another one that begins may make it first.
        if let Some(lock) = pcp_files::try_lock(&path).map_err(io::Error::other)? {
            return Ok((path, lock));
        }
    }
    Err(io::Error::other(format!("{MAX_PACKS} servers write to it, or have left what cannot be read")))
}

fn len_of(file: &File) -> u64 {
    file.metadata().map_or(0, |about| about.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(number: u8) -> Key {
        [number; SUM]
    }

    fn made(number: u8, len: usize) -> Vec<u8> {
        let write = |mut entry: Vec<u8>| {
            entry.resize(entry.len() + len, number);
            Some(entry)
        };
        entry(&key(number), write).expect("it is short")
    }

    fn body(packs: &Packs, number: u8) -> Option<Vec<u8>> {
        packs.find(&key(number))?.body()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("it is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_written_is_found_by_the_next_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut packs = Packs::open(dir.path()).expect("it can be made");
        for number in 0..3 {
            packs.put(&key(number), &made(number, 100)).expect("there is room");
        }
        packs.put(&key(1), &made(1, 7)).expect("there is room");
        packs.forget(&key(2));
        assert_eq!(packs.dead, 2 * (100 + HEAD as u64));
        let check = |packs: &Packs| {
            assert_eq!(body(packs, 0), Some(vec![0; 100]));
            assert_eq!(body(packs, 1), Some(vec![1; 7]), "the one that was written last");
        };
        check(&packs);
        assert_eq!(body(&packs, 2), None);
        drop(packs);
        check(&Packs::open(dir.path()).expect("it is there"));
        assert_eq!(names(dir.path()), ["0.pack"]);
    }

    #[test]
    fn each_writes_to_one_of_its_own_and_takes_over_what_is_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut one = Packs::open(dir.path()).expect("it can be made");
        one.put(&key(1), &made(1, 10)).expect("there is room");
        let mut other = Packs::open(dir.path()).expect("it can be made");
        assert_eq!(names(dir.path()), ["0.pack", "1.pack"]);
        assert_eq!(body(&other, 1), Some(vec![1; 10]), "as it was when it began");
        other.put(&key(2), &made(2, 10)).expect("there is room");
        assert_eq!(body(&one, 2), None);
        drop((one, other));
        let both = Packs::open(dir.path()).expect("they are there");
        assert_eq!((body(&both, 1), body(&both, 2)), (Some(vec![1; 10]), Some(vec![2; 10])));
        assert_eq!(names(dir.path()), ["0.pack"]);
    }

    #[test]
    fn a_pack_of_which_half_is_not_needed_is_written_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut packs = Packs::open(dir.path()).expect("it can be made");
        let kept = packs.find(&key(0));
        assert!(kept.is_none());
        packs.put(&key(0), &made(0, 1000)).expect("there is room");
        let place = packs.find(&key(0)).expect("it was put");
        for number in 0..200_u8 {
            packs.put(&key(1), &made(1, 10_000 + usize::from(number))).expect("there is room");
        }
        let len = len_of(&packs.own);
        assert!((10_000..2 * WORN + 20_000).contains(&len), "{len}");
        assert_eq!((body(&packs, 0), body(&packs, 1)), (Some(vec![0; 1000]), Some(vec![1; 10_199])));
        assert_eq!(place.body(), Some(vec![0; 1000]), "what was found before is still there");
        assert!(
            Packs::open(dir.path()).is_ok_and(|other| other.path.ends_with("1.pack")),
            "it is locked still"
        );
        drop(packs);
        let packs = Packs::open(dir.path()).expect("it is there");
        assert_eq!((body(&packs, 0), body(&packs, 1)), (Some(vec![0; 1000]), Some(vec![1; 10_199])));
        assert_eq!(names(dir.path()), ["0.pack"]);
    }

    #[test]
    fn those_that_nobody_needs_are_forgotten() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut packs = Packs::open(dir.path()).expect("it can be made");
        for number in 0..4 {
            packs.put(&key(number), &made(number, 3)).expect("there is room");
        }
        packs.retain(|beginning| beginning == [1, 1, 1] || beginning == [3, 3, 3]);
        let found: Vec<bool> = (0..4).map(|number| body(&packs, number).is_some()).collect();
        assert_eq!(found, [false, true, false, true]);
    }

    #[test]
    fn a_damaged_pack_has_what_is_whole_in_it() {
        let (one, other) = (made(1, 40), made(2, 40));
        let good = [&MAGIC[..], &one, &other].concat();
        let first = MAGIC.len() + one.len();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            for (bytes, is_cut) in [(&bad[..], false), (&good[..at], true)] {
                let dir = tempfile::tempdir().expect("a directory");
                fs::write(dir.path().join("0.pack"), bytes).expect("writable");
                let mut packs = Packs::open(dir.path()).expect("it can be made");
                let found = [1, 2].map(|number| body(&packs, number));
                assert!(found[1].is_none() || (!is_cut && at >= MAGIC.len() && at < first), "byte {at}");
                assert!(found[0].is_none() || at >= first, "byte {at}");
                for (number, found) in [1, 2].into_iter().zip(found) {
                    assert!(found.is_none_or(|found| found == vec![number; 40]), "byte {at}");
                    packs.put(&key(number), &made(number, 5)).expect("there is room");
                }
                drop(packs);
                let packs = Packs::open(dir.path()).expect("it is there");
                assert_eq!([1, 2].map(|number| body(&packs, number)), [Some(vec![1; 5]), Some(vec![2; 5])]);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(
            parts in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..60),
                    (any::<u8>(), 0..60_usize).prop_map(|(number, len)| made(number, len)),
                ],
                0..5,
            )
        ) {
            let bytes = [&MAGIC[..], &parts.concat()].concat();
            let mut behind = MAGIC.len() as u64;
            let end = entries(&bytes[..], bytes.len() as u64, |_, at, len| {
                assert_eq!(at, behind);
                behind = at + len;
            });
            prop_assert_eq!(end, behind);
            prop_assert!(end <= bytes.len() as u64);
        }
    }
}

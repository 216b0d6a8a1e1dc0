//! What archives say, kept in files, so that the metadata of an archive is read once and not at each start.
//!
//! A [pack](super::pack) has, by the SHA-1 of an archive's name, postcard of its name, of the state of its metadata, and of its facts.
//!
//! **Invariant:** what is not whole, of another archive, or not of the metadata as it is now, is as if it was not there; it is replaced.
//! What is of archives that are gone is forgotten.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pcp_archive::Glance;
use pcp_model::Timestamp;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use super::facts::{Facts, Stamp, since_epoch};
use super::pack::{self, Key, Packs};

/// Files of versions before, one for each archive.
const OF_BEFORE: &str = "facts";
/// Who writes a file for longer than this was killed.
const OLD: Duration = Duration::from_secs(3600);

/// A directory with what is kept.
#[derive(Debug)]
pub(super) struct Cache {
    /// `None`: nothing is kept.
    directory: Option<PathBuf>,
    /// Once they are needed: to look into them takes its time. `None`: they cannot be written.
    packs: OnceLock<Option<Mutex<Packs>>>,
}

/// What is kept of an archive.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept<F> {
    archive: PathBuf,
    stamp: Stamp,
    /// Bytes of all its files, when they were last written to, and the time of the last record then.
    bytes: u64,
    changed: (u64, u32),
    end: (i64, u32),
    /// [`Facts`], or those of somebody else to be written.
    facts: F,
}

impl Cache {
    fn at(directory: Option<PathBuf>) -> Cache {
        Cache { directory, packs: OnceLock::new() }
    }

    /// What is kept in a directory, which is made if it is not there. Where that cannot be, nothing is kept, and why is told.
    pub(super) fn open(directory: Option<PathBuf>) -> (Cache, Option<io::Error>) {
        let Some(directory) = directory else { return (Cache::at(None), None) };
        match fs::create_dir_all(&directory) {
            Ok(()) => (Cache::at(Some(directory)), None),
            Err(error) => (Cache::at(None), Some(error)),
        }
    }

    /// What was kept of an archive whose metadata is as the stamp says; with the time of its last record, if nothing has been
    /// written to it since.
    pub(super) fn load(&self, glance: &Glance, stamp: &Stamp) -> Option<(Facts, Option<Timestamp>)> {
        let place = self.packs()?.find(&key(&glance.name))?;
        let kept = decoded(&place.body()?)?;
        let is_it = kept.archive == glance.name && kept.stamp == *stamp && kept.facts.is_sound();
        let is_whole = kept.bytes == glance.bytes && kept.changed == since_epoch(glance.changed);
        let end = is_whole.then(|| Timestamp::new(kept.end.0, kept.end.1));
        is_it.then_some((kept.facts, end))
    }

    /// Keeps what an archive says.
    ///
    /// # Errors
    /// It cannot be written, or there is no room.
    pub(super) fn store(
        &self,
        glance: &Glance,
        stamp: &Stamp,
        facts: &Facts,
        end: Timestamp,
    ) -> io::Result<()> {
        if self.directory.is_none() {
            return Ok(());
        }
        let kept = Kept {
            archive: glance.name.clone(),
            stamp: stamp.clone(),
            bytes: glance.bytes,
            changed: since_epoch(glance.changed),
            end: (end.sec, end.nsec),
            facts,
        };
        let key = key(&glance.name);
        let entry = encoded(&key, &kept)
            .ok_or_else(|| io::Error::other("too much to be kept, or a name that is no text"))?;
        self.packs().map_or(Ok(()), |mut packs| packs.put(&key, &entry))
    }

    /// Forgets an archive.
    pub(super) fn forget(&self, archive: &Path) {
        if let Some(mut packs) = self.packs() {
            packs.forget(&key(archive));
        }
    }

    /// Forgets archives that are gone, and removes files that nobody needs any more.
    pub(super) fn sweep(&self) {
        let Some(directory) = &self.directory else { return };
        if let Some(mut packs) = self.packs() {
            packs.retain(|body| archive_of(body).is_some_and(|archive| is_there(&archive)));
        }
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let has_end = |wanted: &str| path.extension().is_some_and(|end| end == wanted);
            // Files that were being written when a server was killed.
            let is_piece = || has_end("new") && entry.metadata().is_ok_and(|about| is_older(&about, OLD));
            if has_end(OF_BEFORE) || is_piece() {
                let _ = fs::remove_file(&path);
            }
        }
    }

    fn packs(&self) -> Option<MutexGuard<'_, Packs>> {
        let packs = self.packs.get_or_init(|| {
            let directory = self.directory.as_ref()?;
            let opened = Packs::open(directory).inspect_err(|error| {
                tracing::warn!("{}: the index is kept in memory only: {error}", directory.display());
            });
            opened.ok().map(Mutex::new)
        });
        packs.as_ref().map(|packs| packs.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn key(archive: &Path) -> Key {
    Sha1::digest(archive.as_os_str().as_encoded_bytes()).into()
}

/// Whether all entries of a pack are facts of archives.
pub(super) fn is_sound(bytes: &[u8]) -> bool {
    let mut is_sound = true;
    pack::entries(bytes, bytes.len() as u64, |_, at, len| {
        let body = usize::try_from(at).ok().zip(usize::try_from(at + len).ok());
        let body = body.and_then(|(at, end)| bytes.get(at + pack::HEAD..end)).unwrap_or_default();
        is_sound &= archive_of(body).is_some() && decoded(body).is_some_and(|kept| kept.facts.is_sound());
    });
    is_sound
}

fn encoded(key: &Key, kept: &Kept<impl Serialize>) -> Option<Vec<u8>> {
    pack::entry(key, |entry| postcard::to_extend(kept, entry).ok())
}

fn decoded(body: &[u8]) -> Option<Kept<Facts>> {
    postcard::from_bytes(body).ok()
}

/// The archive that a body is of; its beginning tells.
fn archive_of(body: &[u8]) -> Option<PathBuf> {
    postcard::take_from_bytes::<PathBuf>(body).ok().map(|(name, _)| name)
}

fn is_older(about: &fs::Metadata, age: Duration) -> bool {
    about.modified().ok().and_then(|changed| changed.elapsed().ok()).is_some_and(|elapsed| elapsed > age)
}

fn is_there(archive: &Path) -> bool {
    pcp_archive::name_of(archive).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use pcp_archive::LogLabel;
    use std::time::SystemTime;

    use super::super::facts::{Domain, Instance, Metric};
    use super::*;

    fn glance(name: &str, bytes: u64) -> Glance {
        let (start, host) = (Timestamp::new(1, 0), "h".to_owned());
        let (zone, zone_info) = (String::new(), String::new());
        let label = LogLabel { version: 3, pid: 1, start, host, zone, zone_info, features: 0 };
        Glance { name: name.into(), label, last: start, bytes, changed: SystemTime::UNIX_EPOCH }
    }

    fn facts() -> Facts {
        let metric = |name: &str| Metric {
            name: name.to_owned(),
            pmid: 1,
            indom: 2,
            value_type: 3,
            semantics: 1,
            units: 0,
            labels: 0,
        };
        Facts {
            labels: vec![("hostname".to_owned(), "\"h\"".to_owned())],
            later: vec![("machineid".to_owned(), "\"m\"".to_owned())],
            metrics: vec![metric("a.b"), metric("a.c")],
            indoms: vec![Domain {
                indom: 2,
                instances: vec![Instance { id: 1, name: "one".to_owned(), labels: 0 }],
            }],
            sets: vec![Vec::new()],
            damage: vec!["a: volume 3 is missing, and is left out".to_owned()],
        }
    }

    #[test]
    fn what_was_kept_is_found_for_the_same_metadata_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let (cache, error) = Cache::open(Some(dir.path().join("series")));
        assert!(error.is_none());
        let (archive, stamp) = (glance("/a/b", 9), Stamp { len: 7, ..Stamp::default() });
        let end = Timestamp::new(5, 6);
        cache.store(&archive, &stamp, &facts(), end).expect("written");
        assert_eq!(cache.load(&archive, &stamp), Some((facts(), Some(end))));
        assert_eq!(cache.load(&glance("/a/b", 10), &stamp), Some((facts(), None)), "it has grown");
        assert_eq!(cache.load(&archive, &Stamp::default()), None);
        assert_eq!(cache.load(&glance("/a/c", 9), &stamp), None);
        // The archive is not there.
        cache.sweep();
        assert_eq!(cache.load(&archive, &stamp), None);
    }

    #[test]
    fn what_cannot_be_written_is_told_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let series = dir.path().join("series");
        fs::create_dir_all(series.join("0.pack")).expect("it can be made");
        let (cache, _) = Cache::open(Some(series.clone()));
        let (stamp, end) = (Stamp::default(), Timestamp::new(5, 6));
        let archive = glance("/a/b", 9);
        cache.store(&archive, &stamp, &facts(), end).expect("with the next number");
        assert_eq!(cache.load(&archive, &stamp), Some((facts(), Some(end))));
        fs::remove_dir_all(&series).expect("it is the test's");
        let (cache, _) = Cache::open(Some(series.clone()));
        fs::remove_dir_all(&series).expect("it is the test's");
        cache.store(&archive, &stamp, &facts(), end).expect("it is not kept");
        assert_eq!(cache.load(&archive, &stamp), None);
    }

    #[test]
    fn files_of_versions_before_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["0000.facts", "1.pack.0123.new", "precious"] {
            fs::write(dir.path().join(name), "").expect("writable");
        }
        let old = fs::File::options().write(true).open(dir.path().join("1.pack.0123.new")).expect("written");
        old.set_modified(SystemTime::now() - 2 * OLD).expect("it is ours");
        Cache::open(Some(dir.path().to_owned())).0.sweep();
        let left = fs::read_dir(dir.path()).expect("it is there");
        let mut left: Vec<_> = left.map(|entry| entry.expect("an entry").file_name()).collect();
        left.sort();
        assert_eq!(left, ["0.pack", "precious"]);
    }

    #[test]
    fn numbers_of_labels_that_are_not_there_are_refused() {
        let bad = Facts { sets: Vec::new(), ..facts() };
        assert!(facts().is_sound() && !bad.is_sound());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let archive = key(Path::new("/x"));
            let entry = pack::entry(&archive, |entry| Some([entry, body].concat())).expect("short");
            let _ = is_sound(&[&b"jumpseat series 3\n"[..], &entry].concat());
        }

        #[test]
        fn what_is_encoded_is_sound(number in any::<u64>(), name in "/[a-z]{0,9}") {
            let kept = Kept {
                archive: name.into(),
                stamp: Stamp { len: number, ..Stamp::default() },
                bytes: number,
                changed: (4, 5),
                end: (1, 2),
                facts: facts(),
            };
            let entry = encoded(&key(&kept.archive), &kept).expect("small");
            prop_assert!(is_sound(&[&b"jumpseat series 3\n"[..], &entry].concat()));
            prop_assert_eq!(decoded(&entry[pack::HEAD..]), Some(kept));
        }
    }
}

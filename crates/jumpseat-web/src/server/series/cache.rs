//! Files of facts, so that the metadata of an archive is read once and not at each start.
//!
//! ```text
//! CACHE/series/HASH.facts := "jumpseat series 2\n" | length u32 | SHA-1 of the rest | postcard of (archive, stamp, facts)
//! HASH: identifier of the archive's name as a string
//! ```
//!
//! **Invariant:** a file that is not whole, of another version, of another archive, or not of the metadata as it is now, is as if
//! it was not there; it is replaced as a whole. Files of archives that are gone are removed. What is beyond [`MAX_TOTAL`] is not kept.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pcp_archive::Glance;
use pcp_files::{Replacement, Writes};
use pcp_model::Timestamp;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use super::facts::{Facts, Stamp, since_epoch};

const MAGIC: &[u8; 18] = b"jumpseat series 2\n";
const HEADER: usize = MAGIC.len() + 4 + SUM;
const SUM: usize = 20;
/// Largest file.
const MAX_FILE: usize = 64 << 20;
/// Most bytes of all files together.
pub(super) const MAX_TOTAL: u64 = 2 << 30;
const END: &str = "facts";
/// Who writes a file for longer than this was killed.
const OLD: Duration = Duration::from_secs(3600);

/// A directory of such files.
#[derive(Debug)]
pub(super) struct Cache {
    /// `None`: nothing is kept.
    directory: Option<PathBuf>,
    total: AtomicU64,
}

/// What a file has.
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
        Cache { directory, total: AtomicU64::new(0) }
    }

    /// The files in a directory, which is made if it is not there. Where that cannot be, nothing is kept, and why is told.
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
        let kept = read(&self.path(&glance.name)?)?;
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
        let Some(path) = self.path(&glance.name) else { return Ok(()) };
        let kept = Kept {
            archive: glance.name.clone(),
            stamp: stamp.clone(),
            bytes: glance.bytes,
            changed: since_epoch(glance.changed),
            end: (end.sec, end.nsec),
            facts,
        };
        let bytes = encoded(&kept)
            .ok_or_else(|| io::Error::other("too much to be kept, or a name that is no text"))?;
        let before = fs::metadata(&path).map_or(0, |about| about.len());
        let len = bytes.len() as u64;
        // The old file is there until it is replaced.
        let grown =
            |total: u64| total.checked_add(len).filter(|total| total.saturating_sub(before) <= MAX_TOTAL);
        if self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
            return Err(io::Error::other("the index has no room for more archives"));
        }
        let written = write(&path, &bytes);
        self.shrink(if written.is_ok() { before } else { len });
        written
    }

    /// Forgets an archive.
    pub(super) fn forget(&self, archive: &Path) {
        let Some(path) = self.path(archive) else { return };
        let len = fs::metadata(&path).map_or(0, |about| about.len());
        if fs::remove_file(&path).is_ok() {
            self.shrink(len);
        }
    }

    fn shrink(&self, bytes: u64) {
        let less = |total: u64| Some(total.saturating_sub(bytes));
        let _ = self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Removes files that are none, and those of archives that are gone; other servers may have use for the rest. Counts what is
    /// left.
    pub(super) fn sweep(&self) {
        let Some(directory) = &self.directory else { return };
        let Ok(entries) = fs::read_dir(directory) else { return };
        let mut total = 0;
        for entry in entries.flatten() {
            let path = entry.path();
            let about = entry.metadata();
            // Files that were being written when a server was killed.
            let is_piece = path.extension().is_some_and(|end| end == "new");
            let is_old = about.as_ref().is_ok_and(|about| is_older(about, OLD));
            if is_piece && is_old {
                let _ = fs::remove_file(&path);
            }
            if path.extension().is_none_or(|end| end != END) {
                continue;
            }
            let name = archive_of(&path);
            let is_used = name.is_some_and(|name| is_there(&name));
            if is_used {
                total += about.map_or(0, |about| about.len());
            } else {
                let _ = fs::remove_file(&path);
            }
        }
        self.total.store(total, Ordering::Relaxed);
    }

    fn path(&self, archive: &Path) -> Option<PathBuf> {
        let mut hash = Sha1::new();
        hash.update(archive.as_os_str().as_encoded_bytes());
        let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Some(self.directory.as_ref()?.join(format!("{name}.{END}")))
    }
}

/// What is not whole is refused when it is read: nothing has to wait for the disk, nor to be renamed where there was nothing before.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Ok(mut file) = pcp_files::create(path, Writes::Anywhere) {
        let written = file.write_all(bytes);
        if written.is_err() {
            // What there was no room for leaves nothing.
            let _ = fs::remove_file(path);
        }
        return written;
    }
    let mut replacement = Replacement::begin(path).map_err(io::Error::other)?;
    replacement.file().write_all(bytes)?;
    replacement.finish_unsynced().map_err(io::Error::other)?;
    Ok(())
}

fn read(path: &Path) -> Option<Kept<Facts>> {
    let file = pcp_files::read(path).ok()?;
    let len = usize::try_from(file.metadata().ok()?.len()).ok().filter(|len| *len <= MAX_FILE)?;
    let mut bytes = Vec::new();
    file.take(len as u64).read_to_end(&mut bytes).ok()?;
    decoded(&bytes)
}

/// Whether bytes are a file of this kind.
pub(super) fn is_sound(bytes: &[u8]) -> bool {
    decoded(bytes).is_some_and(|kept| kept.facts.is_sound())
}

fn encoded(kept: &Kept<impl Serialize>) -> Option<Vec<u8>> {
    let mut bytes = Vec::from(MAGIC);
    bytes.resize(HEADER, 0);
    let mut bytes = postcard::to_extend(kept, bytes).ok()?;
    let len = u32::try_from(bytes.len() - HEADER).ok().filter(|_| bytes.len() <= MAX_FILE)?;
    let sum = Sha1::digest(&bytes[HEADER..]);
    bytes[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&len.to_be_bytes());
    bytes[MAGIC.len() + 4..HEADER].copy_from_slice(&sum);
    Some(bytes)
}

fn decoded(bytes: &[u8]) -> Option<Kept<Facts>> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (sum, body) = rest.split_first_chunk::<SUM>()?;
    if body.len() != u32::from_be_bytes(*len) as usize || Sha1::digest(body)[..] != sum[..] {
        return None;
    }
    postcard::from_bytes(body).ok()
}

/// The archive that a file is of; the beginning of the file tells.
fn archive_of(path: &Path) -> Option<PathBuf> {
    const ENOUGH: u64 = 8192;
    let mut bytes = Vec::new();
    pcp_files::read(path).ok()?.take(ENOUGH).read_to_end(&mut bytes).ok()?;
    let body = bytes.strip_prefix(MAGIC)?.get(HEADER - MAGIC.len()..)?;
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
        let total = || cache.total.load(Ordering::Relaxed);
        assert!(total() > 0);
        // The archive is not there.
        cache.sweep();
        assert_eq!((cache.load(&archive, &stamp), total()), (None, 0));
    }

    #[test]
    fn what_could_not_be_written_takes_no_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let series = dir.path().join("series");
        let (cache, _) = Cache::open(Some(series.clone()));
        let (stamp, end) = (Stamp::default(), Timestamp::new(5, 6));
        let store = |name: &str, facts: &Facts| cache.store(&glance(name, 9), &stamp, facts, end);
        let total = || cache.total.load(Ordering::Relaxed);
        store("/a/b", &facts()).expect("written");
        let once = total();
        store("/a/b", &facts()).expect("written");
        assert!(once > 0 && total() == once, "in place of the old one");
        fs::remove_dir_all(&series).expect("it is the test's");
        for _ in 0..3 {
            store("/a/c", &facts()).expect_err("there is no directory");
        }
        assert_eq!(total(), once);
    }

    #[test]
    fn a_damaged_file_is_none() {
        let kept = Kept {
            archive: "/x".into(),
            stamp: Stamp::default(),
            bytes: 3,
            changed: (4, 5),
            end: (1, 2),
            facts: facts(),
        };
        let good = encoded(&kept).expect("small");
        assert_eq!(decoded(&good), Some(kept));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(decoded(&bad), None, "byte {at}");
            assert_eq!(decoded(&good[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn numbers_of_labels_that_are_not_there_are_refused() {
        let bad = Facts { sets: Vec::new(), ..facts() };
        assert!(facts().is_sound() && !bad.is_sound());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = Vec::from(MAGIC);
            bytes.extend((body.len() as u32).to_be_bytes());
            bytes.extend(Sha1::digest(&body));
            bytes.extend(&body);
            let _ = decoded(&bytes).map(|kept| kept.facts.is_sound());
        }
    }
}

//! What was read from files, and whether they are other ones by now.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often to look.
const EVERY: Duration = Duration::from_secs(1);

type Read<T, E> = dyn Fn(&[PathBuf]) -> Result<T, E> + Send;

/// What files say, and which files these were.
pub struct Fresh<T, E> {
    paths: Vec<PathBuf>,
    read: Box<Read<T, E>>,
    stamps: Vec<Option<Stamp>>,
    looked: Instant,
    value: T,
}

/// What tells that a file is another one, or says something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    file: (u64, u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// That of the file at a path; `None`: it is not there.
    pub fn of(path: &Path) -> Option<Stamp> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Stamp {
            file: (meta.dev(), meta.ino(), meta.len()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

impl<T, E> Fresh<T, E> {
    /// Reads them.
    ///
    /// # Errors
    /// As `read`.
    pub fn new(
        paths: Vec<PathBuf>,
        read: impl Fn(&[PathBuf]) -> Result<T, E> + Send + 'static,
    ) -> Result<Fresh<T, E>, E> {
        // Before they are read: what changes meanwhile is read again.
        let stamps = stamps(&paths);
        let value = read(&paths)?;
        Ok(Fresh { paths, read: Box::new(read), stamps, looked: Instant::now(), value })
    }

    /// What they said when they were read last.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The same, for who puts what [`Fresh::renew`] gave in its place.
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Whether the first file was not there at the last look.
    pub fn is_gone(&self) -> bool {
        self.stamps.first().is_some_and(Option::is_none)
    }

    /// What they say, if they have changed. Looks once a second at most.
    pub fn renew(&mut self, now: Instant) -> Option<Result<T, E>> {
        if now.saturating_duration_since(self.looked) < EVERY {
            return None;
        }
        self.looked = now;
        let stamps = stamps(&self.paths);
        if stamps == self.stamps {
            return None;
        }
        self.stamps = stamps;
        Some((self.read)(&self.paths))
    }
}

impl<T: fmt::Debug, E> fmt::Debug for Fresh<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh")
            .field("paths", &self.paths)
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Option<Stamp>> {
    paths.iter().map(|path| Stamp::of(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again_when_they_have_changed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x");
        std::fs::write(&path, "one").expect("written");
        let read = |paths: &[PathBuf]| std::fs::read_to_string(&paths[0]).map_err(|error| error.to_string());
        let mut fresh = Fresh::new(vec![path.clone()], read).expect("it is there");
        let later = |seconds| Instant::now() + Duration::from_secs(seconds);
        assert!(fresh.renew(later(2)).is_none());
        std::fs::write(&path, "three").expect("written");
        assert!(fresh.renew(later(2)).is_none(), "too soon after the last look");
        assert_eq!(fresh.renew(later(4)), Some(Ok("three".to_owned())));
        assert!(fresh.renew(later(6)).is_none() && !fresh.is_gone());
        std::fs::remove_file(&path).expect("ours");
        assert!(matches!(fresh.renew(later(8)), Some(Err(_))) && fresh.is_gone());
        assert_eq!(fresh.value(), "one", "kept until somebody takes the new one");
    }
}

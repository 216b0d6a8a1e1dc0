//! Why a path or a pattern matches nothing: most often it is written wrong, or a directory on the way is closed.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Whether anything was found for a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Found {
    /// Nobody has looked.
    #[default]
    Unknown,
    /// Nothing yet, as was told.
    Nothing,
    /// Something. That it goes and comes again is nothing to tell.
    Something,
}

/// What lacks.
#[derive(Debug)]
pub(super) enum Lack {
    /// There is no such directory.
    Directory(PathBuf),
    /// It is something else.
    NoDirectory(PathBuf),
    /// It cannot be looked into.
    Closed(PathBuf, io::Error),
    /// There is no such file in it.
    File(PathBuf),
}

impl Lack {
    /// Looks for what lacks, from the root on up to the first part with a wildcard.
    pub(super) fn of(pattern: &Path) -> Lack {
        let mut directory = PathBuf::new();
        let parts = pattern.parent().unwrap_or(Path::new("")).components();
        for part in parts.take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '['])) {
            directory.push(part);
            match fs::metadata(&directory) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Lack::NoDirectory(directory),
                Err(error) if error.kind() == ErrorKind::NotFound => return Lack::Directory(directory),
                Err(error) => return Lack::Closed(directory, error),
            }
        }
        if directory.as_os_str().is_empty() {
            directory.push(".");
        }
        match fs::read_dir(&directory) {
            Ok(_) => Lack::File(directory),
            Err(error) => Lack::Closed(directory, error),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Directory(path) => write!(f, "there is no directory {}", path.display()),
            Lack::NoDirectory(path) => write!(f, "{} is not a directory", path.display()),
            Lack::Closed(path, error) => write!(f, "cannot look into {}: {error}", path.display()),
            Lack::File(path) => write!(f, "nothing in {} is called so", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thing_that_lacks_is_told() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path();
        fs::create_dir(root.join("a")).expect("writable");
        fs::write(root.join("file"), "").expect("writable");
        let shown = root.display();
        for (pattern, expected) in [
            ("a/b/c/x.log", format!("there is no directory {shown}/a/b")),
            ("a/b/*.log", format!("there is no directory {shown}/a/b")),
            ("a/*.log", format!("nothing in {shown}/a is called so")),
            ("a/x.log", format!("nothing in {shown}/a is called so")),
            ("a/*/b/x.log", format!("nothing in {shown}/a is called so")),
            ("file/x.log", format!("{shown}/file is not a directory")),
        ] {
            assert_eq!(Lack::of(&root.join(pattern)).to_string(), expected, "{pattern}");
        }
    }
}

//! Files with definitions of derived metrics, found as `pmLoadDerivedConfig(3)` finds them.

use std::path::{Path, PathBuf};
use std::{fs, io};

use pcp_derive::{ConfigProblem, Registry};

/// A file or directory that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct Unreadable {
    /// Which.
    pub path: PathBuf,
    /// Why not.
    pub error: io::Error,
}

impl From<Unreadable> for io::Error {
    fn from(unreadable: Unreadable) -> io::Error {
        io::Error::other(unreadable.to_string())
    }
}

/// Loads what `PCP_DERIVED_CONFIG` may name: a configuration file, every file of a directory and those below it
/// in the order of their names, or several of these with colons between them. What is neither file nor directory
/// is left out, as `pmLoadDerivedConfig(3)` does. Each definition that is wrong goes to `problem`, with its file.
/// Gives the number of definitions.
///
/// # Errors
/// The first file or directory that cannot be read. All others are loaded.
pub fn load(
    registry: &mut Registry,
    path: &Path,
    problem: &mut dyn FnMut(&Path, &ConfigProblem),
) -> Result<usize, Unreadable> {
    if path.is_dir() {
        let entries: io::Result<Vec<PathBuf>> =
            fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        let mut entries = entries.map_err(|error| Unreadable { path: path.to_owned(), error })?;
        // So that of two definitions of one name the same one wins everywhere.
        entries.sort();
        return load_all(registry, entries.iter().map(PathBuf::as_path), problem);
    }
    // A device or a pipe is nothing to be read here; PCP passes over it without a word.
    if path.exists() && !path.is_file() {
        return Ok(0);
    }
    // A file whose name has a colon is taken for what it is first.
    if let Some(list) = path.to_str().filter(|text| text.contains(':') && !path.exists()) {
        let list = list.strip_suffix(':').unwrap_or(list);
        return load_all(registry, list.split(':').map(Path::new), problem);
    }
    let text = fs::read(path).map_err(|error| Unreadable { path: path.to_owned(), error })?;
    let loaded = registry.load(&text);
    for one in &loaded.problems {
        problem(path, one);
    }
    Ok(loaded.registered)
}

fn load_all<'a>(
    registry: &mut Registry,
    paths: impl Iterator<Item = &'a Path>,
    problem: &mut dyn FnMut(&Path, &ConfigProblem),
) -> Result<usize, Unreadable> {
    let mut registered = 0;
    let mut failed = None;
    for path in paths {
        match load(registry, path, problem) {
            Ok(count) => registered += count,
            // The others are loaded all the same: one missing file must not take away every definition.
            Err(unreadable) => failed = failed.or(Some(unreadable)),
        }
    }
    failed.map_or(Ok(registered), Err)
}

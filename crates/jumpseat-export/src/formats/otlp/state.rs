//! How far event records have been taken by the receiver: a file, so that the next export goes on there.
//!
//! ```text
//! { "jumpseat.event.position": { "checkout": "1234@17e3a5c0d2b4f681", ... } }
//! ```
//!
//! The positions are what the agent said in the very fetch that had the records (`docs/positions.md`), and are written, with a new
//! file in place of the old one, when the receiver has acknowledged them. So whatever ends an export, at whatever
//! instruction: the next one begins behind the last record that is known to be taken. The first one writes the positions of the
//! first answer, which has no records, at once: records that come from then on are not missed if it ends before any is taken.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// By metric and source, the position.
pub(super) type Mark = BTreeMap<String, BTreeMap<String, String>>;

/// Longest file that is read, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// The file. The walk and the thread that sends have it.
pub(super) struct State {
    path: PathBuf,
    /// What is in it.
    kept: Mutex<Mark>,
}

impl State {
    /// Reads the file; one that is not there says nothing yet.
    ///
    /// # Errors
    /// It cannot be read, or is something else, and what to do.
    pub(super) fn open(path: &Path) -> Result<State, String> {
        let wrong = |error: &dyn std::fmt::Display| {
            format!("--state {}: {error}: remove it to begin anew, or name another file", path.display())
        };
        let file = match pcp_files::read(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(State { path: path.to_owned(), kept: Mutex::default() });
            }
            Err(error) => return Err(wrong(&error)),
        };
        let mut text = String::new();
        file.take(MAX_FILE).read_to_string(&mut text).map_err(|error| wrong(&error))?;
        let kept: Mark = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        Ok(State { path: path.to_owned(), kept: kept.into() })
    }

    /// What is kept.
    pub(super) fn kept(&self) -> Mark {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps other positions; sources that are not among them keep theirs.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn save(&self, mark: &Mark) -> Result<(), String> {
        // Until the file is there, so that a newer one is not replaced by an older one.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (metric, sources) in mark {
            kept.entry(metric.clone()).or_default().extend(sources.clone());
        }
        // Maps of texts are always JSON.
        let text = serde_json::to_vec(&*kept).unwrap_or_default();
        pcp_files::replace(&self.path, &text)
            .map_err(|error| format!("--state {}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_back_and_others_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("state");
        let mark = |source: &str, at: &str| {
            Mark::from([("m".to_owned(), BTreeMap::from([(source.to_owned(), at.to_owned())]))])
        };
        let state = State::open(&path).expect("none yet");
        assert_eq!(state.kept(), Mark::new());
        state.save(&mark("a", "1@x")).expect("written");
        state.save(&mark("b", "2@x")).expect("written");
        state.save(&mark("a", "3@x")).expect("written");
        let expected =
            BTreeMap::from([("a".to_owned(), "3@x".to_owned()), ("b".to_owned(), "2@x".to_owned())]);
        assert_eq!(State::open(&path).expect("read").kept().get("m"), Some(&expected));
        std::fs::write(&path, "{").expect("written");
        assert!(State::open(&path).err().expect("refused").contains("remove it"));
    }
}

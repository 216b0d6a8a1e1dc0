//! The archives of PCP's test suite (package pcp-testsuite).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const SUITE: &str = "/var/lib/pcp/testsuite";

/// The names of all archives in a folder of the suite.
pub(crate) fn archives(folder: &str) -> Vec<PathBuf> {
    let dir = Path::new(SUITE).join(folder);
    let entries = fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("{}: {error}; install pcp-testsuite", dir.display()));
    let mut names = BTreeSet::new();
    for entry in entries {
        let file = entry.expect("readable").file_name().into_string().expect("a usual name");
        if let Some((base, rest)) = file.rsplit_once(".meta")
            && !rest.contains("bad")
        {
            names.insert(dir.join(base));
        }
    }
    assert!(names.len() > 40, "only {} archives in {}", names.len(), dir.display());
    names.into_iter().collect()
}

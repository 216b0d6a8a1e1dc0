//! The archives of PCP's test suite, of many ages and loggers, some of them compressed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::clock::{children_cpu, thread_cpu};

const SUITE: &str = "/var/lib/pcp/testsuite/archives";
/// What [`unpacked`] measures.
pub(crate) const UNPACKED: &str = "reading their bytes, with xz and the like for those that are packed";

/// The names of all whose metadata is not compressed, without those called so, sorted.
pub(crate) fn archives_without(without: &[&str]) -> Vec<String> {
    let entries =
        fs::read_dir(SUITE).unwrap_or_else(|error| panic!("{SUITE}: {error}; install pcp-testsuite"));
    let files =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("a usual name"));
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.strip_suffix(".meta")?.to_owned()))
        .filter(|name| !without.contains(&name.as_str()))
        .collect();
    names.sort();
    names.iter().map(|name| Path::new(SUITE).join(name).to_str().expect("a usual name").to_owned()).collect()
}

/// The files of archives, each once: names of archives can begin with those of others.
pub(crate) fn files(archives: &[String]) -> Vec<PathBuf> {
    let files: BTreeSet<PathBuf> = archives.iter().flat_map(|name| parts(Path::new(name))).collect();
    files.into_iter().collect()
}

/// The files of an archive.
fn parts(name: &Path) -> Vec<PathBuf> {
    let start = name.file_name().and_then(|name| name.to_str()).expect("a usual name").to_owned() + ".";
    let entries = fs::read_dir(name.parent().expect("in a directory")).expect("readable").flatten();
    entries.map(|entry| entry.path()).filter(|path| is_part(path, &start)).collect()
}

fn is_part(path: &Path, start: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(start))
}

/// Processor time of reading the files, and of the programs that unpack them.
pub(crate) fn unpacked(files: &[PathBuf]) -> Duration {
    let (own, children) = (thread_cpu(), children_cpu());
    let mut piece = vec![0; 256 << 10];
    for (program, suffixes) in [("xz", ["xz", "lzma"]), ("bzip2", ["bz2", "bz"]), ("gzip", ["gz", "Z"])] {
        let is_packed = |path: &&PathBuf| {
            path.extension()
                .and_then(|suffix| suffix.to_str())
                .is_some_and(|suffix| suffixes.contains(&suffix))
        };
        let packed: Vec<&PathBuf> = files.iter().filter(is_packed).collect();
        if packed.is_empty() {
            continue;
        }
        let mut child = Command::new(program).arg("-dc").args(packed).stdout(Stdio::piped()).spawn();
        let child = child.as_mut().expect("it is installed");
        let mut out = child.stdout.take().expect("it is piped");
        while out.read(&mut piece).expect("a pipe") > 0 {}
        assert!(child.wait().expect("it ends").success());
    }
    for path in files {
        let mut file = fs::File::open(path).expect("readable");
        while file.read(&mut piece).expect("readable") > 0 {}
    }
    thread_cpu() - own + children_cpu() - children
}

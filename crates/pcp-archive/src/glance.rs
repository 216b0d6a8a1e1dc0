//! What archives a directory has, without opening one: for who shows thousands of them and reads few.
//!
//! **Cost:** one listing of the directory, and of each archive the label and the last entry of the index. Metadata is not read.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::{ArchiveError, Problem};
use super::files::{FileSet, Member, MemberOf, member_of};
use super::index;
use super::label::{LogLabel, Role};
use super::member::MemberReader;
use super::volumes::open_member;
use pcp_model::Timestamp;

/// An archive as its files tell from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Its name: what [`super::Archive::open`] takes.
    pub name: PathBuf,
    /// What its first record says.
    pub label: LogLabel,
    /// The time of the last entry in its index, or its start: records may be later.
    pub last: Timestamp,
    /// Bytes of all its files.
    pub bytes: u64,
    /// When one of them was last written to.
    pub changed: SystemTime,
}

/// The archives in a directory, by name, each with why it cannot be read if it cannot. Of those that are as they were at an earlier
/// glance, `known` (sorted by name), no file is opened.
///
/// # Errors
/// The directory cannot be read.
pub fn glances(directory: &Path, known: &[Glance]) -> io::Result<Vec<Result<Glance, ArchiveError>>> {
    glances_of(directory, known, |_| true)
}

/// The same of one archive, by its name as [`name_of`] gives it; `None`: it is not there.
///
/// # Errors
/// Its directory cannot be read.
pub fn glance_at(name: &Path, known: &[Glance]) -> io::Result<Option<Result<Glance, ArchiveError>>> {
    let directory = name.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let wanted = name.file_name().and_then(OsStr::to_str);
    Ok(glances_of(directory, known, |base| wanted == Some(base))?.pop())
}

fn glances_of(
    directory: &Path,
    known: &[Glance],
    is_wanted: impl Fn(&str) -> bool,
) -> io::Result<Vec<Result<Glance, ArchiveError>>> {
    let mut found: BTreeMap<String, Outside> = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let file = entry.file_name();
        let Some((base, member)) = file.to_str().and_then(|file| member_of(file, &entry.path())) else {
            continue;
        };
        if !is_wanted(&base) {
            continue;
        }
        let Ok(about) = entry.metadata() else { continue };
        if !about.is_file() {
            continue;
        }
        let outside = found.entry(base).or_insert_with(Outside::new);
        outside.bytes += about.len();
        outside.changed = about.modified().map_or(outside.changed, |time| time.max(outside.changed));
        match member {
            MemberOf::Meta(member) => outside.meta = Some(member),
            MemberOf::Index(member) => outside.index = Some(member),
            MemberOf::Volume => outside.volumes += 1,
        }
    }
    // What lacks a part of it is none, or none yet.
    let whole = found.into_iter().filter(|(_, outside)| outside.meta.is_some() && outside.volumes > 0);
    let glance = |(base, outside): (String, Outside)| {
        let name = directory.join(base);
        let before = known.binary_search_by(|known| known.name.cmp(&name)).ok().map(|at| &known[at]);
        match before.filter(|known| known.bytes == outside.bytes && known.changed == outside.changed) {
            Some(known) => Ok(known.clone()),
            None => glance(name, &outside),
        }
    };
    Ok(whole.map(glance).collect())
}

/// The name of the archive that `name`, or one of whose files, has this name.
///
/// # Errors
/// There is none, or a part of it is missing.
pub fn name_of(name: &Path) -> Result<PathBuf, ArchiveError> {
    FileSet::find(name).map(|files| files.base)
}

/// What a listing says of an archive.
struct Outside {
    meta: Option<Member>,
    index: Option<Member>,
    volumes: usize,
    bytes: u64,
    changed: SystemTime,
}

impl Outside {
    fn new() -> Outside {
        Outside { meta: None, index: None, volumes: 0, bytes: 0, changed: SystemTime::UNIX_EPOCH }
    }
}

fn glance(name: PathBuf, outside: &Outside) -> Result<Glance, ArchiveError> {
    let index = outside.index.as_ref().and_then(|index| open_member(index, Role::Index).ok());
    let (label, last) = match (index, &outside.meta) {
        (Some((mut source, label)), _) => {
            let last = last_entry(&mut source, &label)?;
            (label, last)
        }
        // A logger that has just begun has written no entry yet.
        (None, Some(meta)) => (open_member(meta, Role::Meta)?.1, None),
        (None, None) => return Err(ArchiveError::new(&name, None, Problem::Missing)),
    };
    let last = last.unwrap_or(label.start).max(label.start);
    Ok(Glance { name, label, last, bytes: outside.bytes, changed: outside.changed })
}

fn last_entry(source: &mut MemberReader, label: &LogLabel) -> Result<Option<Timestamp>, ArchiveError> {
    let len = index::entry_len(label.stamp()) as u64;
    let entries = source.len()?.saturating_sub(label.len()) / len;
    let Some(before) = entries.checked_sub(1) else { return Ok(None) };
    let last = index::entries(source, label.len() + before * len, label.stamp())?;
    Ok(last.last().map(|entry| entry.stamp))
}

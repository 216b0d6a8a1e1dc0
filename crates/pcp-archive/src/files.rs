//! Which files an archive consists of (`docs/pcp/archive.md` 1 and 2).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::{ArchiveError, Problem};

/// How a member is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Compression {
    None,
    Xz,
    Lzma,
    Bzip2,
    Gzip,
    Zstd,
}

/// The suffixes, in the order in which they are tried.
const SUFFIXES: [(&str, Compression); 8] = [
    (".xz", Compression::Xz),
    (".lzma", Compression::Lzma),
    (".bz2", Compression::Bzip2),
    (".bz", Compression::Bzip2),
    (".gz", Compression::Gzip),
    (".Z", Compression::Gzip),
    (".z", Compression::Gzip),
    (".zst", Compression::Zstd),
];

/// One file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub path: PathBuf,
    pub compression: Compression,
}

/// The files of one archive.
#[derive(Clone, Debug)]
pub(super) struct FileSet {
    /// Directory and name without any suffix.
    pub base: PathBuf,
    pub meta: Member,
    pub index: Option<Member>,
    /// By number; at least one.
    pub volumes: BTreeMap<u32, Member>,
}

/// What a file name says about a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Meta,
    Index,
    Volume(u32),
}

/// The files of an archive that are there.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Directory and name without any suffix.
    pub base: PathBuf,
    pub meta: Option<Member>,
    pub index: Option<Member>,
    /// By number.
    pub volumes: BTreeMap<u32, Member>,
}

impl FileSet {
    /// Finds the files of the archive that `name` or one of whose members has this name.
    ///
    /// # Errors
    /// [`Problem::Missing`], [`Problem::MissingFile`], or the system's.
    pub(crate) fn find(name: &Path) -> Result<FileSet, ArchiveError> {
        let Found { base, meta, index, volumes } = Found::find(name)?;
        let missing = |what| ArchiveError::new(name, None, Problem::MissingFile(what));
        let meta = meta.ok_or_else(|| missing("the .meta file"))?;
        if volumes.is_empty() {
            return Err(missing("every data volume"));
        }
        Ok(FileSet { base, meta, index, volumes })
    }
}

impl Found {
    /// Finds what there is of the archive that `name` or one of whose members has this name.
    ///
    /// # Errors
    /// [`Problem::Missing`], if there is nothing, or the system's.
    pub(crate) fn find(name: &Path) -> Result<Found, ArchiveError> {
        let base = base_of(name);
        let wanted = base.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let directory = match base.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let mut found: BTreeMap<Part, (usize, Member)> = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(|error| ArchiveError::io(directory, error))? {
            let entry = entry.map_err(|error| ArchiveError::io(directory, error))?;
            let file = entry.file_name();
            let Some((part, rank, compression)) = file.to_str().and_then(|file| classify(file, wanted))
            else {
                continue;
            };
            let better = found.get(&part).is_none_or(|(other, _)| rank < *other);
            if better {
                let path = match base.parent() {
                    Some(parent) => parent.join(&file),
                    None => PathBuf::from(&file),
                };
                found.insert(part, (rank, Member { path, compression }));
            }
        }
        if found.is_empty() {
            return Err(ArchiveError::new(name, None, Problem::Missing));
        }
        let mut take = |part| found.remove(&part).map(|(_, member)| member);
        let (meta, index) = (take(Part::Meta), take(Part::Index));
        let volumes = found
            .into_iter()
            .filter_map(|(part, (_, member))| match part {
                Part::Volume(number) => Some((number, member)),
                Part::Meta | Part::Index => None,
            })
            .collect();
        Ok(Found { base, meta, index, volumes })
    }
}

/// The names of all archives in a directory: whatever has a `.meta`. Sorted.
pub(super) fn archives_in(directory: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| ArchiveError::io(directory, error))? {
        let file = entry.map_err(|error| ArchiveError::io(directory, error))?.file_name();
        let Some(file) = file.to_str() else { continue };
        let (_, _, plain) = uncompressed(file);
        if let Some(base) = plain.strip_suffix(".meta") {
            names.push(directory.join(base));
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// What a file of an archive is, for who looks from outside.
pub(super) enum MemberOf {
    Meta(Member),
    Index(Member),
    Volume,
}

/// Of which archive a file is by its name, and what of it.
pub(super) fn member_of(file: &str, path: &Path) -> Option<(String, MemberOf)> {
    let (_, compression, plain) = uncompressed(file);
    let (base, part) = strip(plain)?;
    let member = || Member { path: path.to_owned(), compression };
    let part = match part {
        Part::Meta => MemberOf::Meta(member()),
        Part::Index => MemberOf::Index(member()),
        Part::Volume(_) => MemberOf::Volume,
    };
    Some((base.to_owned(), part))
}

/// The archive's name for the name of the archive or of one of its members.
fn base_of(name: &Path) -> PathBuf {
    let Some(file) = name.file_name().and_then(OsStr::to_str) else { return name.to_owned() };
    let exists = |suffix: &str| name.with_file_name(format!("{file}{suffix}")).is_file();
    let is_member = || exists("") || SUFFIXES.iter().any(|(suffix, _)| exists(suffix));
    match strip(file) {
        Some((base, _)) if is_member() => name.with_file_name(base),
        _ => name.to_owned(),
    }
}

/// A file's part in the archive `base`, and its rank among files for the same part (less is better).
fn classify(file: &str, base: &str) -> Option<(Part, usize, Compression)> {
    let (rank, compression, plain) = uncompressed(file);
    let (own_base, part) = strip(plain)?;
    (own_base == base).then_some((part, rank, compression))
}

fn uncompressed(file: &str) -> (usize, Compression, &str) {
    for (rank, (suffix, compression)) in SUFFIXES.iter().enumerate() {
        if let Some(plain) = file.strip_suffix(suffix) {
            return (rank + 1, *compression, plain);
        }
    }
    (0, Compression::None, file)
}

fn strip(file: &str) -> Option<(&str, Part)> {
    let (_, _, plain) = uncompressed(file);
    let (base, suffix) = plain.rsplit_once('.')?;
    let part = match suffix {
        "meta" => Part::Meta,
        "index" => Part::Index,
        digits if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Part::Volume(digits.parse::<i32>().ok()?.unsigned_abs())
        }
        _ => return None,
    };
    Some((base, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_lead_to_their_archive() {
        let dir = tempfile::tempdir().unwrap();
        for file in
            ["a.meta.xz", "a.0", "a.0.gz", "a.3.zst", "a.index", "a.b.0", "h.20240101.0", "h.20240101.meta"]
        {
            fs::write(dir.path().join(file), b"").unwrap();
        }
        let find = |name: &str| FileSet::find(&dir.path().join(name));
        for name in ["a", "a.0", "a.meta", "a.meta.xz", "a.3", "a.index", "a.0.gz"] {
            let set = find(name).unwrap();
            assert_eq!(set.base, dir.path().join("a"), "{name}");
            assert_eq!(set.meta.compression, Compression::Xz);
            let volumes: Vec<_> =
                set.volumes.iter().map(|(number, file)| (*number, file.compression)).collect();
            assert_eq!(volumes, [(0, Compression::None), (3, Compression::Zstd)]);
        }
        assert!(find("h.20240101").unwrap().index.is_none());
        assert_eq!(find("a.b").unwrap_err().code(), pcp_model::PmError::LOGFILE);
        assert_eq!(find("nosuch").unwrap_err().code(), pcp_model::PmError(-2));
        let names = archives_in(dir.path()).unwrap();
        assert_eq!(names, [dir.path().join("a"), dir.path().join("h.20240101")]);
    }
}

//! Going on with an archive that is there: what a killed recorder left half-written goes, what the archive says
//! is taken over.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use byteorder::{BigEndian, ByteOrder};

use super::super::{Archive, LogLabel};
use super::error::WriteError;
use super::files::Growing;
use super::held::Last;
use super::label::{LABEL_LEN, LabelInfo, MAGIC, Role};
use super::members::{ENTRY_LEN, Files, member, put_entry};
use super::writer::{ArchiveWriter, WriteOptions};
use pcp_model::{InDom, Instance, Pmid, Timestamp};
use pcp_pdu::{LabelTarget, TextLevel, TextTarget};

const LABEL: u64 = LABEL_LEN as u64;
const LABEL_U32: u32 = LABEL_LEN as u32;
const WORD: u64 = 4;
/// Shortest record there is: both lengths and a type.
const MIN_RECORD: u64 = 12;
/// Offset of the number of metrics in a record.
const NUMPMID: u64 = 16;
const COMPRESSED: [&str; 8] = ["xz", "lzma", "bz2", "bz", "gz", "Z", "z", "zst"];
const FOREVER: Timestamp = Timestamp { sec: i64::MAX, nsec: 0 };

impl ArchiveWriter {
    /// Goes on with the archive of that name, behind a mark; begins it if it is not there or never got a record.
    /// Half-written records at the end of its files are cut off first. The label stays what it is.
    ///
    /// # Errors
    /// [`WriteError::Locked`]; [`WriteError::NotContinued`]: it is damaged, compressed or of version 2.
    pub fn append(
        base: impl AsRef<Path>,
        label: LabelInfo,
        options: WriteOptions,
    ) -> Result<ArchiveWriter, WriteError> {
        let base = base.as_ref();
        let volumes = volumes(base)?;
        let (meta, index) = (member(base, Role::Meta), member(base, Role::Index));
        if !meta.exists() && !index.exists() && volumes.is_empty() {
            return ArchiveWriter::create(base, label, options);
        }
        check_version(&meta, !volumes.is_empty())?;
        let is_new = !index.exists();
        let continued = go_on(base, Growing::open(index.clone())?, label, options);
        if continued.is_err() && is_new {
            // An empty index would spoil the archive.
            let _ = fs::remove_file(index);
        }
        continued
    }

    /// Learns what the archive says already.
    fn take_over(&mut self, archive: &mut Archive) {
        let (pmids, indoms) = (archive.pmids(), archive.indoms());
        let mut labels = vec![LabelTarget::Context];
        let mut texts = Vec::new();
        for &pmid in &pmids {
            if let Ok(desc) = archive.desc(pmid) {
                self.learn_desc(desc, archive.names_of(pmid));
            }
            labels.push(LabelTarget::Domain(pmid.domain().into()));
            labels.push(LabelTarget::Cluster(Pmid::new(pmid.domain(), pmid.cluster(), 0)));
            labels.push(LabelTarget::Item(pmid));
            texts.push(TextTarget::Metric(pmid));
        }
        for &indom in &indoms {
            self.learn_indom(indom, instances(archive, indom));
            labels.extend([LabelTarget::InDom(indom), LabelTarget::Instances(indom)]);
            texts.push(TextTarget::InDom(indom));
        }
        for target in labels {
            self.learn_labels(target, archive.labels(target, FOREVER));
        }
        for target in texts {
            for level in [TextLevel::OneLine, TextLevel::Help] {
                if let Ok(text) = archive.text(target, level) {
                    self.learn_text(target, level, text);
                }
            }
        }
    }
}

/// Goes on with an archive of version 3.
fn go_on(
    base: &Path,
    index: Growing,
    label: LabelInfo,
    options: WriteOptions,
) -> Result<ArchiveWriter, WriteError> {
    // Before anything is looked at: who holds the lock may be writing.
    let lock = index.lock()?;
    let mut volumes = volumes(base)?;
    let entries = entries(&index)?;
    let mut end = None;
    while let Some(&number) = volumes.last() {
        let volume = Growing::open(member(base, Role::Volume(number)))?;
        let known = entries.iter().filter(|entry| entry.volume == number).map(|entry| entry.data);
        end = cut(volume, known)?;
        if end.is_some() {
            break;
        }
        // Without a record, it is what a writer left that was killed when it made it.
        if volumes.len() == 1 && entries.len() > 1 {
            return Err(not_continued(base, "the records that its index knows are missing"));
        }
        let path = member(base, Role::Volume(number));
        fs::remove_file(&path).map_err(WriteError::io(&path))?;
        volumes.pop();
    }
    let Some((volume, last)) = end else {
        return begin_again(base, entries.len(), label, options);
    };
    let number = volumes.last().copied().unwrap_or_default();
    let meta = Growing::open(member(base, Role::Meta))?;
    // Of a writer that was killed; the lock says that there is no other one.
    pcp_files::sweep(&meta.path);
    let path = meta.path.clone();
    let known = entries.iter().map(|entry| entry.meta);
    let (meta, _) = cut(meta, known)?.ok_or_else(|| not_continued(&path, "no metadata"))?;
    let first = volumes.first().copied().unwrap_or_default();
    let index = whole_entries(index, &entries, &meta, &volume, (first, number))?;
    let mut archive = open(base)?;
    let known = archive.label().clone();
    let time = archive.end().map_err(|error| not_continued(base, error))?;
    let is_mark = volume.word(last + NUMPMID)? == 0;
    let mut writer = ArchiveWriter::empty(base, info(&known), options);
    writer.take_over(&mut archive);
    let indexed = None;
    writer.go_on(
        Files { start: known.start, meta, volume, number, index, indexed, before: 0, _lock: lock },
        Last { time: Some(time), is_mark },
    );
    // Nobody knows what happened between the recorders.
    writer.mark()?;
    Ok(writer)
}

/// What is not of version 3 is not touched. Without volumes the metadata may end anywhere.
fn check_version(meta: &Path, whole: bool) -> Result<(), WriteError> {
    let mut head = [0; 8];
    let read = File::open(meta).and_then(|file| file.read_exact_at(&mut head, 0));
    match (BigEndian::read_u32(&head), BigEndian::read_u32(&head[4..])) {
        (LABEL_U32, MAGIC) => Ok(()),
        _ if read.is_err() && !whole => Ok(()),
        _ if read.is_err() => Err(not_continued(meta, "it is missing, or empty")),
        _ => Err(not_continued(meta, "not of an archive of version 3")),
    }
}

fn open(base: &Path) -> Result<Archive, WriteError> {
    let name = base.to_str().ok_or_else(|| not_continued(base, "its name is not UTF-8"))?;
    Archive::open(name).map_err(|error| not_continued(base, error))
}

fn instances(archive: &mut Archive, indom: InDom) -> Vec<Instance> {
    let Ok(instances) = archive.instances(indom, FOREVER) else { return Vec::new() };
    let instance =
        |(id, name): (i32, &[u8])| Instance { id, name: String::from_utf8_lossy(name).into_owned() };
    instances.map(instance).collect()
}

fn info(label: &LogLabel) -> LabelInfo {
    LabelInfo {
        host: label.host.clone(),
        zone: label.zone.clone(),
        zone_info: label.zone_info.clone(),
        pid: label.pid,
    }
}

/// Begins an archive again that has no record: its recorder was killed before the first. What its index knows
/// of would say otherwise.
fn begin_again(
    base: &Path,
    entries: usize,
    label: LabelInfo,
    options: WriteOptions,
) -> Result<ArchiveWriter, WriteError> {
    if entries > 1 {
        return Err(not_continued(base, "its data volumes are missing"));
    }
    for path in [member(base, Role::Meta), member(base, Role::Index)] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(WriteError::io(&path)(error));
            }
            _ => {}
        }
    }
    ArchiveWriter::create(base, label, options)
}

/// The numbers of the data volumes there are, in order.
fn volumes(base: &Path) -> Result<Vec<u32>, WriteError> {
    let dir = match base.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = base.file_name().unwrap_or_default().to_string_lossy().into_owned() + ".";
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(WriteError::io(dir))? {
        let entry = entry.map_err(WriteError::io(dir))?.file_name();
        let Some(rest) = entry.to_str().and_then(|entry| entry.strip_prefix(name.as_str())) else { continue };
        let (role, suffix) = rest.split_once('.').unwrap_or((rest, ""));
        let number = role.parse::<u32>().ok();
        if COMPRESSED.contains(&suffix) && (number.is_some() || role == "meta" || role == "index") {
            return Err(not_continued(&dir.join(&entry), "compressed archives cannot be continued"));
        }
        numbers.extend(number.filter(|_| suffix.is_empty()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Cuts off what is behind the last whole record, and gives that record's place; `None` if there is none.
/// `known`: places that the index points to. Records in front of one were whole once.
fn cut(mut file: Growing, known: impl Iterator<Item = u64>) -> Result<Option<(Growing, u64)>, WriteError> {
    let known = known.filter(|&place| place <= file.len).max().unwrap_or_default();
    let (mut at, mut last) = (LABEL, None);
    while at < file.len {
        let left = file.len - at;
        if left < WORD {
            break;
        }
        let len = u64::from(file.word(at)?);
        // Behind what the index points to, a write was under way when the writer died; in front of it the record was
        // whole once, and has been damaged since.
        let torn = len > left && at >= known;
        // Zeros are what a machine leaves that lost its power.
        if torn || (len == 0 && file.is_zero(at)?) {
            break;
        }
        if len < MIN_RECORD || len > left || u64::from(file.word(at + len - WORD)?) != len {
            return Err(not_continued(&file.path, format!("the record at byte {at} is corrupted")));
        }
        last = Some(at);
        at += len;
    }
    match last {
        Some(last) => {
            file.truncate(at)?;
            Ok(Some((file, last)))
        }
        None => Ok(None),
    }
}

/// An entry of the index.
struct Entry {
    volume: u32,
    meta: u64,
    data: u64,
}

/// The whole entries of the index.
fn entries(index: &Growing) -> Result<Vec<Entry>, WriteError> {
    let count = index.len.saturating_sub(LABEL) / ENTRY_LEN as u64;
    let bytes = index.bytes(LABEL.min(index.len), count as usize * ENTRY_LEN)?;
    let entry = |entry: &[u8]| Entry {
        volume: BigEndian::read_u32(&entry[12..]),
        meta: BigEndian::read_u64(&entry[16..]),
        data: BigEndian::read_u64(&entry[24..]),
    };
    Ok(bytes.chunks_exact(ENTRY_LEN).map(entry).collect())
}

/// The index, without half an entry at its end and entries for what is not there. One that is missing is made.
fn whole_entries(
    mut index: Growing,
    entries: &[Entry],
    meta: &Growing,
    volume: &Growing,
    (first, number): (u32, u32),
) -> Result<Growing, WriteError> {
    let is_there =
        |entry: &Entry| entry.volume < number || (entry.volume == number && entry.data <= volume.len);
    let whole = entries.iter().rposition(is_there).map_or(0, |last| last + 1);
    if whole > 0 {
        index.truncate(LABEL + (whole * ENTRY_LEN) as u64)?;
        return Ok(index);
    }
    let mut label = meta.bytes(0, LABEL_LEN)?;
    BigEndian::write_i32(&mut label[24..], -2);
    let start = Timestamp::new(
        (u64::from(BigEndian::read_u32(&label[16..])) << 32 | u64::from(BigEndian::read_u32(&label[12..])))
            as i64,
        BigEndian::read_u32(&label[20..]),
    );
    put_entry(&mut label, start, first, LABEL, LABEL);
    index.truncate(0)?;
    index.append(&label)?;
    Ok(index)
}

fn not_continued(path: &Path, reason: impl ToString) -> WriteError {
    WriteError::NotContinued { path: path.to_owned(), reason: reason.to_string() }
}

impl Growing {
    fn truncate(&mut self, len: u64) -> Result<(), WriteError> {
        if self.len != len {
            self.file.set_len(len).map_err(WriteError::io(&self.path))?;
            self.len = len;
        }
        Ok(())
    }

    fn bytes(&self, at: u64, len: usize) -> Result<Vec<u8>, WriteError> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, at).map_err(WriteError::io(&self.path))?;
        Ok(bytes)
    }

    fn word(&self, at: u64) -> Result<u32, WriteError> {
        Ok(BigEndian::read_u32(&self.bytes(at, WORD as usize)?))
    }

    /// Whether there are zeros only from there on.
    fn is_zero(&self, mut at: u64) -> Result<bool, WriteError> {
        while at < self.len {
            let len = (self.len - at).min(1 << 16);
            if self.bytes(at, len as usize)?.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            at += len;
        }
        Ok(true)
    }
}

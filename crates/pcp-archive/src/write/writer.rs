//! The writer of an archive.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::error::WriteError;
use super::files::Growing;
use super::held::{Held, Last};
use super::label::{LABEL_LEN, LabelInfo, Role};
use super::members::{Files, member};
use super::record::RecordWriter;
use super::{indom, metadata};
use pcp_model::{Desc, InDom, Inst, Instance, LabelSet, Pmid, Timestamp};
use pcp_pdu::{Fetched, LabelTarget, SetRef, TextLevel, TextTarget};

/// Marks are put that far behind the record before them.
const MARK_AFTER: i128 = 1_000_000;

/// How an archive is laid out.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// A data volume that would grow beyond so many bytes is followed by the next.
    pub volume_size: u64,
    /// Bytes of values after which there is an entry in the temporal index.
    pub index_every: u64,
    /// Records are held back until they are so many bytes, and then written at once; 0: each is written for itself, so that who
    /// reads along sees it, and nothing is lost with the process.
    pub together: usize,
}

impl Default for WriteOptions {
    /// One volume, however large; an entry for every 100,000 bytes; each record for itself.
    fn default() -> WriteOptions {
        WriteOptions { volume_size: u64::MAX, index_every: 100_000, together: 0 }
    }
}

impl WriteOptions {
    /// What is held back where nobody reads along and all could be written again. The system takes a quarter of the time for a
    /// quarter of a megabyte at once that it takes for records of some kilobytes.
    pub const AT_ONCE: usize = 256 << 10;
}

/// Writes an archive. Descriptors, instances, labels and texts are collected until the next record, and go to
/// disk in front of it; what the archive says already is not said again. The files are made with the first
/// record.
///
/// A derived metric is recorded as one that is not: its identifier gets the bit that pmlogger gives it
/// ([`ArchiveWriter::logged`]), everywhere.
///
/// After an error the archive ends with the last whole record that found room, and the writer can be used on. What is held back
/// ([`WriteOptions::together`]) is written when the writer is dropped, at the latest; who wants to know whether that went well calls
/// [`ArchiveWriter::flush`].
#[derive(Debug)]
pub struct ArchiveWriter {
    base: PathBuf,
    label: LabelInfo,
    options: WriteOptions,
    descs: HashMap<Pmid, Described>,
    indoms: indom::Known,
    labels: HashMap<LabelTarget, Vec<LabelSet>>,
    texts: HashMap<(TextTarget, TextLevel), String>,
    /// Metadata that is not on disk yet.
    batch: Vec<u8>,
    held: Held,
    values: RecordWriter,
    files: Option<Files>,
    /// The end of what was taken, held back or written.
    last: Last,
}

#[derive(Debug)]
struct Described {
    desc: Desc,
    names: Vec<String>,
}

impl ArchiveWriter {
    /// An archive to be written to `base` + `.meta`, `.index`, `.0` and so on.
    ///
    /// # Errors
    /// [`WriteError::Exists`]: there is one of these files.
    pub fn create(
        base: impl AsRef<Path>,
        label: LabelInfo,
        options: WriteOptions,
    ) -> Result<ArchiveWriter, WriteError> {
        let base = base.as_ref().to_owned();
        for role in [Role::Meta, Role::Index, Role::Volume(0)] {
            let path = member(&base, role);
            match path.symlink_metadata() {
                Ok(_) => return Err(WriteError::Exists(path)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(WriteError::Io { path, error }),
            }
        }
        Ok(ArchiveWriter::empty(&base, label, options))
    }

    pub(super) fn empty(base: &Path, label: LabelInfo, options: WriteOptions) -> ArchiveWriter {
        ArchiveWriter {
            base: base.to_owned(),
            label,
            options,
            descs: HashMap::new(),
            indoms: indom::Known::default(),
            labels: HashMap::new(),
            texts: HashMap::new(),
            batch: Vec::new(),
            held: Held::default(),
            values: RecordWriter::new(),
            files: None,
            last: Last::default(),
        }
    }

    /// Goes on where those files end.
    pub(super) fn go_on(&mut self, files: Files, last: Last) {
        self.files = Some(files);
        self.held.written = last;
        self.last = last;
    }

    pub(super) fn learn_desc(&mut self, desc: Desc, names: Vec<String>) {
        self.descs.insert(desc.pmid, Described { desc, names });
    }

    pub(super) fn learn_indom(&mut self, indom: InDom, instances: Vec<Instance>) {
        self.indoms.insert(indom, instances);
    }

    pub(super) fn learn_labels(&mut self, target: LabelTarget, sets: Vec<LabelSet>) {
        self.labels.insert(target, sets);
    }

    pub(super) fn learn_text(&mut self, target: TextTarget, level: TextLevel, text: String) {
        self.texts.insert((target, level), text);
    }

    /// The identifier that a metric has in the archive: a derived one gets the highest bit of its cluster.
    pub fn logged(pmid: Pmid) -> Pmid {
        match pmid.is_derived() {
            true => Pmid::new(pmid.domain(), pmid.cluster() | 2048, pmid.item()),
            false => pmid,
        }
    }

    /// What the archive's label says.
    pub fn label(&self) -> &LabelInfo {
        &self.label
    }

    /// The base name.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The time of the last record, if there is one.
    pub fn last_time(&self) -> Option<Timestamp> {
        self.last.time
    }

    /// Bytes in all files, but for volumes that were there when it was continued. Records that are held back count.
    pub fn size(&self) -> u64 {
        let size = |files: &Files| files.before + files.meta.len + files.volume.len + files.index.len;
        self.files.as_ref().map_or(0, size) + self.held.len() as u64
    }

    /// The current data volume's number.
    pub fn volume(&self) -> u32 {
        self.files.as_ref().map_or(0, |files| files.number)
    }

    /// The descriptor that the archive has for a metric.
    pub fn described(&self, pmid: Pmid) -> Option<&Desc> {
        self.descs.get(&ArchiveWriter::logged(pmid)).map(|known| &known.desc)
    }

    /// Describes a metric. More names than before are added to those.
    ///
    /// # Errors
    /// [`WriteError::Changed`]: the archive has another descriptor for it.
    pub fn desc<S: AsRef<str>>(&mut self, desc: &Desc, names: &[S]) -> Result<(), WriteError> {
        let desc = Desc { pmid: ArchiveWriter::logged(desc.pmid), ..*desc };
        let known = self.descs.entry(desc.pmid);
        let new = matches!(known, std::collections::hash_map::Entry::Vacant(_));
        let known = known.or_insert_with(|| Described { desc, names: Vec::new() });
        if let Some(what) = difference(&known.desc, &desc) {
            return Err(WriteError::Changed { pmid: desc.pmid, what });
        }
        let before = known.names.len();
        for name in names.iter().map(AsRef::as_ref) {
            if !known.names.iter().any(|known| known == name) {
                known.names.push(name.to_owned());
            }
        }
        if new || known.names.len() > before {
            metadata::put_desc(&mut self.batch, &desc, known.names.iter().map(String::as_str));
        }
        Ok(())
    }

    /// Whether the archive names that instance.
    pub fn has_instance(&self, indom: InDom, inst: Inst) -> bool {
        self.indoms.has(indom, inst)
    }

    /// All instances of a domain as of that time. Written in full, or as a change where that is shorter.
    pub fn indom(&mut self, time: Timestamp, indom: InDom, instances: &[Instance]) {
        self.indoms.update(&mut self.batch, time, indom, instances);
    }

    /// The labels of something as of that time. Sets without any are left out; a cluster's are kept under its
    /// item 0.
    pub fn labels(&mut self, time: Timestamp, target: LabelTarget, sets: &[LabelSet]) {
        let target = match target {
            LabelTarget::Cluster(pmid) => LabelTarget::Cluster(Pmid::new(pmid.domain(), pmid.cluster(), 0)),
            LabelTarget::Item(pmid) => LabelTarget::Item(ArchiveWriter::logged(pmid)),
            other => other,
        };
        let known = self.labels.entry(target).or_default();
        if known != sets {
            metadata::put_labels(&mut self.batch, time, target, sets);
            *known = sets.to_vec();
        }
    }

    /// A help text.
    pub fn text(&mut self, target: TextTarget, level: TextLevel, text: &str) {
        let target = match target {
            TextTarget::Metric(pmid) => TextTarget::Metric(ArchiveWriter::logged(pmid)),
            other => other,
        };
        let known = self.texts.entry((target, level)).or_default();
        if known != text {
            metadata::put_text(&mut self.batch, target, level, text);
            *known = text.to_owned();
        }
    }

    /// Writes the values of a fetch, as of its timestamp. Every metric in it must have been described, and so
    /// must be the parameters of event records: readers need not check. A fetch of no metric is nothing.
    ///
    /// # Errors
    /// [`WriteError::TimeGoesBack`], [`WriteError::TooLarge`], or what the system says.
    pub fn result(&mut self, fetched: &Fetched) -> Result<(), WriteError> {
        if fetched.is_empty() {
            return Ok(());
        }
        let time = fetched.timestamp;
        self.check_time(time)?;
        match self.values.put(self.held.begin(), time, fetched, ArchiveWriter::logged) {
            true => self.commit(Last { time: Some(time), is_mark: false }),
            false => Err(WriteError::TooLarge),
        }
    }

    /// Writes a mark right behind the last record: what comes next does not continue it. Nothing at the start
    /// or behind another mark.
    ///
    /// # Errors
    /// What the system says.
    pub fn mark(&mut self) -> Result<(), WriteError> {
        self.mark_before(Timestamp { sec: i64::MAX, nsec: 0 }).map(drop)
    }

    /// Makes the files of an archive that begins at that time, before there is anything in them: metadata that is long need
    /// not be collected then. For archives that nobody reads yet, as readers refuse one without records.
    ///
    /// # Errors
    /// As [`ArchiveWriter::result`].
    pub(crate) fn begin(&mut self, start: Timestamp) -> Result<(), WriteError> {
        if self.files.is_none() {
            self.held.begin();
            self.files =
                Some(Files::create(&self.base, &self.label, start, &self.batch, self.held.labelled())?);
            self.batch.clear();
        }
        Ok(())
    }

    /// Writes the metadata that was collected, if there are files.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn flush_batch(&mut self) -> Result<(), WriteError> {
        let Some(files) = &mut self.files else { return Ok(()) };
        files.meta.append(&self.batch)?;
        self.batch.clear();
        Ok(())
    }

    /// Writes value sets of another archive as they are; none of them is a mark.
    ///
    /// # Errors
    /// As [`ArchiveWriter::result`].
    pub(crate) fn copy<'a>(
        &mut self,
        time: Timestamp,
        sets: impl Iterator<Item = SetRef<'a>>,
    ) -> Result<(), WriteError> {
        self.check_time(time)?;
        let mut sets = sets.peekable();
        let is_mark = sets.peek().is_none();
        match self.values.put_all(self.held.begin(), time, sets) {
            true => self.commit(Last { time: Some(time), is_mark }),
            false => Err(WriteError::TooLarge),
        }
    }

    /// Writes a mark between the last record and one of that time. Whether there had to be one.
    ///
    /// # Errors
    /// As [`ArchiveWriter::mark`].
    pub(crate) fn mark_before(&mut self, next: Timestamp) -> Result<bool, WriteError> {
        match self.last.time {
            Some(last) if !self.last.is_mark => {
                let time = Timestamp::from_nanos(last.as_nanos() + MARK_AFTER).min(next);
                self.values.put_mark(self.held.begin(), time);
                self.commit(Last { time: Some(time), is_mark: true })?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Adds a record of an instance domain: all instances, or changes, in which those that went have no name.
    pub(crate) fn domain(
        &mut self,
        (time, indom): (Timestamp, InDom),
        is_change: bool,
        instances: &[(Inst, Option<&[u8]>)],
    ) {
        let instances = instances.iter().copied();
        match is_change {
            true => metadata::put_delta(&mut self.batch, time, indom, instances),
            false => metadata::put_all(&mut self.batch, time, indom, instances),
        }
    }

    /// Where metadata records go until the next record of values.
    pub(crate) fn batch(&mut self) -> &mut Vec<u8> {
        &mut self.batch
    }

    /// Writes what is left, an index entry for the end, and waits until all is on disk.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.settle()?;
        let (Some(files), Some(time)) = (&mut self.files, self.last.time) else { return Ok(()) };
        write_batch(&mut files.meta, &mut self.batch)?;
        if files.indexed != Some(files.volume.len) {
            files.add_entry(time, files.meta.len, files.volume.len)?;
        }
        [&files.meta, &files.volume, &files.index].into_iter().try_for_each(Growing::sync)
    }

    /// Writes what is held back. After an error the last record is the last that found room.
    fn settle(&mut self) -> Result<(), WriteError> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let settled = self.held.settle(files);
        self.last = self.held.written;
        settled
    }

    fn check_time(&self, time: Timestamp) -> Result<(), WriteError> {
        match self.last.time {
            Some(last) if time < last => Err(WriteError::TimeGoesBack { time, last }),
            _ => Ok(()),
        }
    }

    /// Writes the metadata collected, then the record, then the index entry if there has to be one; or holds the latter two back.
    fn commit(&mut self, last: Last) -> Result<(), WriteError> {
        let Some(time) = last.time else { return Ok(()) };
        let Some(files) = &mut self.files else {
            let first = self.held.labelled();
            self.files = Some(Files::create(&self.base, &self.label, time, &self.batch, first)?);
            self.batch.clear();
            self.took_label(last);
            return Ok(());
        };
        let meta = files.meta.len;
        write_batch(&mut files.meta, &mut self.batch)?;
        let at = files.volume.len + self.held.len() as u64;
        let len = at.saturating_add(self.held.begun().len() as u64);
        if len > self.options.volume_size && at > LABEL_LEN as u64 {
            return self.begin_volume(last, time, meta);
        }
        let is_indexed = files.indexed.is_none_or(|indexed| at - indexed >= self.options.index_every);
        if is_indexed {
            files.indexed = Some(at);
        }
        self.held.keep(last, is_indexed.then_some(meta));
        self.last = last;
        match self.held.len() >= self.options.together {
            true => self.settle(),
            false => Ok(()),
        }
    }

    /// Writes what is held back to the volume, and the record to the next one.
    fn begin_volume(&mut self, last: Last, time: Timestamp, meta: u64) -> Result<(), WriteError> {
        self.settle()?;
        let Some(files) = &mut self.files else { return Ok(()) };
        files.next_volume(&self.base, &self.label, self.held.labelled())?;
        let indexed = files.add_entry(time, meta, LABEL_LEN as u64);
        self.took_label(last);
        indexed
    }

    /// The record begun went into a file together with the file's label.
    fn took_label(&mut self, last: Last) {
        self.held.begin();
        self.held.written = last;
        self.last = last;
    }
}

impl Drop for ArchiveWriter {
    fn drop(&mut self) {
        // Who wants to know of errors flushes.
        let _ = self.settle();
    }
}

fn write_batch(meta: &mut Growing, batch: &mut Vec<u8>) -> Result<(), WriteError> {
    if !batch.is_empty() {
        meta.append_whole(batch)?;
        batch.clear();
    }
    Ok(())
}

/// The part in which two descriptors of one metric differ, in the order PCP compares them.
fn difference(a: &Desc, b: &Desc) -> Option<&'static str> {
    if a.value_type != b.value_type {
        Some("type")
    } else if a.semantics != b.semantics {
        Some("semantics")
    } else if a.indom != b.indom {
        Some("instance domain")
    } else if a.units != b.units {
        Some("units")
    } else {
        None
    }
}

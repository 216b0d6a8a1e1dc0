//! One archive: its files, opened and checked; where in its volumes which time is (`docs/pcp/archive.md` 8
//! and 11).

use std::path::{Path, PathBuf};

use super::error::{ArchiveError, Problem};
use super::files::{FileSet, Member};
use super::index::{self, IndexEntry, TemporalIndex};
use super::label::{LogLabel, Role};
use super::member::{Frame, MemberReader};
use super::mended::{self, Mended};
use super::metadata::Metadata;
use super::volumes::{Spot, Volumes, open_member};
use pcp_model::Timestamp;
use tracing::trace;

/// An archive of a context.
pub(super) struct Part {
    /// The name it was asked for by.
    pub name: PathBuf,
    /// If it has one.
    index: Option<TemporalIndex>,
    /// Its records.
    pub volumes: Volumes,
    files: FileSet,
    meta_at: u64,
    end: Option<CachedEnd>,
    /// What was done without, that nobody has asked for yet.
    mended: Vec<Mended>,
    /// Number of volumes, and bytes of the last one's file, when it was opened or refreshed.
    size: (usize, u64),
}

/// Where the last good record ends, and its time.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub time: Timestamp,
    pub spot: Spot,
}

struct CachedEnd {
    /// Number of volumes and length of the last one when it was found.
    seen: (usize, u64),
    end: End,
}

impl Part {
    /// Opens an archive and adds its metadata to what there is, if there is something.
    ///
    /// # Errors
    /// In the order of `docs/pcp/archive.md` 8. `host`: that of the archives before it.
    pub(crate) fn open(
        name: &Path,
        host: Option<&str>,
        metadata: Option<&mut Metadata>,
    ) -> Result<Part, ArchiveError> {
        let files = FileSet::find(name)?;
        let volumes: Vec<(u32, Member)> =
            files.volumes.iter().map(|(number, member)| (*number, member.clone())).collect();
        let Some((number, member)) = volumes.first() else {
            return Err(ArchiveError::new(name, None, Problem::MissingFile("every data volume")));
        };
        let first = open_member(member, Role::Volume(*number))?;
        let mut part = Part {
            name: name.to_owned(),
            index: None,
            volumes: Volumes::new(volumes, first),
            meta_at: 0,
            end: None,
            mended: Vec::new(),
            size: (0, 0),
            files,
        };
        part.size = part.volumes.size();
        if let Some((first, missing)) = mended::gaps(part.volumes.numbers()) {
            part.mended.push(Mended::Volumes { archive: part.name.clone(), first, missing });
        }
        let index = match part.files.index.clone() {
            Some(member) => Some(part.volumes.member(&member, Role::Index)?),
            None => None,
        };
        let meta_label = match metadata {
            Some(metadata) => Some(part.describe(host, metadata)?),
            None => None,
        };
        if let Some(mut index) = index {
            part.index = Some(TemporalIndex::new(index.file_id(), part.label().len()));
            part.look_at_index(&mut index)?;
        }
        if meta_label.is_some_and(|label| !label.same_logger(part.label())) {
            return Err(ArchiveError::new(&part.files.meta.path, None, Problem::Label("of another archive")));
        }
        trace!(target: "pcp::log", "{}", part.told());
        let LogLabel { version, pid, start, host, zone, .. } = part.label();
        trace!(
            target: "pcp::context",
            "archive {}: version {version}, host {host:?}, zone {zone:?}, from {start}, logger {pid}",
            part.name.display(),
        );
        Ok(part)
    }

    /// What was found, in words.
    fn told(&self) -> String {
        let index = match &self.index {
            None => "no temporal index".to_owned(),
            Some(index) => {
                let (entries, used) = (index.len(), index.len() - index.unused());
                format!("{entries} entries in the temporal index, {used} used")
            }
        };
        format!("archive {}: {} volumes, {index}", self.name.display(), self.volumes.count())
    }

    /// Reads the metadata. Gives its label.
    fn describe(&mut self, host: Option<&str>, metadata: &mut Metadata) -> Result<LogLabel, ArchiveError> {
        let meta = &self.files.meta;
        let (mut source, label) = open_member(meta, Role::Meta)?;
        if label.version != self.label().version {
            return Err(ArchiveError::new(&meta.path, None, Problem::Label("of another version")));
        }
        if host.is_some_and(|host| host != self.label().host) {
            return Err(ArchiveError::new(&self.name, None, Problem::Host));
        }
        self.meta_at = label.len();
        metadata.load(&mut source, &mut self.meta_at)?;
        if metadata.is_empty() {
            return Err(source.bad(self.meta_at, "no metric is described"));
        }
        Ok(label)
    }

    /// Takes in what has been written since: metadata, index entries, volumes. Whether there is anything.
    ///
    /// # Errors
    /// Metadata that contradicts itself, or the system's.
    pub(crate) fn refresh(&mut self, metadata: &mut Metadata) -> Result<bool, ArchiveError> {
        let files = FileSet::find(&self.files.base)?;
        self.volumes.add(&files.volumes);
        let size = self.volumes.size();
        let grown = std::mem::replace(&mut self.size, size) != size;
        trace!(
            target: "pcp::log",
            "{}: {} volumes, the last with {} bytes: {}",
            self.name.display(),
            size.0,
            size.1,
            if grown { "there is more than before" } else { "as before" },
        );
        if grown {
            let mut meta = MemberReader::open(&self.files.meta)?;
            match metadata.load(&mut meta, &mut self.meta_at) {
                // The logger is in the middle of a record.
                Err(ArchiveError { problem: Problem::Record(_), .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
            if let Some(mut index) = self.index.as_ref().and_then(|index| reopened(&self.files, index)) {
                self.look_at_index(&mut index)?;
            }
        }
        Ok(grown)
    }

    /// What was done without since this was asked last.
    pub(crate) fn take_mended(&mut self) -> Vec<Mended> {
        std::mem::take(&mut self.mended)
    }

    /// The label of its first volume.
    pub(crate) fn label(&self) -> &LogLabel {
        self.volumes.label()
    }

    /// The entries of the index, also those that cannot be searched.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn index(&self) -> Result<Vec<IndexEntry>, ArchiveError> {
        let Some(member) = &self.files.index else { return Ok(Vec::new()) };
        index::entries(&mut MemberReader::open(member)?, self.label().len(), self.volumes.stamp())
    }

    /// Entries of the index that can be searched.
    fn known(&mut self) -> &[(Timestamp, Spot)] {
        let Part { index: Some(index), volumes, files, .. } = self else { return &[] };
        index.known(volumes, |index| reopened(files, index))
    }

    /// Where in a volume the index knows records, in order.
    pub(crate) fn known_in(&mut self, volume: usize) -> impl Iterator<Item = u64> {
        let spots = self.known().iter().map(|(_, spot)| spot);
        spots.filter(move |spot| spot.volume == volume).map(|spot| spot.offset)
    }

    /// A spot with no record at or behind `time` in front of it, as near to `time` as the index tells.
    pub(crate) fn before(&mut self, time: Timestamp) -> Result<Spot, ArchiveError> {
        // Most begin at the start, for which no index has to be read.
        if time <= self.label().start {
            return Ok(self.volumes.first());
        }
        let mut at = self.known().partition_point(|(stamp, _)| *stamp < time);
        while let Some(before) = at.checked_sub(1)
            && let Some(&(_, spot)) = self.known().get(before)
        {
            if self.reachable(spot)? {
                return Ok(spot);
            }
            self.tell_unreachable(spot);
            at = before;
        }
        Ok(self.volumes.first())
    }

    /// A spot with no record at or in front of `time` behind it, as near to `time` as the index tells.
    pub(crate) fn behind(&mut self, time: Timestamp) -> Result<Spot, ArchiveError> {
        let known = self.known();
        let at = known.partition_point(|(stamp, _)| *stamp <= time);
        if let Some(&(_, spot)) = known.get(at) {
            if self.reachable(spot)? {
                return Ok(spot);
            }
            self.tell_unreachable(spot);
        }
        self.end().map(|end| end.spot)
    }

    /// Where the last good record ends.
    ///
    /// # Errors
    /// [`Problem::Record`] where there is none.
    pub(crate) fn end(&mut self) -> Result<End, ArchiveError> {
        let seen = self.seen()?;
        if let Some(cached) = self.end.as_ref().filter(|cached| cached.seen == seen) {
            return Ok(cached.end);
        }
        for volume in (0..self.volumes.count()).rev() {
            if let Some(end) = self.end_of(volume) {
                self.remember_rest(end);
                self.end = Some(CachedEnd { seen, end });
                return Ok(end);
            }
        }
        Err(ArchiveError::new(&self.name, None, Problem::Record("no record that can be read")))
    }

    /// Keeps what is behind the end, to be told.
    fn remember_rest(&mut self, End { spot, .. }: End) {
        let len = self.volumes.volume(spot.volume).and_then(|file| file.len()).unwrap_or(spot.offset);
        let first = self.label().len();
        // A volume that has been begun, without a record yet, is nothing that is left out.
        let behind = (spot.volume + 1..self.volumes.count()).filter(|&volume| {
            self.volumes.volume(volume).and_then(|file| file.len()).is_ok_and(|len| len > first)
        });
        let (bytes, volumes) = (len.saturating_sub(spot.offset), behind.count());
        if bytes > 0 || volumes > 0 {
            let volume = self.volumes.numbers().nth(spot.volume).unwrap_or_default();
            let archive = self.name.clone();
            let rest = Mended::End { archive, volume, at: spot.offset, bytes, volumes };
            mended::remember(&mut self.mended, rest);
        }
    }

    /// The end of a volume's last good record. Whatever is wrong there means that it has none.
    fn end_of(&mut self, volume: usize) -> Option<End> {
        let first = self.label().len();
        let len = self.volumes.volume(volume).ok()?.len().ok()?;
        if len <= first {
            return None;
        }
        // Nearly always the file ends with a whole record, and its trailer tells where that begins.
        let frame = self.volumes.volume(volume).ok()?.frame_before(len, first).ok();
        if let Some(time) = frame.and_then(|frame| self.good(volume, frame)) {
            return Some(End { time, spot: Spot { volume, offset: len } });
        }
        trace!(
            target: "pcp::log",
            "{}: the last bytes of volume {volume} are no record: looking for the last that is one",
            self.name.display(),
        );
        // The last bytes are not a record: read on from where the index knows one.
        let mut spots = self.known().iter().rev().map(|(_, spot)| spot);
        let known = spots.find(|spot| spot.volume == volume && spot.offset <= len);
        let back = match known.map(|spot| spot.offset) {
            // It may point behind the record of its time.
            Some(offset) if offset > first => {
                self.volumes.volume(volume).ok()?.frame_before(offset, first).ok().map(|frame| frame.at)
            }
            offset => offset,
        };
        let mut at = back.unwrap_or(first);
        let mut end = None;
        while let Some(frame) = self.volumes.volume(volume).ok()?.frame(at).ok().flatten() {
            // Behind a record that is damaged, nothing can be trusted to be one.
            let Some(time) = self.good(volume, frame) else { break };
            at = frame.end();
            end = Some(End { time, spot: Spot { volume, offset: at } });
        }
        trace!(
            target: "pcp::log",
            "{}: volume {volume} counts up to byte {at} of {len}",
            self.name.display(),
        );
        end
    }

    /// The time of a record in which everything is right.
    fn good(&mut self, volume: usize, frame: Frame) -> Option<Timestamp> {
        self.volumes.record(volume, frame).ok().map(|record| record.timestamp)
    }

    fn tell_unreachable(&self, Spot { volume, offset }: Spot) {
        trace!(
            target: "pcp::log",
            "{}: the index points to byte {offset} of volume {volume}, where there is no record: passed over",
            self.name.display(),
        );
    }

    /// Whether a spot of the index is in its volume.
    fn reachable(&mut self, spot: Spot) -> Result<bool, ArchiveError> {
        let first = self.label().len();
        Ok(spot.offset >= first && spot.offset <= self.volumes.volume(spot.volume)?.len()?)
    }

    fn seen(&mut self) -> Result<(usize, u64), ArchiveError> {
        let volumes = self.volumes.count();
        match self.volumes.volume(volumes - 1) {
            Ok(source) => Ok((volumes, source.len()?)),
            // One that cannot be opened is as long as none.
            Err(ArchiveError { problem: Problem::Io(error), path, .. }) => {
                Err(ArchiveError { problem: Problem::Io(error), path, offset: None })
            }
            Err(_) => Ok((volumes, 0)),
        }
    }

    /// Looks through what has come to the index since the last time.
    fn look_at_index(&mut self, source: &mut MemberReader) -> Result<(), ArchiveError> {
        let Part { index: Some(index), volumes, name, .. } = self else { return Ok(()) };
        let unused = index.look(source, volumes, |IndexEntry { stamp, volume, data, .. }| {
            let name = name.display();
            match volumes.numbered(*volume) {
                None => trace!(
                    target: "pcp::log",
                    "{name}: index entry of {stamp}: there is no volume {volume}, not used",
                ),
                Some(_) => trace!(
                    target: "pcp::log",
                    "{name}: index entry of {stamp} (byte {data} of volume {volume}): out of order, not used",
                ),
            }
        })?;
        if unused > 0 {
            let (archive, entries) = (self.name.clone(), index.len());
            mended::remember(&mut self.mended, Mended::Index { archive, unused, entries });
        }
        Ok(())
    }
}

/// The file of an index once more. One that has gone, or been written anew beside the volumes that are open, is done without.
fn reopened(files: &FileSet, index: &TemporalIndex) -> Option<MemberReader> {
    let member = files.index.as_ref()?;
    let reader = MemberReader::open(member).ok().filter(|reader| reader.file_id() == index.file());
    if reader.is_none() {
        let path = member.path.display();
        trace!(target: "pcp::log", "{path}: gone, or another file than before: not read again");
    }
    reader
}

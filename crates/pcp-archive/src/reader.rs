//! An archive, or several of one host in a row, as one series of records with one set of metadata
//! (`docs/pcp/archive.md` 9, 10 and 12).

use std::path::{Path, PathBuf};

use super::error::{ArchiveError, Problem};
use super::files::archives_in;
use super::index::IndexEntry;
use super::indoms::{Life, OnDisk};
use super::label::LogLabel;
use super::labels;
use super::member::Frame;
use super::mended::Mended;
use super::metadata::Metadata;
use super::part::Part;
use super::record::Record;
use super::volumes::Spot;
use pcp_model::{Desc, InDom, Inst, Instance, LabelSet, PmError, Pmid, Timestamp};
use pcp_pdu::{LabelTarget, LayoutId, Scan, TextLevel, TextTarget};
use tracing::trace;

/// An open archive, or list of archives.
pub struct Archive {
    /// By start; at least one.
    pub(super) parts: Vec<Part>,
    metadata: Metadata,
}

/// A place between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub(super) part: usize,
    pub(super) spot: Spot,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    part: usize,
    volume: usize,
    frame: Frame,
}

/// What is next to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A record, and the place on its other side.
    Record(RecordPlace, Place),
    /// The gap between two archives, which counts as a mark at this time; and the place on its other side.
    Gap(Timestamp, Place),
}

/// The direction of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To later times.
    Forward,
    /// To earlier times.
    Backward,
}

/// How far from an archive the mark between it and another one is.
pub(super) const GAP_NANOS: i128 = 1_000_000;

impl Archive {
    /// Opens an archive by its name or the name of one of its files, the archives in a directory, or
    /// several of these with commas between.
    ///
    /// # Errors
    /// See [`Problem`]; [`ArchiveError::code`] is what `pmNewContext(3)` returns.
    pub fn open(names: &str) -> Result<Archive, ArchiveError> {
        let mut metadata = Metadata::default();
        let parts = Archive::opened(&Archive::listed(names)?, names, Some(&mut metadata))?;
        Ok(Archive { parts, metadata })
    }

    /// Opens archives, without their metadata.
    pub(super) fn without_metadata(names: &str) -> Result<Archive, ArchiveError> {
        let parts = Archive::opened(&Archive::listed(names)?, names, None)?;
        Ok(Archive { parts, metadata: Metadata::default() })
    }

    /// The same of one archive, whatever is in its name.
    pub(super) fn one_without_metadata(name: &Path) -> Result<Archive, ArchiveError> {
        Ok(Archive { parts: vec![Part::open(name, None, None)?], metadata: Metadata::default() })
    }

    /// The archives that names stand for.
    fn listed(names: &str) -> Result<Vec<PathBuf>, ArchiveError> {
        let mut paths = Vec::new();
        let list = names.strip_suffix(',').unwrap_or(names);
        for name in list.split(',') {
            let path = Path::new(name);
            if path.is_dir() {
                paths.extend(archives_in(path)?);
            } else if name.is_empty() && list.is_empty() {
                break;
            } else {
                paths.push(PathBuf::from(name));
            }
        }
        Ok(paths)
    }

    fn opened(
        paths: &[PathBuf],
        names: &str,
        mut metadata: Option<&mut Metadata>,
    ) -> Result<Vec<Part>, ArchiveError> {
        let mut parts: Vec<Part> = Vec::new();
        for path in paths {
            let host = parts.first().map(|part| part.label().host.clone());
            let part = Part::open(path, host.as_deref(), metadata.as_deref_mut())?;
            match parts.iter().find(|other| other.label().start == part.label().start) {
                Some(same) if same.name == part.name => continue,
                Some(_) => return Err(ArchiveError::new(path, None, Problem::Overlap)),
                None => parts.push(part),
            }
        }
        if parts.is_empty() {
            return Err(ArchiveError::new(Path::new(names), None, Problem::MissingFile("every file")));
        }
        parts.sort_by_key(|part| part.label().start);
        Ok(parts)
    }

    /// What of damaged archives was done without since this was asked last: of the index and of volumes from the opening on, of
    /// ends once they have been looked for.
    pub fn take_mended(&mut self) -> Vec<Mended> {
        self.parts.iter_mut().flat_map(Part::take_mended).collect()
    }

    /// The label; of several archives, the first one's.
    pub fn label(&self) -> &LogLabel {
        self.parts[0].label()
    }

    /// The labels of all archives, by start.
    pub fn labels_of_all(&self) -> impl Iterator<Item = &LogLabel> {
        self.parts.iter().map(Part::label)
    }

    /// The temporal index of all archives, in their order, as it is in their files now; of each a million entries at most.
    ///
    /// # Errors
    /// The system's.
    pub fn index(&self) -> Result<Vec<IndexEntry>, ArchiveError> {
        let indexes: Result<Vec<_>, _> = self.parts.iter().map(Part::index).collect();
        indexes.map(|indexes| indexes.concat())
    }

    /// The time of the last record that can be read.
    ///
    /// # Errors
    /// [`Problem::Record`] where there is none.
    pub fn end(&mut self) -> Result<Timestamp, ArchiveError> {
        self.last_part().end().map(|end| end.time)
    }

    /// Takes in what has been written since: an archive may be read while its logger writes. Whether there
    /// is anything new.
    ///
    /// # Errors
    /// The system's, or metadata that contradicts itself.
    pub fn refresh(&mut self) -> Result<bool, ArchiveError> {
        let Archive { parts, metadata } = self;
        parts.last_mut().map_or(Ok(false), |part| part.refresh(metadata))
    }

    /// In front of the first record.
    pub fn first(&self) -> Place {
        Place { part: 0, spot: self.parts[0].volumes.first() }
    }

    /// Behind the last record that can be read.
    ///
    /// # Errors
    /// As [`Archive::end`].
    pub fn last(&mut self) -> Result<Place, ArchiveError> {
        let part = self.parts.len() - 1;
        Ok(Place { part, spot: self.last_part().end()?.spot })
    }

    /// What is behind a place; `None` at the end.
    ///
    /// # Errors
    /// [`Problem::Record`]: no way past this record. [`Problem::Overlap`]: the next archive starts before
    /// this one ends.
    pub fn next(&mut self, at: Place) -> Result<Option<Step>, ArchiveError> {
        if let Some((volume, frame)) = self.parts[at.part].volumes.next(at.spot)? {
            let place = RecordPlace { part: at.part, volume, frame };
            return Ok(Some(Step::Record(place, place.end())));
        }
        let part = at.part + 1;
        let Some(next) = self.parts.get(part) else { return Ok(None) };
        let (start, spot) = (next.label().start, next.volumes.first());
        let end = self.parts[at.part].end()?.time;
        if start < end {
            return Err(ArchiveError::new(&self.parts[part].name, None, Problem::Overlap));
        }
        let time = Timestamp::from_nanos(end.as_nanos() + GAP_NANOS);
        trace!(target: "pcp::log", "on to the next archive, {}", self.parts[part].name.display());
        Ok(Some(Step::Gap(time, Place { part, spot })))
    }

    /// What is in front of a place; `None` at the start.
    ///
    /// # Errors
    /// As [`Archive::next`].
    pub fn previous(&mut self, at: Place) -> Result<Option<Step>, ArchiveError> {
        if let Some((volume, frame)) = self.parts[at.part].volumes.previous(at.spot)? {
            let place = RecordPlace { part: at.part, volume, frame };
            return Ok(Some(Step::Record(place, place.start())));
        }
        let Some(part) = at.part.checked_sub(1) else { return Ok(None) };
        let start = self.parts[at.part].label().start;
        let end = self.parts[part].end()?;
        if start < end.time {
            return Err(ArchiveError::new(&self.parts[at.part].name, None, Problem::Overlap));
        }
        let time = Timestamp::from_nanos(start.as_nanos() - GAP_NANOS);
        trace!(target: "pcp::log", "back to the archive before, {}", self.parts[part].name.display());
        Ok(Some(Step::Gap(time, Place { part, spot: end.spot })))
    }

    /// A record.
    ///
    /// # Errors
    /// [`Problem::Record`]: its contents do not fit together.
    pub fn record(&mut self, place: RecordPlace) -> Result<Record<'_>, ArchiveError> {
        let RecordPlace { part, volume, frame } = place;
        let record = self.parts[part].volumes.record(volume, frame);
        told(place, record.as_ref().map(|record| (record.timestamp, record.metrics())));
        record
    }

    /// A record, to be run through once: see [`super::Records::scan`].
    pub(super) fn scan(
        &mut self,
        place: RecordPlace,
        before: Option<LayoutId>,
        each: impl FnMut(Pmid),
    ) -> Result<(Timestamp, Scan<'_>), ArchiveError> {
        let RecordPlace { part, volume, frame } = place;
        let scan = self.parts[part].volumes.scan(volume, frame, before, each);
        told(place, scan.as_ref().map(|(time, sets)| (*time, sets.len())));
        scan
    }

    /// The place in front of the first record at or behind `time`, or behind the last one at or in front of
    /// it. Cost: a search in the index, and reading the records from one entry to the next.
    ///
    /// # Errors
    /// As [`Archive::next`], [`Archive::end`].
    pub fn seek(&mut self, time: Timestamp, direction: Direction) -> Result<Place, ArchiveError> {
        trace!(target: "pcp::log", "looking for {time}, {direction:?}");
        let part = self.parts.partition_point(|part| part.label().start <= time).saturating_sub(1);
        match direction {
            Direction::Forward => {
                let mut at = Place { part, spot: self.parts[part].before(time)? };
                // The index knows a record now and then; the rest of the way only times are read, not values.
                while let Some(step) = self.next(at)? {
                    let (found, after) = self.time_of(step)?;
                    if found >= time {
                        break;
                    }
                    at = after;
                }
                Ok(at)
            }
            Direction::Backward => {
                let mut at = Place { part, spot: self.parts[part].behind(time)? };
                while let Some(step) = self.previous(at)? {
                    let (found, after) = self.time_of(step)?;
                    if found <= time {
                        break;
                    }
                    at = after;
                }
                Ok(at)
            }
        }
    }

    fn time_of(&mut self, step: Step) -> Result<(Timestamp, Place), ArchiveError> {
        match step {
            Step::Record(place, after) => {
                Ok((self.parts[place.part].volumes.time(place.volume, place.frame)?, after))
            }
            Step::Gap(time, after) => Ok((time, after)),
        }
    }

    fn last_part(&mut self) -> &mut Part {
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }
}

/// Says for who looks for a fault which record is read: its time, and how many metrics it has.
fn told(RecordPlace { volume, frame, .. }: RecordPlace, record: Result<(Timestamp, usize), &ArchiveError>) {
    match record {
        Ok((time, metrics)) => trace!(
            target: "pcp::log",
            "record at byte {} of volume {volume}: {} bytes, {time}, {}",
            frame.at,
            frame.len,
            match metrics {
                0 => "a mark".to_owned(),
                metrics => format!("{metrics} metrics"),
            },
        ),
        Err(error) => trace!(target: "pcp::log", "{error}"),
    }
}

/// Metadata.
impl Archive {
    /// A metric's descriptor.
    ///
    /// # Errors
    /// [`PmError::PMID_LOG`].
    pub fn desc(&self, pmid: Pmid) -> Result<Desc, PmError> {
        self.metadata.desc(pmid)
    }

    /// All metrics that are described, by identifier.
    pub fn pmids(&self) -> Vec<Pmid> {
        let mut pmids: Vec<Pmid> = self.metadata.pmids().collect();
        pmids.sort_unstable();
        pmids
    }

    /// How many metrics are described before this one: who records describes metrics in the order in which a record has them.
    /// `None` if it is not in the archive.
    pub fn place_of(&self, pmid: Pmid) -> Option<u32> {
        self.metadata.place(pmid)
    }

    /// The metric of a name.
    ///
    /// # Errors
    /// [`PmError::NAME`], [`PmError::NONLEAF`].
    pub fn lookup_name(&self, name: &str) -> Result<Pmid, PmError> {
        self.metadata.names.lookup(name)
    }

    /// The names of a metric; none if it is not in the archive or nameless.
    pub fn names_of(&self, pmid: Pmid) -> Vec<String> {
        self.metadata.names.names_of(pmid)
    }

    /// The nodes directly below a node of the name space, and whether each is a metric.
    ///
    /// # Errors
    /// [`PmError::NAME`].
    pub fn children(&self, name: &str) -> Result<Vec<(&str, bool)>, PmError> {
        self.metadata.names.children(name)
    }

    /// All metrics below a node, or the metric itself, in the order of `pmTraversePMNS(3)`.
    ///
    /// # Errors
    /// [`PmError::NAME`].
    pub fn leaves(&self, name: &str) -> Result<Vec<String>, PmError> {
        self.metadata.names.leaves(name)
    }

    /// All instance domains that have a record, sorted.
    pub fn indoms(&self) -> Vec<InDom> {
        let with_records = self.metadata.indoms.iter().filter(|(_, history)| !history.is_empty());
        let mut indoms: Vec<InDom> = with_records.map(|(indom, _)| *indom).collect();
        indoms.sort_unstable();
        indoms
    }

    /// The instances of a domain at a time, by id (`pmGetInDom(3)`).
    ///
    /// # Errors
    /// [`PmError::INDOM_LOG`] for a domain without a record up to then.
    pub fn instances(
        &mut self,
        indom: InDom,
        time: Timestamp,
    ) -> Result<impl Iterator<Item = (Inst, &[u8])>, PmError> {
        let history = self.metadata.indoms.get_mut(&indom);
        history.and_then(|history| history.at(time)).ok_or(PmError::INDOM_LOG)
    }

    /// Every instance a domain has had, with its newest name, in the order of `pmGetInDomArchive(3)`.
    ///
    /// # Errors
    /// [`PmError::INDOM_LOG`].
    pub fn instances_ever(&self, indom: InDom) -> Result<Vec<Instance>, PmError> {
        let history = self.metadata.indoms.get(&indom).filter(|history| !history.is_empty());
        let history = history.ok_or(PmError::INDOM_LOG)?;
        let instance = |life: Life| Instance {
            id: life.id,
            name: String::from_utf8_lossy(history.name(&life)).into_owned(),
        };
        Ok(history.lives().0.into_iter().map(instance).collect())
    }

    /// Every instance a domain has had, when it was there, and the largest number of them at a time.
    pub(super) fn lives(&self, indom: InDom) -> Option<(Vec<Life>, usize)> {
        let history = self.metadata.indoms.get(&indom).filter(|history| !history.is_empty());
        history.map(|history| history.lives())
    }

    /// The records of an instance domain as they are in the file, oldest first.
    pub fn indom_records(&self, indom: InDom) -> impl Iterator<Item = OnDisk<'_>> {
        self.metadata.indoms.get(&indom).into_iter().flat_map(|history| history.on_disk())
    }

    /// Help text (`pmLookupText(3)`). Where there is no long text the short one is returned.
    ///
    /// # Errors
    /// [`PmError::NOTHOST`] where the archive has no such text for anything, else [`PmError::TEXT`].
    pub fn text(&self, target: TextTarget, level: TextLevel) -> Result<String, PmError> {
        self.metadata.text(target, level)
    }

    /// The labels of something at a time (`pmLookupLabels(3)`): of the context, at least its host's name.
    pub fn labels(&self, target: LabelTarget, time: Timestamp) -> Vec<LabelSet> {
        match self.metadata.labels.at((target.kind().code(), target.ident()), time) {
            (Some(record), _) => record.sets(),
            (None, false) if target == LabelTarget::Context => vec![labels::host_only(&self.label().host)],
            (None, _) => Vec::new(),
        }
    }

    /// When the labels of something were recorded anew, oldest first: between two of these times they stay as they are.
    pub fn label_changes(&self, target: LabelTarget) -> impl Iterator<Item = Timestamp> {
        self.metadata.labels.changes((target.kind().code(), target.ident()))
    }
}

impl RecordPlace {
    /// In front of the record.
    pub fn start(self) -> Place {
        Place { part: self.part, spot: Spot { volume: self.volume, offset: self.frame.at } }
    }

    /// Behind the record.
    pub fn end(self) -> Place {
        Place { part: self.part, spot: Spot { volume: self.volume, offset: self.frame.end() } }
    }
}

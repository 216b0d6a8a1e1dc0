//! The data volumes of one archive as a series of records.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{ArchiveError, Problem};
use super::fields::Stamp;
use super::files::Member;
use super::label::{LogLabel, MAX_LABEL, Role};
use super::layouts::Layouts;
use super::member::{Frame, MemberReader};
use super::record::{Record, time_of};
use pcp_model::{Pmid, Timestamp};
use pcp_pdu::{LayoutId, Scan};

/// Volumes whose files stay open.
const OPEN_VOLUMES: usize = 2;

/// The volumes of an archive, and what is kept of them while they are read.
pub(super) struct Volumes {
    label: Arc<LogLabel>,
    /// By number.
    members: Vec<(u32, Member)>,
    /// Those open, the last used in front.
    open: Vec<(usize, MemberReader)>,
    layouts: Layouts,
    /// The record that was taken last, if no other was looked at since: its volume, and how often the bytes in memory had been
    /// exchanged before. Where that is so still, it need not be compared with its layout again.
    taken: Option<(usize, Frame, u64)>,
}

/// A place between two records, or in front of the first or behind the last of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    /// Which of the volumes there are.
    pub volume: usize,
    pub offset: u64,
}

impl Volumes {
    /// By number, at least one, the first of which is open.
    pub(crate) fn new(members: Vec<(u32, Member)>, (first, label): (MemberReader, LogLabel)) -> Volumes {
        Volumes {
            label: label.into(),
            members,
            open: vec![(0, first)],
            layouts: Layouts::default(),
            taken: None,
        }
    }

    /// The same volumes for another reader, none of them open.
    pub(crate) fn another(&self) -> Volumes {
        Volumes {
            label: self.label.clone(),
            members: self.members.clone(),
            open: Vec::new(),
            layouts: Layouts::default(),
            taken: None,
        }
    }

    /// Adds those that have come.
    pub(crate) fn add(&mut self, members: &BTreeMap<u32, Member>) {
        for (number, member) in members {
            // A logger only adds volumes at the end.
            if self.members.last().is_none_or(|(last, _)| number > last) {
                self.members.push((*number, member.clone()));
            }
        }
    }

    /// The label of the first one.
    pub(crate) fn label(&self) -> &LogLabel {
        &self.label
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    /// Their numbers, ascending.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.members.iter().map(|(number, _)| *number)
    }

    /// How many there are, and the bytes of the last one's file.
    pub(crate) fn size(&self) -> (usize, u64) {
        let last = self.members.last().and_then(|(_, member)| member.path.metadata().ok());
        (self.members.len(), last.map_or(0, |file| file.len()))
    }

    /// Which of them has that number.
    pub(crate) fn numbered(&self, number: u32) -> Option<usize> {
        self.members.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    /// The stamps of the records.
    pub(crate) fn stamp(&self) -> Stamp {
        self.label.stamp()
    }

    /// In front of the first record.
    pub(crate) fn first(&self) -> Spot {
        Spot { volume: 0, offset: self.label.len() }
    }

    /// The record behind a spot, if there is one, and its volume.
    pub(crate) fn next(&mut self, mut at: Spot) -> Result<Option<(usize, Frame)>, ArchiveError> {
        loop {
            if let Some(frame) = self.volume(at.volume)?.frame(at.offset)? {
                return Ok(Some((at.volume, frame)));
            }
            if at.volume + 1 >= self.members.len() {
                return Ok(None);
            }
            at = Spot { volume: at.volume + 1, offset: self.label.len() };
        }
    }

    /// The record in front of a spot, if there is one, and its volume.
    pub(crate) fn previous(&mut self, mut at: Spot) -> Result<Option<(usize, Frame)>, ArchiveError> {
        let first = self.label.len();
        while at.offset <= first {
            if at.volume == 0 {
                return Ok(None);
            }
            let volume = at.volume - 1;
            at = Spot { volume, offset: self.volume(volume)?.len()? };
        }
        let frame = self.volume(at.volume)?.frame_before(at.offset, first)?;
        Ok(Some((at.volume, frame)))
    }

    /// A record found before.
    pub(crate) fn record(&mut self, volume: usize, frame: Frame) -> Result<Record<'_>, ArchiveError> {
        self.volume(volume)?;
        let (stamp, path) = (self.stamp(), &self.members[volume].1.path);
        // The volume just used is in front. Not by `volume`, whose borrow would hide the path of an error.
        let source = &mut self.open[0].1;
        let this = Some((volume, frame, source.moves()));
        let is_again = std::mem::replace(&mut self.taken, this) == this;
        let bytes = source.record(frame)?;
        Record::of(bytes, stamp, &mut self.layouts, is_again)
            .map_err(|what| ArchiveError::new(path, frame.at, Problem::Record(what)))
    }

    /// A record found before, to be run through once: see [`Layouts::scan`].
    pub(crate) fn scan(
        &mut self,
        volume: usize,
        frame: Frame,
        before: Option<LayoutId>,
        each: impl FnMut(Pmid),
    ) -> Result<(Timestamp, Scan<'_>), ArchiveError> {
        self.volume(volume)?;
        self.taken = None;
        let (stamp, path) = (self.stamp(), &self.members[volume].1.path);
        // As above.
        let bytes = self.open[0].1.record(frame)?;
        Record::scan(bytes, stamp, &mut self.layouts, before, each)
            .map_err(|what| ArchiveError::new(path, frame.at, Problem::Record(what)))
    }

    /// The time of a record found before.
    pub(crate) fn time(&mut self, volume: usize, frame: Frame) -> Result<Timestamp, ArchiveError> {
        let stamp = self.stamp();
        let source = self.volume(volume)?;
        time_of(source.record(frame)?, stamp).map_err(|what| source.bad(frame.at, what))
    }

    /// The file of a volume, opened and checked.
    pub(crate) fn volume(&mut self, volume: usize) -> Result<&mut MemberReader, ArchiveError> {
        match self.open.iter().position(|(open, _)| *open == volume) {
            Some(0) => {}
            Some(at) => self.open.swap(0, at),
            None => {
                let (number, member) = self.members[volume].clone();
                let source = self.member(&member, Role::Volume(number))?;
                self.taken = None;
                self.open.truncate(OPEN_VOLUMES - 1);
                self.open.insert(0, (volume, source));
            }
        }
        Ok(&mut self.open[0].1)
    }

    /// Opens a member that must have a label like that of the first volume.
    pub(crate) fn member(&self, member: &Member, role: Role) -> Result<MemberReader, ArchiveError> {
        let (source, label) = open_member(member, role)?;
        match label.same_logger(&self.label) {
            true => Ok(source),
            false => Err(ArchiveError::new(&member.path, 0, Problem::Label("of another archive"))),
        }
    }
}

/// Opens a member and decodes its label. Something must follow the label.
pub(super) fn open_member(member: &Member, role: Role) -> Result<(MemberReader, LogLabel), ArchiveError> {
    let mut source = MemberReader::open(member)?;
    let label =
        LogLabel::decode(source.bytes(0, MAX_LABEL)?, role).map_err(|problem| source.error(0, problem))?;
    if source.bytes(label.len(), 1)?.is_empty() {
        return Err(source.error(label.len(), Problem::NoData));
    }
    Ok((source, label))
}

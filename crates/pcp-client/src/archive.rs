//! Contexts on archives (`docs/pcp/archive.md` 9, 13 to 15).

use super::context::Context;
use super::error::Result;
use super::provider::{Child, ContextKind, FetchRequest, Mode, Provider, Recording};
use super::registry::global_registry;
use super::waiting::Waiting;
use pcp_archive::{Archive, IgnoredMarks, Replay, ReplayMode};
use pcp_model::{Desc, InDom, Inst, Instance, LabelSet, PmError, Pmid, Profile, Timestamp, ValueSet};
use pcp_pdu::{Fetched, LabelTarget, TextLevel, TextTarget};

/// Recorded metrics: one archive, or several of one host.
///
/// Names, descriptors and help are those of all archives together; instances and labels are those at the time
/// of the last record, or of the next interpolated sample. Nothing ever waits.
pub struct ArchiveProvider {
    replay: Replay,
    request: Option<(Vec<Pmid>, Profile)>,
    /// A fetch was started.
    pending: bool,
}

impl Context {
    /// A context on recorded metrics (`PM_CONTEXT_ARCHIVE`): an archive's name, a directory of archives, or
    /// several of these with commas between. It begins at the start of the first archive, forward.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn archive(names: &str) -> Result<Context> {
        Ok(Context::new(Box::new(ArchiveProvider::open(names)?), global_registry()))
    }
}

impl ArchiveProvider {
    /// Opens archives, see [`Context::archive`].
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn open(names: &str) -> Result<ArchiveProvider> {
        Ok(ArchiveProvider { replay: Replay::new(Archive::open(names)?), request: None, pending: false })
    }

    /// Whether an interpolated reading is the nearer of the two around it, see [`Replay::set_nearest`].
    #[must_use]
    pub fn nearest(mut self, nearest: bool) -> ArchiveProvider {
        self.replay.set_nearest(nearest);
        self
    }

    /// Which marks values are interpolated across all the same (`PCPIntro(1)`, `PCP_IGNORE_MARK_RECORDS`).
    #[must_use]
    pub fn ignoring(mut self, marks: IgnoredMarks) -> ArchiveProvider {
        self.replay.set_ignored_marks(marks);
        self
    }

    /// Unless values are interpolated.
    fn by_record(&mut self) -> Result<&mut Replay> {
        match self.replay.mode() {
            ReplayMode::Interpolate(_) => Err(PmError::MODE.into()),
            ReplayMode::Forward | ReplayMode::Backward => Ok(&mut self.replay),
        }
    }
}

impl Provider for ArchiveProvider {
    fn kind(&self) -> ContextKind {
        ContextKind::Archive
    }

    fn lookup_names(&mut self, names: &[&str]) -> Result<Vec<Option<Pmid>>> {
        let archive = self.replay.archive();
        match names {
            [] => Err(PmError::TOOSMALL.into()),
            [name] => Ok(vec![Some(archive.lookup_name(name)?)]),
            names => Ok(names.iter().map(|name| archive.lookup_name(name).ok()).collect()),
        }
    }

    fn names_of(&mut self, pmid: Pmid) -> Result<Vec<String>> {
        let names = self.replay.archive().names_of(pmid);
        if names.is_empty() { Err(PmError::PMID.into()) } else { Ok(names) }
    }

    fn children(&mut self, name: &str) -> Result<Vec<Child>> {
        let children = self.replay.archive().children(name)?;
        Ok(children.into_iter().map(|(name, leaf)| Child { name: name.to_owned(), leaf }).collect())
    }

    fn traverse(&mut self, name: &str) -> Result<Vec<String>> {
        Ok(self.replay.archive().leaves(name)?)
    }

    fn descs(&mut self, pmids: &[Pmid]) -> Result<Vec<std::result::Result<Desc, PmError>>> {
        Ok(pmids.iter().map(|pmid| self.replay.archive().desc(*pmid)).collect())
    }

    fn instances(&mut self, indom: InDom) -> Result<Vec<Instance>> {
        // Domains change while they are recorded: the instances are those of the place where the context is.
        self.instances_at(indom, self.replay.origin())
    }

    fn instance(&mut self, indom: InDom, name: &str) -> Result<Inst> {
        let time = self.replay.origin();
        named(self.replay.archive_mut().instances(indom, time)?, name)
    }

    fn instance_name(&mut self, indom: InDom, inst: Inst) -> Result<String> {
        let time = self.replay.origin();
        let mut instances = self.replay.archive_mut().instances(indom, time)?;
        let found = instances.find(|(id, _)| *id == inst);
        found.map(|(_, name)| text(name)).ok_or_else(|| PmError::INST_LOG.into())
    }

    fn text(&mut self, target: TextTarget, level: TextLevel) -> Result<String> {
        Ok(self.replay.archive().text(target, level)?)
    }

    fn labels(&mut self, target: LabelTarget) -> Result<Vec<LabelSet>> {
        Ok(self.replay.archive().labels(target, self.replay.origin()))
    }

    fn store(&mut self, _: &[ValueSet]) -> Result<()> {
        Err(PmError::NOTHOST.into())
    }

    fn host_name(&mut self) -> Result<String> {
        Ok(self.replay.archive().label().host.clone())
    }

    fn time_zone(&mut self) -> Result<String> {
        Ok(self.replay.archive().label().zone.clone())
    }

    fn start_fetch(&mut self, request: FetchRequest<'_>) -> Result<()> {
        if request.pmids.is_empty() {
            return Err(PmError::TOOSMALL.into());
        }
        let (pmids, profile) = self.request.get_or_insert_default();
        pmids.clear();
        pmids.extend_from_slice(request.pmids);
        profile.clone_from(request.profile);
        self.pending = true;
        Ok(())
    }

    fn advance(&mut self, out: &mut Fetched) -> Result<bool> {
        // Records are read here and not when the fetch is started, as errors of reading are those of its end. A context
        // that was only connected has started none.
        if std::mem::take(&mut self.pending)
            && let Some((pmids, profile)) = &self.request
        {
            self.replay.fetch(pmids, profile, out)?;
        }
        Ok(true)
    }

    fn waiting(&self) -> Option<Waiting<'_>> {
        None
    }

    fn recording(&self) -> Option<&dyn Recording> {
        Some(self)
    }

    fn recording_mut(&mut self) -> Option<&mut dyn Recording> {
        Some(self)
    }
}

impl Recording for ArchiveProvider {
    fn set_mode(&mut self, mode: Mode, origin: Option<Timestamp>) -> Result<()> {
        let mode = match mode {
            Mode::Live => return Err(PmError::MODE.into()),
            Mode::Forward => ReplayMode::Forward,
            Mode::Backward => ReplayMode::Backward,
            Mode::Interpolate { step } => ReplayMode::Interpolate(step),
        };
        self.replay.set_mode(mode, origin);
        Ok(())
    }

    fn mode(&self) -> (Mode, Timestamp) {
        let mode = match self.replay.mode() {
            ReplayMode::Forward => Mode::Forward,
            ReplayMode::Backward => Mode::Backward,
            ReplayMode::Interpolate(step) => Mode::Interpolate { step },
        };
        (mode, self.replay.origin())
    }

    fn fetch_record(&mut self, out: &mut Fetched) -> Result<()> {
        Ok(self.by_record()?.next_record(out)?)
    }

    fn fetch_record_of(&mut self, pmid: Pmid, out: &mut Fetched) -> Result<()> {
        Ok(self.by_record()?.next_record_of(pmid, out)?)
    }

    fn take_mended(&mut self) -> Vec<String> {
        self.replay.archive_mut().take_mended().iter().map(ToString::to_string).collect()
    }

    fn span(&mut self) -> Result<(Timestamp, Timestamp)> {
        let start = self.replay.archive().label().start;
        Ok((start, self.replay.archive_mut().end()?))
    }

    fn place_of(&self, pmid: Pmid) -> Option<u32> {
        self.replay.archive().place_of(pmid)
    }

    fn instances_at(&mut self, indom: InDom, time: Timestamp) -> Result<Vec<Instance>> {
        let instance = |(id, name): (Inst, &[u8])| Instance { id, name: text(name) };
        Ok(self.replay.archive_mut().instances(indom, time)?.map(instance).collect())
    }

    fn instances_ever(&mut self, indom: InDom) -> Result<Vec<Instance>> {
        Ok(self.replay.archive().instances_ever(indom)?)
    }

    fn instance_ever(&mut self, indom: InDom, name: &str) -> Result<Inst> {
        let instances = self.replay.archive().instances_ever(indom)?;
        named(instances.iter().map(|instance| (instance.id, instance.name.as_bytes())), name)
    }

    fn instance_changes(&mut self, indom: InDom) -> Vec<Timestamp> {
        self.replay.archive().indom_records(indom).map(|record| record.stamp).collect()
    }

    fn label_changes(&mut self, target: LabelTarget) -> Vec<Timestamp> {
        self.replay.archive().label_changes(target).collect()
    }

    fn refresh(&mut self) -> Result<bool> {
        Ok(self.replay.refresh()?)
    }
}

/// The instance of a name. The whole name wins; else the first that has a space and whose first word the wanted name
/// starts with.
fn named<'a>(instances: impl Iterator<Item = (Inst, &'a [u8])>, name: &str) -> Result<Inst> {
    let mut similar = None;
    for (id, own) in instances {
        if own == name.as_bytes() {
            return Ok(id);
        }
        let space = own.iter().position(|&byte| byte == b' ');
        if space.is_some_and(|end| name.as_bytes().starts_with(&own[..end])) {
            similar.get_or_insert(id);
        }
    }
    similar.ok_or_else(|| PmError::INST_LOG.into())
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

//! What a context needs of a source of metrics: a host's collector, an agent in the same program, agents that it starts, an archive.

use super::counts::PduCounts;
use super::error::{ClientError, Result};
use super::waiting::{Waiting, wait_for};
use pcp_model::{Desc, InDom, Inst, Instance, LabelSet, PmError, Pmid, Profile, Timestamp, ValueSet};
use pcp_pdu::{Fetched, LabelTarget, TextLevel, TextTarget};

/// Where a context's metrics come from (`pmNewContext(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextKind {
    /// A collector, over a connection.
    Host,
    /// Recorded data.
    Archive,
    /// Agents without a collector: one in the same program, or some that it starts.
    Local,
}

/// What a fetch gives (`pmSetMode(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The values of now: the only mode of a collector, and not one of archives.
    Live,
    /// The next record that has any of the metrics.
    Forward,
    /// The one before.
    Backward,
    /// Interpolated values.
    Interpolate {
        /// Nanoseconds from one sample to the next; negative to go back.
        step: i64,
    },
}

/// A node below another in the name space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Child {
    /// The last component of its name.
    pub name: String,
    /// Whether it is a metric.
    pub leaf: bool,
}

/// A fetch to be made.
#[derive(Clone, Copy, Debug)]
pub struct FetchRequest<'a> {
    /// The metrics. A metric asked for twice is answered twice.
    pub pmids: &'a [Pmid],
    /// Which instances are wanted.
    pub profile: &'a Profile,
    /// Changes whenever the profile does.
    pub profile_version: u64,
}

/// What can be looked up of many things at once ([`super::Context::look_up_each`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// All names of a metric.
    NamesOf(Pmid),
    /// A help text.
    Text(TextTarget, TextLevel),
    /// Labels of one level.
    Labels(LabelTarget),
    /// All instances of an instance domain.
    Instances(InDom),
}

/// What came of the [`Lookup`] of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// At least one.
    Names(Vec<String>),
    /// A help text.
    Text(String),
    /// One set for each instance that has any.
    Labels(Vec<LabelSet>),
    /// In the source's order.
    Instances(Vec<Instance>),
}

/// A source of metrics. Real ones only: derived metrics are the [`super::Context`]'s.
///
/// Everything but the fetch in steps may wait for an answer, with a timeout where a peer is asked.
pub trait Provider: Send {
    /// Which kind of source.
    fn kind(&self) -> ContextKind;

    /// Identifiers of metrics by their names; `None` for names that are not there.
    ///
    /// # Errors
    /// For a single name that is no metric's, why: `PM_ERR_NAME` or `PM_ERR_NONLEAF`. `PM_ERR_TOOSMALL` for no
    /// name at all.
    fn lookup_names(&mut self, names: &[&str]) -> Result<Vec<Option<Pmid>>>;

    /// Identifiers of metrics by their names, or why each has none.
    ///
    /// # Errors
    /// Those of the source as a whole; those of a single one are in its place.
    fn lookup_each(&mut self, names: &[&str]) -> Result<Vec<std::result::Result<Pmid, PmError>>> {
        let look_up = |name: &&str| {
            let found = self.lookup_names(&[*name]);
            answer(found.and_then(|pmids| only(&pmids)))
        };
        names.iter().map(look_up).collect()
    }

    /// All names of a metric, at least one.
    ///
    /// # Errors
    /// `PM_ERR_PMID`, `PM_ERR_NOAGENT`.
    fn names_of(&mut self, pmid: Pmid) -> Result<Vec<String>>;

    /// The nodes right below a name; the root's for an empty one; none below a metric.
    ///
    /// # Errors
    /// `PM_ERR_NAME`.
    fn children(&mut self, name: &str) -> Result<Vec<Child>>;

    /// The names of all metrics at or below a name, all for an empty one, in the source's order.
    ///
    /// # Errors
    /// `PM_ERR_NAME`.
    fn traverse(&mut self, name: &str) -> Result<Vec<String>>;

    /// The same of each of the names.
    ///
    /// # Errors
    /// Those of the source as a whole; those of a single name are in its place.
    fn traverse_each(&mut self, names: &[&str]) -> Result<Vec<std::result::Result<Vec<String>, PmError>>> {
        names.iter().map(|name| answer(self.traverse(name))).collect()
    }

    /// Descriptors, in the order asked for.
    ///
    /// # Errors
    /// Those of the source as a whole; a metric's own is in its place.
    fn descs(&mut self, pmids: &[Pmid]) -> Result<Vec<std::result::Result<Desc, PmError>>>;

    /// All instances of an instance domain, in the source's order.
    ///
    /// # Errors
    /// `PM_ERR_INDOM`.
    fn instances(&mut self, indom: InDom) -> Result<Vec<Instance>>;

    /// The instance of a name.
    ///
    /// # Errors
    /// `PM_ERR_INDOM`, `PM_ERR_INST`.
    fn instance(&mut self, indom: InDom, name: &str) -> Result<Inst>;

    /// The name of an instance.
    ///
    /// # Errors
    /// `PM_ERR_INDOM`, `PM_ERR_INST`.
    fn instance_name(&mut self, indom: InDom, inst: Inst) -> Result<String>;

    /// A help text.
    ///
    /// # Errors
    /// `PM_ERR_TEXT` where there is none.
    fn text(&mut self, target: TextTarget, level: TextLevel) -> Result<String>;

    /// Labels of one level, one set for each instance that has any.
    ///
    /// # Errors
    /// `PM_ERR_NOLABELS` where the source knows no labels.
    fn labels(&mut self, target: LabelTarget) -> Result<Vec<LabelSet>>;

    /// Looks all of it up; what came of each is in its place.
    ///
    /// # Errors
    /// Those of the source as a whole; those of a single one are in its place.
    fn look_up_each(&mut self, lookups: &[Lookup]) -> Result<Vec<std::result::Result<Found, PmError>>> {
        let look_up = |lookup: &Lookup| {
            answer(match *lookup {
                Lookup::NamesOf(pmid) => self.names_of(pmid).map(Found::Names),
                Lookup::Text(target, level) => self.text(target, level).map(Found::Text),
                Lookup::Labels(target) => self.labels(target).map(Found::Labels),
                Lookup::Instances(indom) => self.instances(indom).map(Found::Instances),
            })
        };
        lookups.iter().map(look_up).collect()
    }

    /// Stores values (`pmStore(3)`).
    ///
    /// # Errors
    /// The agent's, or `PM_ERR_NOTHOST`.
    fn store(&mut self, sets: &[ValueSet]) -> Result<()>;

    /// The name of the host that the metrics are of (`pmGetContextHostName(3)`).
    ///
    /// # Errors
    /// Those of the source.
    fn host_name(&mut self) -> Result<String>;

    /// The time zone of that host, as TZ has it (`pmNewContextZone(3)`).
    ///
    /// # Errors
    /// `PM_ERR_VALUE` where the source does not tell.
    fn time_zone(&mut self) -> Result<String>;

    /// Starts a fetch. [`Provider::advance`] goes on with it.
    ///
    /// # Errors
    /// Those of the source as a whole; `PM_ERR_TOOSMALL` for no metric.
    fn start_fetch(&mut self, request: FetchRequest<'_>) -> Result<()>;

    /// PDUs exchanged so far, over all connections that were opened; none without a connection.
    fn pdu_counts(&self) -> PduCounts {
        PduCounts::default()
    }

    /// Whether requests can reach the source: false after the loss of a connection, and until there is a new one.
    fn is_connected(&self) -> bool {
        true
    }

    /// Starts to connect again; nothing is to be done for sources without a connection.
    ///
    /// # Errors
    /// `-ETIMEDOUT` while it is too early after a failed attempt.
    fn start_reconnect(&mut self) -> Result<()> {
        Ok(())
    }

    /// Goes on with what was started, as far as that is possible without waiting. True when it is done: after a
    /// fetch, `out` is its result.
    ///
    /// # Errors
    /// Those of the source as a whole. What was started is over then.
    fn advance(&mut self, out: &mut Fetched) -> Result<bool>;

    /// What has to come before [`Provider::advance`] can go on; `None` if it can at once.
    fn waiting(&self) -> Option<Waiting<'_>>;

    /// What only recorded data has; `None` for a source that lives.
    fn recording(&self) -> Option<&dyn Recording> {
        None
    }

    /// As [`Provider::recording`], to change its place.
    fn recording_mut(&mut self) -> Option<&mut dyn Recording> {
        None
    }
}

/// A provider of recorded data: it has a place in time, and a past that can be asked about.
pub trait Recording {
    /// Sets what fetches give, and from when on; `None` keeps the place (`pmSetMode(3)`).
    ///
    /// # Errors
    /// `PM_ERR_MODE` for [`Mode::Live`].
    fn set_mode(&mut self, mode: Mode, origin: Option<Timestamp>) -> Result<()>;

    /// What fetches give, and the time of the last record, or of the next interpolated sample.
    fn mode(&self) -> (Mode, Timestamp);

    /// The next record with all that is in it, forward or backward; an empty one where recording was interrupted
    /// (`pmFetchArchive(3)`).
    ///
    /// # Errors
    /// `PM_ERR_MODE` while values are interpolated, `PM_ERR_EOL`; those of reading.
    fn fetch_record(&mut self, out: &mut Fetched) -> Result<()>;

    /// The next record that has this metric, with what it has of it, or the next interruption.
    ///
    /// # Errors
    /// As [`Recording::fetch_record`].
    fn fetch_record_of(&mut self, pmid: Pmid, out: &mut Fetched) -> Result<()>;

    /// Start and end of what is recorded (`pmGetArchiveLabel(3)`, `pmGetArchiveEnd(3)`).
    ///
    /// # Errors
    /// An archive without a record that can be read.
    fn span(&mut self) -> Result<(Timestamp, Timestamp)>;

    /// What is damaged and was done without since this was asked last, a line each: for people.
    fn take_mended(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Where a metric is among all that are recorded, in the order in which records have them, mostly. `None` if it is none of them.
    fn place_of(&self, pmid: Pmid) -> Option<u32>;

    /// The instances that an instance domain had at a time, that of a sample for instance.
    ///
    /// # Errors
    /// As [`Provider::instances`].
    fn instances_at(&mut self, indom: InDom, time: Timestamp) -> Result<Vec<Instance>>;

    /// All instances that an instance domain ever had (`pmGetInDomArchive(3)`).
    ///
    /// # Errors
    /// `PM_ERR_INDOM_LOG`.
    fn instances_ever(&mut self, indom: InDom) -> Result<Vec<Instance>>;

    /// The instance that ever had a name (`pmLookupInDomArchive(3)`).
    ///
    /// # Errors
    /// `PM_ERR_INDOM_LOG`, `PM_ERR_INST_LOG`.
    fn instance_ever(&mut self, indom: InDom, name: &str) -> Result<Inst>;

    /// When the instances of a domain were recorded anew, oldest first: between two of these times their names, and which
    /// there are, stay as they are.
    fn instance_changes(&mut self, indom: InDom) -> Vec<Timestamp>;

    /// When the labels of something were recorded anew, oldest first: between two of these times they stay as they are.
    fn label_changes(&mut self, target: LabelTarget) -> Vec<Timestamp>;

    /// Takes in what a logger has written since. Whether there is anything: after `PM_ERR_EOL` fetches go on then.
    ///
    /// # Errors
    /// Those of reading.
    fn refresh(&mut self) -> Result<bool>;
}

/// What the source has to say about one thing, `None` if that is an error; errors of the source as a whole stay errors.
pub(crate) fn answer<T>(result: Result<T>) -> Result<std::result::Result<T, PmError>> {
    match result {
        Ok(answer) => Ok(Ok(answer)),
        Err(ClientError::Pcp(error)) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

/// The identifier in the answer about a single name.
pub(crate) fn only(pmids: &[Option<Pmid>]) -> Result<Pmid> {
    pmids.first().copied().flatten().ok_or(ClientError::Pcp(PmError::NAME))
}

/// Goes on with what was started on a provider until it is done.
pub(super) fn finish(provider: &mut dyn Provider, out: &mut Fetched) -> Result<()> {
    while !provider.advance(out)? {
        if let Some(waiting) = provider.waiting() {
            wait_for(waiting)?;
        }
    }
    Ok(())
}

//! A PMAPI context: metrics of one source, derived ones included (`pmNewContext(3)`).
//!
//! ```text
//! request --> derived metrics? --> operands added --> provider --> values --> derived ones computed --> result
//! ```
//!
//! Real metrics win over derived ones of the same name. Nothing is cached but what the engine knows about
//! definitions, and for a moment what it is about to ask: each call asks the source. A fetch of real metrics only costs no more than the provider's.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::counts::PduCounts;
use super::debug;
use super::derived::{Ahead, Metrics, Operands};
use super::error::{ClientError, Result};
use super::namespace::{NameSpace, NamedProvider};
use super::provider::{self, Child, ContextKind, FetchRequest, Found, Lookup, Mode, Provider, Recording};
use super::registry::{self, SharedRegistry};
use super::traversal::merged;
use super::waiting::Waiting;
use pcp_derive::{Answer, Column, DerivedContext, HelpKind};
use pcp_model::{Desc, InDom, Inst, Instance, LabelSet, Level, PmError, Pmid, Profile, Timestamp, ValueSet};
use pcp_pdu::{Fetched, LabelTarget, StateChange, TextLevel, TextTarget};
use tracing::trace;

/// A context on a source of metrics.
pub struct Context {
    provider: NamedProvider,
    profile: Profile,
    /// 0 of the first one, which all contexts have; others are nobody else's.
    profile_version: u64,
    registry: SharedRegistry,
    derived: DerivedContext,
    /// What definitions that are not bound yet are about to ask.
    ahead: Ahead,
    fetch: Prepared,
    /// Something was started and is not over.
    pending: bool,
}

/// What a fetch asks the provider for. Kept from fetch to fetch, as the same metrics are mostly asked for again.
#[derive(Debug, Default)]
struct Prepared {
    request: Vec<Pmid>,
    /// The request and the operands of derived metrics in it.
    expanded: Vec<Pmid>,
    /// Where in `expanded` a metric is.
    places: HashMap<Pmid, usize>,
    /// Whether there is a derived metric among those asked for.
    derived: bool,
    /// Whether `expanded` and `places` are of `request` as definitions stand.
    valid: bool,
}

impl Context {
    /// A context on a provider, with the definitions of a registry.
    pub fn new(provider: Box<dyn Provider>, registry: SharedRegistry) -> Context {
        trace!(
            target: "pcp::context",
            "new context: {:?}, {} derived metrics defined for all",
            provider.kind(),
            registry::snapshot(&registry).definitions().len(),
        );
        Context {
            provider: NamedProvider::new(provider),
            profile: Profile::default(),
            profile_version: 0,
            registry,
            derived: DerivedContext::new(),
            ahead: Ahead::default(),
            fetch: Prepared::default(),
            pending: false,
        }
    }

    /// The same context with the names of a name space of its own instead of the source's
    /// (`pmLoadASCIINameSpace(3)`). Definitions of derived metrics mean these names.
    #[must_use]
    pub fn with_names(self, names: Arc<NameSpace>) -> Context {
        trace!(target: "pcp::context", "the context has names of its own, from a file");
        let provider = self.provider.with_names(names);
        let (fetch, derived, ahead) = (Prepared::default(), DerivedContext::new(), Ahead::default());
        Context { provider, fetch, derived, ahead, ..self }
    }

    /// Leaves names out that the archive has no metrics for, where there are names from a file
    /// (`pmTrimNameSpace(3)`).
    ///
    /// # Errors
    /// Those of the source.
    pub fn trim_names(&mut self) -> Result<()> {
        self.provider.trim_names()
    }

    /// Which kind of source the metrics come from.
    pub fn kind(&self) -> ContextKind {
        self.provider.kind()
    }

    /// Whether requests can reach the source. If not, go on with [`Context::reconnect`]. The loss of a connection is
    /// noticed by the request that it hits.
    pub fn is_connected(&self) -> bool {
        self.provider.is_connected()
    }

    /// PDUs exchanged with the source so far, also over earlier connections.
    pub fn pdu_counts(&self) -> PduCounts {
        self.provider.pdu_counts()
    }

    /// The provider, for what only its kind has.
    pub fn provider(&mut self) -> &mut dyn Provider {
        &mut *self.provider
    }

    /// Exchanges the sources of two contexts, with their connections: so many contexts on one collector can take turns on few
    /// connections. Profiles, and derived metrics as they are bound, stay where they are; so both sources have to be of the same
    /// metrics.
    ///
    /// # Errors
    /// [`ClientError::Busy`] while something is under way in one of them; `PM_ERR_NOCONTEXT` if they are of different kinds.
    pub fn swap_source(&mut self, other: &mut Context) -> Result<()> {
        self.expect_idle()?;
        other.expect_idle()?;
        if self.kind() != other.kind() {
            return Err(PmError::NOCONTEXT.into());
        }
        for context in [&mut *self, &mut *other] {
            context.ahead.clear();
            context.fetch.valid = false;
        }
        std::mem::swap(&mut self.provider, &mut other.provider);
        Ok(())
    }

    /// The definitions that the context shares with others.
    pub fn registry(&self) -> &SharedRegistry {
        &self.registry
    }

    /// Identifiers of metrics by their names; `None` for names that are not there (`pmLookupName(3)`).
    ///
    /// # Errors
    /// For a single name that is no metric's, why: `PM_ERR_NAME` or `PM_ERR_NONLEAF`. `PM_ERR_TOOSMALL` for no
    /// name at all.
    pub fn lookup_names(&mut self, names: &[&str]) -> Result<Vec<Option<Pmid>>> {
        let found = self.find_names(names);
        debug::looked_up(names, &found);
        found
    }

    fn find_names(&mut self, names: &[&str]) -> Result<Vec<Option<Pmid>>> {
        let found = self.provider.lookup_names(names);
        let derived = self.derived.refresh(&registry::snapshot(&self.registry));
        let mut pmids = match found {
            Ok(pmids) => pmids,
            // Of one name the source says why it is none, which stands unless a derived metric has it. With several,
            // and with a connection that is lost, its answer is an answer.
            Err(ClientError::Pcp(error)) if names.len() == 1 => {
                return match names.iter().find_map(|name| derived.pmid(name)) {
                    Some(pmid) => Ok(vec![Some(pmid)]),
                    None => Err(error.into()),
                };
            }
            Err(error) => return Err(error),
        };
        for (pmid, name) in pmids.iter_mut().zip(names).filter(|(pmid, _)| pmid.is_none()) {
            *pmid = derived.pmid(name);
        }
        Ok(pmids)
    }

    /// Identifiers of metrics by their names, or why each has none, with all requests under way at once: a collector tells of a
    /// single name only why it is none, such as that the agent which would know it is gone.
    ///
    /// # Errors
    /// Those of the source as a whole; those of a single one are in its place.
    pub fn lookup_each(&mut self, names: &[&str]) -> Result<Vec<std::result::Result<Pmid, PmError>>> {
        let mut found = self.provider.lookup_each(names)?;
        let derived = self.derived.refresh(&registry::snapshot(&self.registry));
        for (found, name) in found.iter_mut().zip(names).filter(|(found, _)| found.is_err()) {
            if let Some(pmid) = derived.pmid(name) {
                *found = Ok(pmid);
            }
        }
        Ok(found)
    }

    /// The identifier of one metric.
    ///
    /// # Errors
    /// As [`Context::lookup_names`].
    pub fn pmid(&mut self, name: &str) -> Result<Pmid> {
        self.lookup_names(&[name])?.into_iter().next().flatten().ok_or(ClientError::Pcp(PmError::NAME))
    }

    /// All names of a metric (`pmNameAll(3)`).
    ///
    /// # Errors
    /// `PM_ERR_PMID`, `PM_ERR_NOAGENT`.
    pub fn names_of(&mut self, pmid: Pmid) -> Result<Vec<String>> {
        let found = self.find_names_of(pmid);
        debug::below("names of", &pmid, &found, |names| names.iter().map(String::as_str));
        found
    }

    fn find_names_of(&mut self, pmid: Pmid) -> Result<Vec<String>> {
        if pmid.is_derived()
            && let Some(name) = self.derived.refresh(&registry::snapshot(&self.registry)).name(pmid)
        {
            return Ok(vec![name.to_string()]);
        }
        self.provider.names_of(pmid)
    }

    /// The nodes right below a name, the root's for an empty one (`pmGetChildrenStatus(3)`). Those of derived
    /// metrics come last; as PCP has it since 7.1 only of those that bind.
    ///
    /// # Errors
    /// `PM_ERR_NAME`; `PM_ERR_NOPMNS` where the source has no names at all.
    pub fn children(&mut self, name: &str) -> Result<Vec<Child>> {
        let found = self.find_children(name);
        debug::below("names right below", name, &found, |children| {
            children.iter().map(|child| child.name.as_str())
        });
        found
    }

    fn find_children(&mut self, name: &str) -> Result<Vec<Child>> {
        let real = or_no_names(self.provider.children(name))?;
        let registry = registry::snapshot(&self.registry);
        let derived = self.derived.refresh(&registry);
        let derived: Vec<(String, Pmid)> =
            derived.names(name).map(|(name, pmid)| (name.to_string(), pmid)).collect();
        let mut metrics = Metrics::new(&mut self.provider, &self.profile, &mut self.ahead);
        let mut attached = self.derived.attach(&registry, &mut metrics);
        let all = registry.dialect().level < Level::V721;
        let mut children = match &real {
            Ok(children) => children.clone(),
            Err(_) => Vec::new(),
        };
        let below = if name.is_empty() { 0 } else { name.len() + 1 };
        let mut found = false;
        for (full, pmid) in derived {
            if !all && attached.meta(pmid).is_err() {
                continue;
            }
            found = true;
            let Some(rest) = full.get(below..) else { continue };
            let (node, leaf) = rest.split_once('.').map_or((rest, true), |(node, _)| (node, false));
            if !children.iter().any(|child| child.name == node) {
                children.push(Child { name: node.to_owned(), leaf });
            }
        }
        if found { Ok(children) } else { real }
    }

    /// The name of a metric, or of what has metrics below it, that must have been meant by one that there is not; `None` if
    /// nothing is near. Costs the names of all metrics: for messages.
    pub fn nearest_name(&mut self, name: &str) -> Option<String> {
        let names = self.traverse("").ok()?;
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for metric in &names {
            known.insert(metric);
            known.extend(metric.match_indices('.').map(|(end, _)| &metric[..end]));
        }
        pcp_model::text::nearest(name, known).map(str::to_owned)
    }

    /// The names of all metrics at or below a name, all for an empty one (`pmTraversePMNS(3)`). Derived metrics
    /// come last, in the order of their definition; those that do not bind are left out, but for archives as
    /// PCP up to 6.3 lists them.
    ///
    /// # Errors
    /// `PM_ERR_NAME`; `PM_ERR_NOPMNS` where the source has no names at all.
    pub fn traverse(&mut self, name: &str) -> Result<Vec<String>> {
        let found = self.find_metrics(name);
        debug::below("metrics below", name, &found, |names| names.iter().map(String::as_str));
        found
    }

    /// The same of each of the names, with all requests under way at once.
    ///
    /// # Errors
    /// Those of the source as a whole; those of a single name are in its place.
    pub fn traverse_each(
        &mut self,
        names: &[&str],
    ) -> Result<Vec<std::result::Result<Vec<String>, PmError>>> {
        let all = self.provider.traverse_each(names)?;
        let each = names.iter().zip(all).map(|(name, real)| {
            let found = self.with_derived(name, real.map_err(ClientError::Pcp));
            debug::below("metrics below", name, &found, |names| names.iter().map(String::as_str));
            provider::answer(found)
        });
        each.collect()
    }

    fn find_metrics(&mut self, name: &str) -> Result<Vec<String>> {
        let real = self.provider.traverse(name);
        self.with_derived(name, real)
    }

    /// The metrics below a name that the source has told, and derived ones.
    fn with_derived(&mut self, name: &str, real: Result<Vec<String>>) -> Result<Vec<String>> {
        let real = or_no_names(real)?;
        let registry = registry::snapshot(&self.registry);
        let derived = self.derived.refresh(&registry);
        let derived: Vec<(String, Pmid)> =
            derived.names(name).map(|(name, pmid)| (name.to_string(), pmid)).collect();
        let recorded = self.provider.kind() == ContextKind::Archive;
        let mut metrics = Metrics::new(&mut self.provider, &self.profile, &mut self.ahead);
        let mut attached = self.derived.attach(&registry, &mut metrics);
        let all = recorded && registry.dialect().level < Level::V721;
        let bound = |(name, pmid): (String, Pmid)| (all || attached.meta(pmid).is_ok()).then_some(name);
        let derived: Vec<String> = derived.into_iter().filter_map(bound).collect();
        match real {
            // Walked through already.
            Ok(names) if derived.is_empty() => Ok(names),
            Ok(names) if recorded => Ok(merged(&names, &derived)),
            Err(_) if recorded && !derived.is_empty() => Ok(merged(&[], &derived)),
            Ok(mut names) => {
                let known: std::collections::HashSet<&str> = names.iter().map(String::as_str).collect();
                let new: Vec<String> =
                    derived.into_iter().filter(|name| !known.contains(name.as_str())).collect();
                names.extend(new);
                Ok(names)
            }
            Err(_) if !derived.is_empty() => Ok(derived),
            Err(error) => Err(error),
        }
    }

    /// The descriptor of a metric (`pmLookupDesc(3)`).
    ///
    /// # Errors
    /// `PM_ERR_PMID`, `PM_ERR_NOAGENT`, `PM_ERR_BADDERIVE`.
    pub fn desc(&mut self, pmid: Pmid) -> Result<Desc> {
        let descs = self.descs(&[pmid])?;
        Ok(descs.into_iter().next().unwrap_or(Err(PmError::IPC))?)
    }

    /// Descriptors, in the order asked for (`pmLookupDescs(3)`).
    ///
    /// # Errors
    /// Those of the source as a whole; a metric's own is in its place.
    pub fn descs(&mut self, pmids: &[Pmid]) -> Result<Vec<std::result::Result<Desc, PmError>>> {
        if !pmids.iter().any(|&pmid| pmid.is_derived()) {
            return self.provider.descs(pmids);
        }
        let real: Vec<Pmid> = pmids.iter().copied().filter(|&pmid| !pmid.is_derived()).collect();
        self.expect_idle()?;
        let real = if real.is_empty() { Vec::new() } else { self.provider.descs(&real)? };
        let mut real = real.into_iter();
        let registry = registry::snapshot(&self.registry);
        let mut metrics = Metrics::new(&mut self.provider, &self.profile, &mut self.ahead);
        let mut attached = self.derived.attach(&registry, &mut metrics);
        let desc = |&pmid: &Pmid| match pmid.is_derived() {
            false => real.next().unwrap_or(Err(PmError::IPC)),
            true => attached.meta(pmid).map(|meta| meta.desc(pmid)),
        };
        Ok(pmids.iter().map(desc).collect())
    }

    /// All instances of an instance domain, in the source's order (`pmGetInDom(3)`).
    ///
    /// # Errors
    /// `PM_ERR_INDOM`.
    pub fn instances(&mut self, indom: InDom) -> Result<Vec<Instance>> {
        let found = self.provider.instances(some(indom)?);
        debug::instances(indom, found.as_deref());
        found
    }

    /// The instance of a name (`pmLookupInDom(3)`).
    ///
    /// # Errors
    /// `PM_ERR_INDOM`, `PM_ERR_INST`.
    pub fn instance(&mut self, indom: InDom, name: &str) -> Result<Inst> {
        self.provider.instance(some(indom)?, name)
    }

    /// The name of an instance (`pmNameInDom(3)`).
    ///
    /// # Errors
    /// `PM_ERR_INDOM`, `PM_ERR_INST`.
    pub fn instance_name(&mut self, indom: InDom, inst: Inst) -> Result<String> {
        self.provider.instance_name(some(indom)?, inst)
    }

    /// A help text (`pmLookupText(3)`, `pmLookupInDomText(3)`). Where the full one is empty the short one stands
    /// in for it.
    ///
    /// # Errors
    /// `PM_ERR_TEXT` where there is none.
    pub fn text(&mut self, target: TextTarget, level: TextLevel) -> Result<String> {
        match target {
            TextTarget::Metric(pmid) if pmid.is_derived() => {
                let kind = match level {
                    TextLevel::OneLine => HelpKind::Oneline,
                    TextLevel::Help => HelpKind::Help,
                };
                Ok(self.derived.refresh(&registry::snapshot(&self.registry)).help(pmid, kind)?)
            }
            // An agent that has one line only leaves the full text empty.
            _ => match (self.provider.text(target, level)?, level) {
                (text, TextLevel::Help) if text.is_empty() => self.provider.text(target, TextLevel::OneLine),
                (text, _) => Ok(text),
            },
        }
    }

    /// Labels of one level, one set for each instance that has any (`pmLookupLabels(3)`).
    ///
    /// # Errors
    /// `PM_ERR_NOLABELS` where the source knows no labels.
    pub fn labels(&mut self, target: LabelTarget) -> Result<Vec<LabelSet>> {
        let found = self.provider.labels(target);
        debug::labels(target, found.as_deref());
        found
    }

    /// Looks much up of metrics that are not derived; what came of each is in its place. Nothing is waited for between
    /// one and the next: from a host it costs a fraction of what it costs one by one.
    ///
    /// # Errors
    /// Those of the source as a whole; those of a single one are in its place.
    pub fn look_up_each(&mut self, lookups: &[Lookup]) -> Result<Vec<std::result::Result<Found, PmError>>> {
        let found = self.provider.look_up_each(lookups)?;
        for (lookup, found) in lookups.iter().zip(&found) {
            match (lookup, found) {
                (Lookup::Labels(target), Ok(Found::Labels(sets))) => {
                    debug::labels::<PmError>(*target, Ok(sets));
                }
                (Lookup::Labels(target), Err(error)) => debug::labels(*target, Err(error)),
                (Lookup::Instances(indom), Ok(Found::Instances(instances))) => {
                    debug::instances::<PmError>(*indom, Ok(instances));
                }
                (Lookup::Instances(indom), Err(error)) => debug::instances(*indom, Err(error)),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Stores values: real metrics only (`pmStore(3)`).
    ///
    /// # Errors
    /// The agent's, or `PM_ERR_NOTHOST`.
    pub fn store(&mut self, sets: &[ValueSet]) -> Result<()> {
        self.provider.store(sets)
    }

    /// The name of the host that the metrics are of (`pmGetContextHostName(3)`).
    ///
    /// # Errors
    /// Those of the source.
    pub fn host_name(&mut self) -> Result<String> {
        self.provider.host_name()
    }

    /// The time zone of that host, as TZ has it (`pmNewContextZone(3)`).
    ///
    /// # Errors
    /// `PM_ERR_VALUE` where the source does not tell.
    pub fn time_zone(&mut self) -> Result<String> {
        self.provider.time_zone()
    }

    /// Wants instances as well: see [`Profile::add`].
    ///
    /// # Errors
    /// `PM_ERR_PROFILESPEC` for a list without a domain.
    pub fn add_profile(&mut self, indom: InDom, instances: &[Inst]) -> Result<()> {
        self.profile_version = new_version();
        self.profile.add(indom, instances)?;
        trace!(target: "pcp::profile", "instances wanted: {}", debug::wanted(&self.profile));
        Ok(())
    }

    /// Does not want instances any more: see [`Profile::delete`].
    ///
    /// # Errors
    /// `PM_ERR_PROFILESPEC` for a list without a domain.
    pub fn delete_profile(&mut self, indom: InDom, instances: &[Inst]) -> Result<()> {
        self.profile_version = new_version();
        self.profile.delete(indom, instances)?;
        trace!(target: "pcp::profile", "instances wanted: {}", debug::wanted(&self.profile));
        Ok(())
    }

    /// Which instances are wanted.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Adds a derived metric for this context only (`pmAddDerived(3)`).
    ///
    /// # Errors
    /// [`ClientError::Derived`]: why it is refused, or why it does not bind. [`ClientError::Busy`] while a fetch is
    /// under way, as its operands cannot be asked about: nothing is added then.
    pub fn add_derived(&mut self, name: &str, expression: &str) -> Result<Pmid> {
        self.expect_idle()?;
        self.fetch.valid = false;
        let registry = registry::snapshot(&self.registry);
        let mut metrics = Metrics::new(&mut self.provider, &self.profile, &mut self.ahead);
        let added = self.derived.attach(&registry, &mut metrics).add(name, expression);
        added.map_err(|error| ClientError::Derived(Box::new(error)))
    }

    /// The engine's part of the context, to ask about definitions and set limits.
    pub fn derived(&mut self) -> &mut DerivedContext {
        self.fetch.valid = false;
        &mut self.derived
    }

    /// Fetches values into `out`, one set for each metric in the order asked for (`pmFetch(3)`). What the collector
    /// says has changed is in [`Fetched::changes`], and returned.
    ///
    /// # Errors
    /// Those of the source as a whole; a metric's own is in its set. `out` is empty then.
    pub fn fetch(&mut self, pmids: &[Pmid], out: &mut Fetched) -> Result<StateChange> {
        self.start_fetch(pmids)?;
        let done = provider::finish(&mut *self.provider, out);
        self.pending = false;
        let done = done.and_then(|()| self.compute(out, push));
        if done.is_err() {
            out.clear();
        }
        debug::answered(&done, out);
        done.map(|()| out.changes)
    }

    /// Fetches as [`Context::fetch`] does, but hands values of derived metrics to `take` as they were computed, with the metric's place
    /// among those asked for: instances and values as slices, which are not turned into value sets first. Their sets in `out`
    /// are empty; a derived metric that has none but an error has it in its set.
    ///
    /// ```no_run
    /// use pcp_client::{Context, Fetched};
    /// use pcp_client::Numbers;
    ///
    /// let mut context = Context::host("local:")?;
    /// let util = context.add_derived("disk.util", "rate(disk.dev.avactive) / 10")?;
    /// let (mut out, mut most) = (Fetched::new(), 0.0_f64);
    /// context.fetch_columns(&[util], &mut out, |_, column| {
    ///     if let Some(Numbers::Double(values)) = column.values.numbers() {
    ///         most = values.iter().copied().fold(most, f64::max);
    ///     }
    /// })?;
    /// # Ok::<(), pcp_client::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Context::fetch`].
    pub fn fetch_columns(
        &mut self,
        pmids: &[Pmid],
        out: &mut Fetched,
        mut take: impl FnMut(usize, &Column),
    ) -> Result<StateChange> {
        self.start_fetch(pmids)?;
        let done = provider::finish(&mut *self.provider, out);
        self.pending = false;
        let done = done.and_then(|()| {
            self.compute(out, |out, pmid, column| {
                take(out.len(), column);
                out.begin_set(pmid);
                out.end_set();
            })
        });
        if done.is_err() {
            out.clear();
        }
        debug::answered(&done, out);
        done.map(|()| out.changes)
    }

    /// Starts a fetch; [`Context::advance`] goes on with it.
    ///
    /// # Errors
    /// As [`Context::fetch`].
    pub fn start_fetch(&mut self, pmids: &[Pmid]) -> Result<()> {
        // What is under way must find its own request, and nothing can be bound meanwhile.
        self.expect_idle()?;
        self.prepare(pmids);
        let wanted = if self.fetch.derived { &self.fetch.expanded } else { &self.fetch.request };
        debug::asked(&self.fetch.request, wanted.get(pmids.len()..).unwrap_or_default(), &self.profile);
        let (profile, profile_version) = (&self.profile, self.profile_version);
        self.ahead.clear();
        self.provider.start_fetch(FetchRequest { pmids: wanted, profile, profile_version })?;
        self.pending = true;
        Ok(())
    }

    /// Goes on with a fetch or a reconnect that was started, without waiting (but for instances that a derived
    /// metric asks for). True when it is done.
    ///
    /// # Errors
    /// As [`Context::fetch`].
    pub fn advance(&mut self, out: &mut Fetched) -> Result<bool> {
        let is_fetch = self.provider.is_connected();
        let advanced = self.provider.advance(out);
        self.pending = matches!(advanced, Ok(false));
        if self.pending {
            return Ok(false);
        }
        let done = advanced.and_then(|_| self.compute(out, push));
        if is_fetch {
            debug::answered(&done, out);
        }
        done.map(|()| true)
    }

    /// What has to come before [`Context::advance`] can go on; `None` if it can at once.
    pub fn waiting(&self) -> Option<Waiting<'_>> {
        self.provider.waiting()
    }

    /// Connects again, with the same source (`pmReconnectContext(3)`). Derived metrics are bound again.
    ///
    /// # Errors
    /// Why it cannot be reached; `-ETIMEDOUT` while it is too early after a failed attempt.
    pub fn reconnect(&mut self) -> Result<()> {
        self.start_reconnect()?;
        let done = provider::finish(&mut *self.provider, &mut Fetched::new());
        self.pending = false;
        done
    }

    /// Starts to connect again; [`Context::advance`] goes on with it.
    ///
    /// # Errors
    /// As [`Context::reconnect`].
    pub fn start_reconnect(&mut self) -> Result<()> {
        // Another collector may answer now: what was bound to the metrics of the last one holds no longer, and a fetch
        // that was under way has lost its answer.
        self.fetch = Prepared::default();
        self.derived.reset();
        self.ahead.clear();
        self.pending = false;
        self.provider.start_reconnect()?;
        self.pending = true;
        Ok(())
    }
}

/// # Archives
///
/// Everything but the mode is `PM_ERR_NOTARCHIVE` of a source that lives.
impl Context {
    /// Sets what fetches of an archive give, and from when on; `None` keeps the place (`pmSetMode(3)`).
    ///
    /// # Errors
    /// `PM_ERR_MODE` for a mode that the source does not have.
    pub fn set_mode(&mut self, mode: Mode, origin: Option<Timestamp>) -> Result<()> {
        trace!(
            target: "pcp::timecontrol",
            "mode {mode:?}, from {}",
            origin.map_or_else(|| "where it is".to_owned(), |origin| origin.to_string()),
        );
        match self.provider.recording_mut() {
            Some(recording) => recording.set_mode(mode, origin),
            None if mode == Mode::Live => Ok(()),
            None => Err(PmError::MODE.into()),
        }
    }

    /// What fetches give, and where an archive is: the time of the last record, or of the next sample.
    pub fn mode(&self) -> (Mode, Timestamp) {
        self.provider.recording().map_or((Mode::Live, Timestamp::default()), Recording::mode)
    }

    /// The next record of an archive with all that is in it, forward or backward, without derived metrics; an empty
    /// one where recording was interrupted (`pmFetchArchive(3)`).
    ///
    /// # Errors
    /// `PM_ERR_NOTARCHIVE`, `PM_ERR_MODE` while values are interpolated, `PM_ERR_EOL`; those of reading.
    pub fn fetch_record(&mut self, out: &mut Fetched) -> Result<()> {
        let done = self.recording()?.fetch_record(out);
        debug::answered(&done, out);
        done
    }

    /// The same of the next record that has this metric, and only what it has of it; a fraction of the time, where records are
    /// long.
    ///
    /// # Errors
    /// As [`Context::fetch_record`].
    pub fn fetch_record_of(&mut self, pmid: Pmid, out: &mut Fetched) -> Result<()> {
        let done = self.recording()?.fetch_record_of(pmid, out);
        debug::answered(&done, out);
        done
    }

    /// Start and end of an archive (`pmGetArchiveLabel(3)`, `pmGetArchiveEnd(3)`).
    ///
    /// # Errors
    /// `PM_ERR_NOTARCHIVE`; an archive without a record that can be read.
    pub fn span(&mut self) -> Result<(Timestamp, Timestamp)> {
        self.recording()?.span()
    }

    /// What of damaged archives was done without since this was asked last, a line each: for people. Of the end it is known once
    /// that was looked for ([`Context::span`]). None of other sources.
    pub fn take_mended(&mut self) -> Vec<String> {
        self.provider.recording_mut().map(|recording| recording.take_mended()).unwrap_or_default()
    }

    /// Where a metric is among those of an archive, in the order in which records have them, mostly: records that have what is asked for
    /// in this order can be handed on as they are. `None` if it is none of them, and of other sources.
    pub fn recorded_place(&self, pmid: Pmid) -> Option<u32> {
        self.provider.recording().and_then(|recording| recording.place_of(pmid))
    }

    /// The instances that an instance domain of an archive had at a time, wherever fetches are.
    ///
    /// # Errors
    /// `PM_ERR_NOTARCHIVE`, `PM_ERR_INDOM_LOG`.
    pub fn instances_at(&mut self, indom: InDom, time: Timestamp) -> Result<Vec<Instance>> {
        self.recording()?.instances_at(some(indom)?, time)
    }

    /// All instances that an instance domain of an archive ever had (`pmGetInDomArchive(3)`).
    ///
    /// # Errors
    /// `PM_ERR_NOTARCHIVE`, `PM_ERR_INDOM_LOG`.
    pub fn instances_ever(&mut self, indom: InDom) -> Result<Vec<Instance>> {
        self.recording()?.instances_ever(indom)
    }

    /// The instance of an archive that ever had a name (`pmLookupInDomArchive(3)`).
    ///
    /// # Errors
    /// `PM_ERR_NOTARCHIVE`, `PM_ERR_INDOM_LOG`, `PM_ERR_INST_LOG`.
    pub fn instance_ever(&mut self, indom: InDom, name: &str) -> Result<Inst> {
        self.recording()?.instance_ever(some(indom)?, name)
    }

    /// Takes in what a logger has written to an archive since. Whether there is anything: after `PM_ERR_EOL`
    /// fetches go on then.
    ///
    /// # Errors
    /// `PM_ERR_NOTARCHIVE`; those of reading.
    pub fn refresh(&mut self) -> Result<bool> {
        self.recording()?.refresh()
    }

    fn recording(&mut self) -> Result<&mut dyn Recording> {
        self.provider.recording_mut().ok_or(ClientError::Pcp(PmError::NOTARCHIVE))
    }
}

impl Context {
    fn expect_idle(&self) -> Result<()> {
        if self.pending { Err(ClientError::Busy) } else { Ok(()) }
    }

    /// Finds out what a fetch has to ask the provider for.
    fn prepare(&mut self, pmids: &[Pmid]) {
        let fetch = &mut self.fetch;
        if !pmids.iter().any(|&pmid| pmid.is_derived()) {
            fetch.request.clear();
            fetch.request.extend_from_slice(pmids);
            fetch.derived = false;
            return;
        }
        let registry = registry::snapshot(&self.registry);
        if fetch.derived && fetch.valid && fetch.request == pmids && self.derived.is_current(&registry) {
            return;
        }
        fetch.request.clear();
        fetch.request.extend_from_slice(pmids);
        fetch.derived = true;
        fetch.valid = true;
        fetch.expanded.clone_from(&fetch.request);
        let mut metrics = Metrics::new(&mut self.provider, &self.profile, &mut self.ahead);
        self.derived.attach(&registry, &mut metrics).expand(&mut fetch.expanded);
        fetch.places.clear();
        for (at, &pmid) in fetch.expanded.iter().enumerate() {
            fetch.places.entry(pmid).or_insert(at);
        }
    }

    /// Makes the answer out of what was fetched: sets of operands go, those of derived metrics come, put there by `push`.
    fn compute(
        &mut self,
        out: &mut Fetched,
        mut push: impl FnMut(&mut Fetched, Pmid, &Column),
    ) -> Result<()> {
        if !self.fetch.derived || out.len() != self.fetch.expanded.len() {
            return Ok(());
        }
        let fetch = &self.fetch;
        let mut metrics = Metrics::new(&mut self.provider, &self.profile, &mut self.ahead).at(out.timestamp);
        // As definitions stood when the fetch was prepared: what has been defined since was not asked about.
        let mut attached = self.derived.attach_as_is(&mut metrics);
        attached.begin_fetch();
        let mut answers = attached.answers(&fetch.request, out.timestamp);
        out.set_aside();
        for (at, &pmid) in fetch.request.iter().enumerate() {
            match answers.answer(pmid, &mut Operands { fetched: out, places: &fetch.places }) {
                Answer::Values(column) => push(out, pmid, column),
                Answer::Error(error) => out.push_error(pmid, error),
                Answer::OfSource => out.keep(at),
            }
        }
        Ok(())
    }
}

/// The version of a profile that differs from all others in this program: a source that changes hands has the profile of another context.
fn new_version() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Appends a computed set; in place of values that do not fit into a result stands the reason.
fn push(out: &mut Fetched, pmid: Pmid, column: &Column) {
    out.begin_set(pmid);
    let one_by_one = |out: &mut Fetched| {
        column.ids.iter().enumerate().try_for_each(|(at, &inst)| match column.values.get(at) {
            Some(value) => out.push_value(inst, &value),
            None => {
                debug_assert!(false, "a column has a value for each of its instances");
                Ok(())
            }
        })
    };
    let pushed = match column.values.numbers() {
        Some(numbers) => out.push_numbers(&column.ids, numbers),
        None => one_by_one(out),
    };
    match pushed {
        Ok(()) => out.end_set(),
        Err(error) => out.fail_set(error),
    }
}

/// A metric without instances has no instance domain to ask about.
fn some(indom: InDom) -> Result<InDom> {
    if indom == InDom::NULL { Err(PmError::INDOM.into()) } else { Ok(indom) }
}

/// What the source says of its names, which definitions of derived metrics add to. Without any names there is nothing that these
/// could be in front of or behind: then, and when the source as a whole fails, that is all there is to say.
fn or_no_names<T>(real: Result<T>) -> Result<Result<T>> {
    match real {
        Err(error @ ClientError::Pcp(PmError::NOPMNS)) => Err(error),
        Err(error) if !matches!(error, ClientError::Pcp(_)) => Err(error),
        real => Ok(real),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{HostOptions, HostSpec, LocalAgents};

    fn host(spec: &str) -> Context {
        let spec: HostSpec = spec.parse().expect("a host");
        Context::host_unconnected(&spec, &HostOptions::default()).expect("not yet connected")
    }

    #[test]
    fn with_its_source_a_context_gives_away_what_is_prepared_for_it() {
        let (mut one, mut other) = (host("web1"), host("web2"));
        one.add_profile(InDom::new(60, 1), &[3]).expect("a list of a domain");
        (one.fetch.valid, other.fetch.valid) = (true, true);
        one.swap_source(&mut other).expect("both are on hosts");
        assert!(!one.fetch.valid && !other.fetch.valid, "a fetch finds out anew what it needs");
        assert!(one.profile_version != 0 && other.profile_version == 0, "profiles stay");
        one.pending = true;
        assert!(matches!(one.swap_source(&mut other), Err(ClientError::Busy)));
        assert!(matches!(other.swap_source(&mut one), Err(ClientError::Busy)));
    }

    #[test]
    fn sources_of_different_kinds_are_not_exchanged() {
        let agents = LocalAgents::of_conf("", Path::new("/"));
        let mut local = Context::local_agents(agents, None, Box::new(|_| {}));
        let refused = local.swap_source(&mut host("web1"));
        assert_eq!(refused.map_err(|error| error.code()), Err(PmError::NOCONTEXT));
        assert_eq!(local.kind(), ContextKind::Local);
    }
}

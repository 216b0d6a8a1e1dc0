//! Derived metrics as one context sees them: identity, binding and evaluation (
//! `docs/pcp/derived-language.md` 2.3 and 8.1, `docs/pcp/derived-eval.md` 2 and 3).
//!
//! A context takes the registry's definitions over when it is refreshed, binds them one by one the first
//! time they are asked about, and keeps their history. Lookups by name and PMID are hash lookups. What a
//! definition names is asked of the source together with what the next ones name: of one definition at first,
//! then of twice as many as the time before.
//!
//! What needs metrics (binding and fetching) is asked of a context that is [attached](DerivedContext::attach)
//! to a source of them for that time; all else of the context itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use rustc_hash::FxHashMap;

use super::bind::{Binder, Bound, Names, NotBound, Resolved};
use super::column::Column;
use super::debug;
use super::diagnostic::BindError;
use super::dialect::{Dialect, Level};
use super::equivalent::EquivalentIndoms;
use super::machine::{Fetch, Machine, Program};
use super::meta::Meta;
use super::nodes::Rules;
use super::parser::parse;
use super::registry::{DERIVED_DOMAIN, Definition, HelpKind, RegisterError, Registry, Scope, report};
use super::source::{MetricSource, OperandValues};
use pcp_model::{PmError, Pmid, Timestamp};

/// Definitions that may be in each other's place one within the other.
const MAX_NESTING: usize = 64;
/// The first PMID of a context's own definitions, and the flag they carry.
const FIRST_OWN: (u16, u16) = (2047, 1023);
const OWN_FLAG: u32 = 1 << 31;
/// Definitions whose names are asked about together, at most.
const MAX_AHEAD: usize = 1024;

/// A derived metric in a context.
#[derive(Debug)]
struct Metric {
    /// As the definition has it.
    pmid: Pmid,
    definition: Arc<Definition>,
    scope: Scope,
    state: State,
    /// Hidden by a definition of the context's own with the same name.
    masked: bool,
    /// The source has been told to expect its names.
    expected: bool,
}

#[derive(Debug)]
enum State {
    Unbound,
    /// Being bound: meeting it again is a cycle.
    Binding,
    /// With the program from the first evaluation on.
    Bound(Arc<Bound>, Option<Program>),
    /// The name is a real metric's, which wins.
    Real,
    Broken(BindError),
}

/// Why a definition is not added to a context, or added but unusable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AddError {
    /// It is not added.
    #[error(transparent)]
    Refused(RegisterError),
    /// It is added, and its name is taken, but it does not bind.
    #[error("{}", .0.text())]
    Broken(BindError),
}

impl AddError {
    /// The message of `pmAddDerivedMetric(3)`.
    pub fn report(&self, name: &str, expression: &str) -> String {
        const CALL: &str = "Error: pmAddDerivedMetric";
        match self {
            AddError::Refused(error @ RegisterError::Syntax(_)) => {
                let text = error.text();
                report(&format!("Syntax {CALL}"), name, expression, error.position(), text.as_deref())
            }
            AddError::Refused(error) => {
                format!("{CALL}(\"{name}\", ...): returns {}\n{error}\n", PmError::BADDERIVE.0)
            }
            AddError::Broken(error) => {
                report(&format!("Semantic {CALL}"), name, expression, 0, Some(error.text()))
            }
        }
    }
}

/// The derived metrics of a context, their bindings and their history.
#[derive(Debug, Default)]
pub struct DerivedContext {
    metrics: Vec<Metric>,
    by_pmid: FxHashMap<Pmid, usize>,
    /// The place that was found last: whoever asks for many asks mostly in their order, and finds the next one beside it.
    last: AtomicUsize,
    /// The metric that a name stands for.
    by_name: HashMap<Arc<str>, usize>,
    /// Names of the context's own definitions.
    own: HashSet<Arc<str>>,
    /// The registry's, as they were when it was looked at last.
    dialect: Dialect,
    equivalent: Arc<EquivalentIndoms>,
    version: u64,
    limit: Option<i32>,
    next_own: Option<(u16, u16)>,
    machine: Machine,
    messages: Vec<String>,
    /// What is being bound, outermost first.
    binding: Vec<Pmid>,
    /// Definitions whose names the source was told to expect the last time.
    ahead: usize,
}

/// Definitions, names and texts, as of the last refresh.
impl DerivedContext {
    /// A new context: everything unbound.
    pub fn new() -> DerivedContext {
        DerivedContext { next_own: Some(FIRST_OWN), ..DerivedContext::default() }
    }

    /// Forgets bindings, history and the context's own definitions (`pmReconnectContext(3)`).
    pub fn reset(&mut self) {
        *self = DerivedContext { limit: self.limit, ..DerivedContext::new() };
    }

    /// The largest number of the context's own definitions, -1 for no limit.
    pub fn set_limit(&mut self, limit: i32) {
        self.limit = Some(limit);
    }

    /// What PCP would have printed since the last call: the errors of global definitions that were
    /// bound, one line each.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Takes over what the registry has that the context does not know yet, and drops what it no longer
    /// has. Unchanged definitions keep their bindings and history.
    pub fn refresh(&mut self, registry: &Registry) -> &mut DerivedContext {
        // These change without a new version: they are for definitions that are bound from now on.
        self.dialect = registry.dialect;
        if !Arc::ptr_eq(&self.equivalent, &registry.equivalent) {
            self.equivalent = registry.equivalent.clone();
        }
        if self.version != registry.version {
            self.version = registry.version;
            self.drop_removed(registry);
            self.add_new(registry);
            self.index();
        }
        self
    }

    /// The context together with a source of metrics, for a while; refreshed, so that it knows all that the
    /// registry has.
    pub fn attach<'a>(&'a mut self, registry: &Registry, source: &'a mut dyn MetricSource) -> Attached<'a> {
        self.refresh(registry);
        Attached { context: self, source }
    }

    /// The same without a refresh: for the answer to a fetch that was prepared before.
    pub fn attach_as_is<'a>(&'a mut self, source: &'a mut dyn MetricSource) -> Attached<'a> {
        Attached { context: self, source }
    }

    /// The derived metric of a name. Real metrics win: ask for those first.
    pub fn pmid(&self, name: &str) -> Option<Pmid> {
        Some(self.metrics.get(*self.by_name.get(name)?)?.definition.pmid)
    }

    /// The name of a derived metric, whether it binds or not.
    pub fn name(&self, pmid: Pmid) -> Option<&Arc<str>> {
        let metric = self.metric(pmid)?;
        Some(&metric.definition.name).filter(|_| !metric.masked)
    }

    /// The definition of a derived metric.
    pub fn definition(&self, pmid: Pmid) -> Option<&Arc<Definition>> {
        Some(&self.metric(pmid)?.definition)
    }

    /// A help text of a derived metric.
    ///
    /// # Errors
    /// `PM_ERR_PMID` for an unknown metric, `PM_ERR_TEXT` if there is no text.
    pub fn help(&self, pmid: Pmid, kind: HelpKind) -> Result<String, PmError> {
        let metric = self.metric(pmid).ok_or(PmError::PMID)?;
        if metric.scope == Scope::Context && self.dialect.level == Level::V603 {
            return Err(PmError::PMID);
        }
        metric.definition.help_text(kind).map(str::to_owned)
    }

    /// Names and PMIDs below a prefix (whole words; all for an empty one), in the order of definition,
    /// hidden ones left out. Nothing is bound: ask for [`Attached::meta`] to leave broken ones out.
    pub fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a Arc<str>, Pmid)> + 'a {
        let below = move |name: &str| match name.strip_prefix(prefix) {
            Some(rest) => prefix.is_empty() || rest.is_empty() || rest.starts_with('.'),
            None => false,
        };
        self.metrics
            .iter()
            .filter(move |metric| !metric.masked && below(&metric.definition.name))
            .map(|metric| (&metric.definition.name, metric.definition.pmid))
    }

    /// Whether a metric is derived and bound in this context.
    pub fn is_bound(&self, pmid: Pmid) -> bool {
        self.bound_at(pmid).is_some()
    }

    /// Whether the context has taken over all that the registry has.
    pub fn is_current(&self, registry: &Registry) -> bool {
        self.version == registry.version
    }

    /// Whether there is a derived metric of this PMID in this context, bound or not.
    pub fn knows(&self, pmid: Pmid) -> bool {
        self.place(pmid).is_some()
    }

    /// Bytes that the context holds for values of earlier fetches.
    pub fn history_bytes(&self) -> usize {
        self.machine.history_bytes()
    }

    /// The place of a metric.
    fn place(&self, pmid: Pmid) -> Option<usize> {
        let last = self.last.load(Ordering::Relaxed);
        let beside = self.metrics.get(last..).unwrap_or_default().iter().take(2);
        let at = match beside.map(|metric| metric.pmid).position(|found| found == pmid) {
            Some(behind) => last + behind,
            None => *self.by_pmid.get(&pmid)?,
        };
        self.last.store(at, Ordering::Relaxed);
        Some(at)
    }

    /// The place of a metric that is bound.
    pub(super) fn bound_at(&self, pmid: Pmid) -> Option<usize> {
        let at = self.place(pmid)?;
        matches!(self.metrics.get(at)?.state, State::Bound(..)).then_some(at)
    }

    pub(super) fn level(&self) -> Level {
        self.dialect.level
    }

    fn metric(&self, pmid: Pmid) -> Option<&Metric> {
        let metric = self.metrics.get(self.place(pmid)?);
        debug_assert!(metric.is_some(), "places are those of metrics that are there");
        metric
    }

    /// Drops what the registry no longer has, and takes over what it says of the rest.
    fn drop_removed(&mut self, registry: &Registry) {
        let mut kept = Vec::with_capacity(self.metrics.len());
        for mut metric in self.metrics.drain(..) {
            match registry.find_pmid(metric.definition.pmid) {
                // Help texts may have come.
                Some(definition) => metric.definition = definition.clone(),
                // The registry does not know them.
                None if metric.scope == Scope::Context => {}
                None => {
                    if let State::Bound(_, Some(program)) = metric.state {
                        self.machine.release(program);
                    }
                    continue;
                }
            }
            kept.push(metric);
        }
        self.metrics = kept;
    }

    /// Takes over what is new.
    fn add_new(&mut self, registry: &Registry) {
        let present: HashSet<Pmid> = self.metrics.iter().map(|metric| metric.definition.pmid).collect();
        for definition in registry.definitions() {
            if !present.contains(&definition.pmid) {
                let masked = self.own.contains(&definition.name);
                let (pmid, definition, scope) = (definition.pmid, definition.clone(), Scope::Global);
                let state = State::Unbound;
                self.metrics.push(Metric { pmid, definition, scope, state, masked, expected: false });
            }
        }
    }

    /// Finds metrics by name and PMID again after some have come or gone.
    fn index(&mut self) {
        self.by_pmid.clear();
        self.by_name.clear();
        self.by_pmid.reserve(self.metrics.len());
        self.by_name.reserve(self.metrics.len());
        // The first of a name wins: definitions do not change what a name means by coming later.
        for (at, metric) in self.metrics.iter().enumerate() {
            self.by_pmid.entry(metric.pmid).or_insert(at);
            if !metric.masked {
                self.by_name.entry(metric.definition.name.clone()).or_insert(at);
            }
        }
    }

    /// Hides the global definition of a name.
    fn mask(&mut self, name: &str) {
        if let Some(at) = self.by_name.remove(name)
            && let Some(metric) = self.metrics.get_mut(at)
        {
            metric.masked = true;
        }
    }

    /// A PMID for a definition of the context's own: they count down from the last one.
    fn next_own_pmid(&mut self) -> Option<Pmid> {
        let (cluster, item) = self.next_own?;
        self.next_own = match (cluster, item) {
            (cluster, item) if item > 1 => Some((cluster, item - 1)),
            (cluster, _) if cluster > 0 => Some((cluster - 1, FIRST_OWN.1)),
            _ => None,
        };
        Some(Pmid(Pmid::new(DERIVED_DOMAIN, cluster, item).0 | OWN_FLAG))
    }
}

/// A context that can ask about metrics: made by [`DerivedContext::attach`].
pub struct Attached<'a> {
    pub(super) context: &'a mut DerivedContext,
    pub(super) source: &'a mut dyn MetricSource,
}

impl Attached<'_> {
    /// Adds a definition for this context only, and binds it (`pmAddDerived(3)`).
    ///
    /// # Errors
    /// Why it is refused, or why it does not bind.
    pub fn add(&mut self, name: &str, expression: &str) -> Result<Pmid, AddError> {
        let added = self.define(name, expression);
        if let Err(AddError::Refused(error)) = &added {
            debug::defined(name, expression, Err(error));
        }
        added
    }

    fn define(&mut self, name: &str, expression: &str) -> Result<Pmid, AddError> {
        let context = &mut *self.context;
        let limit = i64::from(context.limit.unwrap_or(-1));
        if limit != -1 && context.own.len() as i64 >= limit {
            return Err(AddError::Refused(RegisterError::TooMany(Scope::Context)));
        }
        if context.own.contains(name) {
            return Err(AddError::Refused(RegisterError::Duplicate(Scope::Context)));
        }
        let tree = match parse(expression, &context.dialect) {
            Ok(tree) => tree,
            Err(error) => {
                // 6.0.3 takes the name before it looks at the expression.
                if context.dialect.level == Level::V603 {
                    context.mask(name);
                }
                return Err(AddError::Refused(error.into()));
            }
        };
        let pmid = context.next_own_pmid();
        let pmid = pmid.ok_or(AddError::Refused(RegisterError::Exhausted(Scope::Context)))?;
        // Even if it does not bind: the name is the context's own from now on.
        context.mask(name);
        let definition = Arc::new(Definition::new(name, expression, tree, pmid));
        debug::defined(name, expression, Ok(&definition));
        let at = context.metrics.len();
        context.own.insert(definition.name.clone());
        context.by_name.insert(definition.name.clone(), at);
        context.by_pmid.insert(pmid, at);
        let (scope, state) = (Scope::Context, State::Unbound);
        context.metrics.push(Metric { pmid, definition, scope, state, masked: false, expected: false });
        self.bind(at);
        match self.state(at) {
            Some(State::Broken(error)) if error.add_text(self.context.dialect.level).is_some() => {
                Err(AddError::Broken(error.clone()))
            }
            _ => Ok(pmid),
        }
    }

    /// Metadata of a derived metric, which is bound if it is not yet (`pmLookupDesc(3)`).
    ///
    /// # Errors
    /// `PM_ERR_PMID` for a metric that is unknown or hidden here, `PM_ERR_BADDERIVE` for one that does
    /// not bind.
    pub fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        self.usable(pmid).map(|bound| bound.meta())
    }

    /// Makes sure that a derived metric can be evaluated: it is bound if it is not yet.
    ///
    /// # Errors
    /// As [`Attached::meta`].
    pub fn prepare(&mut self, pmid: Pmid) -> Result<(), PmError> {
        self.usable(pmid).map(drop)
    }

    fn usable(&mut self, pmid: Pmid) -> Result<&Bound, PmError> {
        let at = self.context.place(pmid).ok_or(PmError::PMID)?;
        if self.context.metrics.get(at).is_some_and(|metric| metric.masked) {
            return Err(PmError::PMID);
        }
        self.bind(at);
        match self.state(at) {
            Some(State::Bound(bound, _)) => Ok(bound),
            _ => Err(PmError::BADDERIVE),
        }
    }

    /// The binding of a derived metric, for explaining it.
    ///
    /// # Errors
    /// Why it does not bind; `None` if there is no such metric or a real one of its name.
    pub fn binding(&mut self, pmid: Pmid) -> Result<Arc<Bound>, Option<BindError>> {
        let at = self.context.place(pmid).ok_or(None)?;
        self.bind(at);
        match self.state(at) {
            Some(State::Bound(bound, _)) => Ok(bound.clone()),
            Some(State::Broken(error)) => Err(Some(error.clone())),
            _ => Err(None),
        }
    }

    /// Binds what a fetch asks for, and appends the operand metrics to be fetched with it to `wanted`
    /// (which starts with what is asked for): each once, in the order of first appearance.
    pub fn expand(&mut self, wanted: &mut Vec<Pmid>) {
        let asked = wanted.clone();
        let mut present: HashSet<Pmid> = asked.iter().copied().collect();
        for pmid in asked {
            let Some(at) = self.context.place(pmid) else {
                continue;
            };
            self.bind(at);
            if let Some(State::Bound(bound, _)) = self.state(at) {
                wanted.extend(bound.operands().filter(|&operand| present.insert(operand)));
            }
        }
    }

    /// Begins a fetch: values of operands are asked for afresh.
    pub fn begin_fetch(&mut self) {
        self.context.machine.begin();
    }

    /// Evaluates a derived metric that is bound ([`DerivedContext::bound_at`]) with the values of the fetch that
    /// was begun last. Evaluating twice in a fetch advances the history twice, as in PCP.
    pub(super) fn evaluate(
        &mut self,
        at: usize,
        time: Timestamp,
        values: &mut dyn OperandValues,
    ) -> Result<&Column, PmError> {
        let DerivedContext { metrics, machine, .. } = &mut *self.context;
        let Some(Metric { state: State::Bound(bound, program), definition, .. }) = metrics.get_mut(at) else {
            debug_assert!(false, "it is the place of a metric that is bound");
            return Err(PmError::PMID);
        };
        // Not when it is bound: many definitions are looked at that are never fetched.
        let program = program.get_or_insert_with(|| machine.compile(bound));
        let result = machine.evaluate(program, &mut Fetch { time, values, source: self.source });
        if debug::shows_values() {
            debug::evaluated(definition, time, &result);
        }
        result
    }

    fn state(&self, at: usize) -> Option<&State> {
        self.context.metrics.get(at).map(|metric| &metric.state)
    }

    /// Binds a metric, unless it has been tried.
    fn bind(&mut self, at: usize) {
        let Some(metric) = self.context.metrics.get_mut(at) else {
            debug_assert!(false, "places are those of metrics that are there");
            return;
        };
        if !matches!(metric.state, State::Unbound) {
            return;
        }
        if !metric.expected {
            self.look_ahead(at);
        }
        let Some(metric) = self.context.metrics.get_mut(at) else { return };
        // Seen by definitions within this one: who meets it is part of a cycle.
        metric.state = State::Binding;
        let (definition, scope) = (metric.definition.clone(), metric.scope);
        self.context.binding.push(definition.pmid);
        let state = self.bound(&definition, scope);
        self.context.binding.pop();
        if let Some(metric) = self.context.metrics.get_mut(at) {
            metric.state = state;
        }
    }

    /// Tells the source which names this definition asks about, and those after it, as whoever asks about one mostly asks
    /// about others. Each definition once.
    fn look_ahead(&mut self, at: usize) {
        let many = (2 * self.context.ahead).clamp(1, MAX_AHEAD);
        self.context.ahead = many;
        let (before, from) = self.context.metrics.split_at_mut_checked(at).unwrap_or_default();
        let next = from.iter_mut().chain(before);
        let next = next.filter(|metric| matches!(metric.state, State::Unbound) && !metric.expected);
        let mut names: Vec<&str> = Vec::new();
        for metric in next.take(many) {
            metric.expected = true;
            let definition = &*metric.definition;
            names.push(&definition.name);
            names.extend(definition.tree.nodes().iter().filter_map(|node| node.kind.name()));
        }
        self.source.expect(&names);
    }

    fn bound(&mut self, definition: &Definition, scope: Scope) -> State {
        // Asked again after a reset only, so a real metric that comes later does not take the place.
        if self.source.pmid(&definition.name).is_ok() {
            debug::real(definition);
            return State::Real;
        }
        let (dialect, equivalent) = (self.context.dialect, self.context.equivalent.clone());
        let rules = Rules::new(&dialect, &equivalent);
        let binder = Binder { dialect: &dialect, rules, per_context: scope == Scope::Context };
        let bound = binder.bind(&definition.tree, self);
        debug::bound(definition, &bound);
        self.context.messages.extend(equivalent.complaint());
        match bound {
            Ok(bound) => State::Bound(Arc::new(bound), None),
            Err(error) => {
                if scope == Scope::Global {
                    self.context.messages.extend(error.printed(&definition.name, dialect.level));
                }
                State::Broken(error)
            }
        }
    }
}

/// Names as a definition in a context means them.
impl Names for Attached<'_> {
    fn resolve(&mut self, name: &str) -> Resolved {
        match self.source.pmid(name) {
            Ok(pmid) => {
                debug::resolved(name, &pmid);
                Resolved::Real(pmid)
            }
            Err(error) => match self.context.pmid(name) {
                Some(pmid) => {
                    debug::resolved(name, &format_args!("{pmid}, derived"));
                    Resolved::Derived(pmid)
                }
                None => {
                    debug::resolved(name, &format_args!("not known here: {error}"));
                    Resolved::Unknown
                }
            },
        }
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        let meta = self.source.meta(pmid);
        debug::operand(pmid, &meta);
        meta
    }

    fn derived(&mut self, pmid: Pmid) -> Result<Arc<Bound>, NotBound> {
        let at = self.context.place(pmid).ok_or(NotBound::Broken)?;
        // Each level is a few frames of the stack: the one recursion there is.
        if self.context.binding.len() >= MAX_NESTING {
            return Err(NotBound::TooDeep);
        }
        self.bind(at);
        match self.state(at) {
            Some(State::Bound(bound, _)) => Ok(bound.clone()),
            Some(State::Binding) => {
                let name = |&pmid: &Pmid| Some(self.context.metric(pmid)?.definition.name.clone());
                let cycle = self.context.binding.iter().skip_while(|&&other| other != pmid);
                Err(NotBound::Cycle(cycle.chain([&pmid]).filter_map(name).collect()))
            }
            _ => Err(NotBound::Broken),
        }
    }
}

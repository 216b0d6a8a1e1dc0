//! Derived metrics as one context sees them: identity, binding and evaluation (spec
//! `derived-language.md` 2.3 and 8.1, `derived-eval.md` 2 and 3).
//!
//! A context takes the registry's definitions over when it is used, binds them one by one the first
//! time they are touched, and keeps their history. Lookups by name and PMID are hash lookups.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::bind::{Binder, Bound, Names, NotBound, Resolved};
use super::column::Column;
use super::diagnostic::BindError;
use super::dialect::Level;
use super::machine::{Fetch, Machine, Plan};
use super::meta::Meta;
use super::nodes::Rules;
use super::parser::parse;
use super::registry::{Definition, HelpKind, RegisterError, Registry, Scope, is_derived, report};
use super::source::{Sample, Source};
use pcp_model::{FetchResult, InstanceValue, PmError, Pmid, Timestamp, ValueSet};

/// Definitions that may be in each other's place one within the other.
const MAX_NESTING: usize = 64;
/// The first PMID of a context's own definitions, and the flag they carry.
const FIRST_OWN: (u16, u16) = (2047, 1023);
const OWN_FLAG: u32 = 1 << 31;

/// A derived metric in a context.
#[derive(Debug)]
struct Metric {
    definition: Arc<Definition>,
    scope: Scope,
    state: State,
    /// Hidden by a definition of the context's own with the same name.
    masked: bool,
}

#[derive(Debug)]
enum State {
    Unbound,
    /// Being bound: meeting it again is a cycle.
    Binding,
    /// With the plan from the first evaluation on.
    Bound(Arc<Bound>, Option<Plan>),
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
pub struct Context {
    metrics: Vec<Metric>,
    by_pmid: HashMap<Pmid, usize>,
    /// The metric that a name stands for.
    by_name: HashMap<Arc<str>, usize>,
    /// Names of the context's own definitions.
    own: HashSet<Arc<str>>,
    /// The registry's version that the context has taken over.
    version: u64,
    limit: Option<i32>,
    next_own: Option<(u16, u16)>,
    machine: Machine,
    messages: Vec<String>,
    binding: Vec<Pmid>,
}

impl Context {
    /// A new context: everything unbound.
    pub fn new() -> Context {
        Context { next_own: Some(FIRST_OWN), ..Context::default() }
    }

    /// Forgets bindings, history and the context's own definitions (`pmReconnectContext(3)`).
    pub fn reset(&mut self) {
        *self = Context { limit: self.limit, ..Context::new() };
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
    pub fn refresh(&mut self, registry: &Registry) {
        if self.version == registry.version {
            return;
        }
        self.version = registry.version;
        let known: HashSet<Pmid> = registry.definitions().iter().map(|definition| definition.pmid).collect();
        let mut kept = Vec::with_capacity(self.metrics.len());
        for metric in self.metrics.drain(..) {
            match metric {
                metric if metric.scope == Scope::Context || known.contains(&metric.definition.pmid) => {
                    kept.push(metric);
                }
                Metric { state: State::Bound(_, Some(plan)), .. } => self.machine.release(plan),
                _ => {}
            }
        }
        self.metrics = kept;
        let mut present: HashSet<Pmid> = HashSet::with_capacity(self.metrics.len());
        for metric in &mut self.metrics {
            present.insert(metric.definition.pmid);
            // Help texts may have come.
            if let Some(definition) = registry.find_pmid(metric.definition.pmid) {
                metric.definition = definition.clone();
            }
        }
        for definition in registry.definitions() {
            if !present.contains(&definition.pmid) {
                let masked = self.own.contains(&definition.name);
                let (definition, scope) = (definition.clone(), Scope::Global);
                self.metrics.push(Metric { definition, scope, state: State::Unbound, masked });
            }
        }
        self.by_pmid.clear();
        self.by_name.clear();
        self.by_pmid.reserve(self.metrics.len());
        self.by_name.reserve(self.metrics.len());
        for (at, metric) in self.metrics.iter().enumerate() {
            self.by_pmid.entry(metric.definition.pmid).or_insert(at);
            if !metric.masked {
                self.by_name.entry(metric.definition.name.clone()).or_insert(at);
            }
        }
    }

    /// Adds a definition for this context only, and binds it (`pmAddDerived(3)`).
    ///
    /// # Errors
    /// Why it is refused, or why it does not bind.
    pub fn add(
        &mut self,
        registry: &Registry,
        source: &mut dyn Source,
        name: &str,
        expression: &str,
    ) -> Result<Pmid, AddError> {
        self.refresh(registry);
        let limit = i64::from(self.limit.unwrap_or(-1));
        if limit != -1 && self.own.len() as i64 >= limit {
            return Err(AddError::Refused(RegisterError::TooMany(Scope::Context)));
        }
        if self.own.contains(name) {
            return Err(AddError::Refused(RegisterError::Duplicate(Scope::Context)));
        }
        let tree = match parse(expression, registry.dialect()) {
            Ok(tree) => tree,
            Err(error) => {
                if registry.dialect().level == Level::V603 {
                    self.mask(name);
                }
                return Err(AddError::Refused(error.into()));
            }
        };
        let (cluster, item) =
            self.next_own.ok_or(AddError::Refused(RegisterError::Exhausted(Scope::Context)))?;
        self.next_own = match (cluster, item) {
            (cluster, item) if item > 1 => Some((cluster, item - 1)),
            (cluster, _) if cluster > 0 => Some((cluster - 1, FIRST_OWN.1)),
            _ => None,
        };
        let pmid = Pmid(Pmid::new(super::registry::DERIVED_DOMAIN, cluster, item).0 | OWN_FLAG);
        self.mask(name);
        let definition = Definition::new(name, expression, tree, pmid);
        let at = self.metrics.len();
        self.own.insert(definition.name.clone());
        self.by_name.insert(definition.name.clone(), at);
        self.by_pmid.insert(pmid, at);
        self.metrics.push(Metric {
            definition: Arc::new(definition),
            scope: Scope::Context,
            state: State::Unbound,
            masked: false,
        });
        self.bind(registry, source, at);
        match self.metrics.get(at).map(|metric| &metric.state) {
            Some(State::Broken(error)) if error.add_text(registry.dialect().level).is_some() => {
                Err(AddError::Broken(error.clone()))
            }
            _ => Ok(pmid),
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

    /// The derived metric of a name. Real metrics win: ask for those first.
    pub fn pmid(&mut self, registry: &Registry, name: &str) -> Option<Pmid> {
        self.refresh(registry);
        let metric = self.metrics.get(*self.by_name.get(name)?)?;
        Some(metric.definition.pmid)
    }

    /// The name of a derived metric, whether it binds or not.
    pub fn name(&mut self, registry: &Registry, pmid: Pmid) -> Option<&Arc<str>> {
        self.refresh(registry);
        let metric = self.metrics.get(*self.by_pmid.get(&pmid)?)?;
        Some(&metric.definition.name).filter(|_| !metric.masked)
    }

    /// The definition of a derived metric.
    pub fn definition(&mut self, registry: &Registry, pmid: Pmid) -> Option<&Arc<Definition>> {
        self.refresh(registry);
        self.metrics.get(*self.by_pmid.get(&pmid)?).map(|metric| &metric.definition)
    }

    /// A help text of a derived metric.
    ///
    /// # Errors
    /// `PM_ERR_PMID` for an unknown metric, `PM_ERR_TEXT` if there is no text.
    pub fn help(&mut self, registry: &Registry, pmid: Pmid, kind: HelpKind) -> Result<String, PmError> {
        self.refresh(registry);
        let metric = self.by_pmid.get(&pmid).and_then(|&at| self.metrics.get(at)).ok_or(PmError::PMID)?;
        if metric.scope == Scope::Context && registry.dialect().level == Level::V603 {
            return Err(PmError::PMID);
        }
        metric.definition.help_text(kind).map(str::to_owned)
    }

    /// Names and PMIDs below a prefix (whole words; all for an empty one), in the order of definition,
    /// hidden ones left out. Nothing is bound: ask for [`Context::meta`] to leave broken ones out.
    pub fn names<'a>(
        &'a mut self,
        registry: &Registry,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, Pmid)> + 'a {
        self.refresh(registry);
        let below = move |name: &str| match name.strip_prefix(prefix) {
            Some(rest) => prefix.is_empty() || rest.is_empty() || rest.starts_with('.'),
            None => false,
        };
        self.metrics
            .iter()
            .filter(move |metric| !metric.masked && below(&metric.definition.name))
            .map(|metric| (&metric.definition.name, metric.definition.pmid))
    }

    /// Metadata of a derived metric, which is bound if it is not yet (`pmLookupDesc(3)`).
    ///
    /// # Errors
    /// `PM_ERR_PMID` for a metric that is unknown or hidden here, `PM_ERR_BADDERIVE` for one that does
    /// not bind.
    pub fn meta(
        &mut self,
        registry: &Registry,
        source: &mut dyn Source,
        pmid: Pmid,
    ) -> Result<Meta, PmError> {
        self.refresh(registry);
        let at = *self.by_pmid.get(&pmid).ok_or(PmError::PMID)?;
        if self.metrics.get(at).is_some_and(|metric| metric.masked) {
            return Err(PmError::PMID);
        }
        self.bind(registry, source, at);
        match self.metrics.get(at).map(|metric| &metric.state) {
            Some(State::Bound(bound, _)) => Ok(bound.meta()),
            _ => Err(PmError::BADDERIVE),
        }
    }

    /// The binding of a derived metric, for explaining it.
    ///
    /// # Errors
    /// Why it does not bind; `None` if there is no such metric or a real one of its name.
    pub fn binding(
        &mut self,
        registry: &Registry,
        source: &mut dyn Source,
        pmid: Pmid,
    ) -> Result<Arc<Bound>, Option<BindError>> {
        self.refresh(registry);
        let at = *self.by_pmid.get(&pmid).ok_or(None)?;
        self.bind(registry, source, at);
        match self.metrics.get(at).map(|metric| &metric.state) {
            Some(State::Bound(bound, _)) => Ok(bound.clone()),
            Some(State::Broken(error)) => Err(Some(error.clone())),
            _ => Err(None),
        }
    }

    /// Binds what a fetch asks for, and appends the operand metrics to be fetched with it to `wanted`
    /// (which starts with what is asked for): each once, in the order of first appearance.
    pub fn expand(&mut self, registry: &Registry, source: &mut dyn Source, wanted: &mut Vec<Pmid>) {
        self.refresh(registry);
        let asked = wanted.clone();
        let mut present: HashSet<Pmid> = asked.iter().copied().collect();
        for pmid in asked {
            let Some(&at) = self.by_pmid.get(&pmid) else {
                continue;
            };
            self.bind(registry, source, at);
            if let Some(State::Bound(bound, _)) = self.metrics.get(at).map(|metric| &metric.state) {
                wanted.extend(bound.operands().filter(|&operand| present.insert(operand)));
            }
        }
    }

    /// Whether a metric is derived and bound in this context.
    pub fn is_bound(&self, pmid: Pmid) -> bool {
        let metric = self.by_pmid.get(&pmid).and_then(|&at| self.metrics.get(at));
        metric.is_some_and(|metric| matches!(metric.state, State::Bound(..)))
    }

    /// Whether the context has taken over all that the registry has.
    pub fn is_current(&self, registry: &Registry) -> bool {
        self.version == registry.version
    }

    /// Whether there is a derived metric of this PMID in this context, bound or not.
    pub fn knows(&self, pmid: Pmid) -> bool {
        self.by_pmid.contains_key(&pmid)
    }

    /// Begins a fetch: values of operands are asked for afresh.
    pub fn begin_fetch(&mut self) {
        self.machine.begin();
    }

    /// Evaluates a derived metric that is bound, with the values of the fetch that was begun last.
    /// Evaluating twice in a fetch advances the history twice, as in PCP.
    ///
    /// # Errors
    /// The error of the metric's value set; `PM_ERR_PMID` if it is not bound.
    pub fn evaluate(
        &mut self,
        pmid: Pmid,
        time: Timestamp,
        sample: &mut dyn Sample,
        source: &mut dyn Source,
    ) -> Result<&Column, PmError> {
        let metric = self.by_pmid.get(&pmid).and_then(|&at| self.metrics.get_mut(at));
        let Some(State::Bound(bound, plan)) = metric.map(|metric| &mut metric.state) else {
            return Err(PmError::PMID);
        };
        let plan = plan.get_or_insert_with(|| self.machine.compile(bound));
        self.machine.evaluate(plan, &mut Fetch { time, sample, source })
    }

    /// Makes the answer to a fetch of `request` from the result of the fetch of the expanded list: one
    /// value set for each metric asked for. Where the source was asked for a derived metric its own
    /// answer must be in the result; it stands for definitions that are not bound.
    pub fn rewrite(
        &mut self,
        registry: &Registry,
        source: &mut dyn Source,
        request: &[Pmid],
        result: FetchResult,
    ) -> FetchResult {
        self.begin_fetch();
        let timestamp = result.timestamp;
        let any_bound = request.iter().any(|&pmid| self.is_bound(pmid));
        let mut sets = ResultSample::new(&result);
        let v721 = registry.dialect().level >= Level::V721;
        let answer = |pmid: &Pmid| {
            let pmid = *pmid;
            let values = if self.is_bound(pmid) {
                self.evaluate(pmid, timestamp, &mut sets, source).map(Column::to_values)
            } else if any_bound && self.by_pmid.contains_key(&pmid) {
                Err(PmError::PMID)
            } else {
                sets.values(pmid).map(<[_]>::to_vec)
            };
            let values = match values {
                Err(PmError::NOAGENT) if v721 && is_derived(pmid) => Err(PmError::PMID),
                values => values,
            };
            ValueSet { pmid, values }
        };
        let sets = request.iter().map(answer).collect();
        FetchResult { timestamp, sets }
    }

    /// Bytes that the context holds for values of earlier fetches.
    pub fn history_bytes(&self) -> usize {
        self.machine.history_bytes()
    }

    /// Binds a metric, unless it has been tried.
    fn bind(&mut self, registry: &Registry, source: &mut dyn Source, at: usize) {
        let Some(metric) = self.metrics.get_mut(at) else {
            return;
        };
        if !matches!(metric.state, State::Unbound) {
            return;
        }
        metric.state = State::Binding;
        let (definition, scope) = (metric.definition.clone(), metric.scope);
        self.binding.push(definition.pmid);
        let state = if source.pmid(&definition.name).is_ok() {
            State::Real
        } else {
            let dialect = registry.dialect();
            let rules = Rules::new(dialect, &registry.equivalent);
            let binder = Binder { dialect, rules, per_context: scope == Scope::Context };
            let mut names = ContextNames { context: self, registry, source };
            match binder.bind(&definition.tree, &mut names) {
                Ok(bound) => State::Bound(Arc::new(bound), None),
                Err(error) => {
                    if scope == Scope::Global {
                        self.messages.extend(error.printed(&definition.name, dialect.level));
                    }
                    State::Broken(error)
                }
            }
        };
        self.binding.pop();
        if let Some(metric) = self.metrics.get_mut(at) {
            metric.state = state;
        }
    }
}

/// Names as a definition in a context means them.
struct ContextNames<'a> {
    context: &'a mut Context,
    registry: &'a Registry,
    source: &'a mut dyn Source,
}

impl Names for ContextNames<'_> {
    fn resolve(&mut self, name: &str) -> Resolved {
        if let Ok(pmid) = self.source.pmid(name) {
            return Resolved::Real(pmid);
        }
        let metric = self.context.by_name.get(name).and_then(|&at| self.context.metrics.get(at));
        metric.map_or(Resolved::Unknown, |metric| Resolved::Derived(metric.definition.pmid))
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        self.source.meta(pmid)
    }

    fn derived(&mut self, pmid: Pmid) -> Result<Arc<Bound>, NotBound> {
        let at = *self.context.by_pmid.get(&pmid).ok_or(NotBound::Broken)?;
        if self.context.binding.len() >= MAX_NESTING {
            return Err(NotBound::TooDeep);
        }
        self.context.bind(self.registry, self.source, at);
        let metrics = &self.context.metrics;
        match metrics.get(at).map(|metric| &metric.state) {
            Some(State::Bound(bound, _)) => Ok(bound.clone()),
            Some(State::Binding) => {
                let name = |pmid: &Pmid| {
                    let metric = self.context.by_pmid.get(pmid).and_then(|&at| metrics.get(at));
                    metric.map(|metric| metric.definition.name.clone())
                };
                let cycle = self.context.binding.iter().skip_while(|&&other| other != pmid);
                Err(NotBound::Cycle(cycle.chain([&pmid]).filter_map(name).collect()))
            }
            _ => Err(NotBound::Broken),
        }
    }
}

/// A fetch result as operands.
struct ResultSample<'a> {
    sets: HashMap<Pmid, &'a Result<Vec<InstanceValue>, PmError>>,
}

impl ResultSample<'_> {
    fn new(result: &FetchResult) -> ResultSample<'_> {
        ResultSample { sets: result.sets.iter().map(|set| (set.pmid, &set.values)).collect() }
    }

    fn values(&self, pmid: Pmid) -> Result<&[InstanceValue], PmError> {
        match self.sets.get(&pmid) {
            Some(Ok(values)) => Ok(values),
            Some(Err(error)) => Err(*error),
            None => Ok(&[]),
        }
    }
}

impl Sample for ResultSample<'_> {
    fn operand(&mut self, pmid: Pmid, column: &mut Column) -> Result<(), PmError> {
        column.extend(self.values(pmid)?)
    }
}

//! Queries, answered: from the index, the archives and the functions.

use std::sync::Arc;

use pcp_client::Context;
use pcp_derive::Registry;
use pcp_model::{Desc, InDom, Timestamp};

use super::super::answer::Refusal;
use super::build::Shared;
use super::functions;
use super::language::{self, Expr, Metric, QueryError, Selector, Window};
use super::plan::{Plan, Planner};
use super::read::{self, Budget, DERIVED, Limit, MAX_SERIES, Spent};
use super::remembered::{Derived, Known, Remembered};
use super::select;
use super::values::Values;
use crate::server::identity::Id;

/// Most identifiers of an answer.
const MAX_IDS: usize = 250_000;
/// Most sources that a derived metric is looked for in.
const MAX_SOURCES: usize = 1000;

/// All that answers.
#[derive(Debug)]
pub(super) struct Engine {
    pub shared: Arc<Shared>,
    pub remembered: Remembered,
    pub budget: Budget,
    /// Derived metrics that have names: those of `PCP_DERIVED_CONFIG`.
    pub definitions: Registry,
}

/// What a query gives.
#[derive(Debug)]
pub(super) enum Found {
    Ids(Vec<Id>),
    Values(Shown),
}

/// Values, and what they cost for as long as they are there.
#[derive(Debug)]
pub(super) struct Shown {
    pub series: Vec<ShownSeries>,
    pub spent: Spent,
}

/// Values under the identifier that they are answered with.
#[derive(Debug)]
pub(super) struct ShownSeries {
    pub series: Id,
    /// Whether a metric without instances is told by its own identifier.
    pub by_metric: bool,
    pub values: Values,
}

/// How the values of plans are had.
type Read = fn(&[Plan], &Window, &mut Spent) -> Result<Vec<Values>, Limit>;

/// Why a query is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Limit(#[from] Limit),
    #[error("more than {MAX_IDS} series: ask for fewer")]
    Ids,
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        let status = match refused {
            Refused::Limit(Limit::Busy) => http::StatusCode::SERVICE_UNAVAILABLE,
            _ => http::StatusCode::BAD_REQUEST,
        };
        Refusal::new(status, refused.to_string())
    }
}

/// A selector's series, as far as they have to be known.
enum Leaf {
    /// By identifier: numbers of rows mean something else when the index has been built anew.
    Recorded(Vec<Id>),
    Derived(Vec<Derived>),
}

impl Engine {
    /// Answers a query. For the pool.
    ///
    /// # Errors
    /// [`Refused`].
    pub(super) fn query(&self, text: &str) -> Result<Found, Refused> {
        let query = language::parse(text, now())?;
        match query.window {
            None => self.ids(&query.expr).map(Found::Ids),
            Some(window) => self.values_of(&query.expr, &window).map(Found::Values),
        }
    }

    /// The values of series, by identifier; of those that are unknown there are none. For the pool.
    ///
    /// # Errors
    /// [`Refused`].
    pub(super) fn values(&self, ids: &[Id], window: &Window) -> Result<Shown, Refused> {
        let mut spent = Spent::begin(&self.budget);
        let (mut plans, mut expressions): (Vec<Plan>, Vec<Arc<Known>>) = Default::default();
        {
            let index = self.shared.index();
            let mut planner = Planner::new(&index);
            for id in ids {
                if plans.len() + expressions.len() > MAX_SERIES {
                    return Err(Limit::Series.into());
                }
                spent.time()?;
                if let Some(row) = index.series_of(*id) {
                    plans.push(planner.of(row));
                    continue;
                }
                if let Some(known) = self.remembered.get(*id) {
                    match &*known {
                        Known::Derived(derived) => plans.push(planner.derived(derived)),
                        Known::Expression { .. } => expressions.push(known),
                    }
                }
            }
        }
        spent.series(plans.len())?;
        let mut series: Vec<ShownSeries> =
            read::read(&plans, window, &mut spent)?.into_iter().map(ShownSeries::of_metric).collect();
        for known in expressions {
            if let Known::Expression { expr, canonical, .. } = &*known {
                let (values, _) = self.computed(expr, window, &mut spent, read::read)?;
                series.extend(values.into_iter().map(|values| ShownSeries::of_expression(canonical, values)));
            }
        }
        Ok(Shown { series, spent })
    }

    /// The operands' series of an expression. For the pool.
    ///
    /// # Errors
    /// A limit: what is wrong with a selector only has no series.
    pub(super) fn operands(&self, expr: &Expr, spent: &mut Spent) -> Result<Vec<Id>, Limit> {
        let mut ids = Vec::new();
        for selector in expr.selectors() {
            spent.time()?;
            match self.leaf(selector, spent) {
                Ok(Leaf::Recorded(found)) => ids.extend(found),
                Err(Refused::Limit(limit)) => return Err(limit),
                Ok(Leaf::Derived(_)) | Err(_) => {}
            }
            // More it did not have when it was remembered.
            if ids.len() > MAX_SERIES {
                return Err(Limit::Series);
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    fn ids(&self, expr: &Expr) -> Result<Vec<Id>, Refused> {
        let mut spent = Spent::begin(&self.budget);
        if let Expr::Select(selector) = expr {
            let ids: Vec<Id> = match self.leaf(selector, &spent)? {
                Leaf::Recorded(ids) => ids,
                Leaf::Derived(all) => all.into_iter().map(|derived| self.remember(derived)).collect(),
            };
            return if ids.len() > MAX_IDS { Err(Refused::Ids) } else { Ok(ids) };
        }
        let without_values: Read = |plans, _, _| Ok(plans.iter().map(Plan::without_values).collect());
        let (values, canonical) = self.computed(expr, &Window::default(), &mut spent, without_values)?;
        let Some(first) = values.first() else { return Ok(Vec::new()) };
        let id = Id::expression(&canonical);
        let desc = Desc { indom: functions::indom_of(&values), ..first.desc };
        self.remembered.insert(id, Known::Expression { canonical, expr: expr.clone(), desc });
        Ok(vec![id])
    }

    fn values_of(&self, expr: &Expr, window: &Window) -> Result<Shown, Refused> {
        let mut spent = Spent::begin(&self.budget);
        let (values, canonical) = self.computed(expr, window, &mut spent, read::read)?;
        let is_plain = matches!(expr, Expr::Select(_));
        if !is_plain && let Some(first) = values.first() {
            let known =
                Known::Expression { canonical: canonical.clone(), expr: expr.clone(), desc: first.desc };
            self.remembered.insert(Id::expression(&canonical), known);
        }
        let shown = |values: Values| match is_plain {
            true => ShownSeries::of_metric(values),
            false => ShownSeries::of_expression(&canonical, values),
        };
        Ok(Shown { series: values.into_iter().map(shown).collect(), spent })
    }

    /// What an expression gives of what `read` reads, and its canonical text.
    fn computed(
        &self,
        expr: &Expr,
        window: &Window,
        spent: &mut Spent,
        read: Read,
    ) -> Result<(Vec<Values>, String), Refused> {
        let mut counts = Vec::new();
        let mut plans: Vec<Plan> = Vec::new();
        let mut names = Vec::new();
        for selector in expr.selectors() {
            let before = plans.len();
            spent.time()?;
            match self.leaf(selector, spent)? {
                Leaf::Recorded(ids) => {
                    spent.series(ids.len())?;
                    let index = self.shared.index();
                    let mut planner = Planner::new(&index);
                    let rows = ids.into_iter().filter_map(|id| index.series_of(id));
                    plans.extend(rows.map(|row| planner.of(row)));
                }
                Leaf::Derived(all) => {
                    spent.series(all.len())?;
                    {
                        let index = self.shared.index();
                        let mut planner = Planner::new(&index);
                        plans.extend(all.iter().map(|derived| planner.derived(derived)));
                    }
                    for derived in all {
                        self.remember(derived);
                    }
                }
            }
            names.push((selector, plans.get(before).map(|plan| plan.name.clone())));
            counts.push(plans.len() - before);
        }
        let mut all = read(&plans, window, spent)?.into_iter();
        let mut counts = counts.into_iter();
        // Leaves come in the order of the selectors.
        let mut leaf = |_: &Selector| Ok(all.by_ref().take(counts.next().unwrap_or_default()).collect());
        let values = functions::evaluate(expr, &mut leaf)?;
        let name = |selector: &Selector| {
            names.iter().find(|(known, _)| std::ptr::eq(*known, selector)).and_then(|(_, name)| name.clone())
        };
        Ok((values, expr.canonical(&name)))
    }

    /// The series of a selector: those that were recorded, or a derived metric's.
    fn leaf(&self, selector: &Selector, spent: &Spent) -> Result<Leaf, Refused> {
        match &selector.metric {
            Some(Metric::Derived(expression)) => {
                let name = format!("derived({expression})");
                self.derived(selector, &name, expression, true, spent).map(Leaf::Derived)
            }
            Some(Metric::Name(name)) => {
                let ids = self.selected(selector)?;
                let is_recorded = !ids.is_empty() || self.shared.index().series_named(name).next().is_some();
                match self.definitions.find(name) {
                    Some(definition) if !is_recorded => {
                        self.derived(selector, name, &definition.expression, false, spent).map(Leaf::Derived)
                    }
                    _ => Ok(Leaf::Recorded(ids)),
                }
            }
            _ => self.selected(selector).map(Leaf::Recorded),
        }
    }

    fn selected(&self, selector: &Selector) -> Result<Vec<Id>, Refused> {
        let index = self.shared.index();
        let rows = select::series_of(&index, selector)?;
        Ok(rows.into_iter().map(|row| index.series(row).id).collect())
    }

    /// A derived metric, in each source in whose newest archive it binds. Waits for the disk.
    fn derived(
        &self,
        selector: &Selector,
        name: &str,
        expression: &str,
        is_clients: bool,
        spent: &Spent,
    ) -> Result<Vec<Derived>, Refused> {
        let mut sources = Vec::new();
        {
            let index = self.shared.index();
            for source in index.sources() {
                let labels = index.labels(source.labels);
                let names: Vec<String> = index.source_names(source).into_iter().collect();
                if !select::is_selected(&selector.conditions, name, &labels.pairs, &names)? {
                    continue;
                }
                let archives = source.archives.iter().filter_map(|name| index.archive(name));
                if let Some(newest) = archives.max_by_key(|entry| entry.glance.label.start) {
                    sources.push((source.id, labels.json.clone(), newest.glance.name.clone()));
                }
            }
        }
        if sources.len() > MAX_SOURCES {
            return Err(Limit::Series.into());
        }
        let (mut found, mut failed) = (Vec::new(), None);
        for (source, labels, archive) in sources {
            spent.time()?;
            let bound = Context::archive(&archive.to_string_lossy()).and_then(|mut context| {
                let pmid = context.add_derived(DERIVED, expression)?;
                context.desc(pmid)
            });
            match bound {
                Ok(desc) => found.push(Derived {
                    id: Id::metric(name, &labels, &desc),
                    source,
                    name: name.to_owned(),
                    expression: expression.to_owned(),
                    desc,
                }),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            // It is told only if it is nobody's: other sources do not have its operands.
            Some(error) if found.is_empty() && is_clients => {
                Err(QueryError(format!("cannot derive {expression}: {error}")).into())
            }
            _ => Ok(found),
        }
    }

    fn remember(&self, derived: Derived) -> Id {
        let id = derived.id;
        self.remembered.insert(id, Known::Derived(derived));
        id
    }
}

impl Plan {
    fn without_values(&self) -> Values {
        Values {
            id: self.id,
            source: self.source,
            name: self.name.clone(),
            desc: self.desc,
            instances: Arc::default(),
            samples: Vec::new(),
        }
    }
}

impl ShownSeries {
    fn of_metric(values: Values) -> ShownSeries {
        ShownSeries { series: values.id, by_metric: false, values }
    }

    fn of_expression(canonical: &str, values: Values) -> ShownSeries {
        ShownSeries { series: Id::expression(canonical), by_metric: true, values }
    }
}

/// The time, for windows that go back from it.
pub(super) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

/// Whether a series has instances.
pub(super) fn has_instances(desc: &Desc) -> bool {
    desc.indom != InDom::NULL
}

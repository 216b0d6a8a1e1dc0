//! `/metrics`: values of all metrics, or of some, as a text for Prometheus and whoever reads its formats.
//!
//! ```text
//! names --leaves, filter--> BATCH at a time: one fetch, labels, texts, instances --> Page: plain (pmproxy's) | OpenMetrics 1.0
//! ```
//!
//! Of an archive the whole page is of one time: interpolated values of each group at the same one; of records, one record that is fetched whole,
//! and the next page has the next.
//!
//! Which page it is, `format` says (`text` or `openmetrics`), or what the client accepts.
//!
//! **Bounds:** [`super::call::MAX_METRICS`], [`super::call::MAX_ANSWER`], also within a metric, a [`Deadline`].

mod openmetrics;
mod plain;
mod text;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use http::{HeaderMap, header};
use pcp_client::{LabelTarget, Mode, ValuesRef};
use pcp_model::{Desc, InDom, Inst, Label, LabelFlags, Pmid, Timestamp};

use super::call::{BATCH, Call, Deadline, MAX_ANSWER, Output, refused, too_long};
use super::choice::Names;
use super::indom::instances;
use super::labels::{Labels, levels};
use super::leaves::{self, Found};
use super::metric::help_of;
use super::moment;
use super::session::Session;
use crate::server::answer::Refusal;
use crate::server::query::Query;
use openmetrics::OpenMetrics;
use plain::Plain;

/// The form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// pmproxy's, with its comments, names with underscores.
    Plain,
    /// That of `_metrics`: names with colons.
    Colons,
    OpenMetrics,
}

/// Metrics that are left out.
pub(super) struct Filter(Option<Names>);

/// A metric on a page.
pub(super) struct Metric<'a> {
    pub name: &'a str,
    pub desc: Desc,
    pub one_line: Option<String>,
}

/// What was looked up for a page.
#[derive(Default)]
pub(super) struct Memory {
    labels: Labels,
    names: HashMap<InDom, HashMap<Inst, String>>,
}

/// A record of an archive that was fetched for a whole page.
struct Record {
    /// The places of metrics in the fetch.
    sets: HashMap<Pmid, usize>,
}

/// A page that is being put together.
pub(super) trait Page {
    /// Whether metrics of this descriptor are on it at all.
    fn takes(&self, name: &str, desc: &Desc) -> bool;
    /// Whether it has labels that are not part of a metric's identity.
    fn has_optional_labels(&self) -> bool;
    /// Metrics that have to be fetched in one go with what belongs to them; they are taken out of `names`.
    fn groups(&self, names: &mut Vec<String>) -> Vec<Vec<String>>;
    /// Adds a metric's values, until the page [is too long](Page::is_too_long).
    fn add(&mut self, metric: &Metric<'_>, values: &[Value<'_>], time: Timestamp);
    /// Everything that was fetched at a time was added.
    fn end_of_group(&mut self);
    fn len(&self) -> usize;
    /// Whether it has more than [`MAX_ANSWER`] bytes: it is none then, and nothing more is added.
    fn is_too_long(&self) -> bool {
        self.len() > MAX_ANSWER
    }
    fn finish(self: Box<Self>) -> Output;
}

/// A value and what it is of.
pub(super) struct Value<'a> {
    pub value: pcp_pdu::TypedRef<'a>,
    /// The instance's number and name.
    pub instance: Option<(Inst, &'a str)>,
    /// Labels by name, values as text.
    pub labels: BTreeMap<String, String>,
}

impl Form {
    /// What a request asks for.
    ///
    /// # Errors
    /// A format that is none.
    pub(super) fn of(query: &Query, headers: &HeaderMap, raw: bool) -> Result<Form, Refusal> {
        let plain = if raw { Form::Colons } else { Form::Plain };
        match query.get("format") {
            None => {}
            Some("text") => return Ok(plain),
            Some("openmetrics") => return Ok(Form::OpenMetrics),
            Some(other) => {
                return Err(Refusal::bad(format!(
                    "{other} - invalid 'format' parameter value: text or openmetrics"
                )));
            }
        }
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Ok(if !raw && prefers_openmetrics(accept) { Form::OpenMetrics } else { plain })
    }
}

/// Whether OpenMetrics is named, and nothing else that there is is wanted more.
fn prefers_openmetrics(accept: &str) -> bool {
    let quality = |wanted: &str| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
            let quality = parts
                .find_map(|part| part.strip_prefix("q="))
                .map_or(Some(1.0), |text| text.parse::<f32>().ok());
            quality.filter(|_| is_it)
        });
        ranges.fold(None, |most: Option<f32>, quality| Some(most.map_or(quality, |most| most.max(quality))))
    };
    let plain = quality("text/plain").unwrap_or(0.0);
    quality("application/openmetrics-text").is_some_and(|quality| quality > 0.0 && quality >= plain)
}

impl Filter {
    /// # Errors
    /// Patterns that are none, or a kind of match that is none.
    pub(super) fn read(query: &Query) -> Result<Filter, Refusal> {
        let patterns = Names::globs(query.get("filter").unwrap_or_default(), query)?;
        Ok(Filter(query.get("filter").map(|_| patterns)))
    }

    fn leaves_out(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|names| names.has(name))
    }
}

pub(super) fn scrape(call: &Call, session: &mut Session) -> Result<Output, Refusal> {
    let deadline = Deadline::new();
    let filter = Filter::read(&call.query)?;
    let mut names = names(session, deadline, call.query.first(&["names", "name", "prefix", "target"]))?;
    names.retain(|name| !filter.leaves_out(name));
    moment::go(session, &call.query)?;
    let times = call.wants("times");
    let mut page: Box<dyn Page> = match call.exposition {
        Form::Plain => Box::new(Plain::new('_', times)),
        Form::Colons => Box::new(Plain::new(':', times)),
        Form::OpenMetrics => Box::new(OpenMetrics::new(times)),
    };
    let mut groups = page.groups(&mut names);
    groups.extend(names.chunks(BATCH).map(<[String]>::to_vec));
    let (mode, origin) = session.context.mode();
    let mut memory = Memory::default();
    let record = match mode {
        // For each group the next record would be another one.
        Mode::Forward | Mode::Backward => Some(Record::fetch(session, &groups, deadline, &*page)?),
        _ => None,
    };
    for (at, group) in groups.iter().enumerate() {
        deadline.check()?;
        if at > 0 && session.is_archive() && record.is_none() {
            // The whole page is of one time.
            session.context.set_mode(mode, Some(origin)).map_err(|error| refused(&error))?;
        }
        add(session, deadline, group, record.as_ref(), &mut memory, &mut *page)?;
    }
    Ok(page.finish())
}

/// The metrics that are asked for, each once. Unknown names are left out, unless there are no others.
fn names(session: &mut Session, deadline: Deadline, list: Option<&str>) -> Result<Vec<String>, Refusal> {
    let mut unknown = None;
    let mut known = HashSet::new();
    let mut names = Vec::new();
    for found in leaves::of(session, deadline, list)? {
        match found {
            Found::Leaves(leaves) => {
                names.extend(leaves.into_iter().filter(|leaf| known.insert(leaf.clone())))
            }
            Found::Nothing { name, why } => {
                unknown.get_or_insert(format!("'{name}' - {why}"));
            }
        }
    }
    match unknown {
        Some(unknown) if names.is_empty() => Err(Refusal::bad(unknown)),
        _ => Ok(names),
    }
}

/// The metrics that there are, and that a page takes.
fn taken<'a>(
    session: &mut Session,
    deadline: Deadline,
    names: &'a [String],
    page: &dyn Page,
) -> Result<Vec<Metric<'a>>, Refusal> {
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = session.metrics(&texts, deadline)?;
    Ok(texts
        .into_iter()
        .zip(found)
        .filter_map(|(name, found)| found.map(|(_, desc)| Metric { name, desc, one_line: None }))
        .filter(|metric| page.takes(metric.name, &metric.desc))
        .collect())
}

impl Record {
    /// Fetches the next record that has any metric of the page, and all that it has of them.
    fn fetch(
        session: &mut Session,
        groups: &[Vec<String>],
        deadline: Deadline,
        page: &dyn Page,
    ) -> Result<Record, Refusal> {
        let mut metrics = Vec::new();
        let mut sets = HashMap::new();
        for group in groups {
            deadline.check()?;
            for metric in taken(session, deadline, group, page)? {
                if let Entry::Vacant(vacant) = sets.entry(metric.desc.pmid) {
                    vacant.insert(metrics.len());
                    metrics.push(metric);
                }
            }
        }
        fetched(session, &metrics)?;
        Ok(Record { sets })
    }
}

/// Fetches metrics, if there are any; true if that has to be done again.
fn fetched(session: &mut Session, metrics: &[Metric<'_>]) -> Result<bool, Refusal> {
    if metrics.is_empty() {
        return Ok(false);
    }
    session.fetch(metrics.iter().map(|metric| (metric.name, &metric.desc)))
}

/// Puts metrics on a page: of the record that was fetched, or fetches them.
fn add(
    session: &mut Session,
    deadline: Deadline,
    names: &[String],
    record: Option<&Record>,
    memory: &mut Memory,
    page: &mut dyn Page,
) -> Result<(), Refusal> {
    let mut metrics = taken(session, deadline, names, page)?;
    // What they are may have changed with the values.
    if record.is_none() && fetched(session, &metrics)? {
        metrics = taken(session, deadline, names, page)?;
        fetched(session, &metrics)?;
    }
    if metrics.is_empty() {
        page.end_of_group();
        return Ok(());
    }
    let pmids: Vec<Pmid> = metrics.iter().map(|metric| metric.desc.pmid).collect();
    let mut helps = help_of(session, &pmids)?.into_iter();
    for metric in &mut metrics {
        metric.one_line = helps.next().and_then(|help| help.one_line).filter(|text| !text.is_empty());
    }
    memory.look_up(session, &metrics)?;
    for (at, metric) in metrics.iter().enumerate() {
        let at = match record {
            Some(record) => record.sets.get(&metric.desc.pmid).copied(),
            None => Some(at),
        };
        let Some(Ok(values)) = at.and_then(|at| session.fetched.set(at)).map(|set| set.values) else {
            continue;
        };
        let values = memory.values(&metric.desc, values, page.has_optional_labels())?;
        if !values.is_empty() {
            page.add(metric, &values, session.fetched.timestamp);
            expect_room(page)?;
        }
    }
    page.end_of_group();
    expect_room(page)
}

fn expect_room(page: &dyn Page) -> Result<(), Refusal> {
    if page.is_too_long() { Err(too_long()) } else { Ok(()) }
}

impl Memory {
    /// Asks for labels and instances that are not known yet.
    fn look_up(&mut self, session: &mut Session, metrics: &[Metric<'_>]) -> Result<(), Refusal> {
        let targets = metrics.iter().flat_map(|metric| {
            let indom = metric.desc.indom;
            let own = (indom != InDom::NULL).then_some(LabelTarget::Instances(indom));
            levels(&metric.desc).into_iter().chain(own)
        });
        self.labels.look_up(&mut session.context, targets)?;
        for metric in metrics.iter().filter(|metric| metric.desc.indom != InDom::NULL) {
            if let Entry::Vacant(vacant) = self.names.entry(metric.desc.indom) {
                let all = instances(session, metric.desc.indom)?;
                vacant.insert(all.into_iter().map(|instance| (instance.id, instance.name)).collect());
            }
        }
        Ok(())
    }

    /// The values of a metric with what they are of; without those whose instance has no name.
    ///
    /// # Errors
    /// Their labels alone are longer than an answer.
    fn values<'a>(
        &'a self,
        desc: &Desc,
        values: ValuesRef<'a>,
        optional: bool,
    ) -> Result<Vec<Value<'a>>, Refusal> {
        let merged = self.labels.merged(&levels(desc), optional);
        let common: BTreeMap<String, String> =
            merged.iter().map(|(name, value)| (text::label_name(name), text::label_value(value))).collect();
        if desc.indom == InDom::NULL {
            let value = values.iter().next().and_then(|(_, value)| value.typed(desc.value_type).ok());
            return Ok(value
                .into_iter()
                .map(|value| Value { value, instance: None, labels: common.clone() })
                .collect());
        }
        let own = self.labels.by_instance(desc.indom);
        let names = self.names.get(&desc.indom);
        let of_instance = |(inst, value): (Inst, pcp_client::ValueRef<'a>)| {
            let name = names?.get(&inst)?.as_str();
            let value = value.typed(desc.value_type).ok()?;
            let mut labels = common.clone();
            let own: &[Label] = own.get(&inst).copied().unwrap_or_default();
            for label in own.iter().filter(|label| optional || label.flags.0 & LabelFlags::OPTIONAL == 0) {
                labels.insert(text::label_name(&label.name), text::label_value(&label.value));
            }
            Some(Value { value, instance: Some((inst, name)), labels })
        };
        bounded(values.iter().filter_map(of_instance), MAX_ANSWER)
    }
}

/// Values whose labels have at most so many bytes.
fn bounded<'a>(values: impl Iterator<Item = Value<'a>>, most: usize) -> Result<Vec<Value<'a>>, Refusal> {
    let mut held = 0;
    let each = values.map(|value| {
        held += value.labels.iter().map(|(name, text)| name.len() + text.len()).sum::<usize>();
        if held > most { Err(too_long()) } else { Ok(value) }
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_who_asks_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, is) in [
            (prometheus, true),
            ("application/openmetrics-text", true),
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("text/plain, application/openmetrics-text; q=0.5", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
        ] {
            assert_eq!(prefers_openmetrics(accept), is, "{accept}");
        }
    }

    #[test]
    fn what_is_too_long_is_noticed_within_a_metric() {
        let value = || Value {
            value: pcp_pdu::TypedRef::Number(pcp_model::Number::U32(1)),
            instance: Some((1, "one")),
            labels: BTreeMap::from([("a".to_owned(), "x".repeat(1 << 20))]),
        };
        assert!(bounded((0..10).map(|_| value()), 11 << 20).is_ok_and(|values| values.len() == 10));
        let mut taken = 0;
        let refused = bounded((0..).map(|_| value()).inspect(|_| taken += 1), 5 << 20);
        assert_eq!((refused.map(|_| ()), taken), (Err(too_long()), 5));
        let desc = Desc {
            pmid: Pmid::new(29, 0, 1),
            value_type: pcp_model::ValueType::U32,
            indom: InDom::new(29, 1),
            semantics: pcp_model::Semantics::Instant,
            units: pcp_model::Units::default(),
        };
        let metric = Metric { name: "sample.x", desc, one_line: None };
        let values: Vec<Value<'_>> = (0..40).map(|_| value()).collect();
        let mut pages: [Box<dyn Page>; 2] =
            [Box::new(Plain::new('_', false)), Box::new(OpenMetrics::new(false))];
        for page in &mut pages {
            page.add(&metric, &values, Timestamp::default());
            assert!(expect_room(&**page).is_ok());
            let more = Metric { name: "sample.y", desc, one_line: None };
            page.add(&more, &values, Timestamp::default());
            assert_eq!(expect_room(&**page), Err(too_long()));
            assert!(page.len() < MAX_ANSWER + (2 << 20), "{}", page.len());
        }
    }
}

//! Spans and traces, put together from the records at hand: starts with ends, children below parents, over all sources.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jumpseat_tools::Emphasis;
use pcp_event::EventFlags;
use pcp_model::Timestamp;

use super::events::{Events, Shown};
use super::sample::EventRecord;

/// Deepest nesting that is shown. What is deeper stands at this depth.
const MAX_DEPTH: usize = 64;

/// A traced activity.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Who told of it.
    pub source: Arc<str>,
    /// Its name: the type of its start.
    pub name: String,
    /// Its id.
    pub id: String,
    /// The id of its trace, if the source has such.
    pub trace: Option<String>,
    /// The id of the span that it is a part of.
    pub parent: Option<String>,
    /// When it began; `None` if that was before the records at hand.
    pub begun: Option<Timestamp>,
    /// When it ended; `None` if it goes on.
    pub ended: Option<Timestamp>,
    /// Whether it failed.
    pub failed: bool,
    /// The fields of its records, but for those above.
    pub fields: Vec<(Arc<str>, String)>,
}

/// A span, and how deep in its trace it is.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub depth: usize,
    pub span: Span,
}

/// Spans that belong together, each behind its parent.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// The trace's id, or that of its first span.
    pub id: String,
    /// Never empty.
    pub spans: Vec<Placed>,
}

impl Span {
    /// How long it took, in seconds; `None` while nobody knows.
    pub(crate) fn duration(&self) -> Option<f64> {
        Some(seconds(self.begun?, self.ended?))
    }

    /// Its source and name, as the instances of span metrics are called.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.source, self.name)
    }

    /// The earliest that is known of it.
    pub(crate) fn first(&self) -> Timestamp {
        self.begun.or(self.ended).unwrap_or_default()
    }

    /// The latest that is known of it.
    pub(crate) fn last(&self) -> Timestamp {
        self.ended.or(self.begun).unwrap_or_default()
    }
}

impl Trace {
    /// When its first span began.
    pub(crate) fn begun(&self) -> Timestamp {
        self.spans.iter().map(|placed| placed.span.first()).min().unwrap_or_default()
    }

    /// From the beginning of the first span to the end of the last, in seconds.
    pub(crate) fn duration(&self) -> f64 {
        let end = self.spans.iter().map(|placed| placed.span.last()).max().unwrap_or_default();
        seconds(self.begun(), end)
    }

    /// How many of its spans failed.
    pub(crate) fn failed(&self) -> usize {
        self.spans.iter().filter(|placed| placed.span.failed).count()
    }

    /// How many sources tell of it.
    pub(crate) fn sources(&self) -> usize {
        self.spans.iter().map(|placed| &*placed.span.source).collect::<HashSet<_>>().len()
    }
}

/// From one time to another.
pub(crate) fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    (to.as_nanos() - from.as_nanos()) as f64 * 1e-9
}

/// The value of a field, also of one that was sent as a number and is called so.
pub(crate) fn field<'a>(record: &'a EventRecord, name: &str) -> Option<&'a str> {
    let is = |param: &str| param.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest == "_u64");
    record.params.iter().find(|(param, _)| is(param)).map(|(_, value)| value.as_str())
}

/// Whether a record tells of a failure, as `jumpseat.span.errors` counts them.
pub(crate) fn is_failure(record: &EventRecord) -> bool {
    let severe =
        field(record, "severity").is_some_and(|text| Emphasis::of(text.as_bytes()) == Emphasis::Error);
    let status = field(record, "status").is_some_and(|status| status.eq_ignore_ascii_case("error"));
    severe || status || field(record, "error").is_some_and(|error| matches!(error, "true" | "1"))
}

/// All spans of which there are records, in the order of their first record.
pub(crate) fn spans(events: &Events) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    // By source, trace and id; and by source and id alone, as ends and what is within need not say their trace.
    let mut known: HashMap<(&str, Option<&str>, &str), usize> = HashMap::new();
    for Shown { stream, record, .. } in &events.newest {
        let (start, end) = (record.flags.contains(EventFlags::START), record.flags.contains(EventFlags::END));
        let Some(id) = field(record, "span_id").filter(|_| start || end) else { continue };
        let trace = field(record, "trace_id");
        // An id that begins again is another span.
        let at =
            known.get(&(&**stream, trace, id)).copied().filter(|&at| !start || spans[at].begun.is_none());
        let at = at.unwrap_or_else(|| {
            spans.push(new(stream, record, id));
            spans.len() - 1
        });
        known.extend([trace, None].map(|trace| ((&**stream, trace, id), at)));
        if let Some(span) = spans.get_mut(at) {
            take(span, record, start, end);
        }
    }
    spans
}

fn new(stream: &Arc<str>, record: &EventRecord, id: &str) -> Span {
    Span {
        source: stream.clone(),
        name: String::new(),
        id: id.to_owned(),
        trace: field(record, "trace_id").map(str::to_owned),
        parent: None,
        begun: None,
        ended: None,
        failed: false,
        fields: Vec::new(),
    }
}

fn take(span: &mut Span, record: &EventRecord, start: bool, end: bool) {
    if start {
        span.begun = Some(record.time);
    }
    if end {
        span.ended = Some(record.time);
        span.failed |= is_failure(record);
    }
    if (start || span.name.is_empty())
        && let Some(name) = field(record, "type")
    {
        span.name = name.to_owned();
    }
    if let Some(parent) = field(record, "parent_id").filter(|parent| !parent.is_empty()) {
        span.parent = Some(parent.to_owned());
    }
    for (name, value) in &record.params {
        let known = ["type", "span_id", "span_id_u64", "parent_id", "parent_id_u64", "trace_id"];
        if !known.contains(&&**name) && !span.fields.contains(&(name.clone(), value.clone())) {
            span.fields.push((name.clone(), value.clone()));
        }
    }
}

/// Traces of all records, the one that began last first.
pub(crate) fn traces(events: &Events) -> Vec<Trace> {
    let spans = spans(events);
    let parents = parents(&spans);
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut roots = Vec::new();
    for (at, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) => children.entry(*parent).or_default().push(at),
            None => roots.push(at),
        }
    }
    for siblings in children.values_mut() {
        siblings.sort_by_key(|&at| spans[at].first());
    }
    roots.sort_by_key(|&at| spans[at].first());
    // Spans without a parent at hand are together if they have the trace's id in common.
    let mut traces: Vec<Trace> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for root in roots {
        let placed = below(root, &spans, &children);
        let id = spans[root].trace.as_deref();
        match id.and_then(|id| known.get(id)).copied().and_then(|at| traces.get_mut(at)) {
            Some(trace) => trace.spans.extend(placed),
            None => {
                known.extend(id.map(|id| (id, traces.len())));
                let id = id.unwrap_or(&spans[root].id).to_owned();
                traces.push(Trace { id, spans: placed });
            }
        }
    }
    traces.sort_by_key(|trace| std::cmp::Reverse(trace.begun()));
    traces
}

/// The place of each span's parent. Who is below itself, by mistake or malice, has none.
fn parents(spans: &[Span]) -> Vec<Option<usize>> {
    let mut by_source: HashMap<(&str, Option<&str>, &str), usize> = HashMap::new();
    let mut by_id: HashMap<(Option<&str>, &str), usize> = HashMap::new();
    for (at, span) in spans.iter().enumerate() {
        by_source.insert((&span.source, span.trace.as_deref(), &span.id), at);
        by_id.insert((span.trace.as_deref(), &span.id), at);
    }
    let mut parents: Vec<Option<usize>> = vec![None; spans.len()];
    for (at, span) in spans.iter().enumerate() {
        let Some(id) = span.parent.as_deref() else { continue };
        let trace = span.trace.as_deref();
        // Ids without a trace are a source's own; another source is asked only where its own knows none.
        let own = by_source.get(&(&*span.source, trace, id)).filter(|&&parent| parent != at);
        let Some(&parent) = own.or_else(|| by_id.get(&(trace, id))) else { continue };
        let mut up = Some(parent);
        let mut steps = 0;
        while let Some(above) = up.filter(|&above| above != at && steps <= spans.len()) {
            (up, steps) = (parents[above], steps + 1);
        }
        if up.is_none() {
            parents[at] = Some(parent);
        }
    }
    parents
}

fn below(root: usize, spans: &[Span], children: &HashMap<usize, Vec<usize>>) -> Vec<Placed> {
    let mut placed = Vec::new();
    let mut open = vec![(root, 0)];
    while let Some((at, depth)) = open.pop() {
        let Some(span) = spans.get(at) else { continue };
        placed.push(Placed { depth, span: span.clone() });
        let inner = children.get(&at).map(Vec::as_slice).unwrap_or_default();
        open.extend(inner.iter().rev().map(|&child| (child, (depth + 1).min(MAX_DEPTH))));
    }
    placed
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sample::{Batch, Item};

    /// A record at a time in milliseconds.
    pub(crate) fn record(ms: i64, flags: EventFlags, fields: &[(&str, &str)]) -> EventRecord {
        EventRecord {
            time: Timestamp { sec: 1_000_000_000 + ms / 1000, nsec: (ms % 1000 * 1_000_000) as u32 },
            flags,
            missed: None,
            params: fields.iter().map(|&(name, value)| (name.into(), value.to_owned())).collect(),
            packed: Arc::default(),
        }
    }

    /// The records of these sources.
    pub(crate) fn events(sources: &[(&str, Vec<EventRecord>)]) -> Events {
        let mut events = Events::default();
        events.begin(Timestamp { sec: 1_000_000_000, nsec: 0 });
        let item = |(inst, (name, records)): (i32, &(&str, Vec<EventRecord>))| Item {
            inst,
            name: (*name).into(),
            value: Batch { records: records.len() as u64, missed: 0, newest: records.clone() },
        };
        events.take(1, (0..).zip(sources).map(item).collect());
        events.end();
        events
    }

    /// A request over three sources, in which the payment fails, and the beginning of another.
    pub(crate) fn shop() -> Events {
        let (start, end) = (EventFlags::START, EventFlags::END);
        let ids = |id: &'static str, parent: &'static str| {
            [("trace_id", "t1"), ("span_id", id), ("parent_id", parent)]
        };
        let of = |kind: &'static str, id, parent| [&[("type", kind)][..], &ids(id, parent)].concat();
        let failed =
            [&of("charge", "c", "b")[..], &[("status", "error"), ("message", "card 4711 refused")]].concat();
        let other = [("type", "checkout"), ("trace_id", "t2"), ("span_id", "z")];
        events(&[
            (
                "web",
                vec![
                    record(0, start, &[("type", "checkout"), ("trace_id", "t1"), ("span_id", "a")]),
                    record(90, end, &[("type", "checkout"), ("trace_id", "t1"), ("span_id", "a")]),
                    record(95, start, &other),
                ],
            ),
            (
                "orders",
                vec![record(10, start, &of("order", "b", "a")), record(80, end, &of("order", "b", "a"))],
            ),
            ("payment", vec![record(20, start, &of("charge", "c", "b")), record(70, end, &failed)]),
        ])
    }

    #[test]
    fn a_trace_goes_over_sources_with_children_below_their_parents() {
        let traces = traces(&shop());
        let ids: Vec<&str> = traces.iter().map(|trace| trace.id.as_str()).collect();
        assert_eq!(ids, ["t2", "t1"]);
        let paths: Vec<_> = traces[1].spans.iter().map(|p| (p.depth, p.span.path(), p.span.failed)).collect();
        let expected = [(0, "web/checkout", false), (1, "orders/order", false), (2, "payment/charge", true)];
        assert_eq!(paths, expected.map(|(depth, path, failed)| (depth, path.to_owned(), failed)));
        assert_eq!((traces[1].sources(), traces[1].failed()), (3, 1));
        assert!((traces[1].duration() - 0.09).abs() < 1e-9);
        assert_eq!(traces[0].spans[0].span.duration(), None);
    }

    #[test]
    fn ends_that_do_not_say_their_trace_end_the_last_span_of_their_id() {
        let start = |ms, trace| {
            record(ms, EventFlags::START, &[("type", "x"), ("trace_id", trace), ("span_id", "1")])
        };
        let end = |ms| record(ms, EventFlags::END, &[("span_id", "1")]);
        let traces = traces(&events(&[("a", vec![start(0, "t1"), end(5), start(10, "t2"), end(17)])]));
        let told: Vec<_> =
            traces.iter().map(|trace| (trace.id.as_str(), trace.spans.len(), trace.duration())).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        for ((id, spans, duration), (expected, seconds)) in
            told.into_iter().zip([("t2", 0.007), ("t1", 0.005)])
        {
            assert_eq!((id, spans), (expected, 1));
            assert!((duration - seconds).abs() < 1e-9);
        }
    }

    #[test]
    fn ids_without_a_trace_are_those_of_the_own_source_first() {
        let both = EventFlags::START | EventFlags::END;
        let span = |id, parent| record(1, both, &[("type", id), ("span_id", id), ("parent_id", parent)]);
        let traces = traces(&events(&[
            ("a", vec![span("1", ""), span("2", "1")]),
            ("b", vec![span("1", ""), span("3", "2")]),
        ]));
        let mut all: Vec<Vec<String>> =
            traces.iter().map(|trace| trace.spans.iter().map(|p| p.span.path()).collect()).collect();
        all.sort();
        assert_eq!(all, [vec!["a/1", "a/2", "b/3"], vec!["b/1"]]);
    }

    #[test]
    fn spans_below_themselves_end_the_search() {
        let both = EventFlags::START | EventFlags::END;
        let span = |id, parent| record(1, both, &[("type", "x"), ("span_id", id), ("parent_id", parent)]);
        let traces =
            traces(&events(&[("a", vec![span("1", "3"), span("2", "1"), span("3", "2"), span("4", "4")])]));
        assert_eq!(traces.iter().map(|trace| trace.spans.len()).sum::<usize>(), 4);
    }
}

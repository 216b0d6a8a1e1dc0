//! Spans and traces of records: starts with ends, points within, children below parents, over all sources and hosts.
//!
//! ```text
//! START .. POINTs .. END, of one source, trace and id  -->  a span
//! END alone                                            -->  a span that began `duration_ns` before, if it says so
//! START alone                                          -->  a span that has not ended
//! ```
//!
//! An id that begins again is another span. Spans without a trace's id are of the trace of the topmost span that they are below of,
//! in their source: its id is made of what that one is.
//!
//! **Cost:** one look at each record, and a few small allocations a span; what a span says is read when it is shown.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pcp_event::EventFlags;

use super::Turn;
use super::record::{Origin, Record, name, whole};
use super::walk::{Order, Visitor, Walked, Window};

/// Most records of spans that a query takes.
const MAX_RECORDS: usize = 200_000;
/// Most bytes of them.
const MAX_BYTES: usize = 64 << 20;
/// Most points of one span.
const MAX_POINTS: usize = 1024;
/// Most spans between one and the topmost above it.
const MAX_DEPTH: usize = 4096;
/// How far around a window the other records of its spans, and the other spans of its traces, are looked for.
const AROUND: Duration = Duration::from_secs(900);

/// A traced activity.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Who told of it.
    pub origin: Arc<Origin>,
    /// The trace that it is of, as it is written.
    pub trace: String,
    /// Its id.
    pub id: String,
    /// The id of the span that it is a part of.
    pub parent: Option<String>,
    /// Its name: the type of its start, or of its end.
    pub name: String,
    /// When it began, in nanoseconds since 1970; the earliest that is known of it.
    pub start: i64,
    /// When it ended, if it has.
    pub end: Option<i64>,
    /// What began it, if that is among the records.
    pub begun: Option<Arc<Record>>,
    /// What ended it, likewise.
    pub ended: Option<Arc<Record>>,
    /// What happened within.
    pub points: Vec<Arc<Record>>,
    /// Whether it failed.
    pub failed: bool,
    /// Records that its source lost while it went on: its end may have been among them.
    pub missed: u64,
}

/// Spans with the same trace.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// As its first span has it.
    pub id: String,
    /// By start. Never empty.
    pub spans: Vec<Span>,
}

/// Spans, and how complete they are.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// By start.
    pub spans: Vec<Span>,
    /// What the walk came to.
    pub walked: Walked,
}

impl Span {
    /// How long it took, in nanoseconds; 0 while it goes on, and if it ended before it began.
    pub(crate) fn duration(&self) -> i64 {
        self.end.map_or(0, |end| end.saturating_sub(self.start).max(0))
    }

    /// What began and what ended it.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.begun.iter().chain(&self.ended)
    }

    /// The spans that it is linked with: trace and span.
    pub(crate) fn links(&self) -> Vec<(String, String)> {
        let links = self.records().flat_map(|record| record.fields.iter());
        let links = links.filter(|field| *field.name == *name::LINK);
        links
            .filter_map(|field| {
                let ids = super::record::text(&field.value);
                let (trace, span) = ids.split_once('-')?;
                Some((trace.to_owned(), span.to_owned()))
            })
            .collect()
    }
}

impl Trace {
    /// When its first span began.
    pub(crate) fn start(&self) -> i64 {
        self.spans.iter().map(|span| span.start).min().unwrap_or_default()
    }
}

/// A trace's id without what differs in writing only: zeros in front and capital letters.
pub(crate) fn same(id: &str) -> String {
    id.trim_start_matches('0').to_ascii_lowercase()
}

impl Turn<'_> {
    /// All spans of which there are records in and around a window, of all traces or of those that are named ([`same`]). Those that
    /// began outside of the window are among them.
    pub(crate) fn spans(&self, window: Window, traces: &[String]) -> Spans {
        let mut all = OfSpans { traces, records: Vec::new(), bytes: 0 };
        // The newest first: what is beyond the limit is what is oldest.
        let mut walked = self.walk(window.wider(AROUND), Order::Newest, &mut all);
        if all.is_full() && walked.cut.is_none() {
            walked.cut = Some("more records of spans than are taken for one query: ask for a shorter time");
        }
        let mut records = all.records;
        records.sort_by_key(|record| record.time);
        let mut spans = paired(&records);
        if !traces.is_empty() {
            spans.retain(|span| traces.contains(&same(&span.trace)));
        }
        Spans { spans, walked }
    }
}

/// Takes the records of spans.
struct OfSpans<'a> {
    traces: &'a [String],
    records: Vec<Arc<Record>>,
    bytes: usize,
}

impl OfSpans<'_> {
    fn is_full(&self) -> bool {
        self.records.len() >= MAX_RECORDS || self.bytes >= MAX_BYTES
    }
}

impl Visitor for OfSpans<'_> {
    fn wants(&mut self, record: &Record) -> bool {
        if self.is_full() {
            return false;
        }
        if record.missed.is_some() {
            return true;
        }
        if record.span_id().is_none() {
            return false;
        }
        // The trace of one without an id of it is known when all are there.
        self.traces.is_empty() || record.trace_id().is_none_or(|id| self.traces.contains(&same(&id)))
    }

    fn take(&mut self, record: Arc<Record>) {
        self.bytes += record.bytes();
        self.records.push(record);
    }

    fn enough(&self, _: i64) -> bool {
        self.is_full()
    }
}

/// Host and source.
type Teller<'a> = (&'a str, &'a str);

/// Where spans are found again by the records that belong to them, many of which do not say their trace.
#[derive(Default)]
struct Known<'a> {
    /// By trace and id.
    exact: HashMap<(Teller<'a>, Cow<'a, str>, Cow<'a, str>), usize>,
    /// By id: the last one.
    last: HashMap<(Teller<'a>, Cow<'a, str>), usize>,
}

impl<'a> Known<'a> {
    fn find(&self, spans: &[Span], of: Teller<'a>, trace: Cow<'a, str>, id: Cow<'a, str>) -> Option<usize> {
        if trace.is_empty() {
            return self.last.get(&(of, id)).copied();
        }
        let exact = self.exact.get(&(of, trace, id.clone()));
        let last = || self.last.get(&(of, id)).filter(|&&at| spans[at].trace.is_empty());
        exact.or_else(last).copied()
    }

    fn insert(&mut self, at: usize, of: Teller<'a>, trace: Cow<'a, str>, id: Cow<'a, str>) {
        self.last.insert((of, id.clone()), at);
        if !trace.is_empty() {
            self.exact.insert((of, trace, id), at);
        }
    }
}

/// The spans of records that are sorted by time; by start.
pub(crate) fn paired(records: &[Arc<Record>]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut known = Known::default();
    // By source: when records were lost, and how many until then.
    let mut lost: HashMap<(&str, &str), Vec<(i64, u64)>> = HashMap::new();
    // At the same time starts come before what is within, and ends behind it.
    let mut order: Vec<&Arc<Record>> = records.iter().collect();
    let turn = |record: &Record| match record.flags {
        flags if flags.contains(EventFlags::START) => 0,
        flags if flags.contains(EventFlags::END) => 2,
        _ => 1,
    };
    order.sort_by_key(|record| (record.time, turn(record)));
    for record in order {
        let origin = &record.origin;
        if let Some(missed) = record.missed {
            let of_source = lost.entry((&origin.host, &origin.source)).or_default();
            let before = of_source.last().map_or(0, |(_, sum)| *sum);
            of_source.push((record.time, before + u64::from(missed)));
            continue;
        }
        let Some(id) = record.span_id() else { continue };
        let (start, end) = (record.flags.contains(EventFlags::START), record.flags.contains(EventFlags::END));
        let trace = record.trace_id().unwrap_or_default();
        let of: Teller<'_> = (&origin.host, &origin.source);
        let at = known.find(&spans, of, trace.clone(), id.clone());
        if !start && !end {
            if let Some(span) = at.and_then(|at| spans.get_mut(at))
                && span.points.len() < MAX_POINTS
            {
                span.points.push(Arc::clone(record));
            }
            continue;
        }
        let at = at.filter(|&at| {
            let is_another = (start && spans[at].begun.is_some()) || (end && spans[at].ended.is_some());
            !is_another
        });
        let at = at.unwrap_or_else(|| {
            spans.push(fresh(record, &id));
            spans.len() - 1
        });
        if spans[at].trace.is_empty() {
            spans[at].trace = trace.clone().into_owned();
        }
        known.insert(at, of, trace, id);
        take(&mut spans[at], record, start, end);
    }
    for span in &mut spans {
        let Some(lost) = lost.get(&(&*span.origin.host, &*span.origin.source)) else { continue };
        span.missed = match (&span.begun, &span.ended) {
            (Some(_), None) => lost.last().map_or(0, |(_, all)| all - until(lost, span.start)),
            (None, Some(ended)) => until(lost, ended.time),
            _ => 0,
        };
    }
    spans.sort_by_key(|span| span.start);
    name_traces(&mut spans);
    spans
}

/// How many records were lost before a time.
fn until(lost: &[(i64, u64)], time: i64) -> u64 {
    let before = lost.partition_point(|(at, _)| *at < time);
    before.checked_sub(1).map_or(0, |last| lost[last].1)
}

fn fresh(record: &Arc<Record>, id: &str) -> Span {
    Span {
        origin: Arc::clone(&record.origin),
        trace: String::new(),
        id: id.to_owned(),
        parent: None,
        name: String::new(),
        start: record.time,
        end: None,
        begun: None,
        ended: None,
        points: Vec::new(),
        failed: false,
        missed: 0,
    }
}

fn take(span: &mut Span, record: &Arc<Record>, start: bool, end: bool) {
    if start {
        span.start = record.time;
        span.begun = Some(Arc::clone(record));
    }
    if end {
        span.end = Some(record.time);
        span.failed |= record.is_failure();
        if span.begun.is_none() {
            let before =
                record.get(name::DURATION).and_then(whole).and_then(|nanos| i64::try_from(nanos).ok());
            span.start = before.map_or(record.time, |before| record.time.saturating_sub(before));
        }
        span.ended = Some(Arc::clone(record));
    }
    if (start || span.name.is_empty())
        && let Some(kind) = record.kind()
    {
        span.name = kind.into_owned();
    }
    if let Some(parent) = record.parent_id() {
        span.parent = Some(parent.into_owned());
    }
}

/// Gives those a trace that have none.
fn name_traces(spans: &mut [Span]) {
    let mut by_id: HashMap<(&str, &str, &str), Vec<usize>> = HashMap::new();
    for (at, span) in spans.iter().enumerate().filter(|(_, span)| span.trace.is_empty()) {
        by_id.entry((&span.origin.host, &span.origin.source, &span.id)).or_default().push(at);
    }
    if by_id.is_empty() {
        return;
    }
    // Ids come again in such sources: the parent is the last of its id that had begun by then.
    let parent_of = |at: usize| -> Option<usize> {
        let span: &Span = &spans[at];
        let of_id = by_id.get(&(&*span.origin.host, &*span.origin.source, span.parent.as_deref()?))?;
        let begun = of_id.partition_point(|&other| spans[other].start <= span.start);
        of_id[..begun].iter().rev().copied().find(|&other| other != at)
    };
    let mut roots: Vec<Option<String>> = vec![None; spans.len()];
    for at in 0..spans.len() {
        if !spans[at].trace.is_empty() || roots[at].is_some() {
            continue;
        }
        // Parents that are named already end the way up: each span is passed once.
        let (mut path, mut top) = (vec![at], at);
        let named = loop {
            match parent_of(top) {
                Some(above) if roots[above].is_some() => break roots[above].clone(),
                Some(above) if path.len() < MAX_DEPTH && !path.contains(&above) => {
                    path.push(above);
                    top = above;
                }
                _ => break None,
            }
        };
        let named = named.unwrap_or_else(|| {
            let span = &spans[top];
            match &span.parent {
                // The topmost is not among the records: all below it have its id in common.
                Some(above) => made(&span.origin, above, 0),
                None => made(&span.origin, &span.id, span.start),
            }
        });
        path.into_iter().for_each(|passed| roots[passed] = Some(named.clone()));
    }
    drop(by_id);
    for (span, root) in spans.iter_mut().zip(roots) {
        if let Some(root) = root {
            span.trace = root;
        }
    }
}

/// An id for the trace of a topmost span: stable over restarts and machines.
fn made(origin: &Origin, id: &str, start: i64) -> String {
    let start = start.div_euclid(1000).to_string();
    let hash = |seed: u64| {
        // FNV-1a, of which each eight bytes begin elsewhere.
        let texts = [&*origin.host, &*origin.source, id, &start];
        let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
        bytes.fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    format!("{:016x}{:016x}", hash(0) | 1 << 63, hash(1))
}

/// Spans by trace, the trace that began last first.
pub(crate) fn traces(spans: Vec<Span>) -> Vec<Trace> {
    let mut traces: Vec<Trace> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for span in spans {
        match known.get(&same(&span.trace)).and_then(|&at| traces.get_mut(at)) {
            Some(trace) => trace.spans.push(span),
            None => {
                known.insert(same(&span.trace), traces.len());
                traces.push(Trace { id: span.trace.clone(), spans: vec![span] });
            }
        }
    }
    traces.sort_by_key(|trace| std::cmp::Reverse(trace.start()));
    traces
}

/// For each span the place of its parent, of any source, if that is among them: in its own source before others.
pub(crate) fn parents(spans: &[Span]) -> Vec<Option<usize>> {
    let mut by_source: HashMap<(&str, &str, String, &str), usize> = HashMap::new();
    let mut by_id: HashMap<(String, &str), usize> = HashMap::new();
    for (at, span) in spans.iter().enumerate() {
        by_source.insert((&span.origin.host, &span.origin.source, same(&span.trace), &span.id), at);
        by_id.insert((same(&span.trace), &span.id), at);
    }
    let parent = |(at, span): (usize, &Span)| {
        let id = span.parent.as_deref()?;
        let trace = same(&span.trace);
        let own = by_source.get(&(&*span.origin.host, &*span.origin.source, trace.clone(), id));
        own.filter(|&&parent| parent != at)
            .or_else(|| by_id.get(&(trace, id)))
            .copied()
            .filter(|&found| found != at)
    };
    spans.iter().enumerate().map(parent).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::record::tests::{origin, record};
    use super::*;

    const START: EventFlags = EventFlags::START;
    const END: EventFlags = EventFlags::END;
    const POINT: EventFlags = EventFlags::POINT;

    /// A request over three sources of two hosts, in which the payment fails.
    pub(crate) fn shop() -> Vec<Span> {
        let (web, orders, payment) = (origin("h1", "web"), origin("h1", "orders"), origin("h2", "payment"));
        let a = [("type", "checkout"), ("trace_id", "00aB"), ("span_id", "a"), ("kind", "server")];
        let b = [("type", "order"), ("trace_id", "ab"), ("span_id", "b"), ("parent_id", "a")];
        let c = [("type", "charge"), ("trace_id", "ab"), ("span_id", "c"), ("parent_id", "b")];
        let failed = [&c[..], &[("status", "error"), ("message", "card 4711 refused")]].concat();
        paired(&[
            record(&web, 0, START, &a),
            record(&orders, 10, START, &b),
            record(&payment, 20, START, &c),
            record(&payment, 30, POINT, &[("type", "try"), ("trace_id", "ab"), ("span_id", "c")]),
            record(&payment, 70, END, &failed),
            // Nor do ends say their trace always.
            record(&orders, 80, END, &[("span_id", "b")]),
            record(&web, 90, END, &a),
            record(&web, 95, START, &[("type", "checkout"), ("trace_id", "t2"), ("span_id", "z")]),
        ])
    }

    #[test]
    fn a_trace_goes_over_sources_and_hosts() {
        let spans = shop();
        assert_eq!(parents(&spans), [None, Some(0), Some(1), None]);
        let traces = traces(spans);
        assert_eq!(traces.iter().map(|trace| trace.id.as_str()).collect::<Vec<_>>(), ["t2", "00aB"]);
        let spans = &traces[1].spans;
        let told: Vec<_> =
            spans.iter().map(|s| (s.name.as_str(), s.duration() / 1_000_000, s.failed)).collect();
        assert_eq!(told, [("checkout", 90, false), ("order", 70, false), ("charge", 50, true)]);
        assert_eq!(spans[2].points.len(), 1);
        assert_eq!((traces[0].spans[0].end, traces[0].spans[0].duration()), (None, 0));
    }

    #[test]
    fn ids_that_begin_again_are_other_spans_and_traces_are_made_of_the_topmost() {
        let app = origin("h", "app");
        let one = |ms, flags, id, parent: &'static str| {
            let fields = [("type", "x"), ("span_id", id), ("parent_id", parent)];
            record(&app, ms, flags, if parent.is_empty() { &fields[..2] } else { &fields })
        };
        let mut records = Vec::new();
        for begin in [0, 100] {
            records.push(one(begin, START, "1", ""));
            records.push(one(begin + 1, START, "2", "1"));
            records.push(one(begin + 2, START, "3", "2"));
            records.push(one(begin + 3, END, "3", "2"));
            records.push(one(begin + 4, END, "2", "1"));
            records.push(one(begin + 5, END, "1", ""));
        }
        // Of one whose topmost span is not among the records.
        records.push(one(200, START, "5", "9"));
        records.push(one(201, END, "5", "9"));
        let spans = paired(&records);
        assert_eq!(spans.len(), 7);
        let again = paired(&records[6..]);
        let all = traces(spans);
        assert_eq!(all.iter().map(|trace| trace.spans.len()).collect::<Vec<_>>(), [1, 3, 3]);
        assert!(all.iter().all(|trace| trace.id.len() == 32));
        assert_eq!(traces(again)[1].id, all[1].id, "whatever else is there");
    }

    #[test]
    fn ends_alone_begin_before_and_losses_are_told() {
        let app = origin("h", "app");
        let lost = |ms| {
            let record = Record::clone(&record(&app, ms, EventFlags::MISSED, &[]));
            Arc::new(Record { missed: Some(7), ..record })
        };
        let spans = paired(&[
            lost(5),
            record(&app, 10, END, &[("span_id", "1"), ("trace_id", "t"), ("duration_ns", "4000000")]),
            record(&app, 11, END, &[("span_id", "2"), ("trace_id", "t")]),
            record(&app, 20, START, &[("span_id", "3"), ("trace_id", "t")]),
            lost(30),
        ]);
        let told: Vec<_> = spans.iter().map(|s| (s.id.as_str(), s.start / 1_000_000, s.missed)).collect();
        assert_eq!(told, [("1", 6, 7), ("2", 11, 7), ("3", 20, 7)]);
    }

    #[test]
    fn spans_below_themselves_end_the_search() {
        let app = origin("h", "app");
        let one = |id, parent| {
            record(&app, 1, START | END, &[("type", "x"), ("span_id", id), ("parent_id", parent)])
        };
        let spans = paired(&[one("1", "3"), one("2", "1"), one("3", "2"), one("4", "4")]);
        assert_eq!(spans.len(), 4);
        assert!(spans.iter().all(|span| span.trace.len() == 32));
        assert_eq!(parents(&spans).iter().flatten().count(), 3);
    }
}

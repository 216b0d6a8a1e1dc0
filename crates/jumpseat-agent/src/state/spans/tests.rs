use std::time::Duration;

use super::*;

const DOMAIN: u16 = 400;

/// Spans of one source, whose names are `a`, `(none)` and `(other)`.
struct Bench {
    spans: Spans,
    sources: FxHashMap<Inst, SourceSpans>,
    fields: Fields,
}

fn field(fields: &mut Fields, item: u16, name: &str, value_type: ValueType) -> Pmid {
    let pmid = Pmid::new(DOMAIN, 16, item);
    fields.define(pmid, name.to_owned(), name.to_owned(), value_type);
    pmid
}

fn bench() -> Bench {
    let mut fields = Fields::default();
    field(&mut fields, 20, "status", ValueType::String);
    field(&mut fields, 21, "error", ValueType::U32);
    let mut spans = Spans::new(DOMAIN, SpansConfig::default());
    let names = [SentName::As("a".into()), SentName::Untyped, SentName::Other];
    for (id, name) in names.into_iter().enumerate() {
        spans.define(id as Inst, 0, &format!("app/{}", name.as_str()), name);
    }
    Bench { spans, sources: FxHashMap::default(), fields }
}

use jumpseat_source::registry::MAX_SENT_NAME;
use pcp_event::Param;
use pcp_model::{Pmid, Timestamp, ValueType};

type Mark<'a> = (EventFlags, i64, u64, Option<&'a str>, &'a [(Pmid, Param<'a>)]);

impl Bench {
    fn send(&mut self, marks: &[Mark<'_>]) {
        let mut batch = Batch::default();
        for (phase, nanos, id, name, fields) in marks {
            let time = Timestamp::from_nanos(i128::from(*nanos));
            let mut record = batch.record(time, *phase | EventFlags::ID);
            record.param(WellKnown::SpanIdU64.pmid(DOMAIN), Param::U64(*id));
            if let Some(name) = name {
                record.param(WellKnown::Type.pmid(DOMAIN), Param::String(name.as_bytes()));
            }
            fields.iter().for_each(|(pmid, value)| record.param(*pmid, *value));
            record.commit().unwrap();
        }
        self.spans.batch(&mut self.sources, 0, &batch, &self.fields);
    }

    fn span(&self, inst: Inst) -> (u64, u64, u64, u32, u64) {
        let span = self.spans.get(inst).expect("it is defined");
        (span.count, span.errors, span.time, span.active, span.unfinished)
    }

    fn source(&self) -> (u64, u64, u64) {
        let source = self.sources.get(&0).expect("it has sent something");
        (source.orphans, source.duplicates, source.backwards)
    }
}

const START: EventFlags = EventFlags::START;
const END: EventFlags = EventFlags::END;

#[test]
fn a_span_counts_under_the_name_of_its_start() {
    let mut bench = bench();
    bench.send(&[
        (START, 1000, 1, Some("a"), &[]),
        (START, 2000, 2, None, &[]),
        (START, 0, 3, Some("unknown"), &[]),
    ]);
    assert_eq!(bench.span(0), (0, 0, 0, 1, 0));
    bench.send(&[(END, 6000, 1, Some("else"), &[]), (END, 2500, 2, None, &[]), (END, 7, 3, None, &[])]);
    assert_eq!(
        (bench.span(0), bench.span(1), bench.span(2)),
        ((1, 0, 5000, 0, 0), (1, 0, 500, 0, 0), (1, 0, 7, 0, 0))
    );
    assert_eq!((bench.source(), bench.spans.open()), ((0, 0, 0), 0));
    let buckets: Vec<&str> = bench.spans.buckets.iter().map(|(_, name)| name).collect();
    assert_eq!(buckets, ["app/a/6us", "app/(none)/1us", "app/(other)/1us"]);
}

#[test]
fn names_are_known_again_as_they_were_sent_until_they_go() {
    let mut bench = bench();
    let (longest, longer) = ("n".repeat(MAX_SENT_NAME), "n".repeat(MAX_SENT_NAME + 1));
    let names = ["a", "b", &longest, &longer].map(Some);
    let remembered = |bench: &Bench| bench.sources[&0].spellings.len();
    for round in 1..=2 {
        for name in names {
            bench.send(&[(START, 0, 1, name, &[]), (END, 1, 1, None, &[])]);
        }
        assert_eq!((bench.span(0).0, bench.span(2).0), (round, 3 * round));
        assert_eq!(remembered(&bench), 3, "one that is too long is looked up each time");
    }
    bench.spans.remove(&mut bench.sources, 0);
    assert_eq!(remembered(&bench), 2);
    bench.send(&[(START, 0, 1, names[0], &[]), (END, 1, 1, None, &[])]);
    assert_eq!((bench.span(2).0, remembered(&bench)), (7, 3), "it is one of the others now");
}

#[test]
fn failures_are_told_by_severity_status_or_error() {
    let mut bench = bench();
    let pmid = |item| Pmid::new(DOMAIN, 16, item);
    let severity = WellKnown::Severity.pmid(DOMAIN);
    for (failed, field) in [
        (0, (severity, Param::String(b"warning"))),
        (1, (severity, Param::String(b"error"))),
        (1, (severity, Param::String(b"critical"))),
        (0, (pmid(20), Param::String(b"ok"))),
        (1, (pmid(20), Param::String(b"ERROR"))),
        (0, (pmid(21), Param::U32(0))),
        (1, (pmid(21), Param::U32(1))),
        (0, (pmid(22), Param::U32(1))),
    ] {
        let before = bench.span(0).1;
        bench.send(&[(START, 0, 1, Some("a"), &[field]), (END, 5, 1, None, &[field])]);
        assert_eq!(bench.span(0).1 - before, failed, "{field:?}");
    }
}

#[test]
fn ends_wait_for_their_start_and_ids_that_come_twice_are_told() {
    let mut bench = bench();
    bench.send(&[(END, 50, 1, None, &[])]);
    bench.send(&[(START, 20, 1, Some("a"), &[])]);
    assert_eq!((bench.span(0), bench.source()), ((1, 0, 30, 0, 0), (0, 0, 0)));
    // An END from before the START was for an earlier one, and so was the first of two.
    bench.send(&[(END, 50, 2, None, &[]), (END, 60, 2, None, &[]), (START, 70, 2, Some("a"), &[])]);
    assert_eq!((bench.span(0), bench.source()), ((1, 0, 30, 1, 0), (2, 0, 0)));
    bench.send(&[(START, 80, 2, Some("a"), &[]), (END, 75, 2, None, &[])]);
    assert_eq!((bench.span(0), bench.source()), ((2, 0, 30, 0, 1), (2, 1, 1)));
    bench.send(&[(END, 1, 9, None, &[])]);
    bench.spans.tick(&mut bench.sources, Instant::now() + Duration::from_secs(3));
    assert_eq!(bench.source().0, 3, "nobody came for it");
}

#[test]
fn a_million_open_spans_and_lonely_ends_are_bounded() {
    let mut bench = bench();
    bench.spans.limits.max_open = 1000;
    for thousand in 0..100u64 {
        let starts: Vec<Mark<'_>> =
            (0..1000).map(|n| (START, 0, thousand * 1000 + n, Some("a"), &[] as &[_])).collect();
        bench.send(&starts);
        let ends: Vec<Mark<'_>> =
            (0..1000).map(|n| (END, 0, (1 << 40) + thousand * 1000 + n, None, &[] as &[_])).collect();
        bench.send(&ends);
    }
    assert_eq!((bench.spans.open(), bench.span(0)), (1000, (0, 0, 0, 1000, 99_000)));
    assert_eq!(bench.source().0, 100_000 - MAX_EARLY as u64);
    // The oldest gave way.
    bench.send(&[(END, 5, 99_999, None, &[]), (END, 5, 5, None, &[])]);
    assert_eq!(bench.span(0), (1, 0, 5, 999, 99_000));
    bench.spans.tick(&mut bench.sources, Instant::now() + Duration::from_secs(4000));
    assert_eq!((bench.spans.open(), bench.span(0)), (0, (1, 0, 5, 0, 99_999)));
}

#[test]
fn what_is_kept_for_dimensions_goes_with_its_span() {
    let mut bench = bench();
    let table = DimensionsConfig { fields: vec!["status".to_owned()], ..<_>::default() };
    let limits = SpansConfig { max_open: 10, ..SpansConfig::default() };
    bench.spans = Spans::with_dimensions(DOMAIN, limits, vec![table]);
    bench.spans.define(0, 0, "app/a", SentName::As("a".into()));
    let status = |text: &'static str| [(Pmid::new(DOMAIN, 16, 20), Param::String(text.as_bytes()))];
    // Whole, the wrong way round, twice, beyond the number that may be open, without a START.
    bench.send(&[(START, 1, 1, Some("a"), &[]), (END, 5, 1, None, &status("ok"))]);
    bench.send(&[(END, 5, 2, None, &[]), (START, 1, 2, Some("a"), &status("ok"))]);
    bench.send(&[
        (START, 1, 3, Some("a"), &[]),
        (START, 2, 3, Some("a"), &[]),
        (END, 9, 3, None, &status("bad")),
    ]);
    (10..40).for_each(|id| bench.send(&[(START, 1, id, Some("a"), &status("ok"))]));
    (100..110).for_each(|id| bench.send(&[(END, 1, id, None, &status("ok")), (END, 2, id, None, &[])]));
    assert_eq!(bench.spans.kept.used(), 20);
    bench.spans.tick(&mut bench.sources, Instant::now() + Duration::from_secs(4000));
    assert_eq!(bench.spans.kept.used(), 0);
    bench.spans.series.take_names();
    let named = bench.spans.series.instances.iter();
    let counts: Vec<(&str, u64)> = named
        .map(|(inst, name)| (name, bench.spans.series.get(inst).expect("there").figures.count))
        .collect();
    assert_eq!(counts, [("app/a:ok", 2), ("app/a:bad", 1)]);
    // Other fields: what there was has gone, and with it its values.
    let other = DimensionsConfig { fields: vec!["error".to_owned()], ..<_>::default() };
    bench.send(&[(START, 1, 7, Some("a"), &status("ok"))]);
    bench.spans.configure(&Config { dimensions: vec![other], ..Config::default() });
    bench.send(&[(END, 2, 7, None, &status("ok"))]);
    bench.spans.series.take_names();
    let names: Vec<&str> = bench.spans.series.instances.iter().map(|(_, name)| name).collect();
    assert_eq!((names, bench.spans.kept.used()), (vec!["app/a:"], 0));
}

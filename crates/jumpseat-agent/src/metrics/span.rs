//! `jumpseat.span.*`: what spans tell.

use std::time::Instant;

use crate::identity::{SOURCES, SPAN_BOUNDS, SPAN_BUCKETS, SPANS};
use crate::state::State;
use crate::state::spans::{SourceSpans, Span};
use pcp_model::{Units, Value, ValueType};
use pcp_pmda::Metric;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let of = |name: &str, units, value: fn(&Span) -> u64| {
        Metric::new(format!("jumpseat.span.{name}"), ValueType::U64)
            .indom(SPANS)
            .units(units)
            .counter()
            .each(move |state: &mut State, _, inst| Ok(state.spans.get(inst).map(|s| Value::U64(value(s)))))
    };
    let now = |name: &str, value: fn(&Span, u64) -> Option<u64>| {
        Metric::new(format!("jumpseat.span.{name}"), ValueType::U64)
            .indom(SPANS)
            .units(Units::NANOSECOND)
            .each(move |state: &mut State, _, inst| {
                let slice = state.spans.slice(Instant::now());
                Ok(state.spans.get(inst).and_then(|span| value(span, slice)).map(Value::U64))
            })
    };
    let of_source = |name: &str, value: fn(&SourceSpans) -> u64| {
        Metric::new(format!("jumpseat.span.{name}"), ValueType::U64)
            .indom(SOURCES)
            .units(Units::COUNT)
            .counter()
            .each(move |state: &mut State, _, inst| {
                state.spans.tick(&mut state.sources, Instant::now());
                let spans = state.sources.get(inst).and_then(|source| source.spans.as_deref());
                Ok(spans.map(|spans| Value::U64(value(spans))))
            })
    };
    vec![
        of("count", Units::COUNT, |span| span.count),
        of("errors", Units::COUNT, |span| span.errors),
        of("time", Units::NANOSECOND, |span| span.time),
        of("unfinished", Units::COUNT, |span| span.unfinished),
        Metric::new("jumpseat.span.active", ValueType::U32)
            .indom(SPANS)
            .units(Units::COUNT)
            .each(|state: &mut State, _, inst| Ok(state.spans.get(inst).map(|span| Value::U32(span.active)))),
        now("longest", Span::longest),
        now("p50", |span, slice| span.quantile(0.5, slice)),
        now("p90", |span, slice| span.quantile(0.9, slice)),
        now("p95", |span, slice| span.quantile(0.95, slice)),
        now("p99", |span, slice| span.quantile(0.99, slice)),
        Metric::new("jumpseat.span.histogram", ValueType::U64)
            .indom(SPAN_BUCKETS)
            .units(Units::COUNT)
            .counter()
            .each(|state: &mut State, _, inst| {
                let counted = state.spans.of_bucket(inst).and_then(|(span, at)| span.histogram.get(at));
                Ok(counted.map(|count| Value::U64(*count)))
            }),
        Metric::new("jumpseat.span.bucket", ValueType::U64)
            .indom(SPAN_BOUNDS)
            .units(Units::COUNT)
            .counter()
            .each(|state: &mut State, _, inst| Ok(state.spans.below(inst).map(Value::U64))),
        Metric::new("jumpseat.span.sum", ValueType::Double).indom(SPANS).units(Units::SECOND).counter().each(
            |state: &mut State, _, inst| {
                Ok(state.spans.get(inst).map(|span| Value::Double(span.time as f64 / 1e9)))
            },
        ),
        of_source("orphans", |source| source.orphans),
        of_source("duplicates", |source| source.duplicates),
        of_source("backwards", |source| source.backwards),
        Metric::new("jumpseat.span.folded", ValueType::U64)
            .units(Units::COUNT)
            .counter()
            .value(|state: &mut State| state.registry.spans_folded()),
        Metric::new("jumpseat.span.open", ValueType::U64)
            .units(Units::COUNT)
            .value(|state: &mut State| state.spans.open() as u64),
        Metric::new("jumpseat.span.untold", ValueType::U64)
            .units(Units::COUNT)
            .counter()
            .value(|state: &mut State| state.spans.untold),
    ]
}

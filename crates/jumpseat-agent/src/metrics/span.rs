//! `jumpseat.span.*`: what spans tell.

use std::time::Instant;

use crate::identity::{SOURCES, SPAN_BOUNDS, SPAN_BUCKETS, SPAN_SERIES, SPANS};
use crate::state::State;
use crate::state::spans::series::{Exemplar, Figures};
use crate::state::spans::{SourceSpans, Span};
use pcp_model::{Units, Value, ValueType};
use pcp_pmda::Metric;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let mut metrics = of_names();
    metrics.extend(of_series());
    metrics
}

/// By source and name, and over all.
fn of_names() -> Vec<Metric<State>> {
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

/// By source, name and the values of dimensions.
fn of_series() -> Vec<Metric<State>> {
    let value = |name: &str, value_type, units, value: fn(&Figures, u64) -> Option<Value>| {
        Metric::new(format!("jumpseat.span.series.{name}"), value_type).indom(SPAN_SERIES).units(units).each(
            move |state: &mut State, _, inst| {
                let half = state.spans.half(Instant::now());
                Ok(state.spans.series.get(inst).and_then(|series| value(&series.figures, half)))
            },
        )
    };
    let count = |name: &str, units, count: fn(&Figures) -> u64| {
        Metric::new(format!("jumpseat.span.series.{name}"), ValueType::U64)
            .indom(SPAN_SERIES)
            .units(units)
            .counter()
            .each(move |state: &mut State, _, inst| {
                Ok(state.spans.series.get(inst).map(|series| Value::U64(count(&series.figures))))
            })
    };
    let total = |name: &str, total: fn(&State) -> u64| {
        Metric::new(format!("jumpseat.span.series.{name}"), ValueType::U64)
            .units(Units::COUNT)
            .value(move |state: &mut State| total(state))
    };
    let mut metrics = vec![
        count("count", Units::COUNT, |figures| figures.count),
        count("errors", Units::COUNT, |figures| figures.errors),
        count("time", Units::NANOSECOND, |figures| figures.time),
        value("longest", ValueType::U64, Units::NANOSECOND, |figures, half| {
            figures.longest(half).map(Value::U64)
        }),
        value("p50", ValueType::U64, Units::NANOSECOND, |figures, half| {
            figures.quantile(0.5, half).map(Value::U64)
        }),
        value("p90", ValueType::U64, Units::NANOSECOND, |figures, half| {
            figures.quantile(0.9, half).map(Value::U64)
        }),
        value("p95", ValueType::U64, Units::NANOSECOND, |figures, half| {
            figures.quantile(0.95, half).map(Value::U64)
        }),
        value("p99", ValueType::U64, Units::NANOSECOND, |figures, half| {
            figures.quantile(0.99, half).map(Value::U64)
        }),
        value("exponential", ValueType::String, Units::NONE, |figures, _| {
            Some(Value::String(figures.exponential().into()))
        }),
        total("number", |state| state.spans.series.count().into()),
        total("folded", |state| state.spans.series.folded).counter(),
        total("evicted", |state| state.spans.series.evicted).counter(),
        total("unnamed", |state| state.spans.series.unnamed).counter(),
    ];
    type Which = (&'static str, fn(&Figures, u64) -> Option<&Exemplar>);
    let exemplars: [Which; 2] = [
        ("slowest", |figures, half| figures.slowest(half)),
        ("failed", |figures, _| figures.failed.as_ref()),
    ];
    type Part = (&'static str, ValueType, Units, fn(&Exemplar) -> Value);
    let parts: [Part; 4] = [
        ("trace_id", ValueType::String, Units::NONE, |of| Value::String(of.trace.text().into())),
        ("span_id", ValueType::String, Units::NONE, |of| Value::String(of.span.text().into())),
        ("value", ValueType::U64, Units::NANOSECOND, |of| Value::U64(of.nanos)),
        ("time", ValueType::Double, Units::SECOND, |of| {
            Value::Double(of.ended.sec as f64 + f64::from(of.ended.nsec) / 1e9)
        }),
    ];
    for (which, exemplar) in exemplars {
        for (part, value_type, units, value) in parts {
            let metric = Metric::new(format!("jumpseat.span.series.{which}.{part}"), value_type);
            metrics.push(metric.indom(SPAN_SERIES).units(units).each(move |state: &mut State, _, inst| {
                let half = state.spans.half(Instant::now());
                let series = state.spans.series.get(inst);
                Ok(series.and_then(|series| exemplar(&series.figures, half)).map(value))
            }));
        }
    }
    metrics
}

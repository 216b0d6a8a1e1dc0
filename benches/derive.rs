//! Derived metrics against libpcp: registering, binding and looking up many definitions; evaluating many
//! expressions over many instances. Both sides read the same texts and the same values.

mod common;

use std::time::{Duration, Instant};

use common::{Figure, Goal, Row, Times, race, rounds};
use jumpseat::derive::{
    Column, DerivedContext, Dialect, Level, Meta, MetricSource, OperandValues, Registry, Values,
};
use jumpseat::model::{
    FetchResult, InDom, Inst, InstanceValue, PM_IN_NULL, PmError, Pmid, Semantics, Timestamp, Units, Value,
    ValueSet, ValueType,
};
use support::CPeer;

const METRICS: u64 = 10;
const INSTANCES: u64 = 1000;
const RECORDS: u64 = 8;
const DEFINITIONS: usize = 10_000;
const EXPRESSIONS: usize = 1000;
const INDOM: InDom = InDom::new(245, 1);

fn expression(n: usize) -> String {
    let (a, b, c) = (n % 10, n / 10 % 10, n / 100 % 10);
    match n % 6 {
        0 => format!("delta(m.n{a}) / delta(m.n{b})"),
        1 => format!("rate(m.n{a}) + rate(m.n{b})"),
        2 => format!("instant(m.n{a}) + instant(m.n{b}) - instant(m.n{c})"),
        3 => format!("avg(m.n{a}) / count(m.n{b})"),
        4 => format!("instant(m.n{a}) * 2 + {n}"),
        _ => format!("100 * rate(m.n{a}) / (rate(m.n{a}) + rate(m.n{c}))"),
    }
}

/// The metrics m.n0 to m.n9: U64 counters.
struct Metrics;

impl MetricSource for Metrics {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        let item = name.strip_prefix("m.n").and_then(|item| item.parse().ok()).ok_or(PmError::NAME)?;
        Ok(Pmid::new(245, 0, item))
    }

    fn meta(&mut self, _: Pmid) -> Result<Meta, PmError> {
        let semantics = Some(Semantics::Counter);
        Ok(Meta { value_type: ValueType::U64, indom: INDOM, semantics, units: Units::NONE })
    }
}

fn value(record: u64, metric: u64, instance: u64) -> u64 {
    1000 * record * (metric + 1) + instance
}

/// A record's values, as the archive has them.
struct Record(u64);

impl OperandValues for Record {
    fn operand(&mut self, pmid: Pmid, column: &mut Column) -> Result<(), PmError> {
        let metric = u64::from(pmid.item());
        column.ids.extend(0..INSTANCES as Inst);
        if let Values::U64(values) = &mut column.values {
            values.extend((0..INSTANCES).map(|instance| value(self.0, metric, instance)));
        }
        Ok(())
    }
}

fn registry(count: usize) -> (Registry, Vec<Pmid>) {
    let mut registry = Registry::new(Dialect::strict(Level::V603));
    let pmids =
        (0..count).map(|n| registry.register(&format!("d.n{n}"), &expression(n)).expect("is correct"));
    let pmids = pmids.collect();
    (registry, pmids)
}

fn register() -> Duration {
    let start = Instant::now();
    let (registry, _) = registry(DEFINITIONS);
    let mut context = DerivedContext::new();
    for n in 0..DEFINITIONS {
        let pmid = context.refresh(&registry).pmid(&format!("d.n{n}")).expect("is registered");
        context.attach(&registry, &mut Metrics).meta(pmid).expect("binds");
    }
    start.elapsed()
}

/// The time of a fetch, from operands to columns; or to a whole fetch result.
fn evaluate(whole_result: bool) -> Duration {
    let (registry, pmids) = registry(EXPRESSIONS);
    let mut context = DerivedContext::new();
    let mut wanted = pmids.clone();
    let mut metrics = Metrics;
    let mut context = context.attach(&registry, &mut metrics);
    context.expand(&mut wanted);
    let base: Vec<FetchResult> = (0..RECORDS).map(|record| base(record, &wanted)).collect();
    let mut start = Instant::now();
    for (record, result) in (0..).zip(base) {
        if record == 2 {
            start = Instant::now();
        }
        if whole_result {
            std::hint::black_box(context.answer(&pmids, &result));
            continue;
        }
        context.begin_fetch();
        let mut answers = context.answers(&pmids, result.timestamp);
        for &pmid in &pmids {
            std::hint::black_box(answers.answer(pmid, &mut Record(record)).values().expect("has values"));
        }
    }
    start.elapsed() / (RECORDS - 2) as u32
}

/// What the source answers: the operands' values.
fn base(record: u64, wanted: &[Pmid]) -> FetchResult {
    let set = |&pmid: &Pmid| {
        let values = (0..INSTANCES).map(|i| InstanceValue {
            inst: i as Inst,
            value: Value::U64(value(record, pmid.item().into(), i)),
        });
        ValueSet { pmid, values: Ok(if pmid.domain() == 245 { values.collect() } else { Vec::new() }) }
    };
    FetchResult { timestamp: Timestamp::new(record as i64, 0), sets: wanted.iter().map(set).collect() }
}

fn main() {
    assert_ne!(PM_IN_NULL, 0, "instances are numbered from 0 here");
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let archive = directory.path().join("a");
    let peer = |count: usize| {
        let mut peer = CPeer::start("benches/c/derive.c");
        peer.ask(&format!("archive\t{}{count}\t{METRICS}\t{INSTANCES}\t{RECORDS}", archive.display()));
        for n in 0..count {
            peer.ask(&format!("expression\t{}", expression(n)));
        }
        peer
    };
    let nanoseconds = |answer: String| Duration::from_nanos(answer.parse().expect("a number of nanoseconds"));
    let mut many = peer(DEFINITIONS);
    let [ours, theirs] = race(rounds(10), [&mut register, &mut || nanoseconds(many.ask("register"))]);
    let what = format!("register, look up and bind {DEFINITIONS} definitions");
    let rate = |times: &Times| Figure::rate(times, DEFINITIONS as f64, "definitions/s");
    Row::new(what, rate(&ours)).peer("libpcp", rate(&theirs)).goal(Goal::Ratio(20.0)).print();
    let mut some = peer(EXPRESSIONS);
    let [columns, results, theirs] = race(
        rounds(10),
        [&mut || evaluate(false), &mut || evaluate(true), &mut || nanoseconds(some.ask("evaluate"))],
    );
    let values = (EXPRESSIONS as u64 * INSTANCES) as f64;
    let what = format!("evaluate {EXPRESSIONS} expressions over {INSTANCES} instances");
    let rate = |times: &Times| Figure::rate(times, values, "values/s");
    // Values one by one are four times the memory of columns; for clients that want them all the same.
    for (form, times) in [("to columns", &columns), ("to a fetch result", &results)] {
        Row::new(format!("{what}, {form}"), rate(times))
            .peer("libpcp", rate(&theirs))
            .goal(Goal::Ratio(10.0))
            .print();
    }
    let (registry, pmids) = registry(EXPRESSIONS);
    let mut context = DerivedContext::new();
    let mut wanted = pmids.clone();
    context.attach(&registry, &mut Metrics).expand(&mut wanted);
    for record in 0..3 {
        context.attach(&registry, &mut Metrics).answer(&pmids, &base(record, &wanted));
    }
    let stateful: usize = (0..EXPRESSIONS)
        .map(|n| expression(n).matches("rate(").count() + expression(n).matches("delta(").count())
        .sum();
    let bytes = context.history_bytes() as f64 / (stateful as u64 * INSTANCES) as f64;
    Row::new("history of a derived metric", Figure::cost(bytes, "bytes an instance and node with a memory"))
        .goal(Goal::AtMost(24.0))
        .print();
}

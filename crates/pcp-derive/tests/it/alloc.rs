//! Evaluating derived metrics allocates nothing once columns have been as long before.

use pcp_derive::{Column, DerivedContext, Dialect, Meta, MetricSource, OperandValues, Registry, Values};
use pcp_model::{InDom, Inst, PmError, Pmid, Semantics, Timestamp, Units, ValueType};
use support::alloc::allocations;

const INSTANCES: Inst = 100;

struct Metrics;

impl MetricSource for Metrics {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        match name {
            "m.a" => Ok(Pmid::new(245, 0, 1)),
            "m.b" => Ok(Pmid::new(245, 0, 2)),
            _ => Err(PmError::NAME),
        }
    }

    fn meta(&mut self, _: Pmid) -> Result<Meta, PmError> {
        let (indom, semantics) = (InDom::new(245, 1), Some(Semantics::Counter));
        Ok(Meta { value_type: ValueType::U64, indom, semantics, units: Units::NONE })
    }

    fn instance(&mut self, _: InDom, name: &str) -> Result<Inst, PmError> {
        name.parse().map_err(|_| PmError::INST)
    }

    fn instance_name(&mut self, _: InDom, inst: Inst, found: &mut dyn FnMut(&str)) -> Result<(), PmError> {
        found(&inst.to_string());
        Ok(())
    }

    fn instances(&mut self, _: InDom, out: &mut Vec<Inst>) -> Result<(), PmError> {
        out.extend(0..INSTANCES);
        Ok(())
    }
}

/// The instances of m.b come in another order than those of m.a, and both orders change.
struct Record(u64);

impl OperandValues for Record {
    fn operand(&mut self, pmid: Pmid, column: &mut Column) -> Result<(), PmError> {
        column.ids.extend(0..INSTANCES);
        column.ids.rotate_left((self.0 * u64::from(pmid.item())) as usize % 10);
        if let Values::U64(values) = &mut column.values {
            values.extend(column.ids.iter().map(|&inst| self.0 * 10 + inst as u64));
        }
        Ok(())
    }
}

#[test]
fn a_warm_fetch_allocates_nothing() {
    let mut registry = Registry::new(Dialect::default());
    let expressions = [
        "delta(m.a) / delta(m.b)",
        "100 * rate(m.a) / (rate(m.a) + rate(m.b))",
        "rate(m.a + m.b) > 5 ? rate(m.a) : rate(m.b)",
        "sum(m.a) + sum(m.b)",
        "avg(m.a) + max(m.a) * min(m.b)",
        "avg(m.a) / count(m.b)",
        "matchinst(/7$/, delta(m.a))",
        "(delta(m.b))[42]",
        "-instant(m.a) + mkconst(1, meta=m.a, semantics=instant)",
        "topk(5, rate(m.a))",
        "quantile(0.9, rate(m.b)) + stddev(rate(m.a))",
        "clamp(abs(delta(m.a)), 0, 100)",
    ];
    let definitions = expressions.iter().enumerate();
    let pmids: Vec<Pmid> =
        definitions.map(|(n, text)| registry.register(&format!("d.n{n}"), text).unwrap()).collect();
    let (mut context, mut metrics) = (DerivedContext::new(), Metrics);
    let mut context = context.attach(&registry, &mut metrics);
    for (&pmid, text) in pmids.iter().zip(expressions) {
        context.meta(pmid).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let mut warm = 0;
    for record in 0..40 {
        let before = allocations();
        context.begin_fetch();
        let mut answers = context.answers(&pmids, Timestamp::new(record as i64, 0));
        for &pmid in &pmids {
            answers.answer(pmid, &mut Record(record)).values().unwrap();
        }
        let allocations = allocations() - before;
        if record == 0 {
            assert!(allocations > 0, "the counter counts");
        }
        warm = if record < 20 { 0 } else { warm + allocations };
    }
    assert_eq!(warm, 0, "allocations in 20 warm fetches");
}

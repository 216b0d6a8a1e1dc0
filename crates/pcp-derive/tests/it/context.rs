//! Identity of definitions in contexts, nested definitions, and what survives changes of the registry.

use std::collections::HashSet;

use pcp_derive::{
    AddError, BindErrorKind, Column, DerivedContext, Dialect, HelpKind, Level, Meta, MetricSource,
    OperandValues, Registry, Values,
};
use pcp_model::{InDom, PmError, Pmid, Semantics, Timestamp, Units, ValueType};

/// Real metrics m.a (a counter) and m.b, both U32 and singular.
struct Metrics;

impl MetricSource for Metrics {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        match name {
            "m.a" => Ok(Pmid::new(245, 0, 1)),
            "m.b" => Ok(Pmid::new(245, 0, 2)),
            _ => Err(PmError::NAME),
        }
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        let semantics = if pmid.item() == 1 { Semantics::Counter } else { Semantics::Instant };
        let units = Units::NONE;
        Ok(Meta { value_type: ValueType::U32, indom: InDom::NULL, semantics: Some(semantics), units })
    }
}

/// Every metric has this value.
struct All(u32);

impl OperandValues for All {
    fn operand(&mut self, _: Pmid, column: &mut Column) -> Result<(), PmError> {
        column.ids.push(-1);
        if let Values::U32(values) = &mut column.values {
            values.push(self.0);
        }
        Ok(())
    }
}

fn value(
    context: &mut DerivedContext,
    registry: &Registry,
    pmid: Pmid,
    time: i64,
    operand: u32,
) -> Option<Values> {
    let mut metrics = Metrics;
    let mut context = context.attach(registry, &mut metrics);
    context.meta(pmid).unwrap();
    context.begin_fetch();
    let mut answers = context.answers(std::slice::from_ref(&pmid), Timestamp::new(time, 0));
    let column = answers.answer(pmid, &mut All(operand)).values().unwrap();
    Some(column.values.clone()).filter(|values| !values.is_empty())
}

#[test]
fn own_definitions_hide_global_ones_and_count_down() {
    let mut registry = Registry::new(Dialect::default());
    registry.initialise();
    let global = registry.register("d.x", "m.b + 1").unwrap();
    assert_eq!(global.to_string(), "511.0.3");
    let (mut one, mut other) = (DerivedContext::new(), DerivedContext::new());
    let own = one.attach(&registry, &mut Metrics).add("d.x", "m.b + 2").unwrap();
    assert_eq!((own.0, one.refresh(&registry).pmid("d.x")), (0xffdf_ffff, Some(own)));
    assert_eq!(other.attach(&registry, &mut Metrics).add("d.y", "1").unwrap().0, 0xffdf_ffff);
    assert_eq!(one.attach(&registry, &mut Metrics).add("d.z", "1").unwrap().0, 0xffdf_fffe);
    assert_eq!(one.attach(&registry, &mut Metrics).meta(global), Err(PmError::PMID));
    assert_eq!(other.refresh(&registry).pmid("d.x"), Some(global));
    assert_eq!(value(&mut one, &registry, own, 1, 5), Some(Values::U32(vec![7])));
    assert_eq!(value(&mut other, &registry, global, 1, 5), Some(Values::U32(vec![6])));
    let again = one.attach(&registry, &mut Metrics).add("d.x", "1").unwrap_err();
    assert_eq!(
        again.report("d.x", "1"),
        "Error: pmAddDerivedMetric(\"d.x\", ...): returns -12409\nDuplicate per-context derived metric name\n"
    );
    one.reset();
    assert_eq!(one.refresh(&registry).pmid("d.x"), Some(global));
}

#[test]
fn broken_definitions_keep_their_names() {
    let registry = Registry::new(Dialect::strict(Level::V638));
    let mut context = DerivedContext::new();
    let error = context.attach(&registry, &mut Metrics).add("d.x", "m.a * m.a").unwrap_err();
    assert!(matches!(error, AddError::Broken(_)));
    assert_eq!(
        error.report("d.x", "m.a * m.a"),
        "Semantic Error: pmAddDerivedMetric(\"d.x\", ...)\nm.a * m.a\n^\nIllegal operator for counters\n"
    );
    let pmid = context.refresh(&registry).pmid("d.x").unwrap();
    assert_eq!(context.attach(&registry, &mut Metrics).meta(pmid), Err(PmError::BADDERIVE));
    assert_eq!(context.refresh(&registry).name(pmid).map(|name| name.to_string()), Some("d.x".to_owned()));
}

#[test]
fn contexts_follow_the_registry_and_keep_history() {
    let mut registry = Registry::new(Dialect::default());
    let kept = registry.register("d.kept", "delta(m.a)").unwrap();
    let gone = registry.register("d.gone", "delta(m.a)").unwrap();
    let mut context = DerivedContext::new();
    assert_eq!(value(&mut context, &registry, kept, 1, 10), None);
    assert_eq!(value(&mut context, &registry, gone, 1, 10), None);
    registry.unregister("d.gone").unwrap();
    let new = registry.register("d.gone", "m.b").unwrap();
    assert_ne!(gone, new, "PMIDs are not used again");
    assert_eq!(value(&mut context, &registry, kept, 2, 15), Some(Values::I64(vec![5])));
    assert_eq!(context.refresh(&registry).pmid("d.gone"), Some(new));
    assert_eq!(context.attach(&registry, &mut Metrics).meta(gone), Err(PmError::PMID));
    registry.set_help("d.kept", HelpKind::Oneline, "a difference").unwrap();
    assert_eq!(context.refresh(&registry).help(kept, HelpKind::Help).as_deref(), Ok("a difference"));
    assert_eq!(value(&mut context, &registry, kept, 3, 16), Some(Values::I64(vec![1])));
}

#[test]
fn two_contexts_have_histories_of_their_own() {
    let mut registry = Registry::new(Dialect::default());
    let pmid = registry.register("d.x", "delta(m.a)").unwrap();
    let (mut one, mut other) = (DerivedContext::new(), DerivedContext::new());
    assert_eq!(value(&mut one, &registry, pmid, 1, 10), None);
    assert_eq!(value(&mut other, &registry, pmid, 2, 20), None);
    assert_eq!(value(&mut one, &registry, pmid, 3, 30), Some(Values::I64(vec![20])));
    assert_eq!(value(&mut other, &registry, pmid, 4, 40), Some(Values::I64(vec![20])));
}

#[test]
fn nested_definitions_mean_their_expression() {
    let mut registry = Registry::new(Dialect::default());
    registry.register("d.sum", "m.a + m.a").unwrap();
    registry.register("d.rate", "rate(d.sum)").unwrap();
    let pmid = registry.register("d.x", "d.rate * 2").unwrap();
    let mut context = DerivedContext::new();
    assert_eq!(value(&mut context, &registry, pmid, 1, 10), None);
    assert_eq!(value(&mut context, &registry, pmid, 3, 15), Some(Values::Double(vec![10.0])));

    let mut portable = Registry::new(Dialect::portable());
    portable.register("d.sum", "m.a + m.a").unwrap();
    let pmid = portable.register("d.x", "d.sum * 2").unwrap();
    let error = DerivedContext::new().attach(&portable, &mut Metrics).binding(pmid).unwrap_err().unwrap();
    assert_eq!(error.to_string(), "operand d.sum: Illegal nested derived metric");
}

#[test]
fn cycles_and_explosions_do_not_bind() {
    let mut registry = Registry::new(Dialect::default());
    let pmid = registry.register("x", "1 + y").unwrap();
    let inner = registry.register("y", "2 * x").unwrap();
    let mut context = DerivedContext::new();
    assert_eq!(context.attach(&registry, &mut Metrics).meta(pmid), Err(PmError::BADDERIVE));
    match context.attach(&registry, &mut Metrics).binding(inner).unwrap_err().unwrap().kind {
        BindErrorKind::Cycle(path) => assert_eq!(path.join(" "), "x y x"),
        other => panic!("{other:?}"),
    }
    registry.register("n0", "m.b + m.b").unwrap();
    let last =
        (1..200).map(|n| registry.register(&format!("n{n}"), &format!("n{0} + n{0}", n - 1)).unwrap()).last();
    assert_eq!(context.attach(&registry, &mut Metrics).meta(last.unwrap()), Err(PmError::BADDERIVE));
    let mut strict = Registry::new(Dialect::strict(Level::V638));
    let alias = strict.register("x", "x").unwrap();
    assert_eq!(DerivedContext::new().attach(&strict, &mut Metrics).meta(alias), Err(PmError::BADDERIVE));
}

#[test]
fn names_are_listed_by_whole_words() {
    let mut registry = Registry::new(Dialect::default());
    for name in ["a.b.c", "a.bc", "a.b", "z"] {
        registry.register(name, "1").unwrap();
    }
    let mut context = DerivedContext::new();
    let names = |context: &mut DerivedContext, prefix: &str| -> Vec<String> {
        context.refresh(&registry).names(prefix).map(|(name, _)| name.to_string()).collect()
    };
    assert_eq!(names(&mut context, "a.b"), ["a.b.c", "a.b"]);
    assert_eq!(names(&mut context, ""), ["a.b.c", "a.bc", "a.b", "z"]);
}

/// Metrics as above; what was to be expected, and whether what was asked about had been.
#[derive(Default)]
struct FarAway {
    batches: Vec<usize>,
    expected: HashSet<String>,
    surprises: Vec<String>,
}

impl MetricSource for FarAway {
    fn expect(&mut self, names: &[&str]) {
        self.batches.push(names.len());
        self.expected.extend(names.iter().map(|&name| name.to_owned()));
    }

    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        if !self.expected.contains(name) {
            self.surprises.push(name.to_owned());
        }
        Metrics.pmid(name)
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        Metrics.meta(pmid)
    }
}

#[test]
fn sources_are_told_what_will_be_asked_in_growing_batches() {
    let mut registry = Registry::new(Dialect::default());
    let texts = ["m.b * m.b", "mkconst(1, meta=m.a)", "defined(no.such) ? m.a : m.b", "d.n0", "-m.b"];
    let metric = |n: usize| registry.register(&format!("d.n{n}"), texts[n % texts.len()]).unwrap();
    let pmids: Vec<Pmid> = (0..20).map(metric).collect();
    let mut source = FarAway::default();
    let mut context = DerivedContext::new();
    // Also backwards, and each of them once.
    for pmid in [&pmids[5..], &pmids[..5]].concat().into_iter().rev() {
        context.attach(&registry, &mut source).meta(pmid).unwrap();
    }
    assert_eq!(source.surprises, Vec::<String>::new());
    let names: usize = (0..20).map(|n| [3, 2, 4, 2, 2][n % 5]).sum();
    assert_eq!(source.batches.iter().sum::<usize>(), names);
    assert_eq!(source.batches.len(), 5, "of 1, 2, 4, 8 and the 5 that are left: {:?}", source.batches);
}

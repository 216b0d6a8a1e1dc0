//! Contexts on a real pmcd: every request of the PMAPI, and derived metrics among real ones.

use jumpseat::client::{
    ClientError, Column, Context, ContextKind, Fetched, LabelTarget, TextLevel, TextTarget,
};
use jumpseat::model::{InDom, LabelKind, PmError, Pmid, Semantics, Value, ValueSet, ValueType};
use support::{AgentSpec, PrivatePmcd};

fn code<T: std::fmt::Debug>(result: Result<T, ClientError>) -> PmError {
    result.expect_err("an error").code()
}

fn numbers(fetched: &Fetched, at: usize, value_type: ValueType) -> Result<Vec<(i32, Value)>, PmError> {
    let set = fetched.set(at).expect("a set for each metric").to_values(value_type)?;
    Ok(set.values?.into_iter().map(|value| (value.inst, value.value)).collect())
}

#[test]
fn names_descriptors_and_instances_come_from_the_collector() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    for spec in [pmcd.inet(), pmcd.unix()] {
        let mut context = Context::host(&spec).unwrap();
        assert_eq!(context.kind(), ContextKind::Host);
        let ids = context.lookup_names(&["sample.colour", "no.such.metric", "sample.long.one"]).unwrap();
        assert_eq!(ids, [Some(Pmid::new(29, 0, 5)), None, Some(Pmid::new(29, 0, 10))]);
        assert_eq!(code(context.pmid("no.such.metric")), PmError::NAME);
        assert_eq!(code(context.pmid("sample.long")), PmError::NONLEAF);
        assert_eq!(code(context.lookup_names(&[])), PmError::TOOSMALL);
        let names = context.names_of(Pmid::new(29, 0, 5)).unwrap();
        assert!(names.contains(&"sample.colour".to_owned()) && names.len() > 1, "{names:?}");
        let longs = context.children("sample.long").unwrap();
        assert!(longs.iter().any(|child| child.name == "one" && child.leaf), "{longs:?}");
        assert!(context.children("").unwrap().iter().any(|child| child.name == "sample" && !child.leaf));
        assert_eq!(code(context.children("no.such")), PmError::NAME);
        let all = context.traverse("sample.long").unwrap();
        assert_eq!(all.len(), longs.len());
        assert!(context.traverse("").unwrap().len() > 100);
        let desc = context.desc(Pmid::new(29, 0, 5)).unwrap();
        assert_eq!((desc.value_type, desc.indom), (ValueType::I32, InDom::new(29, 1)));
        let descs = context.descs(&[Pmid::new(29, 0, 5), Pmid::new(29, 0, 54), Pmid::new(77, 0, 0)]).unwrap();
        assert_eq!(descs, [Ok(desc), Err(PmError::PMID), Err(PmError::PMID)]);
        let instances = context.instances(InDom::new(29, 1)).unwrap();
        assert_eq!(instances.iter().map(|i| &*i.name).collect::<Vec<_>>(), ["red", "green", "blue"]);
        assert_eq!(context.instance(InDom::new(29, 1), "green").unwrap(), 1);
        assert_eq!(context.instance_name(InDom::new(29, 1), 2).unwrap(), "blue");
        assert_eq!(code(context.instance(InDom::new(29, 1), "pink")), PmError::INST);
        assert_eq!(code(context.instance(InDom::new(29, 1), "")), PmError::INST);
        assert_eq!(code(context.instances(InDom::NULL)), PmError::INDOM);
        assert!(!context.host_name().unwrap().is_empty());
        assert!(!context.time_zone().unwrap().is_empty());
    }
}

#[test]
fn texts_labels_and_stores_reach_the_agent() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut context = Context::host(&pmcd.unix()).unwrap();
    let write_me = context.pmid("sample.long.write_me").unwrap();
    assert_eq!(code(context.text(TextTarget::Metric(Pmid::new(29, 0, 54)), TextLevel::Help)), PmError::TEXT);
    let version = context.pmid("pmcd.version").unwrap();
    assert!(!context.text(TextTarget::Metric(version), TextLevel::OneLine).unwrap().is_empty());
    let labels = context.labels(LabelTarget::Domain(29)).unwrap();
    let labels = labels.first().unwrap().labels.as_ref().unwrap();
    assert!(labels.iter().any(|label| label.name == "role" && label.value == "\"testing\""), "{labels:?}");
    assert!(labels.iter().all(|label| label.flags.0 == LabelKind::Domain.code() as u8));
    context.store(&[ValueSet::singular(write_me, 42)]).unwrap();
    let mut fetched = Fetched::new();
    context.fetch(&[write_me], &mut fetched).unwrap();
    assert_eq!(numbers(&fetched, 0, ValueType::I32), Ok(vec![(-1, Value::I32(42))]));
    let load = context.pmid("sample.load").unwrap();
    assert_eq!(code(context.store(&[ValueSet::singular(load, 1)])), PmError::PERMISSION);
}

#[test]
fn profiles_choose_instances_of_real_and_derived_metrics() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut context = Context::host(&pmcd.unix()).unwrap();
    let bin = context.pmid("sample.bin").unwrap();
    let twice = context.add_derived("my.twice", "2 * sample.bin").unwrap();
    let sum = context.add_derived("my.sum", "sum(sample.bin)").unwrap();
    let indom = context.desc(bin).unwrap().indom;
    let mut fetched = Fetched::new();
    context.fetch(&[bin], &mut fetched).unwrap();
    assert_eq!(numbers(&fetched, 0, ValueType::I32).unwrap().len(), 9);
    context.add_profile(indom, &[300, 500]).unwrap();
    context.fetch(&[twice, bin, sum], &mut fetched).unwrap();
    let of = |at, value_type| numbers(&fetched, at, value_type).unwrap();
    let doubled: Vec<i32> = of(0, ValueType::I32).iter().map(|(inst, _)| *inst).collect();
    assert_eq!(doubled, [300, 500]);
    assert_eq!(of(1, ValueType::I32), [(300, Value::I32(300)), (500, Value::I32(500))]);
    assert_eq!(of(0, ValueType::I32), [(300, Value::I32(600)), (500, Value::I32(1000))]);
    assert_eq!(of(2, context_type(&mut context, sum)), [(-1, Value::I32(800))]);
}

#[test]
fn derived_values_come_as_columns_to_who_takes_them() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut context = Context::host(&pmcd.unix()).unwrap();
    let bin = context.pmid("sample.bin").unwrap();
    let twice = context.add_derived("my.columns", "2 * sample.bin").unwrap();
    let (mut fetched, mut columns) = (Fetched::new(), Vec::new());
    let asked = [twice, bin, twice];
    context.fetch_columns(&asked, &mut fetched, |at, column| columns.push((at, column.clone()))).unwrap();
    assert_eq!(columns.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(numbers(&fetched, 1, ValueType::I32).unwrap().len(), 9);
    assert_eq!(numbers(&fetched, 0, ValueType::I32), Ok(vec![]));
    context.fetch(&asked, &mut fetched).unwrap();
    let values = |column: &Column| {
        let values = column.ids.iter().enumerate();
        values.map(|(at, &inst)| (inst, column.values.get(at).unwrap())).collect::<Vec<_>>()
    };
    for (at, column) in &columns {
        assert_eq!(Ok(values(column)), numbers(&fetched, *at, ValueType::U32));
    }
}

/// A definition that came while a fetch is under way could not be bound, and would stay broken.
#[test]
fn definitions_wait_for_the_end_of_a_fetch() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut context = Context::host(&pmcd.unix()).unwrap();
    let registry = context.registry().clone();
    registry.write().unwrap().register("test.wait.global", "sample.long.ten * 2").unwrap();
    let (ten, global) = (context.pmid("sample.long.ten").unwrap(), context.pmid("test.wait.global").unwrap());
    let mut fetched = Fetched::new();
    context.start_fetch(&[ten]).unwrap();
    let busy = |error: ClientError| {
        assert!(matches!(error, ClientError::Busy), "{error}");
        assert_eq!(error.code(), PmError::AGAIN);
    };
    busy(context.add_derived("test.wait.own", "sample.long.ten + 1").unwrap_err());
    busy(context.descs(&[global]).unwrap_err());
    busy(context.traverse("").unwrap_err());
    busy(context.children("sample").unwrap_err());
    while !context.advance(&mut fetched).unwrap() {
        std::thread::yield_now();
    }
    assert_eq!(numbers(&fetched, 0, ValueType::I32), Ok(vec![(-1, Value::I32(10))]));
    // Nothing of it is left, and nothing is broken.
    let own = context.add_derived("test.wait.own", "sample.long.ten + 1").unwrap();
    assert!(context.traverse("test.wait").unwrap().contains(&"test.wait.global".to_owned()));
    context.fetch(&[own, global], &mut fetched).unwrap();
    let types = [own, global].map(|pmid| context_type(&mut context, pmid));
    for (at, (value_type, expected)) in types.into_iter().zip(["11", "20"]).enumerate() {
        let values = numbers(&fetched, at, value_type).unwrap();
        let value = format!("{:?}", values[0].1);
        assert!(value.contains(expected), "{value}");
    }
}

fn context_type(context: &mut Context, pmid: Pmid) -> ValueType {
    context.desc(pmid).unwrap().value_type
}

#[test]
fn derived_metrics_are_metrics_like_others() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut context = Context::host(&pmcd.inet()).unwrap();
    let registry = context.registry().clone();
    registry.write().unwrap().register("test.client.hundreds", "sample.bin / 100").unwrap();
    registry.write().unwrap().register("test.client.bad", "no.such.metric + 1").unwrap();
    let names = ["sample.long.ten", "test.client.hundreds", "test.client.bad"];
    let ids = context.lookup_names(&names).unwrap();
    let ids: Vec<Pmid> = ids.into_iter().map(|id| id.expect("all have one")).collect();
    assert_eq!(context.pmid("test.client.hundreds").unwrap(), ids[1]);
    assert_eq!(context.names_of(ids[1]).unwrap(), ["test.client.hundreds"]);
    let descs = context.descs(&ids).unwrap();
    assert_eq!(descs[1].unwrap().value_type, ValueType::Double);
    assert_eq!(descs[1].unwrap().indom, InDom::new(29, 2));
    assert_eq!(descs[1].unwrap().semantics, Semantics::Instant);
    assert_eq!(descs[2], Err(PmError::BADDERIVE));
    assert!(context.traverse("test.client").unwrap().contains(&"test.client.hundreds".to_owned()));
    assert!(context.traverse("").unwrap().contains(&"test.client.hundreds".to_owned()));
    assert!(context.children("test.client").unwrap().iter().any(|c| c.name == "hundreds" && c.leaf));
    let mut fetched = Fetched::new();
    for _ in 0..3 {
        context.fetch(&ids, &mut fetched).unwrap();
        assert_eq!(fetched.len(), 3);
        assert_eq!(numbers(&fetched, 0, ValueType::I32), Ok(vec![(-1, Value::I32(10))]));
        let hundreds = numbers(&fetched, 1, ValueType::Double).unwrap();
        assert_eq!(hundreds.len(), 9);
        assert_eq!(hundreds[2], (300, Value::Double(3.0)));
    }
    assert!(numbers(&fetched, 2, ValueType::I32).is_err());
    let own = context.add_derived("own.sum", "sum(test.client.hundreds) + 0").unwrap();
    context.fetch(&[own], &mut fetched).unwrap();
    assert_eq!(numbers(&fetched, 0, ValueType::Double), Ok(vec![(-1, Value::Double(45.0))]));
    // Binding, history and the context's own definitions begin anew.
    context.reconnect().unwrap();
    assert_eq!(code(context.pmid("own.sum")), PmError::NAME);
    context.fetch(&ids, &mut fetched).unwrap();
    assert_eq!(numbers(&fetched, 1, ValueType::Double).unwrap().len(), 9);
}

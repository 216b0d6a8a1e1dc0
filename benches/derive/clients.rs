//! Contexts that fetch derived metrics: the values of 1,000 definitions over 1,000 instances.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::Duration;

use jumpseat::client::{ArchiveProvider, Column, Context, Fetched, Numbers, SharedRegistry, Values};
use jumpseat::derive::{Dialect, Registry};
use jumpseat::model::{Inst, Pmid, Value, ValueType};
use nix::time::{ClockId, clock_gettime};

use crate::common::{self, Figure, Goal, Row, Times};
use crate::peer::{Archive, Peer, Sample, Taken};
use crate::workload;

/// Processor time of this process.
pub(crate) fn cpu() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock is there"))
}

/// A registry with so many definitions, in the dialect that programs have.
pub(crate) fn registry(definitions: usize) -> SharedRegistry {
    let mut registry = Registry::new(Dialect::default());
    for n in 0..definitions {
        registry.register(&format!("d.n{n}"), &workload::expression("m.n", n)).expect("is correct");
    }
    SharedRegistry::new(registry.into())
}

/// A context on an archive, with definitions of its own.
pub(crate) fn open(archive: &Archive, registry: &SharedRegistry) -> Context {
    let provider = ArchiveProvider::open(&archive.path).expect("libpcp_import wrote it");
    Context::new(Box::new(provider), registry.clone())
}

/// The identifiers of metrics whose names are numbered, and their types: all names in one call, and all descriptors, as whoever has
/// many of them asks for them.
pub(crate) fn look_up(context: &mut Context, prefix: &str, count: usize) -> (Vec<Pmid>, Vec<ValueType>) {
    let names: Vec<String> = (0..count).map(|n| format!("{prefix}{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pmids = context.lookup_names(&names).expect("they are asked for");
    let pmids: Vec<Pmid> = pmids.into_iter().map(|pmid| pmid.expect("it is there")).collect();
    let descs = context.descs(&pmids).expect("they are asked for");
    let types = descs.into_iter().map(|desc| desc.expect("it binds").value_type).collect();
    (pmids, types)
}

/// How the values of a fetch are read.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Read {
    Nothing,
    /// As the columns that they were computed in.
    Columns,
    /// One by one out of the result.
    Sets,
}

/// Sum and number of all values of a fetch.
fn read(fetched: &Fetched, types: &[ValueType]) -> (f64, u64) {
    let (mut sum, mut count) = (0.0, 0);
    for (set, &value_type) in fetched.sets().zip(types) {
        for (_, value) in set.values.expect("it has values").iter() {
            sum += value.usual_number(value_type).expect("a number").to_f64();
            count += 1;
        }
    }
    (sum, count)
}

/// What a client takes that is made by `open`.
pub(crate) fn run(
    open: &dyn Fn() -> Context,
    (prefix, metrics): (&str, usize),
    fetches: usize,
    how: Read,
) -> Taken {
    let mut start = cpu();
    let mut context = open();
    let (pmids, types) = look_up(&mut context, prefix, metrics);
    let (mut first, mut values, mut fetched) = (Duration::ZERO, 0, Fetched::new());
    for n in 0..fetches {
        if n == 2 {
            start = cpu();
        }
        match how {
            Read::Columns => {
                let (mut sum, mut count) = (0.0, 0);
                let take = |_, column: &Column| {
                    let (of_column, many) = read_column(column);
                    (sum, count) = (sum + of_column, count + many);
                };
                context.fetch_columns(&pmids, &mut fetched, take).expect("the record is there");
                values = black_box((sum, count)).1;
            }
            Read::Nothing | Read::Sets => {
                context.fetch(&pmids, &mut fetched).expect("the record is there");
                if how == Read::Sets {
                    values = black_box(read(&fetched, &types)).1;
                }
            }
        }
        if n == 0 {
            first = cpu() - start;
        }
    }
    Taken { first, steady: (cpu() - start) / (fetches - 2) as u32, values }
}

/// The values of the last of so many fetches.
pub(crate) fn sample(context: &mut Context, prefix: &str, metrics: usize, fetches: usize) -> Sample {
    let (pmids, types) = look_up(context, prefix, metrics);
    let (mut fetched, mut before) = (Fetched::new(), Default::default());
    for _ in 0..fetches {
        before = fetched.timestamp;
        context.fetch(&pmids, &mut fetched).expect("the record is there");
    }
    values(&fetched, &types, (fetched.timestamp.as_nanos() - before.as_nanos()) as f64 * 1e-9)
}

/// All values of a result.
pub(crate) fn values(fetched: &Fetched, types: &[ValueType], seconds: f64) -> Sample {
    let set = |(set, &value_type): (jumpseat::client::SetRef<'_>, &ValueType)| {
        let values = set.to_values(value_type).expect("of its type").values.expect("it has values");
        let number = |value: &Value| match *value {
            Value::I64(v) => v as f64,
            Value::U64(v) => v as f64,
            Value::U32(v) => f64::from(v),
            Value::Float(v) => f64::from(v),
            Value::Double(v) => v,
            ref other => panic!("{other:?} is of no type that these definitions have"),
        };
        values.iter().map(|value| (value.inst, number(&value.value))).collect()
    };
    Sample { sets: fetched.sets().zip(types).map(set).collect(), seconds }
}

/// Sum and number of a column's values.
fn read_column(column: &Column) -> (f64, u64) {
    let sum = match &column.values {
        Values::I64(values) => values.iter().map(|&value| value as f64).sum(),
        Values::U64(values) => values.iter().map(|&value| value as f64).sum(),
        Values::Double(values) => values.iter().sum(),
        other => panic!("{other:?} is of no type that these definitions have"),
    };
    (sum, column.len() as u64)
}

pub(crate) fn on_archive(archive: &Archive, definitions: usize) {
    let registry = registry(definitions);
    let mut peer = Peer::start(
        &format!("archive\t{}", archive.path),
        (0..definitions).map(|n| workload::expression("m.n", n)),
    );
    let dir = tempfile::tempdir().expect("a directory");
    let sampled = || {
        let mut context = open(archive, &registry);
        let sample = sample(&mut context, "d.n", definitions, archive.records);
        (sample, context.derived().history_bytes() as f64)
    };
    let (ours, _) = sampled();
    ours.assert_same(&peer.values(archive.records, dir.path()), |_| false);
    let what = format!("{definitions} definitions over {} instances, archive", archive.instances);
    race(
        &what,
        ours.len(),
        &|| open(archive, &registry),
        (definitions, archive.metrics, "m.n", archive.records),
        &mut peer,
    );
    let memories = |n| {
        let text = workload::expression("m.n", n);
        text.matches("rate(").count() + text.matches("delta(").count()
    };
    let nodes = (0..definitions).map(memories).sum::<usize>() * archive.instances;
    let bytes = common::repeat(|| sampled().1 / nodes as f64);
    Row::new("history of a derived metric", Figure::most(bytes, "bytes an instance and node with a memory"))
        .goal(Goal::AtMost(24.0))
        .print();
}

/// Races contexts that are made by `open`; prints a row for the steady fetch and one for the first.
pub(crate) fn race(
    what: &str,
    count: usize,
    open: &dyn Fn() -> Context,
    (definitions, operands, prefix, fetches): (usize, usize, &str, usize),
    peer: &mut Peer,
) {
    let first = [(); 3].map(|()| RefCell::new(Vec::new()));
    let note = |who: usize, taken: Taken| {
        assert_eq!(taken.values, count as u64, "all values of a fetch are read");
        first[who].borrow_mut().push(taken.first);
        taken.steady
    };
    let base = || run(open, (prefix, operands), fetches, Read::Nothing);
    let ours = |how| run(open, ("d.n", definitions), fetches, how).beyond(base());
    let mut floor = floor(definitions, count / definitions);
    let [columns, sets, theirs, floor] = common::race(
        common::rounds(10),
        [
            &mut || note(0, ours(Read::Columns)),
            &mut || note(1, ours(Read::Sets)),
            &mut || note(2, peer.run(&format!("{prefix}%d"), operands, fetches)),
            &mut floor,
        ],
    );
    let rate = |times: &Times| Figure::nanos(times, count as f64, "ns a value");
    for (form, times) in [("read as columns", &columns), ("read one by one", &sets)] {
        Row::new(format!("{what}, {form}"), rate(times))
            .peer("libpcp", rate(&theirs))
            .goal(Goal::Ratio(10.0))
            .headline()
            .print();
    }
    Row::new(format!("{what}, read one by one"), rate(&sets))
        .peer("as many numbers made value sets and read, nothing computed", rate(&floor))
        .print();
    let [_, ours, theirs] =
        first.map(|times| Figure::time(&Times::of(times.into_inner()), 1.0, 1e-3, "ms of CPU"));
    Row::new(format!("{what}, first fetch with binding and compiling"), ours)
        .peer("libpcp", theirs)
        .goal(Goal::Ratio(10.0))
        .print();
}

/// What handing values on one by one takes, whatever they are: they become sets of instances and blocks, and are read out of these.
fn floor(sets: usize, instances: usize) -> impl FnMut() -> Duration {
    let ids: Vec<Inst> = (0..).take(instances).collect();
    let numbers = vec![0.5; instances];
    let types = vec![ValueType::Double; sets];
    let mut fetched = Fetched::new();
    move || {
        let start = cpu();
        fetched.clear();
        for n in 0..sets {
            fetched.begin_set(Pmid(n as u32));
            fetched.push_numbers(&ids, Numbers::Double(&numbers)).expect("numbers of one type");
            fetched.end_set();
        }
        let (_, count) = black_box(read(&fetched, &types));
        assert_eq!(count, (sets * instances) as u64);
        cpu() - start
    }
}

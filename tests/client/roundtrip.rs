//! What the writer of archives writes, the reader reads; also from files that end anywhere.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use jumpseat::archive::{Archive, ArchiveWriter, LabelInfo, Step, WriteOptions};
use jumpseat::client::Fetched;
use jumpseat::model::{
    Desc, InDom, Inst, Instance, LabelFlags, LabelSet, PM_IN_NULL, PmError, Pmid, Semantics, Timestamp,
    Units, Value, ValueType,
};
use jumpseat::pdu::{LabelTarget, TextLevel, TextTarget};
use proptest::prelude::*;

const INDOM: InDom = InDom::new(245, 3);
const TYPES: [ValueType; 5] =
    [ValueType::U32, ValueType::I64, ValueType::Double, ValueType::String, ValueType::Aggregate];

type Values = Result<Vec<(Inst, Value)>, PmError>;

#[derive(Clone, Debug)]
enum Op {
    /// Values of some metrics, so many milliseconds later.
    Result(u32, Vec<(usize, Values)>),
    Instances(BTreeMap<Inst, String>),
    Mark,
    Flush,
    Continue,
}

/// What the archive should hold: a record's time and sets, none for a mark; the instances at times.
#[derive(Default)]
struct Model {
    records: Vec<(Timestamp, Vec<(Pmid, Values)>)>,
    instances: Vec<(Timestamp, BTreeMap<Inst, String>)>,
}

fn pmid(metric: usize) -> Pmid {
    Pmid::new(245, 1, metric as u16)
}

fn desc(metric: usize) -> Desc {
    let indom = if metric.is_multiple_of(2) { INDOM } else { InDom::NULL };
    let (semantics, units) = (Semantics::Instant, Units::BYTE);
    Desc { pmid: pmid(metric), value_type: TYPES[metric], indom, semantics, units }
}

fn arb_value(value_type: ValueType) -> BoxedStrategy<Value> {
    match value_type {
        ValueType::U32 => any::<u32>().prop_map(Value::U32).boxed(),
        ValueType::I64 => any::<i64>().prop_map(Value::I64).boxed(),
        ValueType::Double => (-1e9..1e9).prop_map(Value::Double).boxed(),
        ValueType::String => "[ -~é]{0,30}".prop_map(Value::from).boxed(),
        _ => prop::collection::vec(any::<u8>(), 0..40).prop_map(|b| Value::Aggregate(b.into())).boxed(),
    }
}

fn arb_set() -> impl Strategy<Value = (usize, Values)> {
    (0..TYPES.len()).prop_flat_map(|metric| {
        let value = arb_value(TYPES[metric]);
        let inst = if metric.is_multiple_of(2) { (0..50).boxed() } else { Just(PM_IN_NULL).boxed() };
        let most = if metric.is_multiple_of(2) { 12 } else { 1 };
        let values = prop::collection::vec((inst, value), 0..=most).prop_map(Ok);
        (Just(metric), prop_oneof![6 => values, 1 => Just(Err(PmError::AGAIN))])
    })
}

fn arb_op() -> impl Strategy<Value = Op> {
    let instances = prop::collection::btree_map(0..60, "[a-z]{1,12}( [a-z]{1,5})?", 1..40);
    prop_oneof![
        6 => (2_u32..5000, prop::collection::vec(arb_set(), 1..4)).prop_map(|(later, sets)| Op::Result(later, sets)),
        3 => instances.prop_map(Op::Instances),
        1 => Just(Op::Mark),
        1 => Just(Op::Flush),
        1 => Just(Op::Continue),
    ]
}

fn label() -> LabelInfo {
    LabelInfo { host: "made.up".into(), zone: "UTC".into(), zone_info: ":Etc/UTC".into(), pid: 77 }
}

fn labels() -> Vec<LabelSet> {
    let label = |name: &str| jumpseat::model::Label {
        name: name.to_owned(),
        value: format!("\"{name}\""),
        flags: LabelFlags(2),
    };
    vec![LabelSet { inst: PM_IN_NULL, labels: Ok(vec![label("agent"), label("role")]) }]
}

fn describe(writer: &mut ArchiveWriter) {
    for metric in 0..TYPES.len() {
        writer.desc(&desc(metric), &[format!("made.m{metric}")]).expect("the same each time");
        writer.text(TextTarget::Metric(pmid(metric)), TextLevel::OneLine, &format!("metric {metric}"));
    }
    writer.labels(Timestamp::new(1_000_000_000, 0), LabelTarget::Domain(245), &labels());
}

/// Performs the operations and says what the archive should hold then.
fn perform(base: &Path, options: WriteOptions, ops: &[Op]) -> Model {
    let mut writer = ArchiveWriter::create(base, label(), options).expect("nothing is there");
    describe(&mut writer);
    let mut model = Model::default();
    let mut now = 1_000_000_000_000_u64;
    let mut time = Timestamp::new(1_000_000_000, 0);
    let mark = |model: &mut Model| {
        if let Some((time, sets)) = model.records.last()
            && !sets.is_empty()
        {
            model.records.push((Timestamp::from_nanos(time.as_nanos() + 1_000_000), Vec::new()));
        }
    };
    for op in ops {
        match op {
            Op::Result(later, sets) => {
                now += u64::from(*later);
                time = Timestamp::from_nanos(i128::from(now) * 1_000_000);
                let mut fetched = Fetched::new();
                fetched.timestamp = time;
                for (metric, values) in sets {
                    match values {
                        Err(error) => fetched.push_error(pmid(*metric), *error),
                        Ok(values) => {
                            fetched.begin_set(pmid(*metric));
                            values.iter().for_each(|(inst, value)| {
                                fetched.push_value(*inst, value).expect("small");
                            });
                            fetched.end_set();
                        }
                    }
                }
                writer.result(&fetched).expect("written");
                let sets = sets.iter().map(|(metric, values)| (pmid(*metric), values.clone()));
                model.records.push((time, sets.collect()));
            }
            Op::Instances(instances) => {
                // Said with the next result, as of its time: later than all before.
                now += 1;
                time = Timestamp::from_nanos(i128::from(now) * 1_000_000);
                let list: Vec<Instance> =
                    instances.iter().map(|(&id, name)| Instance { id, name: name.clone() }).collect();
                writer.indom(time, INDOM, &list);
                model.instances.push((time, instances.clone()));
            }
            Op::Mark => {
                now += 2;
                writer.mark().expect("written");
                mark(&mut model);
            }
            Op::Flush => writer.flush().expect("written"),
            Op::Continue => {
                // What is only in memory would be lost.
                let _ = time;
                writer.flush().expect("written");
                if model.records.is_empty() {
                    continue;
                }
                now += 2;
                drop(writer);
                writer = ArchiveWriter::append(base, label(), options).expect("whole");
                describe(&mut writer);
                mark(&mut model);
            }
        }
    }
    writer.flush().expect("written");
    model
}

/// All records of an archive, forward.
fn read(archive: &mut Archive) -> Vec<(Timestamp, Vec<(Pmid, Values)>)> {
    let mut records = Vec::new();
    let mut at = archive.first();
    while let Some(step) = archive.next(at).expect("readable") {
        let Step::Record(place, after) = step else { panic!("one archive") };
        at = after;
        let record = archive.record(place).expect("readable");
        let sets = record.sets().map(|set| {
            let value_type = TYPES[set.pmid.item() as usize];
            let value = |(inst, value): (Inst, jumpseat::pdu::ValueRef<'_>)| {
                (inst, value.to_value(value_type).expect("of that type"))
            };
            (set.pmid, set.values.map(|values| values.iter().map(value).collect()))
        });
        records.push((record.timestamp, sets.collect()));
    }
    records
}

fn open(base: &Path) -> Archive {
    Archive::open(base.to_str().expect("ASCII")).expect("whole")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_written_is_read(
        ops in prop::collection::vec(arb_op(), 1..40),
        volume_size in prop_oneof![Just(u64::MAX), 900_u64..4000],
        index_every in 1_u64..3000,
        together in prop_oneof![Just(0), 1_usize..5000],
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().join("a");
        let model = perform(&base, WriteOptions { volume_size, index_every, together }, &ops);
        if model.records.is_empty() {
            prop_assert!(Archive::open(base.to_str().expect("ASCII")).is_err());
            return Ok(());
        }
        let mut archive = open(&base);
        prop_assert_eq!(&archive.label().host, "made.up");
        prop_assert_eq!(&archive.label().zone_info, ":Etc/UTC");
        prop_assert_eq!(archive.label().start, model.records[0].0);
        prop_assert_eq!(archive.end().expect("an end"), model.records[model.records.len() - 1].0);
        prop_assert_eq!(read(&mut archive), model.records);
        for metric in 0..TYPES.len() {
            prop_assert_eq!(archive.desc(pmid(metric)), Ok(desc(metric)));
            prop_assert_eq!(archive.lookup_name(&format!("made.m{metric}")), Ok(pmid(metric)));
            let text = archive.text(TextTarget::Metric(pmid(metric)), TextLevel::OneLine);
            prop_assert_eq!(text, Ok(format!("metric {metric}")));
        }
        let time = archive.label().start;
        prop_assert_eq!(archive.labels(LabelTarget::Domain(245), time), labels());
        for (time, instances) in &model.instances {
            let read: BTreeMap<Inst, String> = archive
                .instances(INDOM, *time)
                .expect("known")
                .map(|(inst, name)| (inst, String::from_utf8_lossy(name).into_owned()))
                .collect();
            prop_assert_eq!(&read, instances);
        }
    }

    #[test]
    fn a_volume_that_ends_anywhere_is_continued(
        ops in prop::collection::vec(arb_op(), 4..20),
        at in 0.0..1.0,
        index in 0.0..1.0,
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().join("a");
        let options = WriteOptions { index_every: 300, ..WriteOptions::default() };
        let model = perform(&base, options, &ops);
        if model.records.is_empty() {
            return Ok(());
        }
        let cut = |member: &str, least: u64, part: f64| {
            let path = dir.path().join(member);
            let len = fs::metadata(&path).expect("there").len();
            let file = File::options().write(true).open(path).expect("ours");
            file.set_len(least + ((len - least) as f64 * part) as u64).expect("shortened");
        };
        let volume = fs::read(dir.path().join("a.0")).expect("ours");
        let first = u32::from_be_bytes(volume[808..812].try_into().expect("four bytes"));
        cut("a.0", 808 + u64::from(first), at);
        cut("a.index", 0, index);
        let mut writer = ArchiveWriter::append(&base, label(), options).expect("continued");
        describe(&mut writer);
        let mut fetched = Fetched::new();
        fetched.timestamp = Timestamp::new(2_000_000_000, 0);
        fetched.push_error(pmid(0), PmError::AGAIN);
        writer.result(&fetched).expect("written");
        writer.flush().expect("written");
        let mut records = read(&mut open(&base));
        prop_assert_eq!(records.pop(), Some((fetched.timestamp, vec![(pmid(0), Err(PmError::AGAIN))])));
        if records.last().is_some_and(|(_, sets)| sets.is_empty()) && !model.records.starts_with(&records) {
            records.pop();
        }
        prop_assert!(model.records.starts_with(&records), "{records:?}");
    }
}

//! Counters that go back, in records of few layouts that come again and again: what is found is what a plain loop over the
//! written values finds.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use pcp_archive::{ArchiveWriter, Kind, LabelInfo, WriteOptions, check};
use pcp_model::{
    Desc, InDom, Inst, Instance, PM_IN_NULL, Pmid, Semantics, Timestamp, Units, Value, ValueType,
};
use pcp_pdu::Fetched;
use support::temp_dir;

const INDOM: InDom = InDom(60 << 22 | 1);
const RECORDS: u32 = 3000;

/// What is told of each counter that went back: its first message, and how often.
type Wraps = BTreeMap<String, u64>;

/// A counter of that number: types and instances take turns.
fn desc(n: u32) -> Desc {
    use ValueType::{Double, Float, I32, I64, U32, U64};
    let value_type = [I32, U32, I64, U64, Float, Double][n as usize % 6];
    let indom = if n.is_multiple_of(4) { INDOM } else { InDom::NULL };
    // Some are none, and go back all the time.
    let semantics = if n.is_multiple_of(5) { Semantics::Instant } else { Semantics::Counter };
    Desc { pmid: Pmid::new(60, 1, n as u16), value_type, indom, semantics, units: Units::NONE }
}

fn insts(desc: &Desc) -> std::ops::Range<Inst> {
    if desc.indom == InDom::NULL { PM_IN_NULL..0 } else { 0..3 }
}

/// The next number of a series that has no order, as good as any other for this.
fn random(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state >> 8
}

fn value(value_type: ValueType, number: u32) -> (Value, f64) {
    // So large that neighbours are one number in double precision.
    let large = 1 << 62 | u64::from(number);
    match value_type {
        ValueType::I32 => (Value::I32(number as i32 - 500), f64::from(number as i32 - 500)),
        ValueType::U32 => (Value::U32(number), f64::from(number)),
        ValueType::I64 => (Value::I64(-(large as i64)), -(large as i64) as f64),
        ValueType::U64 => (Value::U64(large), large as f64),
        ValueType::Float => (Value::Float(number as f32), f64::from(number as f32)),
        _ => (Value::Double(f64::from(number) / 4.0), f64::from(number) / 4.0),
    }
}

/// Writes records of `groups` that take turns, with marks between some; what a loop over their values finds.
fn write(base: &Path, groups: &[&[u32]]) -> Wraps {
    let label = LabelInfo { host: "host".into(), zone: "UTC".into(), pid: 7, ..LabelInfo::default() };
    let mut writer = ArchiveWriter::create(base, label, WriteOptions::default()).expect("nothing is there");
    let instances: Vec<Instance> = (0..3).map(|id| Instance { id, name: format!("i{id}") }).collect();
    let start = Timestamp::new(1_700_000_000, 0);
    writer.indom(start, INDOM, &instances);
    let mut described = Vec::new();
    for &n in groups.iter().copied().flatten() {
        if !described.contains(&n) {
            writer.desc(&desc(n), &[format!("m{n}")]).expect("described once");
            described.push(n);
        }
    }
    let text = Desc { value_type: ValueType::String, semantics: Semantics::Discrete, ..desc(1000) };
    writer.desc(&text, &["text"]).expect("described once");
    let (mut wraps, mut told) = (Wraps::new(), HashMap::new());
    let mut last: HashMap<(u32, Inst), f64> = HashMap::new();
    let mut state = 7;
    for record in 0..RECORDS {
        if random(&mut state).is_multiple_of(500) {
            writer.mark().expect("room for it");
            last.clear();
        }
        let mut fetched = Fetched::new();
        fetched.timestamp = Timestamp::new(start.sec + i64::from(record) + 1, 0);
        for &n in groups[random(&mut state) as usize % groups.len()] {
            let desc = desc(n);
            fetched.begin_set(desc.pmid);
            for inst in insts(&desc) {
                let is_back = random(&mut state).is_multiple_of(2000);
                let number = if is_back { record / 2 } else { record + 1000 };
                let (value, number) = value(desc.value_type, number);
                fetched.push_value(inst, &value).expect("of its type");
                if desc.semantics != Semantics::Counter {
                    continue;
                }
                if let Some(before) = last.insert((n, inst), number)
                    && number < before
                {
                    let instance = if inst < 0 { String::new() } else { format!("[{inst}]") };
                    let (name, pmid) = (format!("m{n}"), desc.pmid);
                    let message =
                        format!("{name} ({pmid}){instance}: a counter went from {before} back to {number}");
                    *wraps.entry(told.entry((n, inst)).or_insert(message).clone()).or_default() += 1;
                }
            }
            fetched.end_set();
        }
        fetched.begin_set(text.pmid);
        fetched.push_value(PM_IN_NULL, &Value::from(["red", "tan"][record as usize % 2])).expect("a text");
        fetched.end_set();
        writer.result(&fetched).expect("room for it");
    }
    writer.flush().expect("room for it");
    wraps
}

#[test]
fn counters_that_go_back_are_found_whatever_the_records_have_in_common() {
    let all: Vec<u32> = (0..40).collect();
    let twice = [1, 2, 3, 2, 1];
    let cases: [&[&[u32]]; 4] = [
        &[&all],
        // What two groups have in common goes on from the one to the other.
        &[&all[..20], &all[10..30], &all[5..40], &all],
        // More of them than layouts are kept.
        &[
            &all[..4],
            &all[..5],
            &all[..6],
            &all[..7],
            &all[..8],
            &all[..9],
            &all[..10],
            &all[..11],
            &all[..12],
            &all[..13],
        ],
        &[&twice],
    ];
    for (case, groups) in cases.into_iter().enumerate() {
        let dir = temp_dir();
        let base = dir.path().join("a");
        let expected = write(&base, groups);
        let checked = check(&base).expect("there");
        let mut found = Wraps::new();
        for finding in &checked.findings {
            assert_eq!(finding.kind, Kind::Wrap, "case {case}: {finding:?}");
            *found.entry(finding.message.clone()).or_default() += finding.count;
        }
        assert_eq!(found, expected, "case {case}");
        assert!(expected.len() > 1, "case {case}: something went back");
    }
}

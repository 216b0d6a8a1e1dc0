//! Archives that are made here, in the directory for temporary files.

use std::path::Path;

use jumpseat::archive::{ArchiveWriter, LabelInfo, WriteOptions};
use jumpseat::model::{
    Desc, InDom, Instance, PM_IN_NULL, Pmid, Semantics, Timestamp, Units, Value, ValueType,
};
use jumpseat::pdu::Fetched;

/// Metrics in each.
pub(crate) const METRICS: u32 = 200;
pub(crate) const START: i64 = 1_700_000_000;
const INSTANCES: i32 = 8;
const DISKS: InDom = InDom(60 << 22 | 1);

/// Metric number `n`: types and semantics as on a Linux host, most of them 64-bit counters; a third of them have
/// instances.
pub(crate) fn desc(n: u32) -> Desc {
    let (value_type, semantics) = match n % 10 {
        0 | 1 => (ValueType::U32, Semantics::Counter),
        2 => (ValueType::I32, Semantics::Instant),
        3 => (ValueType::Float, Semantics::Instant),
        4 => (ValueType::Double, Semantics::Instant),
        5 => (ValueType::U64, Semantics::Instant),
        _ => (ValueType::U64, Semantics::Counter),
    };
    let indom = if n.is_multiple_of(3) { DISKS } else { InDom::NULL };
    Desc { pmid: Pmid::new(60, 1, n as u16), value_type, indom, semantics, units: Units::NONE }
}

/// Writes an archive of one record a second. Its base name, and how many records.
pub(crate) fn make(base: &Path, size: u64) -> (String, u32) {
    let label = LabelInfo { host: "bench".into(), zone: "UTC".into(), ..LabelInfo::default() };
    let mut archive = ArchiveWriter::create(base, label, WriteOptions::default()).expect("nothing is there");
    let instances: Vec<Instance> =
        (0..INSTANCES).map(|id| Instance { id, name: format!("disk{id}") }).collect();
    archive.indom(Timestamp::new(START, 0), DISKS, &instances);
    let descs: Vec<Desc> = (0..METRICS).map(desc).collect();
    for (n, desc) in descs.iter().enumerate() {
        archive.desc(desc, &[format!("bench.m{n}")]).expect("described once");
    }
    let mut values = Fetched::new();
    let mut records = 0;
    while archive.size() < size {
        values.clear();
        values.timestamp = Timestamp::new(START + i64::from(records), 0);
        for desc in &descs {
            values.begin_set(desc.pmid);
            let insts = if desc.indom == InDom::NULL { PM_IN_NULL..0 } else { 0..INSTANCES };
            for inst in insts {
                let number = records * (inst + 2) as u32;
                let value = match desc.value_type {
                    ValueType::U32 => Value::U32(number),
                    ValueType::I32 => Value::I32(number as i32),
                    ValueType::Float => Value::Float(number as f32),
                    ValueType::Double => Value::Double(number.into()),
                    _ => Value::U64(u64::from(number) * 4096),
                };
                values.push_value(inst, &value).expect("values of one type");
            }
            values.end_set();
        }
        archive.result(&values).expect("the disk has room");
        records += 1;
    }
    archive.flush().expect("the disk has room");
    (base.to_str().expect("a path of ours").to_owned(), records)
}

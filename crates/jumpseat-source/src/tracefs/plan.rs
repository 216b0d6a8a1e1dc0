//! From an event's format to a decode plan, and from a kernel record to a packed one.
//!
//! A plan is made when an event comes for the first time: only then do its fields get metrics. Writing a record
//! looks nothing up and allocates nothing: parameters that are as long in all of its records, which are numbers and the name of the event, lie
//! packed in the plan. They are copied where they go, one copy for all that lie side by side, and numbers put into them there.

use std::cell::Cell;
use std::fmt::Write as _;

use byteorder::BigEndian;

use super::format::{Element, FieldKind, Format, FormatField, int};
use crate::lanes::{Arrival, At, InternedField, LaneId, Lanes, Record, TypeSlot};
use crate::registry::WellKnown;
use pcp_event::pack::{PARAM_HEADER, put_param};
use pcp_event::{EventFlags, Param};
use pcp_model::{Pmid, Timestamp, ValueType};

/// Most bytes of text made of one array.
const MAX_LIST: usize = 4096;

/// How the records of one event are written.
#[derive(Debug)]
pub struct Plan {
    slot: TypeSlot,
    steps: Vec<Step>,
    wants_comm: bool,
    /// The fields with a metric of their own.
    own: Vec<InternedField>,
    /// When the registry was told that these are in use.
    epoch: Cell<u32>,
    /// Its records have at least so many bytes.
    least: usize,
}

/// How parameters are written, one behind the other.
#[derive(Debug)]
enum Step {
    /// Those that differ in numbers alone.
    Packed(Packed),
    /// The CPU.
    Cpu(Target),
    /// The command, if it is known.
    Comm(Target),
    /// A text with a metric of its own: apart, as what a value is need not be told in memory then.
    Text(FormatField, Pmid),
    /// Whatever else.
    Field { field: FormatField, decode: Decode, to: Target },
}

/// Parameters with the numbers left open.
#[derive(Debug, Default)]
struct Packed {
    params: Vec<u8>,
    count: i32,
    /// Where numbers are in the kernel's record, which has so many bytes at least, and where they go: those of four bytes, and of eight.
    words: Vec<(usize, usize)>,
    longs: Vec<(usize, usize)>,
    /// Where the CPU goes.
    cpu: Option<usize>,
}

impl Packed {
    /// One more parameter. Gives where its value goes.
    fn push(&mut self, pmid: Pmid, value: &Param<'_>) -> usize {
        let at = self.params.len() + PARAM_HEADER;
        put_param::<BigEndian>(&mut self.params, pmid, value);
        self.count += 1;
        at
    }

    #[inline]
    fn write(&self, record: &[u8], cpu: u32, out: &mut Record<'_>) {
        let params = out.packed(self.count, &self.params);
        self.words.iter().for_each(|(from, to)| put::<4>(params, *to, bytes(record, *from)));
        self.longs.iter().for_each(|(from, to)| put::<8>(params, *to, bytes(record, *from)));
        if let Some(to) = self.cpu {
            put(params, to, cpu.to_be_bytes());
        }
    }
}

/// Where a field's values go.
#[derive(Debug)]
enum Target {
    /// To a metric.
    Own(Pmid),
    /// To the one that has all others.
    Folded(InternedField),
}

impl Target {
    /// That of a field, which is noted if it has a metric of its own.
    fn new(lanes: &mut Lanes, own: &mut Vec<InternedField>, (name, value_type): (&str, ValueType)) -> Target {
        let field = lanes.intern(name.as_bytes(), value_type);
        match lanes.own(&field) {
            Some(pmid) => {
                own.push(field);
                Target::Own(pmid)
            }
            None => Target::Folded(field),
        }
    }

    #[inline]
    fn write(&self, value: Param<'_>, out: &mut Record<'_>) {
        match self {
            Target::Own(pmid) => out.own(*pmid, value),
            Target::Folded(field) => out.interned(field, value),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Decode {
    I32,
    U32,
    I64,
    U64,
    Text,
    /// Text without the end of its line.
    Line,
    Bytes,
    List {
        width: u8,
        signed: bool,
    },
    Bits,
}

impl Decode {
    fn of_field(format: &Format, field: &FormatField) -> Decode {
        match (format.name.as_str(), field.name.as_str()) {
            ("ftrace:print", "buf") => Decode::Line,
            ("ftrace:raw_data", "buf") => Decode::Bytes,
            _ => Decode::of(field.kind),
        }
    }

    fn of(kind: FieldKind) -> Decode {
        match kind {
            FieldKind::Int { width: 8, signed } => {
                if signed {
                    Decode::I64
                } else {
                    Decode::U64
                }
            }
            FieldKind::Int { signed, .. } => {
                if signed {
                    Decode::I32
                } else {
                    Decode::U32
                }
            }
            FieldKind::Array(element) | FieldKind::Elsewhere { element, .. } => match element {
                Element::Text => Decode::Text,
                Element::Bytes => Decode::Bytes,
                Element::Int { width, signed } => Decode::List { width, signed },
                Element::Bits => Decode::Bits,
            },
        }
    }

    /// The value in a field's bytes, and whether some of it was left out. Lists become text in `list`.
    #[inline]
    fn value<'a>(self, bytes: &'a [u8], list: &'a mut String) -> (Param<'a>, bool) {
        let number = |signed| int(bytes, signed).unwrap_or_default();
        let value = match self {
            Decode::I32 => Param::I32(number(true) as i32),
            Decode::U32 => Param::U32(number(false) as u32),
            Decode::I64 => Param::I64(number(true)),
            Decode::U64 => Param::U64(number(false) as u64),
            Decode::Text => Param::String(text(bytes)),
            Decode::Line => Param::String(text(bytes).trim_ascii_end()),
            Decode::Bytes => Param::Aggregate(bytes),
            Decode::List { width, signed } => {
                let is_cut = numbers(list, bytes, width, signed);
                return (Param::String(list.as_bytes()), is_cut);
            }
            Decode::Bits => {
                let is_cut = bits(list, bytes);
                return (Param::String(list.as_bytes()), is_cut);
            }
        };
        (value, false)
    }

    const fn value_type(self) -> ValueType {
        match self {
            Decode::I32 => ValueType::I32,
            Decode::U32 => ValueType::U32,
            Decode::I64 => ValueType::I64,
            Decode::U64 => ValueType::U64,
            Decode::Text | Decode::Line | Decode::List { .. } | Decode::Bits => ValueType::String,
            Decode::Bytes => ValueType::Aggregate,
        }
    }
}

/// What a record says besides what the kernel wrote.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// When it was read, in real time.
    pub arrived: Timestamp,
    /// When, in real time.
    pub time: Timestamp,
    /// The CPU it happened on.
    pub cpu: u32,
    /// The command, if it is known.
    pub comm: &'a [u8],
    /// The span that the event begins or ends.
    pub span: Option<(EventFlags, u64)>,
}

/// Why a record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Plan {
    /// Looks up everything that the event's records need; `comm_wanted`: also the command that they are of.
    pub fn new(format: &Format, lanes: &mut Lanes, lane: LaneId, comm_wanted: bool) -> Plan {
        // What the others say is in the name of the event, or of use to the kernel only.
        let left_out = ["common_type", "common_flags", "common_preempt_count"];
        let fields = format.fields.iter().filter(|field| !left_out.contains(&field.name.as_str()));
        let fields: Vec<(&FormatField, Decode)> =
            fields.map(|field| (field, Decode::of_field(format, field))).collect();
        // Events of the scheduler carry names themselves, and better ones.
        let has_comm = ["comm", "prev_comm"].iter().any(|name| format.field(name).is_some());
        let (cpu, comm) = (("common_cpu", ValueType::U32), ("comm", ValueType::String));
        let comm = Some(comm).filter(|_| comm_wanted && !has_comm);
        let own = fields.iter().filter(|(_, decode)| !matches!(decode, Decode::Line));
        let own = own.map(|(field, decode)| (field.name.as_str(), decode.value_type()));
        lanes.prepare(&own.chain([cpu]).chain(comm).collect::<Vec<_>>());
        let (mut steps, mut own) = (Vec::new(), Vec::new());
        let name = Param::String(format.name.as_bytes());
        packed(&mut steps).push(lanes.known(WellKnown::Type), &name);
        match Target::new(lanes, &mut own, cpu) {
            Target::Own(pmid) => {
                let packed = packed(&mut steps);
                packed.cpu = Some(packed.push(pmid, &Param::U32(0)));
            }
            folded => steps.push(Step::Cpu(folded)),
        }
        steps.extend(comm.map(|comm| Step::Comm(Target::new(lanes, &mut own, comm))));
        for (field, decode) in fields {
            let to = match decode {
                Decode::Line => Target::Own(lanes.known(WellKnown::Message)),
                _ => Target::new(lanes, &mut own, (&field.name, decode.value_type())),
            };
            add(&mut steps, field, decode, to);
        }
        Plan {
            slot: lanes.type_slot(lane, Some(format.name.as_bytes())),
            least: format.fields.iter().map(|field| field.offset + field.size).max().unwrap_or(0),
            wants_comm: comm.is_some(),
            steps,
            own,
            epoch: Cell::new(lanes.epoch()),
        }
    }

    /// Whether its records want the command.
    pub fn wants_comm(&self) -> bool {
        self.wants_comm
    }

    /// Writes a record of the kernel's into the lane's batch. `text`: memory for values that become text.
    ///
    /// # Errors
    /// The record is shorter than the event's format says; nothing was written.
    #[inline]
    pub fn write(
        &self,
        record: &[u8],
        about: &About<'_>,
        lanes: &mut Lanes,
        lane: LaneId,
        text: &mut String,
    ) -> Result<(), Malformed> {
        // Fields are read without another look at the record's length.
        if record.len() < self.least {
            return Err(Malformed);
        }
        if self.epoch.replace(lanes.epoch()) != lanes.epoch() {
            self.keep_fields(lanes);
        }
        // All CPUs are one connection to the accounting.
        let arrival = Arrival { conn: 0, time: about.arrived };
        let mut out = lanes.begin(At {
            arrival: &arrival,
            lane,
            event_type: self.slot,
            time: about.time,
            flags: about.span.map_or(EventFlags::POINT, |(phase, _)| phase | EventFlags::ID),
        });
        if let Some((_, id)) = about.span {
            // First of all parameters, as the flag ID says.
            out.known(WellKnown::SpanIdU64, Param::U64(id));
        }
        for step in &self.steps {
            match step {
                Step::Packed(packed) => packed.write(record, about.cpu, &mut out),
                Step::Cpu(to) => to.write(Param::U32(about.cpu), &mut out),
                Step::Comm(to) if !about.comm.is_empty() => to.write(Param::String(about.comm), &mut out),
                Step::Comm(_) => {}
                Step::Text(field, to) => match field.bytes(record) {
                    Some(bytes) => out.own(*to, Param::String(self::text(bytes))),
                    None => out.truncated(),
                },
                Step::Field { field, decode, to } => {
                    let Some(bytes) = field.bytes(record) else {
                        // It is said to be beyond the record's end.
                        out.truncated();
                        continue;
                    };
                    let (value, is_cut) = decode.value(bytes, text);
                    if is_cut {
                        out.truncated();
                    }
                    to.write(value, &mut out);
                }
            }
        }
        // A kernel's record fits a page, and so ours fits the batch.
        out.commit().map_err(|_| Malformed)
    }

    /// The registry is to know that the fields are in use.
    #[cold]
    fn keep_fields(&self, lanes: &Lanes) {
        self.own.iter().for_each(|field| _ = lanes.own(field));
    }
}

/// What is packed at the end, to add to it.
fn packed(steps: &mut Vec<Step>) -> &mut Packed {
    if !matches!(steps.last(), Some(Step::Packed(_))) {
        steps.push(Step::Packed(Packed::default()));
    }
    match steps.last_mut() {
        Some(Step::Packed(packed)) => packed,
        _ => unreachable!("it is there"),
    }
}

/// Adds a field, to what is packed if it is a number.
fn add(steps: &mut Vec<Step>, field: &FormatField, decode: Decode, to: Target) {
    // A field that is wider than its number has it at another place.
    let width = match field.kind {
        FieldKind::Int { width, .. } if usize::from(width) == field.size => width,
        _ => 0,
    };
    match (width, to) {
        (_, Target::Own(pmid)) if matches!(decode, Decode::Text) => {
            steps.push(Step::Text(field.clone(), pmid));
        }
        (4 | 8, Target::Own(pmid)) => {
            let packed = packed(steps);
            let to = packed.push(pmid, &decode.value(&[], &mut String::new()).0);
            let numbers = if width == 4 { &mut packed.words } else { &mut packed.longs };
            numbers.push((field.offset, to));
        }
        (_, to) => steps.push(Step::Field { field: field.clone(), decode, to }),
    }
}

/// The bytes at a place that the record has, in the order of the network.
#[inline]
fn bytes<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let mut bytes: [u8; N] = record.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N]);
    if cfg!(target_endian = "little") {
        bytes.reverse();
    }
    bytes
}

/// Puts bytes to a place among parameters, if these are there: those of a record that is too large are not.
#[inline]
fn put<const N: usize>(params: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(to) = params.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *to = bytes;
    }
}

/// What is before the first NUL. Names of commands, which most texts are, take no call.
#[inline]
fn text(bytes: &[u8]) -> &[u8] {
    let end = match bytes.try_into() {
        Ok(name) => first_nul(u128::from_le_bytes(name)),
        Err(_) => memchr::memchr(0, bytes).unwrap_or(bytes.len()),
    };
    &bytes[..end]
}

/// How many of sixteen bytes, the first in the lowest byte, are before the first that is zero.
#[inline]
fn first_nul(bytes: u128) -> usize {
    const ONES: u128 = u128::MAX / 0xff;
    // A byte less one has its high bit set and had none before: a zero. What is borrowed is borrowed from those above it.
    let zeros = bytes.wrapping_sub(ONES) & !bytes & (ONES << 7);
    zeros.trailing_zeros() as usize / 8
}

/// Numbers with commas between them. Returns whether some were left out.
fn numbers(out: &mut String, bytes: &[u8], width: u8, signed: bool) -> bool {
    out.clear();
    for chunk in bytes.chunks_exact(usize::from(width)) {
        // Checked before each number: what goes beyond is at most one of them.
        if out.len() > MAX_LIST {
            return true;
        }
        let comma = if out.is_empty() { "" } else { "," };
        let number = int(chunk, signed).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = match signed {
            true => write!(out, "{comma}{number}"),
            false => write!(out, "{comma}{}", number as u64),
        };
    }
    false
}

/// A bit mask the way the kernel prints lists of CPUs: `0-3,5`. Returns whether some were left out.
fn bits(out: &mut String, bytes: &[u8]) -> bool {
    out.clear();
    let is_set = |bit: usize| {
        // Words of the machine's, so that only little-endian ones have their bytes in order.
        let (byte, word) = (bit / 8, size_of::<usize>());
        let byte =
            if cfg!(target_endian = "big") { byte / word * word + (word - 1 - byte % word) } else { byte };
        bytes.get(byte).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    };
    let mut bit = 0;
    while bit < bytes.len() * 8 {
        if !is_set(bit) {
            bit += 1;
            continue;
        }
        if out.len() > MAX_LIST {
            return true;
        }
        let first = bit;
        while is_set(bit) {
            bit += 1;
        }
        let comma = if out.is_empty() { "" } else { "," };
        let _ = match bit - first {
            1 => write!(out, "{comma}{first}"),
            _ => write!(out, "{comma}{first}-{}", bit - 1),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::format::tests::SAMPLE;
    use super::*;
    use crate::registry::{Registry, RegistryConfig};
    use pcp_event::ArrayKind;
    use pcp_event::reader::ArrayReader;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::time::Duration;

    fn lanes() -> (Lanes, LaneId, crossbeam_channel::Receiver<crate::Delivery>) {
        lanes_of(RegistryConfig::new(400))
    }

    fn lanes_of(config: RegistryConfig) -> (Lanes, LaneId, crossbeam_channel::Receiver<crate::Delivery>) {
        let (registry, _) = Registry::open(&config).expect("in memory");
        let (out, deliveries) = crossbeam_channel::bounded(64);
        let mut lanes = Lanes::new(registry, out, Arc::new(|| {}), Duration::ZERO);
        let lane = lanes.source(b"kernel").expect("a source");
        (lanes, lane, deliveries)
    }

    fn record() -> Vec<u8> {
        let mut record = vec![0; 116];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &4711u16.to_ne_bytes());
        put(4, &1234i32.to_ne_bytes());
        put(8, b"cat\0garbage");
        put(24, &(100u32 | 9 << 16).to_ne_bytes());
        put(28, &((109u32 - 32) | 3 << 16).to_ne_bytes());
        put(32, &(-17i16).to_ne_bytes());
        put(34, &[1, 0xfe]);
        put(40, &0xffff_ff9cu64.to_ne_bytes());
        put(48, &u64::MAX.to_ne_bytes());
        put(56, &[1u32, u32::MAX, 3].map(u32::to_ne_bytes).concat());
        put(68, &[10, 0, 0, 1]);
        put(72, &(112u32 | 4 << 16).to_ne_bytes());
        put(80, &(-5i64).to_ne_bytes());
        put(100, b"/bin/cat\0ab\0");
        put(112, &[0b0010_1111, 0, 1, 0]);
        record
    }

    fn about(span: Option<(EventFlags, u64)>) -> About<'static> {
        About { arrived: Timestamp::default(), time: Timestamp::new(7, 8), cpu: 3, comm: b"dog", span }
    }

    /// Parameters of a record, each as text.
    fn params(batch: &pcp_event::batch::Batch) -> Vec<String> {
        let mut array = Vec::new();
        let records = batch.bytes();
        array.extend((((10u32) << 24) | (8 + records.len() as u32)).to_be_bytes());
        array.extend((batch.len() as u32).to_be_bytes());
        array.extend(records);
        let array = ArrayReader::<BigEndian>::new(ArrayKind::HighRes, &array).expect("a good array");
        let record = array.records().next().expect("a record");
        record.params().map(|param| format!("{:?}", param.value)).collect()
    }

    #[test]
    fn every_kind_of_field_is_decoded() {
        let (mut lanes, lane, deliveries) = lanes();
        let format = Format::parse("test", SAMPLE).unwrap();
        let plan = Plan::new(&format, &mut lanes, lane, true);
        assert!(!plan.wants_comm(), "it has one itself");
        plan.write(&record(), &about(None), &mut lanes, lane, &mut String::new()).unwrap();
        let text = |text: &str| format!("{:?}", Param::String(text.as_bytes()));
        let expected = [
            text("test:sample"),
            "U32(3)".into(),
            "I32(1234)".into(),
            text("cat"),
            text("/bin/cat"),
            text("ab"),
            "I32(-17)".into(),
            "U32(1)".into(),
            "I32(-2)".into(),
            "I32(-100)".into(),
            format!("U64({})", u64::MAX),
            text("1,4294967295,3"),
            format!("{:?}", Param::Aggregate(&[10, 0, 0, 1])),
            text("0-3,5,16"),
            text(""),
            "I64(-5)".into(),
            format!("{:?}", Param::Aggregate(&[0; 12])),
        ];
        let short = &record()[..99];
        let refused = plan.write(short, &about(None), &mut lanes, lane, &mut String::new());
        lanes.flush();
        let delivery = deliveries.try_recv().expect("records");
        assert_eq!(params(&delivery.batch), expected);
        assert_eq!(delivery.tallies.received, 1);
        assert_eq!((refused, delivery.batch.len()), (Err(Malformed), 1));
    }

    #[test]
    fn fields_without_a_metric_of_their_own_are_told_with_their_names() {
        let (mut lanes, lane, deliveries) =
            lanes_of(RegistryConfig { max_fields: 0, ..RegistryConfig::new(400) });
        let text = "name: two\nID: 5\nformat:\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
            \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n";
        let plan = Plan::new(&Format::parse("test", text).unwrap(), &mut lanes, lane, true);
        plan.write(&record()[..24], &about(None), &mut lanes, lane, &mut String::new()).unwrap();
        lanes.flush();
        let text = |text: &str| format!("{:?}", Param::String(text.as_bytes()));
        let expected = ["test:two", "common_cpu=3", "common_pid=1234", "comm=cat"].map(text);
        let delivery = deliveries.try_recv().expect("records");
        assert_eq!((params(&delivery.batch), delivery.tallies.folded), (expected.to_vec(), 3));
    }

    #[test]
    fn a_span_comes_first_and_markers_are_messages() {
        let (mut lanes, lane, deliveries) = lanes();
        let text = "name: print\nID: 5\nformat:\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
            \tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n";
        let plan = Plan::new(&Format::parse("ftrace", text).unwrap(), &mut lanes, lane, true);
        let mut record = vec![0; 16];
        record.extend(b"hello\n\0\0");
        let span = Some((EventFlags::START, 9));
        plan.write(&record, &about(span), &mut lanes, lane, &mut String::new()).unwrap();
        let text = |text: &str| format!("{:?}", Param::String(text.as_bytes()));
        let expected = [
            "U64(9)".into(),
            text("ftrace:print"),
            "U32(3)".into(),
            text("dog"),
            "I32(0)".into(),
            "U64(0)".into(),
            text("hello"),
        ];
        lanes.flush();
        assert_eq!(params(&deliveries.try_recv().expect("records").batch), expected);
    }

    proptest! {
        #[test]
        fn texts_end_at_the_first_nul(bytes in prop::collection::vec(prop_oneof![0..3u8, any::<u8>()], 0..40)) {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            prop_assert_eq!(text(&bytes), &bytes[..end]);
            if let Some(name) = bytes.first_chunk::<16>() {
                prop_assert_eq!(text(name), &name[..end.min(16)]);
            }
        }

        #[test]
        fn any_record_is_written_or_refused(record in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (mut lanes, lane, _deliveries) = lanes();
            let plan = Plan::new(&Format::parse("test", SAMPLE).unwrap(), &mut lanes, lane, true);
            let written = plan.write(&record, &about(None), &mut lanes, lane, &mut String::new());
            prop_assert_eq!(written.is_ok(), record.len() >= 100);
        }
    }
}

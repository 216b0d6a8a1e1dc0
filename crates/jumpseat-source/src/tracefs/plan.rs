//! From an event's format to a decode plan, and from a kernel record to a packed one.
//!
//! A plan is made when an event comes for the first time: only then do its fields get metrics. Writing a record
//! looks nothing up and allocates nothing: most of its parameters have a place in the kernel's record and a head that are the same in
//! all of them. They are put together apart, and go into the batch at once.

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
    /// The parameter that says which event it is.
    name: Vec<u8>,
    slot: TypeSlot,
    cpu: Target,
    comm: Option<Target>,
    steps: Vec<Step>,
    /// When the registry was told that its fields are in use.
    epoch: Cell<u32>,
    /// Its records have at least so many bytes.
    least: usize,
}

/// How a parameter is written. Places are within the least that a record has.
#[derive(Debug)]
enum Step {
    /// A number of four bytes, with the head of its parameter.
    Word { at: usize, head: [u8; PARAM_HEADER], to: InternedField },
    /// One of eight.
    Long { at: usize, head: [u8; PARAM_HEADER], to: InternedField },
    /// Whatever else.
    Field { field: FormatField, decode: Decode, to: Target },
}

/// Where a field's values go.
#[derive(Debug)]
enum Target {
    /// To a metric that all agents have.
    Known(Pmid),
    /// To one of its own.
    Own(Pmid, InternedField),
    /// To the one that has all others.
    Folded(InternedField),
}

impl Target {
    fn new(lanes: &mut Lanes, name: &[u8], value_type: ValueType) -> Target {
        let field = lanes.intern(name, value_type);
        match lanes.own(&field) {
            Some(pmid) => Target::Own(pmid, field),
            None => Target::Folded(field),
        }
    }
}

/// Memory for records that are being written.
#[derive(Debug, Default)]
pub struct Memory {
    /// For values that become text.
    text: String,
    /// Packed parameters.
    params: Vec<u8>,
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
        let steps = fields.iter().map(|(field, decode)| Step::new(field, *decode, lanes)).collect();
        let mut target =
            |(name, value_type): (&str, ValueType)| Target::new(lanes, name.as_bytes(), value_type);
        let (cpu, comm) = (target(cpu), comm.map(target));
        let mut name = Vec::new();
        let value = Param::String(format.name.as_bytes());
        put_param::<BigEndian>(&mut name, lanes.known(WellKnown::Type), &value);
        Plan {
            slot: lanes.type_slot(lane, Some(format.name.as_bytes())),
            name,
            cpu,
            comm,
            least: format.fields.iter().map(|field| field.offset + field.size).max().unwrap_or(0),
            steps,
            epoch: Cell::new(lanes.epoch()),
        }
    }

    /// Whether its records want the command.
    pub fn wants_comm(&self) -> bool {
        self.comm.is_some()
    }

    /// Writes a record of the kernel's into the lane's batch.
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
        Memory { text, params }: &mut Memory,
    ) -> Result<(), Malformed> {
        // Fields are read without another look at the record's length.
        if record.len() < self.least {
            return Err(Malformed);
        }
        if self.epoch.replace(lanes.epoch()) != lanes.epoch() {
            self.keep_fields(lanes);
        }
        params.clear();
        let span_id = lanes.known(WellKnown::SpanIdU64);
        let out = lanes.begin(At {
            // All CPUs are one connection to the accounting.
            arrival: Arrival { conn: 0, time: about.arrived },
            lane,
            event_type: self.slot,
            time: about.time,
            flags: about.span.map_or(EventFlags::POINT, |(phase, _)| phase | EventFlags::ID),
        });
        let mut packer = Packer { out, params, count: 0 };
        if let Some((_, id)) = about.span {
            // First of all parameters, as the flag ID says.
            packer.own(span_id, Param::U64(id));
        }
        packer.packed(&self.name);
        packer.put(&self.cpu, Param::U32(about.cpu));
        if let Some(comm) = self.comm.as_ref().filter(|_| !about.comm.is_empty()) {
            packer.put(comm, Param::String(about.comm));
        }
        for step in &self.steps {
            match step {
                Step::Word { at, head, .. } => packer.number(head, bytes::<4>(record, *at)),
                Step::Long { at, head, .. } => packer.number(head, bytes::<8>(record, *at)),
                Step::Field { field, decode, to } => {
                    let Some(bytes) = field.bytes(record) else {
                        // It is said to be beyond the record's end.
                        packer.out.truncated();
                        continue;
                    };
                    let (value, is_cut) = decode.value(bytes, text);
                    if is_cut {
                        packer.out.truncated();
                    }
                    packer.put(to, value);
                }
            }
        }
        // A kernel's record fits a page, and so ours fits the batch.
        packer.end().commit().map_err(|_| Malformed)
    }

    /// The registry is to know that the fields are in use.
    #[cold]
    fn keep_fields(&self, lanes: &Lanes) {
        let keep = |target: &Target| {
            if let Target::Own(_, field) = target {
                lanes.own(field);
            }
        };
        [Some(&self.cpu), self.comm.as_ref()].into_iter().flatten().for_each(keep);
        for step in &self.steps {
            match step {
                Step::Word { to, .. } | Step::Long { to, .. } => {
                    lanes.own(to);
                }
                Step::Field { to, .. } => keep(to),
            }
        }
    }
}

impl Step {
    fn new(field: &FormatField, decode: Decode, lanes: &mut Lanes) -> Step {
        let to = match decode {
            Decode::Line => Target::Known(lanes.known(WellKnown::Message)),
            _ => Target::new(lanes, field.name.as_bytes(), decode.value_type()),
        };
        let at = field.offset;
        // A field that is wider than its number has it at another place.
        let width = match field.kind {
            FieldKind::Int { width, .. } if usize::from(width) == field.size => width,
            _ => 0,
        };
        match (width, to) {
            (4, Target::Own(pmid, to)) => Step::Word { at, head: head(pmid, decode), to },
            (8, Target::Own(pmid, to)) => Step::Long { at, head: head(pmid, decode), to },
            (_, to) => Step::Field { field: field.clone(), decode, to },
        }
    }
}

/// The head of a number's parameter.
fn head(pmid: Pmid, decode: Decode) -> [u8; PARAM_HEADER] {
    let (mut param, mut text) = (Vec::new(), String::new());
    put_param::<BigEndian>(&mut param, pmid, &decode.value(&[], &mut text).0);
    param.first_chunk().copied().unwrap_or_default()
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

/// Parameters on their way into a record.
struct Packer<'a> {
    out: Record<'a>,
    /// Those that are not there yet, and how many they are.
    params: &'a mut Vec<u8>,
    count: i32,
}

impl<'a> Packer<'a> {
    #[inline]
    fn number<const N: usize>(&mut self, head: &[u8; PARAM_HEADER], value: [u8; N]) {
        self.params.extend_from_slice(head);
        self.params.extend_from_slice(&value);
        self.count += 1;
    }

    #[inline]
    fn own(&mut self, pmid: Pmid, value: Param<'_>) {
        put_param::<BigEndian>(self.params, pmid, &value);
        self.count += 1;
    }

    /// One that is packed.
    #[inline]
    fn packed(&mut self, param: &[u8]) {
        self.params.extend_from_slice(param);
        self.count += 1;
    }

    #[inline]
    fn put(&mut self, to: &Target, value: Param<'_>) {
        match to {
            Target::Known(pmid) | Target::Own(pmid, _) => self.own(*pmid, value),
            Target::Folded(field) => {
                self.flush();
                self.out.interned(field, value);
            }
        }
    }

    #[inline]
    fn flush(&mut self) {
        self.out.packed(self.count, self.params);
        self.params.clear();
        self.count = 0;
    }

    /// The record with all of them.
    #[inline]
    fn end(mut self) -> Record<'a> {
        self.flush();
        self.out
    }
}

/// What is before the first NUL.
#[inline]
fn text(bytes: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    &bytes[..end]
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
        let (registry, _) = Registry::open(&RegistryConfig::new(400)).expect("in memory");
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
        plan.write(&record(), &about(None), &mut lanes, lane, &mut Memory::default()).unwrap();
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
        let refused = plan.write(short, &about(None), &mut lanes, lane, &mut Memory::default());
        lanes.flush();
        let delivery = deliveries.try_recv().expect("records");
        assert_eq!(params(&delivery.batch), expected);
        assert_eq!(delivery.tallies.received, 1);
        assert_eq!((refused, delivery.batch.len()), (Err(Malformed), 1));
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
        plan.write(&record, &about(span), &mut lanes, lane, &mut Memory::default()).unwrap();
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
        fn any_record_is_written_or_refused(record in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (mut lanes, lane, _deliveries) = lanes();
            let plan = Plan::new(&Format::parse("test", SAMPLE).unwrap(), &mut lanes, lane, true);
            let written = plan.write(&record, &about(None), &mut lanes, lane, &mut Memory::default());
            prop_assert_eq!(written.is_ok(), record.len() >= 100);
        }
    }
}

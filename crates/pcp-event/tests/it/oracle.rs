//! Event arrays against PCP itself: the builder against `libpcp_pmda`, the network form against what
//! `libpcp` puts into a PDU, the reader against the unpack functions, the summary against `pmPrintValue`.

use std::fmt::Write;

use byteorder::{ByteOrder, NativeEndian, NetworkEndian};
use pcp_event::pack::{MAX_ARRAY, header_word};
use pcp_event::{
    ArrayKind, ArrayReader, BuildError, EventArray, EventFlags, HostEventArray, NetEventArray, Param, summary,
};
use pcp_model::{Pmid, Timestamp, Value, ValueType};

use support::CPeer;

const ORACLE: &str = "tests/c/event_oracle.c";
const KINDS: [ArrayKind; 2] = [ArrayKind::Event, ArrayKind::HighRes];

/// A small generator (xorshift64*), so that each seed is the same sequence of calls forever.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn time(&mut self) -> Timestamp {
        let seconds = [0, 1, 0x6500_0001, 0x7fff_ffff, 0x8500_0001, 0x1_6500_0001, -1, -0x7000_0000];
        let nanoseconds = [0, 999, 1_000, 123_456_789, 999_999_999];
        Timestamp::new(self.pick(&seconds), self.pick(&nanoseconds))
    }

    fn pmid(&mut self) -> Pmid {
        let any = Pmid(self.next() as u32);
        self.pick(&[Pmid::new(29, 0, 128), Pmid::new(511, 0, 1), Pmid::NULL, any])
    }

    /// Text without NUL (the C interface takes C strings), or any bytes; mostly short.
    fn bytes(&mut self, least: u8) -> Vec<u8> {
        let long = [4096, 4097, 70_001][self.below(3)];
        let len = if self.below(40) == 0 { long } else { self.below(6) + self.below(2) * self.below(40) };
        (0..len).map(|_| least.saturating_add(self.next() as u8)).collect()
    }

    fn value(&mut self) -> Value {
        let bits = self.next();
        let bits = self.pick(&[0, 1, u64::MAX, 1 << 31, 1 << 63, 0x7ff0_0000_7f80_0000, bits]);
        match self.below(8) {
            0 => Value::I32(bits as i32),
            1 => Value::U32(bits as u32),
            2 => Value::I64(bits as i64),
            3 => Value::U64(bits),
            4 => Value::Float(f32::from_bits(bits as u32)),
            5 => Value::Double(f64::from_bits(bits)),
            6 => Value::String(self.bytes(1).into()),
            _ => Value::Aggregate(self.bytes(0).into()),
        }
    }
}

fn host_bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::I32(v) => v.to_ne_bytes().to_vec(),
        Value::U32(v) => v.to_ne_bytes().to_vec(),
        Value::I64(v) => v.to_ne_bytes().to_vec(),
        Value::U64(v) => v.to_ne_bytes().to_vec(),
        Value::Float(v) => v.to_ne_bytes().to_vec(),
        Value::Double(v) => v.to_ne_bytes().to_vec(),
        Value::String(v) | Value::Aggregate(v) | Value::Event(v) | Value::HighResEvent(v) => v.to_vec(),
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    if bytes.is_empty() {
        return "-".to_owned();
    }
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

fn letter(kind: ArrayKind) -> char {
    match kind {
        ArrayKind::Event => 'E',
        ArrayKind::HighRes => 'H',
    }
}

/// Seconds and the fraction that this kind's C interface takes.
fn c_time(kind: ArrayKind, time: Timestamp) -> String {
    match kind {
        ArrayKind::Event => format!("{} {}", time.sec, time.usec()),
        ArrayKind::HighRes => format!("{} {}", time.sec, time.nsec),
    }
}

/// The same array built three times: in host form, in network form, and by libpcp_pmda.
struct Trio {
    handle: usize,
    host: HostEventArray,
    net: NetEventArray,
    /// Whether libpcp_pmda has a record that a parameter can be added to without corrupting memory.
    in_record: bool,
    calls: usize,
}

impl Trio {
    fn new(oracle: &mut CPeer, kind: ArrayKind) -> Trio {
        let handle = oracle.ask(&format!("new {}", letter(kind))).parse().expect("new returns a handle");
        Trio { handle, host: EventArray::new(kind), net: EventArray::new(kind), in_record: false, calls: 0 }
    }

    /// Applies a call to the two arrays; both must return the same, and change nothing when they fail.
    fn both(
        &mut self,
        host: impl FnOnce(&mut HostEventArray) -> Result<(), BuildError>,
        net: impl FnOnce(&mut NetEventArray) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        let before = (self.host.packed_len(), self.net.packed_len(), self.host.records());
        let result = host(&mut self.host);
        assert_eq!(result, net(&mut self.net));
        if result.is_err() {
            assert_eq!(before, (self.host.packed_len(), self.net.packed_len(), self.host.records()));
        }
        self.calls += 1;
        result
    }

    fn agree(&self, oracle: &mut CPeer, call: &str, ours: Result<(), BuildError>) {
        let code = ours.map_or_else(|error| error.code().0, |()| 0);
        assert_eq!(oracle.ask(call), code.to_string(), "{call:.200}");
    }

    fn record(&mut self, oracle: &mut CPeer, time: Timestamp, flags: EventFlags) {
        let result = self.both(|host| host.add_record(time, flags), |net| net.add_record(time, flags));
        let call = format!("record {} {} {:x}", self.handle, c_time(self.host.kind(), time), flags.0);
        self.agree(oracle, &call, result);
        self.in_record |= result.is_ok();
    }

    fn missed(&mut self, oracle: &mut CPeer, time: Timestamp, count: i32) {
        let result = self.both(|host| host.add_missed(time, count), |net| net.add_missed(time, count));
        let call = format!("missed {} {} {count}", self.handle, c_time(self.host.kind(), time));
        self.agree(oracle, &call, result);
        self.in_record = false;
    }

    fn param(&mut self, oracle: &mut CPeer, pmid: Pmid, value_type: ValueType, value: &Value) {
        let result = self.both(
            |host| host.add_value(pmid, value_type, value),
            |net| net.add_value(pmid, value_type, value),
        );
        let type_ok = (0..8).contains(&value_type.code());
        if type_ok && !self.in_record {
            // libpcp_pmda returns 0 here and corrupts memory.
            assert!(matches!(result, Err(BuildError::NoRecord | BuildError::AfterMissed)), "{result:?}");
            return;
        }
        let (code, bytes) = (value_type.code(), hex(&host_bytes(value)));
        let call = format!("param {} {:x} {code} {bytes}", self.handle, pmid.0);
        self.agree(oracle, &call, result);
    }

    fn reset(&mut self, oracle: &mut CPeer) {
        self.host.reset();
        self.net.reset();
        self.in_record = false;
        self.agree(oracle, &format!("reset {}", self.handle), Ok(()));
    }

    fn compare(&mut self, oracle: &mut CPeer, context: &str) {
        let c = oracle.ask(&format!("get {}", self.handle));
        assert!(hex(self.host.get()) == c, "{context}: host form\n ours {}\n C    {c}", hex(self.host.get()));
        let wire = oracle.ask(&format!("wire {}", self.handle));
        let ours = as_libpcp_sends(self.net.kind(), self.net.get());
        assert!(hex(&ours) == wire, "{context}: network form\n ours {}\n C    {wire}", hex(&ours));
    }
}

/// Our network form with the missed counts of the HIGHRES kind set to zero, as every libpcp encoder does.
fn as_libpcp_sends(kind: ArrayKind, array: &[u8]) -> Vec<u8> {
    let mut bytes = array.to_vec();
    let mut at = 8;
    for record in ArrayReader::<NetworkEndian>::new(kind, array).expect("we built it").records() {
        if kind == ArrayKind::HighRes && record.missed().is_some() {
            NetworkEndian::write_i32(&mut bytes[at + 20..], 0);
        }
        at += kind.record_header() + record.params().map(|param| param.value.packed_len()).sum::<usize>();
    }
    assert_eq!(at, bytes.len());
    bytes
}

#[test]
fn the_builder_makes_the_bytes_of_libpcp_pmda() {
    let mut oracle = CPeer::start(ORACLE);
    let (mut calls, mut compared) = (0, 0);
    for seed in 0..150 {
        let random = &mut Random::new(seed);
        let mut trios: Vec<Trio> = KINDS.iter().map(|kind| Trio::new(&mut oracle, *kind)).collect();
        for step in 0..120 {
            let trio = &mut trios[random.below(2)];
            match random.below(100) {
                0..15 => {
                    let flags = [0, 1, 0x1f, 0x1a, 0x20, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX];
                    let flags = EventFlags(random.pick(&flags));
                    trio.record(&mut oracle, random.time(), flags);
                }
                15..20 => {
                    let count = random.pick(&[7, 0, 1, -5, i32::MAX, i32::MIN]);
                    trio.missed(&mut oracle, random.time(), count);
                }
                20..22 => trio.reset(&mut oracle),
                22..28 => {
                    let code = random.pick(&[-1, 8, 9, 10, 255]);
                    let (pmid, value) = (random.pmid(), random.value());
                    trio.param(&mut oracle, pmid, ValueType::from_code(code), &value);
                }
                28..33 => {
                    trio.compare(&mut oracle, &format!("seed {seed} step {step}"));
                    compared += 1;
                }
                _ => {
                    let (pmid, value) = (random.pmid(), random.value());
                    trio.param(&mut oracle, pmid, value.value_type(), &value);
                }
            }
        }
        for mut trio in trios {
            trio.compare(&mut oracle, &format!("seed {seed} end"));
            trio.agree(&mut oracle, &format!("release {}", trio.handle), Ok(()));
            calls += trio.calls;
        }
    }
    assert!(calls > 15_000 && compared > 500, "{calls} calls, {compared} comparisons");
}

#[test]
fn the_largest_array_is_the_same() {
    let mut oracle = CPeer::start(ORACLE);
    for kind in KINDS {
        let mut trio = Trio::new(&mut oracle, kind);
        trio.record(&mut oracle, Timestamp::new(1, 0), EventFlags::POINT);
        let text = Value::String(vec![b'x'; 9_000_001].into());
        trio.param(&mut oracle, Pmid::new(29, 0, 134), ValueType::String, &text);
        trio.record(&mut oracle, Timestamp::new(2, 0), EventFlags::POINT);
        let rest = MAX_ARRAY - trio.host.packed_len() - 8;
        let blob = Value::Aggregate(vec![0xff; rest].into());
        trio.param(&mut oracle, Pmid::new(29, 0, 135), ValueType::Aggregate, &blob);
        assert_eq!(trio.host.packed_len(), MAX_ARRAY);
        trio.compare(&mut oracle, "largest");
        // One more byte would make libpcp_pmda store the length modulo 2^24.
        let full = trio.both(
            |host| host.add_missed(Timestamp::default(), 1),
            |net| net.add_missed(Timestamp::default(), 1),
        );
        assert!(matches!(full, Err(BuildError::Full { used: MAX_ARRAY, .. })));
        assert_eq!(trio.host.get().len(), MAX_ARRAY);
    }
}

/// A well-formed array of a few records, times within 32 bits.
fn some_array(random: &mut Random, kind: ArrayKind) -> Vec<u8> {
    let mut array = HostEventArray::new(kind);
    for _ in 0..random.below(6) {
        let sec = random.pick(&[0, 1, 86_399, 0x6500_0001, 0x7fff_ffff]);
        let time = Timestamp::new(sec, random.below(1_000_000_000) as u32);
        if random.below(5) == 0 {
            array.add_missed(time, random.pick(&[7, 0, 1, -5, i32::MAX])).expect("there is room");
            continue;
        }
        array.add_record(time, EventFlags(random.pick(&[0, 1, 0x1f, 0x20]))).expect("there is room");
        for _ in 0..random.below(5) {
            let value = random.value();
            array.add_value(random.pmid(), value.value_type(), &value).expect("there is room");
        }
    }
    array.into_bytes()
}

/// Changes one word, byte or length of a host array, mostly to something that matters.
fn damage(random: &mut Random, bytes: &mut [u8]) {
    let at = random.below(bytes.len() / 4) * 4;
    let word = NativeEndian::read_u32(&bytes[at..]);
    let any = random.next() as u32;
    let len = [0, 1, 3, 4, 5, 7, 8, 9, 12, 13, 16][random.below(11)];
    let value_type = ValueType::from_code(random.below(12) as i32 - 1);
    let new = match random.below(8) {
        0 => any,
        1 => word ^ 1 << random.below(32),
        2 => word.wrapping_add(1),
        3 => word.wrapping_sub(1),
        4 => random.pick(&[0, 0xffff_ffff, 0xffff_fffb, 0x7fff_ffff, 0x8000_0000, 0x8000_0001]),
        5 => word & 0xff00_0000 | len,
        6 => word & 0x00ff_ffff | (value_type.code() as u32) << 24,
        _ => header_word(value_type, len as usize),
    };
    NativeEndian::write_u32(&mut bytes[at..], new);
}

/// What the oracle's `unpack` prints for an array that this reader accepts; times as [`Timestamp`].
fn unpacked(kind: ArrayKind, array: &ArrayReader<'_, NativeEndian>) -> String {
    let mut text = format!("{}", array.len());
    for record in array {
        let sets = match record.missed() {
            Some(_) => 2,
            None => usize::from(record.flags.0 != 0) + record.params().len(),
        };
        let _ = write!(text, " | {} {sets}", c_time(kind, record.time));
        if record.flags.0 != 0 {
            let _ = write!(text, " 7fc00001=insitu:{}", hex(&record.flags.0.to_ne_bytes()));
        }
        if let Some(count) = record.missed() {
            let _ = write!(text, " 7fc00002=insitu:{}", hex(&count.to_ne_bytes()));
        }
        for param in record.params() {
            let bytes = hex(&match param.value {
                Param::I32(v) => v.to_ne_bytes().to_vec(),
                Param::U32(v) => v.to_ne_bytes().to_vec(),
                Param::I64(v) => v.to_ne_bytes().to_vec(),
                Param::U64(v) => v.to_ne_bytes().to_vec(),
                Param::Float(v) => v.to_ne_bytes().to_vec(),
                Param::Double(v) => v.to_ne_bytes().to_vec(),
                Param::String(v) | Param::Aggregate(v) => v.to_vec(),
            });
            let form = match param.value_type {
                ValueType::I32 | ValueType::U32 => "insitu".to_owned(),
                other => other.code().to_string(),
            };
            let _ = write!(text, " {:08x}={form}:{bytes}", param.pmid.0);
        }
    }
    text
}

/// The oracle's answer with fractions outside of their second carried into the seconds, as the reader does.
fn carried(kind: ArrayKind, answer: &str) -> String {
    let per_second = if kind == ArrayKind::Event { 1_000_000 } else { 1_000_000_000 };
    let record = |text: &str| {
        let mut words = text.splitn(3, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<i64>().ok()).expect("a time");
        let (sec, fraction) = (number(), number());
        let sec = sec.saturating_add(fraction.div_euclid(per_second));
        format!("{sec} {} {}", fraction.rem_euclid(per_second), words.next().expect("the count of sets"))
    };
    let mut parts = answer.split(" | ");
    let head = parts.next().expect("split gives at least one").to_owned();
    std::iter::once(head).chain(parts.map(record)).collect::<Vec<_>>().join(" | ")
}

#[test]
fn the_reader_agrees_with_the_unpack_functions() {
    let mut oracle = CPeer::start(ORACLE);
    let (mut accepted, mut refused, mut stricter) = (0, [0; 4], 0);
    for seed in 0..4_000 {
        let random = &mut Random::new(seed);
        let kind = KINDS[random.below(2)];
        let mut bytes = some_array(random, kind);
        if bytes.len() > 2_000 {
            continue;
        }
        for _ in 0..random.below(4) {
            damage(random, &mut bytes);
        }
        if NativeEndian::read_u24(&bytes) as usize > bytes.len() {
            assert!(ArrayReader::<NativeEndian>::new(kind, &bytes).is_err());
            continue; // libpcp has no means to notice this
        }
        let answer = oracle.ask(&format!("unpack {} {}", letter(kind), hex(&bytes)));
        let context = format!("seed {seed}: {} gave {answer}", hex(&bytes));
        match ArrayReader::<NativeEndian>::new(kind, &bytes) {
            Ok(array) => {
                assert_eq!(unpacked(kind, &array), carried(kind, &answer), "{context}");
                accepted += 1;
            }
            Err(error) if error.defect.is_stricter() => {
                // libpcp goes on, with bytes that are not the parameter's, or dies.
                assert!(!answer.starts_with('-'), "{context}: {error}");
                stricter += 1;
            }
            Err(error) => {
                assert_eq!(answer, error.code().0.to_string(), "{context}: {error}");
                let codes = [-12397, -12443, -12444, -12362];
                refused[codes.iter().position(|code| *code == error.code().0).expect("no other code")] += 1;
            }
        }
    }
    assert!(accepted > 800, "{accepted}");
    assert!(refused.iter().all(|count| *count > 20), "{refused:?}");
    assert!(stricter > 100, "{stricter}");
}

#[test]
fn the_summary_is_that_of_pm_print_value() {
    let mut oracle = CPeer::start(ORACLE);
    let mut missed = 0;
    for seed in 10_000..10_600 {
        let random = &mut Random::new(seed);
        let kind = KINDS[random.below(2)];
        let bytes = some_array(random, kind);
        let array = ArrayReader::<NativeEndian>::new(kind, &bytes).expect("we built it");
        let ours = summary(&array, |_| 0);
        missed += usize::from(ours.contains("missed"));
        assert_eq!(ours, oracle.ask(&format!("summary {} {}", letter(kind), hex(&bytes))), "{}", hex(&bytes));
    }
    assert!(missed > 50, "{missed}");
}

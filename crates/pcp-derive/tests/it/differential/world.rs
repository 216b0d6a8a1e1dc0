//! What a batch of definitions meets: metrics, instance domains, and samples over time.

use std::fmt::Write;

use pcp_model::{InDom, Inst, PmError, Pmid, Semantics, Timestamp, Units, Value, ValueType};

use support::random::Random;

/// The domain of the oracle's agent.
pub(super) const DOMAIN: u16 = 245;
/// How many metrics there are. Each has the same name in every batch, as all share a name space.
pub(super) const METRICS: usize = 26;
pub(super) const INDOMS: [u32; 3] = [1, 2, 3];
const INSTANCE_NAMES: [&str; 14] = [
    "eth0", "eth1", "lo", "sda", "sda/1", "cpu 0", "cpu 1", "disk a", "disk b", "Upper", "x]y", "a.b", "7",
    "été",
];

pub(super) struct Metric {
    pub name: String,
    pub pmid: Pmid,
    pub value_type: ValueType,
    pub indom: InDom,
    pub semantics: Semantics,
    pub units: Units,
    /// Why there is no descriptor.
    pub error: Option<PmError>,
    /// Never without values (it may have errors).
    pub solid: bool,
    /// Its values come in the wrong format now and then.
    pub odd: bool,
}

impl Metric {
    pub(super) fn is_set(&self) -> bool {
        self.indom != InDom::NULL
    }
}

/// The values of a metric in a sample.
pub(super) struct Set {
    pub values: Result<Vec<(Inst, Value)>, PmError>,
    /// In the wrong format.
    pub in_situ: bool,
}

pub(super) struct Sample {
    pub time: Timestamp,
    /// One a metric.
    pub sets: Vec<Set>,
    /// The instances of each of [`INDOMS`].
    pub instances: Vec<Vec<(Inst, &'static str)>>,
}

pub(super) struct World {
    pub metrics: Vec<Metric>,
    pub samples: Vec<Sample>,
}

/// The name space: what `pmLoadASCIINameSpace(3)` reads.
pub(super) fn name_space() -> String {
    let mut leaves = String::new();
    for n in 2..METRICS {
        let _ = writeln!(leaves, "  n{n} {DOMAIN}:0:{n}");
    }
    format!(
        "root {{\n  m\n  count {DOMAIN}:0:0\n  rate\n}}\nm {{\n{leaves}}}\nrate {{\n  x {DOMAIN}:0:1\n}}\n"
    )
}

fn metric_name(n: usize) -> String {
    match n {
        0 => "count".to_owned(),
        1 => "rate.x".to_owned(),
        n => format!("m.n{n}"),
    }
}

const NUMBERS: [ValueType; 6] =
    [ValueType::I32, ValueType::U32, ValueType::I64, ValueType::U64, ValueType::Float, ValueType::Double];

pub(super) fn units(random: &mut Random) -> Units {
    const COMMON: [[i8; 6]; 14] = [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [1, 0, 0, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [1, 0, 0, 2, 0, 0],
        [0, 1, 0, 0, 3, 0],
        [0, 1, 0, 0, 2, 0],
        [0, 1, 0, 0, 5, 0],
        [0, 1, 0, 0, 0, 0],
        [0, -1, 1, 0, 3, 0],
        [1, -1, 0, 0, 3, 0],
        [1, -1, 0, 1, 3, 0],
        [0, 0, 1, 0, 0, 3],
        [2, 0, 0, 1, 0, 0],
    ];
    let [a, b, c, d, e, f] = random.pick(&COMMON);
    if random.percent(95) {
        return Units::dimension(a, b, c, d as u8, e as u8, f);
    }
    let mut dimension = || random.below(16) as i8 - 8;
    let (a, b, c) = (dimension(), dimension(), dimension());
    Units::dimension(a, b, c, random.below(7) as u8, random.below(6) as u8, random.below(16) as i8 - 8)
}

fn metric(n: usize, palette: &[Units], random: &mut Random) -> Metric {
    let value_type = match random.weighted(&[88, 5, 3, 2, 1, 1]) {
        0 => random.pick(&NUMBERS),
        1 => ValueType::String,
        2 => ValueType::Aggregate,
        3 => ValueType::Event,
        4 => ValueType::HighResEvent,
        _ => ValueType::NoSupport,
    };
    let indom = match random.weighted(&[45, 35, 12, 8]) {
        0 => InDom::NULL,
        n => InDom::new(DOMAIN, INDOMS[n - 1]),
    };
    Metric {
        name: metric_name(n),
        pmid: Pmid::new(DOMAIN, 0, n as u16),
        value_type,
        indom,
        semantics: [Semantics::Counter, Semantics::Instant, Semantics::Discrete]
            [random.weighted(&[30, 60, 10])],
        units: if random.percent(50) { Units::NONE } else { random.pick(palette) },
        error: random.percent(2).then(|| random.pick(&[PmError::PMID, PmError(-12389)])),
        solid: random.percent(50),
        odd: random.percent(4),
    }
}

/// The bits of a number that may be near an edge; the value that a counter starts from, too.
fn bits(value_type: ValueType, random: &mut Random) -> u64 {
    let any = random.word();
    let small = random.below(1000) as u64;
    match value_type {
        ValueType::Float => {
            let number = match random.weighted(&[60, 10, 20, 10]) {
                0 => small as f32 - 300.0 + random.below(8) as f32 / 8.0,
                1 => f32::from_bits(any as u32),
                2 => random.pick(&[0.0, -0.0, 0.1, 16_777_216.0, 1e-45, f32::MAX, f32::INFINITY, f32::NAN]),
                _ => any as f32,
            };
            u64::from(number.to_bits())
        }
        ValueType::Double => {
            let number = match random.weighted(&[60, 10, 20, 10]) {
                0 => small as f64 - 300.0 + random.below(1000) as f64 / 1000.0,
                1 => f64::from_bits(any),
                2 => random.pick(&[0.0, -0.0, 0.1, 9e15, 5e-324, f64::MAX, f64::NEG_INFINITY, f64::NAN]),
                _ => any as f64,
            };
            number.to_bits()
        }
        _ => match random.weighted(&[60, 10, 15, 15]) {
            0 => small,
            1 => any,
            2 => random.pick(&[0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, 1 << 63, u64::MAX]),
            _ => small.wrapping_sub(500),
        },
    }
}

fn value(value_type: ValueType, bits: u64) -> Value {
    let blob = || bits.to_le_bytes().repeat(2)[..bits as usize % 13 + 1].to_vec();
    match value_type {
        ValueType::I32 | ValueType::NoSupport => Value::I32(bits as i32),
        ValueType::U32 => Value::U32(bits as u32),
        ValueType::I64 => Value::I64(bits as i64),
        ValueType::U64 => Value::U64(bits),
        ValueType::Float => Value::Float(f32::from_bits(bits as u32)),
        ValueType::Double => Value::Double(f64::from_bits(bits)),
        ValueType::String => Value::from(format!("text {bits}")),
        ValueType::Event => Value::Event(blob().into()),
        ValueType::HighResEvent => Value::HighResEvent(blob().into()),
        _ => Value::Aggregate(blob().into()),
    }
}

/// The next value of an instance: counters go up, now and then wrap, and rarely go down.
fn advance(metric: &Metric, last: u64, random: &mut Random) -> u64 {
    if metric.semantics != Semantics::Counter && random.percent(80) {
        return bits(metric.value_type, random);
    }
    let step = match random.weighted(&[60, 20, 10, 10]) {
        0 => random.below(1000) as u64,
        1 => random.word() >> 34,
        2 => 0,
        _ => (random.below(1000) as u64).wrapping_neg(),
    };
    match metric.value_type {
        ValueType::Float => u64::from((f32::from_bits(last as u32) + step as i64 as f32).to_bits()),
        ValueType::Double => (f64::from_bits(last) + step as i64 as f64).to_bits(),
        _ => last.wrapping_add(step),
    }
}

/// The instances that a metric has values for, in the order in which they come.
fn present(instances: &[(Inst, &str)], random: &mut Random) -> Vec<Inst> {
    let share = random.pick(&[100, 100, 100, 70, 30]);
    let mut ids: Vec<Inst> = instances.iter().map(|(id, _)| *id).filter(|_| random.percent(share)).collect();
    if random.percent(3) {
        // One that has no name.
        ids.push(900 + random.below(3) as Inst);
    }
    if random.percent(25) {
        for at in (1..ids.len()).rev() {
            ids.swap(at, random.below(at + 1));
        }
    }
    ids
}

/// The instances of a domain: the same names have the same ids, mostly.
fn instances(last: Option<&[(Inst, &'static str)]>, random: &mut Random) -> Vec<(Inst, &'static str)> {
    if let Some(last) = last
        && random.percent(60)
    {
        return last.to_vec();
    }
    let share = random.pick(&[20, 50, 80]);
    let names = INSTANCE_NAMES.iter().zip(1..);
    let mut list: Vec<(Inst, &'static str)> =
        names.filter(|_| random.percent(share)).map(|(name, n): (_, Inst)| (10 * n, *name)).collect();
    if random.percent(5) && list.len() > 1 {
        // Names move to other ids.
        let name = list[0].1;
        list[0].1 = list[1].1;
        list[1].1 = name;
    }
    list
}

fn next_time(last: Timestamp, random: &mut Random) -> Timestamp {
    let nanoseconds: i64 = match random.weighted(&[40, 40, 10, 5, 5]) {
        0 => random.pick(&[1, 2, 5, 10, 60]) * 1_000_000_000,
        1 => (random.word() % 20_000_000_000) as i64,
        2 => random.below(2_000_000) as i64,
        3 => 0,
        _ => -((random.word() % 20_000_000_000) as i64),
    };
    let total = last.sec * 1_000_000_000 + i64::from(last.nsec) + nanoseconds;
    Timestamp::new(total.div_euclid(1_000_000_000), total.rem_euclid(1_000_000_000) as u32)
}

/// Metrics of random metadata, and `samples` samples of them.
pub(super) fn world(samples: usize, random: &mut Random) -> World {
    let palette: Vec<Units> = (0..1 + random.below(3)).map(|_| units(random)).collect();
    let metrics: Vec<Metric> = (0..METRICS).map(|n| metric(n, &palette, random)).collect();
    let mut state: Vec<Vec<(Inst, u64)>> = metrics.iter().map(|_| Vec::new()).collect();
    let mut list: Vec<Sample> = Vec::new();
    for _ in 0..samples {
        let last = list.last();
        let time = match last {
            Some(last) => next_time(last.time, random),
            None => Timestamp::new(1_600_000_000, random.below(1_000_000_000) as u32),
        };
        let instances: Vec<_> = INDOMS
            .iter()
            .enumerate()
            .map(|(at, _)| instances(last.map(|last| last.instances[at].as_slice()), random))
            .collect();
        let mut sets = Vec::new();
        for (metric, state) in metrics.iter().zip(&mut state) {
            let ids = match INDOMS.iter().position(|&serial| metric.indom == InDom::new(DOMAIN, serial)) {
                Some(at) => present(&instances[at], random),
                None if random.percent(1) => vec![-1, -1],
                None => vec![-1],
            };
            let mut values = Vec::new();
            for id in ids {
                let bits = match state.iter_mut().find(|(other, _)| *other == id) {
                    Some((_, last)) => {
                        *last = advance(metric, *last, random);
                        *last
                    }
                    None => {
                        let first = bits(metric.value_type, random);
                        state.push((id, first));
                        first
                    }
                };
                values.push((id, value(metric.value_type, bits)));
            }
            if metric.solid && values.is_empty() {
                values.push((10, value(metric.value_type, 7)));
            }
            let values = match random.below(100) {
                0..4 => Err(random.pick(&[PmError(-12350), PmError::NOAGENT, PmError(-12387), PmError(-11)])),
                4..8 if !metric.solid => Ok(Vec::new()),
                _ => Ok(values),
            };
            // 32-bit numbers are always in situ; others never, but libpcp has a rule for it.
            let word = matches!(metric.value_type, ValueType::I32 | ValueType::U32 | ValueType::NoSupport);
            sets.push(Set { values, in_situ: word || metric.odd && random.percent(20) });
        }
        list.push(Sample { time, sets, instances });
    }
    World { metrics, samples: list }
}

impl World {
    pub(super) fn metric(&self, pmid: Pmid) -> Option<(usize, &Metric)> {
        self.metrics.iter().enumerate().find(|(_, metric)| metric.pmid == pmid)
    }

    /// The world in the oracle's words.
    pub(super) fn write(&self, out: &mut String) {
        for serial in INDOMS {
            let _ = writeln!(out, "indom {serial}");
        }
        for (n, metric) in self.metrics.iter().enumerate() {
            let (u, code) = (metric.units, metric.value_type.code());
            let serial = if metric.is_set() { i64::from(metric.indom.serial()) } else { -1 };
            let error = metric.error.map_or(0, |error| error.0);
            let _ = write!(out, "metric {n} {code} {serial} {} ", metric.semantics.code());
            let _ = write!(out, "{} {} {} ", u.dim_space, u.dim_time, u.dim_count);
            let _ = writeln!(out, "{} {} {} {error}", u.scale_space, u.scale_time, u.scale_count);
        }
        for (n, sample) in self.samples.iter().enumerate() {
            let _ = writeln!(out, "time {n} {} {}", sample.time.sec, sample.time.nsec);
            for (serial, instances) in INDOMS.iter().zip(&sample.instances) {
                for (id, name) in instances {
                    let _ = writeln!(out, "inst {serial} {n} {id} {name}");
                }
            }
            for (item, set) in sample.sets.iter().enumerate() {
                let numval = set.values.as_ref().map_or_else(|error| error.0, |values| values.len() as i32);
                let _ = writeln!(out, "set {n} {item} {numval} {}", i32::from(set.in_situ));
                for (id, value) in set.values.iter().flatten() {
                    let _ = writeln!(out, "v {id} x{}", hex(&host_bytes(value)));
                }
            }
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn host_bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::I32(v) => v.to_ne_bytes().to_vec(),
        Value::U32(v) => v.to_ne_bytes().to_vec(),
        Value::I64(v) => v.to_ne_bytes().to_vec(),
        Value::U64(v) => v.to_ne_bytes().to_vec(),
        Value::Float(v) => v.to_ne_bytes().to_vec(),
        Value::Double(v) => v.to_ne_bytes().to_vec(),
        Value::String(v) => [v, &b"\0"[..]].concat(),
        Value::Aggregate(v) | Value::Event(v) | Value::HighResEvent(v) => v.to_vec(),
    }
}

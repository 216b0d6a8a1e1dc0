//! The registrations to compare: kinds, types, scales and mistakes, over the sample agent's metrics and jumpseat's own.

use jumpseat::client::group::{FetchGroup, RegisterError};
use jumpseat::model::ValueType;

use super::outputs::Handle;

/// A registration, in the words of both sides.
#[derive(Clone, Debug)]
pub(super) struct Registration {
    pub kind: Kind,
    pub metric: String,
    pub scale: Option<String>,
    /// The output's type, which may be none.
    pub to: i32,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Item { instance: Option<String> },
    Indom { max: usize },
    Event { instance: Option<String>, field: String, max: usize },
}

impl Registration {
    /// The oracle's command.
    pub(super) fn command(&self) -> String {
        let text = |text: &Option<String>| text.as_ref().map_or("!".to_owned(), |text| format!("={text}"));
        let (metric, scale, to) = (&self.metric, text(&self.scale), self.to);
        match &self.kind {
            Kind::Item { instance } => format!("item\t={metric}\t{}\t{scale}\t{to}", text(instance)),
            Kind::Indom { max } => format!("indom\t={metric}\t{scale}\t{to}\t{max}"),
            Kind::Event { instance, field, max } => {
                format!("event\t={metric}\t{}\t={field}\t{scale}\t{to}\t{max}", text(instance))
            }
        }
    }

    pub(super) fn register(&self, group: &mut FetchGroup) -> Result<Handle, RegisterError> {
        let (to, metric, scale) = (ValueType::from_code(self.to), &*self.metric, self.scale.as_deref());
        match &self.kind {
            Kind::Item { instance } => {
                group.item_as(to, metric, instance.as_deref(), scale).map(Handle::Item)
            }
            Kind::Indom { max } => group.indom_as(to, metric, scale, *max).map(Handle::Indom),
            Kind::Event { instance, field, max } => {
                let instance = instance.as_deref();
                group.event_as(to, metric, instance, field, scale, *max).map(Handle::Event)
            }
        }
    }

    /// Whether values of this metric change by themselves, or differ from agent to agent: then only statuses and
    /// instances are compared.
    pub(super) fn moves(&self) -> bool {
        const MOVING: [&str; 26] = [
            "sample.ulonglong.bin_ctr",
            "sample.double.bin_ctr",
            "sample.seconds",
            "sample.milliseconds",
            "sample.load",
            "sample.pdu",
            "sample.recv_pdu",
            "sample.xmit_pdu",
            "sample.daemon_pid",
            "sample.mirage",
            "sample.mirage_longlong",
            "sample.rapid",
            "sample.const_rate.value",
            "sample.byte_ctr",
            "sample.byte_rate",
            "sample.kbyte_ctr",
            "sample.kbyte_rate",
            "sample.byte_rate_perhour",
            "sample.drift",
            "sample.proc.time",
            "jumpseat.self.uptime",
            "jumpseat.self.cpu",
            "jumpseat.self.pid",
            "jumpseat.self.requests.count",
            "jumpseat.source.last_time",
            "jumpseat.self.loop.count",
        ];
        // Of the time between fetches that are long over.
        let kept_rate = self.metric.starts_with("script.discrete") && self.scale.as_deref() == Some("rate");
        MOVING.contains(&&*self.metric) || kept_rate
    }

    /// Whether values are rates, which depend on when fetches are made.
    pub(super) fn is_rate(&self) -> bool {
        let counter =
            ["ctr", "counter", "wrap", "event.count", "grows"].iter().any(|word| self.metric.contains(word));
        match self.scale.as_deref() {
            Some("rate") => true,
            None => counter,
            // Without a dimension: less than seconds have.
            Some(scale) => [" ", "sec/sec"].contains(&scale) && self.metric.contains("time_up"),
        }
    }
}

pub(super) fn item(metric: &str, instance: Option<&str>, scale: Option<&str>, to: i32) -> Registration {
    let kind = Kind::Item { instance: instance.map(str::to_owned) };
    Registration { kind, metric: metric.to_owned(), scale: scale.map(str::to_owned), to }
}

pub(super) fn indom(metric: &str, scale: Option<&str>, to: i32, max: usize) -> Registration {
    let kind = Kind::Indom { max };
    Registration { kind, metric: metric.to_owned(), scale: scale.map(str::to_owned), to }
}

fn event(
    (metric, instance): (&str, Option<&str>),
    field: &str,
    scale: Option<&str>,
    to: i32,
    max: usize,
) -> Registration {
    let kind = Kind::Event { instance: instance.map(str::to_owned), field: field.to_owned(), max };
    Registration { kind, metric: metric.to_owned(), scale: scale.map(str::to_owned), to }
}

/// The seven types of outputs.
const TYPES: std::ops::RangeInclusive<i32> = 0..=6;
const DOUBLE: i32 = 5;

/// Metrics without instances.
const SINGLE: [&str; 45] = [
    "sample.long.one",
    "sample.long.write_me",
    "sample.ulong.million",
    "sample.ulong.write_me",
    "sample.longlong.hundred",
    "sample.longlong.write_me",
    "sample.ulonglong.ten",
    "sample.ulonglong.write_me",
    "sample.float.write_me",
    "sample.double.million",
    "sample.double.write_me",
    "sample.string.hullo",
    "sample.lights",
    "sample.magnitude",
    "sample.step",
    "sample.step_counter",
    "sample.write_me",
    "sample.ulong.count.deca",
    "sample.ulong.count.mega",
    "sample.wrap.ulong",
    "sample.wrap.longlong",
    "sample.scale_step.bytes_up",
    "sample.scale_step.time_up_nanosecs",
    "sample.scale_step.none_up",
    "sample.negative.ctr.m_32",
    "sample.negative.ctr.m_64",
    "sample.negative.instant.m_float",
    "sample.negative.discrete.m_double",
    "sample.negative.discrete.m_64",
    "sample.dynamic.meta.metric",
    "sample.controller.mirage",
    "sample.updown.obs",
    "sample.datasize",
    "sample.scramble.version",
    "sample.bad.novalues",
    "sample.not_ready",
    "sample.dodgey.control",
    "sample.bigid",
    "sample.milliseconds",
    "sample.seconds",
    "sample.byte_ctr",
    "sample.kbyte_rate",
    "jumpseat.control.source_budget",
    "jumpseat.self.version",
    "jumpseat.self.sources",
];

/// Scales, good and bad, for metrics of each dimension.
const SCALES: [(&str, &[&str]); 10] = [
    (
        "sample.long.ten",
        &["", " ", "3", "count/count", "sec/sec", "/sec", "/min", "/ hour", "2 / 7 msec", "/time-9"],
    ),
    (
        "sample.byte_ctr",
        &["Mbyte", "byte/sec", "Kbyte/min", "2 byte/3 sec", "byte/ns", "count/sec", "byte/sec^2"],
    ),
    (
        "sample.kbyte_rate",
        &["byte/sec", "Mbyte/hour", "Kbyte/sec", "Kbyte", "byte/sec^2", "space-7/sec", "ZB/sec"],
    ),
    ("sample.milliseconds", &["sec", "ms/sec", "sec/sec", " ", "100", "min", "hour/sec", "count"]),
    (
        "sample.datasize",
        &["byte", "Mbyte", "3 Gbyte", "space-7", "ZB", "Kbyte/sec", "Kbyte sec", "0x10 byte"],
    ),
    (
        "sample.step",
        &["count", "count x 10^3", "count x 10^-2", "7 count", "count/sec", "1e3", "none", "count^2"],
    ),
    ("sample.write_me", &["count/sec", "count x 10^3/min", "count / hour", "count", "count/sec/sec", "/sec"]),
    (
        "sample.ulong.count.kilo",
        &["count/byte", "count x 10^6 / Gbyte", "count x 10^3 / Mbyte", "count/Mbyte"],
    ),
    ("sample.scale_step.time_up_secs", &["ns", "hour", "min", "usec", "time-7", "sec^2", "sec/sec", "5 sec"]),
    ("sample.lights", &["rate", "instant", " ", "3", "count", "Rate", "instant ", "degrees"]),
];

/// Metrics with instances, and one of these.
const MANY: [(&str, &str); 15] = [
    ("sample.colour", "green"),
    ("sample.bin", "bin-300"),
    ("sample.part_bin", "bin-200"),
    ("sample.part_bin", "bin-500"),
    ("sample.bogus_bin", "bin-100"),
    ("sample.ulonglong.bin_ctr", "bin-900"),
    ("sample.double.bin_ctr", "bin-700"),
    ("sample.float.bin", "bin-600"),
    ("sample.string.bin", "bin-400"),
    ("sample.many.int", "i-3"),
    ("sample.scramble.bin", "bin-500"),
    ("sample.proc.ordinal", "0003 /usr/bin/bobo"),
    ("sample.proc.exec", "0004"),
    ("sample.dodgey.value", "one"),
    ("jumpseat.event.count", "no such thing"),
];

const FIELDS: [&str; 11] = [
    "event.flags",
    "event.missed",
    "sample.event.type",
    "sample.event.param_32",
    "sample.event.param_u32",
    "sample.event.param_64",
    "sample.event.param_u64",
    "sample.event.param_float",
    "sample.event.param_double",
    "sample.event.param_string",
    "sample.long.one",
];

const RECORDS: [(&str, Option<&str>); 5] = [
    ("sample.event.records", Some("fungus")),
    ("sample.event.records", Some("bogus")),
    ("sample.event.highres_records", Some("fungus")),
    ("sample.event.highres_records", Some("bogus")),
    ("sample.event.no_indom_records", None),
];

/// All of them.
pub(super) fn registrations() -> Vec<Registration> {
    let mut all = Vec::new();
    for metric in SINGLE {
        all.extend(TYPES.map(|to| item(metric, None, None, to)));
        all.extend([" ", "rate", "instant"].map(|scale| item(metric, None, Some(scale), DOUBLE)));
    }
    for metric in SINGLE.iter().filter(|metric| metric.ends_with("write_me")) {
        all.extend(
            TYPES.map(|to| item(metric, None, Some(if metric.len() > 15 { " " } else { "count/min" }), to)),
        );
    }
    for (metric, scales) in SCALES {
        for scale in scales {
            all.extend([2, DOUBLE, 6].map(|to| item(metric, None, Some(scale), to)));
        }
    }
    for (metric, instance) in MANY {
        all.extend([1, DOUBLE, 6].map(|to| item(metric, Some(instance), None, to)));
        all.push(item(metric, None, None, DOUBLE));
        all.push(item(metric, Some(instance), Some("rate"), DOUBLE));
        all.push(item(metric, Some("no such instance"), None, DOUBLE));
        for max in [0, 1, 2, 3, 5, 500] {
            all.push(indom(metric, None, DOUBLE, max));
        }
        all.extend([0, 3, 4, 6].map(|to| indom(metric, Some("instant"), to, 20)));
        all.push(indom(metric, Some("rate"), DOUBLE, 20));
    }
    for metric in ["sample.needprofile", "sample.long.one", "sample.bad.novalues", "sample.hordes.one"] {
        all.extend([2, DOUBLE, 6].map(|to| indom(metric, None, to, 700)));
    }
    for records in RECORDS {
        for field in FIELDS {
            all.push(event(records, field, None, 6, 8));
            all.push(event(records, field, None, 0, 3));
            all.push(event(records, field, Some(" "), DOUBLE, 2));
        }
        all.extend(TYPES.map(|to| event(records, "event.flags", None, to, 20)));
        all.extend(TYPES.map(|to| event(records, "sample.event.param_string", None, to, 20)));
    }
    all.extend(jumpseat());
    all.extend(mistakes());
    all
}

/// jumpseat's own metrics, whose events come after the first fetch.
fn jumpseat() -> Vec<Registration> {
    let mut all = Vec::new();
    for metric in ["jumpseat.event.records", "jumpseat.event.highres_records"] {
        let records = (metric, Some("test"));
        for field in ["type", "message", "bytes", "delta", "ratio", "cached", "severity"] {
            let field = format!("jumpseat.field.{field}");
            all.extend([2, DOUBLE, 6].map(|to| event(records, &field, None, to, 4)));
        }
        all.extend([1, 3].map(|max| event(records, "event.flags", None, 1, max)));
    }
    for metric in ["received", "bytes", "missed", "delivered", "queued", "readers"] {
        let metric = format!("jumpseat.source.{metric}");
        all.extend([3, DOUBLE, 6].map(|to| item(&metric, Some("test"), Some("instant"), to)));
        all.extend([3, DOUBLE, 6].map(|to| indom(&metric, Some("instant"), to, 4)));
    }
    all
}

/// Registrations that are refused, and in which order things are checked.
fn mistakes() -> Vec<Registration> {
    let one = |metric: &str| item(metric, None, None, DOUBLE);
    let fungus = ("sample.event.records", Some("fungus"));
    let mut all = vec![
        one("no.such.metric"),
        one("sample"),
        one("sample.event"),
        one("sample.bad.unknown"),
        one("sample.bad.nosupport"),
        one("sample.aggregate.hullo"),
        one("sample.sysinfo"),
        one("sample.event.records"),
        one("sample.event.no_indom_records"),
        item("sample.long.one", Some("bin-100"), None, DOUBLE),
        item("sample.long.one", Some(""), None, DOUBLE),
        item("sample.bin", None, Some("nonsense"), 7),
        item("sample.bin", Some("bin-1000"), Some("nonsense"), 7),
        item("sample.bin", Some("bin-100"), Some("nonsense"), 7),
        item("sample.bin", Some("bin-100"), Some("nonsense"), DOUBLE),
        item("sample.aggregate.hullo", None, Some("nonsense"), 99),
        item("no.such.metric", None, Some("nonsense"), 99),
        indom("sample.aggregate.hullo", Some("nonsense"), 99, 3),
        indom("sample.bin", Some("nonsense"), 99, 3),
        indom("sample.bin", Some("nonsense"), 0, 3),
        indom("sample.nonsense", None, 0, 3),
        indom("sample.event.records", None, 0, 3),
        event(("sample.event.records", None), "event.flags", None, 1, 3),
        event(("sample.event.records", Some("none")), "event.flags", None, 1, 3),
        event(("sample.event.no_indom_records", Some("fungus")), "event.flags", None, 1, 3),
        event(("sample.long.one", None), "no.such.field", None, 1, 3),
        event(("sample.long.one", None), "event.flags", None, 1, 3),
        event(("sample.bin", Some("bin-100")), "sample.bin", None, 1, 3),
        event(fungus, "no.such.field", None, 99, 3),
        event(fungus, "sample.event", None, 99, 3),
        event(fungus, "sample.bin", None, 99, 3),
        event(fungus, "sample.event.param_aggregate", None, 99, 3),
        event(fungus, "sample.event.param_32", Some("nonsense"), 99, 3),
        event(fungus, "sample.event.param_32", Some("nonsense"), 1, 3),
        event(fungus, "sample.event.param_32", Some("rate"), 1, 3),
        event(fungus, "sample.event.param_32", Some("/sec"), 1, 3),
        event(fungus, "sample.event.param_32", Some("byte"), 1, 3),
        event(fungus, "sample.seconds", None, 1, 3),
        event(fungus, "sample.seconds", Some("instant"), 1, 3),
        event(fungus, "sample.seconds", Some("min"), 1, 3),
    ];
    for to in [-1, 7, 8, 9, 10, 11, 255] {
        all.push(item("sample.long.one", None, None, to));
        all.push(indom("sample.bin", None, to, 4));
        all.push(event(fungus, "sample.event.param_32", None, to, 4));
    }
    all
}

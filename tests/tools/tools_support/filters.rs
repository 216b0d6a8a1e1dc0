//! All that is let off when PCP's tools and ours are compared, with the reasons. It is done to both sides.

use std::collections::BTreeMap;
use std::sync::Mutex;

use regex::Regex;

/// Something that is let off.
pub(crate) struct Filter {
    pub name: &'static str,
    pub reason: &'static str,
    /// What stands for a text instead.
    apply: fn(&str) -> String,
}

pub(crate) const FILTERS: &[Filter] = &[
    Filter {
        name: "version",
        reason: "jumpseat says its own release behind PCP's",
        apply: |text| replace(text, r"(?m)^(pm\w+ version \S+) \(jumpseat .*\)$", "$1"),
    },
    Filter {
        name: "PDU counts",
        reason: "jumpseat asks for several descriptors or instances at once where PCP's tool asks for each",
        apply: |text| {
            let lines = regex(r"(?m)^(PDUs (send|recv)( [ \d]{2}\d+){23}|Total: \d+)$");
            let numbers = |caps: &regex::Captures<'_>| replace(&caps[0], r" +\d+", " N");
            lines.replace_all(text, numbers).into_owned()
        },
    },
    Filter {
        name: "event times",
        reason: "the sample agent stamps its events when they are fetched",
        apply: |text| {
            let text = replace(text, r"\b\d\d:\d\d:\d\d\.\d+", "TIME");
            replace(&text, r"fetch #\d+", "fetch #N")
        },
    },
    Filter {
        name: "stamps of warnings",
        reason: "time and process id",
        apply: |text| replace(text, r"(?m)^\[[^\]]*\] (\w+)\(\d+\) ", "$1 "),
    },
    Filter {
        name: "help of the sample agent's shared object",
        reason: "libpcp complains that PCP does not install it; nothing is loaded here",
        apply: |text| replace(text, r"(?m)^[^\n]*pmdaInit: PMDA sample DSO: Unable to open help text[^\n]*\n", ""),
    },
    Filter {
        name: "moving values",
        reason: "counters that grow with each fetch or with time",
        apply: moving,
    },
    Filter {
        name: "process ids and addresses of clients",
        reason: "each run is another client of pmcd",
        apply: |text| replace(text, r"(?m)^pmcd\.client\.[^\n]*\n", ""),
    },
];

/// Metrics, or trees of them, whose values differ between two runs of one tool.
const MOVING: &[&str] = &[
    "pmcd.cputime",
    "pmcd.pdu_in",
    "pmcd.pdu_out",
    "pmcd.buf",
    "sample.byte_ctr",
    "sample.byte_rate",
    "sample.byte_rate_perhour",
    "sample.colour",
    "sample.dodgey.value",
    "sample.drift",
    "sample.dupnames.four.colour",
    "sample.dupnames.two.seconds",
    "sample.event.reset",
    "sample.event.reset_highres",
    "sample.dupnames.two.lights",
    "sample.lights",
    "sample.long.bin_ctr",
    "sample.ulong.bin_ctr",
    "sample.longlong.bin_ctr",
    "sample.ulonglong.bin",
    "sample.ulonglong.bin_ctr",
    "sample.float.bin_ctr",
    "sample.double.bin_ctr",
    "sample.kbyte_ctr",
    "sample.kbyte_rate",
    "sample.magnitude",
    "sample.milliseconds",
    "sample.negative",
    "sample.pdu",
    "sample.percontext",
    "sample.rapid",
    "sample.recv_pdu",
    "sample.scale_step",
    "sample.scramble.version",
    "sample.seconds",
    "sample.slow_wrap",
    "sample.step",
    "sample.step_counter",
    "sample.const_rate",
    "sample.sysinfo",
    "sample.updown.obs",
    "sample.wrap",
    "sample.xmit_pdu",
];

/// Those whose instances differ too.
const MOVING_INSTANCES: &[&str] = &[
    "jumpseat.client",
    "pmcd.client",
    "sample.mirage",
    "sample.mirage_longlong",
    "sample.proc",
    "sample.scramble.bin",
    "sample.event.records",
    "sample.event.highres_records",
    "sample.event.no_indom_records",
];

/// Puts a word for the values of moving metrics, and leaves out the lines about moving instances.
fn moving(text: &str) -> String {
    let is_one_of = |list: &[&str], metric: &str| {
        list.iter().any(|moving| {
            metric.strip_prefix(moving).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let heading = regex(r"^([a-z][\w]*(?:\.\w+)+)(.*)$");
    let mut out = String::new();
    let mut metric = "";
    for line in text.lines() {
        if let Some(found) = heading.captures(line) {
            let (_, [name, rest]) = found.extract();
            metric = name;
            // What pmprobe says, with the number of values.
            let probed = rest.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '-');
            let fixed = match probed {
                true if is_one_of(MOVING_INSTANCES, metric) => " SOME",
                true if is_one_of(MOVING, metric) => {
                    rest.split_at(rest[1..].find(' ').map_or(rest.len(), |at| at + 1)).0
                }
                _ => rest,
            };
            out.push_str(name);
            out.push_str(fixed);
            out.push('\n');
            continue;
        }
        if line.starts_with(' ')
            && is_one_of(MOVING_INSTANCES, metric)
            && (line.contains("inst [") || line.contains("value "))
        {
            continue;
        }
        match line.find(" value ") {
            Some(at) if is_one_of(MOVING, metric) => out.push_str(&format!("{} value SOME\n", &line[..at])),
            _ => out.push_str(&format!("{line}\n")),
        }
    }
    out
}

fn replace(text: &str, pattern: &'static str, with: &str) -> String {
    regex(pattern).replace_all(text, with).into_owned()
}

/// Compiled once: that takes longer than a tool runs.
fn regex(pattern: &'static str) -> Regex {
    static KNOWN: Mutex<BTreeMap<&str, Regex>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().expect("patterns are constants that compile");
    known.entry(pattern).or_insert_with(|| Regex::new(pattern).expect("a constant")).clone()
}

/// A text with everything done to it. Where the sample agent was told which events to make, they do not move.
pub(super) fn apply(text: &str, events_fixed: bool) -> String {
    let text = if events_fixed { text.replace("sample.event.", "fixed.event.") } else { text.to_owned() };
    FILTERS.iter().fold(text, |text, filter| (filter.apply)(&text))
}

/// A text of which nothing but the version may differ.
pub(super) fn apply_to_recorded(text: &str) -> String {
    let filters = FILTERS.iter().filter(|filter| filter.name == "version");
    filters.fold(text.to_owned(), |text, filter| (filter.apply)(&text))
}

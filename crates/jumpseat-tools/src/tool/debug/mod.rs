//! Debug options (`pmdbg(1)`, `pmSetDebug(3)`): their names, and which are set.
//!
//! What they show comes from the libraries, as events of `tracing` with the targets `pcp::OPTION`; [`sink`] writes
//! them to standard error. Without an option nobody listens, and an event costs a load of one word.

mod sink;

use std::sync::atomic::{AtomicU64, Ordering};

/// Names of debug options up to 7.2.1, in the order of `pmdbg -l`.
const NAMES: [&str; 53] = [
    "pdu",
    "fetch",
    "profile",
    "value",
    "context",
    "indom",
    "pdubuf",
    "log",
    "logmeta",
    "optfetch",
    "af",
    "appl0",
    "appl1",
    "appl2",
    "pmns",
    "libpmda",
    "timecontrol",
    "pmc",
    "derive",
    "lock",
    "interp",
    "config",
    "pmapi",
    "fault",
    "auth",
    "discovery",
    "attr",
    "http",
    "desperate",
    "deprecated",
    "exec",
    "labels",
    "series",
    "libweb",
    "alloc",
    "services",
    "appl3",
    "appl4",
    "appl5",
    "access",
    "qa",
    "search",
    "query",
    "compress",
    "dev0",
    "dev1",
    "dev2",
    "pmlc",
    "appl6",
    "appl7",
    "appl8",
    "appl9",
    "tls",
];

/// So many of them are bits of the numbers that PCP had before names, from 1 on.
const OLD: usize = 28;
/// One that is a bit of these numbers, too.
const DESPERATE: (&str, u32) = ("desperate", 30);

/// The variable that says which are set.
const VARIABLE: &str = "PCP_DEBUG";

/// What of another option is shown with one.
const IMPLIED: (&str, &str) = ("attr", "auth");

/// The options that are set, by their places in [`NAMES`].
static OPTIONS: AtomicU64 = AtomicU64::new(0);

/// Sets the options of a specification, in addition to those that are. False if it is none: then none is set.
pub(super) fn set(spec: &str) -> bool {
    let Some(options) = parse(spec) else { return false };
    if options != 0 {
        OPTIONS.fetch_or(options, Ordering::Relaxed);
        sink::listen();
    }
    true
}

/// Sets the options that the environment asks for (`PCP_DEBUG`), for programs that have no command line like PCP's. One
/// that is none is told and ignored.
pub fn debug_environment() {
    let Ok(spec) = std::env::var(VARIABLE) else { return };
    if !set(&spec) {
        complain!("Error: ${VARIABLE}={spec} is not valid, ignored");
    }
}

/// Whether a specification is names or numbers with commas between.
pub(super) fn is_valid(spec: &str) -> bool {
    parse(spec).is_some()
}

/// Whether everything of a target's words is set: `derive::appl1` needs both.
fn shows(words: &str) -> bool {
    let set = OPTIONS.load(Ordering::Relaxed);
    words.split("::").all(|word| bit(word).is_some_and(|bit| set & bit != 0))
}

/// The options of a specification.
fn parse(spec: &str) -> Option<u64> {
    // PCP takes a comma at the end, but not one that is all.
    let spec = spec.strip_suffix(',').filter(|spec| !spec.is_empty()).unwrap_or(spec);
    if spec.is_empty() {
        return Some(0);
    }
    spec.split(',').try_fold(0, |options, word| Some(options | option(word)?))
}

fn option(word: &str) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    let digits = word.strip_prefix('-').unwrap_or(word);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(of_number(word.starts_with('-'), digits));
    }
    if word.eq_ignore_ascii_case("all") {
        return Some((1 << NAMES.len()) - 1);
    }
    let implied = if word.eq_ignore_ascii_case(IMPLIED.0) { bit(IMPLIED.1) } else { None };
    Some(bit(word)? | implied.unwrap_or(0))
}

/// The option of a name.
fn bit(word: &str) -> Option<u64> {
    Some(1 << NAMES.iter().position(|name| name.eq_ignore_ascii_case(word))?)
}

/// The options whose bits are set in an old number, of which C takes the low 32 bits.
fn of_number(negative: bool, digits: &str) -> u64 {
    let number = digits.parse::<i64>().unwrap_or(if digits.is_empty() { 0 } else { i64::MAX });
    let bits = if negative { number.wrapping_neg() } else { number } as u32;
    let old = u64::from(bits) & ((1 << OLD) - 1);
    let desperate = if bits >> DESPERATE.1 & 1 == 1 { bit(DESPERATE.0) } else { None };
    old | desperate.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_names_and_numbers() {
        let bits = |names: &[&str]| Some(names.iter().filter_map(|name| bit(name)).sum::<u64>());
        let all = Some((1 << NAMES.len()) - 1);
        for (spec, expected) in [
            ("", Some(0)),
            ("pdu", bits(&["pdu"])),
            ("PDU,Fetch,", bits(&["pdu", "fetch"])),
            ("3", bits(&["pdu", "fetch"])),
            ("262144,appl1", bits(&["derive", "appl1"])),
            ("1073741824", bits(&["desperate"])),
            ("attr", bits(&["attr", "auth"])),
            ("auth", bits(&["auth"])),
            ("0", Some(0)),
            ("-2147483646", bits(&["fetch"])),
            ("all", all),
            ("tls", bits(&["tls"])),
            (",", None),
            ("pdu,,fetch", None),
            (",pdu", None),
            ("-all", None),
            ("pdu fetch", None),
            ("0x4", None),
            ("derive=appl0", None),
        ] {
            assert_eq!(parse(spec), expected, "{spec}");
        }
    }

    #[test]
    fn numbers_are_those_of_old() {
        for (name, number) in [("log", 128), ("appl0", 2048), ("pmns", 16384), ("http", 134_217_728)] {
            assert_eq!(bit(name), Some(number), "{name}");
        }
    }
}

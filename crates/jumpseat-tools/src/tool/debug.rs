//! Debug options (`pmdbg(1)`). The tools take them, as scripts give them, but have no traces to print.

/// Names of debug options up to 6.3.8.
const NAMES: [&str; 54] = [
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
    "all",
];

/// Whether a specification is names or numbers with commas between.
pub(super) fn is_valid(spec: &str) -> bool {
    // PCP takes a comma at the end, but not one that is all.
    let spec = spec.strip_suffix(',').filter(|spec| !spec.is_empty()).unwrap_or(spec);
    let number =
        |word: &str| word.strip_prefix('-').unwrap_or(word).bytes().all(|byte| byte.is_ascii_digit());
    let name = |word: &str| NAMES.iter().any(|name| name.eq_ignore_ascii_case(word));
    spec.is_empty() || spec.split(',').all(|word| !word.is_empty() && (name(word) || number(word)))
}

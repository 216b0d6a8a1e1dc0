//! Where PCP has its directories on this machine, and which user its programs are: the environment's word, else that of
//! `pcp.conf`. This is the one reader of that file (but for `jumpseat-wire`, which senders take with little else).
//!
//! ```text
//! line  = NAME "=" value          the first of a name counts, as for libpcp; no blank in front, no expansions
//! value = text | quoted           one pair of " or ' around it does not belong to it, nor do blanks behind it
//! ```
//!
//! A variable that is empty is as good as none, in the environment and in the file: no directory has that name.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

/// What PCP's programs run as unless this machine says something else.
const USER: &str = "pcp";

static CONF: LazyLock<HashMap<String, String>> = LazyLock::new(|| read(environment));

fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// A variable of PCP: the environment's, or else that of `pcp.conf`, which is read once.
pub fn setting(name: &str) -> Option<OsString> {
    said(environment, name).or_else(|| CONF.get(name).map(OsString::from))
}

/// As [`setting`], of an environment that comes from elsewhere. It may name another file, which is read at each call.
pub fn setting_of(variable: impl Fn(&str) -> Option<OsString>, name: &str) -> Option<OsString> {
    said(&variable, name).or_else(|| read(&variable).remove(name).map(OsString::from))
}

fn said(variable: impl Fn(&str) -> Option<OsString>, name: &str) -> Option<OsString> {
    variable(name).filter(|value| !value.is_empty())
}

/// The file that the environment names (`PCP_CONF`), by default `etc/pcp.conf` below `PCP_DIR`.
fn read(variable: impl Fn(&str) -> Option<OsString>) -> HashMap<String, String> {
    let named = |name| said(&variable, name).map(PathBuf::from);
    let root = || named("PCP_DIR").unwrap_or_else(|| PathBuf::from("/"));
    let file = named("PCP_CONF").unwrap_or_else(|| root().join("etc/pcp.conf"));
    std::fs::read_to_string(file).map(|text| parse(&text)).unwrap_or_default()
}

/// PCP's directory of what ends with the machine: sockets, process ids.
pub fn run_dir() -> PathBuf {
    setting("PCP_RUN_DIR").map_or_else(|| PathBuf::from("/run/pcp"), PathBuf::from)
}

/// The user that PCP's programs run as (`PCP_USER`).
pub fn user() -> String {
    setting("PCP_USER").and_then(|name| name.into_string().ok()).unwrap_or_else(|| USER.to_owned())
}

fn parse(text: &str) -> HashMap<String, String> {
    let mut settings = HashMap::new();
    for (name, text) in text.lines().filter_map(|line| line.split_once('=')) {
        let value = unquoted(text.trim_end());
        if !name.starts_with('#') && !value.is_empty() {
            settings.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    settings
}

fn unquoted(text: &str) -> &str {
    let without = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    without('"').or_else(|| without('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `pmGetConfig(3)` of 6.0.3 has them, but for the blank behind a value, which that keeps and the shell does not.
    #[test]
    fn a_configuration_is_read_as_by_libpcp() {
        let conf = parse(
            "# PCP_USER=nobody\nPCP_USER=\"site\"\nPCP_USER=second\nPCP_RUN_DIR=/var/run/pcp \nPCP_EMPTY=\nnonsense\n\
             PCP_S='single'\nPCP_ARGS=a\"b\"\nPCP_X=$PCP_USER=1\n",
        );
        assert_eq!(conf.len(), 5, "{conf:?}");
        for (name, value) in [
            ("PCP_USER", "site"),
            ("PCP_RUN_DIR", "/var/run/pcp"),
            ("PCP_S", "single"),
            ("PCP_ARGS", "a\"b\""),
            ("PCP_X", "$PCP_USER=1"),
        ] {
            assert_eq!(conf[name], value);
        }
    }

    #[test]
    fn the_environment_comes_first_and_names_the_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("etc")).expect("writable");
        std::fs::write(dir.path().join("etc/pcp.conf"), "PCP_A=of the file\n").expect("writable");
        let of = |own: &str, named: &str| {
            setting_of(
                |name| match name {
                    "PCP_A" => Some(own.into()),
                    "PCP_CONF" => Some(named.into()),
                    "PCP_DIR" => Some(dir.path().into()),
                    _ => None,
                },
                "PCP_A",
            )
        };
        assert_eq!(of("own", ""), Some("own".into()));
        assert_eq!(of("", ""), Some("of the file".into()));
        assert_eq!(of("", "/nosuch"), None);
    }
}

//! Where PCP has its directories on this machine, and which user its programs are.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

/// What PCP's programs run as unless this machine says something else.
const USER: &str = "pcp";

static CONF: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = || named("PCP_DIR").unwrap_or_else(|| PathBuf::from("/"));
    let file = named("PCP_CONF").unwrap_or_else(|| root().join("etc/pcp.conf"));
    std::fs::read_to_string(file).map(|text| parse(&text)).unwrap_or_default()
});

/// A variable of PCP: the environment's, or else that of `pcp.conf`, which is read once.
pub fn setting(name: &str) -> Option<OsString> {
    let own = std::env::var_os(name).filter(|value| !value.is_empty());
    own.or_else(|| CONF.get(name).map(OsString::from))
}

/// PCP's directory of what ends with the machine: sockets, process ids.
pub fn run_dir() -> PathBuf {
    setting("PCP_RUN_DIR").map_or_else(|| PathBuf::from("/run/pcp"), PathBuf::from)
}

/// The user that PCP's programs run as (`PCP_USER`).
pub fn user() -> String {
    setting("PCP_USER").and_then(|name| name.into_string().ok()).unwrap_or_else(|| USER.to_owned())
}

/// Lines `NAME=value`, as the shell reads them without expansions.
fn parse(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    let value = |text: &str| text.trim_end().trim_matches('"').to_owned();
    pairs.map(|(name, text)| (name.to_owned(), value(text))).filter(|(_, value)| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_as_the_shell_does() {
        let conf =
            parse("# PCP_USER=nobody\nPCP_USER=\"site\"\nPCP_RUN_DIR=/var/run/pcp \nPCP_EMPTY=\nnonsense\n");
        assert_eq!(conf.len(), 2, "{conf:?}");
        assert_eq!(conf["PCP_USER"], "site");
        assert_eq!(conf["PCP_RUN_DIR"], "/var/run/pcp");
    }
}

//! Settings of the PCP installation (`pcp.conf(5)`).

use std::path::PathBuf;

/// A setting: from the environment, or from the file that `PCP_CONF` names, `/etc/pcp.conf` by default.
pub(super) fn setting(name: &str) -> Option<String> {
    if let Ok(value) = std::env::var(name) {
        return Some(value);
    }
    let file = std::env::var_os("PCP_CONF").map(PathBuf::from).unwrap_or_else(|| {
        let root = std::env::var_os("PCP_DIR").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        root.join("etc/pcp.conf")
    });
    let conf = std::fs::read_to_string(file).ok()?;
    // The last line wins, as in the shell, which reads the same file.
    let mut lines = conf.lines().rev();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.trim_end().to_owned()))
}

/// Where PCP's settings are: `/etc`.
pub(super) fn etc_dir() -> PathBuf {
    setting("PCP_ETC_DIR").map_or_else(|| PathBuf::from("/etc"), PathBuf::from)
}

/// Where PCP keeps what changes: `/var/lib/pcp`.
pub(super) fn var_dir() -> PathBuf {
    setting("PCP_VAR_DIR").map_or_else(|| PathBuf::from("/var/lib/pcp"), PathBuf::from)
}

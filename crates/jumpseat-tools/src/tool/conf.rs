//! Settings of the PCP installation (`pcp.conf(5)`).

use std::path::PathBuf;

use pcp_files::settings;

/// A setting, as a text.
pub(super) fn setting(name: &str) -> Option<String> {
    settings::setting(name).map(|value| value.to_string_lossy().into_owned())
}

/// Where PCP's settings are: `/etc`.
pub(super) fn etc_dir() -> PathBuf {
    settings::setting("PCP_ETC_DIR").map_or_else(|| PathBuf::from("/etc"), PathBuf::from)
}

/// Where PCP keeps what changes: `/var/lib/pcp`.
pub(super) fn var_dir() -> PathBuf {
    settings::setting("PCP_VAR_DIR").map_or_else(|| PathBuf::from("/var/lib/pcp"), PathBuf::from)
}

//! Environment variables that act like options (`pmGetOptions(3)`, ENVIRONMENT).

use super::table::Standard;

const PREFIX: &str = "PCP_";

const ACTING: [(&str, Standard); 22] = [
    ("ALIGN_TIME", Standard::Align),
    ("ARCHIVE", Standard::Archive),
    ("ARCHIVE_LIST", Standard::ArchiveList),
    ("DEBUG", Standard::Debug),
    ("FINISH_TIME", Standard::Finish),
    ("FOLIO", Standard::ArchiveFolio),
    ("GUIMODE", Standard::GuiMode),
    ("GUIPORT", Standard::GuiPort),
    ("HOST", Standard::Host),
    ("HOSTZONE", Standard::HostZone),
    ("HOST_LIST", Standard::HostList),
    ("INTERVAL", Standard::Interval),
    ("LOCALMODE", Standard::Local),
    ("LOCALPMDA", Standard::Local),
    ("NAMESPACE", Standard::Namespace),
    ("ORIGIN", Standard::Origin),
    ("ORIGIN_TIME", Standard::Origin),
    ("SAMPLES", Standard::Samples),
    ("SPECLOCAL", Standard::SpecLocal),
    ("START_TIME", Standard::Start),
    ("TIMEZONE", Standard::TimeZone),
    ("UNIQNAMES", Standard::UniqueNames),
];

/// Options that the environment asks for: debug options first, the others in its own order.
pub(super) fn options() -> Vec<(Standard, String)> {
    let acting = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let name = name.to_str()?.strip_prefix(PREFIX)?;
        let (_, option) = ACTING.iter().find(|(acting, _)| *acting == name)?;
        Some((*option, value.to_string_lossy().into_owned()))
    };
    let mut found: Vec<(Standard, String)> = std::env::vars_os().filter_map(acting).collect();
    // Stable: the others stay in the order of the environment, which decides which of two that exclude each other is
    // refused.
    found.sort_by_key(|(option, _)| *option != Standard::Debug);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_of_local_contexts_have_none_of_them() {
        let names: Vec<String> = ACTING.iter().map(|(name, _)| format!("{PREFIX}{name}")).collect();
        assert_eq!(names, pcp_client::OPTION_VARIABLES);
    }
}

//! Where senders find the agent's ingest socket when nothing else is said. The agent makes it there by the same rules.
//!
//! PCP has its directory for sockets where the environment's `PCP_RUN_DIR` says, else that of `pcp.conf`
//! (`PCP_CONF`, or `etc/pcp.conf` below `PCP_DIR`). Only that one line of it is read here: senders take little else with them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::getuid;

/// Names the socket for senders, and for agents without a configuration.
const VARIABLE: &str = "JUMPSEAT_SOCKET";

/// The socket for a sender to use: what `JUMPSEAT_SOCKET` names, else that of PCP's directory, or the user's own if only that is
/// there. Cheap enough for each attempt to connect.
pub fn to_use() -> PathBuf {
    named().unwrap_or_else(|| {
        let (system, user) = (of_system(), of_user());
        if !system.exists() && is_own(&user) { user } else { system }
    })
}

/// What `JUMPSEAT_SOCKET` names.
pub fn named() -> Option<PathBuf> {
    variable(VARIABLE).map(PathBuf::from)
}

/// The socket of an agent under pmcd, where PCP keeps its own.
pub fn of_system() -> PathBuf {
    run_dir(variable).join("jumpseat.socket")
}

/// The socket of an agent that this user has started, and who may not write to PCP's directory.
pub fn of_user() -> PathBuf {
    match variable("XDG_RUNTIME_DIR") {
        Some(dir) => PathBuf::from(dir).join("jumpseat.socket"),
        None => std::env::temp_dir().join(format!("jumpseat-{}.socket", getuid().as_raw())),
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn run_dir(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let said = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_conf = || {
        let root = || said("PCP_DIR").unwrap_or_else(|| PathBuf::from("/"));
        let file = said("PCP_CONF").unwrap_or_else(|| root().join("etc/pcp.conf"));
        in_conf(&fs::read_to_string(file).ok()?).map(PathBuf::from)
    };
    said("PCP_RUN_DIR").or_else(of_conf).unwrap_or_else(|| PathBuf::from("/run/pcp"))
}

/// The directory in the text of `pcp.conf`, by the rules of `pcp_files::settings`: the first that is not empty counts, without one
/// pair of quotes around it and blanks behind it.
fn in_conf(text: &str) -> Option<&str> {
    let values = text.lines().filter_map(|line| line.strip_prefix("PCP_RUN_DIR="));
    values.map(|value| unquoted(value.trim_end())).find(|value| !value.is_empty())
}

fn unquoted(text: &str) -> &str {
    let without = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    without('"').or_else(|| without('\'')).unwrap_or(text)
}

/// Whether this user made what is at the path. Anyone may have put a socket into the directory for
/// temporary files, to listen in on what is sent.
fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == getuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_socket_is_not_used() {
        let own = tempfile::NamedTempFile::new().expect("temporary file");
        assert!(is_own(own.path()));
        assert!(!is_own(&own.path().with_extension("missing")));
        assert_eq!(is_own(Path::new("/proc/1/stat")), getuid().is_root());
    }

    #[test]
    fn the_directory_is_that_of_the_environment_or_of_pcps_configuration() {
        let dir = tempfile::tempdir().expect("a directory");
        let etc = dir.path().join("etc");
        fs::create_dir(&etc).expect("a directory of the test's own");
        let conf =
            "# PCP_RUN_DIR=/no\nPCP_RUN_DIR=\"/var/run/pcp\" \nPCP_RUN_DIR=/second\nPCP_TMP_DIR=/tmp\n";
        fs::write(etc.join("pcp.conf"), conf).expect("a file of the test's own");
        let other = dir.path().join("other.conf");
        fs::write(&other, "PCP_RUN_DIR=/other\n").expect("a file of the test's own");
        let none = dir.path().join("none");
        let with = |set: &[(&str, &Path)]| {
            let get =
                |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
            run_dir(get)
        };
        let root = ("PCP_DIR", dir.path());
        assert_eq!(with(&[root]), Path::new("/var/run/pcp"));
        assert_eq!(with(&[root, ("PCP_CONF", &other)]), Path::new("/other"));
        assert_eq!(
            with(&[root, ("PCP_CONF", &other), ("PCP_RUN_DIR", Path::new("/mine"))]),
            Path::new("/mine")
        );
        assert_eq!(with(&[("PCP_CONF", &none)]), Path::new("/run/pcp"));
        let empty = Path::new("");
        assert_eq!(
            with(&[root, ("PCP_CONF", empty), ("PCP_RUN_DIR", empty)]),
            Path::new("/var/run/pcp"),
            "what is empty is none"
        );
    }

    #[test]
    fn a_directory_is_read_by_the_same_rules_as_elsewhere() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let elsewhere = || {
            let of = |name: &str| (name == "PCP_CONF").then(|| file.path().into());
            pcp_files::settings::setting_of(of, "PCP_RUN_DIR")
        };
        for (text, expected) in [
            ("PCP_RUN_DIR=/run/a \n", Some("/run/a")),
            ("PCP_RUN_DIR=\"/run/a b\"\n", Some("/run/a b")),
            ("PCP_RUN_DIR='/run/a'", Some("/run/a")),
            ("PCP_RUN_DIR=\"'/run/a'\"", Some("'/run/a'")),
            ("PCP_RUN_DIR=\"/run/a'", Some("\"/run/a'")),
            ("PCP_RUN_DIR=/run/a\"\"", Some("/run/a\"\"")),
            ("PCP_RUN_DIR=\nPCP_RUN_DIR=\"\"\nPCP_RUN_DIR=/run/b\nPCP_RUN_DIR=/run/c\n", Some("/run/b")),
            ("#PCP_RUN_DIR=/run/a\n PCP_RUN_DIR=/run/b\nPCP_RUN_DIR =/run/c\nPCP_RUN_DIRS=/run/d\n", None),
            ("", None),
        ] {
            assert_eq!(in_conf(text), expected, "{text}");
            fs::write(file.path(), text).expect("writable");
            assert_eq!(elsewhere(), expected.map(OsString::from), "{text}");
        }
    }
}

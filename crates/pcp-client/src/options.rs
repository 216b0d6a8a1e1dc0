//! Options of a connection, and what the environment says about them (`PCPIntro(1)`, ENVIRONMENT;
//! `docs/pcp/fetchgroup.md` 21 and 22, `docs/pcp/wire.md` 21).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcp_files::settings;

use super::spec::Security;

/// Port of pmcd.
pub const PMCD_PORT: u16 = 44321;
/// Port of pmproxy.
pub const PMPROXY_PORT: u16 = 44322;

/// How contexts connect to their hosts where the host's specification does not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Longest wait for each connection; `None`: no limit.
    pub connect_timeout: Option<Duration>,
    /// Longest wait for each answer; `None`: no limit.
    pub request_timeout: Option<Duration>,
    /// After the first, second, ... failed attempt to connect again: the time that has to pass before the next.
    /// The last one stays. Empty: the next may follow at once.
    pub reconnect_delays: Vec<Duration>,
    /// Ports of pmcd, tried in turn.
    pub ports: Vec<u16>,
    /// The socket of the pmcd on this machine.
    pub socket: PathBuf,
    /// A pmproxy to go through.
    pub proxy: Option<String>,
    /// The port of pmproxy.
    pub proxy_port: u16,
    /// The container whose metrics are wanted.
    pub container: Option<String>,
    /// Whether connections are to be encrypted.
    pub security: Security,
    /// PCP's configuration of TLS: whom to trust (`tls-ca-cert-file`, `tls-ca-cert-dir`).
    pub tls_config: PathBuf,
}

impl Default for HostOptions {
    /// As with an empty environment, and no `/etc/pcp.conf`.
    fn default() -> HostOptions {
        HostOptions {
            connect_timeout: Some(Duration::from_secs(5)),
            request_timeout: Some(Duration::from_secs(10)),
            reconnect_delays: [5, 10, 20, 40, 80].map(Duration::from_secs).to_vec(),
            ports: vec![PMCD_PORT],
            socket: socket_in(Path::new("/run/pcp")),
            proxy: None,
            proxy_port: PMPROXY_PORT,
            container: None,
            security: Security::Plain,
            tls_config: PathBuf::from("/etc/pcp/tls.conf"),
        }
    }
}

/// A variable of the environment whose value is of no use: the default holds instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ignored bad {variable} = '{value}'")]
#[non_exhaustive]
pub struct EnvWarning {
    /// The variable.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
}

impl HostOptions {
    /// What the environment says, and which of it was ignored.
    ///
    /// Read are `PMCD_CONNECT_TIMEOUT` and `PMCD_REQUEST_TIMEOUT` (seconds, also fractions of them; 0: no limit),
    /// `PMCD_RECONNECT_TIMEOUT` (seconds, comma-separated), `PMCD_PORT` (comma-separated), `PMCD_SOCKET`,
    /// `PMPROXY_HOST`, `PMPROXY_PORT`, `PCP_CONTAINER`, `PCP_SECURE_SOCKETS`, and `PCP_RUN_DIR` and `PCP_TLSCONF_PATH`,
    /// which `/etc/pcp.conf` (`PCP_CONF`, `PCP_DIR`) may say as well.
    pub fn from_env() -> (HostOptions, Vec<EnvWarning>) {
        HostOptions::from_variables(|name| std::env::var_os(name))
    }

    /// As [`HostOptions::from_env`], from variables that come from elsewhere.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> (HostOptions, Vec<EnvWarning>) {
        let mut vars = Variables { variable, warnings: Vec::new() };
        let default = HostOptions::default();
        let options = HostOptions {
            connect_timeout: vars.parsed("PMCD_CONNECT_TIMEOUT", timeout).unwrap_or(default.connect_timeout),
            request_timeout: vars.parsed("PMCD_REQUEST_TIMEOUT", timeout).unwrap_or(default.request_timeout),
            reconnect_delays: vars
                .parsed("PMCD_RECONNECT_TIMEOUT", delays)
                .unwrap_or(default.reconnect_delays),
            ports: vars.parsed("PMCD_PORT", ports).unwrap_or(default.ports),
            socket: match vars.path("PMCD_SOCKET") {
                Some(socket) => socket,
                None => vars.configured("PCP_RUN_DIR").map_or(default.socket, |dir| socket_in(&dir)),
            },
            proxy: vars.text("PMPROXY_HOST").filter(|host| !host.is_empty()),
            proxy_port: vars
                .parsed("PMPROXY_PORT", |text| ports(text)?.first().copied())
                .unwrap_or(default.proxy_port),
            container: vars.text("PCP_CONTAINER"),
            security: vars.parsed("PCP_SECURE_SOCKETS", Security::from_text).unwrap_or(default.security),
            tls_config: vars.configured("PCP_TLSCONF_PATH").unwrap_or(default.tls_config),
        };
        (options, vars.warnings)
    }
}

struct Variables<F> {
    variable: F,
    warnings: Vec<EnvWarning>,
}

impl<F: Fn(&str) -> Option<OsString>> Variables<F> {
    fn text(&self, name: &str) -> Option<String> {
        Some((self.variable)(name)?.to_string_lossy().into_owned())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    fn parsed<T>(&mut self, variable: &'static str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let value = self.text(variable)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            self.warnings.push(EnvWarning { variable, value });
        }
        parsed
    }

    /// A path of the environment or else of PCP's configuration file.
    fn configured(&self, name: &str) -> Option<PathBuf> {
        settings::setting_of(&self.variable, name).map(PathBuf::from)
    }
}

fn socket_in(run_dir: &Path) -> PathBuf {
    run_dir.join("pmcd.socket")
}

/// Seconds; zero is no limit.
fn timeout(text: &str) -> Option<Option<Duration>> {
    let seconds = text.trim_start().parse().ok()?;
    let timeout = Duration::try_from_secs_f64(seconds).ok()?;
    Some((!timeout.is_zero()).then_some(timeout))
}

/// Whole positive seconds, comma-separated; one bad one spoils the list.
fn delays(text: &str) -> Option<Vec<Duration>> {
    let delay = |text: &str| match text.trim_start().parse() {
        Ok(0) | Err(_) => None,
        Ok(seconds) => Some(Duration::from_secs(seconds)),
    };
    text.split(',').map(delay).collect()
}

/// Numbers as in C, comma-separated; one bad one spoils the list.
fn ports(text: &str) -> Option<Vec<u16>> {
    text.split(',').map(port).collect()
}

/// A number in decimal, or octal after `0`, or hexadecimal after `0x`.
fn port(text: &str) -> Option<u16> {
    let text = text.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    // `from_str_radix` would take another sign.
    let digits_only = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits_only.then(|| u16::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HostOptions from variables, with a configuration file that is not there.
    fn options(variables: &[(&str, &str)]) -> (HostOptions, Vec<String>) {
        let (options, warnings) = HostOptions::from_variables(|name| {
            let known = variables.iter().find(|(variable, _)| *variable == name);
            known.map(|(_, value)| (*value).into()).or((name == "PCP_CONF").then(|| "/nonexistent".into()))
        });
        (options, warnings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn without_variables_the_defaults_hold() {
        assert_eq!(options(&[]), (HostOptions::default(), vec![]));
    }

    #[test]
    fn variables_override_the_defaults() {
        let (options, warnings) = options(&[
            ("PMCD_CONNECT_TIMEOUT", "1.5"),
            ("PMCD_REQUEST_TIMEOUT", "0.25"),
            ("PMCD_RECONNECT_TIMEOUT", "1,2"),
            ("PMCD_PORT", "4321,0x10,010"),
            ("PMCD_SOCKET", "/tmp/s"),
            ("PMPROXY_HOST", "proxy"),
            ("PMPROXY_PORT", "1,2"),
            ("PCP_CONTAINER", "box"),
            ("PCP_SECURE_SOCKETS", "relaxed"),
            ("PCP_RUN_DIR", "/tmp/run"),
            ("PCP_TLSCONF_PATH", "/tmp/tls.conf"),
        ]);
        let expected = HostOptions {
            connect_timeout: Some(Duration::from_millis(1500)),
            request_timeout: Some(Duration::from_millis(250)),
            reconnect_delays: [1, 2].map(Duration::from_secs).to_vec(),
            ports: vec![4321, 16, 8],
            socket: "/tmp/s".into(),
            proxy: Some("proxy".to_owned()),
            proxy_port: 1,
            container: Some("box".to_owned()),
            security: Security::Relaxed,
            tls_config: "/tmp/tls.conf".into(),
        };
        assert_eq!((options, warnings), (expected, vec![]));
    }

    #[test]
    fn bad_values_are_ignored_with_a_warning() {
        for (variable, value) in [
            ("PMCD_CONNECT_TIMEOUT", "5s"),
            ("PMCD_REQUEST_TIMEOUT", "abc"),
            ("PMCD_REQUEST_TIMEOUT", "-1"),
            ("PMCD_REQUEST_TIMEOUT", ""),
            ("PMCD_REQUEST_TIMEOUT", "inf"),
            ("PMCD_REQUEST_TIMEOUT", "nan"),
            ("PMCD_RECONNECT_TIMEOUT", "5,x"),
            ("PMCD_RECONNECT_TIMEOUT", "5,0"),
            ("PMCD_RECONNECT_TIMEOUT", "-5"),
            ("PMCD_RECONNECT_TIMEOUT", "1.5"),
            ("PMCD_PORT", "44321,"),
            ("PMCD_PORT", "-1"),
            ("PMCD_PORT", "70000"),
            ("PMCD_PORT", "09"),
            ("PMPROXY_PORT", "x"),
            ("PCP_SECURE_SOCKETS", "maybe"),
        ] {
            let expected = (HostOptions::default(), vec![format!("ignored bad {variable} = '{value}'")]);
            assert_eq!(options(&[(variable, value)]), expected);
        }
    }

    #[test]
    fn zero_is_no_limit() {
        let (options, _) = options(&[("PMCD_CONNECT_TIMEOUT", "0"), ("PMCD_REQUEST_TIMEOUT", "0.0")]);
        assert_eq!((options.connect_timeout, options.request_timeout), (None, None));
    }

    #[test]
    fn the_socket_is_found_in_the_run_directory() {
        let socket = |variables: &[(&str, &str)]| options(variables).0.socket;
        let dir = tempfile::tempdir().expect("a temporary directory");
        let conf = dir.path().join("pcp.conf");
        std::fs::write(&conf, "# a comment\nPCP_RUN_DIR=/var/run dir\nPCP_TMP_DIR=/tmp\n").expect("writable");
        let conf = ("PCP_CONF", conf.to_str().expect("UTF-8"));
        assert_eq!(socket(&[conf]), Path::new("/var/run dir/pmcd.socket"));
        assert_eq!(socket(&[conf, ("PCP_RUN_DIR", "/r")]), Path::new("/r/pmcd.socket"));
        assert_eq!(socket(&[conf, ("PMCD_SOCKET", "/s")]), Path::new("/s"));
        std::fs::create_dir(dir.path().join("etc")).expect("writable");
        std::fs::write(dir.path().join("etc/pcp.conf"), "PCP_RUN_DIR=/rd\n").expect("writable");
        let root = dir.path().to_str().expect("UTF-8").to_owned();
        let (found, _) = HostOptions::from_variables(|name| (name == "PCP_DIR").then(|| root.clone().into()));
        assert_eq!(found.socket, Path::new("/rd/pmcd.socket"));
    }
}

//! Hosts that may be looked at: those of the command line, or any if it says so.

use pcp_client::{ClientError, Context, HostOptions, HostPorts, HostSpec, HostSpecError, PMCD_PORT, Place};

/// The collector of this machine.
const HERE: &str = "local:";
/// Names of this machine.
const LOCALHOST: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The hosts.
#[derive(Debug)]
pub(super) struct Sources {
    hosts: Vec<(String, HostSpec)>,
    any: bool,
    options: HostOptions,
}

/// Why there is no context on a host.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    /// The specification is none.
    #[error(transparent)]
    Spec(#[from] HostSpecError),
    /// It is none of those named on the command line.
    #[error(
        "{0} is not among the hosts that may be looked at: start jumpseat web with -h {0}, or --any-host"
    )]
    NotAllowed(String),
    /// There is no host: only archives were named.
    #[error("no host was named: start jumpseat web with -h HOST")]
    NoHost,
    /// It cannot be reached.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Sources {
    /// Of the hosts on the command line; without any, and if there are no archives either, this machine.
    ///
    /// # Errors
    /// The first that is none.
    pub(super) fn new(hosts: &[String], archives: bool, any: bool) -> Result<Sources, HostSpecError> {
        let here = [HERE.to_owned()];
        let hosts = if hosts.is_empty() && !archives { &here } else { hosts };
        let hosts: Result<Vec<_>, HostSpecError> =
            hosts.iter().map(|text| Ok((text.clone(), text.parse()?))).collect();
        Ok(Sources { hosts: hosts?, any, options: HostOptions::from_env().0 })
    }

    /// The hosts, as they are named on the command line.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(|(text, _)| text.as_str())
    }

    /// What a client's host specification means, if it may look there; the first host without one.
    ///
    /// # Errors
    /// [`SourceError::Spec`], [`SourceError::NotAllowed`], [`SourceError::NoHost`].
    pub(super) fn allowed(&self, text: Option<&str>) -> Result<HostSpec, SourceError> {
        let Some(text) = text else {
            return self.hosts.first().map(|(_, spec)| spec.clone()).ok_or(SourceError::NoHost);
        };
        let spec: HostSpec = text.parse()?;
        let wanted = place(&spec.place);
        let is_known =
            self.any || self.hosts.iter().any(|(known, spec)| known == text || place(&spec.place) == wanted);
        if is_known { Ok(spec) } else { Err(SourceError::NotAllowed(text.to_owned())) }
    }

    /// A context on a host that may be looked at; see [`Sources::allowed`]. Waits for its answer: for the pool only.
    ///
    /// # Errors
    /// [`SourceError`].
    pub(super) fn connect(&self, spec: &HostSpec) -> Result<Context, SourceError> {
        Ok(Context::host_with(spec, &self.options)?)
    }
}

/// A place, so that names of the same one are equal: the socket of this machine, and its port, are one collector.
fn place(place: &Place) -> Place {
    match place {
        Place::Socket { path: None, .. } => here(),
        Place::Inet { host, proxy } if proxy.is_none() && is_here(host) => here(),
        Place::Inet { host, proxy } => {
            Place::Inet { host: host_ports(host), proxy: proxy.as_ref().map(host_ports) }
        }
        other => other.clone(),
    }
}

fn here() -> Place {
    Place::Socket { path: None, or_localhost: true }
}

fn is_here(host: &HostPorts) -> bool {
    LOCALHOST.contains(&host.host.to_ascii_lowercase().as_str())
        && host.ports.iter().all(|&port| port == PMCD_PORT)
}

fn host_ports(host: &HostPorts) -> HostPorts {
    let ports = if host.ports.is_empty() { vec![PMCD_PORT] } else { host.ports.clone() };
    HostPorts { host: host.host.to_ascii_lowercase(), ports }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(hosts: &[&str], any: bool) -> Sources {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        Sources::new(&hosts, false, any).expect("good hosts")
    }

    #[test]
    fn names_of_the_same_collector_are_one() {
        let here = sources(&[], false);
        for text in
            ["local:", "localhost", "127.0.0.1", "pcp://127.0.0.1", "localhost:44321", "LOCALHOST", "unix:"]
        {
            assert!(here.allowed(Some(text)).is_ok(), "{text}");
        }
        for text in ["localhost:4321", "unix:/run/other", "example.com", "localhost@proxy"] {
            assert!(matches!(here.allowed(Some(text)), Err(SourceError::NotAllowed(_))), "{text}");
        }
        assert!(matches!(
            here.allowed(Some("")),
            Err(SourceError::Spec(_)) | Err(SourceError::NotAllowed(_))
        ));
    }

    #[test]
    fn only_hosts_of_the_command_line_are_allowed() {
        let two = sources(&["web1", "web2:4321"], false);
        assert!(two.allowed(Some("WEB1:44321")).is_ok() && two.allowed(Some("pcp://web2:4321")).is_ok());
        assert!(two.allowed(Some("web2")).is_err() && two.allowed(Some("localhost")).is_err());
        assert!(sources(&["web1"], true).allowed(Some("localhost")).is_ok());
        assert_eq!(two.allowed(None).expect("the first"), "web1".parse().expect("good"));
    }

    #[test]
    fn with_archives_alone_no_host_may_be_looked_at() {
        let none = Sources::new(&[], true, false).expect("good");
        assert!(matches!(none.allowed(None), Err(SourceError::NoHost)));
        assert!(matches!(none.allowed(Some("localhost")), Err(SourceError::NotAllowed(_))));
    }
}

//! Hosts that may be looked at: those of the command line, or any if it says so.
//!
//! **Invariant:** what a client says of a host chooses one of the command line, and may add who asks and for which container; where
//! that host is, and how the connection is encrypted, is what the command line says.

use std::net::IpAddr;
use std::time::Duration;

use pcp_client::{
    ClientError, Context, HostAttributes, HostOptions, HostPorts, HostSpec, HostSpecError, PMCD_PORT, Place,
    Security, without_password,
};

use super::answer::Refusal;

/// The collector of this machine.
const HERE: &str = "local:";
/// Longest specification of a client, and most ports in it: each is tried.
const MAX_SPEC: usize = 512;
const MAX_PORTS: usize = 4;
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
    /// Nobody needs one as long as this.
    #[error("a host specification has {MAX_SPEC} bytes at most, and {MAX_PORTS} ports")]
    TooLong,
    /// It is none of those named on the command line.
    #[error(
        "{0} is not among the hosts that may be looked at: start jumpseat web with -h {0}, or --any-host"
    )]
    NotAllowed(String),
    /// There is no host: only archives were named.
    #[error("no host was named: start jumpseat web with -h HOST")]
    NoHost,
    /// Too many have a connection of their own.
    #[error("{}", .0.message)]
    Busy(Refusal),
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

    /// The hosts of the command line, without what is only between it and the collector (who logs in, with which password).
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.hosts.iter().map(|(_, spec)| match &spec.attributes.container {
            Some(container) => format!("{}?container={container}", shown(&spec.place)),
            None => shown(&spec.place),
        })
    }

    /// What a client's host specification means, if it may look there; the first host without one.
    ///
    /// # Errors
    /// [`SourceError::Spec`], [`SourceError::TooLong`], [`SourceError::NotAllowed`], [`SourceError::NoHost`].
    pub(super) fn allowed(&self, text: Option<&str>) -> Result<HostSpec, SourceError> {
        let Some(text) = text else {
            return self.hosts.first().map(|(_, spec)| spec.clone()).ok_or(SourceError::NoHost);
        };
        if text.len() > MAX_SPEC {
            return Err(SourceError::TooLong);
        }
        let asked: HostSpec = text.parse()?;
        if matches!(&asked.place, Place::Inet { host, .. } if host.ports.len() > MAX_PORTS) {
            return Err(SourceError::TooLong);
        }
        let wanted = place(&asked.place);
        let known = self.hosts.iter().find(|(known, spec)| known == text || place(&spec.place) == wanted);
        match known {
            Some((_, spec)) => Ok(joined(spec, asked)),
            None if self.any => Ok(asked),
            None => Err(SourceError::NotAllowed(without_password(text).into_owned())),
        }
    }

    /// A context on such a host, without a connection yet.
    ///
    /// # Errors
    /// As [`Sources::connect`].
    pub(super) fn unconnected(&self, spec: &HostSpec) -> Result<Context, ClientError> {
        Context::host_unconnected(spec, &self.options)
    }

    /// How long to wait after attempts to connect that failed, one after the other.
    pub(super) fn reconnect_delays(&self) -> &[Duration] {
        &self.options.reconnect_delays
    }

    /// A context on a host that may be looked at; see [`Sources::allowed`]. Waits for its answer: for the pool only.
    ///
    /// # Errors
    /// [`SourceError`].
    pub(super) fn connect(&self, spec: &HostSpec) -> Result<Context, SourceError> {
        Ok(Context::host_with(spec, &self.options)?)
    }
}

/// The host of the command line, for who asks.
fn joined(known: &HostSpec, asked: HostSpec) -> HostSpec {
    let mut spec = known.clone();
    spec.security = match (known.security, asked.security) {
        (Security::Enforced, _) | (_, Security::Enforced) => Security::Enforced,
        (Security::Relaxed, _) | (_, Security::Relaxed) => Security::Relaxed,
        (Security::Plain, Security::Plain) => Security::Plain,
    };
    let HostAttributes { container, userauth, username, password, realm, method, .. } = asked.attributes;
    if container.is_some() {
        spec.attributes.container = container;
    }
    if username.is_some() || userauth.is_some() {
        let attributes = &mut spec.attributes;
        (attributes.username, attributes.password, attributes.userauth) = (username, password, userauth);
        (attributes.realm, attributes.method) = (realm, method);
    }
    spec
}

/// A place as people write it.
fn shown(place: &Place) -> String {
    let host = |host: &HostPorts| {
        let name = if host.host.contains(':') { format!("[{}]", host.host) } else { host.host.clone() };
        let ports: Vec<String> = host.ports.iter().map(u16::to_string).collect();
        if ports.is_empty() { name } else { format!("{name}:{}", ports.join(",")) }
    };
    match place {
        Place::Inet { host: of, proxy: Some(proxy) } => format!("{}@{}", host(of), host(proxy)),
        Place::Inet { host: of, proxy: None } => host(of),
        Place::Socket { path: None, .. } => HERE.to_owned(),
        Place::Socket { path: Some(path), or_localhost } => {
            format!("{}{}", if *or_localhost { HERE } else { "unix:" }, path.display())
        }
    }
}

/// A place, so that names of the same one are equal: the socket of this machine, and its port, are one collector. What only a look-up
/// of names could tell is not known.
pub(super) fn place(place: &Place) -> Place {
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
    LOCALHOST.contains(&name(&host.host).as_str()) && matches!(host.ports[..], [] | [PMCD_PORT])
}

/// A host's name as it is told apart from others: an address in its usual form, a name in small letters and without the last point.
fn name(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(),
    }
}

fn host_ports(host: &HostPorts) -> HostPorts {
    let ports = if host.ports.is_empty() { vec![PMCD_PORT] } else { host.ports.clone() };
    HostPorts { host: name(&host.host), ports }
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
        let spelled = |text: &str| place(&text.parse::<HostSpec>().expect("a host").place);
        for (one, other) in [
            ("web1", "WEB1.:44321"),
            ("[::1]", "localhost"),
            ("[2001:db8:0::1]", "[2001:DB8::0001]:44321"),
            ("[::ffff:192.0.2.1]", "192.0.2.1"),
            ("a@b", "A@B.:44321"),
        ] {
            assert_eq!(spelled(one), spelled(other), "{one}, {other}");
        }
        for (one, other) in
            [("web1", "web2"), ("web1", "web1:4321"), ("192.0.2.1", "192.0.2.2"), ("a", "a@b")]
        {
            assert_ne!(spelled(one), spelled(other), "{one}, {other}");
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
    fn a_client_chooses_a_host_and_no_more() {
        let spec = "pcps://web1?container=one&username=op&password=secret";
        let one = sources(&[spec], false);
        let found = one
            .allowed(Some("pcp://WEB1?username=ann&password=hers&container=two"))
            .expect("it is that host");
        assert_eq!(found.security, Security::Enforced, "encryption is not the client's to leave out");
        assert_eq!(found.place, spec.parse::<HostSpec>().expect("good").place);
        let who = (found.attributes.username.as_deref(), found.attributes.password.as_deref());
        assert_eq!(who, (Some("ann"), Some("hers")));
        assert_eq!(found.attributes.container.as_deref(), Some("two"));
        let plain = one.allowed(Some("web1")).expect("it is that host");
        assert_eq!(plain, spec.parse().expect("good"));
        assert_eq!(one.names().collect::<Vec<_>>(), ["web1?container=one"], "no secret is shown");
        let many = format!("localhost:44321{}", ",44321".repeat(4));
        assert!(matches!(sources(&[], true).allowed(Some(&many)), Err(SourceError::TooLong)));
        assert!(matches!(one.allowed(Some(&"x".repeat(600))), Err(SourceError::TooLong)));
        for text in ["local:", "web1:4321", "[::1]:44321", "unix:/run/x", "web1:1,2@proxy:3"] {
            assert_eq!(sources(&[text], false).names().collect::<Vec<_>>(), [text]);
        }
    }

    #[test]
    fn with_archives_alone_no_host_may_be_looked_at() {
        let none = Sources::new(&[], true, false).expect("good");
        assert!(matches!(none.allowed(None), Err(SourceError::NoHost)));
        let refused = none.allowed(Some("localhost?user=u&pass=secret")).expect_err("no host is").to_string();
        assert!(refused.contains("localhost?user=u&pass=... is not among"), "{refused}");
    }
}

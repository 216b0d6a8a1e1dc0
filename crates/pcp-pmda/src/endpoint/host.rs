//! What this machine says about itself.

use std::fs;

/// What the endpoint tells about its host and itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInfo {
    /// Name of the host.
    pub hostname: String,
    /// Time zone as in the environment variable TZ.
    pub timezone: String,
    /// Time zone as `:Area/City`, or empty.
    pub zoneinfo: String,
    /// `/etc/machine-id`, or empty.
    pub machine_id: String,
    /// The domain part of the host's name, or empty.
    pub domain_name: String,
    /// Whether clients can only come from this host.
    pub local: bool,
}

impl HostInfo {
    /// Asks the system. Reads three small files; what cannot be found out is left empty.
    pub fn of_this_host() -> HostInfo {
        let read =
            |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
        let hostname = nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_else(|_| "localhost".to_owned());
        let zone_file = fs::read_link("/etc/localtime").unwrap_or_default();
        let zone = zone_file.to_string_lossy();
        let zone = zone.split_once("zoneinfo/").map_or("", |(_, zone)| zone);
        let timezone = std::env::var("TZ").ok().filter(|zone| !zone.is_empty());
        let resolv = read("/etc/resolv.conf");
        HostInfo {
            timezone: timezone
                .or_else(|| zone_rule(&fs::read("/etc/localtime").ok()?))
                .unwrap_or("UTC".to_owned()),
            zoneinfo: if zone.is_empty() { String::new() } else { format!(":{zone}") },
            machine_id: read("/etc/machine-id"),
            domain_name: domain(&hostname, &resolv),
            hostname,
            local: true,
        }
    }

    /// The labels every context has, sorted by name.
    pub(super) fn labels(&self) -> Vec<(&'static str, &str)> {
        let mut labels = vec![("domainname", &*self.domain_name), ("hostname", &*self.hostname)];
        labels.push(("machineid", &*self.machine_id));
        labels.retain(|(_, value)| !value.is_empty());
        labels
    }
}

/// The rule at the end of a zone file of version 2 or later, which has the form TZ has.
fn zone_rule(file: &[u8]) -> Option<String> {
    let text = file.strip_prefix(b"TZif").and(file.strip_suffix(b"\n"))?;
    let rule = text.rsplit(|byte| *byte == b'\n').next()?;
    let rule = std::str::from_utf8(rule).ok()?;
    (!rule.is_empty() && rule.is_ascii()).then(|| rule.to_owned())
}

fn domain(hostname: &str, resolv: &str) -> String {
    let configured = resolv.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        matches!(words.next(), Some("domain" | "search")).then(|| words.next()).flatten()
    });
    let own = hostname.split_once('.').map(|(_, domain)| domain);
    own.or(configured).unwrap_or("localdomain").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_rules_and_domains() {
        assert_eq!(
            zone_rule(b"TZif2\0\0\nTZif2xx\nCET-1CEST,M3.5.0,M10.5.0/3\n").unwrap(),
            "CET-1CEST,M3.5.0,M10.5.0/3"
        );
        assert_eq!(zone_rule(b"TZif2\0\n\n"), None);
        assert_eq!(zone_rule(b"junk\nUTC0\n"), None);
        assert_eq!(domain("a.example.org", ""), "example.org");
        assert_eq!(domain("a", "nameserver 1\nsearch lan home\n"), "lan");
        assert_eq!(domain("a", ""), "localdomain");
    }

    #[test]
    fn this_host_has_a_name() {
        let host = HostInfo::of_this_host();
        assert!(!host.hostname.is_empty());
        assert!(!host.timezone.is_empty());
        assert!(host.labels().contains(&("hostname", &*host.hostname)));
    }
}

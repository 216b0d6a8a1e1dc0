//! [`Who`]: a list of users, groups and hosts, as a configuration names them.

use std::fmt;
use std::net::IpAddr;

use nix::unistd::{Group, User};

/// Users, groups and hosts. What is not known about somebody matches no entry but `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    everybody: bool,
    uids: Vec<u32>,
    gids: Vec<u32>,
    networks: Vec<Network>,
}

/// What is known about somebody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity {
    /// User id.
    pub uid: Option<u32>,
    /// Group id.
    pub gid: Option<u32>,
    /// Where a connection over TCP comes from.
    pub host: Option<IpAddr>,
}

/// An address, and how many of its first bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

/// An entry that names nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WhoError {
    /// There is no such user.
    #[error(
        "there is no user {0:?} on this machine; \"@name\" is a group, \"host:address\" a host, \"*\" everybody"
    )]
    NoUser(String),
    /// There is no such group.
    #[error("there is no group {0:?} on this machine")]
    NoGroup(String),
    /// No address, or not so many bits.
    #[error("{0:?} is no address; write host:192.0.2.1, host:192.0.2.0/24 or host:2001:db8::/32")]
    NoHost(String),
}

impl Who {
    /// Everybody, known or not.
    pub fn everybody() -> Who {
        Who { everybody: true, ..Who::default() }
    }

    /// Adds an entry: a user's name or number, `@` and a group's name or number (its members and those whose own group it
    /// is), `host:` and an address with or without the number of bits that count, or `*` for everybody.
    ///
    /// # Errors
    /// It names nobody.
    pub fn add(&mut self, entry: &str) -> Result<(), WhoError> {
        if entry == "*" {
            self.everybody = true;
        } else if let Some(group) = entry.strip_prefix('@') {
            self.add_group(group)?;
        } else if let Some(host) = entry.strip_prefix("host:") {
            self.networks.push(Network::parse(host).ok_or_else(|| WhoError::NoHost(host.to_owned()))?);
        } else {
            self.uids.push(uid_of(entry).ok_or_else(|| WhoError::NoUser(entry.to_owned()))?);
        }
        Ok(())
    }

    /// A list of entries; those that name nobody are given to `unknown`, and match nobody.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a str>, mut unknown: impl FnMut(WhoError)) -> Who {
        let mut who = Who::default();
        for entry in entries {
            who.add(entry).unwrap_or_else(&mut unknown);
        }
        who
    }

    /// Whether somebody is one of them.
    pub fn includes(&self, somebody: Identity) -> bool {
        let Identity { uid, gid, host } = somebody;
        self.everybody
            || uid.is_some_and(|uid| self.uids.contains(&uid))
            || gid.is_some_and(|gid| self.gids.contains(&gid))
            || host.is_some_and(|host| self.networks.iter().any(|network| network.has(host)))
    }

    fn add_group(&mut self, name: &str) -> Result<(), WhoError> {
        let found = match name.parse() {
            Ok(gid) => Group::from_gid(nix::unistd::Gid::from_raw(gid)),
            Err(_) => Group::from_name(name),
        };
        let number = name.parse().ok();
        match (found.ok().flatten(), number) {
            (Some(group), _) => {
                self.gids.push(group.gid.as_raw());
                self.uids.extend(group.mem.iter().filter_map(|member| uid_of(member)));
                Ok(())
            }
            // A number need not be named.
            (None, Some(gid)) => {
                self.gids.push(gid);
                Ok(())
            }
            (None, None) => Err(WhoError::NoGroup(name.to_owned())),
        }
    }
}

fn uid_of(name: &str) -> Option<u32> {
    match name.parse() {
        Ok(uid) => Some(uid),
        Err(_) => User::from_name(name).ok().flatten().map(|user| user.uid.as_raw()),
    }
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(all);
        (bits <= all).then_some(Network { address, bits })
    }

    fn has(&self, host: IpAddr) -> bool {
        let shifted = |bits: u128, all: u32| bits.checked_shr(all - u32::from(self.bits)).unwrap_or(0);
        match (self.address, host.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(host)) => {
                shifted(own.to_bits().into(), 32) == shifted(host.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(host)) => {
                shifted(own.to_bits(), 128) == shifted(host.to_bits(), 128)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Identity {
    /// As messages name somebody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.uid, self.host) {
            (Some(uid), _) => write!(f, "user {uid}"),
            (None, Some(host)) => write!(f, "host {host}"),
            (None, None) => f.write_str("somebody unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(entries: &[&str]) -> Who {
        Who::of(entries.iter().copied(), |error| panic!("{error}"))
    }

    fn user(uid: u32) -> Identity {
        Identity { uid: Some(uid), ..Identity::default() }
    }

    fn host(address: &str) -> Identity {
        Identity { host: Some(address.parse().unwrap()), ..Identity::default() }
    }

    #[test]
    fn users_groups_and_everybody() {
        let some = who(&["root", "4711", "@12345"]);
        assert!(some.includes(user(0)) && some.includes(user(4711)));
        assert!(!some.includes(user(1)) && !some.includes(Identity::default()));
        assert!(some.includes(Identity { gid: Some(12345), ..user(1) }));
        assert!(who(&["@root"]).includes(Identity { gid: Some(0), ..Identity::default() }));
        assert!(who(&["*"]).includes(Identity::default()));
        assert!(!who(&[]).includes(user(0)));
    }

    #[test]
    fn hosts_by_their_first_bits() {
        let some = who(&["host:192.0.2.0/24", "host:127.0.0.1", "host:2001:db8::/32"]);
        for (address, expected) in [
            ("192.0.2.77", true),
            ("192.0.3.1", false),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("::ffff:192.0.2.1", true),
            ("2001:db8:1::1", true),
            ("2001:db9::1", false),
        ] {
            assert_eq!(some.includes(host(address)), expected, "{address}");
        }
        assert!(who(&["host:0.0.0.0/0"]).includes(host("203.0.113.9")));
        assert!(!who(&["host:0.0.0.0/0"]).includes(host("::1")));
    }

    #[test]
    fn who_is_nobody_is_told() {
        let mut told = Vec::new();
        Who::of(["no such user", "@no such group", "host:1.2.3.4/33", "host:x"], |error| {
            told.push(error.to_string());
        });
        assert!(told[0].starts_with("there is no user \"no such user\" on this machine"));
        assert_eq!(told[1], "there is no group \"no such group\" on this machine");
        assert!(told[2].starts_with("\"1.2.3.4/33\" is no address") && told[3].starts_with("\"x\" is no"));
    }
}

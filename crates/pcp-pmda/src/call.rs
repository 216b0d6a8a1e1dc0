//! Who asks: client contexts, their attributes, and what every callback knows about a request.

use std::net::IpAddr;

use pcp_model::{InDom, Pmid, Profile, Timestamp};
use pcp_net::{Identity, Who};

/// A client context. Slots are reused after a client has gone; the generation tells the successors apart,
/// so a `ClientId` once seen never means another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId {
    /// The place in the framework's table, small and dense: good as an index.
    pub slot: u32,
    /// How often the slot was given out before.
    pub generation: u32,
}

/// What is known about a client: from pmcd's ATTR PDUs, or from the kernel on the direct endpoint's sockets: who it is on
/// Unix sockets, where it is over TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// User id.
    pub uid: Option<u32>,
    /// Group id.
    pub gid: Option<u32>,
    /// Process id.
    pub pid: Option<i32>,
    /// User name.
    pub username: Option<String>,
    /// The container the client asked for.
    pub container: Option<String>,
    /// Where it is; not known under pmcd.
    pub host: Option<IpAddr>,
}

impl Attributes {
    /// What of it rules about who may do what go by.
    pub fn identity(&self) -> Identity {
        Identity { uid: self.uid, gid: self.gid, host: self.host }
    }
}

/// Who may ask an agent for values, and who may change any. pmcd's own access control comes before it, and a metric's own
/// [`Access`] after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// Who may fetch.
    pub fetch: Who,
    /// Who may store.
    pub store: Who,
}

impl Default for Grants {
    /// Everybody.
    fn default() -> Grants {
        Grants { fetch: Who::everybody(), store: Who::everybody() }
    }
}

/// A rule for who may store into a metric. pmcd's own access control comes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Whoever gets past pmcd, or to the direct endpoint.
    Anyone,
    /// Only these users.
    Users {
        /// The user ids.
        uids: Vec<u32>,
        /// The verdict on clients whose user is not known (TCP, or attributes not asked for).
        unknown: bool,
    },
}

impl Access {
    /// Root and the user this process runs as; `unknown` is the verdict on clients without a user id. Not PCP's own user,
    /// even if this process runs as that: pmproxy does, too, and asks for whoever reaches it.
    pub fn root_or_self(unknown: bool) -> Access {
        let own =
            Some(nix::unistd::geteuid().as_raw()).filter(|&own| Some(own) != crate::identity::pcp_user());
        Access::Users { uids: [0].into_iter().chain(own).collect(), unknown }
    }

    /// Whether a client with these attributes may store.
    pub fn permits(&self, attributes: &Attributes) -> bool {
        match self {
            Access::Anyone => true,
            Access::Users { uids, unknown } => attributes.uid.map_or(*unknown, |uid| uids.contains(&uid)),
        }
    }
}

/// One fetch request: the same for all metrics that it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchStamp {
    /// Grows with each fetch request, whoever it is from.
    pub number: u64,
    /// When the fetch began.
    pub time: Timestamp,
}

/// One request as a callback sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The client context.
    pub client: ClientId,
    /// What is known about the client.
    pub attributes: &'a Attributes,
    /// The instances the client wants. [`Fetch::Each`](crate::Fetch::Each) callbacks need not look at it.
    pub profile: &'a Profile,
    /// The metric asked for.
    pub pmid: Pmid,
    /// Its instance domain, or [`InDom::NULL`].
    pub indom: InDom,
    /// The fetch that this is part of; for anything else the last one before it.
    pub fetch: FetchStamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_by_user_and_the_unknown_are_judged_as_configured() {
        let user = |uid| Attributes { uid, ..Attributes::default() };
        let strict = Access::Users { uids: vec![0, 100], unknown: false };
        assert!(strict.permits(&user(Some(100))));
        assert!(!strict.permits(&user(Some(101))));
        assert!(!strict.permits(&user(None)));
        assert!(Access::root_or_self(true).permits(&user(None)));
        assert!(Access::root_or_self(false).permits(&user(Some(0))));
        assert!(Access::Anyone.permits(&user(None)));
    }
}

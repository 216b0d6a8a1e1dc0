//! What direct clients may prove, or have to.

use std::net::IpAddr;

use pcp_net::{Certificate, Passwords};

use crate::{Attributes, Offer};

/// How connections of direct clients are secured. By default they are not.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// What the endpoint proves itself with: TLS is on offer.
    pub certificate: Option<Certificate>,
    /// Clients over TCP have to begin TLS. One that asks clients for certificates always requires it.
    pub required: bool,
    /// Who may log in, over TLS and Unix sockets.
    pub passwords: Option<Passwords>,
}

impl Security {
    /// What somebody can have who is known by this much.
    pub(super) fn offer(&self, peer: &Attributes) -> Offer {
        let remote = peer.host.is_some();
        let certificate = self.certificate.as_ref();
        let asks = certificate.is_some_and(Certificate::asks_clients);
        Offer {
            tls: certificate.is_some(),
            tls_required: remote && certificate.is_some() && (self.required || asks),
            certificate_required: remote && asks,
            passwords: self.passwords.is_some(),
            private: !remote,
        }
    }
}

/// Where attempts to log in come from, as they are counted: a user of this machine, an IPv4 address, or what one
/// customer of a provider has of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    User(Option<u32>),
    V4(u32),
    V6(u64),
}

impl Origin {
    pub(super) fn of(peer: &Attributes) -> Origin {
        match peer.host.map(|host| host.to_canonical()) {
            None => Origin::User(peer.uid),
            Some(IpAddr::V4(address)) => Origin::V4(address.to_bits()),
            Some(IpAddr::V6(address)) => Origin::V6((address.to_bits() >> 64) as u64),
        }
    }
}

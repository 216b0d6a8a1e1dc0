//! CREDS (`docs/pcp/wire.md` 4.2 and 14, `docs/pcp/agent.md` 4).
//!
//! ```text
//! 12 count i32 | 16 count x credential
//! credential := type:8 data:24; type 1 (version): version:8 flags:16
//! ```

use bitflags::bitflags;

use super::codec::{Reader, Writer};
use super::fault::{EncodeError, PduError, Problem, Unsendable};

const CRED_LEN: usize = 4;
const MAX_CREDS: usize = 1024;
/// The one credential type in use.
const TYPE_VERSION: u8 = 1;

/// The version of the protocol this crate speaks, the only one there is.
pub const PROTOCOL_VERSION: u8 = 2;

/// A CREDS PDU. The header's third word is the sender's process id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creds {
    /// The credentials, at least one.
    pub creds: Vec<Cred>,
}

/// One credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cred {
    /// Protocol version and what the sender wishes.
    Version {
        /// Protocol version; 2. Peers are accepted with any but 0.
        version: u8,
        /// Wishes.
        flags: CredFlags,
    },
    /// Anything else; ignored.
    Other {
        /// The type.
        kind: u8,
        /// The data.
        data: [u8; 3],
    },
}

/// Flags of the version credential. A client may send no bit that is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CredFlags(pub u16);

bitflags! {
    impl CredFlags: u16 {
        /// Client: start TLS.
        const SECURE = 0x1;
        /// Client: historic.
        const COMPRESS = 0x2;
        /// Client: start SASL. Agent: send me my clients' user, group and process ids.
        const AUTH = 0x4;
        /// Client: insists on SASL.
        const CREDS_REQD = 0x8;
        /// Client: acknowledge the start of TLS.
        const SECURE_ACK = 0x10;
        /// Client: an ATTR with a container name follows. Agent: send me my clients' containers.
        const CONTAINER = 0x40;
        /// Client: has a certificate.
        const CERT_REQD = 0x80;
        /// All bits a client may send; pmcd answers others with an error.
        const CLIENT = 0xdf;
    }
}

impl Creds {
    /// What this crate sends: version 2 and `flags`.
    pub fn version(flags: CredFlags) -> Creds {
        Creds { creds: vec![Cred::Version { version: PROTOCOL_VERSION, flags }] }
    }

    /// Version and flags of the last version credential, if there is one.
    pub fn peer_version(&self) -> Option<(u8, CredFlags)> {
        self.creds.iter().rev().find_map(|cred| match *cred {
            Cred::Version { version, flags } => Some((version, flags)),
            Cred::Other { .. } => None,
        })
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Creds, PduError> {
        let count = r.count("count", CRED_LEN)?;
        if count == 0 || count > MAX_CREDS {
            return Err(r.error_before(Problem::Count { field: "count", count: count as i32 }));
        }
        let mut creds = Vec::with_capacity(count);
        for _ in 0..count {
            let [kind, a, b, c] = r.u32("credential")?.to_be_bytes();
            creds.push(match kind {
                TYPE_VERSION => Cred::Version { version: a, flags: CredFlags(u16::from_be_bytes([b, c])) },
                kind => Cred::Other { kind, data: [a, b, c] },
            });
        }
        r.finish()?;
        Ok(Creds { creds })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self.creds.len() {
            0 => return Err(w.error(Unsendable::Empty { field: "credential list" })),
            value if value > MAX_CREDS => {
                return Err(w.error(Unsendable::Limit { field: "count", value, max: MAX_CREDS }));
            }
            count => w.count("count", count)?,
        }
        for cred in &self.creds {
            w.bytes(&match *cred {
                Cred::Version { version, flags } => {
                    let [b, c] = flags.0.to_be_bytes();
                    [TYPE_VERSION, version, b, c]
                }
                Cred::Other { kind, data: [a, b, c] } => [kind, a, b, c],
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
    use crate::{Pdu, kind};

    #[test]
    fn captures() {
        captured("00000014 0000700c 000037a2 00000001 01020000", &Pdu::Creds(Creds::version(CredFlags(0))));
        let agent = Creds::version(CredFlags::AUTH.union(CredFlags::CONTAINER));
        captured("00000014 0000700c 00004f28 00000001 01020044", &Pdu::Creds(agent.clone()));
        assert_eq!(agent.peer_version(), Some((2, CredFlags(0x44))));
    }

    #[test]
    fn the_count_must_match_the_length() {
        let count = |count| Problem::Count { field: "count", count };
        refused(&body(kind::CREDS, "00000000"), 12, count(0));
        refused(&body(kind::CREDS, "ffffffff"), 12, count(-1));
        refused(&body(kind::CREDS, "00000002 01020000"), 12, count(2));
        refused(&body(kind::CREDS, "00000001 01020000 01"), 20, Problem::Trailing { extra: 1 });
        let many = format!("00000401{}", "01020000".repeat(0x401));
        refused(&body(kind::CREDS, &many), 12, count(0x401));
    }

    #[test]
    fn lists_that_no_peer_takes_are_not_sent() {
        for creds in [vec![], vec![Cred::Other { kind: 2, data: [0; 3] }; 1025]] {
            assert!(Pdu::Creds(Creds { creds }).to_bytes(0).is_err());
        }
    }

    proptest! {
        #[test]
        fn round_trips(words in prop::collection::vec(any::<(u8, u8, u16)>(), 1..40)) {
            let creds = words.into_iter().map(|(kind, version, flags)| match kind {
                0..=127 => Cred::Version { version, flags: CredFlags(flags) },
                kind => Cred::Other { kind, data: [version, flags as u8, (flags >> 8) as u8] },
            });
            round_trip(&Pdu::Creds(Creds { creds: creds.collect() }));
        }
    }
}

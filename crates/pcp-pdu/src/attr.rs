//! ATTR, once called AUTH (`docs/pcp/wire.md` 16, `docs/pcp/agent.md` 8).
//!
//! ```text
//! 12 attr i32 | 16 payload up to the end of the PDU, unpadded
//! ```

use bytes::Bytes;

use super::codec::{Reader, Writer};
use super::fault::{EncodeError, PduError, Problem, Unsendable};

/// A payload must be shorter than this.
const MAX_PAYLOAD: usize = 4096;
/// A payload of authentication must be shorter than this.
const MAX_SASL: usize = 2048;

/// Which attribute (`PCP_ATTR_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttrCode(pub i32);

impl AttrCode {
    /// A step of SASL authentication.
    pub const SASL: AttrCode = AttrCode(0);
    /// User name.
    pub const USERNAME: AttrCode = AttrCode(5);
    /// User id of a local client's process, in decimal.
    pub const USERID: AttrCode = AttrCode(11);
    /// Group id of a local client's process, in decimal.
    pub const GROUPID: AttrCode = AttrCode(12);
    /// Process id of a local client, in decimal.
    pub const PROCESSID: AttrCode = AttrCode(14);
    /// The container the client asks about.
    pub const CONTAINER: AttrCode = AttrCode(15);

    /// What it is, in words, for those whose values are no secrets.
    pub(super) const fn words(self) -> Option<&'static str> {
        match self {
            AttrCode::USERNAME => Some("user name"),
            AttrCode::USERID => Some("user id"),
            AttrCode::GROUPID => Some("group id"),
            AttrCode::PROCESSID => Some("process id"),
            AttrCode::CONTAINER => Some("container"),
            _ => None,
        }
    }
}

/// An attribute of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Which one.
    pub code: AttrCode,
    /// The payload as it travels: pmcd ends the texts it sends to agents with a NUL, clients do not.
    pub payload: Bytes,
}

impl Attr {
    /// The payload up to its first NUL, if any.
    pub fn value(&self) -> &[u8] {
        self.payload.split(|&byte| byte == 0).next().unwrap_or(&[])
    }

    /// Whether people may see the value. What nobody knows may be a secret, as what belongs to an authentication is.
    pub fn is_shown(&self) -> bool {
        self.code.words().is_some()
    }

    fn max(code: AttrCode) -> usize {
        if code == AttrCode::SASL { MAX_SASL - 1 } else { MAX_PAYLOAD - 1 }
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Attr, PduError> {
        let code = AttrCode(r.i32("attr")?);
        let len = r.remaining();
        if len > Attr::max(code) {
            let extra = len - Attr::max(code);
            return Err(r.error_at(r.place() + Attr::max(code), Problem::Trailing { extra }));
        }
        Ok(Attr { code, payload: r.share("payload", len)? })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let (value, max) = (self.payload.len(), Attr::max(self.code));
        if value > max {
            return Err(w.error(Unsendable::Limit { field: "payload length", value, max }));
        }
        w.i32(self.code.0);
        w.bytes(&self.payload);
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
        let attr = |code, payload: &'static [u8]| Attr { code, payload: Bytes::from_static(payload) };
        let process = attr(AttrCode::PROCESSID, b"20267\0");
        captured("00000016 00007011 00000000 0000000e 32303236 3700", &Pdu::Attr(process.clone()));
        assert_eq!(process.value(), b"20267");
        let container = attr(AttrCode::CONTAINER, b"mybox");
        captured("00000015 00007011 00000000 0000000f 6d79626f 78", &Pdu::Attr(container.clone()));
        assert_eq!(container.value(), b"mybox");
        captured(
            "00000029 00007011 00000000 00000000 504c41494e204c4f47494e20534352414d2d5348412d323536",
            &Pdu::Attr(attr(AttrCode::SASL, b"PLAIN LOGIN SCRAM-SHA-256")),
        );
    }

    #[test]
    fn payloads_are_limited() {
        for (code, len, ok) in [(15, 4095, true), (15, 4096, false), (0, 2047, true), (0, 2048, false)] {
            let frame = body(kind::ATTR, &format!("{code:08x}{}", "61".repeat(len)));
            assert_eq!(Pdu::decode(&frame).is_ok(), ok, "{code} {len}");
            let attr = Attr { code: AttrCode(code), payload: vec![0x61; len].into() };
            assert_eq!(Pdu::Attr(attr).to_bytes(0).is_ok(), ok, "{code} {len}");
        }
        refused(&body(kind::ATTR, "000000"), 12, Problem::Truncated { field: "attr", need: 4, have: 3 });
    }

    proptest! {
        #[test]
        fn round_trips(code: i32, payload in prop::collection::vec(any::<u8>(), 0..2048)) {
            round_trip(&Pdu::Attr(Attr { code: AttrCode(code), payload: payload.into() }));
        }
    }
}

//! ERROR (`docs/pcp/wire.md` 4.1 and 6).
//!
//! ```text
//! 12 code i32 | 16 challenge u32, only in a server's first PDU
//! challenge := 0:1 version:7 licensed:8 features:16
//! ```

use bitflags::bitflags;

use super::codec::{Reader, Writer};
use super::fault::PduError;
use pcp_model::PmError;

const VERSION_SHIFT: u32 = 24;
const LICENSED_SHIFT: u32 = 16;

/// A server refuses a connection with its code in an older number space: shifted up by this much.
const REFUSAL_SHIFT: i32 = 11345;
/// Codes at or below this one are shifted when sent in a challenge.
const REFUSAL_SEND: i32 = -12345;
/// Codes at or below this one are shifted back when received in a challenge.
const REFUSAL_RECEIVE: i32 = -1000;

/// An ERROR PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorPdu {
    /// Negative: a [`PmError`]. Zero: success. Positive, before the reply to a fetch: [`StateChange`].
    pub code: i32,
    /// What the server can do; only in the PDU with which it greets a client.
    pub challenge: Option<Challenge>,
}

impl ErrorPdu {
    /// An error. Agents must never send [`PmError::IPC`] or [`PmError::TIMEOUT`] (`docs/pcp/agent.md` 5).
    pub const fn failure(error: PmError) -> ErrorPdu {
        ErrorPdu { code: error.0, challenge: None }
    }

    /// The acknowledgement of a store.
    pub const fn success() -> ErrorPdu {
        ErrorPdu { code: 0, challenge: None }
    }

    /// A notice that goes before the reply to a fetch.
    pub const fn state_change(change: StateChange) -> ErrorPdu {
        ErrorPdu { code: change.0 as i32, challenge: None }
    }

    /// The greeting of a server that lets the client in.
    pub const fn greeting(features: Features) -> ErrorPdu {
        let challenge = Challenge { version: super::PROTOCOL_VERSION, licensed: 1, features };
        ErrorPdu { code: 0, challenge: Some(challenge) }
    }

    /// The greeting of a server that turns the client away; it closes the connection then.
    pub const fn refusal(error: PmError) -> ErrorPdu {
        let code = if error.0 <= REFUSAL_SEND { error.0 + REFUSAL_SHIFT } else { error.0 };
        ErrorPdu { code, challenge: Some(Challenge { version: 0, licensed: 0, features: Features(0) }) }
    }

    /// What this PDU says as a client's first from a server: its features, or why it refuses.
    ///
    /// # Errors
    /// The server's refusal; [`PmError::IPC`] if this is not a greeting.
    pub const fn as_greeting(&self) -> Result<Challenge, PmError> {
        match self.challenge {
            _ if self.code <= REFUSAL_RECEIVE => Err(PmError(self.code.saturating_sub(REFUSAL_SHIFT))),
            _ if self.code < 0 => Err(PmError(self.code)),
            Some(challenge) => Ok(challenge),
            None => Err(PmError::IPC),
        }
    }

    /// The error, if it is one.
    pub const fn error(&self) -> Option<PmError> {
        if self.code < 0 { Some(PmError(self.code)) } else { None }
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<ErrorPdu, PduError> {
        let code = r.i32("code")?;
        let challenge = match r.remaining() {
            0 => None,
            _ => Some(Challenge::from_word(r.u32("challenge")?)),
        };
        r.finish()?;
        Ok(ErrorPdu { code, challenge })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.code);
        if let Some(challenge) = self.challenge {
            w.u32(challenge.to_word());
        }
    }
}

/// The second word of a server's greeting. Clients look at the features only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Protocol version, 7 bits.
    pub version: u8,
    /// Historic; 1.
    pub licensed: u8,
    /// What the server can do.
    pub features: Features,
}

impl Challenge {
    const fn from_word(word: u32) -> Challenge {
        Challenge {
            version: (word >> VERSION_SHIFT & 0x7f) as u8,
            licensed: (word >> LICENSED_SHIFT) as u8,
            features: Features(word as u16),
        }
    }

    const fn to_word(self) -> u32 {
        (self.version as u32 & 0x7f) << VERSION_SHIFT
            | (self.licensed as u32) << LICENSED_SHIFT
            | self.features.0 as u32
    }
}

/// Feature bits of a server's greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Features(pub u16);

bitflags! {
    impl Features: u16 {
        /// TLS is possible.
        const SECURE = 0x1;
        /// Historic.
        const COMPRESS = 0x2;
        /// SASL is possible.
        const AUTH = 0x4;
        /// SASL is required.
        const CREDS_REQD = 0x8;
        /// The start of TLS is acknowledged.
        const SECURE_ACK = 0x10;
        /// The container attribute is understood.
        const CONTAINER = 0x40;
        /// A client certificate is required.
        const CERT_REQD = 0x80;
        /// LABEL_REQ is understood.
        const LABELS = 0x200;
        /// HIGHRES_FETCH is understood.
        const HIGHRES = 0x400;
        /// DESC_IDS is understood.
        const DESCS = 0x800;
    }
}

/// What changed since a client's last fetch (a positive code in an ERROR PDU). The bits
/// [`StateChange::LABELS`] and [`StateChange::NAMES`] are also what an agent may put in the seconds of
/// its RESULT (`docs/pcp/agent.md` 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StateChange(pub u32);

bitflags! {
    impl StateChange: u32 {
        /// An agent was added.
        const ADD = 1;
        /// An agent was restarted.
        const RESTART = 2;
        /// An agent is gone.
        const DROP = 4;
        /// Labels changed.
        const LABELS = 8;
        /// The name space changed.
        const NAMES = 16;
        /// The host's name changed (from PCP 6.3).
        const HOSTNAME = 32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
    use crate::{Pdu, Problem, kind};

    #[test]
    fn captures() {
        let greeting = ErrorPdu::greeting(Features(0x0e44));
        captured("00000014 00007000 00000000 00000000 02010e44", &Pdu::Error(greeting));
        assert!(greeting.as_greeting().unwrap().features.contains(Features::LABELS.union(Features::DESCS)));
        let dropped = ErrorPdu::state_change(StateChange::DROP);
        captured("00000010 00007000 00000000 00000004", &Pdu::Error(dropped));
        captured("00000010 00007000 00000000 ffffcbaf", &Pdu::Error(ErrorPdu::failure(PmError::PMDAREADY)));
        let refusal = ErrorPdu::refusal(PmError::PERMISSION);
        captured("00000014 00007000 00000000 fffffbee 00000000", &Pdu::Error(refusal));
        assert_eq!(refusal.as_greeting(), Err(PmError::PERMISSION));
        assert_eq!(ErrorPdu::refusal(PmError::CONNLIMIT).code, 0xfffffbed_u32 as i32);
    }

    #[test]
    fn only_two_lengths_are_errors() {
        refused(&body(kind::ERROR, ""), 12, Problem::Truncated { field: "code", need: 4, have: 0 });
        refused(
            &body(kind::ERROR, "00000000 0201"),
            16,
            Problem::Truncated { field: "challenge", need: 4, have: 2 },
        );
        refused(&body(kind::ERROR, "00000000 00000000 00"), 20, Problem::Trailing { extra: 1 });
    }

    #[test]
    fn a_greeting_must_carry_a_challenge() {
        assert_eq!(ErrorPdu::success().as_greeting(), Err(PmError::IPC));
        assert_eq!(ErrorPdu::failure(PmError(-13)).as_greeting(), Err(PmError(-13)));
    }

    proptest! {
        #[test]
        fn round_trips(code: i32, word in prop::option::of(0..=0x7fff_ffff_u32)) {
            round_trip(&Pdu::Error(ErrorPdu { code, challenge: word.map(Challenge::from_word) }));
        }
    }
}

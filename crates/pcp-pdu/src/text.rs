//! TEXT_REQ and TEXT (`docs/pcp/wire.md` 13).
//!
//! ```text
//! TEXT_REQ  12 ident u32 | 16 type i32: 1 one line, 2 long; 4 metric, 8 instance domain
//! TEXT      12 ident u32 | 16 buflen i32 | 20 text~, without a NUL
//! ```

use super::codec::{ByteStr, Reader, Writer};
use super::fault::{EncodeError, PduError, Problem};
use pcp_model::{InDom, Pmid};

const ONELINE: i32 = 1;
const HELP: i32 = 2;
const PMID: i32 = 4;
const INDOM: i32 = 8;

/// What help text is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextTarget {
    /// A metric.
    Metric(Pmid),
    /// An instance domain.
    InDom(InDom),
}

impl TextTarget {
    /// The identifier as it travels.
    pub const fn ident(self) -> u32 {
        match self {
            TextTarget::Metric(pmid) => pmid.0,
            TextTarget::InDom(indom) => indom.0,
        }
    }
}

/// How much help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextLevel {
    /// One line.
    OneLine,
    /// All of it.
    Help,
}

/// Asks for help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextReq {
    /// About what.
    pub target: TextTarget,
    /// How much.
    pub level: TextLevel,
}

impl TextReq {
    /// Where a request sets both bits of a pair PCP takes the metric, and the one-line text.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<TextReq, PduError> {
        let ident = r.u32("ident")?;
        let bits = r.i32("type")?;
        let target = if bits & PMID != 0 {
            TextTarget::Metric(Pmid(ident))
        } else if bits & INDOM != 0 {
            TextTarget::InDom(InDom(ident))
        } else {
            return Err(r.error_before(Problem::TextTarget { value: bits }));
        };
        r.finish()?;
        let level = if bits & ONELINE != 0 { TextLevel::OneLine } else { TextLevel::Help };
        Ok(TextReq { target, level })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        let level = match self.level {
            TextLevel::OneLine => ONELINE,
            TextLevel::Help => HELP,
        };
        let target = match self.target {
            TextTarget::Metric(_) => PMID,
            TextTarget::InDom(_) => INDOM,
        };
        w.u32(self.target.ident());
        w.i32(level | target);
    }
}

/// Help text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPdu {
    /// What it is about, see [`TextTarget::ident`]. PCP's library sends it in the byte order of its
    /// machine and nobody reads it: neither should you.
    pub ident: u32,
    /// The text.
    pub text: ByteStr,
}

impl TextPdu {
    /// Any number of pad bytes may follow the text.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<TextPdu, PduError> {
        Ok(TextPdu { ident: r.u32("ident")?, text: r.padded("text")? })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.u32(self.ident);
        w.padded("text", &self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
    use crate::{Pdu, kind};
    use pcp_model::PmError;

    #[test]
    fn captures() {
        let metric = TextTarget::Metric(Pmid::new(29, 0, 0));
        captured(
            "00000014 00007008 00000000 07400000 00000005",
            &Pdu::TextReq(TextReq { target: metric, level: TextLevel::OneLine }),
        );
        let text = "A control variable for the \"sample\" PMDA";
        captured(
            "0000003c 00007009 00000000 00004007 00000028
             4120636f6e74726f6c207661726961626c6520666f7220746865202273616d706c652220504d4441",
            &Pdu::Text(TextPdu { ident: 0x4007, text: text.into() }),
        );
    }

    #[test]
    fn of_two_wishes_the_first_counts() {
        for (bits, target, level) in [
            (0xd, TextTarget::Metric(Pmid(5)), TextLevel::OneLine),
            (0x7, TextTarget::Metric(Pmid(5)), TextLevel::OneLine),
            (0x8, TextTarget::InDom(InDom(5)), TextLevel::Help),
            (0x1a, TextTarget::InDom(InDom(5)), TextLevel::Help),
        ] {
            let frame = body(kind::TEXT_REQ, &format!("00000005 {bits:08x}"));
            assert_eq!(Pdu::decode(&frame), Ok(Pdu::TextReq(TextReq { target, level })), "{bits:#x}");
        }
    }

    #[test]
    fn a_request_about_nothing_is_an_unknown_metric() {
        let frame = body(kind::TEXT_REQ, "00000005 00000001");
        refused(&frame, 16, Problem::TextTarget { value: 1 });
        assert_eq!(Pdu::decode(&frame).unwrap_err().pm_error(), PmError::PMID);
    }

    #[test]
    fn lengths() {
        refused(&body(kind::TEXT_REQ, "00000005 00000005 00000000"), 20, Problem::Trailing { extra: 4 });
        refused(
            &body(kind::TEXT, "00000005 00000005 41414141"),
            16,
            Problem::Count { field: "text", count: 5 },
        );
        for tail in ["00000005 4141414141", "00000005 4141414141 7e7e7e 7e7e7e7e"] {
            let frame = body(kind::TEXT, &format!("00000005 {tail}"));
            assert_eq!(Pdu::decode(&frame), Ok(Pdu::Text(TextPdu { ident: 5, text: "AAAAA".into() })));
        }
    }

    proptest! {
        #[test]
        fn round_trips(ident: u32, metric: bool, one_line: bool, text in ".{0,100}") {
            let target =
                if metric { TextTarget::Metric(Pmid(ident)) } else { TextTarget::InDom(InDom(ident)) };
            let level = if one_line { TextLevel::OneLine } else { TextLevel::Help };
            round_trip(&Pdu::TextReq(TextReq { target, level }));
            round_trip(&Pdu::Text(TextPdu { ident, text: text.into() }));
        }
    }
}

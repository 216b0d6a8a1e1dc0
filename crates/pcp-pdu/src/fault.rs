//! What can be wrong with a PDU: received ([`PduError`]) or to be sent ([`EncodeError`]).

use std::fmt;

use super::kind;
use pcp_model::{Inst, PmError, Pmid};

/// A frame that is not a PDU of its type: which type, where, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PduError {
    /// The type number of the frame.
    pub kind: u32,
    /// Offset of the field at fault, from the first byte of the PDU (the header counts).
    pub offset: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// No PDU has this type number, or none that is sent over a connection.
    UnknownType,
    /// The PDU ends before or within the field.
    Truncated {
        /// The field.
        field: &'static str,
        /// Bytes it takes.
        need: usize,
        /// Bytes left.
        have: usize,
    },
    /// Bytes are left behind the last field.
    Trailing {
        /// How many.
        extra: usize,
    },
    /// A count or length is negative, or promises more than the PDU holds or the protocol allows.
    Count {
        /// The field.
        field: &'static str,
        /// Its value.
        count: i32,
    },
    /// A field holds a value it cannot have.
    Value {
        /// The field.
        field: &'static str,
        /// The value.
        value: i32,
    },
    /// A label's type is none of the six levels.
    LabelType {
        /// The type as it came.
        value: i32,
    },
    /// A text request names neither a metric nor an instance domain.
    TextTarget {
        /// The type as it came.
        value: i32,
    },
    /// The value blocks of a result do not tile the space behind its value sets.
    Blocks {
        /// What is wrong with the block.
        what: &'static str,
    },
    /// The counts of an event array do not fit its bytes.
    EventArray {
        /// What does not fit.
        field: &'static str,
    },
    /// A label's name, value or JSON lies outside its place.
    Label {
        /// Which of them.
        field: &'static str,
    },
}

impl PduError {
    /// The code PCP answers with.
    pub const fn pm_error(&self) -> PmError {
        match self.problem {
            Problem::LabelType { .. } => PmError::TYPE,
            Problem::TextTarget { .. } => PmError::PMID,
            _ => PmError::IPC,
        }
    }
}

impl From<PduError> for PmError {
    fn from(error: PduError) -> PmError {
        error.pm_error()
    }
}

impl fmt::Display for PduError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind::name(self.kind) {
            Some(name) => write!(f, "{name} PDU, byte {}: ", self.offset)?,
            None => write!(f, "PDU {:#x}, byte {}: ", self.kind, self.offset)?,
        }
        match self.problem {
            Problem::UnknownType => write!(f, "unknown type"),
            Problem::Truncated { field, need, have } => {
                write!(f, "{field} takes {need} bytes, {have} are left")
            }
            Problem::Trailing { extra } => write!(f, "{extra} bytes too many"),
            Problem::Count { field, count } => write!(f, "{field} {count} does not fit"),
            Problem::Value { field, value } => write!(f, "{field} cannot be {value}"),
            Problem::LabelType { value } => write!(f, "label type {value:#x} is none of the six"),
            Problem::TextTarget { value } => {
                write!(f, "text type {value:#x} is neither for a metric nor for an instance domain")
            }
            Problem::Blocks { what } => write!(f, "value block {what}"),
            Problem::EventArray { field } => write!(f, "event array: {field} does not fit"),
            Problem::Label { field } => write!(f, "label: {field}, outside its place"),
        }
    }
}

impl std::error::Error for PduError {}

/// A PDU that the protocol cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// The type number of the PDU.
    pub kind: u32,
    /// Why it cannot be sent.
    pub reason: Unsendable,
}

/// Why something cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsendable {
    /// The whole PDU would be longer than the limit.
    TooLong {
        /// The limit, in bytes.
        max: usize,
    },
    /// A value is longer than its block's 24-bit length can say.
    ValueTooLong {
        /// The metric.
        pmid: Pmid,
        /// The instance.
        inst: Inst,
        /// Bytes of the block, header included.
        len: usize,
    },
    /// The values of one metric are partly in place, partly in blocks.
    MixedFormats {
        /// The metric.
        pmid: Pmid,
    },
    /// What was written as an event array is not one.
    NotAnEventArray {
        /// The metric.
        pmid: Pmid,
        /// The instance.
        inst: Inst,
    },
    /// What was to be copied as a value block is not one.
    NotABlock {
        /// The metric.
        pmid: Pmid,
        /// The instance.
        inst: Inst,
    },
    /// A field exceeds its limit.
    Limit {
        /// The field.
        field: &'static str,
        /// Its value.
        value: usize,
        /// The largest value allowed.
        max: usize,
    },
    /// A list that must not be empty is, or a name is.
    Empty {
        /// The field.
        field: &'static str,
    },
    /// An error code that is not negative where only errors can stand.
    NotAnError {
        /// The code.
        code: i32,
    },
    /// A label's name or value cannot stand in JSON text.
    BadLabel {
        /// What is wrong.
        what: &'static str,
    },
    /// A value outside a value set, or a value set inside another.
    Misuse {
        /// The call.
        call: &'static str,
    },
}

impl Unsendable {
    /// The code to report in place of what could not be sent.
    pub const fn pm_error(&self) -> PmError {
        match self {
            Unsendable::TooLong { .. } | Unsendable::ValueTooLong { .. } | Unsendable::Limit { .. } => {
                PmError::TOOBIG
            }
            Unsendable::Empty { .. } => PmError::TOOSMALL,
            Unsendable::MixedFormats { .. }
            | Unsendable::NotAnEventArray { .. }
            | Unsendable::NotABlock { .. } => PmError::CONV,
            Unsendable::BadLabel { .. } => PmError::LABEL,
            Unsendable::NotAnError { .. } | Unsendable::Misuse { .. } => PmError::BOTCH,
        }
    }
}

impl EncodeError {
    /// The code to report in place of what could not be sent.
    pub const fn pm_error(&self) -> PmError {
        self.reason.pm_error()
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} PDU cannot be sent: ", kind::name(self.kind).unwrap_or("unknown"))?;
        match self.reason {
            Unsendable::TooLong { max } => write!(f, "longer than {max} bytes"),
            Unsendable::ValueTooLong { pmid, inst, len } => {
                write!(f, "a value of {pmid}, instance {inst}, takes {len} bytes, at most 16777215 fit")
            }
            Unsendable::MixedFormats { pmid } => write!(f, "values of {pmid} differ in format"),
            Unsendable::NotAnEventArray { pmid, inst } => {
                write!(f, "the value of {pmid}, instance {inst}, is not a packed event array")
            }
            Unsendable::NotABlock { pmid, inst } => {
                write!(f, "the value of {pmid}, instance {inst}, is not a block")
            }
            Unsendable::Limit { field, value, max } => write!(f, "{field} is {value}, at most {max} fit"),
            Unsendable::Empty { field } => write!(f, "{field} is empty"),
            Unsendable::NotAnError { code } => write!(f, "{code} is not an error code"),
            Unsendable::BadLabel { what } => write!(f, "label with {what}"),
            Unsendable::Misuse { call } => write!(f, "{call} at the wrong time"),
        }
    }
}

impl std::error::Error for EncodeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pdu;
    use crate::codec::testing;

    #[test]
    fn errors_say_where_and_why() {
        let error =
            PduError { kind: 0x7001, offset: 20, problem: Problem::Count { field: "numpmid", count: -1 } };
        assert_eq!(error.to_string(), "RESULT PDU, byte 20: numpmid -1 does not fit");
        assert_eq!(PmError::from(error), PmError::IPC);
        let unknown = Pdu::decode(&testing::body(0x700b, "")).unwrap_err();
        assert_eq!(unknown.to_string(), "PDU 0x700b, byte 4: unknown type");
    }

    #[test]
    fn limits_and_mistakes_have_codes_of_their_own() {
        let error = |reason| EncodeError { kind: kind::RESULT, reason };
        let long = error(Unsendable::ValueTooLong { pmid: Pmid::new(29, 0, 1), inst: 3, len: 1 << 24 });
        assert_eq!(
            long.to_string(),
            "RESULT PDU cannot be sent: a value of 29.0.1, instance 3, takes 16777216 bytes, at most 16777215 fit"
        );
        assert_eq!(long.pm_error(), PmError::TOOBIG);
        assert_eq!(error(Unsendable::Misuse { call: "end_set" }).pm_error(), PmError::BOTCH);
    }
}

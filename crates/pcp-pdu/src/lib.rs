//! The PCP protocol, sans-I/O: bytes in, PDUs out, and back (`docs/pcp/wire.md`).
//!
//! [`FrameReader`] cuts a byte stream into [`Frame`]s, [`Pdu::decode`] turns a frame into a [`Pdu`],
//! [`Pdu::encode`] appends a PDU to an output buffer. One file holds one family of PDUs: the layout,
//! the type, `decode` and `encode` next to each other. What a peer may send us is judged as PCP 6.3.8
//! does, plus the tolerances of `docs/pcp/wire.md` 23; what we send is exact.
//!
//! **Invariants:** no sockets, no clocks, no agents here; only `model` is used. No count from the wire
//! is trusted before it is compared with the bytes that are there, so memory used by a decoded PDU is
//! bounded by a small multiple of its length. Names and values are slices of the frame, not copies.
//!
//! Hot path: an agent's answer to FETCH goes through [`ResultWriter`], which does not allocate once
//! its buffers have grown.

mod attr;
mod codec;
mod creds;
mod desc;
mod error;
mod events;
mod fault;
mod fetch;
mod fetched;
mod frame;
mod instance;
mod json;
pub mod kind;
mod label;
mod pmns;
mod profile;
mod result;
mod result_writer;
pub mod sets;
mod summary;
mod text;

use bytes::{Bytes, BytesMut};

use pcp_model::{Desc, Pmid};

pub use attr::{Attr, AttrCode};
pub use codec::{ByteStr, MAX_LEN};
pub use creds::{Cred, CredFlags, Creds, PROTOCOL_VERSION};
pub use error::{Challenge, ErrorPdu, Features, StateChange};
pub use fault::{EncodeError, PduError, Problem, Unsendable};
pub use fetch::Fetch;
pub use fetched::{Fetched, Selection};
pub use frame::{Frame, FrameError, FrameReader, HEADER_LEN};
pub use instance::{InstanceEntry, InstanceList, InstanceReq};
pub use label::{LabelPdu, LabelTarget, label_text};
pub use pmns::{NodeKind, PmnsChild, PmnsIds, PmnsNames};
pub use profile::ProfilePdu;
pub use result::{RawInstanceValue, RawValueSet, ResultKind, ResultPdu};
pub use result_writer::ResultWriter;
pub use sets::{
    Block, Layout, LayoutId, RawValue, Scan, SetRef, Sets, SetsError, SetsWriter, TypedRef, ValueRef,
    ValuesRef, Whole,
};
pub use text::{TextLevel, TextPdu, TextReq, TextTarget};

use codec::{Reader, Writer};

/// One message of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Pdu {
    /// An error, an acknowledgement, a state change notice, or a server's challenge.
    Error(ErrorPdu),
    /// Values, microsecond timestamp: the reply to FETCH; also a client's store request.
    Result(ResultPdu),
    /// Values, nanosecond timestamp: the reply to HIGHRES_FETCH.
    HighResResult(ResultPdu),
    /// The instance profile of a context. Not answered.
    Profile(ProfilePdu),
    /// Asks for values.
    Fetch(Fetch),
    /// Asks for values with a nanosecond timestamp.
    HighResFetch(Fetch),
    /// Asks for one descriptor.
    DescReq(Pmid),
    /// One descriptor.
    Desc(Desc),
    /// Asks for several descriptors.
    DescIds(Vec<Pmid>),
    /// Several descriptors in the order asked for; `None` where the lookup failed.
    Descs(Vec<Option<Desc>>),
    /// Asks for the instances of an instance domain.
    InstanceReq(InstanceReq),
    /// Instances of an instance domain.
    Instance(InstanceList),
    /// Asks for help text.
    TextReq(TextReq),
    /// Help text.
    Text(TextPdu),
    /// Version and wishes of a client, an agent, or pmcd towards an agent.
    Creds(Creds),
    /// Metric identifiers: the reply to PMNS_NAMES; also a request for their names.
    PmnsIds(PmnsIds),
    /// Metric names: a request for their identifiers; also a reply.
    PmnsNames(PmnsNames),
    /// Asks for the children of a name.
    PmnsChild(PmnsChild),
    /// Asks for all metrics at or below a name.
    PmnsTraverse(ByteStr),
    /// An attribute of a connection, or a step of authentication.
    Attr(Attr),
    /// Asks for labels.
    LabelReq(LabelTarget),
    /// Labels.
    Label(LabelPdu),
}

impl Pdu {
    /// Decodes a frame.
    ///
    /// # Errors
    /// What is wrong and at which byte; [`PduError::pm_error`] is the code to answer with.
    pub fn decode(frame: &Frame) -> Result<Pdu, PduError> {
        let mut r = Reader::new(frame);
        Ok(match frame.kind {
            kind::ERROR => Pdu::Error(ErrorPdu::decode(&mut r)?),
            kind::RESULT => Pdu::Result(ResultPdu::decode(frame, ResultKind::Micro)?),
            kind::HIGHRES_RESULT => Pdu::HighResResult(ResultPdu::decode(frame, ResultKind::HighRes)?),
            kind::PROFILE => Pdu::Profile(ProfilePdu::decode(&mut r)?),
            kind::FETCH => Pdu::Fetch(Fetch::decode(&mut r)?),
            kind::HIGHRES_FETCH => Pdu::HighResFetch(Fetch::decode(&mut r)?),
            kind::DESC_REQ => Pdu::DescReq(desc::decode_req(&mut r)?),
            kind::DESC => Pdu::Desc(desc::decode_desc(&mut r)?),
            kind::DESC_IDS => Pdu::DescIds(desc::decode_ids(&mut r)?),
            kind::DESCS => Pdu::Descs(desc::decode_descs(&mut r)?),
            kind::INSTANCE_REQ => Pdu::InstanceReq(InstanceReq::decode(&mut r)?),
            kind::INSTANCE => Pdu::Instance(InstanceList::decode(&mut r)?),
            kind::TEXT_REQ => Pdu::TextReq(TextReq::decode(&mut r)?),
            kind::TEXT => Pdu::Text(TextPdu::decode(&mut r)?),
            kind::CREDS => Pdu::Creds(Creds::decode(&mut r)?),
            kind::PMNS_IDS => Pdu::PmnsIds(PmnsIds::decode(&mut r)?),
            kind::PMNS_NAMES => Pdu::PmnsNames(PmnsNames::decode(&mut r)?),
            kind::PMNS_CHILD => Pdu::PmnsChild(PmnsChild::decode(&mut r)?),
            kind::PMNS_TRAVERSE => Pdu::PmnsTraverse(pmns::decode_traverse(&mut r)?),
            kind::ATTR => Pdu::Attr(Attr::decode(&mut r)?),
            kind::LABEL_REQ => Pdu::LabelReq(label::decode_req(&mut r)?),
            kind::LABEL => Pdu::Label(LabelPdu::decode(&mut r)?),
            kind => return Err(PduError { kind, offset: codec::KIND_OFFSET, problem: Problem::UnknownType }),
        })
    }

    /// Appends the PDU to `out`. `from` is the header's third word: the sender's process id in CREDS,
    /// a context or client slot in requests, 0 in replies.
    ///
    /// # Errors
    /// A value or the whole exceeds what the protocol can express; `out` is left as it was.
    pub fn encode(&self, from: i32, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut w = Writer::new(out, self.kind(), from);
        match self {
            Pdu::Error(pdu) => pdu.encode(&mut w),
            Pdu::Result(pdu) => pdu.encode(&mut w, ResultKind::Micro)?,
            Pdu::HighResResult(pdu) => pdu.encode(&mut w, ResultKind::HighRes)?,
            Pdu::Profile(pdu) => pdu.encode(&mut w)?,
            Pdu::Fetch(pdu) | Pdu::HighResFetch(pdu) => pdu.encode(&mut w)?,
            Pdu::DescReq(pmid) => w.u32(pmid.0),
            Pdu::Desc(desc) => desc::put_desc(&mut w, desc),
            Pdu::DescIds(ids) => desc::encode_ids(ids, &mut w)?,
            Pdu::Descs(descs) => desc::encode_descs(descs, &mut w)?,
            Pdu::InstanceReq(pdu) => pdu.encode(&mut w)?,
            Pdu::Instance(pdu) => pdu.encode(&mut w)?,
            Pdu::TextReq(pdu) => pdu.encode(&mut w),
            Pdu::Text(pdu) => pdu.encode(&mut w)?,
            Pdu::Creds(pdu) => pdu.encode(&mut w)?,
            Pdu::PmnsIds(pdu) => pdu.encode(&mut w)?,
            Pdu::PmnsNames(pdu) => pdu.encode(&mut w)?,
            Pdu::PmnsChild(pdu) => pdu.encode(&mut w)?,
            Pdu::PmnsTraverse(name) => pmns::encode_traverse(name, &mut w)?,
            Pdu::Attr(pdu) => pdu.encode(&mut w)?,
            Pdu::LabelReq(target) => label::encode_req(*target, &mut w),
            Pdu::Label(pdu) => pdu.encode(&mut w)?,
        }
        w.finish()
    }

    /// The PDU alone in a buffer of its own.
    ///
    /// # Errors
    /// As [`Pdu::encode`].
    pub fn to_bytes(&self, from: i32) -> Result<Bytes, EncodeError> {
        let mut out = BytesMut::new();
        self.encode(from, &mut out)?;
        Ok(out.freeze())
    }

    /// The type number, one of [`kind`].
    pub const fn kind(&self) -> u32 {
        match self {
            Pdu::Error(_) => kind::ERROR,
            Pdu::Result(_) => kind::RESULT,
            Pdu::HighResResult(_) => kind::HIGHRES_RESULT,
            Pdu::Profile(_) => kind::PROFILE,
            Pdu::Fetch(_) => kind::FETCH,
            Pdu::HighResFetch(_) => kind::HIGHRES_FETCH,
            Pdu::DescReq(_) => kind::DESC_REQ,
            Pdu::Desc(_) => kind::DESC,
            Pdu::DescIds(_) => kind::DESC_IDS,
            Pdu::Descs(_) => kind::DESCS,
            Pdu::InstanceReq(_) => kind::INSTANCE_REQ,
            Pdu::Instance(_) => kind::INSTANCE,
            Pdu::TextReq(_) => kind::TEXT_REQ,
            Pdu::Text(_) => kind::TEXT,
            Pdu::Creds(_) => kind::CREDS,
            Pdu::PmnsIds(_) => kind::PMNS_IDS,
            Pdu::PmnsNames(_) => kind::PMNS_NAMES,
            Pdu::PmnsChild(_) => kind::PMNS_CHILD,
            Pdu::PmnsTraverse(_) => kind::PMNS_TRAVERSE,
            Pdu::Attr(_) => kind::ATTR,
            Pdu::LabelReq(_) => kind::LABEL_REQ,
            Pdu::Label(_) => kind::LABEL,
        }
    }
}

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

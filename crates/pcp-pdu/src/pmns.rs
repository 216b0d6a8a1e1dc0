//! PMNS_IDS, PMNS_NAMES, PMNS_CHILD, PMNS_TRAVERSE (`docs/pcp/wire.md` 15).
//!
//! ```text
//! PMNS_IDS    12 sts i32 | 16 numids i32 | 20 numids x pmid u32
//! PMNS_NAMES  12 nstrbytes i32 | 16 numstatus i32 | 20 numnames i32
//!             24 numnames x { [status i32, if numstatus != 0] | namelen i32 | name~ }
//! PMNS_CHILD, PMNS_TRAVERSE  12 subtype i32 | 16 namelen i32 | 20 name~
//! ```

use super::codec::{ByteStr, Reader, Writer};
use super::fault::{EncodeError, PduError, Problem, Unsendable};
use pcp_model::{PmError, Pmid};

const PMID_LEN: usize = 4;
const STATUS_LEN: usize = 4;
/// A length word and the shortest name, unpadded.
const MIN_NAME_LEN: usize = 5;
const LEAF: i32 = 0;
const NON_LEAF: i32 = 1;

/// Identifiers: the reply to [`PmnsNames`]. As a request it asks for all names of one identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmnsIds {
    /// How many names were resolved; negative in place of an ERROR. 0 in a request.
    pub status: i32,
    /// The identifiers in the order asked for, [`Pmid::NULL`] for names that did not resolve.
    pub ids: Vec<Pmid>,
}

impl PmnsIds {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<PmnsIds, PduError> {
        let status = r.i32("sts")?;
        let count = r.count("numids", PMID_LEN)?;
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            ids.push(Pmid(r.u32("pmid")?));
        }
        r.finish()?;
        Ok(PmnsIds { status, ids })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.i32(self.status);
        w.count("numids", self.ids.len())?;
        self.ids.iter().for_each(|pmid| w.u32(pmid.0));
        Ok(())
    }
}

/// Whether a name is a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A metric.
    Leaf,
    /// A name with names below it.
    NonLeaf,
}

/// Names: a request for their identifiers, or the reply to any other request about the name space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmnsNames {
    /// Names; as a request, whole dotted names.
    Plain(Vec<ByteStr>),
    /// The reply to [`PmnsChild`] with `status`: last components, and which of them are metrics.
    /// Without any name it travels as `Plain`.
    WithStatus(Vec<(ByteStr, NodeKind)>),
    /// What pmcd sends when the agent of a dynamic subtree fails in PMNS_CHILD: a negative count.
    Failed(PmError),
}

impl PmnsNames {
    /// A negative count is taken for an error, bytes behind the last name are ignored (as in 6.3.8).
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<PmnsNames, PduError> {
        let pdu_len = r.pdu_len();
        let nstrbytes = r.i32("nstrbytes")?;
        let mut room = match usize::try_from(nstrbytes) {
            Ok(bytes) if bytes <= pdu_len => bytes,
            _ => return Err(r.error_before(Problem::Count { field: "nstrbytes", count: nstrbytes })),
        };
        let (numstatus, numstatus_place) = (r.i32("numstatus")?, r.place() - 4);
        let numnames = r.i32("numnames")?;
        let Ok(count) = usize::try_from(numnames) else {
            return Ok(PmnsNames::Failed(PmError(numnames)));
        };
        if numstatus != 0 && numstatus != numnames {
            return Err(r.error_at(numstatus_place, Problem::Count { field: "numstatus", count: numstatus }));
        }
        let with_status = numstatus != 0;
        let item = MIN_NAME_LEN + if with_status { STATUS_LEN } else { 0 };
        if count > r.remaining() / item {
            return Err(r.error_before(Problem::Count { field: "numnames", count: numnames }));
        }
        let mut name = |r: &mut Reader<'_>| {
            let place = r.place();
            let name = r.padded("name")?;
            // PCP takes an empty name unless it ends the PDU.
            let at_end = name.is_empty() && r.remaining() == 0;
            match room.checked_sub(name.len() + 1) {
                Some(left) if !at_end => {
                    room = left;
                    Ok(name)
                }
                _ => Err(r.error_at(place, Problem::Count { field: "namelen", count: name.len() as i32 })),
            }
        };
        if !with_status {
            let mut names = Vec::with_capacity(count);
            for _ in 0..count {
                names.push(name(r)?);
            }
            return Ok(PmnsNames::Plain(names));
        }
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            let kind = match r.i32("status")? {
                LEAF => NodeKind::Leaf,
                _ => NodeKind::NonLeaf,
            };
            names.push((name(r)?, kind));
        }
        Ok(PmnsNames::WithStatus(names))
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            PmnsNames::Plain(names) => {
                head(w, names.iter(), false)?;
                names.iter().try_for_each(|name| w.padded("name", name))
            }
            PmnsNames::WithStatus(names) => {
                head(w, names.iter().map(|(name, _)| name), true)?;
                for (name, kind) in names {
                    w.i32(match kind {
                        NodeKind::Leaf => LEAF,
                        NodeKind::NonLeaf => NON_LEAF,
                    });
                    w.padded("name", name)?;
                }
                Ok(())
            }
            PmnsNames::Failed(error) if error.0 < 0 => {
                w.i32(0);
                w.i32(0);
                w.i32(error.0);
                Ok(())
            }
            PmnsNames::Failed(error) => Err(w.error(Unsendable::NotAnError { code: error.0 })),
        }
    }
}

/// The three counts of a name list.
fn head<'n>(
    w: &mut Writer<'_>,
    names: impl ExactSizeIterator<Item = &'n ByteStr>,
    status: bool,
) -> Result<(), EncodeError> {
    let (count, mut strings) = (names.len(), 0);
    for name in names {
        if name.is_empty() {
            return Err(w.error(Unsendable::Empty { field: "name" }));
        }
        strings += name.len() + 1;
    }
    w.reserve(strings + count * (MIN_NAME_LEN + STATUS_LEN));
    w.count("nstrbytes", strings)?;
    w.count("numstatus", if status { count } else { 0 })?;
    w.count("numnames", count)
}

/// Asks for the children of a name: the last components of the names just below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmnsChild {
    /// The name; empty for the root.
    pub name: ByteStr,
    /// Whether to tell which children are metrics.
    pub status: bool,
}

impl PmnsChild {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<PmnsChild, PduError> {
        let subtype = r.i32("subtype")?;
        Ok(PmnsChild { name: r.padded("name")?, status: subtype != 0 })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.i32(i32::from(self.status));
        w.padded("name", &self.name)
    }
}

/// PMNS_TRAVERSE is a name; empty for the whole tree.
pub(super) fn decode_traverse(r: &mut Reader<'_>) -> Result<ByteStr, PduError> {
    r.i32("subtype")?;
    r.padded("name")
}

pub(super) fn encode_traverse(name: &ByteStr, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    w.i32(0);
    w.padded("name", name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
    use crate::{Pdu, kind};

    fn plain(names: &[&str]) -> Pdu {
        Pdu::PmnsNames(PmnsNames::Plain(names.iter().map(|&name| name.into()).collect()))
    }

    #[test]
    fn captures() {
        captured(
            "0000003c 0000700e 00000000 0000001b 00000000 00000002 0000000a 73616d70 6c652e62 696e7e7e
             0000000f 73616d70 6c652e6c 6f6e672e 6f6e657e",
            &plain(&["sample.bin", "sample.long.one"]),
        );
        captured(
            "0000001c 0000700d 00000000 00000002 00000002 07400006 0740000a",
            &Pdu::PmnsIds(PmnsIds { status: 2, ids: vec![Pmid(0x0740_0006), Pmid(0x0740_000a)] }),
        );
        captured(
            "00000024 0000700f 00000000 00000001 0000000d 73616d706c652e7365637265747e7e7e",
            &Pdu::PmnsChild(PmnsChild { name: "sample.secret".into(), status: true }),
        );
        captured(
            "00000030 0000700e 00000000 00000008 00000002 00000002
             00000001 00000003 666f6f7e 00000000 00000003 6261727e",
            &Pdu::PmnsNames(PmnsNames::WithStatus(vec![
                ("foo".into(), NodeKind::NonLeaf),
                ("bar".into(), NodeKind::Leaf),
            ])),
        );
        captured("00000018 0000700e 00000000 00000000 00000000 00000000", &plain(&[]));
        captured(
            "00000020 00007010 00000000 00000000 0000000a 73616d70 6c652e62 696e7e7e",
            &Pdu::PmnsTraverse("sample.bin".into()),
        );
        captured(
            "00000018 0000700e 00000000 00000000 00000000 ffffcfba",
            &Pdu::PmnsNames(PmnsNames::Failed(PmError::PMID)),
        );
    }

    #[test]
    fn name_lists_are_bounded_by_the_pdu() {
        let names = |text: &str| body(kind::PMNS_NAMES, text);
        let count = |field, count| Problem::Count { field, count };
        refused(&names("ffffffff 00000000 00000000"), 12, count("nstrbytes", -1));
        refused(&names("00000019 00000000 00000000"), 12, count("nstrbytes", 25));
        refused(&names("00000000 00000001 00000000"), 16, count("numstatus", 1));
        refused(&names("00000002 00000000 7fffffff 00000001 617e7e7e"), 20, count("numnames", i32::MAX));
        refused(&names("00000001 00000000 00000001 00000001 617e7e7e"), 24, count("namelen", 1));
        refused(&names("00000009 00000000 00000001 00000005 617e7e7e"), 24, count("name", 5));
        refused(&names("00000003 00000000 00000002 00000001 617e7e7e 00000000"), 32, count("namelen", 0));
        let frame = names("00000003 00000000 00000002 00000000 00000001 617e7e7e");
        assert_eq!(Pdu::decode(&frame), Ok(plain(&["", "a"])));
    }

    #[test]
    fn name_lists_may_have_room_and_a_tail() {
        for text in [
            "00000010 00000000 00000001 00000001 617e7e7e",
            "00000002 00000000 00000001 00000001 61",
            "00000002 00000000 00000001 00000001 617e7e7e deadbeef 00",
        ] {
            assert_eq!(Pdu::decode(&body(kind::PMNS_NAMES, text)), Ok(plain(&["a"])), "{text}");
        }
    }

    #[test]
    fn id_lists_have_exactly_their_ids() {
        let ids = |text: &str| body(kind::PMNS_IDS, text);
        refused(&ids("00000000 00000002 07400006"), 16, Problem::Count { field: "numids", count: 2 });
        refused(&ids("00000000 ffffffff"), 16, Problem::Count { field: "numids", count: -1 });
        refused(&ids("00000000 00000000 07400006"), 20, Problem::Trailing { extra: 4 });
    }

    #[test]
    fn any_subtype_asks_for_status() {
        let frame = body(kind::PMNS_CHILD, "00000007 00000001 61");
        assert_eq!(Pdu::decode(&frame), Ok(Pdu::PmnsChild(PmnsChild { name: "a".into(), status: true })));
    }

    proptest! {
        #[test]
        fn round_trips(
            names in prop::collection::vec(("[a-z.]{1,30}", any::<bool>()), 0..40),
            words in prop::collection::vec(any::<u32>(), 0..40),
            status: i32,
            name in "[a-z.]{0,30}",
            error in i32::MIN..0,
        ) {
            let with_status = names.iter().map(|(name, leaf)| {
                (name.as_str().into(), if *leaf { NodeKind::Leaf } else { NodeKind::NonLeaf })
            });
            if !names.is_empty() {
                round_trip(&Pdu::PmnsNames(PmnsNames::WithStatus(with_status.collect())));
            }
            let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
            round_trip(&plain(&names));
            round_trip(&Pdu::PmnsNames(PmnsNames::Failed(PmError(error))));
            round_trip(&Pdu::PmnsIds(PmnsIds { status, ids: words.into_iter().map(Pmid).collect() }));
            round_trip(&Pdu::PmnsChild(PmnsChild { name: name.as_str().into(), status: status < 0 }));
            round_trip(&Pdu::PmnsTraverse(name.into()));
        }
    }
}

//! DESC_REQ, DESC, DESC_IDS, DESCS (`docs/pcp/wire.md` 3.5 and 11).
//!
//! ```text
//! DESC_REQ  12 pmid u32
//! DESC      12 desc
//! DESC_IDS  12 sts i32 (-1) | 16 numids i32 | 20 numids x pmid u32
//! DESCS     12 numdescs i32 | 16 numdescs x desc
//! desc := pmid u32 | type i32 | indom u32 | sem i32 | units u32
//! ```

use super::codec::{Reader, Writer};
use super::fault::{EncodeError, PduError, Problem};
use pcp_model::{Desc, InDom, Pmid, Semantics, Units, ValueType};

const PMID_LEN: usize = 4;
const DESC_LEN: usize = 20;
/// What must stand in the status word of DESC_IDS.
const IDS_STATUS: i32 = -1;

pub(super) fn decode_req(r: &mut Reader<'_>) -> Result<Pmid, PduError> {
    let pmid = Pmid(r.u32("pmid")?);
    r.finish()?;
    Ok(pmid)
}

pub(super) fn decode_desc(r: &mut Reader<'_>) -> Result<Desc, PduError> {
    let desc = take_desc(r)?;
    r.finish()?;
    Ok(desc)
}

pub(super) fn decode_ids(r: &mut Reader<'_>) -> Result<Vec<Pmid>, PduError> {
    let status = r.i32("sts")?;
    if status != IDS_STATUS {
        return Err(r.error_before(Problem::Value { field: "sts", value: status }));
    }
    let count = r.count("numids", PMID_LEN)?;
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        ids.push(Pmid(r.u32("pmid")?));
    }
    r.finish()?;
    Ok(ids)
}

pub(super) fn encode_ids(ids: &[Pmid], w: &mut Writer<'_>) -> Result<(), EncodeError> {
    w.i32(IDS_STATUS);
    w.count("numids", ids.len())?;
    ids.iter().for_each(|pmid| w.u32(pmid.0));
    Ok(())
}

pub(super) fn decode_descs(r: &mut Reader<'_>) -> Result<Vec<Option<Desc>>, PduError> {
    let count = r.count("numdescs", DESC_LEN)?;
    let mut descs = Vec::with_capacity(count);
    for _ in 0..count {
        let desc = take_desc(r)?;
        descs.push((desc.pmid != Pmid::NULL).then_some(desc));
    }
    r.finish()?;
    Ok(descs)
}

pub(super) fn encode_descs(descs: &[Option<Desc>], w: &mut Writer<'_>) -> Result<(), EncodeError> {
    w.reserve(descs.len() * DESC_LEN);
    w.count("numdescs", descs.len())?;
    for desc in descs {
        match desc {
            Some(desc) => put_desc(w, desc),
            None => {
                w.u32(Pmid::NULL.0);
                w.bytes(&[0; DESC_LEN - PMID_LEN]);
            }
        }
    }
    Ok(())
}

pub(super) fn put_desc(w: &mut Writer<'_>, desc: &Desc) {
    w.u32(desc.pmid.0);
    w.i32(desc.value_type.code());
    w.u32(desc.indom.0);
    w.i32(desc.semantics.code());
    w.u32(desc.units.to_word());
}

/// Nobody checks an agent's semantics on the way to a client. An undefined number is read as INSTANT,
/// which no tool converts, rather than losing the descriptor (with DESCS: all of them) over it.
fn take_desc(r: &mut Reader<'_>) -> Result<Desc, PduError> {
    Ok(Desc {
        pmid: Pmid(r.u32("pmid")?),
        value_type: ValueType::from_code(r.i32("type")?),
        indom: InDom(r.u32("indom")?),
        semantics: Semantics::of_code(r.i32("sem")?),
        units: Units::from_word(r.u32("units")?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
    use crate::{Pdu, kind};

    fn bin() -> Desc {
        Desc {
            pmid: Pmid::new(29, 0, 6),
            value_type: ValueType::I32,
            indom: InDom::new(29, 2),
            semantics: Semantics::Instant,
            units: Units::NONE,
        }
    }

    #[test]
    fn captures() {
        captured("00000010 00007004 00000000 07400006", &Pdu::DescReq(Pmid::new(29, 0, 6)));
        captured(
            "00000020 00007005 00000000 07400006 00000000 07400002 00000003 00000000",
            &Pdu::Desc(bin()),
        );
        captured(
            "00000020 00007016 00000000 ffffffff 00000003 07400006 32000006 0740001f",
            &Pdu::DescIds(vec![Pmid::new(29, 0, 6), Pmid::new(200, 0, 6), Pmid::new(29, 0, 31)]),
        );
        let hullo =
            Desc { pmid: Pmid::new(29, 0, 31), value_type: ValueType::String, indom: InDom::NULL, ..bin() };
        captured(
            "0000004c 00007017 00000000 00000003
             07400006 00000000 07400002 00000003 00000000
             ffffffff 00000000 00000000 00000000 00000000
             0740001f 00000006 ffffffff 00000003 00000000",
            &Pdu::Descs(vec![Some(bin()), None, Some(hullo)]),
        );
    }

    #[test]
    fn lengths_must_be_exact() {
        refused(&body(kind::DESC_REQ, "07400006 00000000"), 16, Problem::Trailing { extra: 4 });
        refused(&body(kind::DESC_REQ, "0740"), 12, Problem::Truncated { field: "pmid", need: 4, have: 2 });
        refused(
            &body(kind::DESC, "07400006 00000000 07400002 00000003"),
            28,
            Problem::Truncated { field: "units", need: 4, have: 0 },
        );
        refused(&body(kind::DESC_IDS, "00000000 00000000"), 12, Problem::Value { field: "sts", value: 0 });
        refused(
            &body(kind::DESC_IDS, "ffffffff 00000002 07400006"),
            16,
            Problem::Count { field: "numids", count: 2 },
        );
        refused(&body(kind::DESC_IDS, "ffffffff 00000000 07400006"), 20, Problem::Trailing { extra: 4 });
        refused(&body(kind::DESCS, "7fffffff"), 12, Problem::Count { field: "numdescs", count: i32::MAX });
    }

    #[test]
    fn an_undefined_semantics_keeps_its_number() {
        let frame = body(kind::DESC, "07400006 00000000 07400002 00000000 00000000");
        assert_eq!(Pdu::decode(&frame), Ok(Pdu::Desc(Desc { semantics: Semantics::Other(0), ..bin() })));
    }

    fn arb_desc() -> impl Strategy<Value = Desc> {
        (0..0x7fff_ffff_u32, -1..=11, any::<u32>(), 0..=2, any::<u32>()).prop_map(
            |(pmid, code, indom, sem, units)| Desc {
                pmid: Pmid(pmid),
                value_type: ValueType::from_code(code),
                indom: InDom(indom),
                semantics: [Semantics::Counter, Semantics::Instant, Semantics::Discrete][sem as usize],
                units: Units::from_word(units),
            },
        )
    }

    proptest! {
        #[test]
        fn round_trips(
            desc in arb_desc(),
            ids in prop::collection::vec(any::<u32>(), 0..50),
            descs in prop::collection::vec(prop::option::of(arb_desc()), 0..50),
        ) {
            round_trip(&Pdu::DescReq(desc.pmid));
            round_trip(&Pdu::Desc(desc));
            round_trip(&Pdu::DescIds(ids.into_iter().map(Pmid).collect()));
            round_trip(&Pdu::Descs(descs));
        }
    }
}

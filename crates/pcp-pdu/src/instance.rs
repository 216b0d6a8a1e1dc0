//! INSTANCE_REQ and INSTANCE (`docs/pcp/wire.md` 12).
//!
//! ```text
//! INSTANCE_REQ  12 indom u32 | 16 zero (8, formerly a time) | 24 inst i32 | 28 namelen i32 | 32 name~
//! INSTANCE      12 indom u32 | 16 numinst i32 | 20 numinst x { inst i32 | namelen i32 | name~ }
//! ```

use super::codec::{ByteStr, Reader, Writer};
use super::fault::{EncodeError, PduError};
use pcp_model::{InDom, Inst, Instance, PM_IN_NULL};

const TIME_LEN: usize = 8;
/// An instance with an empty name.
const MIN_ENTRY_LEN: usize = 8;

/// Asks for all instances (`inst` [`PM_IN_NULL`], `name` empty), for the name of `inst`, or for the
/// identifier of `name`. Both given is [`pcp_model::PmError::INST`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceReq {
    /// The instance domain.
    pub indom: InDom,
    /// The instance to name, or [`PM_IN_NULL`].
    pub inst: Inst,
    /// The instance to identify, or empty.
    pub name: ByteStr,
}

impl InstanceReq {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<InstanceReq, PduError> {
        let indom = InDom(r.u32("indom")?);
        r.take("time", TIME_LEN)?;
        let inst = r.i32("inst")?;
        let name = r.padded("name")?;
        // Without a name PCP ignores what follows.
        if !name.is_empty() {
            r.finish()?;
        }
        Ok(InstanceReq { indom, inst, name })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.u32(self.indom.0);
        w.bytes(&[0; TIME_LEN]);
        w.i32(self.inst);
        w.padded("name", &self.name)
    }
}

/// Instances of an instance domain. Nothing ties it to its request but the order of PDUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceList {
    /// The instance domain.
    pub indom: InDom,
    /// The instances: all of them, or the one asked for.
    pub instances: Vec<InstanceEntry>,
}

/// An instance. In the answer to a request for one, what was known is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceEntry {
    /// The identifier; [`PM_IN_NULL`] if the request gave it.
    pub inst: Inst,
    /// The name; empty if the request gave it.
    pub name: ByteStr,
}

impl From<&Instance> for InstanceEntry {
    fn from(instance: &Instance) -> InstanceEntry {
        InstanceEntry { inst: instance.id, name: instance.name.as_str().into() }
    }
}

impl InstanceEntry {
    /// The answer to a request by identifier.
    pub fn named(name: impl Into<ByteStr>) -> InstanceEntry {
        InstanceEntry { inst: PM_IN_NULL, name: name.into() }
    }

    /// The answer to a request by name.
    pub fn identified(inst: Inst) -> InstanceEntry {
        InstanceEntry { inst, name: ByteStr::default() }
    }
}

impl InstanceList {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<InstanceList, PduError> {
        let indom = InDom(r.u32("indom")?);
        let count = r.count("numinst", MIN_ENTRY_LEN)?;
        let mut instances = Vec::with_capacity(count);
        for _ in 0..count {
            instances.push(InstanceEntry { inst: r.i32("inst")?, name: r.padded("name")? });
        }
        r.finish()?;
        Ok(InstanceList { indom, instances })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.u32(self.indom.0);
        w.count("numinst", self.instances.len())?;
        for entry in &self.instances {
            w.i32(entry.inst);
            w.padded("name", &entry.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
    use crate::{Pdu, Problem, kind};

    const COLOURS: InDom = InDom::new(29, 1);

    #[test]
    fn captures() {
        let req =
            |inst, name: &str| Pdu::InstanceReq(InstanceReq { indom: COLOURS, inst, name: name.into() });
        captured("00000020 00007006 00000000 07400001 00000000 00000000 ffffffff 00000000", &req(-1, ""));
        captured("00000020 00007006 00000000 07400001 00000000 00000000 00000001 00000000", &req(1, ""));
        captured(
            "00000028 00007006 00000000 07400001 00000000 00000000 ffffffff 00000005 67726565 6e7e7e7e",
            &req(-1, "green"),
        );
        let list = |instances| Pdu::Instance(InstanceList { indom: COLOURS, instances });
        let entry = |inst, name: &str| InstanceEntry { inst, name: name.into() };
        captured(
            "0000003c 00007007 00000000 07400001 00000003 00000000 00000003 7265647e
             00000001 00000005 67726565 6e7e7e7e 00000002 00000004 626c7565",
            &list(vec![entry(0, "red"), entry(1, "green"), entry(2, "blue")]),
        );
        captured(
            "00000024 00007007 00000000 07400001 00000001 ffffffff 00000005 67726565 6e7e7e7e",
            &list(vec![InstanceEntry::named("green")]),
        );
        captured(
            "0000001c 00007007 00000000 07400001 00000001 00000001 00000000",
            &list(vec![InstanceEntry::identified(1)]),
        );
    }

    #[test]
    fn the_last_name_may_lack_its_padding() {
        let frame = body(kind::INSTANCE, "07400001 00000001 00000001 00000005 67726565 6e");
        let Ok(Pdu::Instance(list)) = Pdu::decode(&frame) else { panic!("refused") };
        assert_eq!(list.instances[0].name, "green");
        let head = "07400001 00000000 00000000 ffffffff";
        for tail in ["00000005 67726565 6e", "00000005 67726565 6e7e", "00000000", "00000000 deadbeef"] {
            assert!(Pdu::decode(&body(kind::INSTANCE_REQ, &format!("{head} {tail}"))).is_ok(), "{tail}");
        }
    }

    #[test]
    fn names_must_fit() {
        let head = "07400001 00000000 00000000 ffffffff";
        let req = |tail: &str| body(kind::INSTANCE_REQ, &format!("{head} {tail}"));
        let namelen = |count| Problem::Count { field: "name", count };
        refused(&req("00000005 67726565"), 28, namelen(5));
        refused(&req("ffffffff"), 28, namelen(-1));
        refused(&req("00000004 67726565 6e6e6e6e"), 36, Problem::Trailing { extra: 4 });
        let list = |tail: &str| body(kind::INSTANCE, &format!("07400001 {tail}"));
        refused(&list("00000002 00000001 00000000"), 16, Problem::Count { field: "numinst", count: 2 });
        refused(&list("ffffffff"), 16, Problem::Count { field: "numinst", count: -1 });
        refused(&list("00000000 00000000"), 20, Problem::Trailing { extra: 4 });
    }

    proptest! {
        #[test]
        fn round_trips(indom: u32, inst: i32, names in prop::collection::vec((any::<i32>(), ".{0,20}"), 0..20)) {
            let name = names.first().map(|(_, name)| name.as_str().into()).unwrap_or_default();
            round_trip(&Pdu::InstanceReq(InstanceReq { indom: InDom(indom), inst, name }));
            let instances = names.into_iter().map(|(inst, name)| InstanceEntry { inst, name: name.into() });
            round_trip(&Pdu::Instance(InstanceList { indom: InDom(indom), instances: instances.collect() }));
        }
    }
}

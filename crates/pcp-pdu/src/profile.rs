//! PROFILE (`docs/pcp/wire.md` 9).
//!
//! ```text
//! 12 ctxid i32 | 16 g_state i32 | 20 numprof i32 | 24 pad 4 | 28 numprof x entry | all instance lists
//! entry := indom u32 | state i32 | numinst i32 | pad 4; list := numinst x inst i32
//! ```

use super::codec::{Reader, Writer};
use super::fault::{EncodeError, PduError, Problem};
use pcp_model::{InDom, IndomProfile, Profile, ProfileState};

const PAD_LEN: usize = 4;
const ENTRY_LEN: usize = 16;
const INST_LEN: usize = 4;
const STATE_INCLUDE: i32 = 0;
const STATE_EXCLUDE: i32 = 1;

/// The instance profile of one of a client's contexts. It is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfilePdu {
    /// The context; the client's own small number. Before a LABEL_REQ pmcd sends an agent a PROFILE
    /// with its client slot here (`docs/pcp/agent.md` 6).
    pub ctxid: i32,
    /// The profile, replacing the context's former one.
    pub profile: Profile,
}

impl ProfilePdu {
    /// With no entry, the pad word may be missing and anything may follow; otherwise the length is exact.
    /// State words other than INCLUDE count as EXCLUDE, as PCP has it.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<ProfilePdu, PduError> {
        let ctxid = r.i32("ctxid")?;
        let state = state(r.i32("g_state")?);
        let place = r.place();
        let numprof = r.i32("numprof")?;
        if numprof == 0 {
            return Ok(ProfilePdu { ctxid, profile: Profile { state, indoms: Vec::new() } });
        }
        let bad = r.error_at(place, Problem::Count { field: "numprof", count: numprof });
        let count = usize::try_from(numprof).map_err(|_| bad)?;
        r.take("pad", PAD_LEN)?;
        if count > r.remaining() / ENTRY_LEN {
            return Err(bad);
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let (indom, state) = (InDom(r.u32("indom")?), r.i32("state").map(self::state)?);
            let numinst = r.count("numinst", INST_LEN)?;
            r.take("pad", PAD_LEN)?;
            entries.push((indom, state, numinst));
        }
        let mut indoms = Vec::with_capacity(count);
        for (indom, state, numinst) in entries {
            let list = r.take("instances", numinst * INST_LEN)?;
            let instances = list.as_chunks::<INST_LEN>().0.iter().map(|&word| i32::from_be_bytes(word));
            indoms.push(IndomProfile { indom, state, instances: instances.collect() });
        }
        r.finish()?;
        Ok(ProfilePdu { ctxid, profile: Profile { state, indoms } })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let state = |state| match state {
            ProfileState::Include => STATE_INCLUDE,
            ProfileState::Exclude => STATE_EXCLUDE,
        };
        w.i32(self.ctxid);
        w.i32(state(self.profile.state));
        w.count("numprof", self.profile.indoms.len())?;
        w.bytes(&[0; PAD_LEN]);
        for entry in &self.profile.indoms {
            w.u32(entry.indom.0);
            w.i32(state(entry.state));
            w.count("numinst", entry.instances.len())?;
            w.bytes(&[0; PAD_LEN]);
        }
        self.profile.indoms.iter().flat_map(|entry| &entry.instances).for_each(|&inst| w.i32(inst));
        Ok(())
    }
}

fn state(word: i32) -> ProfileState {
    match word {
        STATE_INCLUDE => ProfileState::Include,
        _ => ProfileState::Exclude,
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
        let all = ProfilePdu { ctxid: 0, profile: Profile::default() };
        captured("0000001c 00007002 00000000 00000000 00000000 00000000 00000000", &Pdu::Profile(all));
        let only =
            IndomProfile { indom: InDom::new(29, 2), state: ProfileState::Exclude, instances: vec![100] };
        let profile = Profile { state: ProfileState::Exclude, indoms: vec![only] };
        captured(
            "00000030 00007002 00000007 00000003 00000001 00000001 00000000
             07400002 00000001 00000001 00000000 00000064",
            &Pdu::Profile(ProfilePdu { ctxid: 3, profile }),
        );
    }

    #[test]
    fn an_empty_profile_may_lack_its_pad_or_have_a_tail() {
        let all = Pdu::Profile(ProfilePdu { ctxid: 1, profile: Profile::default() });
        for tail in ["", "00", "00000000", "00000000 deadbeef"] {
            let frame = body(kind::PROFILE, &format!("00000001 00000000 00000000 {tail}"));
            assert_eq!(Pdu::decode(&frame).as_ref(), Ok(&all));
        }
    }

    #[test]
    fn with_entries_the_length_must_be_exact() {
        let profile = |rest: &str| body(kind::PROFILE, &format!("00000001 00000001 {rest}"));
        let entry = "07400002 00000001 00000001 00000000";
        let count = |field, count| Problem::Count { field, count };
        refused(&profile("ffffffff 00000000"), 20, count("numprof", -1));
        refused(&profile(&format!("00000002 00000000 {entry}")), 20, count("numprof", 2));
        refused(
            &profile(&format!("00000001 00000000 {entry}")),
            36 + 8,
            Problem::Truncated { field: "instances", need: 4, have: 0 },
        );
        refused(
            &profile(&format!("00000001 00000000 {entry} 00000064 00000064")),
            48,
            Problem::Trailing { extra: 4 },
        );
        refused(
            &profile("00000001 00000000 07400002 00000001 40000000 00000000"),
            36,
            count("numinst", 0x4000_0000),
        );
    }

    #[test]
    fn an_odd_state_excludes() {
        let frame = body(kind::PROFILE, "00000001 00000007 00000000 00000000");
        let Ok(Pdu::Profile(pdu)) = Pdu::decode(&frame) else { panic!("refused") };
        assert_eq!(pdu.profile.state, ProfileState::Exclude);
    }

    fn arb_state() -> impl Strategy<Value = ProfileState> {
        prop_oneof![Just(ProfileState::Include), Just(ProfileState::Exclude)]
    }

    proptest! {
        #[test]
        fn round_trips(
            ctxid: i32,
            state in arb_state(),
            entries in prop::collection::vec(
                (any::<u32>(), arb_state(), prop::collection::vec(any::<i32>(), 0..9)), 0..9),
        ) {
            let indoms = entries.into_iter().map(|(indom, state, instances)| {
                IndomProfile { indom: InDom(indom), state, instances }
            });
            let profile = Profile { state, indoms: indoms.collect() };
            round_trip(&Pdu::Profile(ProfilePdu { ctxid, profile }));
        }
    }
}

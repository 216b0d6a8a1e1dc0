//! What a source's log on disk counts along with its records: the tallies of deliveries, summed up over all lives of the agent.
//!
//! Keys are numbers in files: none changes its meaning, and new ones come at free places.

use jumpseat_log::{DELIVERED, LOST, State};
use pcp_model::Inst;

use crate::delivery::{Cause, Loss, Reason, Tallies};

const RECEIVED: u32 = 1;
const BYTES: u32 = 2;
const TRUNCATED: u32 = 3;
const FUTURE: u32 = 4;
const PAST: u32 = 5;
const LATE: u32 = 6;
const FOLDED: u32 = 7;
const REPEATED: u32 = 8;
const _: () = assert!(DELIVERED == 9);
/// And the causes behind it.
const DROPPED: u32 = 16;
/// And the reasons behind it.
const REJECTED: u32 = 32;
/// With the instance of a (source, event type) pair.
const TYPE: u32 = 1 << 31;

/// Sums since the source's log began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Records that were lost before they reached the log, or in it.
    pub missed: u64,
    /// Records that readers have had.
    pub delivered: u64,
    /// What deliveries told, but for the types; received without those that are missed.
    pub tallies: Tallies,
}

/// Puts down what a delivery adds to the sums.
pub(crate) fn put(tallies: &Tallies, missed: Option<Loss>, out: &mut Vec<(u32, u64)>) {
    out.clear();
    let lost_here = missed.map_or(0, |loss| loss.received);
    out.extend([
        (RECEIVED, tallies.received.saturating_sub(lost_here)),
        (BYTES, tallies.bytes),
        (TRUNCATED, tallies.truncated),
        (FUTURE, tallies.future),
        (PAST, tallies.past),
        (LATE, tallies.late),
        (FOLDED, tallies.folded),
        (REPEATED, tallies.repeated),
    ]);
    out.extend((DROPPED..).zip(tallies.dropped));
    out.extend((REJECTED..).zip(tallies.rejected));
    out.extend(tallies.types.iter().map(|(inst, count)| (TYPE | *inst as u32, *count)));
}

/// The sums of a log.
pub fn sums(state: &State) -> Sums {
    let mut tallies = Tallies {
        received: state.counter(RECEIVED),
        bytes: state.counter(BYTES),
        truncated: state.counter(TRUNCATED),
        future: state.counter(FUTURE),
        past: state.counter(PAST),
        late: state.counter(LATE),
        folded: state.counter(FOLDED),
        repeated: state.counter(REPEATED),
        ..Tallies::default()
    };
    for cause in Cause::ALL {
        tallies.dropped[cause as usize] = state.counter(DROPPED + cause as u32);
    }
    for reason in Reason::ALL {
        tallies.rejected[reason as usize] = state.counter(REJECTED + reason as u32);
    }
    Sums { missed: state.counter(LOST), delivered: state.counter(DELIVERED), tallies }
}

/// How many events of a (source, event type) pair there have been.
pub fn events(state: &State, event_type: Inst) -> u64 {
    state.counter(TYPE | event_type as u32)
}

#[cfg(test)]
mod tests {
    use pcp_model::Timestamp;

    use super::*;

    #[test]
    fn sums_are_what_was_put_down() {
        let mut tallies = Tallies { received: 7, bytes: 100, types: vec![(5, 4)], ..Tallies::default() };
        tallies.dropped[Cause::Sampled as usize] = 2;
        tallies.rejected[Reason::Unmatched as usize] = 3;
        let loss = Loss { count: 9, received: 2, time: Timestamp::default() };
        let (mut put_down, mut state) = (Vec::new(), State::default());
        put(&tallies, Some(loss), &mut put_down);
        state.change(&put_down, []);
        state.change(&put_down, []);
        let sums = sums(&state);
        assert_eq!((sums.tallies.received, sums.tallies.bytes), (10, 200));
        assert_eq!((sums.tallies.dropped, sums.tallies.rejected[Reason::Unmatched as usize]), ([0, 0, 4], 6));
        assert_eq!((events(&state, 5), events(&state, 6)), (8, 0));
    }
}

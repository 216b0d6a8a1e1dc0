//! What a file says in the end.

use std::sync::Arc;

use pcp_model::{Inst, Timestamp};
use pcp_pmda::Process;
use rustc_hash::FxHashMap;

use super::entry::{Context, Entry, Moved, Time};
use super::journal;

/// What there is of the clients of a pmcd.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// Whose clients these are.
    pub pmcd: Option<Process>,
    /// Texts of filters, by number.
    pub texts: FxHashMap<u64, Arc<str>>,
    /// By slot.
    pub contexts: FxHashMap<i32, Context>,
    /// Records of an answer of which nobody knows whether it was given. They are owed as missed.
    pub unsure: u64,
    /// Where in `contexts` each stream is.
    streams: FxHashMap<Inst, (i32, usize)>,
}

impl Replay {
    /// Reads the bytes of a file, as far as they are whole.
    pub(super) fn of(bytes: &[u8]) -> Replay {
        let mut replay = Replay::default();
        let mut leaving = None;
        for entry in journal::entries(bytes) {
            match entry {
                Entry::Leaving { time, moved } => leaving = Some((time, moved.into_owned())),
                Entry::Left => {
                    let (_, moved) = leaving.take().unwrap_or_default();
                    moved.into_iter().for_each(|after| replay.shift(after));
                }
                Entry::Pmcd { pid, started, boot } => {
                    replay.pmcd = Some(Process { pid, started, boot: boot.into_owned() });
                }
                Entry::Text { number, text } => _ = replay.texts.insert(number, text.into()),
                Entry::Context { slot, context } => replay.set(slot, context.into_owned()),
                Entry::Ended { slot } => replay.forget(slot),
            }
        }
        if let Some((time, moved)) = leaving {
            moved.iter().for_each(|after| replay.shift_unsurely(after, time));
        }
        replay
    }

    fn set(&mut self, slot: i32, context: Context) {
        self.forget(slot);
        let streams = context.streams.iter().enumerate();
        self.streams.extend(streams.map(|(at, stream)| (stream.at.inst, (slot, at))));
        self.contexts.insert(slot, context);
    }

    fn forget(&mut self, slot: i32) {
        for stream in self.contexts.remove(&slot).into_iter().flat_map(|context| context.streams) {
            self.streams.remove(&stream.at.inst);
        }
    }

    fn place(&mut self, inst: Inst) -> Option<&mut Moved> {
        let (slot, at) = self.streams.get(&inst)?;
        self.contexts.get_mut(slot)?.streams.get_mut(*at).map(|stream| &mut stream.at)
    }

    fn shift(&mut self, after: Moved) {
        if let Some(place) = self.place(after.inst) {
            *place = after;
        }
    }

    fn shift_unsurely(&mut self, after: &Moved, (sec, nsec): Time) {
        if let Some(place) = self.place(after.inst) {
            let (before, after_state) = (place.state(), after.state());
            let unsure = before.unsure(after_state, Timestamp { sec, nsec });
            *place = Moved::new(after.inst, after.epoch, &unsure);
            self.unsure += after_state.delivered.saturating_sub(before.delivered);
        }
    }
}

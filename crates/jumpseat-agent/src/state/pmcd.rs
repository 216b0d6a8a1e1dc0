//! The line to pmcd, as it concerns the state: its clients' contexts are taken up, and written down.

use pcp_pmda::PmcdEvent;

use super::State;
use super::streams::notes::Notes;

impl State {
    /// Something has happened to the line to pmcd.
    pub(crate) fn pmcd_event(&mut self, event: PmcdEvent<'_>) {
        let State { contexts, streams, sources, .. } = self;
        match event {
            PmcdEvent::Begun(pmcd) => {
                contexts.begin(pmcd);
                streams.reserve(contexts.saved.values(), &contexts.texts);
                contexts.make(&Notes::default(), streams, sources);
            }
            PmcdEvent::Client { client, slot, attributes } => {
                let saved = contexts.introduce(client, slot, attributes);
                streams.notes.keep(client);
                if let Some(saved) = saved {
                    let identity = attributes.identity();
                    streams.adopt((client, identity), &saved, &contexts.texts, sources, &self.fields);
                }
            }
            PmcdEvent::Ended(slot) => contexts.end(slot),
            PmcdEvent::Leaving => contexts.leaving(),
            PmcdEvent::Left => contexts.left(streams, sources),
            PmcdEvent::Lost => {
                contexts.forget();
                streams.notes = Notes::default();
            }
        }
    }

    /// An answer for pmcd is ready. Whether it is to be told of when that leaves.
    pub(crate) fn pmcd_answer(&mut self) -> bool {
        if self.streams.notes.is_empty() {
            return false;
        }
        let mut notes = std::mem::take(&mut self.streams.notes);
        let moves = self.contexts.answer(&notes, &self.streams, &self.sources);
        notes.clear();
        self.streams.notes = notes;
        moves
    }
}

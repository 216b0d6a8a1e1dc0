//! What pmcd's clients have here outlives the agent: cursors, filters, places and counters.
//!
//! ```text
//! fetch      streams are moved                                       Notes
//! answer     changed clients are written as a whole                  Context
//!            all of the answer leaves but its last byte
//!            where the streams are then is written                   Leaving
//!            the last byte leaves
//!            that is written                                         Left
//! ```
//!
//! An agent that is started by the same pmcd reads the file, and a client that is in the slot it was in, and is the same
//! process, goes on where it was when it asks next. An answer that was not whole was nobody's: its records come again. Of one
//! that was [leaving](Entry::Leaving) and had not [left](Entry::Left) nobody knows: its records count as missed.
//!
//! **Invariants:** a client's cursor is in the file before an answer that moves it can be whole. What cannot be written there
//! is not half there: the file is removed, and made anew when that can be done.
//!
//! **What cannot be known.** While there is no agent, pmcd tells nobody that clients leave. Another client in the same slot is
//! told by its process; where pmcd does not know that (over TCP), or where it is the same process with another
//! connection, it goes on as the one before: it may get records from before it came, and by the other's filter. Nothing is
//! repeated or lost by that.
//!
//! **Cost:** an answer without records costs one look; any other two writes into a file in memory and one more to pmcd.

pub(crate) mod entry;
mod journal;
mod replay;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use pcp_model::Inst;
use pcp_pmda::{Attributes, ClientId, Process};
use rustc_hash::{FxHashMap, FxHashSet};

use super::sources::Sources;
use super::streams::Streams;
use super::streams::notes::Notes;
use entry::{Context, Entry, Moved, Who, time};
use journal::Journal;
pub(crate) use journal::Place;
use replay::Replay;

/// How long to wait with the next try, after the file could not be written.
const AGAIN: Duration = Duration::from_secs(10);

/// What is kept of pmcd's clients.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    /// Where, if anywhere.
    place: Option<Place>,
    /// Whose clients they are, if that can be known.
    pmcd: Option<Process>,
    journal: Option<Journal>,
    /// When to try again to make the file, and why it could not be done.
    broken: Option<(Instant, String)>,
    /// Those who ask, with their slots.
    clients: FxHashMap<ClientId, (i32, Who)>,
    /// Those of the life before who have not asked yet, by slot, and the texts of their filters.
    pub(super) saved: FxHashMap<i32, Context>,
    pub(super) texts: FxHashMap<u64, Arc<str>>,
    /// What the file has: texts, and slots.
    written: FxHashSet<u64>,
    slots: FxHashSet<i32>,
    /// Where streams are when the answer that is leaving is given.
    moved: Vec<Moved>,
    /// Contexts of a life before that went on.
    resumed: u64,
    /// Records of answers of which nobody knows whether they were given.
    unsure: u64,
}

impl Contexts {
    /// To be kept there.
    pub(crate) fn at(place: Place) -> Contexts {
        Contexts { place: Some(place), ..Contexts::default() }
    }

    /// Where they are kept, or why they are not.
    pub(crate) fn state(&self) -> String {
        match (&self.place, &self.journal, &self.broken) {
            (Some(place), Some(_), _) => format!("kept in {}", place.path.display()),
            (_, _, Some((_, reason))) => format!("not kept: {reason}"),
            (Some(_), None, None) => "not kept: there is no pmcd, or nobody can know which".to_owned(),
            (None, ..) => "not kept: records are in memory only".to_owned(),
        }
    }

    /// Contexts of lives before that went on in this one.
    pub(crate) fn resumed(&self) -> u64 {
        self.resumed
    }

    /// Records that count as missed in them as nobody knows whether they were delivered.
    pub(crate) fn unsure(&self) -> u64 {
        self.unsure
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.journal.as_ref().map_or(0, Journal::len)
    }

    /// There is a line to this pmcd: takes up what there is of its clients.
    pub(super) fn begin(&mut self, pmcd: Option<Process>) {
        self.forget();
        self.pmcd = pmcd;
        let (Some(place), Some(pmcd)) = (&self.place, &self.pmcd) else { return };
        let found = place.read().map(|bytes| Replay::of(&bytes)).unwrap_or_else(|error| {
            tracing::warn!("{}: {error}; pmcd's clients begin anew", place.path.display());
            Replay::default()
        });
        if found.pmcd.as_ref() != Some(pmcd) {
            return;
        }
        if found.unsure > 0 {
            tracing::info!(records = found.unsure, "nobody knows whether the last answer was given: missed");
        }
        self.unsure += found.unsure;
        tracing::info!(
            contexts = found.contexts.len(),
            "under the same pmcd: its clients go on where they were"
        );
        (self.saved, self.texts) = (found.contexts, found.texts);
    }

    /// There is no line any more. The file stays.
    pub(super) fn forget(&mut self) {
        self.journal = None;
        self.broken = None;
        self.clients.clear();
        self.saved.clear();
        self.texts.clear();
        self.moved.clear();
    }

    /// A client asks for the first time. What it was in the life before, if it is the same.
    pub(super) fn introduce(
        &mut self,
        client: ClientId,
        slot: i32,
        attributes: &Attributes,
    ) -> Option<Context> {
        let who = Who::of(attributes);
        self.clients.insert(client, (slot, who));
        let saved = self.saved.remove(&slot)?;
        if saved.who != who {
            self.append(&Entry::Ended { slot });
            return None;
        }
        self.resumed += 1;
        Some(saved)
    }

    /// There is nobody in a slot any more.
    pub(super) fn end(&mut self, slot: i32) {
        self.saved.remove(&slot);
        self.clients.retain(|_, (of, _)| *of != slot);
        if self.slots.remove(&slot) {
            self.append(&Entry::Ended { slot });
        }
    }

    /// Writes down what has changed for an answer, but where that moves streams. Whether it does.
    pub(super) fn answer(&mut self, notes: &Notes, streams: &Streams, sources: &Sources) -> bool {
        self.moved.clear();
        let moved = notes.moved().filter_map(|inst| place_of(inst, streams, sources));
        self.moved.extend(moved);
        if self.journal.is_none() {
            return self.make(notes, streams, sources) && !self.moved.is_empty();
        }
        for client in notes.changed() {
            let Some(&(slot, who)) = self.clients.get(&client) else { continue };
            let Some(context) = streams.context(client, who, notes, sources) else { continue };
            for (number, text) in streams.texts(client) {
                if self.written.insert(number) {
                    self.append(&Entry::Text { number, text: Cow::Borrowed(&text) });
                }
            }
            self.slots.insert(slot);
            self.append(&Entry::Context { slot, context: Cow::Owned(context) });
        }
        self.journal.is_some() && !self.moved.is_empty()
    }

    /// An answer is about to be given.
    pub(super) fn leaving(&mut self) {
        let moved = std::mem::take(&mut self.moved);
        self.append(&Entry::Leaving { time: time(SystemTime::now().into()), moved: Cow::Borrowed(&moved) });
        self.moved = moved;
    }

    /// It has been given.
    pub(super) fn left(&mut self, streams: &Streams, sources: &Sources) {
        self.append(&Entry::Left);
        if self.journal.as_ref().is_some_and(Journal::is_long) {
            self.journal = None;
            self.make(&Notes::default(), streams, sources);
        }
    }

    /// Makes the file anew, with all there is. Whether there is one then.
    pub(super) fn make(&mut self, notes: &Notes, streams: &Streams, sources: &Sources) -> bool {
        let (Some(place), Some(Process { pid, started, boot })) = (&self.place, &self.pmcd) else {
            return false;
        };
        if self.broken.as_ref().is_some_and(|(again, _)| Instant::now() < *again) {
            return false;
        }
        let live = self.clients.iter().filter_map(|(client, (slot, who))| {
            let context = streams.context(*client, *who, notes, sources)?;
            Some((*slot, Cow::Owned(context)))
        });
        let live: Vec<_> = live.collect();
        let mut texts: FxHashMap<u64, Arc<str>> = self.texts.clone();
        texts.extend(self.clients.keys().flat_map(|client| streams.texts(*client)));
        let saved = self.saved.iter().map(|(slot, context)| (*slot, Cow::Borrowed(context)));
        let contexts: Vec<_> = saved.chain(live).collect();
        let (written, slots) =
            (texts.keys().copied().collect(), contexts.iter().map(|(slot, _)| *slot).collect());
        let first = Entry::Pmcd { pid: *pid, started: *started, boot: Cow::Borrowed(boot) };
        let texts =
            texts.iter().map(|(number, text)| Entry::Text { number: *number, text: Cow::Borrowed(text) });
        let contexts = contexts.into_iter().map(|(slot, context)| Entry::Context { slot, context });
        match place.begin(std::iter::once(first).chain(texts).chain(contexts)) {
            Ok(journal) => {
                if self.broken.take().is_some() {
                    tracing::info!("{}: pmcd's clients are kept there again", place.path.display());
                }
                (self.journal, self.written, self.slots) = (Some(journal), written, slots);
                true
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    fn append(&mut self, entry: &Entry<'_>) {
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.append(entry)
        {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.journal = None;
        let Some(place) = &self.place else { return };
        // What it says is not so any more.
        place.remove();
        let reason = format!("{}: {error}", place.path.display());
        if self.broken.is_none() {
            tracing::warn!(
                "{reason}: pmcd's clients would begin anew with the next agent; tried again later"
            );
        }
        self.broken = Some((Instant::now() + AGAIN, reason));
    }
}

/// Where a stream is, if its records are on disk.
fn place_of(inst: Inst, streams: &Streams, sources: &Sources) -> Option<Moved> {
    let stream = streams.get(inst)?;
    let source = sources.get(stream.source)?;
    let epoch = source.disk.as_ref()?.epoch();
    Some(Moved::new(inst, epoch, &source.log.cursor_state(stream.cursor)?))
}

//! What each client reads: a stream for each source and each of the two record metrics it fetches.
//!
//! **Cost:** finding a client's stream of a source, or the stream of an instance, is two hash look-ups, so
//! that neither a fetch nor `jumpseat.client` takes longer per stream the more there are. Filters take no
//! more than [`FILTER_BUDGET`] over all clients; equal texts are kept once.

mod context;
pub(crate) mod notes;
pub(crate) mod places;
mod starts;

use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use hashbrown::HashMap;
use rustc_hash::FxHashMap;

use pcp_event::ArrayKind;
use pcp_event::filter::{Filter, FilterError};
use pcp_event::log::CursorId;
use pcp_model::Inst;
use pcp_net::{Fill, Identity};
use pcp_pmda::{Attributes, ClientId, Instances};

use super::fields::Fields;
use super::source::Source;
use super::sources::Sources;
use notes::Notes;
use starts::Starts;

/// One client's place in one source's log.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Its instance in `jumpseat.client`.
    pub inst: Inst,
    /// The source it reads.
    pub source: Inst,
    /// The form it reads it in.
    pub kind: ArrayKind,
    /// Its place.
    pub cursor: CursorId,
    /// Its filter, if it ever had one.
    filter: Option<Arc<Stored>>,
    /// Whether its instance is there.
    is_shown: bool,
}

impl Stream {
    /// Text of the filter, empty for none.
    pub(crate) fn filter(&self) -> &str {
        self.filter.as_ref().map_or("", |stored| &stored.text)
    }
}

/// Most streams of all clients together.
const MAX_STREAMS: usize = 65_536;
/// Most memory for the filters of all clients, in bytes.
pub(crate) const FILTER_BUDGET: usize = 32 << 20;
/// Most of that for the filters that one user has stored; those whom nobody knows are one user.
const USER_BUDGET: usize = FILTER_BUDGET / 4;
/// Characters of a reason for refusing what a client stored.
const MAX_REFUSAL: usize = 256;
/// What each filter counts for at least, so that there cannot be too many of them.
const MIN_STORED: usize = 4 << 10;

/// A filter as a client wrote it, and what it means.
#[derive(Debug)]
struct Stored {
    /// Tells texts apart, in the file that keeps them.
    number: u64,
    text: Arc<str>,
    /// Who stored it first.
    user: Option<u32>,
    /// `None` lets everything pass.
    filter: Option<Arc<Filter>>,
}

impl Stored {
    fn memory(&self) -> usize {
        // The text is here and a key in the table of filters.
        (2 * self.text.len() + self.filter.as_ref().map_or(0, |filter| filter.memory())).max(MIN_STORED)
    }
}

/// Why a filter was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterRefused {
    /// It is not a filter.
    #[error(transparent)]
    Text(#[from] FilterError),
    /// There are too many.
    #[error("the filters of all clients take {FILTER_BUDGET} bytes already")]
    Full,
    /// This user has too many.
    #[error("the filters of {} take their share of {USER_BUDGET} bytes already", user_name(*.0))]
    UserFull(Option<u32>),
}

/// A filter that a client has stored. It holds for streams it may open later, too.
#[derive(Debug)]
struct FilterRule {
    kind: ArrayKind,
    /// For which source; `None` is every source without a filter of its own.
    source: Option<Inst>,
    stored: Arc<Stored>,
}

/// All streams of all clients.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The instance domain of streams. Instances go with their clients.
    pub names: Instances,
    /// What has to be written down of pmcd's clients.
    pub notes: Notes,
    by_client: FxHashMap<ClientId, Client>,
    /// The client of an instance, and its place among that client's streams.
    owner: FxHashMap<Inst, (ClientId, usize)>,
    last_inst: Inst,
    last_serial: u64,
    next_text: u64,
    /// Streams opened so far, those of them whose instances were shown, and those that were not opened because there were too
    /// many.
    opened: u64,
    shown: u64,
    refused: u64,
    /// Places of streams that are not open yet.
    starts: usize,
    filters: HashMap<Arc<str>, Weak<Stored>>,
    streams_fill: Fill,
    filters_fill: Fill,
}

#[derive(Debug, Default)]
struct Client {
    serial: u64,
    /// In the order they were opened; none goes before its client, or its source.
    streams: Vec<Stream>,
    by_source: FxHashMap<(Inst, ArrayKind), usize>,
    filters: Vec<FilterRule>,
    /// Where its streams begin that are not open yet.
    starts: Starts,
    /// Why what it stored last was refused.
    refusal: Option<Box<str>>,
    /// Who it is, as far as is known.
    identity: Identity,
    /// Its process, if that is known.
    pid: Option<i32>,
    /// The metrics of which it wanted all instances when it fetched them last.
    follows: Vec<ArrayKind>,
    /// The fetch in which it came for records of a form first, and whether it has come again.
    came: FxHashMap<ArrayKind, (u64, bool)>,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            names: Instances::in_memory(),
            notes: Notes::default(),
            by_client: FxHashMap::default(),
            owner: FxHashMap::default(),
            last_inst: first_number(),
            last_serial: first_number() as u64,
            next_text: 1,
            opened: 0,
            shown: 0,
            refused: 0,
            starts: 0,
            filters: HashMap::default(),
            streams_fill: Fill::default(),
            filters_fill: Fill::default(),
        }
    }
}

/// Instances and names of streams are not kept across restarts, yet must not mean another stream in an
/// archive that spans one. The numbers in both start at the seconds since 2020 and go up by one for each
/// stream and client: an agent would have to open more than one a second for all of its life to meet a number
/// again after a restart.
fn first_number() -> Inst {
    const YEAR_2020: u64 = 1_577_836_800;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    (now.saturating_sub(YEAR_2020) & 0x7fff_ffff) as Inst
}

impl Streams {
    /// The client's stream of a source, beginning at the log's end if this is the first time it asks. `None`: there are
    /// too many streams.
    pub(crate) fn open(
        &mut self,
        (client, kind): (ClientId, ArrayKind),
        source: Inst,
        Source { name, log, .. }: &mut Source,
        fields: &Fields,
    ) -> Option<&mut Stream> {
        let state = client_entry(&mut self.by_client, &mut self.last_serial, client);
        let (is_shown, serial) = (state.is_reader(kind), state.serial);
        if let Some(&at) = state.by_source.get(&(source, kind)) {
            // Found once more, as the compiler does not see that the rest is not reached.
            let stream = self.by_client.get_mut(&client)?.streams.get_mut(at)?;
            if is_shown && !stream.is_shown {
                stream.is_shown = true;
                self.shown += 1;
                show(&mut self.names, stream.inst, (serial, name, kind));
            }
            return Some(stream);
        }
        let refused = self.owner.len() >= MAX_STREAMS;
        if let Some(level) = self.streams_fill.news(self.owner.len(), MAX_STREAMS, refused) {
            let most = self.by_client.values().max_by_key(|client| client.streams.len());
            let (count, who) = most.map_or((0, None), |client| (client.streams.len(), client.identity.uid));
            tracing::warn!(
                "streams of records: {} ({MAX_STREAMS} of all clients); one client of {} has {count}",
                level.words(),
                user_name(who)
            );
        }
        if refused {
            self.refused += 1;
            return None;
        }
        let state = self.by_client.get_mut(&client)?;
        let cursor = log.join();
        let filter = state.filter_for(source, kind).map(|rule| Arc::clone(&rule.stored));
        if let Some(stored) = &filter {
            log.set_filter(cursor, stored.filter.clone(), fields);
        }
        if let Some(place) = state.starts.of(kind, source) {
            // A source that is new has none of the numbers it may have been told for all: its first is the nearest.
            let _ = log.seek(cursor, place);
        }
        // Never a negative one, which would mean no instance at all.
        self.last_inst = self.last_inst.checked_add(1).unwrap_or(0);
        let inst = self.last_inst;
        if is_shown {
            self.shown += 1;
            show(&mut self.names, inst, (serial, name, kind));
        }
        let at = state.streams.len();
        self.opened += 1;
        self.owner.insert(inst, (client, at));
        state.by_source.insert((source, kind), at);
        state.streams.push(Stream { inst, source, kind, cursor, filter, is_shown });
        self.notes.change(client);
        self.by_client.get_mut(&client)?.streams.get_mut(at)
    }

    /// Notes in which fetch a client comes for records, who it is, and whether it wants whatever sources there will be.
    pub(crate) fn follow(
        &mut self,
        (client, who, fetch): (ClientId, &Attributes, u64),
        kind: ArrayKind,
        all: bool,
    ) {
        let Client { follows, identity, pid, came, .. } =
            client_entry(&mut self.by_client, &mut self.last_serial, client);
        (*identity, *pid) = (who.identity(), who.pid);
        let (first, again) = came.entry(kind).or_insert((fetch, false));
        *again |= *first != fetch;
        if follows.contains(&kind) != all {
            if all {
                follows.push(kind)
            } else {
                follows.retain(|known| *known != kind)
            }
            self.notes.change(client);
        }
    }

    /// The number of the client that the stream of an instance is of, as names of instances have it, and its process.
    pub(crate) fn client_of(&self, inst: Inst) -> Option<(u64, Option<i32>)> {
        let client = self.by_client.get(&self.owner.get(&inst)?.0)?;
        Some((client.serial, client.pid))
    }

    /// Opens streams of a new source for those who follow all sources: its first records are for them, too.
    pub(crate) fn new_source(&mut self, inst: Inst, source: &mut Source, fields: &Fields) {
        // Not for those who may not read it, or it would keep records for nobody.
        let readers = self.by_client.iter().filter(|(_, state)| source.may_be_read_by(state.identity));
        let followers = readers.flat_map(|(client, state)| {
            let client = *client;
            state.follows.iter().map(move |kind| (client, *kind))
        });
        let mut followers: Vec<_> = followers.collect();
        // The order of a hash table must not decide which instance a stream gets.
        followers.sort_unstable_by_key(|(client, _)| *client);
        for (client, kind) in followers {
            self.open((client, kind), inst, source, fields);
        }
    }

    /// A source has given its place to a newcomer: its streams, filters and places go. One pass over all clients.
    pub(crate) fn source_gone(&mut self, source: Inst) {
        let mut gone = Vec::new();
        for (client, state) in &mut self.by_client {
            let before = (state.starts.len(), state.filters.len(), state.streams.len());
            state.starts.forget(source);
            state.filters.retain(|rule| rule.source != Some(source));
            let of_source = state.streams.iter().filter(|stream| stream.source == source);
            gone.extend(of_source.map(|stream| stream.inst));
            state.streams.retain(|stream| stream.source != source);
            let after = (state.starts.len(), state.filters.len(), state.streams.len());
            self.starts -= before.0 - after.0;
            if before == after {
                continue;
            }
            self.notes.change(*client);
            state.by_source.retain(|(of, _), _| *of != source);
            for (at, stream) in state.streams.iter().enumerate() {
                state.by_source.insert((stream.source, stream.kind), at);
                self.owner.insert(stream.inst, (*client, at));
            }
        }
        gone.sort_unstable();
        gone.iter().for_each(|inst| _ = self.owner.remove(inst));
        self.names.forget_all(&gone);
    }

    /// Remembers a client's filter for one of the two records metrics and one source (`None`: every source
    /// without a filter of its own), in place of those it replaces, and gives it to the streams that are open.
    ///
    /// # Errors
    /// [`FilterRefused`]; nothing has changed then.
    pub(crate) fn set_filter(
        &mut self,
        (client, user): (ClientId, Option<u32>),
        (kind, source): (ArrayKind, Option<Inst>),
        text: &str,
        sources: &mut Sources,
        fields: &Fields,
    ) -> Result<(), FilterRefused> {
        let stored = self.stored(text, user)?;
        let state = client_entry(&mut self.by_client, &mut self.last_serial, client);
        // One for all sources replaces those for single ones: who stores it means all.
        state.filters.retain(|old| old.kind != kind || source.is_some() && old.source != source);
        for stream in &mut state.streams {
            if stream.kind == kind && source.is_none_or(|source| source == stream.source) {
                stream.filter = Some(Arc::clone(&stored));
                if let Some(source) = sources.get_mut(stream.source) {
                    source.log.set_filter(stream.cursor, stored.filter.clone(), fields);
                }
            }
        }
        state.filters.push(FilterRule { kind, source, stored });
        self.notes.change(client);
        Ok(())
    }

    /// The filter of a text, shared with all who have stored the same.
    fn stored(&mut self, text: &str, user: Option<u32>) -> Result<Arc<Stored>, FilterRefused> {
        if let Some(stored) = self.filters.get(text).and_then(Weak::upgrade) {
            return Ok(stored);
        }
        let filter = Filter::parse(text)?.map(Arc::new);
        let stored = Arc::new(Stored { number: self.next_text, text: text.into(), user, filter });
        self.next_text += 1;
        // Only here, where a filter is new: those that nobody has any more need not be counted.
        self.filters.retain(|_, stored| stored.strong_count() > 0);
        let of_user = self.stored_now().filter(|stored| stored.user == user).map(|stored| stored.memory());
        if of_user.sum::<usize>() + stored.memory() > USER_BUDGET {
            return Err(FilterRefused::UserFull(user));
        }
        let memory = self.filter_memory() + stored.memory();
        let refused = memory > FILTER_BUDGET;
        if let Some(level) = self.filters_fill.news(memory, FILTER_BUDGET, refused) {
            let mut of_users: FxHashMap<Option<u32>, usize> = FxHashMap::default();
            self.stored_now().for_each(|stored| *of_users.entry(stored.user).or_default() += stored.memory());
            let (who, most) = of_users.into_iter().max_by_key(|(_, memory)| *memory).unwrap_or((user, 0));
            tracing::warn!(
                "memory for filters: {} ({FILTER_BUDGET} bytes for all clients); {most} are of {}",
                level.words(),
                user_name(who)
            );
        }
        if refused {
            return Err(FilterRefused::Full);
        }
        self.filters.insert(Arc::clone(&stored.text), Arc::downgrade(&stored));
        Ok(stored)
    }

    /// Bytes that the filters of all clients take at most.
    pub(crate) fn filter_memory(&self) -> usize {
        self.stored_now().map(|stored| stored.memory()).sum()
    }

    fn stored_now(&self) -> impl Iterator<Item = Arc<Stored>> {
        self.filters.values().filter_map(Weak::upgrade)
    }

    /// How many streams there are.
    pub(crate) fn count(&self) -> usize {
        self.owner.len()
    }

    /// How many could not be opened.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Changes whenever labels of streams do.
    pub(crate) fn label_generation(&self) -> u64 {
        self.opened + self.shown
    }

    /// The stream of an instance.
    pub(crate) fn get(&self, inst: Inst) -> Option<&Stream> {
        let (client, at) = self.owner.get(&inst)?;
        self.by_client.get(client)?.streams.get(*at)
    }

    /// The client's stream of a source, if it has one.
    #[cfg(test)]
    pub(crate) fn find(&self, client: ClientId, source: Inst, kind: ArrayKind) -> Option<&Stream> {
        let client = self.by_client.get(&client)?;
        client.streams.get(*client.by_source.get(&(source, kind))?)
    }

    /// Remembers why what a client has stored was refused: the protocol has a number for it, and no words.
    pub(crate) fn refuse(&mut self, client: ClientId, reason: &str) {
        // No longer than a line: what was stored may be part of it.
        let reason = reason.chars().take(MAX_REFUSAL).collect::<String>();
        client_entry(&mut self.by_client, &mut self.last_serial, client).refusal = Some(reason.into());
    }

    /// Why what a client stored last was refused.
    pub(crate) fn refusal(&self, client: ClientId) -> Option<&str> {
        self.by_client.get(&client)?.refusal.as_deref()
    }

    /// Forgets a client and gives up its places.
    pub(crate) fn end(&mut self, client: ClientId, sources: &mut Sources) {
        self.notes.end(client);
        let Some(state) = self.by_client.remove(&client) else { return };
        self.starts -= state.starts.len();
        let mut insts: Vec<Inst> = state.streams.iter().map(|stream| stream.inst).collect();
        insts.sort_unstable();
        // All in one pass: a client with many streams, and many such clients, must not hold up the others.
        self.names.forget_all(&insts);
        for stream in state.streams {
            self.owner.remove(&stream.inst);
            if let Some(source) = sources.get_mut(stream.source) {
                source.log.leave(stream.cursor);
            }
        }
    }
}

impl Client {
    /// Whether it reads records of a form: it has come for them again, or has said what it wants of them. Who comes once
    /// for everything that there is, and is gone, is not one: its streams have no instances, which would only come and go.
    fn is_reader(&self, kind: ArrayKind) -> bool {
        self.came.get(&kind).is_some_and(|(_, again)| *again)
            || self.filters.iter().any(|rule| rule.kind == kind)
            || self.starts.iter().any(|(of, ..)| of == kind)
    }

    /// The one for the source itself, else the one for all.
    fn filter_for(&self, source: Inst, kind: ArrayKind) -> Option<&FilterRule> {
        let of_kind = || self.filters.iter().filter(|rule| rule.kind == kind);
        of_kind()
            .find(|rule| rule.source == Some(source))
            .or_else(|| of_kind().find(|rule| rule.source.is_none()))
    }
}

/// Makes the instance of a client's stream of a source.
fn show(names: &mut Instances, inst: Inst, (serial, source, kind): (u64, &str, ArrayKind)) {
    // The serial makes the name new and the counter the id; a stream whose instance were refused
    // all the same would only be missing from jumpseat.client.
    let _ = names.add_as(inst, &format!("{serial}/{source}/{}", kind_word(kind)));
}

fn client_entry<'a>(
    by_client: &'a mut FxHashMap<ClientId, Client>,
    last_serial: &mut u64,
    client: ClientId,
) -> &'a mut Client {
    by_client.entry(client).or_insert_with(|| {
        *last_serial += 1;
        Client { serial: *last_serial, ..Client::default() }
    })
}

pub(crate) fn user_name(user: Option<u32>) -> String {
    user.map_or_else(|| "clients without a known user".to_owned(), |uid| format!("user {uid}"))
}

/// The last component of the metric that gives a stream.
pub(crate) fn kind_word(kind: ArrayKind) -> &'static str {
    match kind {
        ArrayKind::Event => "records",
        ArrayKind::HighRes => "highres_records",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_all_the_memory_for_filters() {
        let mut streams = Streams::default();
        let costly = |n: usize| vec![format!("text =~ 'a{n}[ab]{{10}}[^ab]'"); 4].join(" || ");
        let mut kept = Vec::new();
        let refused = (0..1000).find_map(|n| match streams.stored(&costly(n), Some(7)) {
            Ok(stored) => {
                kept.push(stored);
                None
            }
            Err(refused) => Some(refused.to_string()),
        });
        assert_eq!(
            refused.as_deref(),
            Some("the filters of user 7 take their share of 8388608 bytes already")
        );
        assert!(streams.stored(&costly(2000), Some(8)).is_ok());
        assert!(streams.stored(&costly(0), Some(7)).is_ok(), "it is there already");
    }
}

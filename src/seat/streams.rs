//! What each client reads: a stream for each source and each of the two record metrics it fetches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustc_hash::FxHashMap;

use crate::agent::{ClientId, Instances};
use crate::event::ArrayKind;
use crate::event::filter::Filter;
use crate::event::log::{CursorId, EventLog};
use crate::model::Inst;

use super::fields::Fields;
use super::state::Source;

/// One client's place in one source's log.
#[derive(Debug)]
pub struct Stream {
    /// Its instance in `jumpseat.client`.
    pub inst: Inst,
    /// The source it reads.
    pub source: Inst,
    /// The form it reads it in.
    pub kind: ArrayKind,
    /// Its place.
    pub cursor: CursorId,
    /// Text of the filter, empty for none.
    pub filter: String,
}

/// A filter that a client has stored. It holds for streams it may open later, too.
#[derive(Clone, Debug)]
pub struct Wish {
    /// For which of the two records metrics.
    pub kind: ArrayKind,
    /// For which source; `None` is every source without a wish of its own.
    pub source: Option<Inst>,
    /// The filter as the client wrote it.
    pub text: String,
    /// What it means; `None` lets everything pass.
    pub filter: Option<Arc<Filter>>,
}

/// All streams of all clients.
#[derive(Debug)]
pub struct Streams {
    /// The instance domain of streams. Instances go with their clients.
    pub names: Instances,
    by_client: FxHashMap<ClientId, Client>,
    owner: FxHashMap<Inst, ClientId>,
    last_inst: Inst,
    clients_seen: u64,
}

#[derive(Debug, Default)]
struct Client {
    serial: u64,
    streams: Vec<Stream>,
    wishes: Vec<Wish>,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            names: Instances::in_memory(),
            by_client: FxHashMap::default(),
            owner: FxHashMap::default(),
            last_inst: first_instance(),
            clients_seen: 0,
        }
    }
}

/// Stream instances are not kept across restarts, yet must not mean another stream in an archive that
/// spans one. They start at the seconds since 2020 and go up by one for each stream: an agent would
/// have to open a stream each second for all of its life to meet a number again after a restart.
fn first_instance() -> Inst {
    const YEAR_2020: u64 = 1_577_836_800;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    (now.saturating_sub(YEAR_2020) & 0x7fff_ffff) as Inst
}

impl Streams {
    /// The client's stream of `source`, beginning at the log's end if this is the first time it asks.
    pub fn open(
        &mut self,
        client: ClientId,
        source: Inst,
        source_name: &str,
        kind: ArrayKind,
        log: &mut EventLog,
        fields: &Fields,
    ) -> &mut Stream {
        let state = client_entry(&mut self.by_client, &mut self.clients_seen, client);
        if let Some(at) = state.streams.iter().position(|s| s.source == source && s.kind == kind) {
            return &mut state.streams[at];
        }
        let cursor = log.join();
        let mut filter = String::new();
        if let Some(wish) = state.wish(source, kind) {
            filter = wish.text.clone();
            log.set_filter(cursor, wish.filter.clone(), fields);
        }
        self.last_inst = self.last_inst.checked_add(1).unwrap_or(0);
        let inst = self.last_inst;
        let name = format!("{}/{source_name}/{}", state.serial, kind_word(kind));
        // The serial makes the name new and the counter the id; a stream whose instance were refused
        // all the same would only be missing from jumpseat.client.
        let _ = self.names.add_as(inst, &name);
        self.owner.insert(inst, client);
        state.streams.push(Stream { inst, source, kind, cursor, filter });
        let last = state.streams.len() - 1;
        &mut state.streams[last]
    }

    /// Remembers a client's filter, in place of those it replaces, and gives it to the streams that are open.
    pub fn set_filter(
        &mut self,
        client: ClientId,
        wish: Wish,
        sources: &mut BTreeMap<Inst, Source>,
        fields: &Fields,
    ) {
        let state = client_entry(&mut self.by_client, &mut self.clients_seen, client);
        state
            .wishes
            .retain(|old| old.kind != wish.kind || wish.source.is_some() && old.source != wish.source);
        for stream in &mut state.streams {
            if stream.kind == wish.kind && wish.source.is_none_or(|source| source == stream.source) {
                stream.filter.clone_from(&wish.text);
                if let Some(Source { log, .. }) = sources.get_mut(&stream.source) {
                    log.set_filter(stream.cursor, wish.filter.clone(), fields);
                }
            }
        }
        state.wishes.push(wish);
    }

    /// The stream of an instance.
    pub fn get(&self, inst: Inst) -> Option<&Stream> {
        let client = self.owner.get(&inst)?;
        self.by_client.get(client)?.streams.iter().find(|s| s.inst == inst)
    }

    /// Forgets a client and gives up its places.
    pub fn end(&mut self, client: ClientId, sources: &mut BTreeMap<Inst, Source>) {
        let Some(state) = self.by_client.remove(&client) else { return };
        for stream in state.streams {
            self.owner.remove(&stream.inst);
            self.names.forget(stream.inst);
            if let Some(Source { log, .. }) = sources.get_mut(&stream.source) {
                log.leave(stream.cursor);
            }
        }
    }
}

impl Client {
    fn wish(&self, source: Inst, kind: ArrayKind) -> Option<&Wish> {
        let of_kind = || self.wishes.iter().filter(|w| w.kind == kind);
        of_kind().find(|w| w.source == Some(source)).or_else(|| of_kind().find(|w| w.source.is_none()))
    }
}

fn client_entry<'a>(
    by_client: &'a mut FxHashMap<ClientId, Client>,
    seen: &mut u64,
    client: ClientId,
) -> &'a mut Client {
    by_client.entry(client).or_insert_with(|| {
        *seen += 1;
        Client { serial: *seen, ..Client::default() }
    })
}

/// The last component of the metric that gives a stream.
pub fn kind_word(kind: ArrayKind) -> &'static str {
    match kind {
        ArrayKind::Event => "records",
        ArrayKind::HighRes => "highres_records",
    }
}

//! A client's streams, filters and places as they are kept, and taken up again.

use std::sync::Arc;

use pcp_event::ArrayKind;
use pcp_event::log::{CursorState, Place};
use pcp_model::Inst;
use pcp_net::Identity;
use pcp_pmda::ClientId;
use rustc_hash::FxHashMap;

use super::notes::Notes;
use super::{Client, FilterRule, MAX_STREAMS, Stream, Streams, client_entry, show};
use crate::state::contexts::entry::{Context, FilterOf, Form, Moved, StreamOf, Who};
use crate::state::fields::Fields;
use crate::state::source::Source;
use crate::state::sources::Sources;

impl Streams {
    /// What there is of a client, as it was before what the notes say of an answer. `None`: nothing.
    pub(crate) fn context(
        &self,
        client: ClientId,
        who: Who,
        notes: &Notes,
        sources: &Sources,
    ) -> Option<Context> {
        let client = self.by_client.get(&client)?;
        let stream = |stream: &Stream| {
            let Source { log, disk, .. } = sources.get(stream.source)?;
            // Where records are in memory only, nothing can be gone on with.
            let epoch = disk.as_ref()?.epoch();
            let state = notes.before(stream.inst).or_else(|| log.cursor_state(stream.cursor))?;
            let at = Moved::new(stream.inst, epoch, &state);
            Some(StreamOf { source: stream.source, form: stream.kind.into(), at })
        };
        let filter = |rule: &FilterRule| FilterOf {
            form: rule.kind.into(),
            source: rule.source,
            text: rule.stored.number,
        };
        Some(Context {
            who,
            serial: client.serial,
            follows: client.follows.iter().copied().map(Form::from).collect(),
            filters: client.filters.iter().map(filter).collect(),
            starts: client
                .starts
                .iter()
                .map(|(kind, source, place)| (kind.into(), source, place.into()))
                .collect(),
            streams: client.streams.iter().filter_map(stream).collect(),
        })
    }

    /// The texts of a client's filters, by number.
    pub(crate) fn texts(&self, client: ClientId) -> impl Iterator<Item = (u64, Arc<str>)> {
        let rules = self.by_client.get(&client).into_iter().flat_map(|client| &client.filters);
        rules.map(|rule| (rule.stored.number, Arc::clone(&rule.stored.text)))
    }

    /// Has nobody be given a number that one of these has, who may come to take it up.
    pub(crate) fn reserve<'a>(
        &mut self,
        contexts: impl Iterator<Item = &'a Context>,
        texts: &FxHashMap<u64, Arc<str>>,
    ) {
        let last_text = texts.keys().copied().max().unwrap_or(0);
        self.next_text = self.next_text.max(last_text.saturating_add(1));
        for context in contexts {
            self.last_serial = self.last_serial.max(context.serial);
            let last = context.streams.iter().map(|stream| stream.at.inst).max();
            self.last_inst = self.last_inst.max(last.unwrap_or(0));
        }
    }

    /// A client goes on as what it was: `texts` are those of its filters.
    pub(crate) fn adopt(
        &mut self,
        (client, identity): (ClientId, Identity),
        context: &Context,
        texts: &FxHashMap<u64, Arc<str>>,
        sources: &mut Sources,
        fields: &Fields,
    ) {
        let filters = context.filters.iter().filter_map(|rule| {
            let stored = self.stored(texts.get(&rule.text)?, identity.uid);
            let stored =
                stored.inspect_err(|error| tracing::warn!("a client goes on without its filter: {error}"));
            Some(FilterRule { kind: rule.form.into(), source: rule.source, stored: stored.ok()? })
        });
        let filters: Vec<_> = filters.collect();
        let starts = MAX_STREAMS.saturating_sub(self.starts);
        let state = client_entry(&mut self.by_client, &mut self.last_serial, client);
        (state.serial, state.identity, state.filters) = (context.serial, identity, filters);
        // It comes again.
        state.came =
            [ArrayKind::Event, ArrayKind::HighRes].map(|kind| (kind, (0, true))).into_iter().collect();
        state.follows = context.follows.iter().map(|form| ArrayKind::from(*form)).collect();
        for &(form, source, spot) in context.starts.iter().take(starts) {
            state.starts.set(form.into(), source, spot.into());
        }
        self.starts += state.starts.len();
        for stream in &context.streams {
            if let Some(source) = sources.get_mut(stream.source).filter(|of| of.may_be_read_by(identity)) {
                self.go_on(client, stream, source, fields);
            }
        }
        // Sources that came when there was nobody to follow them.
        let follows = self.by_client.get(&client).map(|client| client.follows.clone()).unwrap_or_default();
        for (inst, source) in sources.iter_mut().filter(|(_, source)| source.may_be_read_by(identity)) {
            for &kind in &follows {
                self.open_at_oldest((client, kind), *inst, source, fields);
            }
        }
        self.notes.change(client);
    }

    /// Opens a stream where it was.
    fn go_on(&mut self, client: ClientId, kept: &StreamOf, source: &mut Source, fields: &Fields) {
        let kind = ArrayKind::from(kept.form);
        let (state, known) = match translated(&kept.at, source) {
            Some(state) => (state, true),
            None => (CursorState::default(), false),
        };
        let resumed = known.then(|| source.log.resume(&state));
        let cursor = match resumed {
            Some(Ok(cursor)) if self.owner.len() < MAX_STREAMS => cursor,
            Some(Err(error)) => {
                tracing::warn!("a client of source {} does not go on where it was: {error}", source.name);
                return;
            }
            // Another log, of which it has not seen anything.
            _ => return self.open_at_oldest((client, kind), kept.source, source, fields),
        };
        let Some(state) = self.by_client.get_mut(&client) else { return };
        let filter = state.filter_for(kept.source, kind).map(|rule| Arc::clone(&rule.stored));
        if let Some(stored) = &filter {
            source.log.set_filter(cursor, stored.filter.clone(), fields);
        }
        let inst = kept.at.inst;
        show(&mut self.names, inst, (state.serial, &source.name, kind));
        let at = state.streams.len();
        self.opened += 1;
        self.shown += 1;
        self.owner.insert(inst, (client, at));
        state.by_source.insert((kept.source, kind), at);
        state.streams.push(Stream { inst, source: kept.source, kind, cursor, filter, is_shown: true });
    }

    /// Opens a stream with all that its source has, unless it is open.
    fn open_at_oldest(
        &mut self,
        of: (ClientId, ArrayKind),
        inst: Inst,
        source: &mut Source,
        fields: &Fields,
    ) {
        let is_open = |client: &Client| client.by_source.contains_key(&(inst, of.1));
        if self.by_client.get(&of.0).is_some_and(is_open) {
            return;
        }
        if let Some(cursor) = self.open(of, inst, source, fields).map(|stream| stream.cursor) {
            let _ = source.log.seek(cursor, Place::Oldest);
        }
    }
}

/// Where a stream was, in the log as it is now. `None`: that is another one.
fn translated(at: &Moved, source: &Source) -> Option<CursorState> {
    let state = at.state();
    let seq = source.disk.as_ref()?.translate(state.seq, at.epoch)?;
    Some(state.not_beyond(seq))
}

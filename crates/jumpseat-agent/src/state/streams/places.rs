//! Where clients say that they were: the places of their streams, moved by themselves.
//!
//! A client may say it before its first fetch, when it has no stream of a source yet. What it said is kept then, for
//! each source and form, until the stream is opened. Of all clients together no more is kept than there can be streams.

use pcp_event::log::{Place, SeekError};
use pcp_event::{ArrayKind, EventLog};
use pcp_model::Inst;
use pcp_net::Identity;
use pcp_pmda::ClientId;

use super::{MAX_STREAMS, Stream, Streams, client_entry};
use crate::state::source::Source;
use crate::state::sources::Sources;

/// A place as a client says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The same in whatever log.
    Place(Place),
    /// As it was told: a sequence number of an epoch. `in_memory` is the epoch of records that are in memory only.
    Told { seq: u64, epoch: u64, in_memory: u64 },
}

impl Wanted {
    /// Where that is in a source.
    fn of(self, source: &Source) -> Result<Place, PlaceRefused> {
        let Wanted::Told { seq, epoch, in_memory } = self else { return Ok(self.anywhere()) };
        let translated = source.translate(seq, epoch, in_memory).map(Place::Seq);
        translated.ok_or_else(|| PlaceRefused::Epoch(source.name.to_string(), epoch, source.epoch(in_memory)))
    }

    /// Where that is in a source that is not there yet.
    fn anywhere(self) -> Place {
        match self {
            Wanted::Place(place) => place,
            Wanted::Told { seq, .. } => Place::Seq(seq),
        }
    }
}

/// Why a client's place is not what it asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlaceRefused {
    /// There is no such source.
    #[error("there is no source with instance {0}")]
    NoSource(Inst),
    /// Its records are not for this client.
    #[error("the records of source {0} are not for this user")]
    Forbidden(String),
    /// The log of a source has been begun anew since.
    #[error(
        "source {0}: sequence numbers of epoch {1:x} say nothing here: the log was begun anew, its epoch is {2:x}"
    )]
    Epoch(String, u64, u64),
    /// The log of a source does not have it.
    #[error("source {0}: {1}")]
    Log(String, SeekError),
    /// Clients have said it of too many sources that they do not read.
    #[error("{MAX_STREAMS} places of streams that are not read yet are kept for all clients already")]
    Full,
}

impl Streams {
    /// Moves a client's streams, of these forms and of one source (`None`: of all that it may read), and has those that
    /// it opens later begin there.
    ///
    /// # Errors
    /// [`PlaceRefused`]; nothing has changed then, but if it is because of one that was moved too often already.
    pub(crate) fn set_place(
        &mut self,
        (client, identity): (ClientId, Identity),
        kinds: &[ArrayKind],
        source: Option<Inst>,
        wanted: Wanted,
        sources: &mut Sources,
    ) -> Result<(), PlaceRefused> {
        let place = check(identity, source, wanted, sources)?;
        let held = self.starts;
        let state = client_entry(&mut self.by_client, &mut self.last_serial, client);
        let before = state.starts.len();
        let more = kinds.iter().filter(|kind| !state.starts.has(**kind, source)).count();
        if held + more > MAX_STREAMS {
            self.refused += 1;
            return Err(PlaceRefused::Full);
        }
        let mut outcome = Ok(());
        for &kind in kinds {
            let mut seek = |stream: &Stream| {
                if let Err(refused) = stream.seek(wanted, identity, sources) {
                    outcome = Err(refused);
                }
            };
            match source {
                Some(of) => match state.by_source.get(&(of, kind)).and_then(|at| state.streams.get(*at)) {
                    Some(stream) => seek(stream),
                    None => state.starts.set(kind, source, place),
                },
                None => {
                    state.streams.iter().filter(|stream| stream.kind == kind).for_each(&mut seek);
                    state.starts.set(kind, source, place);
                }
            }
        }
        self.starts = held - before + state.starts.len();
        self.notes.change(client);
        outcome
    }

    /// Where a client is in a source: the sequence number from which on it has not been told anything. Of several forms
    /// the one that is farthest back.
    pub(crate) fn place(
        &self,
        client: ClientId,
        kinds: &[ArrayKind],
        source: Inst,
        log: &EventLog,
    ) -> Option<u64> {
        let client = self.by_client.get(&client)?;
        let streams = kinds.iter().filter_map(|kind| client.by_source.get(&(source, *kind)));
        streams.filter_map(|at| log.position(client.streams.get(*at)?.cursor)).min()
    }
}

impl Stream {
    fn seek(&self, wanted: Wanted, identity: Identity, sources: &mut Sources) -> Result<(), PlaceRefused> {
        let source = sources.get_mut(self.source).filter(|source| source.may_be_read_by(identity));
        let Some(source) = source else { return Ok(()) };
        let sought = source.log.seek(self.cursor, wanted.of(source)?);
        sought.map_err(|error| PlaceRefused::Log(source.name.to_string(), error))
    }
}

/// Whether all sources that it is about may be read, and have the place. The place.
fn check(
    identity: Identity,
    source: Option<Inst>,
    wanted: Wanted,
    sources: &Sources,
) -> Result<Place, PlaceRefused> {
    let place_in = |source: &Source| {
        let place = wanted.of(source)?;
        let checked = source.log.check(place).map(|()| place);
        checked.map_err(|error| PlaceRefused::Log(source.name.to_string(), error))
    };
    match source {
        Some(inst) => {
            let source = sources.get(inst).ok_or(PlaceRefused::NoSource(inst))?;
            if !source.may_be_read_by(identity) {
                return Err(PlaceRefused::Forbidden(source.name.to_string()));
            }
            place_in(source)
        }
        None => {
            let sources = sources.iter().map(|(_, source)| source);
            let mut readable = sources.filter(|source| source.may_be_read_by(identity));
            readable.try_for_each(|source| place_in(source).map(drop))?;
            Ok(wanted.anywhere())
        }
    }
}

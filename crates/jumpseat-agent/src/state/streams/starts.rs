//! Where a client's streams begin that it has not opened yet.

use rustc_hash::FxHashMap;

use pcp_event::ArrayKind;
use pcp_event::log::Place;
use pcp_model::Inst;

/// A place for each form and source, and for each form one for all other sources.
#[derive(Debug, Default)]
pub(super) struct Starts(FxHashMap<(ArrayKind, Option<Inst>), Place>);

impl Starts {
    /// How many places.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is a place for just this source.
    pub(super) fn has(&self, kind: ArrayKind, source: Option<Inst>) -> bool {
        self.0.contains_key(&(kind, source))
    }

    /// A source has gone.
    pub(super) fn forget(&mut self, source: Inst) {
        self.0.retain(|(_, of), _| *of != Some(source));
    }

    /// One for all sources (`None`) replaces those for single ones: who says it means all.
    pub(super) fn set(&mut self, kind: ArrayKind, source: Option<Inst>, place: Place) {
        if source.is_none() {
            self.0.retain(|(of, _), _| *of != kind);
        }
        self.0.insert((kind, source), place);
    }

    /// All places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ArrayKind, Option<Inst>, Place)> {
        self.0.iter().map(|((kind, source), place)| (*kind, *source, *place))
    }

    /// Where a stream that is opened now begins: the place for the source itself, else the one for all.
    pub(super) fn of(&self, kind: ArrayKind, source: Inst) -> Option<Place> {
        let own = self.0.get(&(kind, Some(source)));
        own.or_else(|| self.0.get(&(kind, None))).copied()
    }
}

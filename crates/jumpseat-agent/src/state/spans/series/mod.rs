//! Spans by source, name and the values of their dimensions: the series.
//!
//! A series is known by its key: the span's instance and the values, each with its length. It is found by the hash of these
//! ([`HashKeys`]), and its key is compared with the values where they are: that of a span is made only where there is none yet. It has figures at once, and an instance
//! as soon as its name is on file ([`Namer`]).
//!
//! **Bounds:** `spans.max_series` over all sources, `max_per_source` and `max_per_name` of a table `[[dimensions]]`. When a
//! newcomer finds no place, series that no span was of for `idle` give theirs, the least recently used first, a few at once; are
//! there none, it counts under `(other)` of its span, which has no budget as there is one for each name. What was evicted is
//! counted, keeps its number on file, and comes back under it, counting from zero.
//!
//! **Cost:** of a span of a known series one hash of the key, one look-up, one comparison, and its figures. Of one that finds no place two look-ups
//! more: the series are looked through for idle ones not before the first of them can be.

mod counts;
mod figures;
mod key;

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use crate::config::MAX_DIMENSIONS;

use super::details::{MAX_VALUE, Numbers, Rule, values};
use super::hash::HashKeys;
use super::namer::{Namer, Ticket};
use pcp_model::Inst;
use pcp_pmda::Instances;

pub(super) use figures::Ended;
pub(crate) use figures::{Exemplar, Figures};
use key::Key;

/// How many bytes of a key are the span's instance.
const SPAN: usize = size_of::<Inst>();
/// Behind the span in a key: the spans beyond the budget. No value is so long.
const OTHER: u8 = u8::MAX;
/// Most bytes of a value in the name of an instance.
const SHOWN: usize = 40;

/// Words of a hash for a value and its length, and bytes of all of them.
const VALUE_WORDS: usize = 1 + MAX_VALUE.div_ceil(size_of::<u64>());
const HASHED: usize = (1 + MAX_DIMENSIONS * VALUE_WORDS) * size_of::<u64>();
const _: () = assert!(MAX_VALUE < OTHER as usize);

/// One series. What each span touches comes first, within two lines of the cache that the processor reads together.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Series {
    key: Key,
    /// When it was used last, in nanoseconds since the agent's start.
    used: u64,
    /// Its figures.
    pub figures: Figures,
    /// The source's instance.
    pub source: Inst,
    /// The instance of the span's name.
    pub span: Inst,
    /// Its own instance, once it has a name.
    inst: Option<Inst>,
    /// How often its place had another one before: what was asked for that one is not for this.
    turn: u32,
    is_there: bool,
}

// What tells where the counts are is in these two lines.
const _: () = assert!(std::mem::offset_of!(Series, figures) + Figures::TOUCHED <= 128);

impl Series {
    fn is_other(&self) -> bool {
        self.key.bytes().get(SPAN) == Some(&OTHER)
    }

    /// The values of its dimensions; `None` for the one of all beyond the budget.
    pub(crate) fn values(&self) -> Option<impl Iterator<Item = &[u8]>> {
        (!self.is_other()).then(|| values(self.key.bytes(), SPAN))
    }
}

/// Whose series are counted against a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scope {
    Span(Inst),
    Source(Inst),
    All,
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    series: u32,
    /// None of them is idle before, in nanoseconds since the agent's start.
    none_idle_before: u64,
}

/// All series.
#[derive(Debug)]
pub(crate) struct AllSeries {
    /// The instance domain.
    pub instances: Instances,
    /// Spans that counted under `(other)`, as there was no place for their series.
    pub folded: u64,
    /// Series that have given their places to newcomers.
    pub evicted: u64,
    /// Series that cannot have an instance, as their name could not be stored or is another's.
    pub unnamed: u64,
    /// Instances that have gone.
    pub gone: u64,
    places: Vec<Series>,
    free: Vec<u32>,
    /// Places by the hashes of keys.
    by_key: HashTable<(u64, u32)>,
    by_inst: FxHashMap<Inst, u32>,
    used: FxHashMap<Scope, Use>,
    hasher: HashKeys,
    key: Vec<u8>,
    namer: Namer,
}

/// When, in nanoseconds and halves of the window since the agent's start.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    pub nanos: u64,
    pub half: u64,
}

/// The name of the span that a series is of.
pub(super) struct Of<'a> {
    pub source: Inst,
    pub span: Inst,
    /// The names of spans: `SOURCE/SPAN`.
    pub names: &'a Instances,
    /// Most series over all sources.
    pub max: u32,
}

impl AllSeries {
    pub(super) fn new() -> AllSeries {
        AllSeries {
            instances: Instances::in_memory(),
            folded: 0,
            evicted: 0,
            unnamed: 0,
            gone: 0,
            places: Vec::new(),
            free: Vec::new(),
            by_key: HashTable::new(),
            by_inst: FxHashMap::default(),
            used: FxHashMap::default(),
            hasher: HashKeys::new(HASHED),
            key: Vec::new(),
            namer: Namer::in_memory(),
        }
    }

    /// Has names put on file from now on. Before there are any series.
    pub(crate) fn name_by(&mut self, namer: Namer) {
        debug_assert!(self.places.is_empty(), "names in memory are none");
        self.namer = namer;
    }

    /// The series of an instance.
    pub(crate) fn get(&self, inst: Inst) -> Option<&Series> {
        self.places.get(*self.by_inst.get(&inst)? as usize)
    }

    /// Counts a span that has ended.
    #[inline]
    pub(super) fn ended(&mut self, rule: &Rule, of: &Of<'_>, span: &Ended<'_>, now: When) {
        let (mut numbers, mut values): (_, [&[u8]; MAX_DIMENSIONS]) =
            (Numbers::default(), Default::default());
        let values = rule.values(span.start, span.end, &mut numbers, &mut values);
        let found = values.and_then(|values| {
            let hash = self.hash(of.span, values.iter().copied());
            self.find(hash, |key| is_key_of(key, of.span, values))
        });
        let at = match found {
            Some(at) => at,
            None => {
                self.key.clear();
                self.key.extend_from_slice(&of.span.to_ne_bytes());
                rule.key(&mut self.key, span.start, span.end);
                // One with a value that is not there as a text was not looked for.
                let found = if values.is_none() { self.find_key() } else { None };
                found.unwrap_or_else(|| self.place(rule, of, now.nanos))
            }
        };
        if let Some(series) = self.places.get_mut(at as usize) {
            series.used = now.nanos;
            series.figures.ended(span, now.half);
        }
    }

    /// The place of the key with a hash, which keys that differ may have in common.
    #[inline]
    fn find(&self, hash: u64, is_it: impl Fn(&[u8]) -> bool) -> Option<u32> {
        let is_there =
            |(known, at): &(u64, u32)| *known == hash && is_it(self.places[*at as usize].key.bytes());
        self.by_key.find(hash, is_there).map(|(_, at)| *at)
    }

    /// The place of the key that is written down.
    fn find_key(&self) -> Option<u32> {
        self.find(self.hash_of(&self.key), |key| key == self.key)
    }

    /// The hash of a key that has these values.
    #[inline]
    fn hash<'a>(&self, span: Inst, values: impl Iterator<Item = &'a [u8]>) -> u64 {
        let sum = self.hasher.with_number(self.hasher.begin(), 0, u64::from(span.cast_unsigned()));
        let with = |sum, (nth, value)| self.hasher.with_text(sum, value_place(nth), value);
        values.enumerate().fold(sum, with).finish()
    }

    /// The same of a key that is written down.
    fn hash_of(&self, key: &[u8]) -> u64 {
        let span = key.first_chunk().map_or(0, |span| Inst::from_ne_bytes(*span));
        if key.get(SPAN) == Some(&OTHER) {
            let sum = self.hasher.with_number(self.hasher.begin(), 0, u64::from(span.cast_unsigned()));
            return self.hasher.with_number(sum, value_place(0), OTHER.into()).finish();
        }
        self.hash(span, values(key, SPAN))
    }

    /// A place for the key, or that of `(other)`.
    fn place(&mut self, rule: &Rule, of: &Of<'_>, now: u64) -> u32 {
        let config = &rule.config;
        let budgets = [
            (Scope::Span(of.span), config.max_per_name),
            (Scope::Source(of.source), config.max_per_source),
            (Scope::All, of.max),
        ];
        let idle = u64::try_from(config.idle.0.as_nanos()).unwrap_or(u64::MAX);
        let has_room = budgets
            .into_iter()
            .all(|(scope, most)| self.has_room(scope, most) || self.make_room(scope, most, idle, now));
        if !has_room {
            self.folded += 1;
            self.key.truncate(SPAN);
            self.key.push(OTHER);
            if let Some(at) = self.find_key() {
                return at;
            }
        }
        self.add(of)
    }

    fn has_room(&self, scope: Scope, most: u32) -> bool {
        self.used.get(&scope).map_or(0, |used| used.series) < most
    }

    /// Has series that are idle give their places: as many as a 64th of those that there may be, or of all places if that is more.
    /// All of these are looked at, and that is to pay for as many newcomers, however small the budget.
    fn make_room(&mut self, scope: Scope, most: u32, idle: u64, now: u64) -> bool {
        let Some(used) = self.used.get(&scope).filter(|used| now >= used.none_idle_before) else {
            return false;
        };
        // More than may be, as it is with a smaller budget after a reload.
        let surplus = (used.series + 1).saturating_sub(most) as usize;
        let in_scope = |series: &&Series| {
            series.is_there
                && !series.is_other()
                && match scope {
                    Scope::Span(span) => series.span == span,
                    Scope::Source(source) => series.source == source,
                    Scope::All => true,
                }
        };
        let all = self.places.iter().enumerate();
        let mut candidates: Vec<(u64, u32)> =
            all.filter(|(_, series)| in_scope(series)).map(|(at, series)| (series.used, at as u32)).collect();
        let oldest = candidates.iter().map(|(used, _)| *used).min().unwrap_or(now);
        candidates.retain(|(used, _)| now.saturating_sub(*used) >= idle);
        let many = surplus.max(most as usize / 64).max(self.places.len() / 64).max(1);
        if candidates.len() > many {
            candidates.select_nth_unstable(many - 1);
            candidates.truncate(many);
        }
        let gone: Vec<u32> = candidates.iter().map(|(_, at)| *at).collect();
        self.evicted += gone.len() as u64;
        let is_enough = gone.len() >= surplus && most > 0;
        self.remove(&gone);
        if !is_enough && let Some(used) = self.used.get_mut(&scope) {
            used.none_idle_before = if gone.is_empty() { oldest.saturating_add(idle) } else { 0 };
        }
        is_enough
    }

    /// Takes the key in, at a place that is free.
    fn add(&mut self, of: &Of<'_>) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Series {
                source: of.source,
                span: of.span,
                figures: Figures::default(),
                inst: None,
                key: Key::new(&[]),
                used: 0,
                turn: 0,
                is_there: false,
            });
            // Bounded by the budget and the number of names.
            self.places.len() as u32 - 1
        });
        let series = &mut self.places[at as usize];
        (series.source, series.span, series.inst, series.is_there) = (of.source, of.span, None, true);
        series.turn = series.turn.wrapping_add(1);
        series.key = Key::new(&self.key);
        let ticket = Ticket { place: at, turn: series.turn };
        let text = instance_name(of.names.name(of.span).unwrap_or_default(), &self.key);
        if !series.is_other() {
            for scope in scopes(series) {
                self.used.entry(scope).or_default().series += 1;
            }
        }
        let hash = self.hash_of(&self.key);
        self.by_key.insert_unique(hash, (hash, at), |(hash, _)| *hash);
        self.namer.ask(ticket, text);
        at
    }

    /// Takes in the names that are on file by now.
    pub(crate) fn take_names(&mut self) {
        while let Some(told) = self.namer.told() {
            let Some(series) = self.places.get_mut(told.ticket.place as usize) else { continue };
            if !series.is_there || series.turn != told.ticket.turn {
                continue;
            }
            let Some(inst) = told.inst.filter(|inst| !self.by_inst.contains_key(inst)) else {
                self.unnamed += 1;
                continue;
            };
            if self.instances.add_as(inst, &told.name).is_ok() {
                series.inst = Some(inst);
                self.by_inst.insert(inst, told.ticket.place);
            }
        }
    }

    /// Takes out all series of a span's name that has gone.
    pub(super) fn span_gone(&mut self, span: Inst) {
        self.remove_if(|series| series.span == span);
    }

    /// Takes out all series of a source, whose values mean something else from now on.
    pub(super) fn source_changed(&mut self, source: Inst) {
        self.remove_if(|series| series.source == source);
    }

    fn remove_if(&mut self, goes: impl Fn(&Series) -> bool) {
        let all = self.places.iter().enumerate();
        let gone: Vec<u32> =
            all.filter(|(_, series)| series.is_there && goes(series)).map(|(at, _)| at as u32).collect();
        self.remove(&gone);
    }

    fn remove(&mut self, gone: &[u32]) {
        let mut insts = Vec::new();
        for at in gone {
            let hash = self.hash_of(self.places[*at as usize].key.bytes());
            if let Ok(entry) = self.by_key.find_entry(hash, |(_, known)| known == at) {
                entry.remove();
            }
            let series = &mut self.places[*at as usize];
            series.is_there = false;
            series.figures = Figures::default();
            insts.extend(series.inst.take());
            if !series.is_other() {
                for scope in scopes(series) {
                    if let Some(used) = self.used.get_mut(&scope) {
                        used.series -= 1;
                        // Places that are free are as good as idle ones.
                        used.none_idle_before = 0;
                        if used.series == 0 {
                            self.used.remove(&scope);
                        }
                    }
                }
            }
            self.free.push(*at);
        }
        insts.sort_unstable();
        insts.iter().for_each(|inst| {
            self.by_inst.remove(inst);
        });
        self.instances.forget_all(&insts);
        self.gone += insts.len() as u64;
    }

    /// Series that are there, without those of `(other)`.
    pub(crate) fn count(&self) -> u32 {
        self.used.get(&Scope::All).map_or(0, |used| used.series)
    }

    /// All that are there.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Series> {
        self.places.iter().filter(|series| series.is_there)
    }
}

/// Whether a key is that of a span with these values, as [`Rule::key`] would make it.
#[inline]
fn is_key_of(key: &[u8], span: Inst, wanted: &[&[u8]]) -> bool {
    let is_other = key.get(SPAN) == Some(&OTHER);
    !is_other && key.starts_with(&span.to_ne_bytes()) && values(key, SPAN).eq(wanted.iter().copied())
}

/// Where a value is in a hash, in words: behind the span.
const fn value_place(nth: usize) -> usize {
    1 + nth * VALUE_WORDS
}

fn scopes(series: &Series) -> [Scope; 3] {
    [Scope::Span(series.span), Scope::Source(series.source), Scope::All]
}

/// The name of the instance of a series: `SOURCE/SPAN:VALUE:VALUE`, without what PCP's tools would take for something else; where
/// that makes a difference, digits follow that come from the values.
fn instance_name(span: &str, key: &[u8]) -> String {
    if key.get(SPAN) == Some(&OTHER) {
        return format!("{span}:(other)");
    }
    let mut name = span.to_owned();
    let mut is_exact = true;
    for value in values(key, SPAN) {
        name.push(':');
        let text = String::from_utf8_lossy(value);
        let cut = pcp_model::text::cut(&text, SHOWN);
        let plain =
            |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, ':' | ',' | '"' | '\\' | '~');
        is_exact &= cut.len() == value.len() && cut.chars().all(plain);
        name.extend(cut.chars().map(|c| if plain(c) { c } else { '_' }));
    }
    if !is_exact {
        use std::fmt::Write as _;
        let _ = write!(name, "~{:08x}", fnv1a(&key[SPAN..]));
    }
    name
}

/// The same on all hosts, unlike the hashes of a table.
fn fnv1a(bytes: &[u8]) -> u32 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) as u32
}

#[cfg(test)]
mod tests;

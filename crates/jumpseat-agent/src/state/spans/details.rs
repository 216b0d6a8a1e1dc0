//! What of the ends of spans is kept besides ids and times, for sources whose spans have dimensions: the values, and the ids
//! that exemplars show; and for the map of services who calls whom.
//!
//! **Bounds:** one entry for each open span and each END that waits, of 128 bytes and room for its values: at most
//! [`MAX_DIMENSIONS`] values of [`MAX_VALUE`] bytes. Entries are used again with their room, so that nothing is allocated for a
//! span.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::num::NonZeroU64;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::fields::Fields;
use super::service_map::Role;
use crate::config::{DimensionsConfig, MAX_DIMENSIONS};
use jumpseat_source::registry::WellKnown;
use pcp_event::filter::FieldResolver;
use pcp_event::packed::PackedParam;
use pcp_model::text::cut;
use pcp_model::{Inst, Pmid, ValueType};

/// Longest value that is told apart from others, in bytes; what is longer is cut.
pub(super) const MAX_VALUE: usize = 128;
/// Longest trace or span id that an exemplar shows, in bytes; what is longer is cut.
const MAX_ID: usize = 32;

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// What is kept of one end of a span. What each span needs comes first, within one line of the cache, and there is one more.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Details {
    /// The values, one behind the other.
    text: Vec<u8>,
    /// The length of each value, plus one; 0: it has none.
    lens: [u8; MAX_DIMENSIONS],
    /// Its own id, with that of the trace, and its parent's: see [`Rule::calls`].
    pub own: Option<NonZeroU64>,
    pub parent: Option<NonZeroU64>,
    /// The rule by which the values were read: by another one they mean something else.
    epoch: u32,
    /// What it says of calls.
    pub role: Role,
    /// The trace, as it was sent.
    pub trace: ShownId,
    /// The span's own id. Of a START that of its END is shown.
    pub span: ShownId,
}

const _: () = assert!(size_of::<Details>() == 128 && MAX_VALUE < u8::MAX as usize);

/// An id as it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ShownId {
    bytes: [u8; MAX_ID],
    /// [`NUMBER`]: it is no text, but the number that begins the bytes.
    len: u8,
}

const NUMBER: u8 = u8::MAX;
const _: () = assert!(MAX_ID < NUMBER as usize);

impl ShownId {
    #[inline]
    fn set(&mut self, param: PackedParam<'_>) {
        match param.text() {
            Some(text) => {
                let len = text.len().min(MAX_ID);
                // Hashed and compared as a whole: nothing of another one may be left.
                match text.first_chunk::<MAX_ID>() {
                    // Those of traces, without a call.
                    Some(whole) => self.bytes = *whole,
                    None => {
                        self.bytes = [0; MAX_ID];
                        self.bytes[..len].copy_from_slice(&text[..len]);
                    }
                }
                self.len = len as u8;
            }
            None => {
                *self = ShownId::NONE;
                if let Some(number) = integer(param).and_then(|number| u64::try_from(number).ok()) {
                    self.bytes[..size_of::<u64>()].copy_from_slice(&number.to_ne_bytes());
                    self.len = NUMBER;
                }
            }
        }
    }

    /// None.
    const NONE: ShownId = ShownId { bytes: [0; MAX_ID], len: 0 };

    #[inline]
    fn clear(&mut self) {
        self.len = 0;
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The id; empty if there is none.
    pub(crate) fn text(&self) -> String {
        if let (NUMBER, Some(number)) = (self.len, self.bytes.first_chunk()) {
            return u64::from_ne_bytes(*number).to_string();
        }
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        // Cut within a character, or no text at all: as far as it is one.
        String::from_utf8_lossy(bytes).trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned()
    }
}

impl Details {
    /// Of nothing.
    pub(super) const fn none() -> Details {
        let id = ShownId::NONE;
        let (lens, role, own, parent) = ([0; MAX_DIMENSIONS], Role::Any, None, None);
        Details { trace: id, span: id, role, own, parent, epoch: 0, lens, text: Vec::new() }
    }

    fn clear(&mut self, epoch: u32) {
        self.trace.clear();
        self.span.clear();
        self.epoch = epoch;
        (self.role, self.own, self.parent) = (Role::Any, None, None);
        self.lens = [0; MAX_DIMENSIONS];
        self.text.clear();
    }

    /// The value of a dimension, if this end of the span has one.
    #[inline]
    fn value(&self, nth: usize) -> Option<&[u8]> {
        let len = |plus_one: &u8| usize::from(plus_one.saturating_sub(1));
        let (before, own) = (self.lens.get(..nth)?, self.lens.get(nth).filter(|plus_one| **plus_one > 0)?);
        let start: usize = before.iter().map(len).sum();
        self.text.get(start..start + len(own))
    }

    /// Keeps the value of a dimension, behind those of all before it.
    fn set(&mut self, nth: usize, param: PackedParam<'_>) {
        let start = self.text.len();
        put(&mut self.text, param);
        // At most MAX_VALUE.
        self.lens[nth] = (self.text.len() - start) as u8 + 1;
    }
}

/// Appends a value as text, at most [`MAX_VALUE`] bytes.
#[inline]
fn put(text: &mut Vec<u8>, param: PackedParam<'_>) {
    match param.text() {
        Some(value) if value.len() <= MAX_VALUE => text.extend_from_slice(value),
        Some(value) => {
            let begin = String::from_utf8_lossy(&value[..MAX_VALUE]);
            text.extend_from_slice(cut(&begin, MAX_VALUE).as_bytes());
        }
        None => match integer(param) {
            Some(number) => put_number(text, number),
            None => put_float(text, param),
        },
    }
}

/// Room for the texts of numbers.
#[derive(Default)]
pub(super) struct Numbers([itoa::Buffer; MAX_DIMENSIONS]);

/// A value as text where it is, or in `number`; `None` if it is neither a text within the limit nor a number of usual size.
#[inline]
fn text_of<'a>(param: PackedParam<'a>, number: &'a mut itoa::Buffer) -> Option<&'a [u8]> {
    match param.text() {
        Some(text) => Some(text).filter(|text| text.len() <= MAX_VALUE),
        None => Some(number.format(i64::try_from(integer(param)?).ok()?).as_bytes()),
    }
}

#[inline]
fn put_number(text: &mut Vec<u8>, number: i128) {
    // The wide ones take a hundred times as long, and there are none.
    match i64::try_from(number) {
        Ok(number) => text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        Err(_) => text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
    }
}

fn put_float(text: &mut Vec<u8>, param: PackedParam<'_>) {
    let Some(number) = float(param) else { return };
    let start = text.len();
    let written = write!(text, "{number}");
    debug_assert!(written.is_ok(), "a vector takes all");
    // With all its digits it may have three hundred.
    text.truncate(start + MAX_VALUE);
}

/// What a rule asks for of a record, where it is.
pub(super) struct Seen<'a> {
    /// The span's own id.
    id: PackedParam<'a>,
    trace: Option<PackedParam<'a>>,
    parent: Option<PackedParam<'a>>,
    role: Role,
    /// Of a field that is there twice the last one holds.
    values: [Option<PackedParam<'a>>; MAX_DIMENSIONS],
}

impl<'a> Seen<'a> {
    /// Of a record with this id, nothing yet. It is filled where it is: to move it costs more than to fill it.
    #[inline]
    pub(super) fn of(id: PackedParam<'a>) -> Seen<'a> {
        Seen { id, trace: None, parent: None, role: Role::Any, values: [None; MAX_DIMENSIONS] }
    }

    fn shown(param: Option<PackedParam<'_>>) -> ShownId {
        let mut id = ShownId::NONE;
        if let Some(param) = param {
            id.set(param);
        }
        id
    }
}

/// An end of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Start,
    End,
}

/// The end of a span that has come: as it was kept, or while its record is there.
#[derive(Clone, Copy)]
pub(crate) enum Last<'a> {
    Kept(&'a Details),
    Seen(&'a Seen<'a>),
}

impl Last<'_> {
    /// The trace, as it was sent.
    pub(super) fn trace(&self) -> ShownId {
        match self {
            Last::Kept(details) => details.trace,
            Last::Seen(seen) => Seen::shown(seen.trace),
        }
    }

    /// The span's own id.
    pub(super) fn span(&self) -> ShownId {
        match self {
            Last::Kept(details) => details.span,
            Last::Seen(seen) => Seen::shown(Some(seen.id)),
        }
    }

    /// What it says of calls.
    pub(super) fn role(&self) -> Role {
        match self {
            Last::Kept(details) => details.role,
            Last::Seen(seen) => seen.role,
        }
    }

    /// Its own id, with that of the trace, and its parent's: see [`Rule::calls`].
    pub(super) fn calls(&self, rule: &Rule) -> (Option<NonZeroU64>, Option<NonZeroU64>) {
        match self {
            Last::Kept(details) => (details.own, details.parent),
            Last::Seen(seen) => rule.calls_of(&self.trace(), seen),
        }
    }
}

/// A whole number.
#[inline]
fn integer(param: PackedParam<'_>) -> Option<i128> {
    const I32: u32 = ValueType::I32.code() as u32;
    const U32: u32 = ValueType::U32.code() as u32;
    const I64: u32 = ValueType::I64.code() as u32;
    const U64: u32 = ValueType::U64.code() as u32;
    Some(match param.value_type {
        I32 => i32::from_be_bytes(param.bytes.try_into().ok()?).into(),
        U32 => u32::from_be_bytes(param.bytes.try_into().ok()?).into(),
        I64 => i64::from_be_bytes(param.bytes.try_into().ok()?).into(),
        U64 => u64::from_be_bytes(param.bytes.try_into().ok()?).into(),
        _ => return None,
    })
}

fn float(param: PackedParam<'_>) -> Option<f64> {
    const FLOAT: u32 = ValueType::Float.code() as u32;
    const DOUBLE: u32 = ValueType::Double.code() as u32;
    Some(match param.value_type {
        FLOAT => f32::from_be_bytes(param.bytes.try_into().ok()?).into(),
        DOUBLE => f64::from_be_bytes(param.bytes.try_into().ok()?),
        _ => return None,
    })
}

/// A table `[[dimensions]]`, and the metrics of its fields as far as they are known.
#[derive(Debug)]
pub(super) struct Rule {
    pub config: DimensionsConfig,
    /// Whether spans are told apart at all: else only calls are looked for.
    pub has_series: bool,
    /// Keys of this process for ids, if calls are looked for.
    calls: Option<RandomState>,
    epoch: u32,
    fields: Vec<(Pmid, What)>,
    /// A bit for each of them, by the low bits of its PMID: most parameters are none of them by this alone.
    bits: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Value(usize),
    Trace,
    Role,
    Parent,
}

impl Rule {
    /// Looks for what is asked for among the parameters of a record behind its id. `each` gets them all.
    #[inline]
    pub(super) fn see<'a>(
        &self,
        seen: &mut Seen<'a>,
        params: impl Iterator<Item = PackedParam<'a>>,
        mut each: impl FnMut(PackedParam<'a>),
    ) {
        for param in params {
            each(param);
            if self.bits & bit(param.pmid) != 0 {
                self.take(seen, param);
            }
        }
    }

    #[inline(always)] // what is lent in memory is put there in parts, and the processor waits when it is read as a whole at once
    fn take<'a>(&self, seen: &mut Seen<'a>, param: PackedParam<'a>) {
        for (pmid, what) in &self.fields {
            if *pmid == param.pmid {
                match what {
                    // There are no more fields than values.
                    What::Value(nth) => seen.values[*nth] = Some(param),
                    What::Trace => seen.trace = Some(param),
                    What::Role => seen.role = param.text().map_or(Role::Any, Role::of),
                    What::Parent => seen.parent = Some(param),
                }
            }
        }
    }

    /// Keeps what was seen.
    pub(super) fn keep(&self, details: &mut Details, seen: &Seen<'_>, which: Which) {
        details.clear(self.epoch);
        if which == Which::End {
            details.span.set(seen.id);
        }
        if let Some(trace) = seen.trace {
            details.trace.set(trace);
        }
        details.role = seen.role;
        for (nth, value) in seen.values[..self.config.fields.len().min(MAX_DIMENSIONS)].iter().enumerate() {
            if let Some(value) = value {
                details.set(nth, *value);
            }
        }
        (details.own, details.parent) = self.calls_of(&details.trace, seen);
    }

    /// The span's own id and its parent's, each with that of the trace, if calls are looked for.
    fn calls_of(&self, trace: &ShownId, seen: &Seen<'_>) -> (Option<NonZeroU64>, Option<NonZeroU64>) {
        let Some(keys) = self.calls.as_ref().filter(|_| !trace.is_empty()) else { return (None, None) };
        let key = |id: PackedParam<'_>| {
            NonZeroU64::new(keys.hash_one((trace, id.value_type, id.bytes))).unwrap_or(NonZeroU64::MIN)
        };
        (Some(key(seen.id)), seen.parent.map(key))
    }

    /// The values of all dimensions where they are, those that are numbers as texts in `numbers`; `None` if there is one that has
    /// to be written down. The END's before the START's, empty where neither has one. They are put into `values`, as to move them
    /// costs more than to find them.
    #[inline(always)]
    pub(super) fn values<'a, 'v>(
        &self,
        start: &'a Details,
        end: Last<'a>,
        numbers: &'a mut Numbers,
        values: &'v mut [&'a [u8]; MAX_DIMENSIONS],
    ) -> Option<&'v [&'a [u8]]> {
        let values = values.get_mut(..self.config.fields.len())?;
        let places = values.iter_mut().zip(&mut numbers.0);
        for (nth, (place, number)) in places.enumerate() {
            let last = match end {
                Last::Seen(seen) => match seen.values[nth] {
                    Some(param) => Some(text_of(param, number)?),
                    None => None,
                },
                Last::Kept(end) => self.kept(end, nth),
            };
            *place = last.or_else(|| self.kept(start, nth)).unwrap_or_default();
        }
        Some(values)
    }

    /// What was kept of a value by this rule.
    #[inline]
    fn kept<'a>(&self, details: &'a Details, nth: usize) -> Option<&'a [u8]> {
        (details.epoch == self.epoch).then(|| details.value(nth))?
    }

    /// Appends the values of a span to a key, the same, each with its length before it.
    pub(super) fn key(&self, key: &mut Vec<u8>, start: &Details, end: Last<'_>) {
        for nth in 0..self.config.fields.len() {
            let at = key.len();
            key.push(0);
            let (seen, kept) = match end {
                Last::Seen(seen) => (seen.values[nth], None),
                Last::Kept(end) => (None, self.kept(end, nth)),
            };
            match seen {
                Some(param) => put(key, param),
                None => key.extend_from_slice(kept.or_else(|| self.kept(start, nth)).unwrap_or_default()),
            }
            // At most MAX_VALUE.
            key[at] = (key.len() - at - 1) as u8;
        }
    }
}

#[inline]
fn bit(pmid: Pmid) -> u64 {
    1 << (pmid.0 % 64)
}

/// The values of a key, behind the first `skip` bytes.
pub(super) fn values(key: &[u8], skip: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = key.get(skip..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (len, behind) = rest.split_first()?;
        let (value, behind) = behind.split_at_checked(usize::from(*len))?;
        rest = behind;
        Some(value)
    })
}

/// Which source is under which rule.
#[derive(Debug, Default)]
pub(super) struct Rules {
    tables: Vec<DimensionsConfig>,
    rules: Vec<Arc<Rule>>,
    by_source: FxHashMap<Inst, usize>,
    /// For all other sources, if calls are looked for.
    plain: Option<Arc<Rule>>,
    /// Keys of this process for ids, if calls are looked for.
    calls: Option<RandomState>,
    domain: u16,
    /// The fields that were known when they were looked up.
    generation: Option<u64>,
    epoch: u32,
}

impl Rules {
    /// `looks_for_calls`: of all sources.
    pub(super) fn new(domain: u16, tables: Vec<DimensionsConfig>, looks_for_calls: bool) -> Rules {
        let calls = looks_for_calls.then(RandomState::new);
        let mut rules = Rules { tables, calls, domain, ..Rules::default() };
        rules.make();
        rules
    }

    fn make(&mut self) {
        self.epoch += 1;
        let epoch = self.epoch;
        let rule = |config: &DimensionsConfig, has_series| {
            let (config, calls) = (config.clone(), self.calls.clone());
            Arc::new(Rule { config, has_series, calls, epoch, fields: Vec::new(), bits: 0 })
        };
        self.rules = self.tables.iter().map(|table| rule(table, true)).collect();
        self.plain = self.calls.is_some().then(|| rule(&DimensionsConfig::default(), false));
        self.generation = None;
    }

    /// Other tables; whether they are others. `sources` are all that are known.
    pub(super) fn set<'a>(
        &mut self,
        tables: &[DimensionsConfig],
        looks_for_calls: bool,
        sources: impl Iterator<Item = (Inst, &'a str)>,
    ) -> bool {
        if self.tables == tables && self.calls.is_some() == looks_for_calls {
            return false;
        }
        self.calls = looks_for_calls.then(RandomState::new);
        self.tables = tables.to_vec();
        self.make();
        self.by_source.clear();
        sources.for_each(|(source, name)| self.add(source, name));
        true
    }

    /// A source with spans.
    pub(super) fn add(&mut self, source: Inst, name: &str) {
        if let Some(at) = self.tables.iter().rposition(|table| table.source.matches(name)) {
            self.by_source.insert(source, at);
        }
    }

    pub(super) fn remove(&mut self, source: Inst) {
        self.by_source.remove(&source);
    }

    /// The rule of a source, if its spans have dimensions.
    #[inline]
    pub(super) fn of(&self, source: Inst) -> Option<Arc<Rule>> {
        if self.rules.is_empty() {
            return self.plain.clone();
        }
        self.by_source.get(&source).map(|at| Arc::clone(&self.rules[*at])).or_else(|| self.plain.clone())
    }

    /// Looks fields up, if any have come since.
    pub(super) fn look_up(&mut self, known: &Fields) {
        if (self.rules.is_empty() && self.plain.is_none()) || self.generation == Some(known.generation()) {
            return;
        }
        self.generation = Some(known.generation());
        for rule in self.rules.iter_mut().chain(&mut self.plain) {
            let mut fields = Vec::new();
            for (nth, name) in rule.config.fields.iter().enumerate() {
                known.resolve(name, &mut |pmid| fields.push((pmid, What::Value(nth))));
            }
            known.resolve("trace_id", &mut |pmid| fields.push((pmid, What::Trace)));
            if rule.calls.is_some() {
                known.resolve("kind", &mut |pmid| fields.push((pmid, What::Role)));
                let parents = [WellKnown::ParentId, WellKnown::ParentIdU64];
                fields.extend(parents.map(|parent| (parent.pmid(self.domain), What::Parent)));
            }
            let bits = fields.iter().fold(0, |bits, (pmid, _)| bits | bit(*pmid));
            let Rule { config, has_series, calls, epoch, .. } = &**rule;
            let (config, calls) = (config.clone(), calls.clone());
            *rule = Arc::new(Rule { config, has_series: *has_series, calls, epoch: *epoch, fields, bits });
        }
    }
}

/// Entries for ends that wait for the other one.
#[derive(Debug, Default)]
pub(super) struct Kept {
    entries: Vec<Details>,
    free: Vec<u32>,
}

impl Kept {
    /// Keeps what was seen of a record.
    #[inline]
    pub(super) fn keep(&mut self, rule: &Rule, seen: &Seen<'_>, which: Which) -> u32 {
        let entry = self.take();
        rule.keep(&mut self.entries[entry as usize], seen, which);
        entry
    }

    /// An entry that is free, as it was left.
    #[inline]
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push(Details::default());
            // Less than 2^32: there are at most as many as spans that may be open and ENDs that may wait.
            self.entries.len() as u32 - 1
        })
    }

    /// Gives an entry back, if it is one.
    #[inline]
    pub(super) fn give_back(&mut self, entry: u32) {
        if entry != NONE {
            self.free.push(entry);
        }
    }

    #[inline]
    pub(super) fn get(&self, entry: u32) -> Option<&Details> {
        self.entries.get(entry as usize)
    }

    /// Entries in use.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(value_type: ValueType, bytes: &[u8]) -> PackedParam<'_> {
        PackedParam { pmid: Pmid(0), value_type: value_type.code() as u32, bytes }
    }

    #[test]
    fn ids_are_shown_as_they_were_sent_whatever_was_in_their_place() {
        let (trace, long, wide) = ("0af7651916cd43dd8448eb211c80319c", "x".repeat(40), "ü".repeat(20));
        let odd = format!("a{wide}");
        let (zero, most, less) = (0_u64.to_be_bytes(), u64::MAX.to_be_bytes(), (-1_i32).to_be_bytes());
        let ids = [
            (param(ValueType::String, trace.as_bytes()), trace),
            (param(ValueType::String, b"b7ad6b7169203331"), "b7ad6b7169203331"),
            (param(ValueType::String, b""), ""),
            (param(ValueType::String, long.as_bytes()), &long[..MAX_ID]),
            (param(ValueType::String, wide.as_bytes()), &wide[..MAX_ID]),
            // Not half a character.
            (param(ValueType::String, odd.as_bytes()), &odd[..MAX_ID - 1]),
            (param(ValueType::U64, &zero), "0"),
            (param(ValueType::U64, &most), "18446744073709551615"),
            // No number that an id can be.
            (param(ValueType::I32, &less), ""),
        ];
        for (before, was) in ids {
            for (sent, expected) in ids {
                let (mut id, mut alone) = (ShownId::default(), ShownId::default());
                id.set(before);
                id.clear();
                assert!(id.is_empty() && id.text().is_empty());
                id.set(sent);
                alone.set(sent);
                assert_eq!((id.text(), id.is_empty()), (expected.to_owned(), expected.is_empty()));
                assert_eq!(id, alone, "nothing is left of {was:?}");
            }
        }
    }

    #[test]
    fn values_are_found_whichever_there_are() {
        let long = "y".repeat(300);
        let values = ["", "200", "/users/17", &long];
        // Each dimension has none, or one of these.
        for number in 0..5_usize.pow(4) {
            let wanted = |nth: u32| values.get(number / 5_usize.pow(nth) % 5).copied();
            let mut details = Details::default();
            for nth in 0..4 {
                if let Some(value) = wanted(nth) {
                    details.set(nth as usize, param(ValueType::String, value.as_bytes()));
                }
            }
            for nth in 0..4 {
                let expected = wanted(nth).map(|value| &value.as_bytes()[..value.len().min(MAX_VALUE)]);
                assert_eq!(details.value(nth as usize), expected);
            }
        }
    }
}

//! Everything in the `.meta` files: descriptors, names, instance domains, labels, help text (
//! `docs/pcp/archive.md` 5 and 9).
//!
//! ```text
//! record := len | type | body | len        types: 1 DESC, 2 INDOM_V2, 3 LABEL_V2, 4 TEXT, 5 INDOM,
//!                                                 6 INDOM_DELTA, 7 LABEL
//! DESC   := pmid | type | indom | semantics | units | numnames | numnames x { length | name }
//! TEXT   := type bits | ident | text, NUL
//! ```

use std::collections::hash_map::Entry;
use std::fmt;

use hashbrown::HashMap;
use rustc_hash::FxHashMap;
use tracing::trace;

use super::error::{ArchiveError, Attribute, Problem};
use super::fields::{Fields, Stamp, until_nul};
use super::indoms::{Head, History};
use super::labels::Labels;
use super::member::{MemberReader, WORD};
use super::names::Names;
use pcp_model::{Desc, InDom, PmError, Pmid, Semantics, Units, ValueType};
use pcp_pdu::{TextLevel, TextTarget};

pub(super) const DESC: u32 = 1;
pub(super) const INDOM_V2: u32 = 2;
pub(super) const LABEL_V2: u32 = 3;
pub(super) const TEXT: u32 = 4;
pub(super) const INDOM: u32 = 5;
pub(super) const INDOM_DELTA: u32 = 6;
pub(super) const LABEL: u32 = 7;

/// The bits of a text's type.
const ONE_LINE: u32 = 1;
const HELP: u32 = 2;
const METRIC: u32 = 4;
const DOMAIN: u32 = 8;

/// Length word and type, and the length behind.
const HEADER: usize = 8;
const TRAILER: usize = 4;

/// The metadata of one archive, or of all archives of a list together.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    descs: FxHashMap<Pmid, RawDesc>,
    pub names: Names,
    pub indoms: FxHashMap<InDom, History>,
    pub labels: Labels,
    texts: HashMap<(u32, u32), Box<[u8]>>,
    text_kinds: u32,
}

/// A descriptor as it is in the file: any numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawDesc {
    pub value_type: i32,
    pub indom: u32,
    pub semantics: i32,
    pub units: u32,
    /// How many metrics were described before it.
    pub place: u32,
}

/// How many records there were of each type, for who looks for a fault.
#[derive(Default)]
struct Counts([usize; 4]);

impl Counts {
    const WORDS: [&'static str; 4] = ["descriptors", "instance domains", "label sets", "help texts"];

    fn add(&mut self, kind: u32) {
        let [descs, indoms, labels, texts] = &mut self.0;
        let count = match kind {
            DESC => descs,
            LABEL_V2 | LABEL => labels,
            TEXT => texts,
            _ => indoms,
        };
        *count += 1;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.0.iter().zip(Counts::WORDS).map(|(count, word)| format!("{count} {word}"));
        f.write_str(&texts.collect::<Vec<_>>().join(", "))
    }
}

impl Metadata {
    /// Reads the records of a `.meta` from `at` to its end, and moves `at` there: from there on there may be
    /// more later, while the file is being written.
    ///
    /// # Errors
    /// [`Problem::Record`], [`Problem::RecordType`], [`Problem::Changed`], or the system's. What was read
    /// before stays, and `at` is at the record that is wrong.
    pub(crate) fn load(&mut self, source: &mut MemberReader, at: &mut u64) -> Result<(), ArchiveError> {
        let (from, mut counts) = (*at, Counts::default());
        let done = self.load_records(source, at, &mut counts);
        trace!(
            target: "pcp::log",
            "{}: metadata from byte {from} to {at}: {counts}{}",
            source.path().display(),
            done.as_ref().err().map(|error| format!("; then {}", error.problem)).unwrap_or_default(),
        );
        // Once for all records: one at a time, such as come in no order would cost their square.
        self.settle();
        done
    }

    fn load_records(
        &mut self,
        source: &mut MemberReader,
        at: &mut u64,
        counts: &mut Counts,
    ) -> Result<(), ArchiveError> {
        loop {
            let mut fields = Fields(source.bytes(*at, HEADER)?);
            let (Some(len), Some(kind)) = (fields.u32(), fields.u32()) else { return Ok(()) };
            if (len as usize) < HEADER + TRAILER || len > i32::MAX as u32 {
                return Err(source.bad(*at, "impossible length"));
            }
            if !(DESC..=LABEL).contains(&kind) {
                return Err(source.error(*at, Problem::RecordType(kind)));
            }
            source.check_metadata(at.saturating_add(len.into()))?;
            let len = len as usize;
            if kind == TEXT && !text_bits_are_right(source, *at)? {
                trace!(
                    target: "pcp::log",
                    "{}: byte {at}: help of nothing that is known, passed over",
                    source.path().display(),
                );
                // The library does not read the trailer then, and takes it for the next header.
                *at += (len - TRAILER) as u64;
                continue;
            }
            let Some(frame) = source.frame(*at)? else { return Err(source.bad(*at, "truncated")) };
            let body = Fields(source.record(frame)?.get(HEADER..len - TRAILER).unwrap_or_default());
            self.add(kind, body).map_err(|problem| source.error(*at, problem))?;
            counts.add(kind);
            *at = frame.end();
        }
    }

    /// Adds the metadata record of these bytes, length words included.
    ///
    /// # Errors
    /// [`Problem::Record`], [`Problem::RecordType`], [`Problem::Changed`].
    pub(crate) fn add_record(&mut self, record: &[u8]) -> Result<(), Problem> {
        let kind = record_type(record).ok_or(Problem::Record("shorter than a type"))?;
        if !(DESC..=LABEL).contains(&kind) {
            return Err(Problem::RecordType(kind));
        }
        let end = record.len().saturating_sub(TRAILER);
        let body = Fields(record.get(HEADER..end).ok_or(Problem::Record("shorter than a record"))?);
        let mut bits = body;
        if kind == TEXT && !bits.u32().is_some_and(is_text_type) {
            return Err(Problem::Record("not a type of help text"));
        }
        self.add(kind, body)
    }

    /// Puts in order what has been added one by one.
    pub(crate) fn settle(&mut self) {
        self.indoms.values_mut().for_each(History::settle);
        self.labels.settle();
    }

    /// Whether no metric is described.
    pub(crate) fn is_empty(&self) -> bool {
        self.descs.is_empty()
    }

    /// A metric's descriptor.
    ///
    /// # Errors
    /// [`PmError::PMID_LOG`].
    pub(crate) fn desc(&self, pmid: Pmid) -> Result<Desc, PmError> {
        let raw = self.descs.get(&pmid).ok_or(PmError::PMID_LOG)?;
        Ok(Desc {
            pmid,
            value_type: ValueType::from_code(raw.value_type),
            indom: InDom(raw.indom),
            semantics: Semantics::of_code(raw.semantics),
            units: Units::from_word(raw.units),
        })
    }

    /// All descriptors as they are in the file, in no order.
    pub(crate) fn raw_descs(&self) -> impl Iterator<Item = (Pmid, RawDesc)> {
        self.descs.iter().map(|(pmid, desc)| (*pmid, *desc))
    }

    /// How many metrics were described before this one.
    pub(crate) fn place(&self, pmid: Pmid) -> Option<u32> {
        self.descs.get(&pmid).map(|desc| desc.place)
    }

    /// All metrics, in no order.
    pub(crate) fn pmids(&self) -> impl Iterator<Item = Pmid> {
        self.descs.keys().copied()
    }

    /// Help text, the short one where there is no long one.
    ///
    /// # Errors
    /// [`PmError::NOTHOST`] where the archive has no such text at all, else [`PmError::TEXT`].
    pub(crate) fn text(&self, target: TextTarget, level: TextLevel) -> Result<String, PmError> {
        let about = match target {
            TextTarget::Metric(_) => METRIC,
            TextTarget::InDom(_) => DOMAIN,
        };
        let levels = match level {
            TextLevel::OneLine => &[ONE_LINE][..],
            TextLevel::Help => &[HELP, ONE_LINE],
        };
        for level in levels {
            let text = self.texts.get(&(about | level, target.ident()));
            // Loggers store an empty text for a metric that has none.
            if let Some(text) = text.filter(|text| !text.is_empty() || *level == ONE_LINE) {
                return Ok(String::from_utf8_lossy(text).into_owned());
            }
        }
        let any = levels.iter().any(|level| self.text_kinds & 1 << (about | level) != 0);
        Err(if any { PmError::TEXT } else { PmError::NOTHOST })
    }

    fn add(&mut self, kind: u32, mut body: Fields<'_>) -> Result<(), Problem> {
        match kind {
            DESC => self.add_desc(body),
            INDOM_V2 | INDOM | INDOM_DELTA => {
                let stamp = if kind == INDOM_V2 { Stamp::Micro } else { Stamp::Nano };
                let bad = Problem::Record("not an instance domain");
                let Some(head) = Head::decode(&mut body, stamp, kind == INDOM_DELTA) else { return Err(bad) };
                self.indoms.entry(head.indom).or_default().add(&head, body).map_err(|_| bad)
            }
            LABEL_V2 => self.labels.add(body, Stamp::Micro).ok_or(Problem::Record("not labels")),
            LABEL => self.labels.add(body, Stamp::Nano).ok_or(Problem::Record("not labels")),
            _ => self.add_text(body).ok_or(Problem::Record("not a help text")),
        }
    }

    fn add_desc(&mut self, mut body: Fields<'_>) -> Result<(), Problem> {
        const BAD: Problem = Problem::Record("not a descriptor");
        let mut words = || body.u32();
        let (Some(pmid), Some(value_type), Some(indom), Some(semantics), Some(units), Some(count)) =
            (words(), words(), words(), words(), words(), words())
        else {
            return Err(BAD);
        };
        // Nothing of a record whose names are cut off.
        let mut names = body;
        for _ in 0..count {
            let len = names.u32().ok_or(BAD)?;
            names.bytes(len as usize).ok_or(BAD)?;
        }
        let (value_type, semantics) = (value_type as i32, semantics as i32);
        let pmid = Pmid(pmid);
        let place = self.descs.len() as u32;
        let new = RawDesc { value_type, indom, semantics, units, place };
        match self.descs.entry(pmid) {
            Entry::Vacant(entry) => {
                entry.insert(new);
            }
            Entry::Occupied(entry) => {
                let old = entry.get();
                let changed = [
                    (old.value_type != value_type, Attribute::Type),
                    (old.semantics != semantics, Attribute::Semantics),
                    (old.indom != indom, Attribute::InDom),
                    (old.units != units, Attribute::Units),
                ];
                if let Some((_, what)) = changed.into_iter().find(|(changed, _)| *changed) {
                    return Err(Problem::Changed(what));
                }
            }
        }
        for _ in 0..count {
            let len = body.u32().ok_or(BAD)?;
            let name = body.bytes(len as usize).ok_or(BAD)?;
            self.names.insert(&String::from_utf8_lossy(until_nul(name)), pmid);
        }
        Ok(())
    }

    fn add_text(&mut self, mut body: Fields<'_>) -> Option<()> {
        let (bits, ident) = (body.u32()?, body.u32()?);
        self.texts.insert((bits, ident), until_nul(body.0).into());
        self.text_kinds |= 1 << bits;
        Some(())
    }
}

/// Whether the text record at `at` says of what it is and how long.
fn text_bits_are_right(source: &mut MemberReader, at: u64) -> Result<bool, ArchiveError> {
    let bits = Fields(source.bytes(at + HEADER as u64, 4)?).u32();
    Ok(bits.is_none_or(is_text_type))
}

/// Whether bits say of which level and of what a text is.
fn is_text_type(bits: u32) -> bool {
    bits < 16 && (bits & (ONE_LINE | HELP)).count_ones() == 1 && (bits & (METRIC | DOMAIN)).count_ones() == 1
}

/// The type of a metadata record, length words included.
pub(super) fn record_type(record: &[u8]) -> Option<u32> {
    let mut fields = Fields(record.get(WORD..)?);
    fields.u32()
}

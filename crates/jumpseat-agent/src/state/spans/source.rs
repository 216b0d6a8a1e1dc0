//! The open spans of one source.

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use super::arrivals::Arrivals;
use pcp_model::{Inst, Timestamp};

/// The spans of one source. Ids are hashes with a key of this process.
#[derive(Debug, Default)]
pub struct SourceSpans {
    /// STARTs and ENDs that are no part of a span: without an id, or an END whose START never came.
    pub orphans: u64,
    /// STARTs with the id of an open span.
    pub duplicates: u64,
    /// Spans that ended before they began, by their times.
    pub backwards: u64,
    /// Names as events have them, so that a name is tidied and looked up once.
    pub(super) spellings: HashTable<Spelling>,
    /// By id, in the order in which their STARTs came.
    pub(super) open: Arrivals<OpenSpan>,
    /// ENDs that wait for their START, by id, in the order in which they came.
    pub(super) early: Arrivals<EarlyEnd>,
}

/// A name as an event has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spelling {
    /// Which stands for the name: see [`super::ids::IdKeys::name`].
    pub hash: u64,
    /// The name's instance.
    pub inst: Inst,
}

/// A span that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenSpan {
    /// What else is kept of its START; [`super::details::NONE`]: nothing.
    pub kept: u32,
    /// The instance of its name, if it has one.
    pub name: Option<Inst>,
    /// The time of its START.
    pub began: Timestamp,
    /// When its START came, in nanoseconds since the agent's.
    pub arrived: u64,
}

/// An END, before its START has come or together with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarlyEnd {
    /// Its time.
    pub ended: Timestamp,
    /// It says that the span has failed.
    pub failed: bool,
    /// What else is kept of it; [`super::details::NONE`]: nothing.
    pub kept: u32,
    /// When it came, in nanoseconds since the agent's start.
    pub arrived: u64,
}

/// Where the spans of each source are: with the source itself.
pub trait SpansBySource {
    /// Those of a source that has [begun](SpansBySource::begin).
    fn spans(&mut self, source: Inst) -> Option<&mut SourceSpans>;

    /// A source begins to have spans, without any yet.
    fn begin(&mut self, source: Inst);

    /// All sources that have begun.
    fn all(&mut self) -> impl Iterator<Item = (Inst, &mut SourceSpans)>;
}

/// Spans without all else that a source has.
impl SpansBySource for FxHashMap<Inst, SourceSpans> {
    fn spans(&mut self, source: Inst) -> Option<&mut SourceSpans> {
        self.get_mut(&source)
    }

    fn begin(&mut self, source: Inst) {
        self.entry(source).or_default();
    }

    fn all(&mut self) -> impl Iterator<Item = (Inst, &mut SourceSpans)> {
        self.iter_mut().map(|(source, spans)| (*source, spans))
    }
}

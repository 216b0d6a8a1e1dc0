//! Lines of one file or command into records, of one line or several.

use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use super::lines::{Join, Parser, Piece, Splitter, is_text, repair};
use super::stats::FollowStats;
use crate::delivery::{ConnId, Reason};
use crate::event::{Event, Limits, Refusal};
use crate::lanes::{Arrival, LaneId, Lanes, Numbered};
use crate::registry::Taker;
use memchr::memrchr;
use pcp_model::Timestamp;
use pcp_net::Limiter;

/// All is one connection to the accounting: nothing is lost of it.
const CONN: ConnId = 0;

/// What all files and commands of the thread share.
pub(super) struct Sink {
    /// Where records go. They are held when the core has no room.
    pub lanes: Lanes,
    /// The thread's account.
    pub stats: std::sync::Arc<FollowStats>,
    /// Keeps messages about refused lines in bounds.
    report: Limiter,
    event: Event,
    scratch: Vec<u8>,
}

impl Sink {
    /// Around `lanes`, which hold from now on.
    pub(super) fn new(mut lanes: Lanes, stats: std::sync::Arc<FollowStats>) -> Sink {
        lanes.hold();
        Sink {
            lanes,
            stats,
            report: Limiter::new(5, Duration::from_secs(10)),
            event: Event::default(),
            scratch: Vec::new(),
        }
    }
}

/// Bytes that were just read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// When they were read.
    pub arrived: Timestamp,
}

impl<'a> Chunk<'a> {
    /// Bytes that were read right now.
    pub(super) fn now(bytes: &'a [u8]) -> Chunk<'a> {
        Chunk { bytes, arrived: Timestamp::from(SystemTime::now()) }
    }
}

/// What is known of a piece besides its bytes.
#[derive(Clone, Copy, Debug)]
struct Read {
    /// When it was read.
    arrived: Timestamp,
    /// The number behind it, if it has one.
    number: Option<Numbered>,
    /// It was looked at, and is a text as it is.
    is_text: bool,
}

/// How the lines of a table are read.
#[derive(Debug)]
pub(super) struct Format {
    /// What makes events of them.
    pub parser: Parser,
    /// How long things may be.
    pub limits: Limits,
    /// Which lines are one record, unless each is.
    pub join: Option<Join>,
}

impl Format {
    /// Most bytes that may be without a record in them.
    pub(super) fn longest(&self) -> usize {
        // With the newline of an open record.
        self.join.as_ref().map_or(self.limits.max_line, |join| join.max_bytes + 1)
    }
}

/// Where a file's or command's lines go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Cuts the lines.
    pub splitter: Splitter,
    /// The source.
    pub lane: LaneId,
    /// Its account's number.
    pub slot: usize,
    /// The numbered stream that the lines are, and the number of the first byte that is given: each byte has the next.
    pub numbers: Option<Numbered>,
}

impl Stream {
    /// Takes lines in, as long as the core has room for them. Gives how many bytes are consumed: all but an incomplete
    /// line within the limit, and but lines that there was no room for. `place` says in messages where they are from.
    pub(super) fn take(
        &mut self,
        input: Chunk<'_>,
        format: &mut Format,
        sink: &mut Sink,
        place: &dyn Display,
    ) -> usize {
        let (mut at, before) = (0, self.reached(sink));
        let seam = self.seam(before);
        // All whole lines at once, as one by one it takes as long as to parse them: when there is one.
        let lines = lines_of(input.bytes);
        let mut are_texts = None;
        while !sink.lanes.is_stuck()
            && let Some(piece) = match &format.join {
                None => self.splitter.next(input.bytes, &mut at, format.limits.max_line),
                Some(join) => self.splitter.next_record(input.bytes, &mut at, join, seam),
            }
        {
            // What was cut off a line that goes on may lie behind them.
            let is_text = at <= lines.len() && *are_texts.get_or_insert_with(|| is_text(lines));
            let read = Read { arrived: input.arrived, number: self.behind(at), is_text };
            self.piece(piece, read, format, sink, place);
        }
        if sink.lanes.is_stuck() {
            // The caller gives the rest again, possibly from another buffer.
            self.splitter.rescan();
        }
        self.consumed(at, before, sink);
        at
    }

    /// Where in what is given the bytes begin that nobody has seen to: what is read again for the second time must become the
    /// same records as before, also if some were ended by time then.
    fn seam(&self, reached: u64) -> Option<usize> {
        let first = self.numbers?.number;
        usize::try_from(reached.checked_sub(first)?).ok().filter(|seam| *seam > 0)
    }

    /// The number up to which its bytes were seen to before.
    fn reached(&self, sink: &mut Sink) -> u64 {
        self.numbers.map_or(0, |next| sink.lanes.reached(self.lane, next.stream))
    }

    /// What is given next begins so many bytes further on.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.numbers = self.behind(bytes);
    }

    /// The number behind so many bytes of what is given.
    fn behind(&self, bytes: usize) -> Option<Numbered> {
        self.numbers.map(|first| Numbered { number: first.number + bytes as u64, ..first })
    }

    /// Counts what was taken: the rest is read again and counts then, and what was read again has counted before.
    fn consumed(&self, bytes: usize, before: u64, sink: &mut Sink) {
        let fresh = match self.behind(bytes) {
            None => bytes as u64,
            Some(end) => end.number.saturating_sub(before).min(bytes as u64),
        };
        sink.lanes.bytes(self.lane, fresh as usize);
        // Lines without a record, those that were refused, and those of other sources are seen to as well.
        if let Some(end) = self.behind(bytes).filter(|_| bytes > 0) {
            sink.lanes.done(self.lane, end);
        }
    }

    /// Takes what is left at the end: a last line without a newline.
    pub(super) fn last(
        &mut self,
        rest: Chunk<'_>,
        format: &mut Format,
        sink: &mut Sink,
        place: &dyn Display,
    ) {
        let (mut at, before) = (0, self.reached(sink));
        let seam = self.seam(before);
        while let Some(piece) = match &format.join {
            None if at > 0 => None,
            None => {
                at = rest.bytes.len();
                self.splitter.last(rest.bytes)
            }
            Some(join) => self.splitter.last_record(rest.bytes, &mut at, join, seam),
        } {
            let read = Read { arrived: rest.arrived, number: self.behind(at), is_text: false };
            self.piece(piece, read, format, sink, place);
        }
        self.consumed(rest.bytes.len(), before, sink);
    }

    /// Takes the record that has whole lines and waits for more, as none have come for so long. Gives how many bytes that
    /// are: all but an incomplete line.
    pub(super) fn end_record(
        &mut self,
        rest: Chunk<'_>,
        format: &mut Format,
        sink: &mut Sink,
        place: &dyn Display,
    ) -> usize {
        let (mut at, before) = (0, self.reached(sink));
        let mut ended = self.splitter.end_record(rest.bytes, &mut at);
        while let Some(piece) = ended {
            let read = Read { arrived: rest.arrived, number: self.behind(at), is_text: false };
            self.piece(piece, read, format, sink, place);
            // Blank lines behind it.
            let join = format.join.as_ref();
            ended = join.and_then(|join| self.splitter.next_record(rest.bytes, &mut at, join, None));
        }
        self.consumed(at, before, sink);
        at
    }

    fn piece(
        &mut self,
        piece: Piece<'_>,
        read: Read,
        format: &mut Format,
        sink: &mut Sink,
        place: &dyn Display,
    ) {
        let result = match piece {
            Piece::Cut(_) if !format.limits.truncate => {
                Err(Refusal::at(format.longest(), Reason::OversizeLine, "a line longer than the limit"))
            }
            piece => self.record(piece, read, format, sink),
        };
        if let Err(refusal) = result {
            // One that was refused before it was read again has counted.
            if !read.number.is_some_and(|number| sink.lanes.covers(self.lane, number)) {
                self.reject(refusal, sink, place);
            }
        }
    }

    /// Takes in a line, the beginning of a longer one, or several lines.
    fn record(
        &mut self,
        piece: Piece<'_>,
        Read { arrived, number, is_text }: Read,
        format: &mut Format,
        sink: &mut Sink,
    ) -> Result<(), Refusal> {
        let Format { parser, limits, .. } = format;
        let Sink { lanes, stats, event, scratch, .. } = sink;
        let line = match piece {
            Piece::Cut(line) => without_half_character(line),
            Piece::Line(line) | Piece::Record(line) | Piece::Part(line) => line,
        };
        // JSON says in its own words what is wrong; other lines are better kept with a mark than lost.
        let (line, repaired) =
            if is_text || !parser.repairs() { (line, false) } else { repair(line, scratch) };
        if repaired && let Some(slot) = stats.slot(self.slot) {
            slot.repaired.fetch_add(1, Ordering::Relaxed);
        }
        let is_event = match piece {
            Piece::Line(_) => parser.parse(line, limits, false, arrived, event)?,
            Piece::Cut(_) => parser.parse(line, limits, true, arrived, event)?,
            Piece::Record(_) | Piece::Part(_) => parser.parse_record(line, limits, arrived, event)?,
        };
        if !is_event {
            return Ok(());
        }
        event.truncated |= matches!(piece, Piece::Part(_));
        // Who has written the line, nobody knows.
        lanes.set_taker(Taker::Texts);
        let lane = match event.source {
            None => self.lane,
            // The registry counts what it refuses.
            Some(name) => lanes.source(event.text(line, name)).unwrap_or(self.lane),
        };
        if let Some(number) = number {
            if lanes.is_there(lane, number) {
                return Ok(());
            }
            lanes.number(number);
        }
        lanes.write(Arrival { conn: CONN, time: arrived }, lane, line, event)
    }

    /// Counts a line that has lost bytes which were none of its own.
    pub(super) fn repaired(&self, sink: &Sink) {
        if let Some(slot) = sink.stats.slot(self.slot) {
            slot.repaired.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[cold]
    fn reject(&mut self, refusal: Refusal, sink: &mut Sink, place: &dyn Display) {
        sink.lanes.reject(self.lane, refusal.reason);
        if let Some(held_back) = sink.report.allow(Instant::now()) {
            tracing::warn!(
                line = self.splitter.first(),
                column = refusal.column,
                reason = refusal.reason.word(),
                held_back,
                "{place}: line refused: {}",
                refusal.detail
            );
        }
    }
}

/// The bytes up to the last newline, and it.
fn lines_of(bytes: &[u8]) -> &[u8] {
    memrchr(b'\n', bytes).map_or(&[], |end| &bytes[..=end])
}

/// What is left of a cut line without the half character at its end, if there is one.
fn without_half_character(line: &[u8]) -> &[u8] {
    match std::str::from_utf8(line) {
        Err(error) if error.error_len().is_none() => &line[..error.valid_up_to()],
        _ => line,
    }
}

//! The rest of a program's rings, as the frames that it would have sent.
//!
//! Which of its messages are here already the log knows, as they are numbered: chunks that were not acknowledged are sent
//! again as a whole, with the same numbers, and what no chunk has follows.
//!
//! **Cost:** a turn is a chunk, which is 8 MiB at most, or reads at most 64 KiB of each ring.

use std::collections::VecDeque;
use std::sync::Arc;

use jumpseat_wire::encode::Encoder;
use jumpseat_wire::ring::chunk::{Chunk, ENTRY, Part, sender};
use jumpseat_wire::ring::merge::{Item, Merge, Run, told};
use jumpseat_wire::ring::message::whole;
use jumpseat_wire::ring::site::{self, Site};
use jumpseat_wire::ring::thread::Thread;
use jumpseat_wire::ring::transcribe::Transcriber;
use jumpseat_wire::ring::{AREA, CHUNKS, Geometry, MAGIC, SITES, TABLE, head, slot};

use super::file::Held;
use crate::delivery::MAX_SENDER_LOSS;

/// Bytes of a ring that are read in a turn. A whole message fits in.
const TURN: u64 = 64 << 10;

const UNREADABLE: &str = "the file of rings cannot be read";

/// What is still to be taken over.
#[derive(Debug)]
pub(crate) struct Heir {
    file: Held,
    geometry: Geometry,
    sites: Vec<Arc<Site>>,
    /// Who the program was, to those who number its messages.
    sender: String,
    transcriber: Option<Transcriber>,
    /// The number of the next item.
    next: u64,
    /// Chunks that were not acknowledged.
    chunks: VecDeque<Chunk>,
    rests: Vec<Rest>,
    /// The threads of slots, by their numbers; none is 0.
    threads: Vec<Thread>,
}

/// What is read of a slot: its number, whole messages, and how many losses were told before and will be after them.
struct Read {
    slot: u64,
    messages: Vec<u8>,
    told: u64,
    lost: u64,
}

/// What one ring has besides.
#[derive(Debug)]
struct Rest {
    slot: u64,
    from: u64,
    to: u64,
    told: u64,
    lost: u64,
    is_done: bool,
}

/// What a turn gives.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Rings that made no sense from some message on, each with why.
    pub broken: Vec<&'static str>,
    /// There is nothing more.
    pub is_last: bool,
}

impl Heir {
    /// Of a connection with this number, which has ended; none if the program has left it by itself, and so goes on by
    /// itself.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn new(file: Held, connection: u64) -> Result<Option<Heir>, &'static str> {
        let words: [u64; head::WORDS] = words(&file, 0).ok_or(UNREADABLE)?;
        if words[head::MAGIC] != MAGIC {
            return Err("the file of rings does not begin as one");
        }
        if words[head::LEFT] >= connection {
            return Ok(None);
        }
        let geometry = Geometry::check(words[head::SLOTS], words[head::RING])
            .ok_or("a file of rings has 1 to 64 slots with rings of a power of two, in 1 GiB at most")?;
        let mut table = vec![0; words[head::SITES].min(SITES) as usize];
        file.read_at(AREA, &mut table).map_err(|_| UNREADABLE)?;
        let sites = site::read(&table).into_iter().map(Arc::new).collect();
        let (chunks, next) = chunks(&file, geometry, words[head::FIRST], words[head::NEXT])?;
        let (told, lost) = (words[head::SENT_TOLD], words[head::LOST]);
        let mut rests = vec![Rest { slot: 0, from: 0, to: 0, told, lost, is_done: false }];
        let mut threads = vec![Thread::default()];
        for number in 1..=geometry.slots {
            let words: [u64; slot::WORDS] = words_of_slot(&file, geometry, number)?;
            threads.push(Thread::read(std::array::from_fn(|at| words[slot::THREAD + at])));
            rests.push(Rest {
                slot: number,
                from: words[slot::SENT],
                to: words[slot::WRITTEN],
                told: words[slot::SENT_TOLD],
                lost: words[slot::LOST],
                is_done: false,
            });
        }
        // It may have been killed between the table and these words.
        for part in chunks.iter().flat_map(|chunk| &chunk.parts) {
            if let Some(rest) = rests.get_mut(part.slot as usize) {
                (rest.from, rest.told) = (rest.from.max(part.to), rest.told.max(part.lost));
            }
        }
        let sender = sender([words[head::ID], words[head::ID + 1]]);
        Ok(Some(Heir { file, geometry, sites, sender, transcriber: None, next, chunks, rests, threads }))
    }

    /// Appends the frames of the next portion to `out`; times that nobody knows are `now`.
    pub(crate) fn turn(&mut self, now: i64, out: &mut Vec<u8>) -> Turn {
        let mut broken = Vec::new();
        let mut transcriber = self.transcriber.take().unwrap_or_else(|| {
            let mut encoder = Encoder::new(out);
            let first = self.chunks.front().map_or(self.next, |chunk| chunk.first);
            encoder.sender(self.sender.as_bytes(), first, out);
            Transcriber::new(encoder)
        });
        match self.chunks.pop_front() {
            Some(chunk) => self.again(&chunk, (&mut transcriber, now), &mut broken, out),
            None => {
                let read = self.portion(&mut broken);
                self.transcribe(&read, (&mut transcriber, now), out);
            }
        }
        self.transcriber = Some(transcriber);
        let is_last = self.chunks.is_empty() && self.rests.iter().all(|rest| rest.is_done);
        Turn { broken, is_last }
    }

    /// A chunk that may have come, or not.
    fn again(
        &self,
        chunk: &Chunk,
        (transcriber, now): (&mut Transcriber, i64),
        broken: &mut Vec<&'static str>,
        out: &mut Vec<u8>,
    ) {
        let all = |part: &Part| {
            let messages = self.messages(part, broken).0;
            Read { slot: part.slot, messages, told: part.told, lost: part.lost }
        };
        let read: Vec<_> = chunk.parts.iter().map(all).collect();
        let done = self.transcribe(&read, (&mut *transcriber, now), out);
        // Messages that were in no file are lost with the program, unless they had come.
        for count in pieces(chunk.count.saturating_sub(done)) {
            transcriber.encoder.missed(count, now, out);
        }
        if done > chunk.count {
            broken.push("a chunk of rings with more messages than it says");
            transcriber.encoder.sender(self.sender.as_bytes(), chunk.end(), out);
        }
    }

    /// Appends messages, and losses, as frames: how many numbers they have.
    fn transcribe(
        &self,
        read: &[Read],
        (transcriber, now): (&mut Transcriber, i64),
        out: &mut Vec<u8>,
    ) -> u64 {
        let runs = read.iter().map(|read| Run {
            messages: &read.messages,
            thread: self.threads.get(read.slot as usize),
            told: read.told,
            lost: read.lost,
        });
        let mut numbers = 0;
        for item in Merge::new(runs.collect()) {
            numbers += Item::numbers(&item);
            if transcriber.put(&item, (&self.sites, now), out).is_err() {
                // More names than a connection may have, in what one program had not sent.
                transcriber.encoder.missed(1, now, out);
            }
        }
        numbers
    }

    /// What the next turn has of each ring.
    fn portion(&mut self, broken: &mut Vec<&'static str>) -> Vec<Read> {
        let mut rests = std::mem::take(&mut self.rests);
        let left = rests.iter_mut().filter(|rest| !rest.is_done);
        let portion = left.map(|rest| self.advance(rest, broken)).collect();
        self.rests = rests;
        portion
    }

    fn advance(&self, rest: &mut Rest, broken: &mut Vec<&'static str>) -> Read {
        let left = rest.to.wrapping_sub(rest.from);
        if left > self.geometry.ring || !left.is_multiple_of(8) || !rest.from.is_multiple_of(8) {
            broken.push("positions of a ring that has not so many bytes");
            rest.to = rest.from;
        }
        let to = rest.from.wrapping_add(left.min(TURN)).min(rest.to);
        let part = Part { slot: rest.slot, from: rest.from, to, told: rest.told, lost: rest.lost };
        let (messages, sense) = self.messages(&part, broken);
        rest.from = rest.from.wrapping_add(messages.len() as u64);
        rest.told = told(&messages, rest.told);
        // Nobody knows where the next message would begin, or whether there is one.
        rest.is_done = rest.from == rest.to || !sense || messages.is_empty();
        // What was lost last is told at the end.
        let lost = if rest.is_done { rest.lost } else { rest.told };
        Read { slot: rest.slot, messages, told: part.told, lost }
    }

    /// The messages of a part, as far as they are whole, and whether what is behind them can be one.
    fn messages(&self, part: &Part, broken: &mut Vec<&'static str>) -> (Vec<u8>, bool) {
        let mut bytes = vec![0; part.to.saturating_sub(part.from) as usize];
        let start = self.geometry.slot(part.slot) + AREA;
        let at = part.from & (self.geometry.ring - 1);
        // At most to the end of the ring, and on from its beginning.
        let front = bytes.len().min((self.geometry.ring - at) as usize);
        let (front, back) = bytes.split_at_mut(front);
        let read = self.file.read_at(start + at, front).and_then(|()| self.file.read_at(start, back));
        if read.is_err() {
            broken.push(UNREADABLE);
            return (Vec::new(), false);
        }
        let (len, mut sense) = whole(&bytes);
        // A part ends with a message, unless a turn has cut it off behind some.
        sense &= len > 0 || bytes.is_empty();
        if !sense {
            broken.push("bytes of a ring that are no message");
        }
        bytes.truncate(len);
        (bytes, sense)
    }
}

fn words<const N: usize>(file: &Held, offset: u64) -> Option<[u64; N]> {
    let mut bytes = [0; 256];
    let bytes = bytes.get_mut(..8 * N)?;
    file.read_at(offset, bytes).ok()?;
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Some(words)
}

fn words_of_slot(file: &Held, geometry: Geometry, number: u64) -> Result<[u64; slot::WORDS], &'static str> {
    words(file, geometry.slot(number)).ok_or(UNREADABLE)
}

/// The chunks in the table that were not acknowledged, and the number behind the last of all.
fn chunks(
    file: &Held,
    geometry: Geometry,
    first: u64,
    next: u64,
) -> Result<(VecDeque<Chunk>, u64), &'static str> {
    const WRONG: &str =
        "a table of chunks of rings that makes no sense: 16 of 65 parts and 8 MiB are allowed";
    if next.checked_sub(first).is_none_or(|open| open > CHUNKS) {
        return Err(WRONG);
    }
    let read = |number: u64| {
        let mut bytes = vec![0; ENTRY * 8];
        let at = TABLE + number % CHUNKS * bytes.len() as u64;
        file.read_at(at, &mut bytes).map_err(|_| UNREADABLE)?;
        let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        Chunk::read(&words, geometry).ok_or(WRONG)
    };
    let chunks = (first..next).map(read).collect::<Result<VecDeque<_>, _>>()?;
    let follow = chunks.iter().zip(chunks.iter().skip(1)).all(|(one, other)| one.end() == other.first);
    let end = match next.checked_sub(1) {
        None => 1,
        Some(last) => read(last)?.end(),
    };
    if follow { Ok((chunks, end)) } else { Err(WRONG) }
}

/// A number of losses, in as many as may be told of at once.
fn pieces(count: u64) -> impl Iterator<Item = u64> {
    let mut left = count;
    std::iter::from_fn(move || {
        let piece = left.min(MAX_SENDER_LOSS);
        left -= piece;
        (piece > 0).then_some(piece)
    })
}

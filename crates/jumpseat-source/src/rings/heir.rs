//! The rest of a program's rings, in portions.
//!
//! Which of its messages are here already the log knows, as they are numbered: chunks that were not acknowledged are read
//! again as a whole, with the same numbers, and what no chunk has follows.
//!
//! **Cost:** a turn is a chunk, which is 8 MiB at most, or reads at most 64 KiB of each ring.

use std::collections::VecDeque;

use jumpseat_wire::ring::chunk::{Chunk, Part, sender};
use jumpseat_wire::ring::merge::told;
use jumpseat_wire::ring::{CHUNKS, head, slot};

use super::reader::{Portion, Reader, WRONG_TABLE};
use super::sites::Sites;

/// Bytes of a ring that are read in a turn. A whole message fits in.
const TURN: u64 = 64 << 10;

/// What is still to be taken over.
#[derive(Debug)]
pub(crate) struct Heir {
    reader: Reader,
    /// The places in the program that its messages are from.
    pub sites: Sites,
    /// Who the program was, to those who number its messages.
    pub sender: String,
    /// The number of the first item.
    pub first: u64,
    /// Chunks that were not acknowledged.
    chunks: VecDeque<Chunk>,
    rests: Vec<Rest>,
    /// The sender's number is set.
    pub is_begun: bool,
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// How many numbers its items have, where that is known.
    pub count: Option<u64>,
    /// There is nothing more.
    pub is_last: bool,
}

impl Heir {
    /// Of a connection with this number, which has ended; none if the program has left it by itself, and so goes on by
    /// itself.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn new(
        reader: Reader,
        mut sites: Sites,
        connection: u64,
    ) -> Result<Option<Heir>, &'static str> {
        let words = reader.head()?;
        if words[head::LEFT] >= connection {
            return Ok(None);
        }
        sites.renew(&reader)?;
        let (chunks, next) = chunks(&reader, words[head::FIRST], words[head::NEXT])?;
        let (told, lost) = (words[head::SENT_TOLD], words[head::LOST]);
        let mut rests = vec![Rest { slot: 0, from: 0, to: 0, told, lost, is_done: false }];
        for number in 1..=reader.geometry.slots {
            let words = reader.slot(number)?;
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
        let first = chunks.front().map_or(next, |chunk| chunk.first);
        Ok(Some(Heir { reader, sites, sender, first, chunks, rests, is_begun: false }))
    }

    /// Reads the next portion into `portion`, which is empty.
    pub(crate) fn turn(&mut self, portion: &mut Portion) -> Turn {
        let chunk = self.chunks.pop_front();
        match &chunk {
            // It may have come, or not.
            Some(chunk) => chunk.parts.iter().for_each(|part| {
                self.reader.part(part, portion);
            }),
            None => {
                let left = self.rests.iter_mut().filter(|rest| !rest.is_done);
                left.for_each(|rest| advance(&self.reader, rest, portion));
            }
        }
        let is_last = self.chunks.is_empty() && self.rests.iter().all(|rest| rest.is_done);
        Turn { count: chunk.map(|chunk| chunk.count), is_last }
    }
}

/// Reads what the next turn has of a ring.
fn advance(reader: &Reader, rest: &mut Rest, portion: &mut Portion) {
    let left = rest.to.wrapping_sub(rest.from);
    if left > reader.geometry.ring || !left.is_multiple_of(8) || !rest.from.is_multiple_of(8) {
        portion.broken.push("positions of a ring that has not so many bytes");
        rest.to = rest.from;
    }
    let to = rest.from.wrapping_add(left.min(TURN)).min(rest.to);
    let part = Part { slot: rest.slot, from: rest.from, to, told: rest.told, lost: rest.lost };
    let (len, sense) = reader.part(&part, portion);
    rest.from = rest.from.wrapping_add(len);
    rest.told = told(portion.newest(), rest.told);
    // Nobody knows where the next message would begin, or whether there is one.
    rest.is_done = rest.from == rest.to || !sense || len == 0;
    if !rest.is_done {
        // What was lost last is told at the end.
        portion.set_lost(rest.told);
    }
}

/// The chunks in the table that were not acknowledged, and the number behind the last of all.
fn chunks(reader: &Reader, first: u64, next: u64) -> Result<(VecDeque<Chunk>, u64), &'static str> {
    if next.checked_sub(first).is_none_or(|open| open > CHUNKS) {
        return Err(WRONG_TABLE);
    }
    let chunks = (first..next).map(|number| reader.chunk(number)).collect::<Result<VecDeque<_>, _>>()?;
    let follow = chunks.iter().zip(chunks.iter().skip(1)).all(|(one, other)| one.end() == other.first);
    let end = match next.checked_sub(1) {
        None => 1,
        Some(last) => reader.chunk(last)?.end(),
    };
    if follow { Ok((chunks, end)) } else { Err(WRONG_TABLE) }
}

//! The rest of a program's rings, as the frames that it would have sent.
//!
//! **Cost:** a turn reads at most 64 KiB of each ring, and the first at most a chunk, which is 8 MiB.

use std::sync::Arc;

use jumpseat_wire::encode::Encoder;
use jumpseat_wire::ring::chunk::Part;
use jumpseat_wire::ring::merge::{Merge, Run, told};
use jumpseat_wire::ring::message::whole;
use jumpseat_wire::ring::site::{self, Site};
use jumpseat_wire::ring::transcribe::Transcriber;
use jumpseat_wire::ring::{AREA, Geometry, MAGIC, SITES, head, slot};

use super::announced::Announced;
use super::file::Held;

/// Bytes of a ring that are read in a turn. A whole message fits in.
const TURN: u64 = 64 << 10;

const UNREADABLE: &str = "the file of rings cannot be read";

/// What is still to be taken over.
#[derive(Debug)]
pub(crate) struct Heir {
    file: Held,
    geometry: Geometry,
    sites: Vec<Arc<Site>>,
    encoder: Option<Encoder>,
    /// The chunk that was being sent, if it did not arrive as a whole, and how much of it did.
    open: Option<(Vec<Part>, u64)>,
    rests: Vec<Rest>,
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
    pub(crate) fn new(
        file: Held,
        connection: u64,
        announced: &Announced,
    ) -> Result<Option<Heir>, &'static str> {
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
        let mut heir = Heir { file, geometry, sites, encoder: None, open: None, rests: Vec::new() };
        // Positions of the sender: up to there everything was written to the connection.
        let mut sent = vec![(0, words[head::TOLD])];
        let (told, lost) = (words[head::TOLD], words[head::LOST]);
        heir.rests.push(Rest { slot: 0, from: 0, to: 0, told, lost, is_done: false });
        for number in 1..=geometry.slots {
            let words: [u64; slot::WORDS] = words_of_slot(&heir.file, geometry, number)?;
            sent.push((words[slot::TAKEN], words[slot::TOLD]));
            heir.rests.push(Rest {
                slot: number,
                from: words[slot::TAKEN],
                to: words[slot::WRITTEN],
                told: words[slot::TOLD],
                lost: words[slot::LOST],
                is_done: false,
            });
        }
        heir.resume(announced, &sent);
        Ok(Some(heir))
    }

    /// Goes on where the connection broke off, rather than where the sender had got to with its own accounts.
    fn resume(&mut self, announced: &Announced, sent: &[(u64, u64)]) {
        for rest in &mut self.rests {
            if let Some((from, told)) = announced.done(rest.slot) {
                (rest.from, rest.told) = (from, told);
            }
        }
        let mut is_sent = false;
        for part in &announced.chunk {
            let (Some(rest), Some((taken, told))) =
                (self.rests.get_mut(part.slot as usize), sent.get(part.slot as usize))
            else {
                continue;
            };
            (rest.from, rest.told) = (part.to, part.lost);
            // A sender that has gone beyond any part has written the whole chunk: its place may have other messages now.
            is_sent |= part.to > part.from && *taken >= part.to;
            is_sent |= part.lost > part.told && *told >= part.lost;
        }
        if !is_sent && announced.chunk.iter().all(|part| part.fits(self.geometry)) {
            self.open = Some((announced.chunk.clone(), announced.items));
        }
    }

    /// Appends the frames of the next portion to `out`; times that nobody knows are `now`.
    pub(crate) fn turn(&mut self, now: i64, out: &mut Vec<u8>) -> Turn {
        let mut broken = Vec::new();
        let (read, arrived) = match self.open.take() {
            Some((parts, arrived)) => {
                let all = |part: &Part| (self.messages(part, &mut broken).0, part.told, part.lost);
                (parts.iter().map(all).collect::<Vec<_>>(), arrived)
            }
            None => (self.portion(&mut broken), 0),
        };
        let runs = read.iter().map(|(messages, told, lost)| Run { messages, told: *told, lost: *lost });
        let encoder = self.encoder.get_or_insert_with(|| Encoder::new(out));
        let mut transcriber = Transcriber::new(&self.sites, now);
        for item in Merge::new(runs.collect()).skip(usize::try_from(arrived).unwrap_or(usize::MAX)) {
            if transcriber.put(&item, encoder, out).is_err() {
                // More names than a connection may have, in what one program had not sent.
                encoder.missed(1, now, out);
            }
        }
        Turn { broken, is_last: self.rests.iter().all(|rest| rest.is_done) }
    }

    /// What the next turn has of each ring: messages, and how many losses were told before and will be after it.
    fn portion(&mut self, broken: &mut Vec<&'static str>) -> Vec<(Vec<u8>, u64, u64)> {
        let mut rests = std::mem::take(&mut self.rests);
        let left = rests.iter_mut().filter(|rest| !rest.is_done);
        let portion = left.map(|rest| self.advance(rest, broken)).collect();
        self.rests = rests;
        portion
    }

    fn advance(&self, rest: &mut Rest, broken: &mut Vec<&'static str>) -> (Vec<u8>, u64, u64) {
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
        (messages, part.told, lost)
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
    let mut bytes = [0; 128];
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

//! A program's file of rings, as its owner says it is: read at the places that it names, never believed.
//!
//! **Cost:** of a part two or three system calls, and one copy of its bytes.

use jumpseat_wire::ring::chunk::{Chunk, ENTRY, Part};
use jumpseat_wire::ring::merge::{Merge, Run};
use jumpseat_wire::ring::message::whole;
use jumpseat_wire::ring::thread::{self, Thread};
use jumpseat_wire::ring::{AREA, CHUNKS, Geometry, MAGIC, SITES, TABLE, head, slot};

use super::file::Held;

/// What is said of a file that cannot be read.
pub(super) const UNREADABLE: &str = "the file of rings cannot be read";
/// What is said of a table that makes no sense.
pub(super) const WRONG_TABLE: &str =
    "a table of chunks of rings that makes no sense: 16 of 65 parts and 8 MiB are allowed";

/// The file of a program's rings.
#[derive(Debug)]
pub(crate) struct Reader {
    file: Held,
    /// As it was at the beginning, whatever the head says later.
    pub geometry: Geometry,
}

/// What was read of rings at a time. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Portion {
    /// Whole messages, those of a part behind those of the one before, as far as they are `used`.
    bytes: Vec<u8>,
    used: usize,
    parts: Vec<Read>,
    /// Parts that made no sense from some message on, each with why.
    pub broken: Vec<&'static str>,
}

/// What was read of a part.
#[derive(Debug)]
struct Read {
    /// Where its messages end in all bytes.
    end: usize,
    thread: Option<Thread>,
    /// How many losses were told before and will be after them.
    told: u64,
    lost: u64,
}

impl Reader {
    /// Of a file that has been checked.
    ///
    /// # Errors
    /// What is wrong with its head.
    pub(crate) fn new(file: Held) -> Result<Reader, &'static str> {
        let words: [u64; head::WORDS] = words(&file, 0)?;
        if words[head::MAGIC] != MAGIC {
            return Err("the file of rings does not begin as one");
        }
        let geometry = Geometry::check(words[head::SLOTS], words[head::RING])
            .ok_or("a file of rings has 1 to 64 slots with rings of a power of two, in 1 GiB at most")?;
        Ok(Reader { file, geometry })
    }

    /// The words of the head.
    pub(super) fn head(&self) -> Result<[u64; head::WORDS], &'static str> {
        words(&self.file, 0)
    }

    /// The words of a slot.
    pub(super) fn slot(&self, number: u64) -> Result<[u64; slot::WORDS], &'static str> {
        words(&self.file, self.geometry.slot(number))
    }

    /// A chunk of the table.
    pub(crate) fn chunk(&self, number: u64) -> Result<Chunk, &'static str> {
        let mut bytes = [0; ENTRY * 8];
        let at = TABLE + number % CHUNKS * bytes.len() as u64;
        self.file.read_at(at, &mut bytes).map_err(|_| UNREADABLE)?;
        let mut words = [0; ENTRY];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Chunk::read(&words, self.geometry).ok_or(WRONG_TABLE)
    }

    /// Appends what the table of sites has beyond what is in `table`.
    pub(super) fn sites(&self, table: &mut Vec<u8>) -> Result<(), &'static str> {
        let [bytes] = words(&self.file, 8 * head::SITES as u64)?;
        let (before, after) = (table.len(), bytes.min(SITES) as usize);
        if after <= before {
            return Ok(());
        }
        table.resize(after, 0);
        let read = self.file.read_at(AREA + before as u64, &mut table[before..]);
        read.map_err(|_| {
            table.truncate(before);
            UNREADABLE
        })
    }

    /// Appends the messages of a part, as far as they are whole: how many bytes they have, and whether what is behind them can
    /// be one.
    pub(crate) fn part(&self, part: &Part, portion: &mut Portion) -> (u64, bool) {
        let (len, sense) = self.messages(part, portion);
        portion.used += len;
        let thread = (part.slot != 0).then(|| self.thread(part.slot)).flatten();
        portion.parts.push(Read { end: portion.used, thread, told: part.told, lost: part.lost });
        (len as u64, sense)
    }

    fn messages(&self, part: &Part, portion: &mut Portion) -> (usize, bool) {
        let Portion { bytes, used, broken, .. } = portion;
        let end = *used + part.to.saturating_sub(part.from) as usize;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        let messages = &mut bytes[*used..end];
        let ring = self.geometry.slot(part.slot) + AREA;
        let at = part.from & (self.geometry.ring - 1);
        // At most to the end of the ring, and on from its beginning.
        let front = messages.len().min((self.geometry.ring - at) as usize);
        let (front, back) = messages.split_at_mut(front);
        let read = self.file.read_at(ring + at, front).and_then(|()| self.file.read_at(ring, back));
        if read.is_err() {
            broken.push(UNREADABLE);
            return (0, false);
        }
        let (len, mut sense) = whole(messages);
        // A part ends with a message, unless a turn has cut it off behind some.
        sense &= len > 0 || messages.is_empty();
        if !sense {
            broken.push("bytes of a ring that are no message");
        }
        (len, sense)
    }

    /// Whose a slot is.
    fn thread(&self, slot: u64) -> Option<Thread> {
        let at = self.geometry.slot(slot) + 8 * slot::THREAD as u64;
        words::<{ thread::WORDS }>(&self.file, at).ok().map(Thread::read)
    }
}

impl Portion {
    /// Makes it empty.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.parts.clear();
        self.broken.clear();
    }

    /// Gives back memory beyond this.
    pub(crate) fn give_back(&mut self, keep: usize) {
        if self.bytes.capacity() > keep {
            self.bytes = Vec::new();
        }
    }

    /// Bytes of all messages.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// The messages of the part that was read last.
    pub(super) fn newest(&self) -> &[u8] {
        let before = self.parts.len().checked_sub(2).map_or(0, |before| self.parts[before].end);
        self.bytes.get(before..self.used).unwrap_or_default()
    }

    /// After the part that was read last there are so many losses.
    pub(super) fn set_lost(&mut self, lost: u64) {
        if let Some(newest) = self.parts.last_mut() {
            newest.lost = lost;
        }
    }

    /// The messages and losses, in their order.
    pub(crate) fn items(&self) -> Merge<'_> {
        let mut rest = &self.bytes[..];
        let mut start = 0;
        let mut runs = Vec::with_capacity(self.parts.len());
        for Read { end, thread, told, lost } in &self.parts {
            let (messages, after) = rest.split_at(end.saturating_sub(start).min(rest.len()));
            (rest, start) = (after, *end);
            runs.push(Run { messages, thread: thread.as_ref(), told: *told, lost: *lost });
        }
        Merge::new(runs)
    }
}

fn words<const N: usize>(file: &Held, offset: u64) -> Result<[u64; N], &'static str> {
    let mut bytes = [[0; 8]; N];
    file.read_at(offset, bytes.as_flattened_mut()).map_err(|_| UNREADABLE)?;
    Ok(bytes.map(u64::from_ne_bytes))
}

//! The bytes of a segment. All numbers are in network byte order, as in the records themselves.
//!
//! ```text
//! segment := head batch*
//! head    := 0 "jmpslog\n" | 8 version u16 | 10 domain u16 | 12 length u32 | 16 epoch u64 | 24 first number u64
//!            | 32 salt u64 | 40 boot 16 bytes | 56 made, seconds i64 | 64 source i32 | 68 0 u32
//!            | 72 name text | epochs | state | crc32
//! epochs  := n varint | n x (epoch varint, first number varint)
//! batch   := 0 "jsB1" | 4 length u32 | 8 first number u64 | 16 lost u64 | 24 lost, seconds i64 | 32 nanoseconds u32
//!            | 36 newest, nanoseconds u32 | 40 seconds i64 | 48 records u32 | 52 their bytes u32 | 56 bytes of changes u32
//!            | 60 numbered u32 | 64 crc32 of the head before it and the changes | 68 changes | body | crc32
//! body    := records | ends: a u32 each
//!          | what crate::delta makes of them, which is shorter: so the batch's length tells which it is. Not in version 1
//! ```
//!
//! The lost ones of a batch come before its records. The last checksum is over the head's and the body: it is what
//! makes the batch one that counts. Checksums begin with the segment's salt, which no sender knows: what is in a record never
//! looks like a batch. `changes` and `state` are described in [`crate::state`].

use byteorder::{BigEndian, ByteOrder};
use crc32fast::Hasher;
use jumpseat_wire::{put_text, put_varint, varint};
use pcp_event::batch::MAX_BATCH;
use pcp_event::log::Stretch;
use pcp_model::{Inst, Timestamp};

use crate::delta;
use crate::state::{State, take_text};

/// The first bytes of a segment.
pub(crate) const MAGIC: [u8; 8] = *b"jmpslog\n";
/// The version that this program writes. It reads those before as well.
pub const VERSION: u16 = 2;
/// The first bytes of a batch.
pub(crate) const BATCH_MAGIC: [u8; 4] = *b"jsB1";
/// Bytes of a segment's head before the source's name.
pub(crate) const FIXED_HEAD: usize = 72;
/// Bytes of a batch's head.
pub(crate) const BATCH_HEAD: usize = 68;
/// Where its checksum is.
const HEAD_CRC: usize = 64;
/// Bytes of a checksum.
pub(crate) const CRC: usize = 4;
/// Most bytes of a segment's head: the marks are what can be long.
pub(crate) const MAX_HEAD: usize = 32 << 20;
/// Most bytes of a batch's changes.
pub(crate) const MAX_CHANGES: usize = 8 << 20;
/// Most epochs that a head remembers; the oldest are forgotten first.
pub(crate) const MAX_EPOCHS: usize = 64;
/// The shortest record.
pub(crate) const MIN_RECORD: usize = 24;

/// What is wrong with bytes that should be a segment's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file ends before it should.
    #[error("ends too early")]
    Short,
    /// It does not begin as a segment does.
    #[error("is no segment of an event log")]
    Magic,
    /// Another version has written it.
    #[error("is of version {0}; this program reads versions 1 to {VERSION}")]
    Version(u16),
    /// A checksum does not fit.
    #[error("a checksum does not fit")]
    Checksum,
    /// The checksum fits, what is in there makes no sense.
    #[error("makes no sense, though its checksum fits")]
    Contents,
}

/// A segment's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub domain: u16,
    pub epoch: u64,
    /// Sequence number of what comes first.
    pub first: u64,
    pub salt: u64,
    /// The kernel's name for the time from one start of the machine to the next.
    pub boot: [u8; 16],
    pub made: i64,
    pub source: Inst,
    pub name: String,
    /// Epochs before, with the number that each began at, oldest first.
    pub epochs: Vec<(u64, u64)>,
    /// As of the segment's beginning.
    pub state: State,
}

impl Head {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; FIXED_HEAD];
        out[..8].copy_from_slice(&MAGIC);
        BigEndian::write_u16(&mut out[8..], VERSION);
        BigEndian::write_u16(&mut out[10..], self.domain);
        BigEndian::write_u64(&mut out[16..], self.epoch);
        BigEndian::write_u64(&mut out[24..], self.first);
        BigEndian::write_u64(&mut out[32..], self.salt);
        out[40..56].copy_from_slice(&self.boot);
        BigEndian::write_i64(&mut out[56..], self.made);
        BigEndian::write_i32(&mut out[64..], self.source);
        put_text(&mut out, self.name.as_bytes());
        put_varint(&mut out, self.epochs.len() as u64);
        for (epoch, first) in &self.epochs {
            put_varint(&mut out, *epoch);
            put_varint(&mut out, *first);
        }
        self.state.put(&mut out);
        let len = out.len() + CRC;
        BigEndian::write_u32(&mut out[12..], len as u32);
        let crc = checksum(0, &[&out]);
        out.extend_from_slice(&crc.to_be_bytes());
        out
    }

    /// The length of the head that begins with these [`FIXED_HEAD`] bytes.
    pub(crate) fn len_of(fixed: &[u8]) -> Result<usize, Damage> {
        let fixed = fixed.get(..FIXED_HEAD).ok_or(Damage::Short)?;
        if fixed[..8] != MAGIC {
            return Err(Damage::Magic);
        }
        match BigEndian::read_u16(&fixed[8..]) {
            1..=VERSION => {}
            other => return Err(Damage::Version(other)),
        }
        let len = BigEndian::read_u32(&fixed[12..]) as usize;
        if (FIXED_HEAD + CRC..=MAX_HEAD).contains(&len) { Ok(len) } else { Err(Damage::Checksum) }
    }

    /// `bytes`: the whole head, as long as [`Head::len_of`] says.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Head, Damage> {
        let len = Head::len_of(bytes)?;
        let bytes = bytes.get(..len).ok_or(Damage::Short)?;
        let (body, crc) = bytes.split_at(len - CRC);
        if checksum(0, &[body]) != BigEndian::read_u32(crc) {
            return Err(Damage::Checksum);
        }
        let mut rest = &body[FIXED_HEAD..];
        let variable = (|| {
            let name = String::from_utf8(take_text(&mut rest)?.to_vec()).ok()?;
            let mut epochs = Vec::new();
            for _ in 0..take(&mut rest).filter(|count| *count <= MAX_EPOCHS as u64)? {
                epochs.push((take(&mut rest)?, take(&mut rest)?));
            }
            let mut state = State::default();
            state.take(&mut rest)?;
            rest.is_empty().then_some((name, epochs, state))
        })();
        let (name, epochs, state) = variable.ok_or(Damage::Contents)?;
        Ok(Head {
            domain: BigEndian::read_u16(&body[10..]),
            epoch: BigEndian::read_u64(&body[16..]),
            first: BigEndian::read_u64(&body[24..]),
            salt: BigEndian::read_u64(&body[32..]),
            boot: body[40..56].try_into().unwrap_or_default(),
            made: BigEndian::read_i64(&body[56..]),
            source: BigEndian::read_i32(&body[64..]),
            name,
            epochs,
            state,
        })
    }
}

/// When a segment was begun, by the first bytes of its head.
pub(crate) fn made_of(fixed: &[u8; FIXED_HEAD]) -> i64 {
    BigEndian::read_i64(&fixed[56..])
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (value, width) = varint(bytes)?;
    *bytes = &bytes[width..];
    Some(value)
}

/// A batch's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchHead {
    /// Sequence number of the first of the lost ones, or of the first record if none is.
    pub first: u64,
    pub lost: u64,
    /// When the newest of them was.
    pub lost_time: Timestamp,
    /// The time of the last record, or of the lost ones if there is none.
    pub time: Timestamp,
    pub records: u32,
    /// Bytes of the records.
    pub bytes: u32,
    /// Bytes of the body.
    pub body: u32,
    /// Bytes of the changes.
    pub changes: u32,
    /// Records whose sender will send them again if they are not there.
    pub numbered: u32,
    pub crc: u32,
}

impl BatchHead {
    /// Bytes of the whole batch.
    pub(crate) fn len(&self) -> usize {
        BATCH_HEAD + self.changes as usize + self.body as usize + CRC
    }

    /// Bytes of the body where the records are as they are.
    pub(crate) fn plain(&self) -> u64 {
        u64::from(self.bytes) + 4 * u64::from(self.records)
    }

    /// Sequence number behind the last record.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(self.lost).saturating_add(u64::from(self.records))
    }

    /// Writes the head over the first bytes of `out`, whose rest are the changes.
    pub(crate) fn seal(&mut self, out: &mut [u8], salt: u64) {
        let len = self.len() as u32;
        let (head, changes) = out.split_at_mut(BATCH_HEAD);
        head[..4].copy_from_slice(&BATCH_MAGIC);
        BigEndian::write_u32(&mut head[4..], len);
        BigEndian::write_u64(&mut head[8..], self.first);
        BigEndian::write_u64(&mut head[16..], self.lost);
        BigEndian::write_i64(&mut head[24..], self.lost_time.sec);
        BigEndian::write_u32(&mut head[32..], self.lost_time.nsec);
        BigEndian::write_u32(&mut head[36..], self.time.nsec);
        BigEndian::write_i64(&mut head[40..], self.time.sec);
        for (at, word) in [(48, self.records), (52, self.bytes), (56, self.changes), (60, self.numbered)] {
            BigEndian::write_u32(&mut head[at..], word);
        }
        self.crc = checksum(salt, &[&head[..HEAD_CRC], changes]);
        BigEndian::write_u32(&mut head[HEAD_CRC..], self.crc);
    }

    /// The head that `bytes` begins with, if it looks like one; its checksum is not looked at.
    pub(crate) fn decode(bytes: &[u8]) -> Result<BatchHead, Damage> {
        let head = bytes.get(..BATCH_HEAD).ok_or(Damage::Short)?;
        if head[..4] != BATCH_MAGIC {
            return Err(Damage::Magic);
        }
        let word = |at: usize| BigEndian::read_u32(&head[at..]);
        let found = BatchHead {
            first: BigEndian::read_u64(&head[8..]),
            lost: BigEndian::read_u64(&head[16..]),
            lost_time: Timestamp::new(BigEndian::read_i64(&head[24..]), word(32)),
            time: Timestamp::new(BigEndian::read_i64(&head[40..]), word(36)),
            records: word(48),
            bytes: word(52),
            body: (word(4).saturating_sub((BATCH_HEAD + CRC) as u32)).saturating_sub(word(56)),
            changes: word(56),
            numbered: word(60),
            crc: word(HEAD_CRC),
        };
        let fits = found.bytes as usize <= MAX_BATCH
            && found.changes as usize <= MAX_CHANGES
            && found.records as usize <= found.bytes as usize / MIN_RECORD
            && found.first.checked_add(found.lost).is_some_and(|end| end <= u64::MAX - MAX_BATCH as u64)
            && found.len() == word(4) as usize
            && u64::from(found.body) <= found.plain();
        if fits { Ok(found) } else { Err(Damage::Checksum) }
    }

    /// Whether head and changes are as they were written. `bytes` begins with the head.
    pub(crate) fn check_head(&self, bytes: &[u8], salt: u64) -> Result<(), Damage> {
        let changes = bytes.get(BATCH_HEAD..BATCH_HEAD + self.changes as usize).ok_or(Damage::Short)?;
        if checksum(salt, &[&bytes[..HEAD_CRC], changes]) == self.crc {
            Ok(())
        } else {
            Err(Damage::Checksum)
        }
    }

    /// The checksum behind the body.
    pub(crate) fn body_crc(&self, body: &[&[u8]]) -> u32 {
        checksum(u64::from(self.crc), body)
    }

    /// Whether body and checksum are as they were written.
    pub(crate) fn check_body(&self, read: &[u8]) -> Result<(), Damage> {
        let (body, crc) = read.split_at_checked(self.body as usize).ok_or(Damage::Short)?;
        let crc = crc.get(..CRC).ok_or(Damage::Short)?;
        if self.body_crc(&[body]) == BigEndian::read_u32(crc) { Ok(()) } else { Err(Damage::Checksum) }
    }

    /// Takes the records out of body and checksum, if they are as they were written. What `read` has then is of no use.
    pub(crate) fn take_records(&self, read: &mut Vec<u8>, stretch: &mut Stretch) -> Result<(), Damage> {
        self.check_body(read)?;
        let Stretch { records, ends, .. } = stretch;
        let (bytes, count) = (self.bytes as usize, self.records as usize);
        if u64::from(self.body) < self.plain() {
            delta::decode(&read[..self.body as usize], bytes, count, records, ends)?;
        } else {
            take_ends(&read[bytes..self.body as usize], bytes, ends)?;
            std::mem::swap(read, records);
            records.truncate(bytes);
        }
        (stretch.first, stretch.lost, stretch.lost_time) = (self.first, self.lost, self.lost_time);
        Ok(())
    }
}

/// Appends where records end.
pub(crate) fn put_ends(out: &mut Vec<u8>, ends: &[u32]) {
    let start = out.len();
    out.resize(start + 4 * ends.len(), 0);
    for (bytes, end) in out[start..].chunks_exact_mut(4).zip(ends) {
        bytes.copy_from_slice(&end.to_be_bytes());
    }
}

/// Where records end, if each is long enough and the last one ends where they all do.
fn take_ends(encoded: &[u8], bytes: usize, out: &mut Vec<u32>) -> Result<(), Damage> {
    out.clear();
    out.extend(encoded.chunks_exact(4).map(BigEndian::read_u32));
    let mut before = 0;
    let ascends = out.iter().all(|&end| {
        let fits = end as usize >= before + MIN_RECORD;
        before = end as usize;
        fits
    });
    if ascends && before == bytes { Ok(()) } else { Err(Damage::Contents) }
}

fn checksum(salt: u64, parts: &[&[u8]]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&salt.to_be_bytes());
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

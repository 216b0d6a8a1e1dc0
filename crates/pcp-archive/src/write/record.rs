//! A record of values (spec `archive.md` 7).
//!
//! ```text
//! record := len | stamp | numpmid | set* | block* | len
//! set    := pmid | numval, if > 0: | valfmt | numval x { inst | word }
//! word   := the value (valfmt 0), or its block's place: (word - 2) * 4 bytes from the record's start
//! block  := type:8 len:24 | len - 4 bytes, padded to a multiple of 4 with '~'
//! ```

use byteorder::{BigEndian, ByteOrder};
use bytes::BufMut;

use super::{STAMP_LEN, put_stamp};
use pcp_model::{Pmid, Timestamp};
use pcp_pdu::{Fetched, ValueRef};

const WORD: usize = 4;
const SETS: usize = WORD + STAMP_LEN + WORD;
/// By how many words a block's place is larger than its offset in the record.
const BIAS: usize = 2;
const IN_SITU: u32 = 0;
const POINTER: u32 = 1;
const PAD: u8 = b'~';

/// Appends the record of a fetch; false, and nothing, if it is too large. `logged` gives the identifier that a
/// metric has in the archive.
pub(super) fn put_values(
    out: &mut Vec<u8>,
    time: Timestamp,
    fetched: &Fetched,
    logged: impl Fn(Pmid) -> Pmid,
) -> bool {
    let start = out.len();
    let values = |count: usize| if count == 0 { 0 } else { WORD + count * 2 * WORD };
    let sets = fetched.sets().map(|set| 2 * WORD + set.values.map_or(0, |v| values(v.len())));
    let mut at = start + SETS;
    // Sets are filled in while blocks are appended behind them.
    out.resize(at + sets.sum::<usize>(), 0);
    put_head(&mut out[start..at], time, fetched.len());
    let put = |out: &mut Vec<u8>, at: &mut usize, word: u32| {
        BigEndian::write_u32(&mut out[*at..], word);
        *at += WORD;
    };
    for set in fetched.sets() {
        put(out, &mut at, logged(set.pmid).0);
        let values = match set.values {
            Err(error) => {
                put(out, &mut at, error.0 as u32);
                continue;
            }
            Ok(values) => values,
        };
        put(out, &mut at, values.len() as u32);
        let format = match values.get(0) {
            None => continue,
            Some((_, ValueRef::InSitu(_))) => IN_SITU,
            Some((_, ValueRef::Block(_))) => POINTER,
        };
        put(out, &mut at, format);
        for (inst, value) in values.iter() {
            put(out, &mut at, inst as u32);
            match value {
                ValueRef::InSitu(word) => put(out, &mut at, u32::from_be_bytes(word)),
                ValueRef::Block(block) => {
                    let place = (out.len() - start) / WORD + BIAS;
                    put(out, &mut at, place as u32);
                    out.extend_from_slice(block);
                    out.put_bytes(PAD, block.len().next_multiple_of(WORD) - block.len());
                }
            }
        }
    }
    finish(out, start)
}

/// Appends a record without values, behind which no value has to do with those in front.
pub(super) fn put_mark(out: &mut Vec<u8>, time: Timestamp) {
    let start = out.len();
    out.resize(start + SETS, 0);
    put_head(&mut out[start..], time, 0);
    finish(out, start);
}

fn put_head(mut head: &mut [u8], time: Timestamp, sets: usize) {
    head.put_u32(0);
    put_stamp(&mut head, time);
    head.put_u32(sets as u32);
}

/// Writes the record's length at both of its ends.
fn finish(out: &mut Vec<u8>, start: usize) -> bool {
    match i32::try_from(out.len() - start + WORD) {
        Ok(len) => {
            BigEndian::write_i32(&mut out[start..], len);
            out.put_i32(len);
            true
        }
        Err(_) => {
            out.truncate(start);
            false
        }
    }
}

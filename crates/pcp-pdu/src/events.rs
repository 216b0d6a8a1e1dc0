//! The counts of an event array against its bytes (`docs/pcp/wire.md` 7.4 and 8, `docs/pcp/events.md` 1.14).
//!
//! ```text
//! array  := header word | nrecords i32 | record*
//! record := sec, usec i32 each (EVENT) or sec, nsec i64 each (HIGHRES_EVENT) | flags u32 | nparams i32 | param*
//! param  := pmid u32 | type:8 len:24 | len - 4 bytes, padded to a multiple of 4
//! ```
//!
//! Like PCP from 6.3.1 on, a result whose event array promises more than it holds is refused as a
//! whole; what PCP lets through (negative counts, odd parameter lengths, trailing words) is let through
//! here too and left to the reader of the array. Cost: one step per record and parameter, no allocation.

use bytes::Buf;

use super::codec::pad4;

const HEADER_WORD: usize = 4;
const EVENT_TIME: usize = 8;
const HIGHRES_TIME: usize = 16;
const PMID_LEN: usize = 4;
const FLAG_MISSED: u32 = 0x8000_0000;
const LEN_MASK: u32 = 0xff_ffff;

/// The two value types that are event arrays.
pub(super) const EVENT: u8 = 9;
pub(super) const HIGHRES_EVENT: u8 = 10;

/// Checks `block`, header word included, padding not. Where it fails: the offset in `block` and what
/// does not fit there.
pub(super) fn check(block: &[u8]) -> Result<(), (usize, &'static str)> {
    let time = if block.first() == Some(&HIGHRES_EVENT) { HIGHRES_TIME } else { EVENT_TIME };
    let mut rest = block.get(HEADER_WORD..).unwrap_or(&[]);
    let nrecords = rest.try_get_i32().map_err(|_| (HEADER_WORD, "nrecords"))?;
    for _ in 0..nrecords {
        let place = block.len() - rest.len();
        if rest.len() < time + 8 {
            return Err((place, "record"));
        }
        rest.advance(time);
        let (flags, nparams) = (rest.get_u32(), rest.get_i32());
        if flags & FLAG_MISSED != 0 {
            continue;
        }
        for _ in 0..nparams {
            let place = block.len() - rest.len();
            rest = param(rest).ok_or((place, "parameter"))?;
        }
    }
    Ok(())
}

/// What is left behind the parameter at the front of `rest`.
fn param(rest: &[u8]) -> Option<&[u8]> {
    let mut word = rest.get(PMID_LEN..PMID_LEN + HEADER_WORD)?;
    let word = word.get_u32();
    let len = (word & LEN_MASK) as usize;
    // A fixed-size value takes its size whatever the length says.
    let least = match word >> 24 {
        0 | 1 | 4 => HEADER_WORD + 4,
        2 | 3 | 5 => HEADER_WORD + 8,
        _ => HEADER_WORD,
    };
    rest.get(PMID_LEN + least.max(len)..)?;
    // The padding of the last parameter may be left to the block's.
    Some(rest.get(PMID_LEN + pad4(len.max(HEADER_WORD))..).unwrap_or(&[]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::unhex;

    const TWO_RECORDS: &str = "09000050 00000002 6b002207 000e41d4 00000001 00000001
        0740007f 01000008 00000001 6b002208 000e41d4 00000001 00000002
        0740007f 01000008 00000002 07400082 0200000c ffffffff fffffffd";

    #[test]
    fn real_arrays_pass() {
        assert_eq!(check(&unhex(TWO_RECORDS)), Ok(()));
        assert_eq!(check(&unhex("09000008 00000000")), Ok(()));
        let missed = "0a000020 00000001 00000000 65000003 00000000 075bcd15 80000000 00000007";
        assert_eq!(check(&unhex(missed)), Ok(()));
    }

    #[test]
    fn promises_beyond_the_bytes_fail_where_they_are_made() {
        let array = unhex(TWO_RECORDS);
        for cut in (0..array.len()).step_by(4) {
            assert!(check(&array[..cut]).is_err(), "cut at {cut}");
        }
        let case = |at: usize, byte: u8| {
            let mut array = array.clone();
            array[at] = byte;
            check(&array)
        };
        assert_eq!(case(7, 3), Err((80, "record")));
        assert_eq!(case(4, 0x7f), Err((80, "record")));
        assert_eq!(case(51, 3), Err((80, "parameter")));
        assert_eq!(case(29, 0x7f), Err((24, "parameter")));
        assert_eq!(check(&[9, 0, 0, 4]), Err((4, "nrecords")));
    }

    #[test]
    fn what_pcp_lets_through_passes() {
        for array in [
            "09000008 ffffffff",
            "09000018 00000001 6b002207 000e41d4 00000001 ffffffff",
            "09000024 00000001 6b002207 000e41d4 00000001 00000001 0740007f 01000003 00000001",
            "0900000c 00000000 deadbeef",
            "09000025 00000001 6b002207 000e41d4 00000001 00000001 07400086 06000009 6162636465",
        ] {
            assert_eq!(check(&unhex(array)), Ok(()), "{array}");
        }
    }
}

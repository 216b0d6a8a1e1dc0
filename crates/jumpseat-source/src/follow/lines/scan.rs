//! [`ByteSet`]: how far a text goes on with bytes of a set.
//!
//! **Cost:** sixteen bytes at a time where the machine has SSE2, which every x86-64 has: two to four nanoseconds for the ten or
//! twenty bytes of a field, whatever the set. Elsewhere a look at a table for each byte.

/// Ranges of bytes that a block is compared with; a set that takes more is looked up byte by byte.
#[cfg(target_arch = "x86_64")]
const MAX_RANGES: usize = 4;

/// A set of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ByteSet {
    has: [bool; 256],
    #[cfg(target_arch = "x86_64")]
    ranges: blocks::Ranges,
}

impl ByteSet {
    pub(super) fn new(has: [bool; 256]) -> ByteSet {
        ByteSet {
            #[cfg(target_arch = "x86_64")]
            ranges: blocks::Ranges::of(&has),
            has,
        }
    }

    #[inline]
    pub(super) fn has(&self, byte: u8) -> bool {
        self.has[usize::from(byte)]
    }

    /// The first place from `from` on whose byte is not in the set; the length of the text if there is none.
    #[inline]
    pub(super) fn end(&self, text: &[u8], from: usize) -> usize {
        #[cfg(target_arch = "x86_64")]
        if let Some(end) = self.ranges.end(text, from) {
            return end;
        }
        let rest = text.get(from..).unwrap_or_default();
        from + rest.iter().position(|byte| !self.has(*byte)).unwrap_or(rest.len())
    }
}

#[cfg(target_arch = "x86_64")]
mod blocks {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
        _mm_setzero_si128, _mm_sub_epi8,
    };

    use super::MAX_RANGES;

    const BLOCK: usize = 16;

    /// A set as ranges, of what is in it or of what is not.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) struct Ranges {
        /// None if it takes more than [`MAX_RANGES`].
        ranges: Option<Box<[Range]>>,
        /// They are what is in the set.
        are_in: bool,
    }

    /// The first byte, and how many follow it, as blocks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Range {
        first: [u8; BLOCK],
        more: [u8; BLOCK],
    }

    impl Ranges {
        pub(super) fn of(has: &[bool; 256]) -> Ranges {
            let (inside, outside) = (runs(has, true), runs(has, false));
            let are_in = inside.len() < outside.len();
            let ranges = if are_in { inside } else { outside };
            let block = |(first, more)| Range { first: [first; BLOCK], more: [more; BLOCK] };
            let ranges = (ranges.len() <= MAX_RANGES).then(|| ranges.into_iter().map(block).collect());
            Ranges { ranges, are_in }
        }

        /// Where the set ends in a text, if that can be said in blocks.
        #[inline]
        pub(super) fn end(&self, text: &[u8], from: usize) -> Option<usize> {
            let ranges = self.ranges.as_deref()?;
            let mut at = from;
            while let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk()) {
                let outside = self.outside(ranges, block);
                if outside != 0 {
                    return Some(at + outside.trailing_zeros() as usize);
                }
                at += BLOCK;
            }
            // The last bytes, with those before them that were looked at already.
            let block = text.last_chunk::<BLOCK>()?;
            let begin = text.len() - BLOCK;
            let outside =
                self.outside(ranges, block).checked_shr(u32::try_from(at.checked_sub(begin)?).ok()?);
            Some(match outside {
                None | Some(0) => text.len(),
                Some(outside) => at + outside.trailing_zeros() as usize,
            })
        }

        /// A bit for each byte that is not in the set.
        #[inline]
        fn outside(&self, ranges: &[Range], block: &[u8; BLOCK]) -> u32 {
            // SAFETY: this module is for x86-64, of which SSE2 is a part.
            let found = unsafe { found(ranges, block) };
            if self.are_in { !found & 0xffff } else { found }
        }
    }

    /// A bit for each byte that is in a range.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn found(ranges: &[Range], block: &[u8; BLOCK]) -> u32 {
        let bytes = load(block);
        let mut found = _mm_setzero_si128();
        for Range { first, more } in ranges {
            // Less the first one, they are no more than follow it.
            let from_first = _mm_sub_epi8(bytes, load(first));
            found = _mm_or_si128(found, _mm_cmpeq_epi8(_mm_min_epu8(from_first, load(more)), from_first));
        }
        _mm_movemask_epi8(found) as u32
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(block: &[u8; BLOCK]) -> __m128i {
        let [low, high] = [0, 8].map(|at| {
            let mut half = [0; 8];
            half.copy_from_slice(&block[at..at + 8]);
            i64::from_le_bytes(half)
        });
        _mm_set_epi64x(high, low)
    }

    /// The bytes for which `has` is `what`, as ranges.
    fn runs(has: &[bool; 256], what: bool) -> Vec<(u8, u8)> {
        let mut runs: Vec<(u8, u8)> = Vec::new();
        for (byte, _) in (0..=u8::MAX).zip(has).filter(|(_, has)| **has == what) {
            match runs.last_mut() {
                Some((first, more)) if u16::from(*first) + u16::from(*more) + 1 == u16::from(byte) => {
                    *more += 1
                }
                _ => runs.push((byte, 0)),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(bytes: &[u8], inverted: bool) -> ByteSet {
        let mut has = [inverted; 256];
        bytes.iter().for_each(|byte| has[usize::from(*byte)] = !inverted);
        ByteSet::new(has)
    }

    proptest! {
        #[test]
        fn the_end_is_where_the_first_other_byte_is(
            bytes in prop::collection::vec(prop_oneof![b'a'..b'f', any::<u8>()], 0..12),
            inverted in any::<bool>(),
            text in prop::collection::vec(prop_oneof![b'a'..b'f', any::<u8>()], 0..80),
        ) {
            let set = set(&bytes, inverted);
            for from in 0..=text.len() {
                let more = text[from..].iter().take_while(|byte| set.has(**byte)).count();
                prop_assert_eq!(set.end(&text, from), from + more);
            }
        }
    }

    #[test]
    fn sets_at_their_extremes() {
        for (set, text) in [(set(&[], false), 0), (set(&[], true), 40), (set(&[0, 255], true), 40)] {
            assert_eq!(set.end(&[b'x'; 40], 0), text);
        }
        assert_eq!(set(&[0, 255], false).end(&[255; 33], 3), 33);
    }
}

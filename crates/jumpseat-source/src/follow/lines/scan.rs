//! [`ByteSet`]: how far a text goes on with bytes of a set; [`Template`]: bytes of which each is of a set of its own.
//!
//! **Cost:** sixteen bytes at a time where the machine has SSE2, which every x86-64 has: two to four nanoseconds for the ten or
//! twenty bytes of a field, whatever the set, and two for those of a template. Elsewhere a look at a table for each byte.

/// A set of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ByteSet {
    has: [bool; 256],
    #[cfg(target_arch = "x86_64")]
    ranges: Option<blocks::Ranges>,
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
        if let Some(ranges) = &self.ranges
            && let Some(end) = ranges.end(text, from)
        {
            return end;
        }
        let rest = text.get(from..).unwrap_or_default();
        from + rest.iter().position(|byte| !self.has(*byte)).unwrap_or(rest.len())
    }
}

/// Bytes of which each is in a set of its own.
#[derive(Clone, Debug)]
pub(super) struct Template {
    /// Which of the sets that it is made of.
    sets: Box<[usize]>,
    #[cfg(target_arch = "x86_64")]
    ranges: Option<blocks::Ranges>,
}

impl Template {
    /// Most bytes of one.
    pub(super) const MOST: usize = 16;

    /// Of some of `all` sets, [`MOST`](Self::MOST) at most, and one at least, which are there.
    pub(super) fn new(all: &[ByteSet], sets: Vec<usize>) -> Template {
        Template {
            #[cfg(target_arch = "x86_64")]
            ranges: blocks::Ranges::of_each(sets.iter().map(|set| &all[*set].has)),
            sets: sets.into(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether such bytes are at a place. `all` sets are those that it was made with.
    #[inline]
    pub(super) fn is_at(&self, all: &[ByteSet], text: &[u8], at: usize) -> bool {
        let rest = text.get(at..).unwrap_or_default();
        #[cfg(target_arch = "x86_64")]
        if let (Some(ranges), Some(block)) = (&self.ranges, rest.first_chunk()) {
            return ranges.hold(block);
        }
        rest.len() >= self.sets.len() && self.sets.iter().zip(rest).all(|(set, byte)| all[*set].has(*byte))
    }
}

#[cfg(target_arch = "x86_64")]
mod blocks {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set_epi64x, _mm_sub_epi8,
    };

    pub(super) const BLOCK: usize = 16;
    /// Ranges of bytes that a block is compared with; a set that takes more is looked up byte by byte.
    const MAX_RANGES: usize = 4;
    /// All bytes beyond ASCII, as a range.
    const BEYOND: (u8, u8) = (128, 127);

    /// A set for each byte of a block, as ranges of what is in it, or of what is not.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) struct Ranges {
        ranges: [Range; MAX_RANGES],
        /// How many of them there are; those behind them are not looked at.
        count: usize,
        /// The highest bit of each byte, where the bytes beyond ASCII are a range as well.
        beyond: [u8; BLOCK],
        /// A bit for each byte, if the ranges are what is in the set.
        are_in: u32,
    }

    /// The first byte, and how many follow it, for each byte of a block.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Range {
        first: [u8; BLOCK],
        more: [u8; BLOCK],
    }

    impl Ranges {
        /// The same set for all bytes; `None` if it takes too many ranges.
        pub(super) fn of(has: &[bool; 256]) -> Option<Ranges> {
            let (inside, outside) = (runs(has, true), runs(has, false));
            let are_in = outside.is_empty() || (1..outside.len()).contains(&inside.len());
            let mut all = if are_in { inside } else { outside };
            let has_beyond = all.len() > 1 && all.pop_if(|range| *range == BEYOND).is_some();
            if all.len() > MAX_RANGES {
                return None;
            }
            let (first, more) = all[0];
            let mut ranges = [Range { first: [first; BLOCK], more: [more; BLOCK] }; MAX_RANGES];
            for ((first, more), range) in all.iter().zip(&mut ranges) {
                *range = Range { first: [*first; BLOCK], more: [*more; BLOCK] };
            }
            let beyond = [if has_beyond { 0x80 } else { 0 }; BLOCK];
            Some(Ranges { ranges, count: all.len(), beyond, are_in: if are_in { 0xffff } else { 0 } })
        }

        /// A set for each of the first bytes, and none of the others counts; `None` if it takes too many ranges, or a set is empty.
        pub(super) fn of_each<'a>(sets: impl Iterator<Item = &'a [bool; 256]>) -> Option<Ranges> {
            let mut ranges = [Range { first: [0; BLOCK], more: [u8::MAX; BLOCK] }; MAX_RANGES];
            let mut count = 1;
            for (at, has) in sets.enumerate() {
                let inside = runs(has, true);
                if inside.is_empty() || inside.len() > MAX_RANGES {
                    return None;
                }
                count = count.max(inside.len());
                for (range, (first, more)) in ranges.iter_mut().zip(inside.iter().cycle()) {
                    (*range.first.get_mut(at)?, *range.more.get_mut(at)?) = (*first, *more);
                }
            }
            Some(Ranges { ranges, count, beyond: [0; BLOCK], are_in: 0xffff })
        }

        /// Where the set of all bytes ends in a text; `None` if that is shorter than a block.
        #[inline]
        pub(super) fn end(&self, text: &[u8], from: usize) -> Option<usize> {
            let mut at = from;
            while let Some(block) = text.get(at..).and_then(<[u8]>::first_chunk) {
                let outside = self.outside(block);
                if outside != 0 {
                    return Some(at + outside.trailing_zeros() as usize);
                }
                at += BLOCK;
            }
            // The last bytes, with those before them that were looked at already.
            let block = text.last_chunk()?;
            let seen = BLOCK - text.len().checked_sub(at)?;
            let outside = self.outside(block).checked_shr(seen as u32);
            Some(match outside {
                None | Some(0) => text.len(),
                Some(outside) => at + outside.trailing_zeros() as usize,
            })
        }

        /// Whether each byte is in its set.
        #[inline]
        pub(super) fn hold(&self, block: &[u8; BLOCK]) -> bool {
            self.outside(block) == 0
        }

        /// A bit for each byte that is not in its set.
        #[inline]
        fn outside(&self, block: &[u8; BLOCK]) -> u32 {
            // SAFETY: this module is for x86-64, of which SSE2 is a part.
            let found = unsafe { found(&self.ranges[..self.count.min(MAX_RANGES)], &self.beyond, block) };
            found ^ self.are_in
        }
    }

    /// A bit for each byte that is in a range, or of which the highest bit counts and is set.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn found(ranges: &[Range], beyond: &[u8; BLOCK], block: &[u8; BLOCK]) -> u32 {
        let bytes = load(block);
        let mut found = _mm_and_si128(bytes, load(beyond));
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

    proptest! {
        #[test]
        fn a_template_is_where_each_byte_is_in_its_set(
            sets in prop::collection::vec(
                (prop::collection::vec(prop_oneof![b'a'..b'f', any::<u8>()], 0..9), any::<bool>()),
                1..=Template::MOST,
            ),
            text in prop::collection::vec(prop_oneof![3 => b'a'..b'f', 1 => any::<u8>()], 0..40),
        ) {
            let sets: Vec<ByteSet> = sets.iter().map(|(bytes, inverted)| set(bytes, *inverted)).collect();
            let template = Template::new(&sets, (0..sets.len()).collect());
            for at in 0..=text.len() {
                let there = text.get(at..at + sets.len());
                let expected =
                    there.is_some_and(|there| sets.iter().zip(there).all(|(set, byte)| set.has(*byte)));
                prop_assert_eq!(template.is_at(&sets, &text, at), expected, "at {}", at);
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

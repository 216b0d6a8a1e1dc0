//! Hashes of 64 bits with keys of this process: sums of products with random numbers.
//!
//! Multiply-add-shift (Dietzfelbinger 1996): for any two texts that differ, hashes are the same for one in 2^64 of the keys. So nobody who does
//! not know them can choose ones that collide, and a hash can stand for what was hashed. A word costs two multiplications, where a
//! cryptographic hash takes ten nanoseconds and more for the shortest text.

use std::hash::{BuildHasher as _, RandomState};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The keys, for texts of a length.
#[derive(Clone, Debug)]
pub(super) struct HashKeys {
    /// One for each word, after that of the length.
    words: Box<[u128]>,
    add: u128,
}

impl HashKeys {
    /// New ones, for texts of so many bytes at most.
    pub(super) fn new(most: usize) -> HashKeys {
        let random = RandomState::new();
        let number =
            |at: usize| (u128::from(random.hash_one((at, 0))) << 64) | u128::from(random.hash_one((at, 1)));
        let words = 1 + most.div_ceil(WORD);
        HashKeys { words: (0..words).map(number).collect(), add: number(words) }
    }

    /// With which all hashes are the same.
    #[cfg(test)]
    pub(super) fn colliding(most: usize) -> HashKeys {
        HashKeys { words: vec![0; 1 + most.div_ceil(WORD)].into(), add: 0 }
    }

    /// The hash of a number.
    #[inline]
    pub(super) fn number(&self, number: u64) -> u64 {
        (self.words[0].wrapping_mul(number.into()).wrapping_add(self.add) >> 64) as u64
    }

    /// The hash of a text that is no longer than keys were made for.
    #[inline]
    pub(super) fn text(&self, text: &[u8]) -> u64 {
        self.with_text(self.begin(), 0, text).finish()
    }

    /// The beginning of the hash of a row of numbers and texts, each at a place of its own.
    #[inline]
    pub(super) fn begin(&self) -> Sum {
        Sum(self.add)
    }

    /// With a number at a place, in words.
    #[inline]
    pub(super) fn with_number(&self, sum: Sum, at: usize, number: u64) -> Sum {
        Sum(sum.0.wrapping_add(self.words[at].wrapping_mul(number.into())))
    }

    /// With a text at a place, in words: a word for its length, then itself.
    #[inline]
    pub(super) fn with_text(&self, sum: Sum, at: usize, text: &[u8]) -> Sum {
        debug_assert!(at + text.len().div_ceil(WORD) < self.words.len(), "more words than keys");
        let Sum(mut sum) = self.with_number(sum, at, text.len() as u64);
        let (words, rest) = text.as_chunks::<WORD>();
        let mut keys = self.words[at + 1..].iter();
        for (word, key) in words.iter().zip(&mut keys) {
            sum = sum.wrapping_add(key.wrapping_mul(u64::from_ne_bytes(*word).into()));
        }
        if let (false, Some(key)) = (rest.is_empty(), keys.next()) {
            sum = sum.wrapping_add(key.wrapping_mul(last_word(text).into()));
        }
        Sum(sum)
    }
}

/// A hash that is being made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum(u128);

impl Sum {
    /// The hash.
    #[inline]
    pub(super) fn finish(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// A word with the last bytes of a text: another one for other last bytes of texts of the same length. Some bytes are in it twice, or in
/// the word before, too: to copy just what is left takes a call that costs as much as all the rest.
#[inline]
fn last_word(text: &[u8]) -> u64 {
    if let Some(last) = text.last_chunk::<8>() {
        u64::from_ne_bytes(*last)
    } else if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        u64::from(u32::from_ne_bytes(*first)) << 32 | u64::from(u32::from_ne_bytes(*last))
    } else if let (Some(first), Some(last)) = (text.first(), text.last()) {
        u64::from(*first) << 16 | u64::from(text[text.len() / 2]) << 8 | u64::from(*last)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_that_differ_have_other_hashes() {
        let keys = HashKeys::new(0);
        let numbers = (0..10_000_u64).flat_map(|n| [n, n << 20, n << 48]);
        let distinct: std::collections::BTreeSet<u64> = numbers.clone().collect();
        let hashes: std::collections::BTreeSet<u64> = numbers.map(|number| keys.number(number)).collect();
        assert_eq!(hashes.len(), distinct.len());
    }

    #[test]
    fn short_texts_that_differ_have_other_hashes() {
        let keys = HashKeys::new(16);
        let texts: Vec<Vec<u8>> = (0..=16)
            .flat_map(|len: usize| {
                let plain = vec![b'a'; len];
                let others = (0..len).map(move |at| {
                    let mut other = vec![b'a'; len];
                    other[at] = b'b';
                    other
                });
                others.chain([plain])
            })
            .collect();
        let hashes: std::collections::BTreeSet<u64> = texts.iter().map(|text| keys.text(text)).collect();
        assert_eq!(hashes.len(), texts.len());
    }

    #[test]
    fn what_is_elsewhere_in_a_row_has_another_hash() {
        let keys = HashKeys::new(64);
        let row = |one: &[u8], other: &[u8]| {
            let sum = keys.with_text(keys.with_number(keys.begin(), 0, 7), 1, one);
            keys.with_text(sum, 4, other).finish()
        };
        let rows: [(&[u8], &[u8]); 7] = [
            (b"", b""),
            (b"a", b""),
            (b"", b"a"),
            (b"a", b"a"),
            (b"aa", b""),
            (b"aaaaaaaa", b"\0"),
            (b"aaaaaaaaa", b""),
        ];
        let hashes: std::collections::BTreeSet<u64> =
            rows.iter().map(|(one, other)| row(one, other)).collect();
        assert_eq!(hashes.len(), rows.len());
    }

    proptest! {
        #[test]
        fn texts_that_differ_have_other_hashes(a in prop::collection::vec(0..3_u8, 0..40), b in prop::collection::vec(0..3_u8, 0..40)) {
            let keys = HashKeys::new(40);
            prop_assert_eq!(keys.text(&a) == keys.text(&b), a == b);
        }
    }
}

//! Bytes as words of eight, also where there are fewer.

/// The eight bytes from `at` on, the first in the lowest byte; zeros behind the end.
#[inline]
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(word) => u64::from_le_bytes(*word),
        None => last_word(bytes, at),
    }
}

/// The same where there are fewer than eight.
#[inline]
fn last_word(bytes: &[u8], at: usize) -> u64 {
    match bytes.last_chunk() {
        // The last eight, without those before `at`.
        Some(word) => {
            let before = (at + 8 - bytes.len()).min(8);
            u64::from_le_bytes(*word).checked_shr(8 * before as u32).unwrap_or(0)
        }
        None => {
            let rest = bytes.get(at..).unwrap_or_default();
            rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_with_the_bytes() {
        for len in 0..20usize {
            let bytes: Vec<u8> = (1..=len as u8).collect();
            for at in 0..=len + 9 {
                let mut expected = [0; 8];
                let rest = bytes.get(at..).unwrap_or_default();
                expected[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
                assert_eq!(word_at(&bytes, at), u64::from_le_bytes(expected), "{at} of {len}");
            }
        }
    }
}

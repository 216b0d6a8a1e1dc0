//! What a series is known by.

/// Longest key that is within one line of the cache.
const SHORT: usize = 47;
/// In place of a length: it is longer.
const LONG: u8 = u8::MAX;
const _: () = assert!(SHORT < LONG as usize);

/// A key: the instance of a span and the values of its dimensions. Most are short, and looked at without going elsewhere.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Key {
    long: Box<[u8]>,
    short: [u8; SHORT],
    len: u8,
}

const _: () = assert!(size_of::<Key>() == 64, "a line of the cache");

impl Key {
    pub(super) fn new(bytes: &[u8]) -> Key {
        let (mut short, mut long, mut len) = ([0; SHORT], Box::default(), LONG);
        match short.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                len = bytes.len() as u8;
            }
            None => long = bytes.into(),
        }
        Key { long, short, len }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // Of a length that is none there are no short bytes.
        self.short.get(..usize::from(self.len)).unwrap_or(&self.long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_any_length_are_what_they_were_made_of() {
        for len in [0, 1, SHORT - 1, SHORT, SHORT + 1, 254, 255, 256, 1036] {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
            assert_eq!(Key::new(&bytes).bytes(), bytes);
        }
    }
}

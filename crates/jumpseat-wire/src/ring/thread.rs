//! The thread that a slot is of: its messages come with its name and its number.

/// Words of a slot's head that tell of it.
pub const WORDS: usize = 1 + NAME / 8;
/// Longest name, in bytes.
const NAME: usize = 56;

/// A thread of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The number that the system has for it; 0: nobody knows.
    pub id: u64,
    /// Its name; empty if it has none.
    pub name: Box<[u8]>,
}

impl Thread {
    /// A thread; a long name is cut.
    pub fn new(id: u64, name: &str) -> Thread {
        let mut end = name.len().min(NAME);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        Thread { id, name: name.as_bytes()[..end].into() }
    }

    /// As it stands in a slot's head.
    pub fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[0] = self.id;
        for (word, bytes) in words[1..].iter_mut().zip(self.name.chunks(8)) {
            let mut value = [0; 8];
            value[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(value);
        }
        words
    }

    /// What such words say; a name that is no text is none.
    pub fn read(words: [u64; WORDS]) -> Thread {
        let bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Thread { id: words[0], name: std::str::from_utf8(name).unwrap_or_default().as_bytes().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read_as_it_was_written() {
        for name in ["", "main", "tokio-runtime-worker", &"x".repeat(NAME)] {
            let thread = Thread::new(4711, name);
            assert_eq!((&*thread.name, Thread::read(thread.words())), (name.as_bytes(), thread.clone()));
        }
        let long = Thread::new(1, &"é".repeat(NAME));
        assert_eq!(long.name.len(), NAME, "cut at a character");
        assert_eq!(Thread::read([u64::MAX; WORDS]).name.len(), 0);
    }
}

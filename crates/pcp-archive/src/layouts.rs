//! The layouts that the records of an archive have: a record that has one of those known need only be compared with it.
//!
//! A logger writes the same metrics again and again, or takes turns with some groups of them. So a few layouts are kept. One is
//! learned when a record is as long as one of the last that had none, as it costs as much as taking a record apart, which
//! would be wasted on records that all differ.

use pcp_pdu::{Layout, Sets, SetsError};

/// Layouts kept.
const KEPT: usize = 8;
/// Lengths of records without a known layout that are remembered.
const UNKNOWN: usize = 8;
/// Longer records are not learned: a layout takes more than twice as much memory.
const LONGEST: usize = 128 * 1024;

/// Layouts met before.
#[derive(Default)]
pub(super) struct Layouts {
    known: Vec<Layout>,
    /// The one that was right last.
    last: usize,
    /// The one that is replaced next, once there are as many as are kept.
    oldest: usize,
    /// Of a record whose layout is not known.
    other: Layout,
    /// Lengths of the last records without a known layout, and where the next one goes.
    unknown: [usize; UNKNOWN],
    next_unknown: usize,
}

impl Layouts {
    /// The sets of a record, checked.
    #[inline]
    pub(crate) fn sets<'a>(
        &'a mut self,
        data: &'a [u8],
        start: usize,
        numpmid: i32,
        bias: u32,
    ) -> Result<Sets<'a>, SetsError> {
        if let Some(at) = self.find(data, numpmid) {
            self.last = at;
            return Ok(self.known[at].sets(data));
        }
        self.other.read(data, start, numpmid, bias)?;
        if data.len() <= LONGEST && self.is_back(data.len()) {
            self.other.learn(data);
            let at = self.keep();
            return Ok(self.known[at].sets(data));
        }
        Ok(self.other.sets(data))
    }

    /// The layout of a record. That of the last one is the likeliest, then the one that came after it.
    fn find(&self, data: &[u8], numpmid: i32) -> Option<usize> {
        let (before, from_last) = self.known.split_at_checked(self.last)?;
        let turn = from_last.iter().chain(before).enumerate();
        let (distance, _) = turn.into_iter().find(|(_, known)| known.is_of(data, numpmid))?;
        Some((self.last + distance) % self.known.len())
    }

    /// Whether one of the last records without a known layout was of this length. Remembers it otherwise.
    fn is_back(&mut self, len: usize) -> bool {
        let is_back = self.unknown.contains(&len);
        if !is_back {
            self.unknown[self.next_unknown] = len;
            self.next_unknown = (self.next_unknown + 1) % UNKNOWN;
        }
        is_back
    }

    /// Keeps the other one. Where it is now.
    fn keep(&mut self) -> usize {
        let at = if self.known.len() < KEPT {
            self.known.push(Layout::default());
            self.known.len() - 1
        } else {
            let at = self.oldest;
            self.oldest = (self.oldest + 1) % KEPT;
            at
        };
        // The one that goes leaves its memory.
        std::mem::swap(&mut self.known[at], &mut self.other);
        self.last = at;
        at
    }
}

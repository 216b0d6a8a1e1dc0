//! [`Resend`]: what a sender keeps until it is acknowledged, to send it again if the connection breaks. It does no I/O itself.
//!
//! Events get numbers as they are put in; [`Resend::take`] gives those that are to be sent now, [`Resend::acknowledge`] forgets
//! those that are committed, and after a new connection [`Resend::rewind`] begins with the oldest that is kept. It holds a
//! bounded number of bytes. A sender that cannot wait when it is full drops the oldest: the server, told the number of
//! what comes next ([`Sent::follows_gap`]), counts what was left out as missed, at its place.

use std::collections::VecDeque;

/// Bytes of acknowledged events that are kept before memory is moved together.
const COMPACT: usize = 64 * 1024;
/// What an event takes besides its bytes.
const OVERHEAD: usize = 16;

/// Events that are not acknowledged.
#[derive(Debug)]
pub struct Resend {
    max_bytes: usize,
    bytes: Vec<u8>,
    /// Where in `bytes` the oldest begins.
    start: usize,
    /// Length and tag of each, oldest first.
    kept: VecDeque<(usize, u64)>,
    /// The number of the oldest that is kept.
    first: u64,
    /// The number of the one to be sent next, and where it begins.
    next: (u64, usize),
    /// The number that the server expects next.
    expected: u64,
}

/// An event to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<'a> {
    /// Its number.
    pub number: u64,
    /// What was put in with it.
    pub tag: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// It is not the one that the server expects: tell it the number first.
    pub follows_gap: bool,
}

/// There is no room before something is acknowledged, or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Resend {
    /// Keeps at most this many bytes, or a single event that is larger. Its first event has the number `first`.
    pub fn new(max_bytes: usize, first: u64) -> Resend {
        Resend {
            max_bytes,
            bytes: Vec::new(),
            start: 0,
            kept: VecDeque::new(),
            first,
            next: (first, 0),
            expected: first,
        }
    }

    /// The number of the first event that is not acknowledged: what a connection begins with.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Whether all that was put in is acknowledged, or dropped.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Puts an event in; gives its number. `tag` comes back with it.
    ///
    /// # Errors
    /// There is no room.
    pub fn push(&mut self, bytes: &[u8], tag: u64) -> Result<u64, Full> {
        let used = self.bytes.len() - self.start + (self.kept.len() + 1) * OVERHEAD;
        if !self.kept.is_empty() && used + bytes.len() > self.max_bytes {
            return Err(Full);
        }
        let number = self.first + self.kept.len() as u64;
        self.bytes.extend_from_slice(bytes);
        self.kept.push_back((bytes.len(), tag));
        Ok(number)
    }

    /// The next event that is to be sent on this connection.
    pub fn take(&mut self) -> Option<Sent<'_>> {
        let (number, begin) = self.next;
        let (len, tag) = *self.kept.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        let follows_gap = number != self.expected;
        self.expected = number + 1;
        self.next = (number + 1, begin + len);
        Some(Sent { number, tag, bytes: self.bytes.get(begin..begin + len)?, follows_gap })
    }

    /// All up to this number is committed.
    pub fn acknowledge(&mut self, number: u64) {
        while self.first <= number && self.drop_oldest().is_some() {}
    }

    /// Drops the oldest event; gives its number.
    pub fn drop_oldest(&mut self) -> Option<u64> {
        let (len, _) = self.kept.pop_front()?;
        let number = self.first;
        self.first += 1;
        self.start += len;
        if self.next.0 < self.first {
            self.next = (self.first, self.start);
        }
        if self.start >= (self.bytes.len() / 2).max(COMPACT) || self.kept.is_empty() {
            self.bytes.drain(..self.start);
            self.next.1 -= self.start;
            self.start = 0;
        }
        Some(number)
    }

    /// A connection has begun, and the server expects [`Resend::first`]: everything is sent again from there.
    pub fn rewind(&mut self) {
        self.next = (self.first, self.start);
        self.expected = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(resend: &mut Resend) -> Vec<(u64, u8, bool)> {
        let mut all = Vec::new();
        while let Some(Sent { number, bytes, follows_gap, .. }) = resend.take() {
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "no event has bytes of another");
            all.push((number, bytes[0], follows_gap));
        }
        all
    }

    #[test]
    fn what_is_not_acknowledged_is_sent_again() {
        let mut resend = Resend::new(1 << 20, 1);
        for n in 1..=4u8 {
            assert_eq!(resend.push(&[n; 7], 0), Ok(u64::from(n)));
        }
        assert_eq!(sent(&mut resend), [(1, 1, false), (2, 2, false), (3, 3, false), (4, 4, false)]);
        resend.acknowledge(2);
        assert_eq!(resend.push(&[5; 3], 9), Ok(5));
        assert_eq!(sent(&mut resend), [(5, 5, false)]);
        resend.rewind();
        assert_eq!(
            (resend.first(), sent(&mut resend)),
            (3, vec![(3, 3, false), (4, 4, false), (5, 5, false)])
        );
        // More than there is, from a server that is wrong, is no harm.
        resend.acknowledge(u64::MAX);
        assert!(resend.is_empty() && resend.take().is_none());
        assert_eq!((resend.push(&[6], 0), sent(&mut resend)), (Ok(6), vec![(6, 6, false)]));
    }

    #[test]
    fn memory_is_bounded_and_what_is_dropped_leaves_a_gap() {
        let mut resend = Resend::new(10_000, 1);
        let mut dropped = 0;
        for n in 0..100_000u32 {
            let event = [n as u8; 100];
            while resend.push(&event, 0) == Err(Full) {
                resend.drop_oldest().expect("there is something to drop");
                dropped += 1;
            }
            if n == 10 {
                assert_eq!(sent(&mut resend).len(), 11);
            }
        }
        assert!(resend.bytes.capacity() < 4 * (10_000 + COMPACT), "{}", resend.bytes.capacity());
        let all = sent(&mut resend);
        assert_eq!(all.len() as u64 + dropped, 100_000);
        assert_eq!(all[0].0, dropped + 1);
        assert!(all[0].2 && all[1..].iter().all(|(_, _, gap)| !gap));
        // A new connection is told where it begins.
        resend.rewind();
        assert!(sent(&mut resend).iter().all(|(_, _, gap)| !gap));
        assert_eq!(Resend::new(10, 1).push(&[0; 100], 0), Ok(1), "a single one that is larger");
    }
}

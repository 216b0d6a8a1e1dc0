//! How many PDUs of each type a context has exchanged.

use pcp_pdu::kind;

/// Types of PDUs that there are.
const KINDS: usize = (kind::DESCS - kind::ERROR + 1) as usize;

/// PDUs sent and received, of each type in the order of their numbers from 0x7000 on (what `pmprobe -V` prints).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PduCounts {
    /// Sent.
    pub sent: [u64; KINDS],
    /// Received.
    pub received: [u64; KINDS],
}

impl PduCounts {
    /// The counts of both together.
    #[must_use]
    pub fn plus(mut self, other: &PduCounts) -> PduCounts {
        let both = self.sent.iter_mut().chain(&mut self.received);
        both.zip(other.sent.iter().chain(&other.received)).for_each(|(sum, more)| *sum += more);
        self
    }

    pub(super) fn count_sent(&mut self, kind: u32) {
        count(&mut self.sent, kind);
    }

    pub(super) fn count_received(&mut self, kind: u32) {
        count(&mut self.received, kind);
    }
}

/// What is of no known type ends the connection, and is not counted.
fn count(counts: &mut [u64; KINDS], kind: u32) {
    let at = kind.checked_sub(kind::ERROR).and_then(|at| usize::try_from(at).ok());
    if let Some(count) = at.and_then(|at| counts.get_mut(at)) {
        *count += 1;
    }
}

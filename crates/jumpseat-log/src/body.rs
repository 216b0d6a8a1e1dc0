//! [`Body`]: what a batch has behind its head, as it is written.

use pcp_event::batch::Batch;

use crate::delta;
use crate::format::put_ends;

/// Most bytes that a buffer keeps for who writes next.
const KEPT: usize = 1 << 20;

/// A buffer for one batch at a time.
#[derive(Debug, Default)]
pub(crate) struct Body {
    /// Records that are encoded, or the ends of those that are not.
    buffer: Vec<u8>,
    len: usize,
    is_encoded: bool,
}

impl Body {
    /// Takes a batch's records: how many bytes they are in the file.
    pub(crate) fn fill(&mut self, batch: &Batch) -> u32 {
        let encoded = delta::encode(batch.bytes(), batch.ends(), &mut self.buffer);
        self.is_encoded = encoded.is_some();
        self.len = encoded.unwrap_or_else(|| {
            self.buffer.clear();
            put_ends(&mut self.buffer, batch.ends());
            self.buffer.len()
        });
        let [records, rest] = self.parts(batch);
        (records.len() + rest.len()) as u32
    }

    /// What is written, of the batch that it was filled with.
    pub(crate) fn parts<'a>(&'a self, batch: &'a Batch) -> [&'a [u8]; 2] {
        [if self.is_encoded { &[] } else { batch.bytes() }, &self.buffer[..self.len]]
    }

    /// Whether it is worth keeping.
    pub(crate) fn is_small(&self) -> bool {
        self.buffer.capacity() <= KEPT
    }
}

//! Counters beside the tracks of a source: its records a second, and how many records were missed so far.

use super::file::{TraceFile, Track};

/// The counters of one source.
pub(super) struct Rates {
    process: Track,
    records: Track,
    missed: Option<(Track, i64)>,
    /// Records of the second that goes on.
    count: i64,
    /// What viewers see now.
    shown: i64,
}

impl Rates {
    pub(super) fn new(file: &mut TraceFile, process: Track) -> Rates {
        let records = file.counter(process, "records", "1/s");
        Rates { process, records, missed: None, count: 0, shown: 0 }
    }

    /// Counts a record.
    pub(super) fn record(&mut self) {
        self.count += 1;
    }

    /// Counts records that were missed until then.
    pub(super) fn miss(&mut self, file: &mut TraceFile, time: u64, count: i64) {
        let new = || (file.counter(self.process, "missed", "records"), 0);
        let (track, total) = self.missed.unwrap_or_else(new);
        let total = total.saturating_add(count);
        file.count(track, time, total);
        self.missed = Some((track, total));
    }

    /// Shows the count of the second that ends then.
    pub(super) fn show(&mut self, file: &mut TraceFile, time: u64) {
        let count = std::mem::take(&mut self.count);
        if count != self.shown {
            file.count(self.records, time, count);
            self.shown = count;
        }
    }
}

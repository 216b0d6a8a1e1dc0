//! The figures of one series.

use super::super::details::{Details, Last, ShownId};
use super::super::exponential::{BUCKETS, OFFSET, SCALE, ZERO, bucket, middle};
use super::counts::Counts;
use pcp_model::Timestamp;

/// What the spans of one series come to. Half a KiB, and the [`Counts`].
///
/// What is recent is counted by halves of the window: quantiles look back between half of it and all of it.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Figures {
    /// Spans that have ended.
    pub count: u64,
    /// Their durations' sum, in nanoseconds.
    pub time: u64,
    /// A span of the current half whose duration in nanoseconds is not below this is its slowest.
    slowest_from: u64,
    counts: Counts,
    /// Spans that have failed.
    pub errors: u64,
    /// The slowest span of the current half, and of the one before.
    slowest: [Option<Exemplar>; 2],
    /// The last one that failed.
    pub failed: Option<Exemplar>,
}

/// A span that stands for others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exemplar {
    /// Its trace, as it was sent; empty: it has not said.
    pub trace: ShownId,
    /// Its own id.
    pub span: ShownId,
    /// How long it took, in nanoseconds.
    pub nanos: u64,
    /// When it ended.
    pub ended: Timestamp,
}

impl Figures {
    /// Bytes in the front that each span touches.
    pub(super) const TOUCHED: usize = std::mem::offset_of!(Figures, counts) + Counts::TOUCHED;

    /// Counts a span that has ended. `half`: the number of the current half of the window.
    #[inline]
    pub(super) fn ended(&mut self, span: &Ended<'_>, half: u64) {
        self.count += 1;
        self.time = self.time.wrapping_add(span.nanos);
        if self.counts.half() != half as u32 {
            self.turn_to(half as u32);
        }
        self.counts.add(bucket(span.nanos));
        if span.nanos >= self.slowest_from {
            self.slowest_from = span.nanos.saturating_add(1);
            self.slowest[0] = Some(span.exemplar());
        }
        if span.failed {
            self.errors += 1;
            self.failed = Some(span.exemplar());
        }
    }

    /// Another half has begun.
    #[cold]
    fn turn_to(&mut self, half: u32) {
        let follows = self.counts.turn_to(half);
        self.slowest = [None, self.slowest[0].filter(|_| follows)];
        self.slowest_from = 0;
    }

    /// The longest duration in the window, in nanoseconds.
    pub(crate) fn longest(&self, half: u64) -> Option<u64> {
        self.slowest(half).map(|slowest| slowest.nanos)
    }

    /// The duration that this part of the spans in the window do not exceed, to 4.33 %.
    pub(crate) fn quantile(&self, part: f64, half: u64) -> Option<u64> {
        let counts = self.counts.recent(self.counts.halves(half as u32));
        let total: u64 = counts.iter().sum();
        let longest = self.longest(half).unwrap_or_default();
        let rank = ((part * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        let bucket = counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(if bucket == BUCKETS - 1 { longest } else { middle(bucket).min(longest) })
    }

    /// The slowest span of the window.
    pub(crate) fn slowest(&self, half: u64) -> Option<&Exemplar> {
        let recent = self.slowest.iter().take(self.counts.halves(half as u32));
        recent.flatten().max_by_key(|slowest| slowest.nanos)
    }

    /// All spans by duration, as an exponential histogram in JSON, with the names that OpenTelemetry has for its parts: durations in
    /// nanoseconds, no counts before the first and behind the last bucket with any.
    pub(crate) fn exponential(&self) -> String {
        use std::fmt::Write as _;
        let [zero, counts @ ..] = self.counts.all();
        let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
        let end = counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
        let offset = first + OFFSET;
        let mut text = format!(
            "{{\"scale\":{SCALE},\"zeroThreshold\":{ZERO},\"zeroCount\":{zero},\"offset\":{offset},\"bucketCounts\":["
        );
        for (at, count) in counts[first..end].iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(text, "{comma}{count}");
        }
        text.push_str("]}");
        text
    }
}

/// A span that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended<'a> {
    pub nanos: u64,
    pub failed: bool,
    pub at: Timestamp,
    pub start: &'a Details,
    pub end: Last<'a>,
}

impl Ended<'_> {
    fn exemplar(&self) -> Exemplar {
        // An END says of the trace what its START has said, if it says anything.
        let trace = self.end.trace();
        let trace = if trace.is_empty() { self.start.trace } else { trace };
        Exemplar { trace, span: self.end.span(), nanos: self.nanos, ended: self.at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(figures: &mut Figures, nanos: u64, failed: bool, half: u64) {
        let (start, at) = (Details::default(), Timestamp::from_nanos(nanos.into()));
        let end = Last::Kept(&start);
        figures.ended(&Ended { nanos, failed, at, start: &start, end }, half);
    }

    #[test]
    fn quantiles_are_within_their_error_and_forget() {
        let mut figures = Figures::default();
        assert_eq!(figures.quantile(0.5, 0), None);
        (1..=10_000).for_each(|n| end(&mut figures, n * 1000, n % 10 == 0, 3 + n / 5001));
        for (part, exact) in [(0.5, 5e6), (0.9, 9e6), (0.99, 9.9e6)] {
            let quantile = figures.quantile(part, 4).expect("there are spans") as f64;
            assert!((quantile / exact - 1.0).abs() <= 0.0433, "{part}: {quantile}");
        }
        assert_eq!((figures.count, figures.errors, figures.longest(4)), (10_000, 1000, Some(10_000_000)));
        assert_eq!(figures.slowest(4).map(|slowest| slowest.nanos), Some(10_000_000));
        assert_eq!((figures.quantile(0.5, 6), figures.longest(6)), (None, None), "the window has passed");
        assert!(figures.slowest(6).is_none() && figures.failed.is_some());
    }

    #[test]
    fn histograms_tell_all_spans_whatever_half_they_were_in() {
        let mut figures = Figures::default();
        for (nanos, half) in
            [(10, 0), (2000, 0), (1 << 12, 1), (1 << 12, 5), (u64::MAX, 6), ((1 << 12) + 1, 9)]
        {
            end(&mut figures, nanos, false, half);
        }
        let text = figures.exponential();
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let counts: Vec<u64> =
            json["bucketCounts"].as_array().expect("counts").iter().filter_map(|n| n.as_u64()).collect();
        assert_eq!((json["scale"].as_u64(), json["zeroCount"].as_u64()), (Some(3), Some(1)), "{text}");
        assert_eq!(counts.iter().sum::<u64>(), 5);
        // By OpenTelemetry's rule: (2^(i/8), 2^((i+1)/8)].
        assert_eq!(json["offset"].as_u64(), Some((2000_f64.log2() * 8.0).floor() as u64));
        let at = |index: usize| counts[index - json["offset"].as_u64().expect("a number") as usize];
        assert_eq!((at(95), at(96), at(319)), (2, 1, 1));
    }
}

//! Help texts of a host's metrics, which all contexts on it share for a while: descriptions and pages for Prometheus ask for the same
//! again and again, and each costs the agent as much as a value.
//!
//! **Invariant:** none is older than [`FRESH`], nor from before the last notice of a change ([`super::connections::Connections::news`]):
//! an agent that is started anew may have others, and that is told.
//!
//! **Bounds:** [`MAX_BYTES`] of a host; beyond them all are forgotten.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pcp_model::Pmid;

use super::metric::Help;

/// How long a text is good.
const FRESH: Duration = Duration::from_secs(60);
/// Most bytes of texts.
const MAX_BYTES: usize = 2 << 20;
/// What a metric takes besides.
const EACH: usize = 128;

/// The texts.
#[derive(Debug, Default)]
pub(super) struct Texts {
    by_metric: HashMap<Pmid, (Instant, Help)>,
    bytes: usize,
    /// Of which news they are.
    news: u64,
}

impl Texts {
    /// The texts of a metric, as they are known with these news.
    pub(super) fn of(&self, pmid: Pmid, news: u64, now: Instant) -> Option<Help> {
        let (asked, help) = self.by_metric.get(&pmid).filter(|_| self.news == news)?;
        (now.saturating_duration_since(*asked) < FRESH).then(|| help.clone())
    }

    /// Keeps texts that were asked for at a time, with these news.
    pub(super) fn keep(&mut self, pmid: Pmid, help: &Help, news: u64, asked: Instant) {
        let bytes = EACH + help.bytes();
        if self.news != news || self.bytes + bytes > MAX_BYTES {
            *self = Texts { news, ..Texts::default() };
        }
        self.bytes += bytes;
        if let Some((_, old)) = self.by_metric.insert(pmid, (asked, help.clone())) {
            self.bytes -= EACH + old.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(text: &str) -> Help {
        Help { one_line: Some(text.to_owned()), long: None, is_told: true }
    }

    #[test]
    fn texts_are_good_for_a_minute_and_until_there_are_news() {
        let (mut texts, asked) = (Texts::default(), Instant::now());
        let (one, other) = (Pmid::new(60, 0, 1), Pmid::new(60, 0, 2));
        texts.keep(one, &help("one"), 7, asked);
        let of = |texts: &Texts, pmid, news, after| {
            texts.of(pmid, news, asked + after).and_then(|help| help.one_line)
        };
        let soon = Duration::from_secs(59);
        assert_eq!(of(&texts, one, 7, soon).as_deref(), Some("one"));
        assert_eq!(
            (of(&texts, one, 7, FRESH), of(&texts, one, 8, soon), of(&texts, other, 7, soon)),
            (None, None, None)
        );
        texts.keep(other, &help("other"), 8, asked);
        assert_eq!(of(&texts, one, 8, soon), None, "from before the news");
        assert_eq!(of(&texts, other, 8, soon).as_deref(), Some("other"));
    }

    #[test]
    fn texts_have_so_many_bytes_at_most() {
        let (mut texts, asked) = (Texts::default(), Instant::now());
        let long = help(&"x".repeat(MAX_BYTES / 4));
        for item in 0..100 {
            texts.keep(Pmid::new(60, 0, item), &long, 0, asked);
            texts.keep(Pmid::new(60, 0, item), &long, 0, asked);
            assert!(texts.bytes <= MAX_BYTES && texts.by_metric.len() <= 3);
        }
    }
}

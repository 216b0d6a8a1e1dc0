//! Help texts of a host's metrics, which all contexts on it share for a while: descriptions and pages for Prometheus ask for the same
//! again and again, and each costs the agent as much as a value.
//!
//! **Invariant:** none is older than [`FRESH`], nor from before the last notice of a change ([`super::connections::Connections::news`]):
//! an agent that is started anew may have others, and that is told.
//!
//! **Bounds:** [`MAX_BYTES`] of a host; beyond them all of it are forgotten. [`MAX_IN_ALL`] of all hosts; beyond them no more are kept until
//! others are too old, which are looked for now and then ([`Texts::forget_old`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pcp_model::Pmid;

use super::metric::Help;

/// How long a text is good.
const FRESH: Duration = Duration::from_secs(60);
/// Most bytes of texts.
const MAX_BYTES: usize = 2 << 20;
/// Most bytes of the texts of all hosts.
const MAX_IN_ALL: usize = 32 << 20;
/// What a metric takes besides.
const EACH: usize = 128;

/// How many bytes the texts of all hosts have.
pub(super) type InAll = Arc<AtomicUsize>;

/// The texts.
#[derive(Debug, Default)]
pub(super) struct Texts {
    by_metric: HashMap<Pmid, (Instant, Help)>,
    bytes: usize,
    in_all: InAll,
    /// Of which news they are.
    news: u64,
    /// None is older.
    oldest: Option<Instant>,
}

impl Texts {
    pub(super) fn new(in_all: InAll) -> Texts {
        Texts { by_metric: HashMap::new(), bytes: 0, in_all, news: 0, oldest: None }
    }

    /// The texts of a metric, as they are known with these news.
    pub(super) fn of(&self, pmid: Pmid, news: u64, now: Instant) -> Option<Help> {
        let (asked, help) = self.by_metric.get(&pmid).filter(|_| self.news == news)?;
        (now.saturating_duration_since(*asked) < FRESH).then(|| help.clone())
    }

    /// Keeps texts that were asked for at a time, with these news.
    pub(super) fn keep(&mut self, pmid: Pmid, help: &Help, news: u64, asked: Instant) {
        let bytes = size(help);
        if self.news != news || self.bytes + bytes > MAX_BYTES {
            *self = Texts::new(Arc::clone(&self.in_all));
            self.news = news;
        }
        let grown = |in_all: usize| Some(in_all + bytes).filter(|in_all| *in_all <= MAX_IN_ALL);
        if bytes > MAX_BYTES || self.in_all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err()
        {
            return;
        }
        self.bytes += bytes;
        self.oldest = Some(self.oldest.map_or(asked, |oldest| oldest.min(asked)));
        if let Some((_, old)) = self.by_metric.insert(pmid, (asked, help.clone())) {
            self.give_back(size(&old));
        }
    }

    /// Forgets what is too old. Looks at all of them once in [`FRESH`] at most.
    pub(super) fn forget_old(&mut self, now: Instant) {
        let is_old = |asked: Instant| now.saturating_duration_since(asked) >= FRESH;
        if !self.oldest.is_some_and(is_old) {
            return;
        }
        let gone =
            self.by_metric.extract_if(|_, (asked, _)| is_old(*asked)).map(|(_, (_, help))| size(&help));
        let gone = gone.sum();
        self.give_back(gone);
        self.by_metric.shrink_to_fit();
        self.oldest = self.by_metric.values().map(|(asked, _)| *asked).min();
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.in_all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Texts {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

fn size(help: &Help) -> usize {
    EACH + help.bytes()
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
        let (huge, pmid) = (help(&"x".repeat(MAX_BYTES)), Pmid::new(60, 1, 0));
        texts.keep(pmid, &huge, 0, asked);
        assert!(texts.bytes <= MAX_BYTES && texts.of(pmid, 0, asked).is_none(), "larger than all may be");
    }

    #[test]
    fn all_hosts_together_have_so_many_bytes_until_they_are_too_old() {
        let (in_all, asked) = (InAll::default(), Instant::now());
        let count = || in_all.load(Ordering::Relaxed);
        let text = help(&"x".repeat(MAX_BYTES - EACH));
        let pmid = Pmid::new(60, 0, 1);
        let mut hosts: Vec<Texts> =
            (0..=MAX_IN_ALL / MAX_BYTES).map(|_| Texts::new(Arc::clone(&in_all))).collect();
        hosts.iter_mut().for_each(|texts| texts.keep(pmid, &text, 0, asked));
        let kept = |hosts: &[Texts]| hosts.iter().filter(|texts| texts.of(pmid, 0, asked).is_some()).count();
        assert_eq!((kept(&hosts), count()), (hosts.len() - 1, MAX_IN_ALL));
        // A host without contexts, and one that nobody asks about.
        drop(hosts.remove(0));
        hosts[0].forget_old(asked + FRESH / 2);
        assert_eq!((kept(&hosts), count()), (hosts.len() - 1, MAX_IN_ALL - MAX_BYTES));
        hosts[0].keep(pmid, &help("old"), 0, asked);
        hosts[0].keep(Pmid::new(60, 0, 2), &help("new"), 0, asked + FRESH / 2);
        hosts.iter_mut().for_each(|texts| texts.forget_old(asked + FRESH));
        assert_eq!((kept(&hosts), count()), (0, size(&help("new"))));
        hosts.iter_mut().for_each(|texts| texts.forget_old(asked + 2 * FRESH));
        assert_eq!(count(), 0);
        hosts[0].keep(pmid, &text, 1, asked + FRESH);
        assert_eq!((kept(&hosts), count()), (0, MAX_BYTES), "of other news");
    }
}

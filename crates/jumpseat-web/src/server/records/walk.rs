//! Going through the records of a window, of hosts and archives alike.
//!
//! ```text
//! rings of hosts --\
//!                   records --Visitor::wants--> those told twice left out --Visitor::take-->
//! archives --------/
//! ```
//!
//! A host's records that are in memory and in an archive, or in two archives, come once: of records that are equal, times to the
//! microsecond, as many come as the one source has that has most of them.
//!
//! **Invariant:** a walk ends: after so many records looked at or wanted, or at a time, which is one for all walks of a query. It is looked
//! at every 1024 records, before an archive is opened, and each time that something was read of it ([`super::past`]). [`Walked::cut`] says
//! so then.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pcp_model::Value;

use super::record::Record;

/// Most records that are looked at in one walk.
const MAX_LOOKED: u64 = 2_000_000;
/// Most records that one query takes.
const MAX_TAKEN: u64 = 1_000_000;

const LATE: &str = "the query takes too long: ask for a shorter time";

/// From a time to another, which is not in it, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub from: i64,
    pub to: i64,
}

impl Window {
    /// The same with so much more on either side.
    pub(crate) fn wider(self, by: Duration) -> Window {
        let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        Window { from: self.from.saturating_sub(by), to: self.to.saturating_add(by) }
    }

    /// Whether a time is in it.
    pub(crate) fn has(self, time: i64) -> bool {
        (self.from..self.to).contains(&time)
    }
}

/// Which come first, more or less: they are sorted by those who take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Newest,
    Oldest,
}

/// Who goes through records.
pub(crate) trait Visitor {
    /// Whether there is any use for records of this host.
    fn host(&self, _host: &str) -> bool {
        true
    }

    /// Whether there is any use for this record.
    fn wants(&mut self, record: &Record) -> bool;

    /// Takes a record that it wants.
    fn take(&mut self, record: Arc<Record>);

    /// Whether nothing is wanted any more of what happened at this time or, in the order of the walk, after it.
    fn enough(&self, _time: i64) -> bool {
        false
    }
}

/// What a walk came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Records looked at.
    pub looked: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Why it ended before its end, if it did.
    pub cut: Option<&'static str>,
    /// Archives that could not be read, and why; the first few.
    pub problems: Vec<String>,
    /// By the name of a host that is followed: the number of the next of its records, of which the walk knows nothing.
    pub next: HashMap<String, u64>,
}

/// A walk on its way.
pub(crate) struct Walk<'a> {
    pub(crate) window: Window,
    pub(crate) order: Order,
    pub(crate) visitor: &'a mut dyn Visitor,
    pub(crate) walked: Walked,
    until: Instant,
    taken: u64,
    /// By the host and what a record is: how many were taken.
    seen: HashMap<u64, u32>,
}

/// The records of one source of a walk: a ring, or an archive.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Whether another one may have the same records.
    overlaps: bool,
    /// How many of each there were in this one.
    own: HashMap<u64, u32>,
}

impl Part {
    /// One whose records another one may have, too, or not.
    pub(crate) fn new(overlaps: bool) -> Part {
        Part { overlaps, own: HashMap::new() }
    }
}

impl<'a> Walk<'a> {
    /// One that begins now, and ends at a time.
    pub(crate) fn new(
        window: Window,
        order: Order,
        until: Instant,
        visitor: &'a mut dyn Visitor,
    ) -> Walk<'a> {
        Walk { window, order, visitor, walked: Walked::default(), until, taken: 0, seen: HashMap::new() }
    }

    /// The next record. False if that was the last.
    pub(crate) fn record(&mut self, part: &mut Part, record: Arc<Record>) -> bool {
        self.walked.looked += 1;
        if !self.window.has(record.time) {
            return self.goes_on();
        }
        self.walked.bytes += record.bytes() as u64;
        if self.visitor.wants(&record) {
            if part.overlaps {
                let hash = identity(&record);
                let own = part.own.entry(hash).or_default();
                *own += 1;
                let seen = self.seen.entry(hash).or_default();
                if *own <= *seen {
                    return self.goes_on();
                }
                *seen = *own;
            }
            self.taken += 1;
            self.visitor.take(record);
        }
        self.goes_on()
    }

    /// Whether there is room for more.
    pub(crate) fn goes_on(&mut self) -> bool {
        if self.walked.cut.is_some() {
            return false;
        }
        self.walked.cut = if self.walked.looked >= MAX_LOOKED {
            Some("more records than are looked at for one query: ask for a shorter time")
        } else if self.taken >= MAX_TAKEN {
            Some("more records than one query takes: ask for a shorter time")
        } else if self.walked.looked.is_multiple_of(1024) && Instant::now() >= self.until {
            Some(LATE)
        } else {
            None
        };
        self.walked.cut.is_none()
    }

    /// Whether it took too long. It is cut then.
    pub(crate) fn is_late(&mut self) -> bool {
        let is_late = Instant::now() >= self.until;
        if is_late {
            self.walked.cut.get_or_insert(LATE);
        }
        is_late
    }

    /// An archive cannot be read.
    pub(crate) fn problem(&mut self, problem: String) {
        const MOST: usize = 8;
        if self.walked.problems.len() < MOST {
            self.walked.problems.push(problem);
        }
    }
}

/// What a record is, whoever keeps it.
fn identity(record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    // One of the two forms in which jumpseat gives records has microseconds.
    (record.time.div_euclid(1000), record.flags.bits(), record.missed).hash(&mut hasher);
    (&record.origin.host, &record.origin.source).hash(&mut hasher);
    // Not all archives know what fields are called.
    for field in &record.fields {
        match &field.value {
            Value::String(bytes) | Value::Aggregate(bytes) => bytes.hash(&mut hasher),
            Value::I32(number) => number.hash(&mut hasher),
            Value::U32(number) => number.hash(&mut hasher),
            Value::I64(number) => number.hash(&mut hasher),
            Value::U64(number) => number.hash(&mut hasher),
            Value::Float(number) => number.to_bits().hash(&mut hasher),
            Value::Double(number) => number.to_bits().hash(&mut hasher),
            Value::Event(_) | Value::HighResEvent(_) => {}
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use pcp_event::EventFlags;

    use super::super::record::tests::{origin, record};
    use super::*;

    struct All(Vec<i64>);

    impl Visitor for All {
        fn wants(&mut self, _: &Record) -> bool {
            true
        }

        fn take(&mut self, record: Arc<Record>) {
            self.0.push(record.time / 1_000_000);
        }
    }

    #[test]
    fn what_two_tell_of_comes_once_and_what_one_tells_of_twice_comes_twice() {
        let origin = origin("h", "app");
        let at = |ms| record(&origin, ms, EventFlags::POINT, &[("message", "hello")]);
        let mut all = All(Vec::new());
        let until = Instant::now() + Duration::from_secs(60);
        let mut walk = Walk::new(Window { from: 0, to: i64::MAX }, Order::Oldest, until, &mut all);
        for part in [vec![1, 2, 2, 3], vec![2, 3, 4], vec![2, 2, 2]] {
            let mut of = Part::new(true);
            assert!(part.into_iter().all(|ms| walk.record(&mut of, at(ms))));
        }
        let mut alone = Part::new(false);
        walk.record(&mut alone, at(1));
        assert_eq!((walk.walked.looked, walk.walked.cut), (11, None));
        assert_eq!(all.0, [1, 2, 2, 3, 4, 2, 1]);
    }
}

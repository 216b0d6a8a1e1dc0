//! The walk over samples, which is the same for all formats.
//!
//! ```text
//! Source --next--> Sample { time, sets: (metric, values) } --> Format
//! ```
//!
//! **Cost:** where only recorded metrics are asked for, records of an archive are read in place, and a set costs a comparison
//! with that of the record before; a record's other sets cost no more. Derived metrics, and samples at an interval, cost a fetch of all metrics.

use std::time::Duration;

use jumpseat_tools::ticker::{Ticker, Woken};
use pcp_client::{Fetched, ValuesRef};
use pcp_model::{PmError, Pmid, Timestamp};
use rustc_hash::FxHashMap;

use crate::args::ExportArgs;
use crate::formats::error::ExportError;
use crate::formats::source::{Source, interval};

/// The values of one time.
pub struct Sample<'a> {
    /// When they were collected.
    pub time: Timestamp,
    fetched: &'a Fetched,
    /// Which set of `fetched` is of which metric.
    places: &'a [(u32, u32)],
}

impl<'a> Sample<'a> {
    /// The metrics that have values, by their places in [`Source::metrics`].
    pub fn sets(&self) -> impl Iterator<Item = (usize, ValuesRef<'a>)> {
        let fetched = self.fetched;
        self.places.iter().filter_map(move |&(metric, set)| {
            let values = fetched.set(set as usize)?.values.ok()?;
            (!values.is_empty()).then_some((metric as usize, values))
        })
    }

    /// Whether the metric at a place was answered without an error, be it that there is no value of it.
    pub fn has(&self, metric: usize) -> bool {
        let set = self.places.iter().find(|(at, _)| *at as usize == metric);
        set.is_some_and(|&(_, set)| self.fetched.set(set as usize).is_some_and(|set| set.values.is_ok()))
    }
}

/// What a sample is written as.
pub trait Format {
    /// Takes a sample.
    ///
    /// # Errors
    /// Why it cannot be written; the export is over then.
    fn sample(&mut self, source: &mut Source, sample: &Sample<'_>) -> Result<(), ExportError>;

    /// Takes the end: what is exported is whole.
    ///
    /// # Errors
    /// Why the rest cannot be written.
    fn finish(&mut self, source: &mut Source) -> Result<(), ExportError>;

    /// Takes the end where the source cannot be read on: what is exported is whole up to there.
    ///
    /// # Errors
    /// As [`Format::finish`].
    fn cut_short(&mut self, source: &mut Source) -> Result<(), ExportError> {
        self.finish(source)
    }
}

/// Gives all samples that are asked for to a format. How many they were.
///
/// # Errors
/// Those of reading and writing. What cannot be read on ends the export ([`Format::cut_short`]).
pub fn walk(args: &ExportArgs, source: &mut Source, format: &mut dyn Format) -> Result<u64, ExportError> {
    let mut steps = Steps::new(args, source)?;
    let limit = args.samples.unwrap_or(u64::MAX);
    let mut count = 0;
    let mut ended = Ok(());
    while count < limit {
        match steps.next(source) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                ended = Err(error);
                break;
            }
        }
        let time = steps.fetched.timestamp;
        if source.window.1.is_some_and(|end| time > end) {
            break;
        }
        if steps.place(source) {
            let sample = Sample { time, fetched: &steps.fetched, places: &steps.places };
            format.sample(source, &sample)?;
            count += 1;
        }
    }
    match ended {
        Ok(()) => format.finish(source).map(|()| count),
        Err(error) => format.cut_short(source).and(Err(error)),
    }
}

/// Goes from sample to sample.
struct Steps {
    fetched: Fetched,
    places: Vec<(u32, u32)>,
    pmids: Vec<Pmid>,
    /// Where each is among the metrics.
    by_pmid: FxHashMap<Pmid, u32>,
    /// The metrics of the record before, and where they are: those of most records come in the same order.
    before: Vec<(Pmid, Option<u32>)>,
    by: By,
}

/// How samples are had.
enum By {
    /// Records as they are.
    Record,
    /// Fetches from an archive.
    Fetch,
    /// Fetches from a collector, at an interval.
    Time { ticker: Ticker, started: bool },
}

impl Steps {
    fn new(args: &ExportArgs, source: &Source) -> Result<Steps, ExportError> {
        let pmids: Vec<Pmid> = source.metrics.iter().map(|metric| metric.desc.pmid).collect();
        let by_pmid = pmids.iter().zip(0..).map(|(pmid, at)| (*pmid, at)).collect();
        let by = match (source.is_archive(), interval(args)?) {
            (true, None) if !pmids.iter().any(|pmid| pmid.is_derived()) => By::Record,
            (true, _) => By::Fetch,
            (false, interval) => {
                let ticker = Ticker::new(interval.unwrap_or(Duration::from_secs(1)));
                let ticker = ticker.map_err(|error| ExportError::Usage(format!("signals: {error}")))?;
                By::Time { ticker, started: false }
            }
        };
        let (fetched, places, before) = (Fetched::new(), Vec::new(), Vec::new());
        Ok(Steps { fetched, places, pmids, by_pmid, before, by })
    }

    /// Goes to the next sample; false where there is none.
    fn next(&mut self, source: &mut Source) -> Result<bool, ExportError> {
        let context = &mut source.context;
        let read = match &mut self.by {
            By::Record => match context.fetch_record(&mut self.fetched) {
                Err(error) if error.code() == PmError::EOL => Ok(false),
                read => read.map(|()| true),
            },
            By::Fetch => context.fetch_next(&self.pmids, &mut self.fetched),
            By::Time { ticker, started } => {
                // The first sample is that of now.
                let woken = match std::mem::replace(started, true) {
                    true => ticker.wait(None, source.window.1),
                    false => Ok(Woken::Tick { missed: 0 }),
                };
                match woken.map_err(|error| ExportError::Usage(format!("the clock: {error}")))? {
                    Woken::End => return Ok(false),
                    Woken::Tick { .. } => context.fetch(&self.pmids, &mut self.fetched).map(|_| true),
                }
            }
        };
        read.map_err(ExportError::source("the next sample"))
    }

    /// Finds the metrics of the sample; false if it has none of them.
    fn place(&mut self, source: &Source) -> bool {
        self.places.clear();
        match self.by {
            By::Record => {
                for (of, at) in self.fetched.pmids().zip(0..) {
                    let metric = match self.before.get(at as usize) {
                        Some((pmid, metric)) if *pmid == of => *metric,
                        known => {
                            let is_known = known.is_some();
                            let found = (of, self.by_pmid.get(&of).copied());
                            match is_known {
                                true => self.before[at as usize] = found,
                                false => self.before.push(found),
                            }
                            found.1
                        }
                    };
                    if let Some(metric) = metric {
                        self.places.push((metric, at));
                    }
                }
            }
            // In the order that was asked for.
            _ => self.places.extend((0..source.metrics.len() as u32).map(|at| (at, at))),
        }
        !self.places.is_empty() && !self.fetched.is_empty()
    }
}

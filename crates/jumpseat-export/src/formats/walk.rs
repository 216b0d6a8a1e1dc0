//! The walk over samples, which is the same for all formats.
//!
//! ```text
//! Source --next--> Sample { time, sets: (metric, values) } --> Format
//! ```
//!
//! **Cost:** where only recorded metrics are asked for, records of an archive are read in place. One whose layout is known, as that of nearly all, costs
//! a comparison with it ([`Sample::fixed`]); in others a set costs a comparison with that of the record before. Derived metrics, and samples at an interval, cost a fetch of all metrics.

use std::time::Duration;

use hashbrown::HashMap;
use jumpseat_tools::ticker::{Ticker, Woken};
use pcp_archive::{ArchiveError, Direction, Place, Records, Step};
use pcp_client::{ClientError, Fetched, Mode, StateChange, ValuesRef};
use pcp_model::{Pmid, Timestamp};
use pcp_pdu::{LayoutId, Scan, SetRef, Sets};

use crate::args::ExportArgs;
use crate::formats::error::ExportError;
use crate::formats::source::{Source, interval};

/// The values of one time.
pub struct Sample<'a> {
    /// When they were collected.
    pub time: Timestamp,
    values: Values<'a>,
}

/// Where they are.
enum Values<'a> {
    /// In a record, whose metrics are those in front.
    Record(Scan<'a>, &'a [(Pmid, Option<u32>)]),
    /// In the result of a fetch of all metrics, in their order.
    Fetched(&'a Fetched),
}

/// The sets of a record whose layout is known: what was found in one is at the same places in all of that layout.
pub struct Fixed<'a> {
    /// Tells the layout.
    pub layout: LayoutId,
    /// The sets.
    pub sets: Sets<'a>,
    metrics: &'a [(Pmid, Option<u32>)],
}

impl Fixed<'_> {
    /// The sets of metrics that are exported: their places in `sets`, and the metrics' in [`Source::metrics`].
    pub fn metrics(&self) -> impl Iterator<Item = (usize, usize)> {
        self.metrics.iter().enumerate().filter_map(|(set, (_, metric))| Some((set, (*metric)? as usize)))
    }
}

/// One of two iterators.
enum Either<A, B> {
    Left(A),
    Right(B),
}

impl<A: Iterator<Item = T>, B: Iterator<Item = T>, T> Iterator for Either<A, B> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        match self {
            Either::Left(left) => left.next(),
            Either::Right(right) => right.next(),
        }
    }

    fn fold<R, F: FnMut(R, T) -> R>(self, init: R, take: F) -> R {
        match self {
            Either::Left(left) => left.fold(init, take),
            Either::Right(right) => right.fold(init, take),
        }
    }
}

impl<'a> Sample<'a> {
    /// The metrics that have values, by their places in [`Source::metrics`].
    pub fn sets(&self) -> impl Iterator<Item = (usize, ValuesRef<'a>)> + use<'a> {
        self.answers().filter_map(|(metric, set)| {
            let values = set.values.ok()?;
            (!values.is_empty()).then_some((metric, values))
        })
    }

    /// The sets, if their layout is known.
    pub fn fixed(&self) -> Option<Fixed<'a>> {
        let Values::Record(scan, metrics) = &self.values else { return None };
        let sets = scan.known()?;
        Some(Fixed { layout: sets.layout()?, sets, metrics: metrics.get(..sets.len())? })
    }

    /// Whether the metric at a place was answered without an error, be it that there is no value of it.
    pub fn has(&self, metric: usize) -> bool {
        self.answers().any(|(at, set)| at == metric && set.values.is_ok())
    }

    fn answers(&self) -> impl Iterator<Item = (usize, SetRef<'a>)> + use<'a> {
        match &self.values {
            Values::Record(scan, metrics) => Either::Left(
                scan.sets().zip(*metrics).filter_map(|(set, (_, metric))| Some(((*metric)? as usize, set))),
            ),
            Values::Fetched(fetched) => Either::Right(fetched.sets().enumerate()),
        }
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
        let (time, sample) = match steps.next(source) {
            Ok(Some(next)) => next,
            Ok(None) => break,
            Err(error) => {
                ended = Err(error);
                break;
            }
        };
        if source.window.1.is_some_and(|end| time > end) {
            break;
        }
        if let Some(values) = sample {
            format.sample(source, &Sample { time, values })?;
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
    pmids: Vec<Pmid>,
    by: By,
}

/// How samples are had.
enum By {
    /// Records as they are.
    Record(Box<InPlace>),
    /// Fetches from an archive.
    Fetch(Fetched),
    /// Fetches from a collector, at an interval.
    Time { fetched: Fetched, ticker: Ticker, started: bool },
}

/// Records of archives, which are read where they are.
struct InPlace {
    records: Records,
    /// In front of the next one; at first it is looked for.
    at: Option<Place>,
    /// Where each metric is among those that are asked for.
    by_pmid: HashMap<Pmid, u32>,
    /// The metrics of the record before, and where they are: those of most records come in the same order.
    metrics: Vec<(Pmid, Option<u32>)>,
    /// The layout of that record, if it is known, and whether it has any of the metrics.
    layout: Option<LayoutId>,
    has_metrics: bool,
}

/// The time of a sample, and its values if it has any of the metrics.
type Next<'a> = (Timestamp, Option<Values<'a>>);

impl Steps {
    fn new(args: &ExportArgs, source: &Source) -> Result<Steps, ExportError> {
        let pmids: Vec<Pmid> = source.metrics.iter().map(|metric| metric.desc.pmid).collect();
        let by = match (source.is_archive(), interval(args)?) {
            (true, None) if !pmids.iter().any(|pmid| pmid.is_derived()) => {
                let records = Records::of_all(&args.archives.join(",")).map_err(no_sample)?;
                let by_pmid = pmids.iter().zip(0..).map(|(pmid, at)| (*pmid, at)).collect();
                let metrics = Vec::new();
                By::Record(Box::new(InPlace {
                    records,
                    at: None,
                    by_pmid,
                    metrics,
                    layout: None,
                    has_metrics: false,
                }))
            }
            (true, _) => By::Fetch(Fetched::new()),
            (false, interval) => {
                let ticker = Ticker::new(interval.unwrap_or(Duration::from_secs(1)));
                let ticker = ticker.map_err(|error| ExportError::Usage(format!("signals: {error}")))?;
                By::Time { fetched: Fetched::new(), ticker, started: false }
            }
        };
        Ok(Steps { pmids, by })
    }

    /// Goes to the next sample; `None` where there is none.
    fn next(&mut self, source: &mut Source) -> Result<Option<Next<'_>>, ExportError> {
        let context = &mut source.context;
        let fetched = match &mut self.by {
            By::Record(in_place) => {
                let next = in_place.next(source.window.0).map_err(no_sample)?;
                if let Some((time, _)) = next {
                    // Labels are those of the time at which the context is.
                    let there = context.set_mode(Mode::Forward, Some(time));
                    there.map_err(ExportError::source("the next sample"))?;
                }
                return Ok(next);
            }
            By::Fetch(fetched) => {
                let read = context.fetch_next(&self.pmids, fetched);
                if !read.map_err(ExportError::source("the next sample"))? {
                    return Ok(None);
                }
                fetched
            }
            By::Time { fetched, ticker, started } => {
                // The first sample is that of now.
                let woken = match std::mem::replace(started, true) {
                    true => ticker.wait(None, source.window.1),
                    false => Ok(Woken::Tick { missed: 0 }),
                };
                match woken.map_err(|error| ExportError::Usage(format!("the clock: {error}")))? {
                    Woken::End => return Ok(None),
                    Woken::Tick { .. } => {
                        let changes = context.fetch(&self.pmids, fetched);
                        let changes = changes.map_err(ExportError::source("the next sample"))?;
                        if changes != StateChange::default() {
                            source.instances.renew();
                        }
                        fetched
                    }
                }
            }
        };
        let values = (!fetched.is_empty()).then_some(Values::Fetched(fetched));
        Ok(Some((fetched.timestamp, values)))
    }
}

impl InPlace {
    /// Goes to the next record, or gap between two archives; `None` at the end.
    fn next(&mut self, start: Timestamp) -> Result<Option<Next<'_>>, ArchiveError> {
        let InPlace { records, at, by_pmid, metrics, layout, has_metrics } = self;
        let place = match *at {
            Some(place) => place,
            None => records.seek(start, Direction::Forward)?,
        };
        let (record, after) = match records.next(place)? {
            None => return Ok(None),
            Some(Step::Gap(time, after)) => {
                *at = Some(after);
                return Ok(Some((time, None)));
            }
            Some(Step::Record(record, after)) => (record, after),
        };
        *at = Some(after);
        // Nothing of it holds any more if this record is damaged.
        let before = layout.take();
        let (mut set, mut has_any) = (0, false);
        let (time, scan) = records.scan(record, before, |pmid| {
            let metric = match metrics.get_mut(set) {
                Some((known, metric)) if *known == pmid => *metric,
                known => {
                    let found = (pmid, by_pmid.get(&pmid).copied());
                    match known {
                        Some(known) => *known = found,
                        None => metrics.push(found),
                    }
                    found.1
                }
            };
            has_any |= metric.is_some();
            set += 1;
        })?;
        *layout = scan.known().and_then(|sets| sets.layout());
        if layout.is_none() || *layout != before {
            *has_metrics = has_any;
        }
        Ok(Some((time, has_metrics.then_some(Values::Record(scan, metrics)))))
    }
}

fn no_sample(error: ArchiveError) -> ExportError {
    ExportError::source("the next sample")(ClientError::from(error))
}

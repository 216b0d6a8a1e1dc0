//! Series of numbers that others push or that are scraped, as PCP metrics: who receives them needs to know no PCP, and nothing
//! here knows where they come from.
//!
//! ```text
//! a receiver --> Session::metric, series, set --> Batch --> channel --> the event loop, which owns the values
//!                       |
//!                       +-- ids of metrics and instances (pcp-ids), on disk before the batch leaves
//! ```
//!
//! A receiver (one thread or several) holds a clone of [`Series`]. For each request it opens a [`Session`], has metrics and series
//! resolved (and keeps their handles for the next request: resolving costs, setting does not), sets values, and closes the session by
//! [`Session::commit`]:
//!
//! ```
//! use jumpseat_source::series::{Kind, Labels, Metric, Number, Part, Series, SeriesConfig};
//!
//! let (series, batches) = Series::open(SeriesConfig::default(), 400, None, std::sync::Arc::new(|| ())).unwrap();
//! let mut session = series.begin().expect("there is room");
//! let metric = Metric { name: "http.requests", part: Part::Value, help: "Requests.", unit: "{request}", kind: Kind::Counter, number: Number::U64 };
//! let metric = session.metric(&metric).unwrap();
//! let labels = Labels::new("shop", &[("http.route".to_owned(), "/cart".into())]);
//! let handle = session.series(metric, &labels).unwrap();
//! assert!(session.set(handle, 42));
//! session.commit();
//! assert_eq!(batches.take().expect("handed over").points.len(), 1);
//! ```
//!
//! * [`name`]: names of metrics, there and back; [`mod@unit`]: units; [`labels`]: sets of labels and the names of their instances.
//! * [`metric`]: metrics as they come, and their numbers; [`config`]: `[series]`; [`store`]: [`Series`] and [`Session`]; `identity`: the files with ids; [`batch`]: what is handed over.
//!
//! **Invariants:** the type, units, semantics and instance domain of a PMID never change, nor does what an instance id means: both
//! are in files before they leave. A batch is applied as a whole and in order, so a slot is never another series than its point meant.
//! What is beyond a limit is refused with its reason, for the caller to put into the overflow instance ([`Session::overflow`]).
//!
//! **Cost:** [`Session::set`] is a store into two arrays and allocates nothing; a new series costs a microsecond, and all new ones of
//! a session one sync of a file. The lock is among receivers only, and held for one session; the event loop never takes it.

pub mod batch;
pub mod config;
mod identity;
pub mod labels;
pub mod metric;
pub mod name;
pub mod store;
pub mod unit;

pub use batch::{Batch, Batches, Defined, Gone, Point};
pub use config::SeriesConfig;
pub use labels::{LabelText, Labels};
pub use metric::{Kind, Metric, Number, Part, decode, encode};
pub use store::{MetricId, Refused, Series, SeriesId, SeriesStats, Session};

use std::ops::RangeInclusive;

/// Clusters of the metrics: 1024 each.
pub const CLUSTERS: RangeInclusive<u16> = 128..=191;
/// Serial of the file with the metrics' names; no instance domain has it.
pub const NAME_SERIAL: u32 = 10;
/// Serial of the instance domain of sets of labels.
pub const SET_SERIAL: u32 = 11;
/// Serial of the instance domain of sets of labels and upper bounds.
pub const BUCKET_SERIAL: u32 = 12;
/// Serial of the instance domain of sets of labels and quantiles.
pub const QUANTILE_SERIAL: u32 = 13;

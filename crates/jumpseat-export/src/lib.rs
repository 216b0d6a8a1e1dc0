//! `jumpseat export`: metrics and event records, live or from archives, in formats that others read.
//!
//! ```text
//! collector or archive --Source--> Sample --walk--> Format: csv | json | openmetrics | parquet
//! ```
//!
//! * [`args`]: the command line; all there is without the feature `formats`. `source`: what is exported. `walk`: the walk over samples, one for all formats.
//! * `csv`, `json`, `openmetrics`, `parquet`, `otlp`: a format each, behind the trait `walk::Format`.
//! * `instances`, `labels`: what there is to know besides values. `text`: what formats of text share.
//!
//! A program of its own, `jumpseat-export`, calls `run`, so that the agent's and the tools' programs do not carry columns,
//! compression and object stores with them; `jumpseat export` starts it.

pub mod args;
#[cfg(feature = "formats")]
mod csv;
#[cfg(feature = "formats")]
mod error;
#[cfg(feature = "formats")]
mod export;
#[cfg(feature = "formats")]
mod instances;
#[cfg(feature = "formats")]
mod json;
#[cfg(feature = "formats")]
mod labels;
#[cfg(feature = "formats")]
mod openmetrics;
#[cfg(feature = "formats")]
pub mod otlp;
#[cfg(feature = "formats")]
mod parquet;
#[cfg(feature = "formats")]
pub mod source;
#[cfg(feature = "formats")]
mod text;
#[cfg(feature = "formats")]
pub mod walk;

pub use args::ExportArgs;
#[cfg(feature = "formats")]
pub use error::ExportError;
#[cfg(feature = "formats")]
pub use export::{export, run};
#[cfg(feature = "formats")]
pub use instances::Instances;
#[cfg(feature = "formats")]
pub use labels::Labels;
#[cfg(feature = "formats")]
pub use source::{Metric, Source};
#[cfg(feature = "formats")]
pub use walk::{Format, Sample, walk};

/// The examples of README.md are tests.
#[cfg(all(doctest, feature = "formats"))]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

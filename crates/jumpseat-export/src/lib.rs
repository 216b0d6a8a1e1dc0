//! `jumpseat export`: metrics and event records, live or from archives, in formats that others read.
//!
//! ```text
//! collector or archive --Source--> Sample --walk--> Format: csv | json | openmetrics | parquet
//! ```
//!
//! * [`args`]: the command line. `source`: what is exported. `walk`: the walk over samples, one for all formats.
//! * `csv`, `json`, `openmetrics`, `parquet`, `otlp`: a format each, behind the trait `walk::Format`.
//! * `instances`, `labels`: what there is to know besides values. `pushed`: metrics that came from elsewhere, as they were. `text`: what formats of text share.
//!
//! A program of its own, `jumpseat-export`, calls `run`, so that the agent's and the tools' programs do not carry columns,
//! compression and object stores with them; `jumpseat export` starts it.
//!
//! # Features
//!
//! | feature | by default | brings |
//! | --- | --- | --- |
//! | `formats` | no | all but the command line: sources, the walk, formats |

pub mod args;
#[cfg(feature = "formats")]
mod formats;

pub use args::ExportArgs;
#[cfg(feature = "formats")]
pub use formats::*;

/// The examples of README.md are tests.
#[cfg(all(doctest, feature = "formats"))]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

//! All but the command line.

mod csv;
mod error;
mod export;
mod instances;
mod json;
mod labels;
mod lines;
mod openmetrics;
pub mod otlp;
mod parquet;
mod pushed;
pub mod source;
mod text;
pub mod walk;

pub use error::ExportError;
pub use export::{export, run};
pub use instances::Instances;
pub use labels::Labels;
pub use source::{Metric, Source};
pub use walk::{Format, Sample, walk};

//! Targets that are asked for their metrics from time to time: Prometheus' text format and OpenMetrics over HTTP, `[[scrape]]`.
//!
//! ```text
//! turns --> fetch (hyper: TCP, TLS) --> gunzip --> known --> Series --> core
//!                                                    `-- exposition
//! ```
//!
//! * [`config`]: a table; [`target`]: where targets are, and files of them; [`trust`]: files with secrets and certificates.
//! * [`exposition`]: the two formats, without I/O; [`known`]: from a target's samples to values of [`crate::series`].
//! * `fetch`: one answer; [`thread`]: whose turn it is; [`stats`]: what is told of all of it.
//!
//! Each target has its turn once an interval, at a place in it that comes from its name, so that many are spread over the time and
//! stay where they are. A target that is slow, or never ends, costs its own turn and no other one's.
//!
//! **Bad input:** a line that is none of its format refuses that one sample; an answer without any that can be taken is no answer.
//! All of it is counted by [`stats::Refusal`] and [`stats::Failure`], for each target.

pub mod config;
pub mod exposition;
mod fetch;
pub mod known;
pub mod stats;
pub mod target;
pub mod thread;
pub mod trust;

pub use config::ScrapeConfig;
pub use known::Known;
pub use stats::{Failure, Refusal, ScrapeStats, TargetStats};
pub use target::Target;
pub use thread::ScrapeSource;

/// Serial of the instance domain of targets, and of the file with their numbers.
pub const TARGET_SERIAL: u32 = 20;

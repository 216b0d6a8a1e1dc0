//! `jumpseat web`: what PCP knows, where people look: PMWEBAPI and series for Grafana's PCP plugin, OpenMetrics, Jaeger's and Loki's
//! queries for Grafana as it comes, and a page.
//!
//! ```text
//! browser, Grafana, Prometheus --HTTP--> server --Pool--> pcp-client: contexts on hosts and archives
//! ```
//!
//! * [`args`]: the command line. `server`: the rest, see there.
//!
//! A program of its own, `jumpseat-web`, calls `run`: the agent's loop never serves a browser. `jumpseat web` starts it.
//!
//! # Features
//!
//! | feature | by default | brings |
//! | --- | --- | --- |
//! | `server` | no | all but the command line |

pub mod args;
#[cfg(feature = "server")]
mod server;

pub use args::WebArgs;
#[cfg(feature = "server")]
pub use server::*;

/// The examples of README.md are tests.
#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

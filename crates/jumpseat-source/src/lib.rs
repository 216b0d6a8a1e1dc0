//! Tracing sources: everything that turns input from outside into batches of packed event records.
//!
//! ```text
//! bytes --> ndjson::Parser -.                                    definitions (unbounded)
//!                            >--> Event / params --> Lanes ------------------------------> core
//! bytes --> binary::decode -'                        Lanes ---- deliveries (bounded) ----> core
//! ```
//!
//! * [`event`]: one event as a parser found it, and [`ndjson`], which fills it from a line of JSON.
//! * `binary`: the compact framing with interned names (`docs/ingest-protocol.md`).
//! * [`registry`]: names to ids for fields, sources and event types, shared by all source threads.
//! * [`lanes`]: one batch and its account per source, handed over as [`delivery::Delivery`]; records are dropped and
//!   put in order there.
//! * [`intake`]: a connection's protocol, sans-I/O; [`socket`]: the thread that listens.
//! * `rings`: what a program that was killed had not sent yet.
//! * [`otlp`]: OpenTelemetry's protocol over HTTP.
//! * [`follow`]: files, commands and the journal.
//! * [`scrape`]: targets that are asked for their metrics.
//! * [`feed`]: the sending side.
//! * [`gate`]: what a source lets through, as [`rules`] (the configuration) or a client has it.
//! * [`tail`]: which whole traces are kept, decided over all sources; [`telling`]: what tells of a failure.
//! * [`tracefs`]: the events of the Linux kernel.
//! * [`clock`]: from clocks of senders and of the kernel to real time.
//! * [`guard`]: who may send over a network: certificates and tokens.
//! * [`setting`]: what can be wrong with a key of the configuration; [`size`] and [`interval`]: its units.
//! * [`outlet`]: what a source thread is given; [`origin`]: what it tells about where it reads.
//!
//! **Invariants:** nothing here knows PDUs or the agent. The core never takes a lock that a source
//! holds: it only receives from the two channels. Bytes from outside never panic; whatever could not be
//! kept is counted, by reason, where it happened.

mod binary;
pub mod clock;
pub mod config;
pub mod delivery;
pub mod event;
pub mod feed;
pub mod follow;
pub mod gate;
pub mod guard;
pub mod intake;
pub mod interval;
pub mod lanes;
pub mod ledger;
mod meaning;
pub mod ndjson;
pub mod origin;
pub mod otlp;
pub mod outlet;
pub mod registry;
mod rings;
pub mod rules;
pub mod scrape;
pub mod series;
pub mod setting;
pub mod size;
pub mod socket;
mod spares;
mod start;
pub mod tail;
pub mod telling;
pub mod tracefs;
mod word;

pub use config::{Oversize, SocketConfig};
pub use delivery::{Cause, Delivery, Inlet, Loss, Reason, Tallies};
pub use gate::Gate;
pub use interval::Interval;
pub use origin::Origin;
pub use otlp::OtlpStats;
pub use outlet::{Begun, Outlet, Starting};
pub use registry::{Definition, Registry, RegistryConfig};
pub use rules::Rules;
pub use series::Series;
pub use setting::{InvalidKey, InvalidValue};
pub use size::ByteSize;
pub use spares::Spares;
pub use start::StartError;

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

//! Tracing sources: everything that turns input from outside into batches of packed event records.
//!
//! ```text
//! bytes --> ndjson::Parser -.                                    definitions (unbounded)
//!                            >--> Event / params --> Lanes ------------------------------> core
//! bytes --> binary::decode -'                        Lanes ---- deliveries (bounded) ----> core
//! ```
//!
//! * [`event`]: one event as a parser found it, and [`ndjson`], which fills it from a line of JSON.
//! * [`binary`]: the compact framing with interned names (`docs/ingest-protocol.md`).
//! * [`registry`]: names to ids for fields, sources and event types, shared by all source threads;
//!   [`names`] decides what a field's metric is called.
//! * [`lanes`]: one batch and its accounting per source, handed over as [`delivery::Delivery`].
//! * [`intake`]: a connection's protocol, sans-I/O; [`socket`]: the thread that listens.
//! * [`otlp`]: OpenTelemetry's protocol over HTTP.
//! * [`follow`]: files, commands and the journal.
//! * [`feed`]: the sending side.
//! * [`gate`]: what a source lets through, as [`rules`] (the configuration) or a client has it; [`sieve`] keeps to
//!   it, and [`order`] puts records in order.
//! * [`tracefs`]: the events of the Linux kernel.
//! * [`clock`]: from clocks of senders and of the kernel to real time.
//! * [`outlet`]: what a source thread is given; [`origin`]: what it tells about where it reads.
//!
//! **Invariants:** nothing here knows PDUs or the agent. The core never takes a lock that a source
//! holds: it only receives from the two channels. Bytes from outside never panic; whatever could not be
//! kept is counted, by reason, where it happened.

pub mod binary;
#[cfg(feature = "source")]
pub mod clock;
#[cfg(feature = "source")]
pub mod config;
#[cfg(feature = "source")]
pub mod delivery;
#[cfg(feature = "source")]
pub mod event;
#[cfg(feature = "source")]
pub mod feed;
#[cfg(feature = "source")]
pub mod follow;
#[cfg(feature = "source")]
pub mod gate;
#[cfg(feature = "source")]
pub mod intake;
#[cfg(feature = "source")]
pub mod lanes;
#[cfg(feature = "source")]
pub mod listen;
#[cfg(feature = "source")]
pub mod names;
#[cfg(feature = "source")]
pub mod ndjson;
#[cfg(feature = "source")]
pub mod order;
#[cfg(feature = "source")]
pub mod origin;
#[cfg(feature = "source")]
pub mod otlp;
#[cfg(feature = "source")]
pub mod outlet;
#[cfg(feature = "source")]
pub mod registry;
#[cfg(feature = "source")]
pub mod report;
#[cfg(feature = "source")]
pub mod rules;
pub mod severity;
#[cfg(feature = "source")]
pub mod sieve;
#[cfg(feature = "source")]
pub mod size;
#[cfg(feature = "source")]
pub mod socket;
#[cfg(feature = "source")]
pub mod tracefs;

#[cfg(feature = "source")]
pub use config::{Oversize, SocketConfig};
#[cfg(feature = "source")]
pub use delivery::{Delivery, Inlet, Loss, Reason, Tallies};
#[cfg(feature = "source")]
pub use gate::Gate;
#[cfg(feature = "source")]
pub use origin::Origin;
#[cfg(feature = "source")]
pub use otlp::OtlpStats;
#[cfg(feature = "source")]
pub use outlet::Outlet;
#[cfg(feature = "source")]
pub use registry::{Definition, Registry, RegistryConfig};
#[cfg(feature = "source")]
pub use rules::Rules;
#[cfg(feature = "source")]
pub use sieve::Cause;
#[cfg(feature = "source")]
pub use size::ByteSize;

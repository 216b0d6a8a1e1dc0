//! jumpseat: an agent (PMDA) for Performance Co-Pilot that turns tracing sources into event metrics,
//! and the library it is made of.
//!
//! The parts, lowest first (`ARCHITECTURE.md` in the repository has the map and the data flow):
//!
//! * [`model`]: PCP's data model. No bytes on a wire, no files, no clocks.
//! * [`pdu`]: the PCP protocol, sans-I/O.
//! * [`event`]: packed event arrays and the event log.
//! * [`mod@derive`]: derived metrics, the whole language of `pmRegisterDerived(3)`.
//! * `archive` (feature `archive`): PCP archives.
//! * `agent` (feature `agent`): the PMDA framework.
//! * `source` (feature `source`): where event records come from.
//! * `time` (feature `time`): times as PCP's tools take and print them.
//! * `layer` (feature `layer`): a program's own spans and events, sent by `tracing`.
//! * `seat` (feature `seat`): the jumpseat agent itself.

#[cfg(feature = "archive")]
pub mod archive;
pub mod client;
pub mod derive;
pub mod event;
pub mod model;
pub mod pdu;
mod pmns;
#[cfg(feature = "archive")]
pub mod recorder;

#[cfg(feature = "layer")]
pub use layer::layer;

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(any(feature = "agent", feature = "source"))]
pub mod ids;
#[cfg(feature = "layer")]
pub mod layer;
#[cfg(feature = "seat")]
pub mod seat;
#[cfg(any(feature = "source", feature = "layer"))]
pub mod source;
#[cfg(feature = "time")]
pub mod time;

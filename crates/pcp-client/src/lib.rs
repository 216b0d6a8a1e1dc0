//! The client side: contexts on sources of metrics (`PMAPI(3)`), spoken to over the wire protocol itself.
//!
//! * [`Context`]: names, descriptors, instances, help, labels, values, stores, derived metrics.
//! * [`Provider`]: what a context needs of a source of metrics.
//! * [`Fetched`]: a fetch result, kept in the bytes it came in.
//! * [`EventReader`], [`EventRecord`]: the records of an event metric, with names.
//! * [`Context::samples`], [`Context::records`], [`Context::event_records`]: an archive to its end.
//! * [`group`]: metrics registered once, fetched many times, read converted.
//! * [`position`]: which metrics tell and take where a client is in event records.
//!
//! **Invariant:** nothing here knows the inside of an agent.
//!
//! # Features
//!
//! | feature | by default | brings |
//! | --- | --- | --- |
//! | `archive` | yes | contexts on archives (`Context::archive`, `ArchiveProvider`) and the `recorder`, with `pcp-archive` and its decoders of compressed files |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod agents;
#[cfg(feature = "archive")]
mod archive;
mod context;
mod counts;
mod debug;
mod derived;
mod error;
mod events;
pub mod group;
mod handshake;
mod host;
mod labels;
mod line;
mod local;
mod namespace;
mod options;
pub mod position;
mod provider;
#[cfg(feature = "archive")]
pub mod recorder;
mod registry;
mod samples;
mod socket;
mod spec;
mod stream;
mod tls;
mod traversal;
mod waiting;
mod wire;

pub use agents::{LocalAgents, LocalFault, LocalSpecError, OPTION_VARIABLES, TellFault};
#[cfg(feature = "archive")]
pub use archive::ArchiveProvider;
pub use context::Context;
pub use counts::PduCounts;
pub use error::{ClientError, Result};
pub use events::{EventField, EventReader, EventRecord};
pub use namespace::{Duplicates, NameSpace, NameSpaceError};
pub use options::{EnvWarning, HostOptions, PMCD_PORT, PMPROXY_PORT};
#[cfg(feature = "archive")]
pub use pcp_archive::IgnoredMarks;
pub use provider::{Child, ContextKind, FetchRequest, Found, Lookup, Mode, Provider, Recording};
pub use registry::{SharedRegistry, global_registry};
pub use spec::{HostAttributes, HostPorts, HostSpec, HostSpecError, Place, Security, without_password};
pub use waiting::{Interest, Waiting};

pub use pcp_derive::{Column, Values};
pub use pcp_model::Numbers;
pub use pcp_model::pmns::{PmnsError, Problem as PmnsProblem};
pub use pcp_pdu::{Fetched, LabelTarget, SetRef, StateChange, TextLevel, TextTarget, ValueRef, ValuesRef};

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

//! A framework for PCP agents (PMDAs), generic over the agent's state.
//!
//! An agent is put together with [`Agent`]: names and help come from the same source files that are
//! installed, metrics and instance domains from tables, values from callbacks that get the state and a
//! [`Call`]. [`Agent::build`] checks that all of it fits and gives a [`Core`].

mod builder;
mod call;
mod conn;
mod core;
pub mod daemon;
mod endpoint;
mod help;
pub mod identity;
mod indom;
mod labels;
pub mod log;
mod metric;
mod options;
mod own;
mod pmcd;
mod pmns;
mod row;
mod server;
mod set;
mod subtree;
mod time;

pub use builder::{Agent, BuildError};
pub use call::{Access, Attributes, Call, ClientId, FetchStamp, Grants};
pub use conn::{
    Broken, Claim, Denial, DirectConnection, Next, Offer, Output, PmcdConnection, PmcdOptions, User,
};
pub use core::{Core, Generations};
pub use endpoint::{Endpoint, HostInfo};
pub use help::{HelpError, HelpProblem};
pub use indom::{Indom, Instances};
pub use labels::{LabelError, LabelList, LabelSubject, LabelValue};
pub use metric::{EachFn, Fetch, Metric, SetFn, StoreFn};
pub use options::{Options, UsageError};
pub use own::OwnMetrics;
pub use pmcd::{PmcdEvent, Process, started};
pub use pmns::{PmnsError, Problem as PmnsProblem};
pub use server::{Exit, Handle, Limits, Listen, Security, ServeError, Server, Stats, Transport};
pub use set::SetWriter;
pub use subtree::Subtree;

pub use pcp_pdu::TextLevel;

/// Seconds that the rest of a request may take to arrive, counted from its first byte.
pub(crate) const BODY_SECONDS: u32 = 5;

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

//! The server: routes, and what they share.
//!
//! ```text
//! listen --> gate (who may look) --> routes: pmapi | series | traces, logs | page --> Pool --> Sources: hosts, Library of archives
//! ```
//!
//! * [`query`]: the parameters of a request; [`pattern`]: globs in them. [`identity`]: what series and the like are known by; [`words`] for
//!   descriptors. [`answer`]: JSON texts and refusals in the protocols' forms.
//! * [`sources`]: what may be looked at; [`library`]: the archives found, watched. [`pool`]: where clients' work is done, which may wait;
//!   [`share`]: a part of it.
//! * [`pmapi`]: PMWEBAPI and OpenMetrics. [`series`]: `/series`. [`records`]: event records of hosts and archives, for [`traces`]
//!   (Jaeger's queries) and [`logs`] (Loki's). [`page`]: the page and what it asks.
//!
//! **Invariant:** tasks of the runtime never wait for a collector or a disk: that is done in the [`pool`], in bounded numbers and time.

mod answer;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod identity;
mod library;
mod listen;
mod logs;
mod page;
mod pattern;
mod pmapi;
mod pool;
mod query;
mod records;
mod run;
mod series;
mod share;
mod sources;
mod traces;
mod web;
mod words;

pub use run::{Serving, WebError, run, start};
#[doc(hidden)]
pub use series::fuzzing as series_fuzzing;

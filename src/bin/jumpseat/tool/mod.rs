//! What the tools that stand in for PCP's have in common: options in PCP's way, with their messages and usage texts,
//! the environment variables that act like options, and the streams they write to (`PCPIntro(1)`, `pmGetOptions(3)`,
//! `pmprintf(3)`; spec `tools.md` 1).
//!
//! A tool is a [`Tool`]: data. It asks [`Options`] for its own options one by one; all others are dealt with on the
//! way.

mod call;
mod clock;
mod common;
mod conf;
mod debug;
mod environ;
mod getopt;
mod instances;
pub mod json;
mod local;
mod messages;
mod options;
mod out;
mod source;
mod table;
mod usage;
pub mod values;
mod window;

pub use call::Call;
pub use clock::Clock;
pub use instances::Instances;
pub use options::{Definitions, Options, Ready, count, tell_of_definitions};
pub use out::Out;
pub(crate) use out::put;
pub use source::{archive, open};
pub use table::{Opt, Row, Standard, Tool};
pub use window::{replay_from, window};

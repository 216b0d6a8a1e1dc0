//! What the tools that stand in for PCP's have in common: options in PCP's way, with their messages and usage texts,
//! the environment variables that act like options, and the streams they write to (`PCPIntro(1)`, `pmGetOptions(3)`,
//! `pmprintf(3)`; spec `tools.md` 1).
//!
//! A tool is a [`Tool`]: data, with a type for its own options. It asks a [`CommandLine`] for these one by one; all
//! others are dealt with on the way. Tools that show each metric once ask about them by an [`Inquiry`].

mod call;
mod clock;
mod command_line;
mod common;
mod conf;
mod debug;
mod derived;
mod environ;
mod getopt;
mod inquiry;
mod instances;
pub mod json;
mod local;
mod messages;
mod out;
pub mod record;
mod source;
mod table;
mod usage;
pub mod values;
mod window;

pub use call::Call;
pub use clock::Clock;
pub use command_line::{CommandLine, Ready, count};
pub use derived::{Definitions, report_unusable};
pub use inquiry::{Answer, Inquiry, Metric, Needs};
pub use out::Out;
pub(crate) use out::put;
pub use source::{archive, open};
pub use table::{Opt, Row, Standard, Tool};
pub use window::window;

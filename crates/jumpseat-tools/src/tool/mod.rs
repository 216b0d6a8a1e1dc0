//! What the tools that stand in for PCP's have in common: options in PCP's way, with their messages and usage texts,
//! the environment variables that act like options, and the streams they write to (`PCPIntro(1)`, `pmGetOptions(3)`,
//! `pmprintf(3)`; `docs/pcp/tools.md` 1).
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
mod folio;
mod getopt;
mod harmless;
mod inquiry;
mod instances;
pub(crate) mod json;
mod level;
mod messages;
mod out;
pub(crate) mod record;
mod refusal;
mod source;
mod table;
mod usage;
pub(crate) mod values;
mod window;

pub use call::Call;
pub(crate) use clock::Clock;
pub(crate) use command_line::{CommandLine, Ready, count};
pub use debug::debug_environment;
pub use derived::Definitions;
pub(crate) use derived::report_unusable;
pub use harmless::Harmless;
pub(crate) use inquiry::{Answer, Inquiry, Metric, Needs, hint_name};
pub(crate) use out::{Out, put};
pub(crate) use refusal::refused;
pub use source::archive;
pub(crate) use source::open;
pub(crate) use table::{Opt, Row, Standard, Tool};
pub(crate) use window::window;

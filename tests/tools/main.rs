//! The command line: tools that stand in for PCP's, `top`, `record`, `derive`.

mod archive;
mod archive_own;
mod contexts;
mod derive_cli;
mod derive_replay;
mod events;
mod generate;
mod info;
mod json;
mod names;
mod options;
mod positions;
mod probe;
mod record;
#[allow(dead_code, reason = "each area uses a part of it")]
#[path = "../seat/mod.rs"]
mod seat;
mod store;
mod terminal;
mod tools_support;
mod top;
mod val;

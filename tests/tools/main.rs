//! The command line: tools that stand in for PCP's, `top`, `record`, `derive`.

mod archive;
mod archive_own;
mod config;
mod contexts;
mod debug;
mod derive_cli;
mod derive_replay;
mod events;
mod flat;
mod generate;
mod info;
mod json;
mod level;
mod local;
mod meant;
mod names;
mod options;
mod positions;
mod probe;
mod record;
#[allow(dead_code, reason = "each area uses a part of it")]
#[path = "../seat/mod.rs"]
mod seat;
mod store;
mod support_bundle;
mod terminal;
mod tools_support;
mod top;
mod trace_file;
mod val;

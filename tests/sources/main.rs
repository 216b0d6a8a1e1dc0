//! Where event records come from: programs, files, commands, the kernel, OTLP.

mod admission;
mod control;
mod dimensions;
mod follow_commands;
mod follow_files;
mod follow_formats;
mod follow_records;
mod follow_support;
mod kernel;
mod killed;
mod layer;
mod order;
mod otlp_metrics;
#[cfg(feature = "export")]
mod otlp_metrics_out;
#[cfg(feature = "export")]
mod otlp_out;
mod otlp_sdk;
mod overload;
mod reload;
mod restarts;
mod scrapes;
#[allow(dead_code, reason = "each area uses a part of it")]
#[path = "../seat/mod.rs"]
mod seat;
mod services;
mod spans;
mod tail;
mod targets;
#[cfg(feature = "export")]
mod targets_out;

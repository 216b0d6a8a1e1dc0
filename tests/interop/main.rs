//! The agent under a real pmcd, next to real clients, and by itself.

mod attacks;
mod clients;
mod configuration;
mod dbpmda;
mod demo;
mod derived;
mod durable;
mod faults;
mod handover;
mod harness;
mod hostile_agents;
mod names;
mod planted;
mod pmcd;
mod recycle;
mod sampler;
#[allow(dead_code, reason = "each area uses a part of it")]
#[path = "../seat/mod.rs"]
mod seat;
mod secure;
mod serve;
mod slowest;
mod trust;
mod work;

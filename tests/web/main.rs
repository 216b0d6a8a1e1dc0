//! `jumpseat web`, as browsers, Grafana and Prometheus use it: the real program, real collectors and archives.

mod browser;
mod gate;
mod logs;
mod page;
mod pmapi;
mod replay;
#[allow(dead_code, reason = "each area uses a part of it")]
#[path = "../seat/mod.rs"]
mod seat;
mod series;
mod traces;
mod web_support;

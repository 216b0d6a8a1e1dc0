//! What the documents say is so: their commands and examples run, their figures are counted, and the book is built.

mod blocks;
mod book;
mod commands;
mod examples;
mod figures;
mod manifests;
#[allow(dead_code, reason = "each area uses a part of it")]
#[path = "../seat/mod.rs"]
mod seat;

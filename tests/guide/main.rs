//! What the documents say is so: their commands and examples run, their figures are counted, and the book is built.

mod examples;
#[allow(dead_code, reason = "each area uses a part of it")]
#[path = "../seat/mod.rs"]
mod seat;

//! The event log against a naive model, its scenarios one by one, and its filters.

mod check;
mod filter;
mod history;
mod model;
mod scenarios;
mod seek;

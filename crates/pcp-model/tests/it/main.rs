//! What `pcp-model` promises, seen from outside.

mod convert;
mod print;
mod time;
mod units;
mod units_support;

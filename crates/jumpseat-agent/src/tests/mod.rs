//! Tests of the agent as a whole, in this process.

mod balance;
mod contexts;
mod cycles;
mod positions;

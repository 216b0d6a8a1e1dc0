//! Tests of the agent as a whole, in this process.

mod balance;
mod cycles;
mod positions;

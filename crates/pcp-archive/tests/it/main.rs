//! What the package promises, beside PCP's own tools.

mod check;
mod counters;
mod first;
mod index;
mod losses;
mod repair;
mod suite;

//! What the package promises, beside PCP's own tools.

mod check;
mod repair;
mod suite;

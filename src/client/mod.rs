//! The client side: asking a collector (pmcd, or `jumpseat serve`) for metrics over the wire protocol.
//!
//! **Invariant:** nothing here knows the inside of an agent.

mod connection;

pub use connection::{ClientError, Connection};

//! Event records in forms beyond PCP's.

pub mod lanes;
pub mod perfetto;

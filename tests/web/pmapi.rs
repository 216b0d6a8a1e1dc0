//! pmapi

//! PDUs.

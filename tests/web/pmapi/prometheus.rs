//! prometheus

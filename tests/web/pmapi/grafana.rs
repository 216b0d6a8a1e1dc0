//! grafana

//! The order of severities.

/// How bad an event is. The order is that of syslog with `trace` below; names are those of syslog,
/// of Rust's `tracing` and of OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Finest detail.
    Trace,
    /// For developers.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but significant.
    Notice,
    /// Also `warning`.
    Warn,
    /// Also `err`.
    Error,
    /// Also `crit` and `fatal`.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Also `emerg` and `panic`.
    Emergency,
}

/// The names for messages.
pub(super) const NAMES: &str = "trace, debug, info, notice, warn, error, critical, alert or emergency";

impl Severity {
    /// The severity that a text names, in any case.
    pub fn from_name(name: &[u8]) -> Option<Severity> {
        let mut lower = [0u8; 9];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        Some(match &*lower {
            b"trace" => Severity::Trace,
            b"debug" => Severity::Debug,
            b"info" => Severity::Info,
            b"notice" => Severity::Notice,
            b"warn" | b"warning" => Severity::Warn,
            b"error" | b"err" => Severity::Error,
            b"critical" | b"crit" | b"fatal" => Severity::Critical,
            b"alert" => Severity::Alert,
            b"emergency" | b"emerg" | b"panic" => Severity::Emergency,
            _ => return None,
        })
    }

    /// The canonical name.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Trace => "trace",
            Severity::Debug => "debug",
            Severity::Info => "info",
            Severity::Notice => "notice",
            Severity::Warn => "warn",
            Severity::Error => "error",
            Severity::Critical => "critical",
            Severity::Alert => "alert",
            Severity::Emergency => "emergency",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_aliases_and_order() {
        let order = ["trace", "debug", "info", "notice", "warn", "error", "critical", "alert", "emergency"];
        let ranks: Vec<Severity> =
            order.iter().map(|name| Severity::from_name(name.as_bytes()).unwrap()).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b));
        assert!(ranks.iter().zip(order).all(|(rank, name)| rank.name() == name));
        for (alias, name) in [
            ("WARNING", "warn"),
            ("Err", "error"),
            ("crit", "critical"),
            ("FATAL", "critical"),
            ("emerg", "emergency"),
            ("panic", "emergency"),
        ] {
            assert_eq!(Severity::from_name(alias.as_bytes()).map(Severity::name), Some(name), "{alias}");
        }
        for other in ["", "warnings", "emergencyx", "5"] {
            assert_eq!(Severity::from_name(other.as_bytes()), None, "{other}");
        }
    }
}

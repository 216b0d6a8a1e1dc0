//! Dates as PCP's logs and metrics write them, in the host's time zone.

use std::time::SystemTime;

use jiff::Zoned;

fn format(time: SystemTime, format: &str) -> String {
    match Zoned::try_from(time) {
        Ok(local) => local.strftime(format).to_string(),
        // Beyond the year 9999.
        Err(_) => "a time out of range".to_owned(),
    }
}

/// `Fri Nov 20 10:44:40 2026`, as `ctime(3)` without its line break.
pub(super) fn ctime(time: SystemTime) -> String {
    format(time, "%a %b %e %H:%M:%S %Y")
}

/// `Fri Nov 20 10:44:40`.
pub(super) fn log_time(time: SystemTime) -> String {
    format(time, "%a %b %e %H:%M:%S")
}

/// `2026-11-20T10:44:40.123456+01:00`.
pub(super) fn rfc3339(time: SystemTime) -> String {
    format(time, "%Y-%m-%dT%H:%M:%S.%6f%:z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn dates_have_ctimes_form() {
        let time = UNIX_EPOCH + Duration::from_secs(1_795_170_946);
        let text = ctime(time);
        assert_eq!(text.len(), 24, "{text}");
        assert!(text.ends_with(" 2026") && text.contains(" Nov "), "{text}");
        assert_eq!(log_time(time), text[..19]);
    }
}

//! Dates as PCP's logs and metrics write them, in the host's time zone.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How long the host's zone is taken for what it was.
const FRESH: Duration = Duration::from_secs(60);

/// The host's zone. The file that says it is read as it is: to ask for a zone by its name is to list the directories of the time zone
/// database first, 180 system calls for the first line of a log.
fn zone() -> TimeZone {
    static READ: Mutex<Option<(Instant, TimeZone)>> = Mutex::new(None);
    if std::env::var_os("TZ").is_some() {
        return TimeZone::system();
    }
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, zone)) = read.as_ref()
        && at.elapsed() < FRESH
    {
        return zone.clone();
    }
    let file = std::fs::read("/etc/localtime").ok();
    let zone = file.and_then(|file| TimeZone::tzif("", &file).ok()).unwrap_or_else(TimeZone::system);
    read.insert((Instant::now(), zone)).1.clone()
}

fn format(time: SystemTime, format: &str) -> String {
    match Timestamp::try_from(time) {
        Ok(time) => time.to_zoned(zone()).strftime(format).to_string(),
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
        // As jiff finds the zone by itself.
        let known =
            jiff::Zoned::try_from(time).expect("in range").strftime("%a %b %e %H:%M:%S %Y").to_string();
        assert_eq!(text, known);
    }
}

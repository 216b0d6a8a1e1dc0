//! Dates as PCP's logs and metrics write them, in the host's time zone.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use pcp_model::Timestamp;
use pcp_model::time::Zone;

/// How long the host's zone is taken for what it was.
const FRESH: Duration = Duration::from_secs(60);

/// The host's zone.
fn zone() -> Zone {
    static READ: Mutex<Option<(Instant, Zone)>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    match read.as_ref() {
        Some((at, zone)) if at.elapsed() < FRESH => zone.clone(),
        _ => read.insert((Instant::now(), Zone::local())).1.clone(),
    }
}

/// `Fri Nov 20 10:44:40 2026`, as `ctime(3)` without its line break.
pub(super) fn ctime(time: SystemTime) -> String {
    zone().ctime(Timestamp::from(time).sec)
}

/// `Fri Nov 20 10:44:40`.
pub(super) fn log_time(time: SystemTime) -> String {
    let (zone, time) = (zone(), Timestamp::from(time));
    format!("{} {}", zone.date(time.sec), zone.clock(time, 0))
}

/// `2026-11-20T10:44:40.123456+01:00`.
pub(super) fn rfc3339(time: SystemTime) -> String {
    let (zone, time) = (zone(), Timestamp::from(time));
    let (civil, offset) = (zone.civil(time.sec), zone.utc_offset(time.sec));
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
    format!(
        "{:04}-{:02}-{:02}T{}{sign}{:02}:{:02}",
        civil.year,
        civil.month,
        civil.day,
        zone.clock(time, 6),
        minutes / 60,
        minutes % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn dates_have_ctimes_form() {
        let time = UNIX_EPOCH + Duration::from_micros(1_795_170_946_012_345);
        let text = ctime(time);
        assert_eq!(text.len(), 24, "{text}");
        assert!(text.ends_with(" 2026") && text.contains(" Nov "), "{text}");
        assert_eq!(log_time(time), text[..19]);
        // As jiff finds the zone by itself.
        let known =
            |format: &str| jiff::Zoned::try_from(time).expect("in range").strftime(format).to_string();
        assert_eq!(text, known("%a %b %e %H:%M:%S %Y"));
        assert_eq!(rfc3339(time), known("%Y-%m-%dT%H:%M:%S.%6f%:z"));
    }
}

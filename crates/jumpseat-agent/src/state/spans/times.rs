//! Times in nanoseconds.

use std::time::Duration;

use pcp_model::Timestamp;

/// A time in nanoseconds; more than what fits is as much as does.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How many nanoseconds are between two times; `None` if the second is before the first.
pub(super) fn between(began: Timestamp, ended: Timestamp) -> Option<u64> {
    if ended < began {
        return None;
    }
    let seconds = ended.sec.checked_sub(began.sec).and_then(|seconds| seconds.checked_mul(1_000_000_000));
    // More than what fits is as much as does.
    let nanos =
        seconds.and_then(|seconds| seconds.checked_add(i64::from(ended.nsec) - i64::from(began.nsec)));
    Some(nanos.map_or(u64::MAX, i64::cast_unsigned))
}

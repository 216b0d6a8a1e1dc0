//! `--since`: the records of a live host from an earlier place on.

use std::time::SystemTime;

use pcp_client::{Context, ContextKind, position};
use pcp_model::time::{Zone, parse_moment};
use pcp_model::{Inst, InstanceValue, PM_IN_NULL, PmError, Timestamp, Value, ValueSet};

/// Has the agent begin there, for the instances wanted.
///
/// # Errors
/// Why it cannot, in words.
pub(super) fn begin(
    context: &mut Context,
    metric: &str,
    chosen: Option<&[(Inst, String)]>,
    text: &str,
    zone: &Zone,
) -> Result<(), String> {
    if context.kind() == ContextKind::Archive {
        return Err("since can only be used with hosts: -S is for archives".to_owned());
    }
    let name = position::metric_for(metric).ok_or_else(|| {
        let known: Vec<&str> = position::METRICS.iter().map(|(records, _)| *records).collect();
        format!("--since: {metric} has no positions, only {} have", known.join(" and "))
    })?;
    let at = stored(text, SystemTime::now().into(), zone)?;
    let failed = |what: &str| format!("--since {text}: {what}");
    let pmid = context.pmid(name).map_err(|error| match error.code() {
        PmError::NAME => failed("the agent of this host is too old to know positions"),
        error => failed(&error.to_string()),
    })?;
    let instances = match chosen {
        Some(chosen) if !chosen.is_empty() => chosen.iter().map(|(inst, _)| *inst).collect(),
        // Of those, too, that come later.
        _ => vec![PM_IN_NULL],
    };
    let value = |inst| InstanceValue { inst, value: Value::from(at.clone()) };
    let values = Ok(instances.into_iter().map(value).collect());
    let Err(error) = context.store(&[ValueSet { pmid, values }]) else { return Ok(()) };
    let reason = position::refusal(context).ok().flatten();
    Err(failed(&reason.unwrap_or_else(|| error.code().to_string())))
}

/// The text as the agent takes it: it does not know the zone here, nor the clock.
fn stored(text: &str, now: Timestamp, zone: &Zone) -> Result<String, String> {
    let text = text.trim();
    let is_sequence = text
        .split('@')
        .next()
        .is_some_and(|seq| !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit()));
    if is_sequence || matches!(text, "oldest" | "newest") {
        return Ok(text.to_owned());
    }
    let time = parse_moment(text, now, zone).map_err(|error| {
        format!(
            "--since:\n{error}allowed are a time, an age such as 10min, a sequence number, oldest, newest"
        )
    })?;
    let nanos = time.as_nanos();
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    Ok(format!("@{sign}{:06}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_gets_what_does_not_depend_on_this_host() {
        let now = Timestamp::new(1_000_000_000, 5);
        let zone = Zone::new("UTC-2");
        for (text, expected) in [
            ("oldest", "oldest"),
            ("17", "17"),
            ("17@1f", "17@1f"),
            ("-10min", "@999999400.000000005"),
            ("10min", "@999999400.000000005"),
            ("2001-09-09T03:46:41.5", "@1000000001.500000000"),
            ("@1000000000", "@1000000000.000000000"),
            ("1969-12-31T23:59:59Z", "@-000001.000000000"),
        ] {
            let at = stored(text, now, &zone);
            assert_eq!(at.as_deref(), Ok(expected), "{text}");
        }
        let refused = stored("soon", now, &zone).expect_err("no time");
        assert!(
            refused.ends_with("allowed are a time, an age such as 10min, a sequence number, oldest, newest")
        );
    }
}

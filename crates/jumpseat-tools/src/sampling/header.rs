//! The lines before the first sample (`docs/pcp/tools.md` 5.4).

use pcp_model::{Semantics, Units};

use super::rate;
use super::schedule::Schedule;
use super::style::Style;
use super::subject::Subject;
use crate::tool::put;

/// Prints what the metric is and how it is sampled.
pub(super) fn print(subject: &mut Subject, metric: &str, schedule: &Schedule, style: Style) {
    let &Schedule { samples, interval, rated, .. } = schedule;
    let (events, recorded) = (subject.has_events(), subject.is_recorded());
    // The note about a zone ends with a blank line of its own.
    if subject.ready.common.zone.is_none() && !events {
        put!(subject.out, "\n");
    }
    let mut line = |name: &str, text: &str| {
        let name = format!("{name}:");
        put!(subject.out, "{} {text}\n", style.label(&format!("{name:<10}")));
    };
    if !events {
        line("metric", metric);
    }
    if recorded {
        line("archive", &subject.ready.common.archives.join(","));
    }
    line("host", &subject.host);
    if recorded {
        line("start", &subject.clock.zone.ctime(subject.window.origin.sec));
    }
    if let (true, Some(end)) = (recorded, subject.window.finite_end()) {
        line("end", &subject.clock.zone.ctime(end.sec));
    }
    if !events {
        let semantics = match subject.desc.semantics {
            // What PCP calls them here differs from what pminfo(1) calls them.
            Semantics::Counter if rated => "cumulative counter (converting to rate)",
            Semantics::Counter => "cumulative counter",
            Semantics::Instant => "instantaneous value",
            Semantics::Discrete => "discrete instantaneous value",
            Semantics::Other(_) => "unknown",
        };
        line("semantics", semantics);
        let mut units = text(subject.desc.units, "none");
        if rated {
            units += &match text(rate::units(subject.desc.units), "") {
                none if none.is_empty() => " (converting to time utilization)".to_owned(),
                units => format!(" (converting to {units})"),
            };
        }
        line("units", &units);
    }
    match samples {
        Some(samples) => line("samples", &samples.to_string()),
        None => line("samples", "all"),
    }
    if samples.is_some_and(|samples| samples > 1) && !(recorded && schedule.by_record) {
        line("interval", &format!("{:.2} sec", interval.as_secs_f64()));
    }
}

fn text(units: Units, none: &str) -> String {
    match units.to_string() {
        text if text.is_empty() => none.to_owned(),
        text => text,
    }
}

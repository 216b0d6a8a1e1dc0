//! The lines before the first sample (spec `tools.md` 5.4).

use pcp_model::{Level, Semantics};

use super::options::SamplingSettings;
use super::rate;
use super::schedule::Schedule;
use super::style::Style;
use super::subject::Subject;
use crate::tool::put;

/// Prints what the metric is and how it is sampled.
pub(super) fn print(subject: &mut Subject, wanted: &SamplingSettings, schedule: &Schedule, style: Style) {
    let &Schedule { samples, interval, rated, .. } = schedule;
    let (events, recorded) = (subject.has_events(), subject.is_recorded());
    // Older releases leave out of the two times what -X adds to those of samples.
    let dated = if subject.ready.call.level >= Level::V721 { wanted.dated } else { 0 };
    let times = [Some(subject.window.origin), subject.window.finite_end()].map(|time| {
        time.map(|time| match dated {
            0 => subject.clock.zone.ctime(time.sec),
            _ => subject.stamp(time, dated),
        })
    });
    let units = (subject.units(subject.desc.units), subject.units(rate::units(subject.desc.units)));
    // The note about a zone ends with a blank line of its own.
    if subject.ready.common.zone.is_none() && !events {
        put!(subject.out, "\n");
    }
    let mut line = |name: &str, text: &str| {
        let name = format!("{name}:");
        put!(subject.out, "{} {text}\n", style.label(&format!("{name:<10}")));
    };
    if !events {
        line("metric", &wanted.metric);
    }
    if recorded {
        line("archive", &subject.ready.common.archives.join(","));
    }
    line("host", &subject.host);
    for (name, time) in ["start", "end"].into_iter().zip(times).filter(|_| recorded) {
        time.iter().for_each(|time| line(name, time));
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
        let (units, rate) = units;
        let mut units = if units.is_empty() { "none".to_owned() } else { units };
        if rated {
            units += &match rate.as_str() {
                "" => " (converting to time utilization)".to_owned(),
                rate => format!(" (converting to {rate})"),
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

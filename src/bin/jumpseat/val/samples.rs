//! The run: samples at equal intervals, each put out in the form that is wanted.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use jumpseat::client::Fetched;
use jumpseat::model::{Inst, PmError, Timestamp, Value, ValueType};
use jumpseat::pdu::ValuesRef;
use jumpseat::time::{Reference, Switches, parse_window};

use super::pace::Pace;
use super::records::{self, Names};
use super::setup::Subject;
use super::style::Style;
use super::table::{Sample, Table, default_width};
use super::{Wanted, header, json};
use crate::events::perfetto::Trace;
use crate::tool::put;

/// Without `-t`.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Samples the metric until the end.
pub fn run(mut subject: Subject, wanted: Wanted) -> ExitCode {
    let failed = |name: &str, what: &str| {
        eprintln!("{name}: {what}");
        ExitCode::FAILURE
    };
    let interval = wanted.interval.unwrap_or(DEFAULT_INTERVAL);
    let rated = subject.is_counter() && !wanted.raw && !subject.has_events();
    let limits = match limits(&subject, interval, rated) {
        Ok(limits) => limits,
        Err(text) => return failed(&subject.ready.call.name, &text),
    };
    let style = Style::of(&subject.ready.call);
    let mut sink = match Sink::new(&mut subject, &wanted, rated, interval, &limits, style) {
        Ok(sink) => sink,
        Err(code) => return code,
    };
    let mut pace = Pace::new(interval);
    if matches!(sink, Sink::Trace(_))
        && let Err(errno) = pace.catch_signals()
    {
        return failed(&subject.ready.call.name, &format!("cannot catch signals: {errno}"));
    }
    let mut fetched = Fetched::new();
    let (mut taken, mut code) = (0, ExitCode::SUCCESS);
    while limits.fetches.is_none_or(|fetches| taken < fetches) {
        if taken > 0 && !pace.wait() {
            break;
        }
        if let Err(error) = subject.context.fetch(&[subject.desc.pmid], &mut fetched) {
            let error = error.code();
            subject.out.flush();
            if error != PmError::EOL {
                eprintln!("\n{}: pmFetch: {error}", subject.ready.call.name);
                code = ExitCode::FAILURE;
            }
            break;
        }
        if limits.end.is_some_and(|end| fetched.timestamp > end) {
            break;
        }
        let values = fetched.set(0).map_or(Err(PmError::IPC), |set| set.values);
        if let Err(error) = values {
            subject.out.flush();
            if error == PmError::NOTCONN {
                break;
            }
            eprintln!("\n{}: pmFetch: {error}", subject.ready.call.name);
        }
        let go_on = sink.sample(&mut subject, &wanted, fetched.timestamp, values, taken == 0);
        subject.out.flush();
        if !go_on || subject.out.is_lost() {
            break;
        }
        taken += 1;
    }
    let written = sink.finish(&mut subject);
    let printed = subject.out.finish(&subject.ready.call);
    if written && printed { code } else { ExitCode::FAILURE }
}

/// How long a run goes on.
struct Limits {
    /// As the header tells it: `None` for no end.
    samples: Option<u64>,
    fetches: Option<u64>,
    end: Option<Timestamp>,
}

fn limits(subject: &Subject, interval: Duration, rated: bool) -> Result<Limits, String> {
    let common = &subject.ready.common;
    let mut limits = Limits { samples: common.samples, fetches: None, end: None };
    if let Some(finish) = &common.finish {
        let reference = Reference::live(Timestamp::from(SystemTime::now()));
        let switches = Switches { finish: Some(finish), ..Switches::default() };
        let window = parse_window(&switches, &reference, &subject.clock.zone)
            .map_err(|error| format!("invalid time window.\n{error}"))?;
        let nanos = (window.end.as_nanos() - window.start.as_nanos()).max(0);
        let fits =
            u64::try_from(nanos / (interval.as_nanos() as i128).max(1)).unwrap_or(u64::MAX).saturating_add(1);
        if limits.samples.is_none() {
            (limits.samples, limits.fetches) = (Some(fits), Some(fits));
        }
        limits.end = Some(window.end);
    }
    if limits.fetches.is_none() {
        limits.fetches = limits.samples.map(|samples| match samples {
            0 => 0,
            samples => samples.saturating_add(u64::from(rated)),
        });
    }
    Ok(limits)
}

/// Where samples go.
enum Sink {
    Table(Box<Table>),
    Records(Names),
    Json(Box<json::JsonLines>),
    Trace(Box<Trace>),
}

impl Sink {
    fn new(
        subject: &mut Subject,
        wanted: &Wanted,
        rated: bool,
        interval: Duration,
        limits: &Limits,
        style: Style,
    ) -> Result<Sink, ExitCode> {
        let name = subject.ready.call.name.clone();
        let failed = |what: &str| {
            eprintln!("{name}: {what}");
            ExitCode::FAILURE
        };
        if let Some(file) = &wanted.perfetto {
            if !subject.has_events() {
                return Err(failed(&format!("{} has no event records to trace", wanted.metric)));
            }
            let trace = Trace::create(file.as_ref(), &wanted.metric, &subject.host);
            return trace
                .map(|trace| Sink::Trace(Box::new(trace)))
                .map_err(|error| failed(&format!("cannot write {file}: {error}")));
        }
        let desc = subject.desc;
        let width = wanted.width.unwrap_or(default_width(desc.value_type));
        let table = || Table::new(desc, rated, width, wanted.precision, subject.chosen.clone(), style);
        if wanted.json {
            let table = table();
            let lines = json::JsonLines::new(&wanted.metric, &subject.host, desc, rated, table);
            return Ok(Sink::Json(Box::new(lines)));
        }
        if desc.value_type == ValueType::NoSupport {
            put!(subject.out, "\n");
            subject.out.flush();
            // PCP's program has this one under its first name only.
            let name = if subject.ready.call.pcp { super::VAL.name } else { &name };
            eprintln!("{name}: unknown performance metric value type {}", desc.value_type.name());
            return Err(ExitCode::FAILURE);
        }
        if let Some(digits) = wanted.precision
            && digits > 0
            && digits + 2 > width
        {
            if !subject.has_events() && subject.ready.common.zone.is_none() {
                put!(subject.out, "\n");
            }
            subject.out.flush();
            return Err(failed(&format!("-f {digits} too large for column width {width}")));
        }
        let table = table();
        header::print(subject, &wanted.metric, rated, limits.samples, interval, style);
        subject.out.flush();
        Ok(if subject.has_events() { Sink::Records(Names::default()) } else { Sink::Table(Box::new(table)) })
    }

    /// Puts a sample out. False if the run is to end.
    fn sample(
        &mut self,
        subject: &mut Subject,
        wanted: &Wanted,
        time: Timestamp,
        values: Result<ValuesRef<'_>, PmError>,
        first: bool,
    ) -> bool {
        match self {
            Sink::Table(table) => {
                let sample = values.ok().map(|values| decode(time, values, subject.desc.value_type));
                let Subject { context, clock, out, .. } = subject;
                match table.take(sample, first) {
                    None => {}
                    Some(Err(())) => put!(out, "No values available\n"),
                    Some(Ok(shown)) => table.print(&shown, context, clock, out),
                }
            }
            Sink::Records(names) => match values {
                Ok(values) if !values.is_empty() => records::print(subject, names, &wanted.metric, values),
                Ok(_) if wanted.verbose => put!(subject.out, "{}: No values available\n", wanted.metric),
                _ => {}
            },
            Sink::Json(json) => json.sample(subject, time, values, first),
            Sink::Trace(trace) => {
                if let Ok(values) = values
                    && let Err(error) = trace.sample(&mut subject.context, &subject.desc, time, values)
                {
                    eprintln!("{}: cannot write the trace: {error}", subject.ready.call.name);
                    return false;
                }
            }
        }
        true
    }

    /// Ends the output. False if that failed.
    fn finish(self, subject: &mut Subject) -> bool {
        let Sink::Trace(trace) = self else { return true };
        match trace.finish() {
            Ok(summary) => {
                put!(subject.out, "{summary}\n");
                true
            }
            Err(error) => {
                eprintln!("{}: cannot write the trace: {error}", subject.ready.call.name);
                false
            }
        }
    }
}

/// Values of the metric's type; others are left out.
pub fn decode(time: Timestamp, values: ValuesRef<'_>, value_type: ValueType) -> Sample {
    let typed = |(inst, value): (Inst, jumpseat::pdu::ValueRef<'_>)| -> Option<(Inst, Value)> {
        Some((inst, value.to_value(value_type).ok()?))
    };
    Sample { time, values: values.iter().filter_map(typed).collect() }
}

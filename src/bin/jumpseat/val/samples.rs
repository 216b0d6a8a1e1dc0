//! The run: samples at equal intervals, each put out in the form that is wanted.

use std::process::ExitCode;

use jumpseat::client::{Fetched, Mode};
use jumpseat::model::{Inst, PmError, Timestamp, Value, ValueType};
use jumpseat::pdu::ValuesRef;

use super::pace::Pace;
use super::plan::Plan;
use super::records::{self, Names};
use super::setup::Subject;
use super::style::Style;
use super::table::{Sample, Table, default_width};
use super::{Wanted, header, json};
use crate::events::perfetto::Trace;
use crate::tool::put;

/// Samples the metric until the end.
pub fn run(mut subject: Subject, wanted: Wanted) -> ExitCode {
    let failed = |name: &str, what: &str| {
        eprintln!("{name}: {what}");
        ExitCode::FAILURE
    };
    let plan = Plan::new(&subject, &wanted);
    let style = Style::of(&subject.ready.call);
    let mut sink = match Sink::new(&mut subject, &wanted, &plan, style) {
        Ok(sink) => sink,
        Err(code) => return code,
    };
    if subject.is_recorded() {
        let step = i64::try_from(plan.interval.as_nanos()).unwrap_or(i64::MAX);
        let mode = if plan.by_record { Mode::Forward } else { Mode::Interpolate { step } };
        if let Err(error) = subject.context.set_mode(mode, Some(subject.window.origin)) {
            return failed(&subject.ready.call.name, &format!("pmSetMode: {}", error.code()));
        }
    }
    let mut pace = Pace::new(plan.interval);
    if matches!(sink, Sink::Trace(_))
        && let Err(errno) = pace.catch_signals()
    {
        return failed(&subject.ready.call.name, &format!("cannot catch signals: {errno}"));
    }
    let paced = !subject.is_recorded() || wanted.delay;
    let mut fetched = Fetched::new();
    let (mut taken, mut first, mut code) = (0, true, ExitCode::SUCCESS);
    while plan.samples.is_none_or(|samples| taken < samples) {
        if paced && !std::mem::take(&mut first) && !pace.wait() {
            break;
        }
        if let Err(error) = fetch(&mut subject, plan.by_record, &mut fetched) {
            subject.out.flush();
            if error != PmError::EOL {
                let call = if plan.by_record { "pmFetchArchive" } else { "pmFetch" };
                eprintln!("\n{}: {call}: {error}", subject.ready.call.name);
                code = ExitCode::FAILURE;
            }
            break;
        }
        if fetched.is_empty() {
            sink.suspended(&mut subject, &wanted, fetched.timestamp);
            taken += 1;
            continue;
        }
        if plan.end.is_some_and(|end| fetched.timestamp > end) {
            break;
        }
        let values = fetched.find(subject.desc.pmid).map_or(Err(PmError::IPC), |set| set.values);
        if let Err(error) = values {
            subject.out.flush();
            if error == PmError::NOTCONN {
                break;
            }
            eprintln!("\n{}: pmFetch: {error}", subject.ready.call.name);
        }
        let counts = sink.sample(&mut subject, &wanted, fetched.timestamp, values);
        if paced {
            subject.out.flush();
        }
        match counts {
            Some(counts) if !subject.out.is_lost() => taken += u64::from(counts),
            _ => break,
        }
    }
    let written = sink.finish(&mut subject);
    let printed = subject.out.finish(&subject.ready.call);
    if written && printed { code } else { ExitCode::FAILURE }
}

/// The next sample; of the records of an archive the next that has the metric, or the next mark, which is empty.
fn fetch(subject: &mut Subject, by_record: bool, fetched: &mut Fetched) -> Result<(), PmError> {
    let pmid = subject.desc.pmid;
    if !by_record {
        return subject.context.fetch(&[pmid], fetched).map(|_| ()).map_err(|error| error.code());
    }
    loop {
        subject.context.fetch_record(fetched).map_err(|error| error.code())?;
        if fetched.is_empty() || fetched.find(pmid).is_some() {
            return Ok(());
        }
    }
}

/// Where samples go.
enum Sink {
    Table(Box<Table>),
    Records(Names),
    Json(Box<json::JsonLines>),
    Trace(Box<Trace>),
}

impl Sink {
    fn new(subject: &mut Subject, wanted: &Wanted, plan: &Plan, style: Style) -> Result<Sink, ExitCode> {
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
        let table = || Table::new(desc, plan.rated, width, wanted.precision, subject.chosen.clone(), style);
        if wanted.json {
            let table = table();
            let lines = json::JsonLines::new(&wanted.metric, &subject.host, desc, plan.rated, table);
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
        header::print(subject, &wanted.metric, plan, style);
        subject.out.flush();
        Ok(if subject.has_events() { Sink::Records(Names::default()) } else { Sink::Table(Box::new(table)) })
    }

    /// Puts a sample out. Whether it is one of those asked for; `None` if the run is to end.
    fn sample(
        &mut self,
        subject: &mut Subject,
        wanted: &Wanted,
        time: Timestamp,
        values: Result<ValuesRef<'_>, PmError>,
    ) -> Option<bool> {
        let stamp = if subject.is_recorded() { subject.stamp(time, wanted.dated) } else { String::new() };
        let gap = if stamp.is_empty() { "" } else { "  " };
        match self {
            Sink::Table(table) => {
                let sample = values.ok().map(|values| decode(time, values, subject.desc.value_type));
                let present: Vec<Inst> =
                    sample.iter().flat_map(|sample| sample.values.iter().map(|(inst, _)| *inst)).collect();
                let Subject { context, clock, out, .. } = subject;
                let taken = table.take(sample);
                if !(present.is_empty() && matches!(taken.shown, Some(Err(())))) {
                    table.headers(&present, stamp.len(), context, out);
                }
                match taken.shown {
                    None => {}
                    Some(Err(())) => put!(out, "{stamp}{gap}No values available\n"),
                    Some(Ok(shown)) => table.print(&stamp, &shown, clock, out),
                }
                return Some(taken.counts);
            }
            Sink::Records(names) => {
                put!(subject.out, "{stamp}{gap}");
                if let Ok(values) = values
                    && !records::print(subject, names, &wanted.metric, values)
                    && wanted.verbose
                {
                    put!(subject.out, "{}: No values available\n", wanted.metric);
                }
            }
            Sink::Json(json) => return Some(json.sample(subject, time, values)),
            Sink::Trace(trace) => {
                if let Ok(values) = values
                    && let Err(error) = trace.sample(&mut subject.context, &subject.desc, time, values)
                {
                    eprintln!("{}: cannot write the trace: {error}", subject.ready.call.name);
                    return None;
                }
            }
        }
        Some(true)
    }

    /// Tells that recording was interrupted.
    fn suspended(&mut self, subject: &mut Subject, wanted: &Wanted, time: Timestamp) {
        match self {
            Sink::Table(table) => table.suspend(),
            Sink::Records(_) => {}
            Sink::Json(json) => return json.suspended(subject, time),
            Sink::Trace(_) => return,
        }
        let stamp = subject.stamp(time, wanted.dated);
        put!(subject.out, "{stamp}  Archive logging suspended\n");
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

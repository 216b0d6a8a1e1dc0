//! Where samples go: the forms that a run can put them out in.

use std::process::ExitCode;

use pcp_model::{Inst, PmError, Timestamp, ValueType};
use pcp_pdu::ValuesRef;

use super::flat::Flat;
use super::json::JsonLines;
use super::options::{PMVAL, SamplingSettings};
use super::records::RecordNames;
use super::schedule::Schedule;
use super::style::Style;
use super::subject::Subject;
use super::table::{Shown, Table, TimedValues, default_width};
use super::trace::Trace;
use super::{header, record_lines};
use crate::tool::put;

/// Where samples go.
pub(super) enum Sink {
    /// Columns of values.
    Table(Box<Table>),
    /// PCP's lines for event records.
    Records(RecordNames),
    /// An object a sample.
    Json(Box<JsonLines>),
    /// An object an event record.
    Flat(Box<Flat>),
    /// A file for a viewer.
    Trace(Box<Trace>),
}

impl Sink {
    /// The form that the options ask for, and what has to be printed before the first sample.
    ///
    /// # Errors
    /// The exit code, after a message.
    pub(super) fn new(
        subject: &mut Subject,
        wanted: &SamplingSettings,
        schedule: &Schedule,
    ) -> Result<Sink, ExitCode> {
        if let Some(file) = &wanted.perfetto {
            if !subject.has_events() {
                return Err(subject.fails(&format!("{} has no event records to trace", wanted.metric)));
            }
            // Before the first sample, so that a file that cannot be written is told of at once.
            let trace = Trace::create(file, &wanted.metric);
            return trace
                .map(|trace| Sink::Trace(Box::new(trace)))
                .map_err(|error| subject.fails(&format!("cannot write {file}: {error}")));
        }
        let (desc, style) = (subject.desc, Style::of(&subject.ready.call));
        let width = wanted.width.unwrap_or(default_width(desc.value_type));
        let table = || Table::new(desc, schedule.rated, width, wanted.precision, subject.columns(), style);
        if wanted.json && subject.has_events() {
            return Ok(Sink::Flat(Box::new(Flat::new(&wanted.metric, desc))));
        }
        if wanted.json {
            let table = table();
            let lines = JsonLines::new(&wanted.metric, subject, schedule.rated, table);
            return Ok(Sink::Json(Box::new(lines)));
        }
        // A metric that the agent has on other platforms only.
        if desc.value_type == ValueType::NoSupport {
            put!(subject.out, "\n");
            subject.out.flush();
            // PCP's program has this one under its first name only.
            let name = if subject.ready.call.pcp { PMVAL } else { &subject.ready.call.name };
            complain!("{name}: unknown performance metric value type {}", desc.value_type.name());
            return Err(ExitCode::FAILURE);
        }
        if let Some(digits) = wanted.precision
            && digits > 0
            // A sign and a point.
            && digits + 2 > width
        {
            if !subject.has_events() && subject.ready.common.zone.is_none() {
                put!(subject.out, "\n");
            }
            subject.out.flush();
            return Err(subject.fails(&format!("-f {digits} too large for column width {width}")));
        }
        let table = table();
        // It is put out now: the first sample may be long in coming.
        header::print(subject, wanted, schedule, style);
        subject.out.flush();
        Ok(if subject.has_events() {
            Sink::Records(RecordNames::default())
        } else {
            Sink::Table(Box::new(table))
        })
    }

    /// Whether what is written is of no use without [`Sink::finish`]: a signal must not end the program then.
    pub(super) fn needs_an_end(&self) -> bool {
        matches!(self, Sink::Trace(_))
    }

    /// Puts a sample out. Whether it is one of those asked for; `None` if the run is to end.
    pub(super) fn sample(
        &mut self,
        subject: &mut Subject,
        wanted: &SamplingSettings,
        time: Timestamp,
        values: Result<ValuesRef<'_>, PmError>,
    ) -> Option<bool> {
        let stamp = if subject.is_recorded() { subject.stamp(time, wanted.dated) } else { String::new() };
        let gap = if stamp.is_empty() { "" } else { "  " };
        match self {
            Sink::Table(table) => {
                let sample =
                    values.ok().map(|values| TimedValues::decode(time, values, subject.desc.value_type));
                // Before it is taken, as rates leave out instances that are new, which have columns all the same.
                let present: Vec<Inst> =
                    sample.iter().flat_map(|sample| sample.values.iter().map(|(inst, _)| *inst)).collect();
                let Subject { context, clock, out, .. } = subject;
                let taken = table.take(sample);
                if !present.is_empty() || taken.shown != Shown::NoValues {
                    table.headers(&present, stamp.len(), context, out);
                }
                match taken.shown {
                    Shown::Nothing => {}
                    Shown::NoValues => put!(out, "{stamp}{gap}No values available\n"),
                    Shown::Values(values) => table.print(&stamp, &values, clock, out),
                }
                return Some(taken.counts);
            }
            Sink::Records(names) => {
                put!(subject.out, "{stamp}{gap}");
                if let Ok(values) = values
                    && !record_lines::print(subject, names, &wanted.metric, values)
                    && wanted.verbose
                {
                    put!(subject.out, "{}: No values available\n", wanted.metric);
                }
            }
            Sink::Json(json) => return Some(json.sample(subject, time, values)),
            Sink::Flat(flat) => flat.sample(subject, values),
            Sink::Trace(trace) => {
                if let Ok(values) = values
                    && let Err(error) = trace.sample(&mut subject.context, &subject.desc, time, values)
                {
                    complain!("{}: cannot write the trace: {error}", subject.ready.call.name);
                    return None;
                }
            }
        }
        Some(true)
    }

    /// Tells that recording was interrupted.
    pub(super) fn suspended(&mut self, subject: &mut Subject, wanted: &SamplingSettings, time: Timestamp) {
        match self {
            Sink::Table(table) => table.suspend(),
            Sink::Records(_) => {}
            Sink::Json(json) => return json.suspended(subject, time),
            Sink::Flat(flat) => return flat.suspended(subject, time),
            Sink::Trace(_) => return,
        }
        let stamp = subject.stamp(time, wanted.dated);
        put!(subject.out, "{stamp}  Archive logging suspended\n");
    }

    /// Ends the output. False if that failed.
    pub(super) fn finish(self, subject: &mut Subject) -> bool {
        let Sink::Trace(mut trace) = self else { return true };
        match trace.finish() {
            // The output is the trace.
            Ok(summary) if trace.is_stdout() => {
                complain!("{}: {summary}", subject.ready.call.name);
                true
            }
            Ok(summary) => {
                put!(subject.out, "{summary}\n");
                true
            }
            Err(error) => {
                complain!("{}: cannot write the trace: {error}", subject.ready.call.name);
                false
            }
        }
    }
}

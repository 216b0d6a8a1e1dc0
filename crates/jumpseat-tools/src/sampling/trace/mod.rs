//! Event records as a trace in Perfetto's own format, which ui.perfetto.dev opens.
//!
//! | records | in the trace |
//! | --- | --- |
//! | a source (instance) | a process; a track of it for each thread that its records name, or one for all |
//! | START and its END, with the same ID | a slice |
//! | START without END | a slice to the end of the trace, marked as unfinished |
//! | POINT, END without START | an instant |
//! | PARENT | the slice is within its parent's, or an arrow leads to it |
//! | missed | a slice on a track of its own, from the record before, with the count |
//! | their numbers | counters: records a second, records missed |
//!
//! [`timeline`] brings them into the order of their times, on [`lanes`]; [`file`] writes them.

mod entry;
mod file;
mod index;
mod lanes;
mod packet;
mod rates;
mod timeline;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use pcp_client::Context;
use pcp_model::{Desc, Timestamp};
use pcp_pdu::ValuesRef;

use super::records::{RecordNames, for_each_record};
use entry::{Entry, nanos};
use file::TraceFile;
use timeline::{Counts, Timeline, WINDOW};

/// The name that stands for standard output.
pub(super) const STDOUT: &str = "-";

/// A trace being written.
pub(super) struct Trace {
    name: String,
    metric: String,
    names: RecordNames,
    timeline: Timeline,
}

impl Trace {
    /// Starts a file.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(super) fn create(name: &str, metric: &str) -> io::Result<Trace> {
        let out: Box<dyn Write> = match name {
            // Not by way of a buffer, which would cut packets.
            STDOUT => Box::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            path => Box::new(File::create(path)?),
        };
        Ok(Trace {
            name: name.to_owned(),
            metric: metric.to_owned(),
            names: RecordNames::default(),
            timeline: Timeline::new(TraceFile::new(out)),
        })
    }

    /// Adds the records of a sample.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn sample(
        &mut self,
        context: &mut Context,
        desc: &Desc,
        time: Timestamp,
        values: ValuesRef<'_>,
    ) -> io::Result<()> {
        let Trace { metric, names, timeline, .. } = self;
        timeline.set_now(nanos(time));
        for_each_record(values, desc.value_type, |inst, record| {
            if !timeline.knows(inst) {
                timeline.add_source(inst, names.instance(context, desc.indom, inst).unwrap_or(metric));
            }
            match record.missed() {
                Some(missed) => timeline.missed(inst, nanos(record.time), missed),
                None => timeline.record(inst, Entry::read(names, context, record, metric)),
            }
            Ok::<(), io::Error>(())
        })?;
        timeline.sampled()
    }

    /// Whether it is standard output that it is written to.
    pub(super) fn is_stdout(&self) -> bool {
        self.name == STDOUT
    }

    /// Ends the file. What is in it, in words.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn finish(&mut self) -> io::Result<String> {
        self.timeline.finish()?;
        let Counts { records, slices, unfinished, instants, missed, late } = self.timeline.counts;
        let name = if self.is_stdout() { "standard output" } else { &self.name };
        let mut text = format!(
            "{name}: {records} records: {slices} slices ({unfinished} unfinished), {instants} instants, {missed} missed"
        );
        if late > 0 {
            let seconds = WINDOW / 1_000_000_000;
            text += &format!(
                "; {late} came more than {seconds} s after what followed them, or too many at a time, and stand apart"
            );
        }
        Ok(text)
    }
}

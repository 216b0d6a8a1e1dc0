//! JSON, one object a line (NDJSON): one for each value, and for each event record.
//!
//! ```text
//! {"time":"2026-11-20T10:44:40.000000000Z","host":"web1","metric":"disk.dev.read","instance":"sda","value":4711}
//! {"time":"...","host":"web1","metric":"jumpseat.event.records","instance":"shop","flags":0,"fields":{"jumpseat.field.message":"..."}}
//! {"time":"...","host":"web1","metric":"jumpseat.event.records","instance":"shop","missed":12}
//! ```
//!
//! Whole numbers of 64 bits have all their digits: readers that keep numbers as doubles have to be told.

use std::io::Write as _;

use crate::formats::error::ExportError;
use crate::formats::lines::{Item, lines};
use crate::formats::source::Source;
use crate::formats::text::{self, Output};
use crate::formats::walk::{Format, Sample};

/// Writes lines.
pub(crate) struct Json {
    output: Output,
    /// `","host":"web1","metric":"..."` of each metric.
    middles: Vec<Vec<u8>>,
}

impl Json {
    /// To an output.
    pub(crate) fn new(output: Output, source: &Source) -> Json {
        let middle = |metric: &crate::formats::source::Metric| {
            let mut text = b"\",\"host\":".to_vec();
            text::quoted(&mut text, source.host.as_bytes());
            text.extend_from_slice(b",\"metric\":");
            text::quoted(&mut text, metric.name.as_bytes());
            text
        };
        Json { output, middles: source.metrics.iter().map(middle).collect() }
    }
}

impl Format for Json {
    fn sample(&mut self, source: &mut Source, sample: &Sample<'_>) -> Result<(), ExportError> {
        let Json { output, middles } = self;
        lines(source, sample, |source, line, item| {
            let out = &mut output.buffer;
            out.extend_from_slice(b"{\"time\":\"");
            text::time(out, line.time, source.zone.as_ref());
            out.extend_from_slice(&middles[line.metric]);
            if let Some(name) = line.instance(source) {
                out.extend_from_slice(b",\"instance\":");
                text::quoted(out, name.as_bytes());
            }
            match item {
                Item::Value(value) => {
                    out.extend_from_slice(b",\"value\":");
                    text::json(out, value);
                }
                Item::Missed(missed) => {
                    let _ = write!(out, ",\"missed\":{missed}");
                }
                Item::Record(record) => {
                    let _ = write!(out, ",\"flags\":{},\"fields\":", record.flags.0);
                    text::fields(out, source, &record);
                }
            }
            out.extend_from_slice(b"}\n");
        });
        self.output.pass(!source.is_archive())
    }

    fn finish(&mut self, _: &mut Source) -> Result<(), ExportError> {
        self.output.finish()
    }
}

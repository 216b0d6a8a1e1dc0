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

use jumpseat_tools::complain;
use pcp_pdu::TypedRef;

use crate::formats::error::ExportError;
use crate::formats::source::{NAME, Source};
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
        for (metric, values) in sample.sets() {
            let value_type = source.metrics[metric].desc.value_type;
            for (inst, value) in values.iter() {
                let Ok(value) = value.typed(value_type) else { continue };
                let middle = &self.middles[metric];
                let begin = |source: &mut Source, out: &mut Vec<u8>, time| {
                    out.extend_from_slice(b"{\"time\":\"");
                    text::time(out, time, source.zone.as_ref());
                    out.extend_from_slice(middle);
                    if let Some(name) = source.instance(metric, inst, sample.time) {
                        out.extend_from_slice(b",\"instance\":");
                        text::quoted(out, name.as_bytes());
                    }
                };
                let out = &mut self.output.buffer;
                if let TypedRef::Events(kind, bytes) = value {
                    let records = match text::records(kind, bytes) {
                        Ok(records) => records,
                        Err(error) => {
                            complain!("{NAME}: {}: {}: {error}", source.metrics[metric].name, sample.time);
                            continue;
                        }
                    };
                    for record in records {
                        begin(source, out, record.time);
                        match record.missed() {
                            Some(missed) => {
                                let _ = write!(out, ",\"missed\":{missed}");
                            }
                            None => {
                                let _ = write!(out, ",\"flags\":{},\"fields\":", record.flags.0);
                                text::fields(out, source, &record);
                            }
                        }
                        out.extend_from_slice(b"}\n");
                    }
                    continue;
                }
                begin(source, out, sample.time);
                out.extend_from_slice(b",\"value\":");
                text::json(out, value);
                out.extend_from_slice(b"}\n");
            }
        }
        self.output.pass(!source.is_archive())
    }

    fn finish(&mut self, _: &mut Source) -> Result<(), ExportError> {
        self.output.finish()
    }
}

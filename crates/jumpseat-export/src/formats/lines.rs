//! A sample as lines: one for each value, and for each event record, which has its own time.

use jumpseat_tools::complain;
use pcp_model::{Inst, Timestamp};
use pcp_pdu::TypedRef;

use crate::formats::source::{NAME, Source};
use crate::formats::text::{Record, records};
use crate::formats::walk::Sample;

/// What a line is about.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    /// The metric, by its place in the source.
    pub metric: usize,
    inst: Inst,
    /// The record's, or the sample's.
    pub time: Timestamp,
    sampled: Timestamp,
}

impl Line {
    /// The name of its instance; `None` for a metric without instances.
    pub(crate) fn instance<'a>(&self, source: &'a mut Source) -> Option<&'a str> {
        source.instance(self.metric, self.inst, self.sampled)
    }
}

/// What it says.
pub(crate) enum Item<'a> {
    /// A value that is no array of records.
    Value(TypedRef<'a>),
    /// A record.
    Record(Record<'a>),
    /// So many records that were lost.
    Missed(i32),
}

/// Calls for each line of a sample. Arrays of records that cannot be read are told of and left out.
pub(crate) fn lines(
    source: &mut Source,
    sample: &Sample<'_>,
    mut write: impl FnMut(&mut Source, Line, Item<'_>),
) {
    for (metric, values) in sample.sets() {
        let value_type = source.metrics[metric].desc.value_type;
        for (inst, value) in values.iter() {
            let Ok(value) = value.typed(value_type) else { continue };
            let line = Line { metric, inst, time: sample.time, sampled: sample.time };
            let TypedRef::Events(kind, bytes) = value else {
                write(source, line, Item::Value(value));
                continue;
            };
            match records(kind, bytes) {
                Ok(records) => {
                    for record in records {
                        let line = Line { time: record.time, ..line };
                        let item = record.missed().map_or(Item::Record(record), Item::Missed);
                        write(source, line, item);
                    }
                }
                Err(error) => {
                    complain!("{NAME}: {}: {}: {error}", source.metrics[metric].name, sample.time);
                }
            }
        }
    }
}

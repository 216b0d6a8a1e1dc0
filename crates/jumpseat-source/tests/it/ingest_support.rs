//! What the ingest tests share: a connection without a socket, and records as text.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use jumpseat_source::delivery::{Delivery, Inlet, Tallies};
use jumpseat_source::event::Limits;
use jumpseat_source::intake::{Intake, Shared};
use jumpseat_source::lanes::Lanes;
use jumpseat_source::registry::{Definition, Registry, RegistryConfig};
use pcp_event::EventFlags;
use pcp_event::batch::Batch;
use pcp_model::{Timestamp, ValueType};

/// The arrival time of everything.
pub(crate) const NOW: Timestamp = Timestamp { sec: 1000, nsec: 5 };

/// Turns packed records into text, by the names that were defined.
#[derive(Default)]
pub(crate) struct Names {
    fields: HashMap<u32, (String, ValueType)>,
    sources: HashMap<i32, String>,
    types: HashMap<i32, String>,
}

impl Names {
    pub(crate) fn define(&mut self, definition: Definition) {
        match definition {
            Definition::Field { pmid, leaf, value_type, .. } => {
                assert!(self.fields.insert(pmid.0, (leaf, value_type)).is_none(), "defined twice");
            }
            Definition::Source { id, name, .. } => {
                assert!(self.sources.insert(id, name).is_none(), "defined twice");
            }
            Definition::Span { .. }
            | Definition::SourceGone { .. }
            | Definition::EventTypeGone { .. }
            | Definition::SpanGone { .. } => {}
            Definition::EventType { id, name, .. } => {
                assert!(self.types.insert(id, name).is_none(), "defined twice");
            }
        }
    }

    pub(crate) fn source(&self, id: i32) -> &str {
        &self.sources[&id]
    }

    pub(crate) fn event_type(&self, id: i32) -> &str {
        &self.types[&id]
    }

    /// `time flags {leaf value, ...}` for each record. Fails on any PMID not defined, on any value of
    /// another type than its definition's, on non-zero padding.
    pub(crate) fn records(&self, batch: &Batch) -> Vec<String> {
        let mut bytes = batch.bytes();
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let sec = i64::from_be_bytes(take(&mut bytes));
            let nsec = i64::from_be_bytes(take(&mut bytes));
            let flags = EventFlags(u32::from_be_bytes(take(&mut bytes)));
            let nparams = i32::from_be_bytes(take(&mut bytes));
            let params: Vec<String> = (0..nparams).map(|_| self.param(&mut bytes)).collect();
            records.push(format!("{sec}.{nsec:09} {flags} {{{}}}", params.join(", ")));
        }
        assert_eq!(records.len(), batch.len());
        records
    }

    fn param(&self, bytes: &mut &[u8]) -> String {
        let pmid = u32::from_be_bytes(take(bytes));
        let word = u32::from_be_bytes(take(bytes));
        let (leaf, value_type) = &self.fields[&pmid];
        assert_eq!(word >> 24, value_type.code() as u32, "type of {leaf}");
        let len = (word & 0xff_ffff) as usize - 4;
        let (value, rest) = bytes.split_at(len.next_multiple_of(4));
        *bytes = rest;
        let (value, pad) = value.split_at(len);
        assert!(pad.iter().all(|byte| *byte == 0), "padding");
        let text = match value_type {
            ValueType::I32 => i32::from_be_bytes(value.try_into().unwrap()).to_string(),
            ValueType::U32 => u32::from_be_bytes(value.try_into().unwrap()).to_string(),
            ValueType::I64 => i64::from_be_bytes(value.try_into().unwrap()).to_string(),
            ValueType::U64 => u64::from_be_bytes(value.try_into().unwrap()).to_string(),
            ValueType::Float => format!("{:?}", f32::from_be_bytes(value.try_into().unwrap())),
            ValueType::Double => format!("{:?}", f64::from_be_bytes(value.try_into().unwrap())),
            ValueType::String => format!("{:?}", String::from_utf8_lossy(value)),
            _ => format!("{value:02x?}"),
        };
        format!("{leaf} {text}")
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (head, rest) = bytes.split_first_chunk().expect("record cut short");
    *bytes = rest;
    *head
}

/// A source thread's inside with one connection, without thread and socket.
pub(crate) struct Desk {
    pub shared: Shared,
    pub inlet: Inlet,
    pub names: Names,
    pub intake: Intake,
    pub replies: Vec<u8>,
    carry: Vec<u8>,
}

impl Desk {
    pub(crate) fn new(limits: Limits) -> Desk {
        Desk::with(limits, &RegistryConfig::new(400), 1000)
    }

    pub(crate) fn with(limits: Limits, registry: &RegistryConfig, room: usize) -> Desk {
        let (registry, definitions) = Registry::open(registry).expect("registry");
        let (out, deliveries) = bounded(room);
        let lanes = Lanes::new(registry, out, Arc::new(|| ()), Duration::ZERO);
        let shared = Shared::new(lanes, limits, "default").expect("default source");
        let intake = Intake::new(1, None, &shared);
        let inlet = Inlet::new(definitions, deliveries);
        Desk { shared, inlet, names: Names::default(), intake, replies: Vec::new(), carry: Vec::new() }
    }

    /// Bytes arrive.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.carry.extend_from_slice(bytes);
        loop {
            let used = self.intake.feed(&self.carry, NOW, &mut self.shared, &mut self.replies);
            self.carry.drain(..used);
            if !self.intake.is_held() {
                return;
            }
        }
    }

    /// How much the connection holds on to.
    pub(crate) fn held(&self) -> usize {
        self.carry.len()
    }

    /// The connection's end.
    pub(crate) fn finish(&mut self) {
        let rest = std::mem::take(&mut self.carry);
        self.intake.finish(&rest, NOW, &mut self.shared, &mut self.replies);
    }

    /// What the core gets.
    pub(crate) fn deliveries(&mut self) -> Vec<Delivery> {
        self.shared.lanes.flush();
        let names = &mut self.names;
        std::iter::from_fn(|| self.inlet.take(|definition| names.define(definition))).collect()
    }

    /// What the core gets, as text: `source: record`, and the sum of the accounting.
    pub(crate) fn records(&mut self) -> (Vec<String>, Tallies) {
        let mut sum = Tallies::default();
        let mut records = Vec::new();
        for delivery in self.deliveries() {
            let source = self.names.source(delivery.source).to_owned();
            if let Some(loss) = delivery.missed {
                records
                    .push(format!("{source}: {}.{:09} missed {}", loss.time.sec, loss.time.nsec, loss.count));
            }
            let texts = self.names.records(&delivery.batch);
            records.extend(texts.into_iter().map(|record| format!("{source}: {record}")));
            let tallies = delivery.tallies;
            assert_eq!(tallies.types.iter().map(|(_, count)| count).sum::<u64>(), tallies.received);
            sum.received += tallies.received;
            sum.bytes += tallies.bytes;
            sum.truncated += tallies.truncated;
            sum.folded += tallies.folded;
            sum.types.extend(tallies.types);
            for (total, count) in sum.rejected.iter_mut().zip(tallies.rejected) {
                *total += count;
            }
        }
        (records, sum)
    }

    /// The connection's first refusal, as text.
    pub(crate) fn first_error(&self) -> String {
        let first = self.intake.account.first_error.as_ref().expect("something was refused");
        let refusal = first.refusal;
        format!("{}:{} {}: {}", first.line, refusal.column, refusal.reason.word(), refusal.detail)
    }
}

//! The messages of Perfetto's trace format that are written here, with the numbers that its `.proto` files give them.

use prost::Message;
use serde_json::{Map, Value as Json};

/// What a [`TrackEvent`] is.
pub(super) const SLICE_BEGIN: i32 = 1;
pub(super) const SLICE_END: i32 = 2;
pub(super) const INSTANT: i32 = 3;
pub(super) const COUNTER: i32 = 4;

/// Clocks of the kernel: the one that times of packets are of, and the one with the date.
pub(super) const BOOTTIME: u32 = 6;
pub(super) const REALTIME: u32 = 1;

/// How deep lists and objects within a value are looked into.
const MAX_DEPTH: usize = 16;

/// One of the packets of which a trace is a sequence.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// What several clocks showed at the same moment.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
}

/// A track: of a process, of a counter, or below another one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}

/// Something on a track.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

/// An argument: its name, and a value of one of several types.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    #[prost(double, optional, tag = "5")]
    pub double_value: Option<f64>,
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
    #[prost(message, repeated, tag = "11")]
    pub dict_entries: Vec<DebugAnnotation>,
    #[prost(message, repeated, tag = "12")]
    pub array_values: Vec<DebugAnnotation>,
}

/// Arguments, in the types of the format.
pub(super) fn annotations(args: Map<String, Json>) -> Vec<DebugAnnotation> {
    args.into_iter().map(|(name, value)| annotation(Some(name), value, 0)).collect()
}

fn annotation(name: Option<String>, value: Json, depth: usize) -> DebugAnnotation {
    let mut to = DebugAnnotation { name, ..DebugAnnotation::default() };
    match value {
        Json::Bool(value) => to.bool_value = Some(value),
        Json::Number(value) => match (value.as_u64(), value.as_i64()) {
            (Some(value), _) => to.uint_value = Some(value),
            (None, Some(value)) => to.int_value = Some(value),
            (None, None) => to.double_value = value.as_f64(),
        },
        Json::String(value) => to.string_value = Some(value),
        Json::Array(values) if depth < MAX_DEPTH => {
            to.array_values = values.into_iter().map(|value| annotation(None, value, depth + 1)).collect();
        }
        Json::Object(members) if depth < MAX_DEPTH => {
            let members = members.into_iter();
            to.dict_entries = members.map(|(name, value)| annotation(Some(name), value, depth + 1)).collect();
        }
        other => to.string_value = Some(other.to_string()),
    }
    to
}

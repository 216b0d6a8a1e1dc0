//! Perfetto's traces as its trace processor reads them, strictly: what that would drop or put right is a failure here.
//!
//! The messages have the numbers of `protos/perfetto/trace/*.proto`; the rules are those of "Writing TrackEvent Protos
//! Synthetically" and of the processor's sorter and slice tracker: packets are sorted by time, those of one time stay as they
//! are; an end ends the innermost slice of its track; a flow goes from an earlier slice to the later one that ends it.

use std::collections::{BTreeMap, HashMap, HashSet};

use prost::Message;
use serde_json::{Map, Value as Json, json};

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<Process>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<Counter>,
}

#[derive(Clone, PartialEq, Message)]
struct Process {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Counter {
    #[prost(string, optional, tag = "6")]
    unit_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(bool, optional, tag = "2")]
    bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    int_value: Option<i64>,
    #[prost(double, optional, tag = "5")]
    double_value: Option<f64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
    #[prost(message, repeated, tag = "11")]
    dict_entries: Vec<Annotation>,
    #[prost(message, repeated, tag = "12")]
    array_values: Vec<Annotation>,
}

/// A slice, or an instant, which ends when it begins.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub process: String,
    pub track: String,
    /// The number of the track: several may have one name.
    pub uuid: u64,
    pub name: String,
    pub categories: Vec<String>,
    pub start: u64,
    /// `None` if the trace ends before.
    pub end: Option<u64>,
    pub args: Json,
    /// The name of the slice it lies in.
    pub within: Option<String>,
}

/// A trace that has been checked.
#[derive(Debug, Default)]
pub(crate) struct TraceFile {
    pub slices: Vec<Event>,
    pub instants: Vec<Event>,
    /// From and to, in `slices`.
    pub arrows: Vec<(usize, usize)>,
    /// By process and name: times and values.
    pub counters: BTreeMap<(String, String), Vec<(u64, i64)>>,
    /// Of events that are not where the order of times has them in the file.
    pub unsorted: usize,
}

impl TraceFile {
    /// The only slice of this name.
    #[track_caller]
    pub(crate) fn slice(&self, name: &str) -> &Event {
        let mut found = self.slices.iter().filter(|slice| slice.name == name);
        let slice = found.next().unwrap_or_else(|| panic!("no {name} in {:#?}", self.slices));
        assert!(found.next().is_none(), "{name} more than once in {:#?}", self.slices);
        slice
    }

    /// Names of the slices that arrows lead from and to.
    pub(crate) fn arrow_names(&self) -> Vec<(&str, &str)> {
        let name = |at: usize| self.slices[at].name.as_str();
        self.arrows.iter().map(|(from, to)| (name(*from), name(*to))).collect()
    }
}

/// Reads a trace that its writer has ended: nothing in it is open.
#[track_caller]
pub(crate) fn check(bytes: &[u8]) -> TraceFile {
    let trace = check_cut(bytes);
    assert!(trace.slices.iter().all(|slice| slice.end.is_some()), "open slices in {trace:#?}");
    trace
}

/// Reads a trace whose writer was killed: slices may be open.
#[track_caller]
pub(crate) fn check_cut(bytes: &[u8]) -> TraceFile {
    let packets = packets(bytes);
    let mut tracks: HashMap<u64, TrackDescriptor> = HashMap::new();
    let (mut pids, mut events) = (HashSet::new(), Vec::new());
    let mut clocks = 0;
    for packet in packets {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1), "{packet:?}");
        let parts = [
            packet.track_event.is_some(),
            packet.track_descriptor.is_some(),
            packet.clock_snapshot.is_some(),
        ];
        assert_eq!(parts.iter().filter(|part| **part).count(), 1, "{packet:?}");
        if let Some(clock) = packet.clock_snapshot {
            clocks += 1;
            let ids: Vec<_> = clock.clocks.iter().map(|clock| clock.clock_id).collect();
            assert_eq!(ids, [Some(6), Some(1)], "BOOTTIME, which packets have, and REALTIME");
            assert!(events.is_empty(), "before the first event");
        } else if let Some(track) = packet.track_descriptor {
            if let Some(process) = &track.process {
                assert!(process.pid > Some(0) && pids.insert(process.pid), "{track:?}");
                assert!(process.process_name.is_some() && track.parent_uuid.is_none(), "{track:?}");
            } else {
                let parent = tracks.get(&track.parent_uuid.expect("below a process"));
                assert!(parent.is_some_and(|parent| parent.process.is_some()), "{track:?}");
                assert!(track.name.is_some(), "{track:?}");
            }
            let twice = tracks.insert(track.uuid.filter(|uuid| *uuid != 0).expect("a number"), track);
            assert_eq!(twice, None, "a track is told of once");
        } else if let Some(event) = packet.track_event {
            let time = packet.timestamp.expect("a time");
            assert!(i64::try_from(time).is_ok(), "{event:?}");
            assert!(tracks.contains_key(&event.track_uuid.expect("a track")), "{event:?}");
            events.push((time, event));
        }
    }
    assert_eq!(clocks, usize::from(!events.is_empty()));
    let unsorted = events.windows(2).filter(|pair| pair[0].0 > pair[1].0).count();
    events.sort_by_key(|(time, _)| *time);
    let mut trace = TraceFile { unsorted, ..TraceFile::default() };
    build(&mut trace, &tracks, events);
    trace
}

/// Puts sorted events together, as the slice and flow trackers do.
fn build(trace: &mut TraceFile, tracks: &HashMap<u64, TrackDescriptor>, events: Vec<(u64, TrackEvent)>) {
    let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut flows: HashMap<u64, usize> = HashMap::new();
    for (time, event) in events {
        let uuid = event.track_uuid.expect("checked");
        let track = &tracks[&uuid];
        let process = track.parent_uuid.and_then(|parent| tracks[&parent].process.clone());
        let process = process.and_then(|process| process.process_name).expect("on a track of a process");
        let name = track.name.clone().expect("checked");
        assert_eq!(track.counter.is_some(), event.kind == Some(4), "{event:?} on {track:?}");
        if event.kind == Some(4) {
            let value = event.counter_value.expect("a value");
            trace.counters.entry((process, name)).or_default().push((time, value));
            continue;
        }
        let stack = open.entry(uuid).or_default();
        let args: Map<String, Json> = event.debug_annotations.into_iter().map(argument).collect();
        if event.kind == Some(2) {
            let slice = &mut trace.slices[stack.pop().expect("an end ends a slice")];
            slice.end = Some(time);
            slice.args.as_object_mut().expect("an object").extend(args);
            continue;
        }
        assert!(!event.categories.is_empty(), "a category");
        let within = stack.last().map(|outer| trace.slices[*outer].name.clone());
        let (categories, name) = (event.categories, (name, event.name.expect("a name")));
        let (track, name) = name;
        let end = None;
        let new =
            Event { process, track, uuid, name, categories, start: time, end, args: args.into(), within };
        match event.kind {
            Some(1) => {
                let number = trace.slices.len();
                stack.push(number);
                trace.slices.push(new);
                for flow in event.terminating_flow_ids {
                    let from = flows.remove(&flow).expect("a flow begins before it ends");
                    trace.arrows.push((from, number));
                }
                for flow in event.flow_ids {
                    assert_eq!(flows.insert(flow, number), None, "a flow begins once");
                }
            }
            Some(3) => trace.instants.push(Event { end: Some(time), ..new }),
            other => panic!("type {other:?}"),
        }
    }
}

/// The packets of a file, each of them whole.
fn packets(mut bytes: &[u8]) -> Vec<Packet> {
    let mut packets = Vec::new();
    while let Some((tag, rest)) = bytes.split_first() {
        assert_eq!(*tag, 0x0a, "field 1 of a Trace, with a length");
        bytes = rest;
        let packet = Packet::decode_length_delimited(&mut bytes).expect("a whole packet");
        packets.push(packet);
    }
    packets
}

fn argument(annotation: Annotation) -> (String, Json) {
    let name = annotation.name.clone().expect("an argument has a name");
    (name, value(annotation))
}

fn value(from: Annotation) -> Json {
    let Annotation { bool_value, uint_value, int_value, double_value, string_value, .. } = from;
    let scalars = [
        bool_value.map(Json::from),
        uint_value.map(Json::from),
        int_value.map(Json::from),
        double_value.map(Json::from),
        string_value.map(Json::from),
    ];
    let mut given = scalars.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(value), None) => value,
        (Some(_), Some(_)) => panic!("two values"),
        (None, _) if !from.array_values.is_empty() => from.array_values.into_iter().map(value).collect(),
        (None, _) => json!(from.dict_entries.into_iter().map(argument).collect::<Map<_, _>>()),
    }
}

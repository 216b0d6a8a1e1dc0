//! The file that a trace goes to: packets, one after the other. Only whole ones are handed to the system, and no packet
//! closes the file, so what is there of it is a trace whenever its writer ends.

use std::io::{self, Write};

use prost::Message;
use serde_json::{Map, Value as Json};

use super::packet::{
    BOOTTIME, COUNTER, Clock, ClockSnapshot, CounterDescriptor, INSTANT, ProcessDescriptor, REALTIME,
    SLICE_BEGIN, SLICE_END, TracePacket, TrackDescriptor, TrackEvent, annotations,
};

/// Bytes of packets that are handed to the system at once.
const BUFFER: usize = 64 << 10;
/// The tag of a packet in the message that the whole file is.
const PACKET: u8 = 0x0a;
/// All packets are of one writer.
const SEQUENCE: u32 = 1;

/// A track by the number that the file knows it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Track(u64);

/// What there is to say of a slice or an instant.
#[derive(Clone, Debug, Default)]
pub(super) struct Details {
    pub name: String,
    pub categories: Vec<String>,
    pub args: Map<String, Json>,
}

/// Arrows that leave a slice, and one that ends at it.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrows {
    pub from: Vec<u64>,
    pub to: Option<u64>,
}

/// A trace file.
pub(super) struct TraceFile {
    out: Box<dyn Write>,
    buffer: Vec<u8>,
    /// The first failure; what comes after it goes nowhere.
    failed: Option<io::Error>,
    tracks: u64,
    processes: i32,
    has_clock: bool,
}

impl TraceFile {
    pub(super) fn new(out: Box<dyn Write>) -> TraceFile {
        TraceFile { out, buffer: Vec::new(), failed: None, tracks: 0, processes: 0, has_clock: false }
    }

    /// A process, which has tracks below it.
    pub(super) fn process(&mut self, name: &str) -> Track {
        self.processes += 1;
        let process = ProcessDescriptor { pid: Some(self.processes), process_name: Some(name.to_owned()) };
        self.descriptor(TrackDescriptor { process: Some(process), ..TrackDescriptor::default() })
    }

    /// A track of a process. Viewers show those of one name as one, as high as it must be.
    pub(super) fn track(&mut self, process: Track, name: &str) -> Track {
        self.descriptor(TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: Some(process.0),
            ..TrackDescriptor::default()
        })
    }

    /// A track of a process that shows a number.
    pub(super) fn counter(&mut self, process: Track, name: &str, unit: &str) -> Track {
        self.descriptor(TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: Some(process.0),
            counter: Some(CounterDescriptor { unit_name: Some(unit.to_owned()) }),
            ..TrackDescriptor::default()
        })
    }

    pub(super) fn begin(&mut self, track: Track, time: u64, details: Details, arrows: Arrows) {
        self.event(
            time,
            TrackEvent {
                flow_ids: arrows.from,
                terminating_flow_ids: arrows.to.into_iter().collect(),
                ..described(SLICE_BEGIN, track, details)
            },
        );
    }

    /// Ends the innermost slice of a track, which gets further arguments.
    pub(super) fn end(&mut self, track: Track, time: u64, args: Map<String, Json>) {
        self.event(time, TrackEvent { debug_annotations: annotations(args), ..of_type(SLICE_END, track) });
    }

    pub(super) fn instant(&mut self, track: Track, time: u64, details: Details) {
        self.event(time, described(INSTANT, track, details));
    }

    pub(super) fn count(&mut self, track: Track, time: u64, value: i64) {
        self.event(time, TrackEvent { counter_value: Some(value), ..of_type(COUNTER, track) });
    }

    /// Hands everything to the system.
    ///
    /// # Errors
    /// The first failure since the last call.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.write();
        self.failed.take().map_or_else(|| self.out.flush(), Err)
    }

    fn descriptor(&mut self, descriptor: TrackDescriptor) -> Track {
        self.tracks += 1;
        let descriptor = TrackDescriptor { uuid: Some(self.tracks), ..descriptor };
        self.packet(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
        Track(self.tracks)
    }

    fn event(&mut self, time: u64, event: TrackEvent) {
        if !std::mem::replace(&mut self.has_clock, true) {
            // Times are nanoseconds since 1970, and viewers are to know that these are dates.
            let at = |clock| Clock { clock_id: Some(clock), timestamp: Some(time) };
            let snapshot = ClockSnapshot { clocks: vec![at(BOOTTIME), at(REALTIME)] };
            let timestamp = Some(time);
            self.packet(TracePacket { clock_snapshot: Some(snapshot), timestamp, ..TracePacket::default() });
        }
        let (timestamp, track_event) = (Some(time), Some(event));
        self.packet(TracePacket { timestamp, track_event, ..TracePacket::default() });
    }

    fn packet(&mut self, packet: TracePacket) {
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        self.buffer.push(PACKET);
        // A vector takes everything.
        let _ = packet.encode_length_delimited(&mut self.buffer);
        if self.buffer.len() >= BUFFER {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }
}

fn of_type(event_type: i32, track: Track) -> TrackEvent {
    TrackEvent { r#type: Some(event_type), track_uuid: Some(track.0), ..TrackEvent::default() }
}

fn described(event_type: i32, track: Track, details: Details) -> TrackEvent {
    TrackEvent {
        name: Some(details.name),
        categories: details.categories,
        debug_annotations: annotations(details.args),
        ..of_type(event_type, track)
    }
}

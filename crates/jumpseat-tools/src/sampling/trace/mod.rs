//! Event records as a trace in the Chrome JSON format, which ui.perfetto.dev and chrome://tracing open.
//!
//! | records | in the trace |
//! | --- | --- |
//! | START and its END, with the same ID | a slice |
//! | START without END | a slice to the end of the trace, marked as unfinished |
//! | POINT, END without START | an instant |
//! | PARENT | the slice is within its parent's, or an arrow leads to it |
//! | missed | a slice on a track of its own, from the record before, with the count |
//!
//! Each source (instance) is a track, and more where its slices overlap without one being another's parent.
//! The file grows as records come; only open slices are held in memory, up to a limit.

mod lanes;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use byteorder::NetworkEndian;
use pcp_client::Context;
use pcp_event::EventFlags;
use pcp_event::reader::Record;
use pcp_model::time::Zone;
use pcp_model::{Desc, Inst, Timestamp};
use pcp_pdu::ValuesRef;
use serde_json::{Map, Value as Json, json};

use super::records::{self, RecordNames, for_each_record};
use crate::tool::json::{json_line, typed_json};
use lanes::Lanes;

/// Open slices at a time, and bytes of their parameters; beyond, the oldest are written as unfinished.
const MAX_OPEN: usize = 65_536;
const MAX_HELD: usize = 64 << 20;
/// Slices that have ended and may yet be the parents of others.
const MAX_CLOSED: usize = 4_096;
/// The one process of the trace.
const PID: u32 = 1;

/// A trace being written.
pub(super) struct Trace {
    out: BufWriter<File>,
    path: PathBuf,
    metric: String,
    names: RecordNames,
    sources: HashMap<Inst, InstanceTracks>,
    tracks: u32,
    open: BTreeMap<u64, Span>,
    /// The open slices of an ID, latest last.
    by_id: HashMap<Key, VecDeque<u64>>,
    closed: VecDeque<(Key, Closed)>,
    held: usize,
    next: u64,
    arrows: u64,
    first: bool,
    /// Times in the file are from here on, as numbers there lose digits otherwise.
    base: Option<Timestamp>,
    last: Timestamp,
    counts: Counts,
}

/// What identifies an activity: its source, and its ID if it has one.
type Key = (Inst, Option<String>);

/// The tracks of an instance: of a source of events.
#[derive(Default)]
struct InstanceTracks {
    label: String,
    lanes: Lanes,
    tracks: Vec<u32>,
    /// The track of missed records, and the end of the last gap: gaps do not overlap.
    missed: Option<(u32, Timestamp)>,
    /// The time of its last record.
    last: Option<Timestamp>,
}

/// An open slice.
struct Span {
    key: Key,
    name: String,
    start: Timestamp,
    parent: Option<Key>,
    args: Map<String, Json>,
    bytes: usize,
}

#[derive(Clone, Copy)]
struct Closed {
    track: u32,
    start: Timestamp,
    end: Timestamp,
}

#[derive(Default)]
struct Counts {
    records: u64,
    slices: u64,
    unfinished: u64,
    instants: u64,
    missed: i64,
}

impl Trace {
    /// Starts a file.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(super) fn create(path: &Path, metric: &str, host: &str) -> io::Result<Trace> {
        let mut trace = Trace {
            out: BufWriter::new(File::create(path)?),
            path: path.to_owned(),
            metric: metric.to_owned(),
            names: RecordNames::default(),
            sources: HashMap::new(),
            tracks: 0,
            open: BTreeMap::new(),
            by_id: HashMap::new(),
            closed: VecDeque::new(),
            held: 0,
            next: 0,
            arrows: 0,
            first: true,
            base: None,
            last: Timestamp::default(),
            counts: Counts::default(),
        };
        trace.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        trace.event(json!({ "ph": "M", "pid": PID, "name": "process_name",
            "args": { "name": format!("{metric} on {host}") } }))?;
        Ok(trace)
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
        // The earliest of the first sample: records of different sources do not come in the order of their times.
        if self.base.is_none() {
            let mut earliest: Option<Timestamp> = None;
            for_each_record(values, desc.value_type, |_, record| {
                earliest = Some(earliest.map_or(record.time, |time| time.min(record.time)));
                Ok::<(), io::Error>(())
            })?;
            self.base = earliest;
        }
        self.last = self.last.max(time);
        for_each_record(values, desc.value_type, |inst, record| {
            if !self.sources.contains_key(&inst) {
                let label = self.names.instance(context, desc.indom, inst).unwrap_or(&self.metric).to_owned();
                self.sources.insert(inst, InstanceTracks { label, ..InstanceTracks::default() });
            }
            self.record(context, inst, record)
        })?;
        // The oldest have waited longest, so they are the least likely to end at all.
        while self.open.len() > MAX_OPEN || self.held > MAX_HELD {
            let Some((&oldest, _)) = self.open.first_key_value() else { break };
            self.close(oldest, self.last, Map::new(), false)?;
        }
        self.out.flush()
    }

    /// Ends the file. What is in it, in words.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn finish(mut self) -> io::Result<String> {
        // Innermost first, so that outer ones do not seem to be outlived.
        while let Some((&latest, _)) = self.open.last_key_value() {
            self.close(latest, self.last, Map::new(), false)?;
        }
        let start = self.base.map_or(String::new(), |base| Zone::utc().ctime_fraction(base, 9));
        let Counts { records, slices, unfinished, instants, missed } = self.counts;
        let other = json!({ "metric": self.metric, "start": start, "records": records, "missed": missed });
        write!(self.out, "\n],\"otherData\":{}}}\n", json_line(&other))?;
        self.out.flush()?;
        Ok(format!(
            "{}: {records} records: {slices} slices ({unfinished} unfinished), {instants} instants, {missed} missed",
            self.path.display()
        ))
    }

    fn record(
        &mut self,
        context: &mut Context,
        inst: Inst,
        record: &Record<'_, NetworkEndian>,
    ) -> io::Result<()> {
        self.counts.records += 1;
        self.last = self.last.max(record.time);
        let before = self.sources.get_mut(&inst).and_then(|source| source.last.replace(record.time));
        if let Some(missed) = record.missed() {
            return self.missed(inst, before.unwrap_or(record.time), record.time, missed);
        }
        let mut params = Vec::new();
        for param in record.params() {
            let metric = self.names.param(context, param.pmid);
            let name = metric.name.clone().unwrap_or_else(|_| param.pmid.to_string());
            params.push((name, typed_json(&records::value(param.value))));
        }
        // Where there is an ID it is the first parameter, and the parent's comes next.
        let has = |flag| record.flags.contains(flag);
        let id = params.first().filter(|_| has(EventFlags::ID)).map(|(_, value)| value.to_string());
        let place = usize::from(has(EventFlags::ID));
        let parent =
            params.get(place).filter(|_| has(EventFlags::PARENT)).map(|(_, value)| value.to_string());
        let name =
            name_of(&params, place + usize::from(parent.is_some())).unwrap_or_else(|| self.metric.clone());
        let key = (inst, id);
        let args = arguments(params);
        if has(EventFlags::START) {
            self.start(key, name, record.time, parent.map(|parent| (inst, Some(parent))), args);
            if !has(EventFlags::END) {
                return Ok(());
            }
            // Begin and end at once.
            let latest = self.next - 1;
            return self.close(latest, record.time, Map::new(), true);
        }
        if has(EventFlags::END) {
            // The innermost of those with this ID, as calls of one function within another.
            let opened = self.by_id.get(&key).and_then(|ids| ids.back().copied());
            return match opened {
                Some(id) => self.close(id, record.time, args, true),
                None => self.instant(inst, &format!("end of {name}"), record.time, args),
            };
        }
        self.instant(inst, &name, record.time, args)
    }

    fn start(
        &mut self,
        key: Key,
        name: String,
        start: Timestamp,
        parent: Option<Key>,
        args: Map<String, Json>,
    ) {
        let id = self.next;
        self.next += 1;
        let within = parent.as_ref().and_then(|parent| self.by_id.get(parent)?.back().copied());
        if let Some(source) = self.sources.get_mut(&key.0) {
            source.lanes.open(id, start, within);
        }
        let bytes =
            name.len() + args.iter().map(|(name, value)| name.len() + value.to_string().len()).sum::<usize>();
        // Roughly what it takes: what counts is that it grows with what senders send.
        self.held += bytes;
        self.by_id.entry(key.clone()).or_default().push_back(id);
        self.open.insert(id, Span { key, name, start, parent, args, bytes });
    }

    fn close(&mut self, id: u64, end: Timestamp, args: Map<String, Json>, finished: bool) -> io::Result<()> {
        let Some(mut span) = self.open.remove(&id) else { return Ok(()) };
        self.held -= span.bytes;
        if let Some(ids) = self.by_id.get_mut(&span.key) {
            // They are in order, and what is closed is the newest of them or the oldest: nothing else moves.
            if let Ok(at) = ids.binary_search(&id) {
                ids.remove(at);
            }
            if ids.is_empty() {
                self.by_id.remove(&span.key);
            }
        }
        for (name, value) in args {
            match span.args.get(&name) {
                // What the end says differently is kept next to what the start said.
                None => drop(span.args.insert(name, value)),
                Some(old) if *old != value => drop(span.args.insert(format!("{name} (end)"), value)),
                Some(_) => {}
            }
        }
        // Clocks of two sources, or one that was set back.
        let end = end.max(span.start);
        let inst = span.key.0;
        // Before it is closed, while the lanes still know both.
        let nested_in = span.parent.as_ref().and_then(|parent| self.by_id.get(parent)?.back().copied());
        let (lane, parent_lane) = match self.sources.get_mut(&inst) {
            Some(source) => {
                let parent = nested_in.and_then(|parent| source.lanes.lane_of(parent));
                (source.lanes.close(id, end).unwrap_or(0), parent)
            }
            None => (0, None),
        };
        let track = self.track(inst, lane)?;
        self.counts.slices += 1;
        let mut name = span.name;
        if !finished {
            self.counts.unfinished += 1;
            name += " (unfinished)";
            span.args.insert("unfinished".to_owned(), true.into());
        }
        self.slice(&name, track, span.start, end, Json::Object(span.args))?;
        if parent_lane != Some(lane)
            && let Some(parent) = &span.parent
            && let Some((from, when)) = self.seen_at_parent(parent, nested_in.zip(parent_lane), span.start)?
        {
            self.arrow(from, when, track, span.start)?;
        }
        // Nobody can name a parent without an ID.
        if span.key.1.is_some() {
            if self.closed.len() == MAX_CLOSED {
                self.closed.pop_front();
            }
            self.closed.push_back((span.key, Closed { track, start: span.start, end }));
        }
        Ok(())
    }

    /// Where an arrow from a parent begins that has not the slice within it: its track, and the time. `open` is the
    /// number and lane of the parent's slice, if that is open.
    fn seen_at_parent(
        &mut self,
        parent: &Key,
        open: Option<(u64, usize)>,
        start: Timestamp,
    ) -> io::Result<Option<(u32, Timestamp)>> {
        if let Some((id, lane)) = open
            && let Some(parent_start) = self.open.get(&id).map(|slice| slice.start)
        {
            return Ok(Some((self.track(parent.0, lane)?, start.max(parent_start))));
        }
        // A parent may have ended first: work that was handed to another thread. An arrow begins within a slice.
        let closed = self.closed.iter().rev().find(|(key, _)| key == parent).map(|(_, closed)| closed);
        Ok(closed.map(|closed| (closed.track, start.max(closed.start).min(closed.end))))
    }

    fn slice(
        &mut self,
        name: &str,
        track: u32,
        start: Timestamp,
        end: Timestamp,
        args: Json,
    ) -> io::Result<()> {
        let duration = micros(end.as_nanos() - start.as_nanos());
        let (start, name, args) = (self.since(start), json_line(&name.into()), json_line(&args));
        self.line(&format!(
            "{{\"ph\":\"X\",\"cat\":\"event\",\"pid\":{PID},\"tid\":{track},\"ts\":{start},\"dur\":{duration},\
             \"name\":{name},\"args\":{args}}}"
        ))
    }

    fn instant(
        &mut self,
        inst: Inst,
        name: &str,
        time: Timestamp,
        args: Map<String, Json>,
    ) -> io::Result<()> {
        self.counts.instants += 1;
        let track = self.track(inst, 0)?;
        let (time, name, args) = (self.since(time), json_line(&name.into()), json_line(&Json::Object(args)));
        self.line(&format!(
            "{{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"event\",\"pid\":{PID},\"tid\":{track},\"ts\":{time},\
             \"name\":{name},\"args\":{args}}}"
        ))
    }

    fn missed(&mut self, inst: Inst, from: Timestamp, to: Timestamp, count: i32) -> io::Result<()> {
        self.counts.missed += i64::from(count);
        let known = self.sources.get(&inst).and_then(|source| source.missed);
        let (track, busy) = match known {
            Some(known) => known,
            None => {
                let label = self.sources.get(&inst).map_or(String::new(), |source| source.label.clone());
                (self.new_track(&format!("{label}: missed"))?, from.min(to))
            }
        };
        // Since the record before it, but not over an earlier gap.
        let from = from.min(to).max(busy);
        let to = to.max(from);
        if let Some(source) = self.sources.get_mut(&inst) {
            source.missed = Some((track, to));
        }
        self.slice(&format!("{count} missed records"), track, from, to, json!({ "missed": count }))
    }

    fn arrow(&mut self, from: u32, at: Timestamp, to: u32, start: Timestamp) -> io::Result<()> {
        self.arrows += 1;
        let (id, at, start) = (self.arrows, self.since(at), self.since(start));
        let common = format!("\"id\":{id},\"cat\":\"parent\",\"name\":\"parent\",\"pid\":{PID}");
        self.line(&format!("{{\"ph\":\"s\",{common},\"tid\":{from},\"ts\":{at}}}"))?;
        self.line(&format!("{{\"ph\":\"f\",\"bp\":\"e\",{common},\"tid\":{to},\"ts\":{start}}}"))
    }

    /// The track of a source's lane.
    fn track(&mut self, inst: Inst, lane: usize) -> io::Result<u32> {
        loop {
            let Some(source) = self.sources.get(&inst) else { return Ok(0) };
            if let Some(track) = source.tracks.get(lane) {
                return Ok(*track);
            }
            let label = match source.tracks.len() {
                0 => source.label.clone(),
                n => format!("{} ({})", source.label, n + 1),
            };
            let track = self.new_track(&label)?;
            if let Some(source) = self.sources.get_mut(&inst) {
                source.tracks.push(track);
            }
        }
    }

    fn new_track(&mut self, label: &str) -> io::Result<u32> {
        self.tracks += 1;
        let track = self.tracks;
        self.event(
            json!({ "ph": "M", "pid": PID, "tid": track, "name": "thread_name", "args": { "name": label } }),
        )?;
        Ok(track)
    }

    fn since(&self, time: Timestamp) -> String {
        micros(time.as_nanos() - self.base.unwrap_or(time).as_nanos())
    }

    fn event(&mut self, event: Json) -> io::Result<()> {
        self.line(&json_line(&event))
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        let comma = if std::mem::replace(&mut self.first, false) { "" } else { "," };
        write!(self.out, "{comma}\n{text}")
    }
}

/// Microseconds with the nanoseconds after the point.
fn micros(nanos: i128) -> String {
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    format!("{sign}{}.{:03}", nanos / 1_000, nanos % 1_000)
}

/// What to call a record: a parameter that is a name, or else its first text. The first `skip` are its ID and its
/// parent's.
fn name_of(params: &[(String, Json)], skip: usize) -> Option<String> {
    const NAMES: [&str; 5] = ["name", "span", "type", "event", "message"];
    // IDs say nothing to people, even if they are the first text.
    let texts = || params.iter().skip(skip).filter_map(|(name, value)| Some((name, value.as_str()?)));
    let named = |last: &str| texts().find(|(name, _)| name.rsplit('.').next() == Some(last));
    NAMES.iter().find_map(|last| named(last)).or_else(|| texts().next()).map(|(_, text)| text.to_owned())
}

/// Parameters by their names; a name that is there already gets a number.
fn arguments(params: Vec<(String, Json)>) -> Map<String, Json> {
    let mut args = Map::new();
    for (name, value) in params {
        let mut unique = name.clone();
        let mut n = 1;
        while args.contains_key(&unique) {
            n += 1;
            unique = format!("{name} #{n}");
        }
        args.insert(unique, value);
    }
    args
}

//! What the demo shows: the records as they arrive over the wire, and how fast.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use byteorder::BigEndian;
use jumpseat_tools::{Emphasis, param_text};
use pcp_client::group::{EventHandle, FetchGroup, IndomHandle, RegisterError, Scale};
use pcp_event::EventFlags;
use pcp_event::reader::Record;
use pcp_model::{PmError, Pmid, Timestamp};

use super::tree::{Forest, Traced};

/// Records shown for one fetch; a burst beyond is summed up in a line.
const SHOWN_PER_FETCH: usize = 40;
const RECORDS: &str = "jumpseat.event.records";
const RECEIVED: &str = "jumpseat.source.received";
/// How long a source may take to be known to the agent.
const PATIENCE: Duration = Duration::from_secs(10);
/// Fetches from one line of rates to the next.
const FETCHES_PER_LINE: u32 = 2;

/// A client of the demo's own endpoint, and the screen it writes to.
pub(super) struct Show {
    group: FetchGroup,
    /// Each source's name and records.
    streams: Vec<(String, EventHandle<u32>)>,
    rates: IndomHandle<f64>,
    /// Leaf names of parameters, looked up once.
    params: HashMap<Pmid, String>,
    begun: Option<Timestamp>,
    forest: Forest,
    fetches: u32,
    terminal: bool,
    /// Records shown or summed up so far.
    pub records: u64,
    /// Records reported missed so far.
    pub missed: u64,
}

impl Show {
    /// Registers what will be fetched, and joins the sources' streams.
    pub(super) fn new(mut group: FetchGroup, sources: &[&str]) -> Result<Show, Box<dyn Error>> {
        let rates = group.indom(RECEIVED, Scale::Rate, 100)?;
        let mut streams = Vec::new();
        for &source in sources {
            let begun = Instant::now();
            // Every record has flags; nothing but its instance is asked of the source here.
            let mut join = || group.event(RECORDS, Some(source), "event.flags", Scale::None, 0);
            let stream = loop {
                match join() {
                    Err(error) if is_new(&error) && begun.elapsed() < PATIENCE => {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    joined => break joined?,
                }
            };
            streams.push((source.to_owned(), stream));
        }
        group.fetch()?;
        Ok(Show {
            group,
            streams,
            rates,
            params: HashMap::new(),
            begun: None,
            forest: Forest::default(),
            fetches: 0,
            terminal: io::stdout().is_terminal(),
            records: 0,
            missed: 0,
        })
    }

    /// Fetches once and shows what came.
    pub(super) fn step(&mut self) -> Result<(), Box<dyn Error>> {
        let mut text = self.fetch()?;
        self.fetches += 1;
        if self.terminal || self.fetches.is_multiple_of(FETCHES_PER_LINE) {
            text.push_str(&self.rates_line()?);
        }
        put(&text)
    }

    /// Shows what came last. No rates: the time since the fetch before is too short for any.
    pub(super) fn finish(&mut self) -> Result<(), Box<dyn Error>> {
        let text = self.fetch()?;
        put(&text)
    }

    /// The records that have come, as text.
    fn fetch(&mut self) -> Result<String, Box<dyn Error>> {
        self.group.fetch()?;
        self.learn_names()?;
        Ok(self.records_text()?)
    }

    /// Looks up the names of parameters that have not been seen before.
    fn learn_names(&mut self) -> Result<(), Box<dyn Error>> {
        let mut new: Vec<Pmid> = Vec::new();
        for &(_, stream) in &self.streams {
            let params = self.group.records(stream)?.into_iter().flat_map(|array| array.records());
            let pmids = params.flat_map(|record| record.params().map(|param| param.pmid));
            new.extend(pmids.filter(|pmid| !self.params.contains_key(pmid)));
        }
        new.sort_unstable();
        new.dedup();
        for pmid in new {
            let names = self.group.context_mut().names_of(pmid)?;
            let leaf = names.first().and_then(|name| name.rsplit('.').next()).unwrap_or("?").to_owned();
            self.params.insert(pmid, leaf);
        }
        Ok(())
    }

    /// The requests that are over, with what each service did for them, and other records in between.
    fn records_text(&mut self) -> Result<String, PmError> {
        let mut lines: Vec<(Timestamp, String)> = Vec::new();
        let mut traced: Vec<(Timestamp, EventFlags, Traced)> = Vec::new();
        let (mut records, mut missed) = (0, 0);
        for (source, stream) in &self.streams {
            for record in self.group.records(*stream)?.into_iter().flat_map(|array| array.records()) {
                if let Some(count) = record.missed() {
                    missed += count.max(0) as u64;
                    lines.push((record.time, format!("{source:<10} ==> {count} records missed")));
                    continue;
                }
                records += 1;
                match self.traced(source, &record) {
                    Some(part) => traced.push((record.time, record.flags, part)),
                    None => lines.push((record.time, format!("{source:<10} {}", self.record(&record)))),
                }
            }
        }
        (self.records, self.missed) = (self.records + records, self.missed + missed);
        // Stable: records of one source stay in the order in which they came.
        traced.sort_by_key(|&(time, ..)| time);
        traced.into_iter().for_each(|(time, flags, part)| self.forest.take(time, flags, part));
        for (time, spans) in self.forest.finished() {
            lines.extend(spans.into_iter().map(|(failed, line)| (time, self.in_colour(failed, line))));
        }
        lines.sort_by_key(|&(time, _)| time);
        Ok(self.timed(&lines))
    }

    /// Lines with the time behind which they stand; of those of one time the first only has it.
    fn timed(&mut self, lines: &[(Timestamp, String)]) -> String {
        let mut text = if self.terminal { "\r\x1b[K".to_owned() } else { String::new() };
        let mut before = None;
        for (time, line) in lines.iter().take(SHOWN_PER_FETCH) {
            let begun = *self.begun.get_or_insert(*time);
            let seconds = (time.as_nanos() - begun.as_nanos()) as f64 * 1e-9;
            // Writing to a String does not fail.
            let _ = match before == Some(*time) {
                true => writeln!(text, "{:>9}  {line}", ""),
                false => writeln!(text, "{seconds:>9.3}  {line}"),
            };
            before = Some(*time);
        }
        if lines.len() > SHOWN_PER_FETCH {
            let _ = writeln!(text, "{:>9}  ... and {} more", "", lines.len() - SHOWN_PER_FETCH);
        }
        text
    }

    fn in_colour(&self, failed: bool, line: String) -> String {
        if failed && self.terminal { format!("\x1b[33m{line}\x1b[0m") } else { line }
    }

    /// A record that is part of a trace.
    fn traced(&self, source: &str, record: &Record<'_, BigEndian>) -> Option<Traced> {
        let mut part = Traced { source: source.to_owned(), ..Traced::default() };
        for param in record.params() {
            let value = param_text(param.value, |text| String::from_utf8_lossy(text).into_owned());
            match self.params.get(&param.pmid).map_or("?", String::as_str) {
                "type" => part.kind = value,
                "trace_id" => part.trace = value,
                "span_id" => part.span = value,
                "parent_id" => part.parent = Some(value),
                "message" => part.message = value,
                "status" => part.failed = value == "error",
                _ => {}
            }
        }
        (!part.trace.is_empty()).then_some(part)
    }

    /// A record on one line: what it is and whose, then its other fields.
    fn record(&self, record: &Record<'_, BigEndian>) -> String {
        let arrow = if record.flags.contains(EventFlags::START) {
            ">"
        } else if record.flags.contains(EventFlags::END) {
            "<"
        } else {
            "*"
        };
        let mut emphasis = Emphasis::None;
        let (mut kind, mut ids, mut fields) = (String::new(), String::new(), String::new());
        for param in record.params() {
            let value = param_text(param.value, show_text);
            // Writing to a String does not fail.
            let _ = match self.params.get(&param.pmid).map_or("?", String::as_str) {
                "type" => write!(kind, "{value}"),
                "span_id" => write!(ids, " #{value}"),
                "parent_id" => write!(ids, " in #{value}"),
                // The colour says it.
                "severity" => {
                    emphasis = Emphasis::of(value.as_bytes());
                    Ok(())
                }
                leaf => write!(fields, " {leaf}={value}"),
            };
        }
        let (colour, plain) = match emphasis {
            _ if !self.terminal => ("", ""),
            Emphasis::Warning | Emphasis::Error => ("\x1b[33m", "\x1b[0m"),
            Emphasis::None if record.flags.contains(EventFlags::POINT) => ("\x1b[36m", "\x1b[0m"),
            Emphasis::None => ("", "\x1b[0m"),
        };
        format!("{colour}{arrow} {kind}{ids}{fields}{plain}")
    }

    /// Event rates; on a terminal the line stays at the bottom.
    fn rates_line(&self) -> Result<String, PmError> {
        // The agent has a source of its own for events that name none.
        let ours = |name: &&str| self.streams.iter().any(|(stream, _)| stream == name);
        let rates = self
            .group
            .rows(self.rates)?
            .filter_map(|row| Some(format!("{} {:.1} events/s", row.name.filter(ours)?, row.value.ok()?)));
        let rates: Vec<String> = rates.collect();
        let line = format!("-- {}, {} records, {} missed --", rates.join(", "), self.records, self.missed);
        Ok(if self.terminal { format!("\x1b[7m{line}\x1b[0m") } else { line + "\n" })
    }
}

fn put(text: &str) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// A source that the agent has not heard of yet.
fn is_new(error: &RegisterError) -> bool {
    matches!(error.code(), PmError::INST | PmError::INDOM)
}

fn show_text(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    if text.contains(' ') { format!("{text:?}") } else { text.into_owned() }
}

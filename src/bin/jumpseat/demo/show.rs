//! What the demo shows: the records as they arrive over the wire, and how fast.

use crate::say::sayln;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use byteorder::BigEndian;
use jumpseat::client::{ClientError, Connection};
use jumpseat::event::reader::{ArrayReader, Record};
use jumpseat::event::{ArrayKind, EventFlags, Param};
use jumpseat::model::{Inst, Pmid, Timestamp, Value, ValueType};
use jumpseat::pdu::RawValueSet;

/// Records shown for one fetch; a burst beyond is summed up in a line.
const SHOWN_PER_FETCH: usize = 40;
const RECORDS: &str = "jumpseat.event.records";
const RECEIVED: &str = "jumpseat.source.received";
const MISSED: &str = "jumpseat.source.missed";

/// A client of the demo's own endpoint, and the screen it writes to.
pub struct Show {
    connection: Connection,
    pmids: [Pmid; 3],
    sources: HashMap<Inst, String>,
    /// Leaf names of parameters, looked up once.
    params: HashMap<Pmid, String>,
    begun: Option<Timestamp>,
    rates: HashMap<Inst, Rate>,
    terminal: bool,
    /// Records shown or summed up so far.
    pub records: u64,
    /// Records reported missed so far.
    pub missed: u64,
}

struct Rate {
    received: u64,
    at: Instant,
    per_second: f64,
}

impl Show {
    /// Looks up what will be fetched.
    pub fn new(mut connection: Connection) -> Result<Show, ClientError> {
        let mut found = connection.lookup_names(&[RECORDS, RECEIVED, MISSED])?.into_iter().flatten();
        let (Some(records), Some(received), Some(missed)) = (found.next(), found.next(), found.next()) else {
            return Err(ClientError::Unexpected);
        };
        Ok(Show {
            connection,
            pmids: [records, received, missed],
            sources: HashMap::new(),
            params: HashMap::new(),
            begun: None,
            rates: HashMap::new(),
            terminal: io::stdout().is_terminal(),
            records: 0,
            missed: 0,
        })
    }

    /// Fetches once and shows what came.
    pub fn step(&mut self) -> Result<(), ClientError> {
        let result = self.connection.fetch(&self.pmids)?;
        let [records, received, _] = &result.sets[..] else { return Err(ClientError::Unexpected) };
        if let Ok(values) = &received.values
            && values.iter().any(|value| !self.sources.contains_key(&value.inst))
        {
            let indom = self.connection.desc(self.pmids[1])?.indom;
            let instances = self.connection.instances(indom)?;
            self.sources = instances.into_iter().map(|instance| (instance.id, instance.name)).collect();
        }
        let mut text = self.records_text(records)?;
        if let Some(line) = self.rates_line(received) {
            text.push_str(&line);
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// Leaves the last line of rates on the screen.
    pub fn finish(&self) {
        if self.terminal {
            sayln!("");
        }
    }

    /// The new records of all sources in the order of their times.
    fn records_text(&mut self, set: &RawValueSet) -> Result<String, ClientError> {
        let mut lines: Vec<(Timestamp, String)> = Vec::new();
        let values = set.values.as_ref().map_err(|&error| ClientError::Pcp(error))?;
        for value in values {
            let Value::Event(array) = value.value.to_value(ValueType::Event)? else { continue };
            let array = ArrayReader::<BigEndian>::new(ArrayKind::Event, &array).map_err(|e| e.code())?;
            let source = self.sources.get(&value.inst).cloned().unwrap_or_else(|| value.inst.to_string());
            for record in array.records() {
                let what = match record.missed() {
                    Some(count) => {
                        self.missed += count.max(0) as u64;
                        format!("==> {count} records missed")
                    }
                    None => {
                        self.records += 1;
                        self.record(&record)?
                    }
                };
                lines.push((record.time, format!("{source:<10} {what}")));
            }
        }
        // Stable: records of one source stay in the order in which they came.
        lines.sort_by_key(|&(time, _)| time);
        let mut text = String::new();
        if self.terminal {
            text.push_str("\r\x1b[K");
        }
        for (time, line) in lines.iter().take(SHOWN_PER_FETCH) {
            let begun = *self.begun.get_or_insert(*time);
            let seconds = (time.as_nanos() - begun.as_nanos()) as f64 * 1e-9;
            let _ = writeln!(text, "{seconds:>9.3}  {line}");
        }
        if lines.len() > SHOWN_PER_FETCH {
            let _ = writeln!(text, "{:>9}  ... and {} more", "", lines.len() - SHOWN_PER_FETCH);
        }
        Ok(text)
    }

    /// A record on one line: what it is and whose, then its other fields.
    fn record(&mut self, record: &Record<'_, BigEndian>) -> Result<String, ClientError> {
        let arrow = if record.flags.contains(EventFlags::START) {
            ">"
        } else if record.flags.contains(EventFlags::END) {
            "<"
        } else {
            "*"
        };
        let (mut kind, mut ids, mut fields) = (String::new(), String::new(), String::new());
        for param in record.params() {
            let value = show_param(param.value);
            // Severity is told by the colour.
            let _ = match self.leaf(param.pmid)? {
                "type" => write!(kind, "{value}"),
                "span_id" => write!(ids, " #{value}"),
                "parent_id" => write!(ids, " in #{value}"),
                "severity" => Ok(()),
                leaf => write!(fields, " {leaf}={value}"),
            };
        }
        let (colour, plain) = if self.terminal { (colour_of(record), "\x1b[0m") } else { ("", "") };
        Ok(format!("{colour}{arrow} {kind}{ids}{fields}{plain}"))
    }

    fn leaf(&mut self, pmid: Pmid) -> Result<&str, ClientError> {
        if !self.params.contains_key(&pmid) {
            let names = self.connection.names_of(pmid)?;
            let leaf = names.first().and_then(|name| name.rsplit('.').next()).unwrap_or("?").to_owned();
            self.params.insert(pmid, leaf);
        }
        Ok(&self.params[&pmid])
    }

    /// Event rates, once a second; on a terminal the line stays at the bottom.
    fn rates_line(&mut self, set: &RawValueSet) -> Option<String> {
        let now = Instant::now();
        let mut due = false;
        for value in set.values.as_ref().ok()? {
            let Ok(Value::U64(received)) = value.value.to_value(ValueType::U64) else { continue };
            let rate = self.rates.entry(value.inst).or_insert(Rate { received, at: now, per_second: 0.0 });
            let elapsed = now.duration_since(rate.at);
            if elapsed >= Duration::from_secs(1) {
                rate.per_second = (received - rate.received) as f64 / elapsed.as_secs_f64();
                (rate.received, rate.at, due) = (received, now, true);
            }
        }
        if !due && !self.terminal {
            return None;
        }
        let seen = self.rates.iter().filter(|(_, rate)| rate.received > 0);
        let mut sources: Vec<_> = seen.filter_map(|(i, r)| Some((self.sources.get(i)?, r))).collect();
        sources.sort_by_key(|(name, _)| name.as_str());
        let rates: Vec<_> =
            sources.iter().map(|(name, rate)| format!("{name} {:.1} events/s", rate.per_second)).collect();
        let line = format!("-- {}, {} records, {} missed --", rates.join(", "), self.records, self.missed);
        Some(if self.terminal { format!("\x1b[7m{line}\x1b[0m") } else { line + "\n" })
    }
}

fn colour_of(record: &Record<'_, BigEndian>) -> &'static str {
    let grave = record.params().any(|param| {
        matches!(param.value, Param::String(b"error" | b"warn" | b"critical" | b"alert" | b"emergency"))
    });
    match grave {
        true => "\x1b[33m",
        false if record.flags.contains(EventFlags::POINT) => "\x1b[36m",
        false => "",
    }
}

fn show_param(value: Param<'_>) -> String {
    match value {
        Param::I32(v) => v.to_string(),
        Param::U32(v) => v.to_string(),
        Param::I64(v) => v.to_string(),
        Param::U64(v) => v.to_string(),
        Param::Float(v) => v.to_string(),
        Param::Double(v) => v.to_string(),
        Param::String(text) => {
            let text = String::from_utf8_lossy(text);
            if text.contains(' ') { format!("{text:?}") } else { text.into_owned() }
        }
        Param::Aggregate(bytes) => format!("[{} bytes]", bytes.len()),
    }
}

//! What the demo shows: the records as they arrive over the wire, and how fast.

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
const SHOWN_PER_FETCH: usize = 20;
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
            println!();
        }
    }

    fn records_text(&mut self, set: &RawValueSet) -> Result<String, ClientError> {
        let mut text = String::new();
        if self.terminal {
            text.push_str("\r\x1b[K");
        }
        let values = set.values.as_ref().map_err(|&error| ClientError::Pcp(error))?;
        for value in values {
            let Value::Event(array) = value.value.to_value(ValueType::Event)? else { continue };
            let array = ArrayReader::<BigEndian>::new(ArrayKind::Event, &array).map_err(|e| e.code())?;
            let source = self.sources.get(&value.inst).cloned().unwrap_or_else(|| value.inst.to_string());
            for (index, record) in array.records().enumerate() {
                if let Some(count) = record.missed() {
                    self.missed += count.max(0) as u64;
                    let _ =
                        writeln!(text, "{}  {source:<10} ==> {count} records missed", self.time(record.time));
                    continue;
                }
                self.records += 1;
                if index < SHOWN_PER_FETCH {
                    self.record(&mut text, &source, &record)?;
                }
            }
            if array.len() > SHOWN_PER_FETCH {
                let _ =
                    writeln!(text, "{:>9}  {source:<10} ... and {} more", "", array.len() - SHOWN_PER_FETCH);
            }
        }
        Ok(text)
    }

    fn record(
        &mut self,
        text: &mut String,
        source: &str,
        record: &Record<'_, BigEndian>,
    ) -> Result<(), ClientError> {
        let arrow = if record.flags.contains(EventFlags::START) {
            ">"
        } else if record.flags.contains(EventFlags::END) {
            "<"
        } else {
            "*"
        };
        let (colour, plain) = if self.terminal { (colour_of(record), "\x1b[0m") } else { ("", "") };
        let _ = write!(text, "{}  {source:<10} {colour}{arrow}", self.time(record.time));
        for param in record.params() {
            let leaf = self.leaf(param.pmid)?;
            // The type opens the line by itself; ids matter to machines more than to this screen.
            match (leaf, param.value) {
                ("type", Param::String(kind)) => {
                    let _ = write!(text, " {}", String::from_utf8_lossy(kind));
                }
                ("severity", _) => {}
                (leaf, value) => {
                    let _ = write!(text, " {leaf}={}", show_param(value));
                }
            }
        }
        let _ = writeln!(text, "{plain}");
        Ok(())
    }

    fn leaf(&mut self, pmid: Pmid) -> Result<&str, ClientError> {
        if !self.params.contains_key(&pmid) {
            let names = self.connection.names_of(pmid)?;
            let leaf = names.first().and_then(|name| name.rsplit('.').next()).unwrap_or("?").to_owned();
            self.params.insert(pmid, leaf);
        }
        Ok(&self.params[&pmid])
    }

    /// Seconds since the first record shown.
    fn time(&mut self, time: Timestamp) -> String {
        let begun = *self.begun.get_or_insert(time);
        format!("{:>9.3}", (time.as_nanos() - begun.as_nanos()) as f64 * 1e-9)
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
        let mut sources: Vec<_> =
            self.rates.iter().filter_map(|(i, r)| Some((self.sources.get(i)?, r))).collect();
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

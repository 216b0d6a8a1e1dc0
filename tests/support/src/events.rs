//! Event records read back from what PCP's tools print.

/// A record as a tool showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Instance of the event metric (the source); empty where a tool shows none.
    pub instance: String,
    /// Time of day as printed, with three (EVENT), six (EVENT in pmdumplog) or nine (HIGHRES_EVENT) decimals.
    pub time: String,
    pub flags: u32,
    /// Metric names and values as printed, strings in quotes.
    pub params: Vec<(String, String)>,
    /// Set in a record that tells of missed ones.
    pub missed: Option<u64>,
}

impl Record {
    /// The value of the first parameter of this name, without quotes.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = &self.params.iter().find(|(known, _)| known == name)?.1;
        Some(value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value))
    }

    pub fn is_missed(&self) -> bool {
        self.flags & 0x8000_0000 != 0
    }
}

/// Records in the output of `pmval` (live or from an archive), `pmevent`, `pminfo -x` or `pmdumplog`, in the order
/// they were printed.
#[track_caller]
pub fn records(text: &str) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let mut instance = String::new();
    // pminfo shows name and value on two lines
    let mut pending_name = None;
    for line in text.lines() {
        if let Some(header) = line.split_once("--- event record [") {
            records.push(header_line(line, header, &instance));
        } else if let Some(rest) = line.trim_start().strip_prefix("==> ") {
            let count = rest.split(' ').next().and_then(|word| word.parse().ok());
            let last = records.last_mut().unwrap_or_else(|| panic!("missed count without a record: {line}"));
            last.missed = count;
        } else if let Some(name) = instance_line(line) {
            instance = name;
        } else if let Some(record) = records.last_mut() {
            let trimmed = line.trim_start();
            let indent = line.len() - trimmed.len();
            if let Some(value) = trimmed.strip_prefix("value ")
                && let Some(name) = pending_name.take()
            {
                record.params.push((name, value.to_owned()));
            } else if indent == 8
                && let Some((_, named)) = trimmed.split_once(" (")
                && let Some((name, value)) = named.split_once("): value ")
            {
                record.params.push((name.to_owned(), value.to_owned()));
            } else if indent == 4
                && let Some((name, rest)) = trimmed.split_once(' ')
            {
                if rest.starts_with('(') && rest.ends_with(')') {
                    pending_name = Some(name.to_owned());
                } else {
                    record.params.push((name.to_owned(), rest.to_owned()));
                }
            }
        }
    }
    records
}

/// Records in the output of a tool that still runs, once there are `count` and the last one is whole: the tool may
/// have written it in two parts. `last_field` is the last of its fields.
pub fn whole_records(text: &str, count: usize, last_field: &str) -> Option<Vec<Record>> {
    let records = records(text);
    let last = records.last()?;
    let whole = text.ends_with('\n') && (last.is_missed() || last.get(last_field).is_some());
    (records.len() >= count && whole).then_some(records)
}

fn header_line(line: &str, (before, after): (&str, &str), instance: &str) -> Record {
    let time = match after.split_once("timestamp ") {
        Some((_, rest)) => rest.split(' ').next(),
        None => before.split_whitespace().last(),
    };
    let flags = match after.split_once("flags 0x") {
        Some((_, rest)) => u32::from_str_radix(rest.split(' ').next().unwrap_or_default(), 16),
        None => Ok(0),
    };
    Record {
        instance: instance.to_owned(),
        time: time.unwrap_or_else(|| panic!("no time: {line}")).to_owned(),
        flags: flags.unwrap_or_else(|error| panic!("{error}: {line}")),
        params: Vec::new(),
        missed: None,
    }
}

/// The instance in the line that begins the records of an instance, in one of the forms
/// `    inst [0 or "a"] value [2 event records ...]`, `10:19:27.203  m[a]: 2 event records`,
/// `    29.0.136 (m[0 or "a"]): 2 event records` and `    29.0.136 (m): 1 event record`.
fn instance_line(line: &str) -> Option<String> {
    let records = line.contains("event record");
    if records && line.contains(" or \"") {
        return Some(line.split_once(" or \"")?.1.split_once('"')?.0.to_owned());
    }
    let (before, _) = line.split_once(" event record").filter(|(before, _)| before.contains(": "))?;
    let (name, _) = before.rsplit_once(": ")?;
    let inside = name.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
    Some(inside.unwrap_or_default().to_owned())
}

//! `/page/events?source&start&finish&filter&text&limit`: event records, the newest first, with how many there are and when.
//!
//! `before=TIME&skip=N` goes on behind what came: records of that time (nanoseconds) and earlier but for the first N of it.
//! `since=NUMBER` gives what came since an answer whose `next` that was; of hosts only.
//!
//! **Cost:** each record of the window is looked at, and so many are kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use pcp_event::EventFlags;
use pcp_model::Value;
use serde::Serialize;
use serde_json::Value as Json;

use super::Refused;
use super::look::{Look, cut, secs, text, whole};
use super::sift::Sift;
use crate::server::answer::json;
use crate::server::query::Query;
use crate::server::records::Turn;
use crate::server::records::record::{self, Record, name};
use crate::server::records::walk::{Order, Visitor};
use crate::server::web::Shared;

/// Most records of an answer, and how many there are if nobody says.
const MAX_LIMIT: usize = 5_000;
const LIMIT: usize = 500;
/// Parts of the window in which records are counted.
const PARTS: usize = 120;
/// Most names of fields.
const MAX_NAMES: usize = 200;
/// Bytes of a value that are sent in a list.
const MAX_VALUE: usize = 2_048;
/// Most records that a tail looks at, at a time.
const MAX_TAIL: usize = 20_000;

#[derive(Serialize)]
struct Events {
    start: f64,
    finish: f64,
    records: Vec<Shown>,
    /// Records in the window that pass the filter, and those that were lost there.
    total: u64,
    missed: u64,
    /// By time: records, and those of failures among them.
    counts: Vec<[u32; 2]>,
    /// Names of fields, as they came first.
    fields: Vec<String>,
    /// What to go on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
    /// Records that have gone before they were asked for.
    #[serde(skip_serializing_if = "is_none")]
    gone: u64,
    problems: Vec<String>,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

/// A record as the page shows it.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    /// Nanoseconds since the epoch, which are more than a number of JavaScript holds.
    time: String,
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u32>,
    flags: Vec<&'static str>,
    failed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    fields: Vec<(String, Json)>,
}

impl Shown {
    pub(super) fn of(record: &Record) -> Shown {
        let words = [(EventFlags::START, "start"), (EventFlags::END, "end"), (EventFlags::POINT, "point")];
        Shown {
            time: record.time.to_string(),
            source: match &*record.origin.source {
                "" => record.origin.metric.to_string(),
                source => source.to_owned(),
            },
            missed: record.missed,
            flags: words
                .into_iter()
                .filter(|(flag, _)| record.flags.contains(*flag))
                .map(|(_, word)| word)
                .collect(),
            failed: record.missed.is_none() && record.is_failure(),
            span: record.span_id().map(Into::into),
            trace: record.trace_id().map(Into::into),
            fields: fields(record),
        }
    }
}

/// The fields of a record, besides the identifiers that have a place of their own.
pub(super) fn fields(record: &Record) -> Vec<(String, Json)> {
    let is_own =
        |field: &&record::Field| ![name::SPAN_ID, name::PARENT_ID, name::TRACE_ID].contains(&&*field.name);
    record.rest().iter().filter(is_own).map(|field| (field.name.to_string(), value(&field.value))).collect()
}

/// A value: numbers that JavaScript holds exactly as such, all else as text.
fn value(value: &Value) -> Json {
    const EXACT: u64 = 1 << 53;
    match *value {
        Value::I32(number) => number.into(),
        Value::U32(number) => number.into(),
        Value::I64(number) if number.unsigned_abs() <= EXACT => number.into(),
        Value::U64(number) if number <= EXACT => number.into(),
        Value::Float(number) if number.is_finite() => f64::from(number).into(),
        Value::Double(number) if number.is_finite() => number.into(),
        ref other => {
            let text = record::text(other);
            match text.char_indices().nth(MAX_VALUE) {
                Some((end, _)) => format!("{}…", &text[..end]).into(),
                None => text.into_owned().into(),
            }
        }
    }
}

/// What was asked for.
struct Question {
    look: Look,
    limit: usize,
    before: Option<(i64, usize)>,
    since: Option<u64>,
    name: String,
}

pub(super) async fn events(State(web): State<Shared>, query: Query) -> Result<Response, Refused> {
    let look = Look::of(&web, &query)?;
    let sift = Sift::new(text(&query, "filter")?.as_deref(), text(&query, "text")?.as_deref())?;
    let before = whole(&query, "before")?;
    let skip = whole(&query, "skip")?.unwrap_or(0).min(100_000);
    let question = Question {
        look,
        limit: whole(&query, "limit")?.unwrap_or(LIMIT).min(MAX_LIMIT),
        before: before.map(|before| (before, skip)),
        since: whole(&query, "since")?,
        name: query.get("source").unwrap_or_default().trim_start_matches("host:").to_owned(),
    };
    let events = web.records.ask(&web.pool, move |turn| find(turn, &question, sift)).await?;
    Ok(json(StatusCode::OK, &events))
}

fn find(turn: &Turn<'_>, question: &Question, mut sift: Sift) -> Events {
    let look = &question.look;
    let mut events = Events {
        start: look.start,
        finish: look.finish,
        records: Vec::new(),
        total: 0,
        missed: 0,
        counts: Vec::new(),
        fields: Vec::new(),
        next: None,
        gone: 0,
        problems: Vec::new(),
    };
    let followed = turn.records.followed().iter().find(|followed| followed.name == question.name);
    if let Some(since) = question.since {
        let Some(followed) = followed else { return events };
        let came = followed.since(since, MAX_TAIL);
        // The last that came first, also of those of one time.
        let mut kept: Vec<_> = came
            .records
            .iter()
            .rev()
            .filter(|record| record.missed.is_some() || sift.passes(record))
            .collect();
        events.total = kept.len() as u64;
        events.missed = missed(kept.iter().map(|record| &***record));
        kept.sort_by_key(|record| std::cmp::Reverse(record.time));
        kept.truncate(question.limit);
        events.records = kept.iter().map(|record| Shown::of(record)).collect();
        (events.next, events.gone) = (Some(came.next), came.gone);
        return events;
    }
    let mut window = look.window();
    let skip = question.before.map_or(0, |(time, skip)| {
        window.to = window.to.min(time.saturating_add(1));
        skip
    });
    let host = |host: &str| look.is(host);
    let mut counting = Counting {
        counts: vec![[0; 2]; PARTS],
        total: 0,
        missed: 0,
        start: look.start,
        finish: look.finish,
        names: BTreeSet::new(),
        fields: Vec::new(),
    };
    let counts = question.before.is_none();
    let mut wants = |record: &Record| {
        let wanted = record.missed.is_some() || sift.passes(record);
        if wanted && counts {
            counting.take(record);
        }
        wanted
    };
    let (found, walked) = match counts {
        // All of them are looked at, to be counted.
        true => {
            let mut all = All { limit: question.limit, host: &host, wants: &mut wants, kept: Vec::new() };
            let walked = turn.walk(window, Order::Newest, &mut all);
            (all.newest(), walked)
        }
        false => turn.select(window, Order::Newest, question.limit + skip, &host, &mut wants),
    };
    events.records = found.iter().skip(skip).map(|record| Shown::of(record)).collect();
    if counts {
        (events.total, events.missed) = (counting.total, counting.missed);
        (events.counts, events.fields) = (counting.counts, counting.fields);
    }
    events.next = followed.map(|followed| {
        // A host that was not walked through has not told its name yet: none of its records is known.
        walked.next.get(&followed.name).copied().unwrap_or_default()
    });
    events.problems = cut(&walked);
    events
}

fn missed<'a>(records: impl Iterator<Item = &'a Record>) -> u64 {
    records.filter_map(|record| record.missed).map(u64::from).sum()
}

/// Counts records by time.
struct Counting {
    start: f64,
    finish: f64,
    counts: Vec<[u32; 2]>,
    total: u64,
    missed: u64,
    names: BTreeSet<Arc<str>>,
    fields: Vec<String>,
}

impl Counting {
    fn take(&mut self, record: &Record) {
        if let Some(missed) = record.missed {
            self.missed += u64::from(missed);
            return;
        }
        self.total += 1;
        let share = (secs(record.time) - self.start) / (self.finish - self.start);
        if let Some(count) = self.counts.get_mut(((share * PARTS as f64) as usize).min(PARTS - 1)) {
            count[0] += 1;
            count[1] += u32::from(record.is_failure());
        }
        for field in record.rest() {
            if self.fields.len() < MAX_NAMES && !self.names.contains(&field.name) {
                self.names.insert(Arc::clone(&field.name));
                self.fields.push(field.name.to_string());
            }
        }
    }
}

/// Looks at all records, and keeps the newest.
struct All<'a> {
    limit: usize,
    host: &'a dyn Fn(&str) -> bool,
    wants: &'a mut dyn FnMut(&Record) -> bool,
    kept: Vec<Arc<Record>>,
}

impl All<'_> {
    fn trim(&mut self) {
        // Stable: of one time they stay as they came.
        self.kept.sort_by_key(|record| std::cmp::Reverse(record.time));
        self.kept.truncate(self.limit);
    }

    fn newest(mut self) -> Vec<Arc<Record>> {
        self.trim();
        self.kept
    }
}

impl Visitor for All<'_> {
    fn host(&self, host: &str) -> bool {
        (self.host)(host)
    }

    fn wants(&mut self, record: &Record) -> bool {
        (self.wants)(record)
    }

    fn take(&mut self, record: Arc<Record>) {
        self.kept.push(record);
        if self.kept.len() >= 4 * self.limit.max(1_000) {
            self.trim();
        }
    }
}

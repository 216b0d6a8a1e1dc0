//! A record as it goes into a trace: what its parameters mean there.

use byteorder::NetworkEndian;
use pcp_client::Context;
use pcp_event::EventFlags;
use pcp_event::reader::Record;
use pcp_model::Timestamp;
use serde_json::{Map, Value as Json};

use super::file::Details;
use crate::sampling::records::{self, RecordNames};
use crate::tool::json::typed_json;

/// What names of jumpseat's own fields begin with, which says nothing in a trace.
const PREFIX: &str = "jumpseat.field.";

/// A record that is none of missed ones.
pub(super) struct Entry {
    /// Nanoseconds since 1970.
    pub time: u64,
    pub starts: bool,
    pub ends: bool,
    pub id: Option<String>,
    pub parent: Option<String>,
    /// The ID of the trace that it is part of, in which IDs of spans are unique whatever their source.
    pub trace: Option<String>,
    /// What to call the thread it is from.
    pub thread: Option<String>,
    pub details: Details,
}

impl Entry {
    /// Reads a record; `default` is what it is called if nothing in it is a name.
    pub(super) fn read(
        names: &mut RecordNames,
        context: &mut Context,
        record: &Record<'_, NetworkEndian>,
        default: &str,
    ) -> Entry {
        let mut params = Vec::new();
        for param in record.params() {
            let metric = names.param(context, param.pmid);
            let name = metric.name.as_deref().map_or_else(|_| param.pmid.to_string(), short);
            params.push((name, typed_json(&records::value(param.value))));
        }
        // Where there is an ID it is the first parameter, and the parent's comes next.
        let has = |flag| record.flags.contains(flag);
        let place = usize::from(has(EventFlags::ID));
        let id = params.first().filter(|_| has(EventFlags::ID)).map(|(_, value)| value.to_string());
        let parent =
            params.get(place).filter(|_| has(EventFlags::PARENT)).map(|(_, value)| value.to_string());
        let skip = place + usize::from(parent.is_some());
        let (starts, ends) = (has(EventFlags::START), has(EventFlags::END));
        let name = name_of(&params, skip).unwrap_or_else(|| default.to_owned());
        Entry {
            time: nanos(record.time),
            starts,
            ends,
            id,
            parent,
            trace: text_of(&params, "trace_id"),
            thread: thread_of(&params),
            details: Details {
                name,
                categories: categories(&params, starts || ends),
                args: arguments(params),
            },
        }
    }
}

/// A time as the trace has it, which knows none before 1970.
pub(super) fn nanos(time: Timestamp) -> u64 {
    // Far from the end of the type, as seconds are added.
    time.as_nanos().clamp(0, i128::from(i64::MAX)) as u64
}

fn short(name: &str) -> String {
    name.strip_prefix(PREFIX).unwrap_or(name).to_owned()
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn text_of(params: &[(String, Json)], wanted: &str) -> Option<String> {
    params.iter().find(|(name, _)| name == wanted)?.1.as_str().map(str::to_owned)
}

/// The name of a thread and its number, as far as they are there: threads of a pool have one name.
fn thread_of(params: &[(String, Json)]) -> Option<String> {
    let name = ["thread", "thread.name", "thread_name"].iter().find_map(|name| text_of(params, name));
    let is_number = |name: &String| matches!(name.as_str(), "thread" | "thread.id" | "thread_id" | "tid");
    let number = params.iter().find(|(name, value)| is_number(name) && value.is_number());
    match (name.filter(|name| !name.is_empty()), number) {
        (Some(name), Some((_, number))) => Some(format!("{name} {number}")),
        (None, Some((_, number))) => Some(format!("thread {number}")),
        (name, None) => name,
    }
}

/// What it can be searched by: whether it is a span or an event, and its severity and kind, where it has them.
fn categories(params: &[(String, Json)], is_span: bool) -> Vec<String> {
    let what = if is_span { "span" } else { "event" };
    let others = ["severity", "kind"].iter().filter_map(|name| text_of(params, name));
    std::iter::once(what.to_owned()).chain(others).collect()
}

/// What to call a record: a parameter that is a name, or else its first text. The first `skip` are its ID and its
/// parent's.
fn name_of(params: &[(String, Json)], skip: usize) -> Option<String> {
    const NAMES: [&str; 5] = ["name", "span", "type", "event", "message"];
    // IDs say nothing to people, even if they are the first text.
    let texts = || params.iter().skip(skip).filter_map(|(name, value)| Some((name, value.as_str()?)));
    let named = |last: &str| texts().find(|(name, _)| last_part(name) == last);
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

//! `/pmapi/fetch`: values of metrics.
//!
//! **Cost:** one fetch; names that a context has fetched before are not looked up again. Values are written from the bytes they came in.

use std::collections::HashSet;

use pcp_client::{ClientError, ValueRef};
use pcp_model::{Desc, InDom, Inst, PmError, Pmid, Timestamp, ValueType};
use pcp_pdu::TypedRef;
use serde::ser::{Serialize, SerializeSeq as _, Serializer};

use super::call::{Call, Deadline, MAX_METRICS, Output, items, refused};
use super::events::{JsonRecords, ParameterNames, array};
use super::indom::identifier;
use super::metric::Identifier;
use super::moment;
use super::session::{Session, is_remembered};
use super::values::{Exact, JsonNumber, JsonText, JsonTime};
use crate::server::answer::Refusal;

/// The parameters that say what to fetch; the first that is there counts.
pub(super) const WHAT: [&str; 4] = ["names", "name", "pmids", "pmid"];

/// Most bytes of names that are looked at by a task, which must not take long.
const MAX_KNOWN: usize = 8192;

/// A metric of the answer.
struct Wanted {
    name: String,
    pmid: Pmid,
    desc: Desc,
}

/// Metrics of which all is known that a fetch needs.
pub(super) struct Known(Vec<Wanted>);

impl Known {
    /// What a request fetches, if nothing has to be asked for besides, and nothing is remembered of it. For a host.
    pub(super) fn of(call: &Call, session: &Session) -> Option<Known> {
        let asks_more = call.wants("events") || call.query.get("time").is_some();
        let (what, text) = which(call).filter(|_| !asks_more && !session.is_archive())?;
        if !matches!(what, "names" | "name") || text.len() > MAX_KNOWN {
            return None;
        }
        let wanted = |name: &str| {
            let &(pmid, desc) = session.known(name)?;
            (!is_remembered(name, &desc)).then(|| Wanted { name: name.to_owned(), pmid, desc })
        };
        let wanted: Option<Vec<Wanted>> = listed(what, text).into_iter().map(wanted).collect();
        wanted.filter(|wanted| !wanted.is_empty()).map(Known)
    }

    /// To be fetched.
    pub(super) fn pmids(&self) -> Vec<Pmid> {
        self.0.iter().map(|wanted| wanted.pmid).collect()
    }

    /// The answer, when they have been fetched.
    ///
    /// # Errors
    /// It is too long.
    pub(super) fn answer(&self, call: &Call, session: &Session, number: u32) -> Result<Output, Refusal> {
        written(call, session, number, session.fetched.timestamp, &self.0, None)
    }
}

pub(super) fn fetch(call: &Call, session: &mut Session, number: u32) -> Result<Output, Refusal> {
    let deadline = Deadline::new();
    let mut wanted = find_wanted(call, session, deadline)?;
    moment::go(session, &call.query)?;
    if fetched(session, &wanted)? {
        wanted = find_wanted(call, session, deadline)?;
        fetched(session, &wanted)?;
    }
    let time = if wanted.is_empty() { now(session) } else { session.fetched.timestamp };
    let names = match call.wants("events") {
        true => Some(names(session, &wanted)?),
        false => None,
    };
    written(call, session, number, time, &wanted, names.as_ref())
}

/// Fetches; true if that has to be done again, as metrics may be other ones now.
fn fetched(session: &mut Session, wanted: &[Wanted]) -> Result<bool, Refusal> {
    if wanted.is_empty() {
        return Ok(false);
    }
    session.fetch(wanted.iter().map(|wanted| (wanted.name.as_str(), &wanted.desc)))
}

/// The answer with what has been fetched.
fn written(
    call: &Call,
    session: &Session,
    number: u32,
    time: Timestamp,
    wanted: &[Wanted],
    names: Option<&ParameterNames>,
) -> Result<Output, Refusal> {
    #[derive(serde::Serialize)]
    struct Form<'a> {
        context: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<&'a str>,
        timestamp: JsonTime,
        values: Values<'a>,
    }
    #[derive(serde::Serialize)]
    struct Micros {
        s: i64,
        us: u32,
    }
    #[derive(serde::Serialize)]
    struct RawForm<'a> {
        timestamp: Micros,
        values: Values<'a>,
    }
    let exact = Exact(call.wants("exact"));
    let values = Values { wanted, session, names, exact, raw: call.raw };
    match call.raw {
        true => Output::json(&RawForm { timestamp: Micros { s: time.sec, us: time.usec() }, values }),
        false => {
            Output::json(&Form { context: number, client: call.client(), timestamp: JsonTime(time), values })
        }
    }
}

/// The metrics that are asked for, each once. Unknown ones are left out of a list.
fn find_wanted(call: &Call, session: &mut Session, deadline: Deadline) -> Result<Vec<Wanted>, Refusal> {
    let Some((what, text)) = which(call) else { return Ok(Vec::new()) };
    if text.is_empty() {
        return Err(Refusal::bad(PmError::TOOSMALL.to_string()));
    }
    if items(text).count() > MAX_METRICS {
        return Err(Refusal::bad(format!("more than {MAX_METRICS} metrics: ask for less")));
    }
    let texts = listed(what, text);
    let wanted = match what {
        "name" | "names" => by_name(session, &texts, deadline)?,
        _ => by_pmid(session, &texts, deadline)?,
    };
    match what {
        "name" | "pmid" if wanted.is_empty() => Err(Refusal::bad("bad parameters passed")),
        _ => Ok(wanted),
    }
}

/// The parameter that says what to fetch, and what it says.
fn which(call: &Call) -> Option<(&'static str, &str)> {
    WHAT.iter().find_map(|&what| Some((what, call.query.get(what)?)))
}

/// What a parameter has, each once.
fn listed<'a>(what: &str, text: &'a str) -> Vec<&'a str> {
    let mut known = HashSet::new();
    match what {
        "name" | "pmid" => vec![text],
        _ => items(text).filter(|item| known.insert(*item)).collect(),
    }
}

fn by_name(session: &mut Session, names: &[&str], deadline: Deadline) -> Result<Vec<Wanted>, Refusal> {
    let found = session.metrics(names, deadline)?;
    let wanted = names.iter().zip(found).filter_map(|(name, found)| {
        let (pmid, desc) = found?;
        Some(Wanted { name: (*name).to_owned(), pmid, desc })
    });
    Ok(wanted.collect())
}

fn by_pmid(session: &mut Session, texts: &[&str], deadline: Deadline) -> Result<Vec<Wanted>, Refusal> {
    let mut known = HashSet::new();
    let pmids: Vec<Pmid> = texts
        .iter()
        .filter_map(|text| text.parse().ok().or_else(|| identifier(text).map(Pmid)))
        .filter(|pmid| known.insert(*pmid))
        .collect();
    let descs = session.descs(&pmids)?;
    let mut wanted = Vec::new();
    for (pmid, desc) in pmids.into_iter().zip(descs) {
        deadline.check()?;
        let Ok(desc) = desc else { continue };
        let name = match session.context.names_of(pmid) {
            Ok(names) => names.into_iter().next(),
            Err(ClientError::Pcp(_)) => None,
            Err(error) => return Err(refused(&error)),
        };
        if let Some(name) = name {
            wanted.push(Wanted { name, pmid, desc });
        }
    }
    Ok(wanted)
}

/// The time of a fetch of nothing.
fn now(session: &Session) -> Timestamp {
    if session.is_archive() {
        return session.context.mode().1;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(i64::try_from(now.as_secs()).unwrap_or(i64::MAX), now.subsec_nanos())
}

/// Names of the parameters of all event records that were fetched.
fn names(session: &mut Session, wanted: &[Wanted]) -> Result<ParameterNames, Refusal> {
    let mut names = ParameterNames::default();
    for (at, wanted) in wanted.iter().enumerate().filter(|(_, wanted)| is_event(wanted.desc.value_type)) {
        let Some(Ok(values)) = session.fetched.set(at).map(|set| set.values) else { continue };
        for (_, value) in values.iter() {
            if let ValueRef::Block(block) = value
                && let Ok(array) = array(wanted.desc.value_type, block)
            {
                names.note(&array);
            }
        }
    }
    names.look_up(&mut session.context)?;
    Ok(names)
}

fn is_event(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::Event | ValueType::HighResEvent)
}

struct Values<'a> {
    wanted: &'a [Wanted],
    session: &'a Session,
    /// Of event records, if they are wanted.
    names: Option<&'a ParameterNames>,
    exact: Exact,
    raw: bool,
}

struct Instances<'a> {
    values: &'a Values<'a>,
    at: usize,
    desc: &'a Desc,
}

struct JsonValue<'a> {
    value: ValueRef<'a>,
    value_type: ValueType,
    names: Option<&'a ParameterNames>,
    exact: Exact,
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Form<'a> {
            pmid: Identifier,
            name: &'a str,
            instances: Instances<'a>,
        }
        let mut seq = serializer.serialize_seq(Some(self.wanted.len()))?;
        for (at, Wanted { name, pmid, desc }) in self.wanted.iter().enumerate() {
            let instances = Instances { values: self, at, desc };
            seq.serialize_element(&Form { pmid: Identifier::pmid(*pmid, self.raw), name, instances })?;
        }
        seq.end()
    }
}

impl Serialize for Instances<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Form<'a> {
            instance: Option<i64>,
            value: JsonValue<'a>,
        }
        let Values { session, names, exact, raw, .. } = *self.values;
        let is_singular = self.desc.indom == InDom::NULL;
        let number = |inst: Inst| match is_singular {
            true => raw.then_some(-1),
            false => Some(i64::from(inst.cast_unsigned())),
        };
        let mut seq = serializer.serialize_seq(None)?;
        if let Some(Ok(values)) = session.fetched.set(self.at).map(|set| set.values) {
            for (inst, value) in values.iter() {
                let value = JsonValue { value, value_type: self.desc.value_type, names, exact };
                seq.serialize_element(&Form { instance: number(inst), value })?;
            }
        }
        seq.end()
    }
}

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value.typed(self.value_type) {
            Ok(TypedRef::Number(number)) => JsonNumber(number, self.exact).serialize(serializer),
            Ok(TypedRef::Text(text)) => JsonText(text).serialize(serializer),
            Ok(TypedRef::Aggregate(bytes)) => JsonText(bytes).serialize(serializer),
            Ok(TypedRef::Events(value_type, block)) => match (self.names, array(value_type, block)) {
                (Some(names), Ok(array)) => JsonRecords::new(array, names, self.exact).serialize(serializer),
                _ => serializer.serialize_none(),
            },
            _ => serializer.serialize_none(),
        }
    }
}

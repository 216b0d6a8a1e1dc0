//! The requests (`docs/pcp/webapi.md` 10). Each is answered once: what was asked for, or why not.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use pcp_model::Desc;
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::answer::{self, Refusal, json};
use super::super::query::Query;
use super::super::web::Shared;
use super::engine::{self, Engine, Found, Refused, Shown};
use super::index::{Index, LabelRow};
use super::language::{self, Key, Value, Window};
use super::read::{Limit, MAX_SERIES, Spent};
use super::remembered::Known;
use super::rows;
use crate::server::identity::Id;
use crate::server::pattern;
use crate::server::words::{type_word, units};

/// Longest body of a request.
const MAX_BODY: usize = 1 << 20;
/// Most rows of an answer of metadata.
const MAX_ROWS: usize = 250_000;
/// Most identifiers, or names, that a request lists; those that are there twice count twice.
const MAX_LISTED: usize = MAX_SERIES;
/// How long `load` waits for the index.
const PATIENCE: Duration = Duration::from_secs(20);

pub(in super::super) fn routes() -> Router<Shared> {
    let none = || async {
        Refusal::bad(
            "no such request: see /series/ping, query, values, descs, metrics, instances, labels, sources, load",
        )
    };
    Router::new()
        .route("/series/ping", get(ping).post(ping))
        .route("/series/query", get(query).post(query))
        .route("/series/values", get(values).post(values))
        .route("/series/descs", get(descs).post(descs))
        .route("/series/metrics", get(metrics).post(metrics))
        .route("/series/instances", get(instances).post(instances))
        .route("/series/labels", get(labels).post(labels))
        .route("/series/sources", get(sources).post(sources))
        .route("/series/load", get(load).post(load))
        .route("/series/{*rest}", get(none).post(none))
        .route("/search/text", get(search).post(search))
        .route("/search/suggest", get(search).post(search))
        .route("/search/indom", get(search).post(search))
        .route("/search/info", get(search).post(search))
        .layer(DefaultBodyLimit::max(MAX_BODY))
}

type Body = Result<Bytes, BytesRejection>;

async fn ping(url: RawQuery, body: Body) -> Response {
    // The body of a ping is not looked at.
    drop(body);
    match asked(url, Ok(Bytes::new())) {
        Ok(query) => success(query.get("client"), true, StatusCode::OK),
        Err(refusal) => refused(None, refusal),
    }
}

/// What real servers without a search module say; Grafana knows it by having nothing else in it.
async fn search(url: RawQuery) -> Response {
    let client = asked(url, Ok(Bytes::new())).ok();
    success(client.as_ref().and_then(|query| query.get("client")), false, StatusCode::BAD_REQUEST)
}

async fn query(State(web): State<Shared>, url: RawQuery, body: Body) -> Response {
    answered(web, url, body, |web, asked| {
        let text = mandatory(asked, "expr")?;
        Ok(match engine(web).query(text)? {
            Found::Ids(ids) => Answer::Ids(ids),
            Found::Values(shown) => Answer::Values(shown),
        })
    })
    .await
}

async fn values(State(web): State<Shared>, url: RawQuery, body: Body) -> Response {
    answered(web, url, body, |web, asked| {
        let (mut ids, mut known) = (Vec::new(), HashSet::new());
        for text in list(asked, "series")? {
            let id = text.parse::<Id>();
            let id = id.map_err(|bad| Refusal::bad(format!("Invalid SID {text} near offset {}", bad.at)))?;
            if known.insert(id) {
                ids.push(id);
            }
        }
        let get = |names: &[&str]| asked.first(names);
        let window = Window::of_parameters(&get, engine::now()).map_err(|error| Refusal::bad(error.0))?;
        Ok(Answer::Values(engine(web).values(&ids, &window)?))
    })
    .await
}

async fn descs(State(web): State<Shared>, url: RawQuery, body: Body) -> Response {
    answered(web, url, body, |web, asked| {
        let index = web.series.engine.shared.index();
        let mut rows = Rows::new();
        for id in ids(asked, "series")? {
            if let Some(row) = index.series_of(id) {
                let series = index.series(row);
                // The newest archive's, whose numbers may be others than an older one's.
                let newest = index.archives_of(row).max_by_key(|(entry, _)| entry.glance.label.start);
                let desc = newest.map_or(series.desc, |(_, metric)| Desc {
                    pmid: metric.pmid,
                    indom: metric.indom,
                    ..series.desc
                });
                rows.push(DescRow::new(id, index.source_at(series.source).id, &desc, desc.pmid.to_string()))?;
                continue;
            }
            match web.series.engine.remembered.get(id).as_deref() {
                Some(Known::Expression { desc, .. }) => {
                    rows.push(DescRow::new(id, Id::ZERO, desc, "511.0.0".to_owned()))?;
                }
                Some(Known::Derived(derived)) => {
                    let desc = &derived.desc;
                    rows.push(DescRow::new(id, derived.source, desc, "511.0.0".to_owned()))?;
                }
                None => {}
            }
        }
        Ok(Answer::Descs(rows.0))
    })
    .await
}

async fn metrics(State(web): State<Shared>, url: RawQuery, body: Body) -> Response {
    answered(web, url, body, |web, asked| {
        let index = web.series.engine.shared.index();
        if asked.get("series").is_none() {
            let names = index.metric_names().map(|(name, _)| name);
            return Ok(Answer::Names(matching(asked, names)?));
        }
        let mut rows = Rows::new();
        for id in ids(asked, "series")? {
            let name = match index.series_of(id) {
                Some(row) => Some(index.name(index.series(row).name).to_owned()),
                None => web.series.engine.remembered.get(id).map(|known| match &*known {
                    Known::Expression { canonical, .. } => canonical.clone(),
                    Known::Derived(derived) => derived.name.clone(),
                }),
            };
            if let Some(name) = name {
                rows.push(NameRow { series: id, name })?;
            }
        }
        Ok(Answer::Metrics(rows.0))
    })
    .await
}

async fn instances(State(web): State<Shared>, url: RawQuery, body: Body) -> Response {
    answered(web, url, body, |web, asked| {
        if asked.get("series").is_none() {
            let index = web.series.engine.shared.index();
            let names = index.all_instances().map(|instance| index.name(instance.name));
            return Ok(Answer::Names(matching(asked, names)?));
        }
        let mut rows = Rows::new();
        let mut spent = Spent::begin(&engine(web).budget);
        for id in ids(asked, "series")? {
            limited(spent.time())?;
            let known = web.series.engine.remembered.get(id);
            // Reads derived operands: not while the index is held.
            let operands = match known.as_deref() {
                Some(Known::Expression { expr, .. }) => limited(engine(web).operands(expr, &mut spent))?,
                _ => Vec::new(),
            };
            let index = web.series.engine.shared.index();
            let operands = if index.series_of(id).is_some() { vec![id] } else { operands };
            for row in operands.into_iter().filter_map(|operand| index.series_of(operand)) {
                limited(spent.time())?;
                instance_rows(&index, id, row, &mut rows)?;
            }
            if let Some(Known::Derived(derived)) = known.as_deref()
                && engine::has_instances(&derived.desc)
                && let Some(row) = index.series_with(derived.source, derived.desc.indom)
            {
                instance_rows(&index, id, row, &mut rows)?;
            }
        }
        Ok(Answer::Instances(rows.0))
    })
    .await
}

async fn labels(State(web): State<Shared>, url: RawQuery, body: Body) -> Response {
    answered(web, url, body, |web, asked| {
        if asked.get("series").is_some() {
            return labels_of(web, asked).map(Answer::Labels);
        }
        let index = web.series.engine.shared.index();
        let pairs = || index.shown_labels().flat_map(|labels| labels.pairs.iter());
        let Some(names) = asked.first(&["name", "names"]) else {
            return Ok(Answer::Names(matching(asked, pairs().map(|(name, _)| &**name))?));
        };
        let wanted: HashSet<&str> = listed(names)?.into_iter().collect();
        let found = values_of(&wanted, pairs().map(|(name, value)| (&**name, &**value)))?;
        let of_name = |(name, values): (&str, BTreeSet<&str>)| {
            (name.to_owned(), values.into_iter().map(raw).collect::<Vec<_>>())
        };
        Ok(Answer::LabelValues(found.into_iter().map(of_name).collect()))
    })
    .await
}

async fn sources(State(web): State<Shared>, url: RawQuery, body: Body) -> Response {
    answered(web, url, body, |web, asked| {
        let index = web.series.engine.shared.index();
        if asked.get("source").is_none() {
            if asked.is_empty() {
                return Err(Refusal::bad("a source or a match is needed"));
            }
            let names: BTreeSet<String> =
                index.sources().flat_map(|source| index.source_names(source)).collect();
            return Ok(Answer::Names(matching(asked, names.iter().map(String::as_str))?));
        }
        let mut rows = Rows::new();
        for id in ids(asked, "source")? {
            let Some(source) = index.source_of(id) else { continue };
            for name in index.source_names(source) {
                rows.push(SourceRow { source: id, name })?;
            }
        }
        Ok(Answer::Sources(rows.0))
    })
    .await
}

/// There is nothing to load: what the command line names is there, and nothing else is read. Waits until the index has it.
async fn load(State(web): State<Shared>, url: RawQuery, body: Body) -> Response {
    let asked = match asked(url, body) {
        Ok(asked) => asked,
        Err(refusal) => return refused(None, refusal),
    };
    let client = asked.get("client").map(str::to_owned);
    let client = client.as_deref();
    // A query has zones in it, which are on the disk: not on the runtime.
    let of_pool = Shared::clone(&web);
    let check = move || mandatory(&asked, "expr").and_then(|text| is_there(&of_pool, text));
    let checked = web.series.turns.run(&web.pool, check);
    if let Err(refusal) = checked.await.unwrap_or_else(|not| Err(not.into())) {
        return refused(client, refusal);
    }
    let version = web.library.version();
    let done = tokio::time::timeout(PATIENCE, async {
        while web.series.engine.shared.progress().version.is_none_or(|known| known < version) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    match done.await {
        Ok(()) => success(client, true, StatusCode::OK),
        Err(_) => {
            let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "archives are still being read");
            refused(client, refusal)
        }
    }
}

fn is_there(web: &Shared, text: &str) -> Result<(), Refusal> {
    let query = language::parse(text, engine::now()).map_err(|error| Refusal::bad(error.0))?;
    let selectors = query.expr.selectors();
    let conditions = selectors.iter().flat_map(|selector| &selector.conditions);
    let named = conditions.filter(|(_, condition)| {
        condition.key == Key::SourceName || condition.key == Key::Label("source.path".to_owned())
    });
    let mut found = false;
    for (_, condition) in named {
        let (Value::Text(name) | Value::Bare(name)) = &condition.value;
        let is_known = |path: &Path| {
            web.library.all().iter().any(|glance| {
                glance.name == path || glance.name.starts_with(path) || glance.label.host == *name
            })
        };
        if !is_known(Path::new(name)) {
            return Err(Refusal::bad(format!("cannot open archive \"{name}\": No such file or directory")));
        }
        found = true;
    }
    if found { Ok(()) } else { Err(Refusal::bad("found no context to load")) }
}

fn labels_of(web: &Shared, asked: &Query) -> Result<Vec<LabelsRow>, Refusal> {
    let mut rows = Rows::new();
    let mut spent = Spent::begin(&engine(web).budget);
    for id in ids(asked, "series")? {
        limited(spent.time())?;
        let known = web.series.engine.remembered.get(id);
        let operands = match known.as_deref() {
            Some(Known::Expression { expr, desc, .. }) if !engine::has_instances(desc) => {
                limited(engine(web).operands(expr, &mut spent))?
            }
            _ => Vec::new(),
        };
        let index = web.series.engine.shared.index();
        let of_row = |labels: &LabelRow| LabelsRow { series: id, labels: object_of(labels) };
        if let Some(instance) = index.instance_of(id) {
            rows.push(of_row(index.labels(instance.labels)))?;
        }
        // Those of a metric with instances are its instances'.
        if let Some(row) = index.series_of(id)
            && !engine::has_instances(&index.series(row).desc)
        {
            rows.push(of_row(index.labels(index.series(row).labels)))?;
        }
        if let Some(Known::Derived(derived)) = known.as_deref()
            && !engine::has_instances(&derived.desc)
            && let Some(source) = index.source_of(derived.source)
        {
            rows.push(of_row(index.labels(source.labels)))?;
        }
        // What all operands have.
        let mut common: Option<BTreeMap<String, Box<RawValue>>> = None;
        for row in operands.into_iter().filter_map(|operand| index.series_of(operand)) {
            limited(spent.time())?;
            let labels = object_of(index.labels(index.series(row).labels));
            match &mut common {
                Some(common) => common
                    .retain(|name, value| labels.get(name).is_some_and(|other| other.get() == value.get())),
                None => common = Some(labels),
            }
        }
        if let Some(labels) = common {
            rows.push(LabelsRow { series: id, labels })?;
        }
    }
    Ok(rows.0)
}

fn instance_rows(index: &Index, id: Id, row: u32, rows: &mut Rows<InstanceRow>) -> Result<(), Refusal> {
    let source = index.source_at(index.series(row).source).id;
    for instance in index.instances_of(row) {
        let about = index.instance(instance.row);
        let name = index.name(about.name).to_owned();
        rows.push(InstanceRow { series: id, source, instance: about.id, id: instance.inst, name })?;
    }
    Ok(())
}

/// Answers a request, in the pool.
async fn answered(
    web: Shared,
    url: RawQuery,
    body: Body,
    work: impl FnOnce(&Shared, &Query) -> Result<Answer, Refusal> + Send + 'static,
) -> Response {
    let asked = match asked(url, body) {
        Ok(asked) => asked,
        Err(refusal) => return refused(None, refusal),
    };
    let client = asked.get("client").map(str::to_owned);
    let of_work = client.clone();
    let of_pool = Shared::clone(&web);
    let done = web.series.turns.run(&web.pool, move || match work(&of_pool, &asked) {
        // Made in the pool as well: it may be long.
        Ok(answer) => whole(of_work.as_deref(), answer),
        Err(refusal) => refused(of_work.as_deref(), refusal),
    });
    done.await.unwrap_or_else(|not| refused(client.as_deref(), not.into()))
}

fn engine(web: &Shared) -> &Engine {
    &web.series.engine
}

/// The parameters of the URL, and of a body of that form.
fn asked(RawQuery(url): RawQuery, body: Body) -> Result<Query, Refusal> {
    let body = body.map_err(|rejection| {
        Refusal::new(rejection.status(), format!("a body has at most {MAX_BODY} bytes"))
    })?;
    let body = std::str::from_utf8(&body).map_err(|_| Refusal::bad("the body is not UTF-8"))?;
    let url = url.unwrap_or_default();
    Query::parse(&format!("{url}&{body}")).map_err(|bad| Refusal::bad(bad.to_string()))
}

fn mandatory<'a>(asked: &'a Query, name: &str) -> Result<&'a str, Refusal> {
    let value = asked.get(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| Refusal::bad(format!("the parameter {name} is needed, with a value")))
}

fn list<'a>(asked: &'a Query, name: &str) -> Result<Vec<&'a str>, Refusal> {
    listed(mandatory(asked, name)?)
}

fn listed(text: &str) -> Result<Vec<&str>, Refusal> {
    if text.is_empty() {
        return Err(Refusal::bad("an empty list"));
    }
    let items: Vec<&str> = text.split(',').filter(|item| !item.is_empty()).take(MAX_LISTED + 1).collect();
    if items.len() > MAX_LISTED {
        return Err(Refusal::bad(format!("more than {MAX_LISTED} in a list: ask for fewer")));
    }
    Ok(items)
}

/// Identifiers; what is none is unknown. One that is there twice is answered twice, as pmproxy does.
fn ids(asked: &Query, name: &str) -> Result<Vec<Id>, Refusal> {
    Ok(list(asked, name)?.into_iter().filter_map(|text| text.parse().ok()).collect())
}

/// Names, each once, that match what is asked for: all, if nothing is.
fn matching<'a>(asked: &Query, names: impl Iterator<Item = &'a str>) -> Result<Vec<String>, Refusal> {
    let glob = match asked.get("match") {
        Some(glob) => {
            Some(pattern::glob(glob).map_err(|_| Refusal::bad(format!("invalid pattern \"{glob}\"")))?)
        }
        None => None,
    };
    let is_wanted = |name: &&str| glob.as_ref().is_none_or(|glob| glob.is_match(name));
    let mut found = BTreeSet::new();
    for name in names.filter(is_wanted) {
        if found.insert(name) && found.len() > MAX_ROWS {
            return Err(too_many());
        }
    }
    Ok(found.into_iter().map(str::to_owned).collect())
}

/// The values of wanted labels, each once.
fn values_of<'a>(
    wanted: &HashSet<&str>,
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<BTreeMap<&'a str, BTreeSet<&'a str>>, Refusal> {
    let (mut found, mut count) = (BTreeMap::<_, BTreeSet<_>>::new(), 0);
    for (name, value) in pairs.filter(|(name, _)| wanted.contains(name)) {
        count += usize::from(found.entry(name).or_default().insert(value));
        if count > MAX_ROWS {
            return Err(too_many());
        }
    }
    Ok(found)
}

fn limited<T>(done: Result<T, Limit>) -> Result<T, Refusal> {
    done.map_err(|limit| Refused::Limit(limit).into())
}

fn too_many() -> Refusal {
    Refusal::bad(format!("more than {MAX_ROWS} rows: ask for less"))
}

/// Rows of an answer, in limited number.
struct Rows<T>(Vec<T>);

impl<T> Rows<T> {
    fn new() -> Rows<T> {
        Rows(Vec::new())
    }

    fn push(&mut self, row: T) -> Result<(), Refusal> {
        if self.0.len() == MAX_ROWS {
            return Err(too_many());
        }
        self.0.push(row);
        Ok(())
    }
}

/// What is answered.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Ids(Vec<Id>),
    #[serde(skip)]
    Values(Shown),
    Descs(Vec<DescRow>),
    Metrics(Vec<NameRow>),
    Names(Vec<String>),
    Instances(Vec<InstanceRow>),
    Labels(Vec<LabelsRow>),
    LabelValues(BTreeMap<String, Vec<Box<RawValue>>>),
    Sources(Vec<SourceRow>),
}

#[derive(Serialize)]
struct DescRow {
    series: Id,
    source: Id,
    pmid: String,
    indom: String,
    semantics: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    units: String,
}

impl DescRow {
    fn new(series: Id, source: Id, desc: &Desc, pmid: String) -> DescRow {
        DescRow {
            series,
            source,
            pmid,
            indom: if engine::has_instances(desc) { desc.indom.to_string() } else { "none".to_owned() },
            semantics: desc.semantics.name(),
            kind: type_word(desc.value_type),
            units: units(desc),
        }
    }
}

#[derive(Serialize)]
struct NameRow {
    series: Id,
    name: String,
}

#[derive(Serialize)]
struct SourceRow {
    source: Id,
    name: String,
}

#[derive(Serialize)]
struct InstanceRow {
    series: Id,
    source: Id,
    instance: Id,
    id: i32,
    name: String,
}

#[derive(Serialize)]
struct LabelsRow {
    series: Id,
    labels: BTreeMap<String, Box<RawValue>>,
}

fn object_of(labels: &LabelRow) -> BTreeMap<String, Box<RawValue>> {
    labels.pairs.iter().map(|(name, value)| (name.to_string(), raw(value))).collect()
}

/// The JSON value of a label; what an archive has there may be none, and is a string then.
fn raw(value: &str) -> Box<RawValue> {
    let parsed = RawValue::from_string(value.to_owned());
    parsed.or_else(|_| serde_json::value::to_raw_value(value)).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A text that counts among what is being answered until it has been sent: however slowly a client reads.
struct Held {
    text: Bytes,
    _spent: Spent,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

fn whole(client: Option<&str>, answer: Answer) -> Response {
    #[derive(Serialize)]
    struct Wrapped<'a> {
        client: &'a str,
        result: &'a Answer,
    }
    let text = match (answer, client) {
        (Answer::Values(shown), _) => {
            let text = rows::text(client, &shown.series).into();
            Bytes::from_owner(Held { text, _spent: shown.spent })
        }
        (answer, Some(client)) => answer::text(&Wrapped { client, result: &answer }),
        (answer, None) => answer::text(&answer),
    };
    answer::json_of(StatusCode::OK, text)
}

fn refused(client: Option<&str>, refusal: Refusal) -> Response {
    #[derive(Serialize)]
    struct Form<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<&'a str>,
        message: &'a str,
        success: bool,
    }
    json(refusal.status, &Form { client, message: &refusal.message, success: false })
}

fn success(client: Option<&str>, success: bool, status: StatusCode) -> Response {
    #[derive(Serialize)]
    struct Form<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<&'a str>,
        success: bool,
    }
    json(status, &Form { client, success })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_limited_and_what_is_no_identifier_is_unknown() {
        let one = "b2d8247efe39e8b95394f04c0e4f508cbaf3d7ee";
        let listed =
            |count| Query::parse(&format!("series=x,{}", format!("{one},").repeat(count))).expect("good");
        assert_eq!(ids(&listed(2), "series").expect("few").len(), 2, "twice, as pmproxy does");
        assert_eq!(ids(&listed(MAX_LISTED - 1), "series").expect("just").len(), MAX_LISTED - 1);
        let refusal = ids(&listed(MAX_LISTED), "series").expect_err("too many");
        assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn names_and_values_of_labels_are_limited_while_they_are_collected() {
        let texts: Vec<String> = (0..=MAX_ROWS).map(|n| n.to_string()).collect();
        let most = || texts[..MAX_ROWS].iter().map(String::as_str);
        let none = Query::default();
        // What is there again is no row more, and beyond the limit nothing is looked at.
        let again = matching(&none, most().chain(most())).expect("just");
        assert_eq!(again.len(), MAX_ROWS);
        assert!(
            matching(&none, texts.iter().map(String::as_str).chain(std::iter::repeat_with(|| panic!())))
                .is_err()
        );

        let wanted = HashSet::from(["one", "other"]);
        let of = |name: &'static str| move |value| (name, value);
        let one = most().map(of("one"));
        let unwanted = texts.iter().map(String::as_str).map(of("unwanted"));
        let found = values_of(&wanted, one.clone().chain(one.clone()).chain(unwanted)).expect("just");
        assert_eq!(found["one"].len(), MAX_ROWS);
        assert!(values_of(&wanted, one.chain([("other", "value")])).is_err(), "values of all names count");
    }
}

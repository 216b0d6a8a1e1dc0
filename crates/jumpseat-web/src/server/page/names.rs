//! `/page/names?source&prefix`: names of metrics that go on with what was typed, or have it in them.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use pcp_client::{Context, TextLevel, TextTarget};
use serde::Serialize;

use super::Refused;
use super::source::Source;
use crate::server::answer::json;
use crate::server::query::Query;
use crate::server::web::{Shared, Web};

/// Most names of an answer; of so many what they are is told.
const MAX_NAMES: usize = 100;
const MAX_TOLD: usize = 40;
/// Bytes of what was typed.
const MAX_PREFIX: usize = 1_024;

#[derive(Serialize)]
struct Names {
    names: Vec<Name>,
    /// Whether there are more.
    more: bool,
}

#[derive(Serialize)]
struct Name {
    name: String,
    /// Whether it is a metric's; there are names below it otherwise.
    leaf: bool,
    /// What it is, in a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

pub(super) async fn names(State(web): State<Shared>, query: Query) -> Result<Response, Refused> {
    let source = Source::parse(query.get("source"))?;
    let prefix = query.get("prefix").unwrap_or_default().trim().to_owned();
    if prefix.len() > MAX_PREFIX {
        return Err(Refused::bad(format!("prefix: longer than {MAX_PREFIX} bytes")));
    }
    let of_pool = Shared::clone(&web);
    let names = web.pool.run(move || find(&of_pool, &source, &prefix)).await??;
    Ok(json(StatusCode::OK, &names))
}

fn find(web: &Web, source: &Source, prefix: &str) -> Result<Names, Refused> {
    let (key, mut context) = source.open(web)?;
    let mut names = below(&mut context, prefix);
    if names.is_empty() && !prefix.is_empty() {
        names = with(&mut context, prefix);
    }
    let more = names.len() > MAX_NAMES;
    names.truncate(MAX_NAMES);
    for name in names.iter_mut().filter(|name| name.leaf).take(MAX_TOLD) {
        name.help = help(&mut context, &name.name);
    }
    if !context.is_connected() {
        return Err(Refused::gone("the connection to the collector is lost"));
    }
    web.page.shelf.put(key, context);
    Ok(Names { names, more })
}

/// The nodes whose names begin with this.
fn below(context: &mut Context, prefix: &str) -> Vec<Name> {
    let (parent, begun) = prefix.rsplit_once('.').unwrap_or(("", prefix));
    let point = if parent.is_empty() { "" } else { "." };
    let mut children = context.children(parent).unwrap_or_default();
    children.retain(|child| child.name.starts_with(begun));
    children.sort();
    let name = |child: pcp_client::Child| Name {
        name: format!("{parent}{point}{}", child.name),
        leaf: child.leaf,
        help: None,
    };
    children.into_iter().map(name).collect()
}

/// The metrics that have all these words in their names.
fn with(context: &mut Context, text: &str) -> Vec<Name> {
    let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
    let mut names = context.traverse("").unwrap_or_default();
    names.retain(|name| {
        let name = name.to_ascii_lowercase();
        words.iter().all(|word| name.contains(word.as_str()))
    });
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.into_iter().map(|name| Name { name, leaf: true, help: None }).collect()
}

fn help(context: &mut Context, name: &str) -> Option<String> {
    let pmid = context.pmid(name).ok()?;
    let text = context.text(TextTarget::Metric(pmid), TextLevel::OneLine).ok()?;
    Some(text.lines().next().unwrap_or_default().chars().take(200).collect())
}

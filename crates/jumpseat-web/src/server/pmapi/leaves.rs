//! Metrics by the names that a request has: leaves, or inner nodes for all below them.

use std::collections::HashSet;

use pcp_client::ClientError;

use super::call::{Deadline, MAX_METRICS, items, refused};
use super::session::Session;
use crate::server::answer::Refusal;

/// What came of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is a metric, or there are metrics below it.
    Leaves(Vec<String>),
    /// PCP's text for why not.
    Nothing { name: String, why: String },
}

/// The metrics of a list of names, each once; all for none, or an empty item, as it is in pmproxy.
///
/// # Errors
/// Those of the source as a whole; too many; the time is over.
pub(super) fn of(
    session: &mut Session,
    deadline: Deadline,
    list: Option<&str>,
) -> Result<Vec<Found>, Refusal> {
    let list = list.unwrap_or_default();
    let names: Vec<&str> = match items(list).next() {
        None => vec![""],
        Some(_) => items(list).collect(),
    };
    if names.len() > MAX_METRICS {
        return Err(too_many());
    }
    let mut room = MAX_METRICS;
    let mut found = Vec::with_capacity(names.len());
    // Mostly they are metrics, which one request tells of all of them. What is below the others takes one each.
    let are_metrics = match names.len() {
        1 => vec![false],
        _ => session.are_metrics(&names, deadline)?,
    };
    for (name, is_metric) in names.into_iter().zip(are_metrics) {
        deadline.check()?;
        if is_metric {
            room = room.checked_sub(1).ok_or_else(too_many)?;
            found.push(Found::Leaves(vec![name.to_owned()]));
            continue;
        }
        found.push(match session.context.traverse(name) {
            Ok(mut leaves) => {
                // In a name space that is none, a node may be below itself.
                let mut known = HashSet::new();
                leaves.retain(|leaf| known.insert(leaf.clone()));
                room = room.checked_sub(leaves.len()).ok_or_else(too_many)?;
                Found::Leaves(leaves)
            }
            Err(ClientError::Pcp(error)) => Found::Nothing { name: name.to_owned(), why: error.to_string() },
            Err(error) => return Err(refused(&error)),
        });
    }
    Ok(found)
}

fn too_many() -> Refusal {
    Refusal::bad(format!("more than {MAX_METRICS} metrics: ask for less"))
}

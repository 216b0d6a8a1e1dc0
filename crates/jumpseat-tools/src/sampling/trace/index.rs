//! Which spans have an ID, and which have it as that of their parent.

use std::collections::HashMap;

use pcp_model::Inst;

/// An ID, and where it is unique: in its source, or in the trace that it is part of, which may be of many sources.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Link {
    Source(Inst, Option<String>),
    Trace(String, String),
}

/// Numbers of spans by a link that they have in common, each list in ascending order.
#[derive(Default)]
pub(super) struct Index(HashMap<Link, Vec<u64>>);

/// The links that an ID of a source, and of a trace if it is of one, is found by.
pub(super) fn links(inst: Inst, trace: Option<&String>, id: Option<&String>) -> Vec<Link> {
    let of_source = Link::Source(inst, id.cloned());
    let of_trace = trace.zip(id).map(|(trace, id)| Link::Trace(trace.clone(), id.clone()));
    std::iter::once(of_source).chain(of_trace).collect()
}

impl Index {
    pub(super) fn add(&mut self, links: Vec<Link>, span: u64) {
        for link in links {
            self.0.entry(link).or_default().push(span);
        }
    }

    pub(super) fn remove(&mut self, links: &[Link], span: u64) {
        for link in links {
            let Some(spans) = self.0.get_mut(link) else { continue };
            if let Ok(at) = spans.binary_search(&span) {
                spans.remove(at);
            }
            if spans.is_empty() {
                self.0.remove(link);
            }
        }
    }

    /// The latest with one of these links, the first link first.
    pub(super) fn latest(&self, links: &[Link]) -> Option<u64> {
        links.iter().find_map(|link| self.0.get(link)?.last().copied())
    }

    /// All with one of these links.
    pub(super) fn all(&self, links: &[Link]) -> Vec<u64> {
        let mut all: Vec<u64> = links.iter().filter_map(|link| self.0.get(link)).flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

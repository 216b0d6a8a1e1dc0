//! Where the time of spans goes, by path: the frames of a flame graph, as `jumpseat top` has them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::server::records::spans::{self, Trace};

/// How deep frames go; what is below is the time of those above.
const MAX_DEPTH: usize = 64;
/// Frames that take less of the whole are left out, and their time with them.
const LEAST: f64 = 1e-3;

/// Spans with the same path. Seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Frame {
    /// Service and name.
    pub name: String,
    /// Of all of them; never less than that of their children.
    pub total: f64,
    /// What is no child's.
    pub own: f64,
    pub count: u64,
    pub errors: u64,
    /// The largest first.
    pub children: Vec<Frame>,
}

/// A frame while it grows.
#[derive(Default)]
struct Growing {
    total: f64,
    count: u64,
    errors: u64,
    children: BTreeMap<String, Growing>,
}

/// The frames of traces below one that stands for all.
pub(super) fn flame(traces: &[Trace]) -> Frame {
    let mut root = Growing::default();
    for trace in traces {
        let parents = spans::parents(&trace.spans);
        for (at, span) in trace.spans.iter().enumerate().filter(|(_, span)| span.end.is_some()) {
            let mut path = vec![at];
            while let Some(parent) = parents[path[path.len() - 1]]
                && path.len() < MAX_DEPTH
                && !path.contains(&parent)
            {
                path.push(parent);
            }
            let frame = path.iter().rev().fold(&mut root, |frame, &at| {
                let span = &trace.spans[at];
                frame.children.entry(format!("{}/{}", span.origin.service, span.name)).or_default()
            });
            frame.total += span.duration() as f64 * 1e-9;
            frame.count += 1;
            frame.errors += u64::from(span.failed);
        }
    }
    root.settle();
    let least = root.total * LEAST;
    root.frame("all".to_owned(), least)
}

impl Growing {
    /// Children that run at the same time may take more than their parent.
    fn settle(&mut self) {
        self.children.values_mut().for_each(Growing::settle);
        self.total = self.total.max(self.inner());
    }

    fn inner(&self) -> f64 {
        self.children.values().map(|child| child.total).sum()
    }

    fn frame(self, name: String, least: f64) -> Frame {
        let own = (self.total - self.inner()).max(0.0);
        let kept = self.children.into_iter().filter(|(_, child)| child.total >= least);
        let mut children: Vec<Frame> = kept.map(|(name, child)| child.frame(name, least)).collect();
        children.sort_by(|one, other| other.total.total_cmp(&one.total));
        Frame { name, total: self.total, own, count: self.count, errors: self.errors, children }
    }
}

//! Where the time of spans goes: the time of each path of spans from the root on, and its own, without its children's.

use std::collections::BTreeMap;

use super::trace::Trace;

/// Spans that are reached by the same path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Frame {
    /// Seconds of all of them; never less than those of their children.
    pub total: f64,
    /// Seconds that are no child's.
    pub own: f64,
    /// How many there are.
    pub count: u64,
    /// By source and name.
    pub children: BTreeMap<String, Frame>,
}

/// A frame in its place: the share of the whole at which it begins and ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block<'a> {
    /// The path, from the root on.
    pub path: Vec<&'a str>,
    pub from: f64,
    pub to: f64,
    pub frame: &'a Frame,
}

/// The frames of all traces below one that stands for all.
pub(crate) fn flame(traces: &[Trace]) -> Frame {
    let mut root = Frame::default();
    for trace in traces {
        let mut path: Vec<String> = Vec::new();
        for placed in &trace.spans {
            path.truncate(placed.depth);
            path.push(placed.span.path());
            let Some(duration) = placed.span.duration().filter(|duration| *duration >= 0.0) else { continue };
            let frame =
                path.iter().fold(&mut root, |frame, part| frame.children.entry(part.clone()).or_default());
            frame.total += duration;
            frame.count += 1;
        }
    }
    settle(&mut root);
    root
}

/// Takes the children's time off. Children that run at the same time may take more than their parent.
fn settle(frame: &mut Frame) {
    frame.children.values_mut().for_each(settle);
    let inner: f64 = frame.children.values().map(|child| child.total).sum();
    frame.own = (frame.total - inner).max(0.0);
    frame.total = frame.total.max(inner);
}

/// All frames with a place, parents in front of their children, the largest child first.
pub(crate) fn blocks(root: &Frame) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    if root.total > 0.0 {
        place(root, &[], 0.0, 1.0, &mut blocks);
    }
    blocks
}

fn place<'a>(frame: &'a Frame, path: &[&'a str], from: f64, to: f64, blocks: &mut Vec<Block<'a>>) {
    blocks.push(Block { path: path.to_vec(), from, to, frame });
    let mut children: Vec<(&String, &Frame)> = frame.children.iter().collect();
    children.sort_by(|(_, a), (_, b)| b.total.total_cmp(&a.total));
    let mut at = from;
    for (name, child) in children {
        let width = (to - from) * child.total / frame.total.max(f64::MIN_POSITIVE);
        place(child, &[path, &[name.as_str()]].concat(), at, at + width, blocks);
        at += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{tests::shop, traces};

    #[test]
    fn own_time_is_what_children_do_not_take() {
        let root = flame(&traces(&shop()));
        let shown: Vec<_> = blocks(&root)
            .iter()
            .map(|b| {
                (b.path.join(" "), (b.frame.total * 1e3).round(), (b.frame.own * 1e3).round(), b.frame.count)
            })
            .collect();
        assert_eq!(
            shown,
            [
                (String::new(), 90.0, 0.0, 0),
                ("web/checkout".into(), 90.0, 20.0, 1),
                ("web/checkout orders/order".into(), 70.0, 20.0, 1),
                ("web/checkout orders/order payment/charge".into(), 50.0, 50.0, 1),
            ]
        );
        assert!(blocks(&Frame::default()).is_empty());
    }
}

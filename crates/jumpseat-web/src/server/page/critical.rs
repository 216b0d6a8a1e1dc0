//! What a trace has waited for: from its end backwards the child that ended last, and where there is none, the span itself.

/// From when to when a span was, and what it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub start: i64,
    /// Not before the start.
    pub end: i64,
    pub parent: Option<usize>,
}

/// The children of each span, and those that are nobody's; by start.
fn children(extents: &[Extent]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut below = vec![Vec::new(); extents.len()];
    let mut top = Vec::new();
    for (at, extent) in extents.iter().enumerate() {
        match extent.parent {
            Some(parent) => below[parent].push(at),
            None => top.push(at),
        }
    }
    for of_one in below.iter_mut().chain([&mut top]) {
        of_one.sort_by_key(|&at| extents[at].start);
    }
    (top, below)
}

/// The places of spans as a waterfall shows them, each behind its parent, with its depth. Those of circles are not reached from the top:
/// they begin anew.
pub(super) fn order(extents: &[Extent]) -> Vec<(usize, usize)> {
    let (top, below) = children(extents);
    let mut order = Vec::with_capacity(extents.len());
    let mut seen = vec![false; extents.len()];
    for first in top.into_iter().chain(0..extents.len()) {
        let mut left = vec![(first, 0)];
        while let Some((at, depth)) = left.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            order.push((at, depth));
            left.extend(below[at].iter().rev().map(|&child| (child, depth + 1)));
        }
    }
    order
}

/// The time of a span that none of its children took.
pub(super) fn own(extents: &[Extent], at: usize) -> i64 {
    let span = extents[at];
    let mut parts: Vec<(i64, i64)> = extents
        .iter()
        .filter(|extent| extent.parent == Some(at))
        .map(|child| (child.start.max(span.start), child.end.min(span.end)))
        .filter(|(from, to)| from < to)
        .collect();
    parts.sort_unstable();
    let (mut own, mut until) = (span.end.saturating_sub(span.start), span.start);
    for (from, to) in parts {
        own = own.saturating_sub(to.saturating_sub(from.max(until)).max(0));
        until = until.max(to);
    }
    own
}

/// The parts of each span on the path, by time. The path is that of the topmost span that takes longest.
pub(super) fn path(extents: &[Extent]) -> Vec<Vec<(i64, i64)>> {
    let (top, below) = children(extents);
    let mut found = vec![Vec::new(); extents.len()];
    let Some(first) = top.into_iter().max_by_key(|&at| extents[at].end.saturating_sub(extents[at].start))
    else {
        return found;
    };
    // A span, and the time until which what is before is looked for in it.
    let mut left = vec![(first, extents[first].end)];
    let mut seen = vec![false; extents.len()];
    while let Some((at, until)) = left.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let span = extents[at];
        let mut now = until.min(span.end);
        let mut by_end = below[at].clone();
        by_end.sort_by_key(|&child| std::cmp::Reverse(extents[child].end));
        for child in by_end {
            let Extent { start, end, .. } = extents[child];
            let end = end.min(now);
            // One that began after what is on the path already was not waited for.
            if end <= span.start || end <= start || start >= now {
                continue;
            }
            if end < now {
                found[at].push((end, now));
            }
            left.push((child, end));
            now = start.max(span.start);
        }
        if span.start < now {
            found[at].push((span.start, now));
        }
    }
    found.iter_mut().for_each(|parts| parts.sort_unstable());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(all: &[(i64, i64, Option<usize>)]) -> Vec<Extent> {
        all.iter().map(|&(start, end, parent)| Extent { start, end, parent }).collect()
    }

    #[test]
    fn the_path_goes_through_what_was_waited_for() {
        // 0 waits for 1, then for the longer of 2 and 3, which ran at the same time.
        let all = extents(&[
            (0, 100, None),
            (10, 30, Some(0)),
            (40, 60, Some(0)),
            (40, 90, Some(0)),
            (50, 80, Some(3)),
        ]);
        let found = path(&all);
        assert_eq!(found[0], [(0, 10), (30, 40), (90, 100)]);
        assert_eq!(found[1], [(10, 30)]);
        assert!(found[2].is_empty());
        assert_eq!(found[3], [(40, 50), (80, 90)]);
        assert_eq!(found[4], [(50, 80)]);
        let sum: i64 = found.iter().flatten().map(|(from, to)| to - from).sum();
        assert_eq!(sum, 100, "the path is as long as the trace");
    }

    #[test]
    fn own_time_is_counted_once_where_children_overlap() {
        let all = extents(&[(0, 100, None), (10, 50, Some(0)), (30, 60, Some(0)), (90, 120, Some(0))]);
        assert_eq!(own(&all, 0), 40);
        assert_eq!(own(&all, 3), 30);
    }

    #[test]
    fn children_stand_behind_their_parents_also_in_circles() {
        let all = extents(&[(0, 9, None), (5, 6, Some(0)), (1, 4, Some(0)), (2, 3, Some(2))]);
        assert_eq!(order(&all), [(0, 0), (2, 1), (3, 2), (1, 1)]);
        let circle = extents(&[(0, 9, Some(1)), (1, 2, Some(0))]);
        assert_eq!(order(&circle), [(0, 0), (1, 1)]);
        assert!(path(&circle).iter().all(Vec::is_empty));
    }
}

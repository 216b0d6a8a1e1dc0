//! Names in the order of a walk through the tree that they make.

use std::collections::HashMap;

/// The names of both, each once, in the order of a walk through one tree of them: at each node what `first` has there, then what
/// only `second` has, as `pmTraversePMNS(3)` walks through an archive's names and those of derived metrics.
///
/// Cost: a look-up for each part of each name.
pub(super) fn merged(first: &[String], second: &[String]) -> Vec<String> {
    let mut nodes = vec![Node::default()];
    let mut places = HashMap::new();
    for name in first.iter().chain(second) {
        let mut at = 0;
        for part in name.split('.') {
            at = *places.entry((at, part)).or_insert_with(|| {
                nodes.push(Node::default());
                let new = nodes.len() - 1;
                nodes[at].children.push(new);
                new
            });
        }
        nodes[at].name = Some(name);
    }
    let mut walked = Vec::with_capacity(first.len() + second.len());
    // What is to be walked through next is on top.
    let mut waiting = vec![0];
    while let Some(node) = waiting.pop().and_then(|at| nodes.get(at)) {
        walked.extend(node.name.cloned());
        waiting.extend(node.children.iter().rev());
    }
    walked
}

#[derive(Default)]
struct Node<'n> {
    /// The metric here, if there is one.
    name: Option<&'n String>,
    children: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_stands_behind_what_its_node_has() {
        let names = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let first = names("b.y b.x.one a.x c");
        let second = names("b.x.two d.z b.w a b.y d.a");
        assert_eq!(merged(&first, &second), names("b.y b.x.one b.x.two b.w a a.x c d.z d.a"));
        assert_eq!(merged(&[], &second), names("b.x.two b.w b.y d.z d.a a"));
        assert_eq!(merged(&first, &[]), first);
    }
}

//! The agent's static name space, read from PMNS source text (`docs/pcp/agent.md` 19, `PMNS(5)`).
//!
//! The source is the very file that is installed: `name { leaf SYM:0:1 }` blocks, complete with a `root`
//! block or (as under `$PCP_PMDAS_DIR`) without one. The agent's domain comes from its configuration, so
//! `SYM` is put in by the caller.

mod tree;

use std::collections::{HashMap, HashSet};

pub(crate) use tree::{Name, NameTree};

pub(super) use pcp_model::pmns::is_name;
use pcp_model::pmns::{Block, Includes, Target, blocks, join, lines};
pub use pcp_model::pmns::{PmnsError, Problem};

/// Reads a name space source. `symbols` (usually the agent's own, standing for `domain`) take precedence over
/// the source's `#define`s.
///
/// # Errors
/// The first thing wrong, with its line.
pub(crate) fn parse(
    file: &str,
    source: &str,
    domain: u16,
    symbols: &[(&str, String)],
) -> Result<NameTree, PmnsError> {
    let lines = lines(file, source, symbols, &Includes::Refused)?;
    let bad = |line, problem| PmnsError::at_line(file, line, problem);
    let mut found = HashMap::new();
    for block in blocks(&lines)? {
        let foreign = block.entries.iter().find(|entry| match entry.target {
            Target::NonLeaf => false,
            Target::Leaf(pmid) => pmid.domain() != domain,
            Target::Dynamic { domain: other } => other != domain,
        });
        if let Some(entry) = foreign {
            return Err(bad(entry.line.number, Problem::Domain { pmid: entry.pmid.to_owned(), domain }));
        }
        let (path, line) = (block.path, block.line.number);
        if found.insert(path.to_owned(), block).is_some() {
            return Err(bad(line, Problem::Disconnected(path.to_owned())));
        }
    }
    // With all blocks known, as a block may stand before the one that lists it.
    let mut tree = connect(found).map_err(|(line, problem)| bad(line, problem))?;
    tree.name_dynamic_roots(domain);
    Ok(tree)
}

/// Makes the tree out of the blocks, each of which must be reachable.
fn connect(mut blocks: HashMap<String, Block<'_>>) -> Result<NameTree, (usize, Problem)> {
    let mut tree = NameTree::default();
    let mut open: Vec<(String, Block<'_>)> = match blocks.remove("root") {
        Some(root) => vec![(String::new(), root)],
        None => {
            // Without a root block, those blocks are at the top that no other block lists.
            let listed: HashSet<String> = blocks
                .iter()
                .flat_map(|(path, block)| block.entries.iter().map(move |entry| join(path, entry.name)))
                .collect();
            let mut tops: Vec<_> = blocks.keys().filter(|path| !listed.contains(*path)).cloned().collect();
            tops.sort();
            // `tops` are keys of the map.
            tops.into_iter().filter_map(|path| blocks.remove_entry(&path)).collect()
        }
    };
    while let Some((path, block)) = open.pop() {
        tree.add_node(&path);
        for entry in block.entries {
            let name = join(&path, entry.name);
            match entry.target {
                Target::Leaf(pmid) => tree.add(&name, pmid),
                Target::Dynamic { .. } => tree.add_dynamic(&name),
                Target::NonLeaf => match blocks.remove(&name) {
                    Some(block) => open.push((name, block)),
                    None => return Err((entry.line.number, Problem::Undefined(name))),
                },
            }
        }
    }
    match blocks.into_iter().min_by_key(|(_, block)| block.line.number) {
        Some((path, block)) => Err((block.line.number, Problem::Disconnected(path))),
        None => Ok(tree),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_model::Pmid;

    fn read(source: &str) -> Result<NameTree, (usize, Problem)> {
        parse("pmns", source, 250, &[("SYM", "250".to_owned())]).map_err(|error| {
            assert_eq!(error.file, "pmns");
            (error.line, error.problem)
        })
    }

    fn listing(source: &str) -> Vec<String> {
        let tree = read(source).unwrap();
        tree.traverse("").map(|(name, pmid)| format!("{name} {pmid}")).collect()
    }

    #[test]
    fn complete_and_rootless_sources() {
        let complete =
            "root {\n sub\n leaf 250:0:1\n dyn SYM:*:*\n}\nsub.deeper { }\nsub { x SYM:4095:1023\n deeper }";
        assert_eq!(listing(complete), ["dyn 250.*.*", "leaf 250.0.1", "sub.x 250.4095.1023"]);
        let installed = "fake {\n a SYM:0:0\n b\n}\nfake.b { c SYM:0:1";
        assert_eq!(listing(installed), ["fake.a 250.0.0", "fake.b.c 250.0.1"]);
        assert_eq!(listing("other.fake { a SYM:0:0 }"), ["other.fake.a 250.0.0"]);
    }

    #[test]
    fn same_pmid_under_two_names_is_fine() {
        let tree = read("a { x SYM:0:1 y SYM:0:1 }").unwrap();
        assert_eq!(tree.names_of(Pmid::new(250, 0, 1)), ["a.x", "a.y"]);
    }

    #[test]
    fn errors_have_a_line() {
        let pmid = |text: &str, part| Problem::Pmid { pmid: text.to_owned(), part };
        for (source, line, problem) in [
            ("a\n{ 1x SYM:0:0 }", 2, Problem::ExpectedName("1x".into())),
            ("a { x\nSYM:0:0:0 }", 2, pmid("250:0:0:0", None)),
            ("a { x SYM:4096:0 }", 1, pmid("250:4096:0", Some("cluster"))),
            ("a { x SYM:0:1024 }", 1, pmid("250:0:1024", Some("item"))),
            ("a { x SYM:*:0 }", 1, pmid("250:*:0", None)),
            ("a { x OTHER:0:0 }", 1, Problem::ExpectedNameOrPmid("OTHER:0:0".into())),
            ("a { x 511:0:0 }", 1, pmid("511:0:0", Some("domain"))),
            ("a { x 251:0:0 }", 1, Problem::Domain { pmid: "251:0:0".into(), domain: 250 }),
            ("a { x SYM:0:0\nx SYM:0:1 }", 2, Problem::DuplicateName { name: "x".into(), block: "a".into() }),
            ("a x", 1, Problem::ExpectedBrace("x".into())),
            ("a {\nx 250:0:1 y-", 2, Problem::ExpectedName("y-".into())),
            (". { }", 1, Problem::ExpectedPath(".".into())),
            ("root { a }\n", 1, Problem::Undefined("a".into())),
            ("root { }\nzz { x SYM:0:0 }", 2, Problem::Disconnected("zz".into())),
            ("a { }\na { }", 2, Problem::Disconnected("a".into())),
            ("a { a.b SYM:0:0 }", 1, Problem::ExpectedName("a.b".into())),
        ] {
            assert_eq!(read(source).unwrap_err(), (line, problem), "{source}");
        }
    }
}

//! README's figures are counted, not remembered: `<!--count:NAME-->NUMBER<!--/count-->`.

use std::fs;

use regex::Regex;
use support::repository;

use crate::blocks::read;

/// What a figure of this name counts.
fn count(name: &str) -> usize {
    let entries = |folder: &str| fs::read_dir(repository().join(folder)).expect("a folder of ours").count();
    match name {
        // The package at the root is the last one.
        "packages" => entries("crates") + 1,
        "examples" => entries("examples"),
        "metrics" => {
            let names = read("pmns/jumpseat");
            names.lines().filter(|line| line.contains("JUMPSEAT:")).count()
        }
        other => panic!("README counts {other}, which tests/guide/figures.rs does not know"),
    }
}

#[test]
fn figures_are_counted() {
    let readme = read("README.md");
    let figure = Regex::new("<!--count:([a-z]+)-->([0-9,]+)<!--/count-->").expect("a pattern");
    let mut found = 0;
    for figure in figure.captures_iter(&readme) {
        found += 1;
        assert_eq!(figure[2].replace(',', ""), count(&figure[1]).to_string(), "README: {}", &figure[1]);
    }
    assert!(
        found > 0 && found == readme.matches("<!--count:").count(),
        "README: {found} figures are well formed"
    );
}

/// Speed, sizes and the like are what `benches/run` has written, with when and where: the part that it writes, and docs/speed.md.
#[test]
fn readme_has_no_other_figures() {
    let pattern = |text: &str| Regex::new(text).expect("a pattern");
    let (counted, target) = (pattern("<!--count.*?/count-->"), pattern(r"\]\([^)]*\)"));
    let figure = pattern(r"[0-9]{2,}|[0-9]+ ?(%|[munk]?s\b|[KMG]i?B)");
    let readme = read("README.md");
    let (before, rest) = readme.split_once("<!-- speed -->").expect("there is a place for the table");
    let (_, after) = rest.split_once("<!-- end of speed -->").expect("it ends");
    let mut code = false;
    for line in before.lines().chain(after.lines()) {
        code ^= line.starts_with("```");
        let prose = counted.replace_all(line, "");
        let prose: String = target.replace_all(&prose, "]").split('`').step_by(2).collect();
        assert!(code || !figure.is_match(&prose), "README: count it, or leave it out: {line}");
    }
}

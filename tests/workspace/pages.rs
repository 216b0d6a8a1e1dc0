//! The pages about PCP (`docs/pcp`) that comments point to: each has the section that a comment names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The numbers of the headings of each page.
fn sections() -> BTreeMap<String, BTreeSet<String>> {
    let heading = Regex::new(r"(?m)^##+ ([0-9]+(?:\.[0-9]+)?)\.? ").expect("a regular expression");
    let folder = support::repository().join("docs/pcp");
    let pages = fs::read_dir(folder).expect("the pages are there").map(|entry| entry.expect("a page").path());
    pages
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a page is a text");
            let numbers = heading.captures_iter(&text).map(|found| found[1].to_owned()).collect();
            (path.file_stem().expect("a name").to_string_lossy().into_owned(), numbers)
        })
        .collect()
}

/// All files of code, tests included.
fn code(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of ours") {
        let path = entry.expect("a folder of ours").path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        match path.file_name().and_then(|name| name.to_str()) {
            Some("target" | "node_modules") => {}
            _ if path.is_dir() => code(&path, found),
            _ if matches!(extension, Some("rs" | "c" | "py")) => found.push(path),
            _ => {}
        }
    }
}

/// A text with comments that go over lines in one line each.
fn joined(text: &str) -> String {
    Regex::new(r"\n *(?://[/!]?|\*) ?").expect("a regular expression").replace_all(text, " ").into_owned()
}

#[test]
fn comments_point_to_pages_and_sections_that_are_there() {
    let sections = sections();
    let mention = Regex::new(
        r"docs/pcp/([a-z-]+)\.md`?((?: ?(?:,|and|to)? ?[0-9]+(?:\.[0-9]+)?(?:[^0-9a-z.]|\.\s|\.$|,|\)|$))*)",
    )
    .expect("a regular expression");
    let number = Regex::new(r"[0-9]+(?:\.[0-9]+)?").expect("a regular expression");
    let mut files = Vec::new();
    let folders = ["benches", "crates", "examples", "fuzz/fuzz_targets", "src", "tests"];
    folders.iter().for_each(|folder| code(&support::repository().join(folder), &mut files));
    let (mut seen, mut missing) = (0, Vec::new());
    for path in files.iter().filter(|path| !path.ends_with(file!())) {
        let text = joined(&fs::read_to_string(path).expect("a file of ours"));
        if text.contains("spec `") {
            missing.push(format!("{}: a page that is not in the repository", path.display()));
        }
        for found in mention.captures_iter(&text) {
            let Some(page) = sections.get(&found[1]) else {
                missing.push(format!("{}: no page {}", path.display(), &found[1]));
                continue;
            };
            for section in number.find_iter(&found[2]) {
                seen += 1;
                if !page.contains(section.as_str()) {
                    missing.push(format!("{}: {} has no {}", path.display(), &found[1], section.as_str()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(seen > 150, "this looks at nothing: {seen} sections");
}

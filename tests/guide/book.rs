//! The guide as a book: `mdbook build docs` makes it, continuous integration does so; here is what that does not check.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use support::repository;

use crate::blocks::{documents, read};

/// The targets of the links of a page, without those in code.
fn links(text: &str) -> Vec<String> {
    let mut code = false;
    let prose = text.lines().filter(|line| {
        code ^= line.starts_with("```");
        !code
    });
    let prose: String = prose.collect::<Vec<_>>().join("\n").split('`').step_by(2).collect();
    prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_owned).collect()
}

/// Where a link of a page leads, from the repository's root.
fn target(page: &str, link: &str) -> PathBuf {
    let mut at = Path::new(page).parent().expect("a page is in a folder").to_owned();
    for step in Path::new(link.split('#').next().unwrap_or_default()).components() {
        match step {
            Component::ParentDir => _ = at.pop(),
            step => at.push(step),
        }
    }
    at
}

#[test]
fn every_page_is_in_the_book() {
    let summary = links(&read("docs/SUMMARY.md"));
    let listed: BTreeSet<String> =
        summary.iter().map(|link| target("docs/SUMMARY.md", link).display().to_string()).collect();
    assert_eq!(listed.len(), summary.len(), "a page stands there once");
    let pages = documents().into_iter().filter(|page| page.starts_with("docs/") && page != "docs/SUMMARY.md");
    assert_eq!(listed, pages.collect());
}

/// The book has no other files: those of the repository are named, not linked.
#[test]
fn links_lead_to_pages_and_headings_that_are_there() {
    for page in documents() {
        for link in links(&read(&page)) {
            if link.contains("://") {
                continue;
            }
            let at = if link.starts_with('#') { PathBuf::from(&page) } else { target(&page, &link) };
            assert!(repository().join(&at).exists(), "{page}: {link} is not there");
            assert!(
                !page.starts_with("docs/") || at.starts_with("docs"),
                "{page}: {link} is not in the book"
            );
            if let Some((_, heading)) = link.split_once('#') {
                let text = read(&at.display().to_string());
                let found =
                    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
                assert!(found, "{page}: {link}: no such heading");
            }
        }
    }
}

/// The name of a heading in links.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Rust in a page is compiled as a doctest of the package.
#[test]
fn every_page_with_rust_is_a_doctest() {
    let library = read("src/lib.rs");
    for page in documents() {
        let rust = crate::blocks::blocks(&page).into_iter().any(|block| block.info.starts_with("rust"));
        let tested = library.contains(&format!("include_str!(\"../{page}\")"));
        assert_eq!(rust, tested, "{page}: whether it has Rust, and whether src/lib.rs includes it");
    }
}

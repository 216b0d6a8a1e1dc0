//! The code blocks of the documents, and the commands in them.

use std::fs;
use std::path::Path;
use std::process::Command;

use support::repository;

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    /// The document, from the repository's root.
    pub document: String,
    /// The line with the opening fence, from 1 on.
    pub line: usize,
    /// What stands behind the fence, such as `sh` or `rust,no_run`.
    pub info: String,
    pub text: String,
}

/// All documents for people who use jumpseat: README, and what is in `docs`.
pub(crate) fn documents() -> Vec<String> {
    let root = repository();
    let mut found = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/pcp", "docs/sources", "docs/web"] {
        let entries = fs::read_dir(root.join(folder)).expect("a folder of ours");
        let paths = entries.map(|entry| entry.expect("an entry of it").path());
        let pages = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
        found.extend(pages.map(|path| relative(&root, &path)));
    }
    found.sort();
    found
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).expect("below the root").display().to_string()
}

pub(crate) fn read(document: &str) -> String {
    let path = repository().join(document);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The blocks of a document, in their order.
pub(crate) fn blocks(document: &str) -> Vec<Block> {
    let text = read(document);
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(info) if !open => {
                open = true;
                let (document, info) = (document.to_owned(), info.trim().to_owned());
                found.push(Block { document, line: number + 1, info, text: String::new() });
            }
            Some("") => open = false,
            _ if open => {
                let block = found.last_mut().expect("one is open");
                block.text.push_str(line);
                block.text.push('\n');
            }
            _ => {}
        }
    }
    assert!(!open, "{document}: a block without an end");
    found
}

impl Block {
    /// Whether its contents are for a shell.
    pub(crate) fn is_shell(&self) -> bool {
        matches!(self.info.as_str(), "sh" | "console")
    }

    /// Its commands: each as it is typed, over as many lines as the shell wants. In `console` blocks what follows a prompt; the
    /// rest is what is printed.
    pub(crate) fn commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        let mut pending = String::new();
        for line in self.text.lines() {
            let begun = !pending.is_empty();
            let typed = match (self.info.as_str(), line.strip_prefix("$ ")) {
                ("console", Some(typed)) if !begun => typed,
                ("console", None) if !begun => continue,
                _ => line,
            };
            if !begun && typed.trim().is_empty() {
                continue;
            }
            pending.push_str(typed);
            pending.push('\n');
            if is_complete(&pending) {
                commands.push(std::mem::take(&mut pending));
            }
        }
        assert!(pending.is_empty(), "{}:{}: a command without an end: {pending}", self.document, self.line);
        commands
    }
}

/// Whether a shell would begin to run it.
fn is_complete(typed: &str) -> bool {
    let continued = typed.trim_end_matches('\n').ends_with('\\');
    let checked = Command::new("bash").args(["-n", "-c", typed]).output().expect("bash is there");
    // Of a here-document without an end it only warns.
    !continued && checked.status.success() && checked.stderr.is_empty()
}

#[test]
fn commands_are_found_as_they_are_typed() {
    let block = |info: &str, text: &str| Block {
        document: "x.md".to_owned(),
        line: 1,
        info: info.to_owned(),
        text: text.to_owned(),
    };
    let shell = block("sh", "a 'one\ntwo' # why\n\nb \\\n  c\nd &\n");
    let here = block("sh", "cat <<'END'\nx = y(\n\nz)\nEND\nls\n");
    assert_eq!(here.commands(), ["cat <<'END'\nx = y(\n\nz)\nEND\n", "ls\n"]);
    assert_eq!(shell.commands(), ["a 'one\ntwo' # why\n", "b \\\n  c\n", "d &\n"]);
    let console = block("console", "$ a \"1\n2\"\nprinted\n$ b\n");
    assert_eq!(console.commands(), ["a \"1\n2\"\n", "b\n"]);
}

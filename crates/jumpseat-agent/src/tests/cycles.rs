//! No two files of this crate need each other, not even around three corners: whoever reads one can stop at what it
//! uses.
//!
//! Looked at is what a file names by `use` or by a path from `crate`, `super` or a child, where the item is and not
//! where it is re-exported; tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path below the crate, in components; the crate itself has none.
type Module = Vec<String>;

#[derive(Default)]
struct Tree {
    sources: BTreeMap<Module, String>,
    /// What a module gives out of others: the item's path in it, and where that is.
    exports: BTreeMap<(Module, String), Vec<String>>,
}

impl Tree {
    fn read(dir: &Path, module: &Module, tree: &mut Tree) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            let below = |name: &str| module.iter().cloned().chain([name.to_owned()]).collect::<Module>();
            match name.strip_suffix(".rs") {
                None if name != "tests" => Tree::read(&path, &below(&name), tree),
                Some("lib" | "mod") => drop(tree.sources.insert(module.clone(), text(&path))),
                Some(name) if !name.ends_with("tests") => {
                    tree.sources.insert(below(name), text(&path));
                }
                _ => {}
            }
        }
    }

    /// The path from the crate that a path in a module stands for; `None` for one of another crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Vec<String>> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let base = match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "super" => &module[..module.len().checked_sub(ups)?],
            "self" => return Some([module, &path[1..]].concat()),
            child => {
                let child = [module, &[child.to_owned()][..]].concat();
                self.sources.contains_key(&child).then_some(&module[..])?
            }
        };
        Some([base, &path[ups..]].concat())
    }

    /// The file that has an item.
    fn file_of(&self, path: &[String]) -> Option<Module> {
        let end = (0..=path.len()).rev().find(|&end| self.sources.contains_key(&path[..end]))?;
        let (module, rest) = path.split_at(end);
        match rest.first().and_then(|item| self.exports.get(&(module.to_vec(), item.clone()))) {
            Some(target) => self.file_of(&[target, &rest[1..]].concat()),
            None => Some(module.to_vec()),
        }
    }
}

/// A file without comments and tests.
fn text(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths of a `use`, its braces taken apart.
fn expand(tree: &str, out: &mut Vec<String>) {
    let Some((before, inside)) = tree.split_once('{') else {
        return out.push(tree.split(" as ").next().unwrap_or_default().trim().to_owned());
    };
    let (mut depth, mut begin) = (0, 0);
    let inside = inside.trim_end().strip_suffix('}').unwrap();
    for (at, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inside[begin..at].trim().is_empty() {
                    expand(&format!("{}{}", before.trim(), inside[begin..at].trim()), out);
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
}

/// All paths in a text, each with whether it is given out again.
fn paths(text: &str) -> Vec<(Vec<String>, bool)> {
    let (mut found, mut rest) = (Vec::new(), String::new());
    for statement in text.split_inclusive(';') {
        let words = statement.trim_start();
        let begin = ["use ", "pub use ", "pub(crate) use "].iter().find_map(|word| words.strip_prefix(word));
        match begin.and_then(|tree| tree.strip_suffix(';')) {
            Some(tree) => {
                let mut all = Vec::new();
                expand(tree, &mut all);
                found.extend(all.into_iter().map(|path| (path, words.starts_with("pub"))));
            }
            None => rest += statement,
        }
    }
    let words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    found.extend(words.filter(|word| word.contains("::")).map(|word| (word.to_owned(), false)));
    let parts = |path: &str| path.split("::").map(str::to_owned).collect();
    found.iter().map(|(path, public)| (parts(path), *public)).collect()
}

#[test]
fn no_file_needs_itself_around_a_corner() {
    let mut tree = Tree::default();
    Tree::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &Module::new(), &mut tree);
    let mut arrows: BTreeMap<Module, BTreeSet<Module>> =
        tree.sources.keys().map(|module| (module.clone(), BTreeSet::new())).collect();
    let all: Vec<_> = tree
        .sources
        .iter()
        .flat_map(|(module, text)| {
            paths(text).into_iter().map(move |(path, public)| (module.clone(), path, public))
        })
        .filter_map(|(module, path, public)| Some((tree.absolute(&module, &path)?, module, public)))
        .collect();
    for (target, module, _) in all.iter().filter(|(.., public)| *public) {
        if let Some(item) = target.last() {
            tree.exports.insert((module.clone(), item.clone()), target.clone());
        }
    }
    for (target, module, _) in all.iter().filter(|(.., public)| !public) {
        let file = tree.file_of(target).filter(|file| file != module);
        arrows.entry(module.clone()).or_default().extend(file);
    }
    assert!(
        arrows.values().map(BTreeSet::len).sum::<usize>() > 100,
        "the files were not understood: {arrows:?}"
    );
    // Whoever needs nobody that is left can go; what can never go is in a cycle, or needs one.
    while let Some(free) = arrows.iter().find(|(_, needs)| needs.is_empty()).map(|(module, _)| module.clone())
    {
        arrows.remove(&free);
        for needs in arrows.values_mut() {
            needs.remove(&free);
        }
    }
    assert!(arrows.is_empty(), "in a cycle, or in need of one: {arrows:#?}");
}

//! The map of the parts is what the manifests say, and what was promised of them holds.

mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// What cargo says, without asking a registry.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--offline")
        .current_dir(support::repository())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

fn text(json: &Json) -> &str {
    json.as_str().expect("a text")
}

fn items(json: &Json) -> &[Json] {
    json.as_array().expect("a list")
}

/// The arrows between our packages: normal dependencies, optional ones too. What only tests use is no part.
fn arrows(metadata: &Json) -> Arrows {
    let packages: Vec<&Json> =
        items(&metadata["packages"]).iter().filter(|package| package["publish"].is_null()).collect();
    let ours: BTreeSet<&str> = packages.iter().map(|package| text(&package["name"])).collect();
    let uses = |package: &Json| {
        items(&package["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| text(&dependency["name"]))
            .filter(|name| ours.contains(name))
            .map(str::to_owned)
            .collect()
    };
    packages.iter().map(|package| (text(&package["name"]).to_owned(), uses(package))).collect()
}

/// The names in backticks of a cell.
fn names(cell: &str) -> impl Iterator<Item = String> + '_ {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// The arrows of ARCHITECTURE's table of parts: `| part | holds | may use | must not know |`.
fn table(architecture: &str) -> Arrows {
    let rows = architecture
        .lines()
        .skip_while(|line| !line.starts_with("| part | holds | may use |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        assert_eq!(cells.len(), 6, "a row has four cells: {row}");
        (names(cells[1]).next().expect("a part's name is in backticks"), names(cells[3]).collect())
    })
    .collect()
}

#[test]
fn the_table_of_parts_is_what_the_manifests_say() {
    let architecture =
        fs::read_to_string(support::repository().join("ARCHITECTURE.md")).expect("the map is there");
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let metadata = serde_json::from_str(&metadata).expect("cargo writes JSON");
    let (said, are) = (table(&architecture), arrows(&metadata));
    assert_eq!(
        said.keys().collect::<Vec<_>>(),
        are.keys().collect::<Vec<_>>(),
        "parts of the table, packages"
    );
    for (part, uses) in &are {
        let lacks: Vec<_> = uses.difference(&said[part]).collect();
        let gone: Vec<_> = said[part].difference(uses).collect();
        assert!(
            lacks.is_empty(),
            "{part} uses {lacks:?}, which its row of ARCHITECTURE's table does not allow"
        );
        assert!(
            gone.is_empty(),
            "{part} does not use {gone:?} any more: take it from its row of ARCHITECTURE's table"
        );
    }
}

/// The packages below `root` in what `cargo tree --prefix depth --no-dedupe` prints.
fn below(tree: &str, root: &str) -> BTreeSet<String> {
    let nodes = tree.lines().filter_map(|line| {
        let (depth, node) = line.split_at(line.find(|c: char| !c.is_ascii_digit())?);
        Some((depth.parse::<usize>().ok()?, node.split(' ').next()?))
    });
    let mut found = BTreeSet::new();
    let mut inside = None;
    for (depth, name) in nodes {
        // What follows a node and is deeper is below it.
        if inside.is_some_and(|top| depth <= top) {
            inside = None;
        }
        match inside {
            Some(_) => _ = found.insert(name.to_owned()),
            None if name == root => inside = Some(depth),
            None => {}
        }
    }
    found
}

#[test]
fn a_traced_program_gets_little_with_the_layer() {
    // Of this one package, so that features which others of the workspace ask for do not count: neither for the
    // layer, nor as something that tracing-subscriber would have brought anyway.
    let tree = cargo(&[
        "tree",
        "--package=jumpseat-layer",
        "--edges=normal",
        "--prefix=depth",
        "--no-dedupe",
        "--charset=ascii",
    ]);
    let brings = below(&tree, "jumpseat-layer");
    let mut there_anyway = below(&tree, "tracing-subscriber");
    assert!(there_anyway.contains("tracing-core"), "{tree}");
    there_anyway.insert("tracing-subscriber".to_owned());
    let more: Vec<_> = brings.difference(&there_anyway).collect();
    // Ours, two small ones, and rustix with what it is made of, for the memory that outlives the program.
    assert!(more.len() <= 6, "besides what tracing-subscriber brings: {more:?}");
    assert!(brings.iter().all(|name| !name.starts_with("pcp-")), "{brings:?}");
}

/// All Rust files below `folder`, tests left out.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of ours") {
        let path = entry.expect("a folder of ours").path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("tests" | "target") => {}
            _ if path.is_dir() => sources(&path, found),
            Some(name) if name.ends_with(".rs") => found.push(path),
            _ => {}
        }
    }
}

fn code() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for folder in ["src", "crates"] {
        sources(&support::repository().join(folder), &mut files);
    }
    assert!(files.len() > 100, "this looks at nothing");
    files
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a file of ours");
            (path, text)
        })
        .collect()
}

/// The same by its path below the repository, without the tests at its end.
fn named_code() -> impl Iterator<Item = (String, String)> {
    let root = support::repository().canonicalize().expect("the repository");
    code().into_iter().map(move |(path, text)| {
        let path = path.canonicalize().expect("a file of ours");
        let path = path.strip_prefix(&root).expect("below the repository").to_str().expect("a plain name");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        (path.to_owned(), code.to_owned())
    })
}

/// What stands between `start` and the next of `ends`, wherever `start` is.
fn after<'a>(text: &'a str, start: &'a str, ends: &'static [char]) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(move |rest| rest.split(ends).next())
}

#[test]
fn few_things_depend_on_features() {
    let conditions = |text: &str| {
        after(text, "cfg", &[']', '{', ';']).filter(|condition| condition.contains("feature = ")).count()
    };
    let count: usize = code().iter().map(|(_, text)| conditions(text)).sum();
    assert!(count <= 20, "{count} places depend on a feature: more than 20");
}

/// Places that open files for writing, or move them, without `pcp-files`: FILE, WHY.
const WRITERS: [(&str, &str); 7] = [
    ("crates/jumpseat-agent/src/derived/files.rs", "opens for reading only: the administrator's definitions"),
    (
        "crates/jumpseat-source/src/tracefs/instance.rs",
        "the kernel's own file system, where only root makes names",
    ),
    ("crates/jumpseat-source/src/tracefs/setup.rs", "the kernel's own file system, again"),
    (
        "crates/jumpseat-wire/src/remote/mod.rs",
        "opens for reading only: files of certificates and tokens that the program names",
    ),
    (
        "crates/jumpseat-tools/src/sampling/trace/mod.rs",
        "an output file that the user names on the command line",
    ),
    (
        "crates/jumpseat-tools/src/tool/messages.rs",
        "a file that the user's own environment names, as for PCP's tools",
    ),
    ("crates/pcp-net/src/unix.rs", "sockets, made under another name, and renamed"),
];

/// What opens a file for writing, or changes by its path what a name leads to, who owns it or who may use it.
const WRITES: [&str; 20] = [
    "File::create",
    "OpenOptions",
    "File::options",
    "fs::write",
    "fs::rename",
    "fs::copy",
    "hard_link(",
    "symlink(",
    "fs::set_permissions(",
    "fs::chown(",
    "unistd::chown(",
    "fchmodat(",
    "fchownat(",
    "lchown(",
    "openat(",
    "renameat(",
    "renameat2(",
    "create_dir(",
    "fcntl::open(",
    "mkfifo(",
];

#[test]
fn only_one_package_opens_files_for_writing() {
    let mut used = BTreeSet::new();
    for (path, code) in named_code() {
        let is_test = path.ends_with("/tests.rs") || !path.contains("src/");
        if is_test || path.starts_with("crates/pcp-files/") {
            continue;
        }
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let found: Vec<_> = lines.filter(|line| WRITES.iter().any(|word| line.contains(word))).collect();
        match WRITERS.iter().find(|(writer, _)| path.starts_with(writer)) {
            Some((writer, _)) if !found.is_empty() => _ = used.insert(*writer),
            _ => {
                assert!(found.is_empty(), "{path}: {found:?}: let pcp-files do it, or say in WRITERS why not")
            }
        }
    }
    let unused: Vec<_> = WRITERS.iter().filter(|(writer, _)| !used.contains(writer)).collect();
    assert!(unused.is_empty(), "take them from WRITERS: {unused:?}");
}

/// Places that hash texts without a key of the process: FILE, WHY.
const UNKEYED: [(&str, &str); 3] = [
    ("crates/jumpseat-source/src/scrape/known.rs", "whether an answer's families are others, in one number"),
    ("crates/jumpseat-source/src/scrape/target.rs", "when a target has its turn: in each process the same"),
    (
        "crates/jumpseat-wire/src/encode.rs",
        "a program's own names, in its own memory, and little comes with the layer",
    ),
];

/// Whoever knows how names are hashed can send as many as there may be with one hash: each costs a look at all of them.
#[test]
fn what_others_choose_is_hashed_with_a_key() {
    let mut used = BTreeSet::new();
    for (path, code) in named_code() {
        let is_text = |key: &str| ["str", "String", "u8", "Path"].iter().any(|word| key.contains(word));
        // The value of a map may be a text.
        let keys = |start| after(&code, start, &[',', '>', '=', ';']).filter(|key| is_text(key)).count();
        let count = keys("FxHashMap<(") + keys("FxHashMap<") + keys("FxHashSet<");
        if count + code.matches("FxHasher::").count() + code.matches("FxBuildHasher").count() == 0 {
            continue;
        }
        let known = UNKEYED.iter().find(|(known, _)| *known == path);
        let (known, _) = known.unwrap_or_else(|| {
            panic!("{path}: texts by rustc-hash: let hashbrown's maps have them, or say in UNKEYED why not")
        });
        used.insert(*known);
    }
    let unused: Vec<_> = UNKEYED.iter().filter(|(known, _)| !used.contains(known)).collect();
    assert!(unused.is_empty(), "take them from UNKEYED: {unused:?}");
}

#[test]
fn nothing_panics_because_nobody_can_read_what_is_printed() {
    for (path, text) in code() {
        let path = path.display().to_string();
        if path.contains("/tests") || path.contains("/benches/") || path.contains("/examples/") {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let found: Vec<_> =
            lines.filter(|line| ["println!(", "print!("].iter().any(|word| line.contains(word))).collect();
        assert!(
            found.is_empty(),
            "{path}: {found:?}: let sayln! or complain! do it, which do not end the program"
        );
    }
}

/// Where `file`, as said in a file in `folder`, leads, if that is not out of `package`.
fn inside(package: &Path, folder: &Path, file: &str) -> Option<PathBuf> {
    let mut at = folder.to_owned();
    for step in Path::new(file).components() {
        match step {
            Component::ParentDir => _ = at.pop(),
            step => at.push(step),
        }
        if !at.starts_with(package) {
            return None;
        }
    }
    Some(at)
}

#[test]
fn no_package_needs_files_outside_it() {
    for (path, text) in code() {
        let shown = path.display();
        let folder = path.parent().expect("a file is in a folder");
        let package = path.ancestors().find(|folder| folder.join("Cargo.toml").is_file()).expect("a package");
        let included = ["include_str!(", "include_bytes!(", "include!(", "#[path = "];
        for argument in included.into_iter().flat_map(|word| after(&text, word, &[')', ']'])) {
            // A list of files below the package's folder: the compiler sees to it that they are there.
            if argument.starts_with("concat!(env!(\"CARGO_MANIFEST_DIR\"") {
                assert!(!text.contains("\"../"), "{shown}: a file is outside the package");
                continue;
            }
            let file = argument.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let file = file.unwrap_or_else(|| panic!("{shown}: {argument} should be a text, for this test"));
            let at = inside(package, folder, file);
            let at = at.unwrap_or_else(|| panic!("{shown}: {file} is outside the package"));
            assert!(at.is_file(), "{shown}: {file} is not there");
        }
    }
}

/// The documents for people, with their texts.
fn documents() -> Vec<(PathBuf, String)> {
    let root = support::repository();
    let folders = [root.clone(), root.join("docs"), root.join("docs/pcp"), root.join("docs/sources")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder of ours"));
    files
        .map(|entry| entry.expect("an entry of it").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a document is a text");
            (path, text)
        })
        .collect()
}

/// The places that a text gives in backticks or as links: `tests/data`, and rooms of a package as `pcp-event/log`.
fn places<'a>(text: &'a str, packages: &'a [String]) -> impl Iterator<Item = (&'a str, Vec<PathBuf>)> {
    let root = support::repository();
    let top = ["benches", "crates", "docs", "examples", "fuzz", "help", "install", "pmns", "src", "tests"];
    let inline = text.split('`').skip(1).step_by(2);
    inline.chain(after(text, "](", &[')'])).filter_map(move |place| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/_-.".contains(c);
        let (first, rest) = place.split_once('/').filter(|_| place.chars().all(plain))?;
        if packages.iter().any(|package| package == first) {
            let room = root.join("crates").join(first).join("src").join(rest);
            return Some((place, vec![room.with_extension("rs"), room]));
        }
        top.contains(&first).then(|| (place, vec![root.join(place)]))
    })
}

#[test]
fn what_the_documents_point_to_is_there() {
    let packages: Vec<String> = fs::read_dir(support::repository().join("crates"))
        .expect("the packages")
        .map(|entry| entry.expect("a package").file_name().into_string().expect("a plain name"))
        .collect();
    let mut seen = 0;
    for (document, text) in documents() {
        for (place, candidates) in places(&text, &packages) {
            seen += 1;
            assert!(
                candidates.iter().any(|path| path.exists()),
                "{}: {place} is not there",
                document.display()
            );
        }
    }
    assert!(seen > 80, "this looks at nothing: {seen} places");
}

/// `tests/data/check-recorded` says what it compared.
#[test]
fn recorded_answers_are_those_of_the_installed_library() {
    let script = support::repository().join("tests/data/check-recorded");
    let output = Command::new("python3").arg(&script).output().expect("there is a python3");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let same =
        |line: &str| line.split(", ").find_map(|part| part.strip_suffix(" the same")?.parse::<u32>().ok());
    assert!(said.lines().filter_map(same).sum::<u32>() > 17_000, "{said}");
}

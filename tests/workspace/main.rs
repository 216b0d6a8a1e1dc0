//! The map of the parts is what the manifests say, and what was promised of them holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// What `cargo metadata` says, without asking a registry.
fn metadata(options: &[&str]) -> Json {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(options)
        .current_dir(support::repository())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
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
    let (said, are) = (table(&architecture), arrows(&metadata(&["--no-deps"])));
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

/// All that a package of this name brings, itself included, built as its dependents here build it.
fn closure(metadata: &Json, name: &str) -> BTreeSet<String> {
    let nodes: BTreeMap<&str, &Json> =
        items(&metadata["resolve"]["nodes"]).iter().map(|node| (text(&node["id"]), node)).collect();
    let package = |id: &str| {
        let found = items(&metadata["packages"]).iter().find(|package| text(&package["id"]) == id);
        text(&found.expect("each node is a package")["name"]).to_owned()
    };
    let start = nodes.keys().copied().find(|id| package(id) == name).expect("the package is there");
    let (mut todo, mut seen) = (vec![start], BTreeSet::new());
    while let Some(id) = todo.pop() {
        if !seen.insert(id) {
            continue;
        }
        let normal =
            |dependency: &&Json| items(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        todo.extend(
            items(&nodes[id]["deps"]).iter().filter(normal).map(|dependency| text(&dependency["pkg"])),
        );
    }
    seen.into_iter().map(package).collect()
}

#[test]
fn a_traced_program_gets_little_with_the_layer() {
    // The layer as a package of its own: features that other packages of the workspace ask for do not count.
    let manifest = support::repository().join("crates/jumpseat-layer/Cargo.toml");
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--manifest-path"])
        .arg(manifest)
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let brings: BTreeSet<String> = String::from_utf8_lossy(&tree.stdout)
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.is_empty() && *name != "jumpseat-layer")
        .map(str::to_owned)
        .collect();
    let there_anyway = closure(&metadata(&[]), "tracing-subscriber");
    let more: Vec<_> = brings.difference(&there_anyway).collect();
    assert!(more.len() <= 4, "besides what tracing-subscriber brings: {more:?}");
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

#[test]
fn few_things_depend_on_features() {
    let conditional = |line: &&str| line.contains("cfg") && line.contains("feature = ");
    let count: usize = code().iter().map(|(_, text)| text.lines().filter(conditional).count()).sum();
    assert!(count <= 20, "{count} places depend on a feature: more than 20");
}

#[test]
fn no_package_needs_files_outside_it() {
    for (path, text) in code() {
        let package = path.ancestors().find(|folder| folder.join("Cargo.toml").is_file()).expect("a package");
        let included = text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next());
        for file in included {
            let mut at = path.parent().expect("a folder").to_owned();
            for step in Path::new(file).components() {
                match step {
                    std::path::Component::ParentDir => assert!(at.pop(), "{}: {file}", path.display()),
                    step => at.push(step),
                }
                assert!(at.starts_with(package), "{}: {file} is outside the package", path.display());
            }
            assert!(at.is_file(), "{}: {file} is not there", path.display());
        }
    }
}

//! What registries and hosted documentation show of the packages.

use std::process::Command;

use serde_json::Value as Json;
use support::repository;

fn cargo(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO")).args(arguments).arg("--offline").current_dir(repository()).output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// The packages that are published.
fn packages() -> Vec<Json> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Json = serde_json::from_str(&metadata).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("a list").iter();
    packages.filter(|package| package["publish"].is_null()).cloned().collect()
}

#[test]
fn every_package_says_what_it_is_and_where_it_is_documented() {
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        for key in ["description", "readme", "documentation", "homepage", "license", "rust_version"] {
            assert!(package[key].is_string(), "{name}: no {key}");
        }
        assert_eq!(package["documentation"], format!("https://docs.rs/{name}"));
        let number = |key: &str| package[key].as_array().map_or(0, Vec::len);
        assert!((1..=5).contains(&number("keywords")) && (1..=5).contains(&number("categories")), "{name}");
        let hosted = &package["metadata"]["docs"]["rs"];
        assert_eq!(hosted["all-features"], true, "{name}");
        assert_eq!(hosted["targets"][0], "x86_64-unknown-linux-gnu", "{name}");
    }
}

#[test]
fn every_feature_is_in_the_documentation_of_its_package() {
    for package in packages() {
        let manifest = package["manifest_path"].as_str().expect("a path");
        let library = manifest.replace("Cargo.toml", "src/lib.rs");
        let text = std::fs::read_to_string(&library).unwrap_or_else(|error| panic!("{library}: {error}"));
        for feature in
            package["features"].as_object().expect("a map").keys().filter(|name| *name != "default")
        {
            assert!(text.contains(&format!("//! | `{feature}` | ")), "{library}: no line for `{feature}`");
        }
    }
}

/// Tests and their data stay at home.
#[test]
fn published_packages_are_small() {
    const MOST: u64 = 2_000_000;
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        let folder = std::path::Path::new(package["manifest_path"].as_str().expect("a path")).parent();
        let folder = folder.expect("a manifest is in a folder");
        let list = cargo(&["package", "--list", "--allow-dirty", "--package", name]);
        assert!(list.lines().any(|file| file == "src/lib.rs"), "{name}: {list}");
        assert!(
            !list.lines().any(|file| file.starts_with("tests/") || file.starts_with("fuzz/")),
            "{name}: {list}"
        );
        // Files that cargo makes for the package are not there.
        let size = |file: &str| folder.join(file).metadata().map_or(0, |metadata| metadata.len());
        let total: u64 = list.lines().map(size).sum();
        assert!(total < MOST, "{name}: {total} bytes");
    }
}

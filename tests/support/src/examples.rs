//! The programs of the packages' examples.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::repository;

/// The program of a package's example, up to date.
///
/// Whoever builds all tests has built it. Built from here, for its package alone, the packages it depends on may have other
/// features, so that cargo would compile them all once more.
///
/// # Panics
/// If it does not compile.
pub fn example(package: &str, name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its program");
    // target/<profile>/deps/<this test>
    let profile = test.ancestors().nth(2).expect("cargo's own layout");
    let program = profile.join("examples").join(name);
    if !is_up_to_date(&program) {
        build(package, name, profile.ends_with("release"));
    }
    program
}

/// Whether a program is there and newer than all that it was made of, as cargo noted next to it.
fn is_up_to_date(program: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let noted = std::fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let (Some(built), Some((_, sources))) = (modified(program), noted.split_once(": ")) else {
        return false;
    };
    // A source that is gone, or has a blank in its path, is not found: then cargo is asked, which knows.
    let older = |source: &str| modified(Path::new(source)).is_some_and(|written| written < built);
    sources.split_ascii_whitespace().all(older)
}

/// Builds the example with the very cargo that builds the tests.
fn build(package: &str, name: &str, release: bool) {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", package, "--example", name]);
    command.current_dir(repository());
    // What cargo tells this test of its package: build scripts would take it for their own, and run anew each time.
    for (name, _) in std::env::vars_os() {
        let told = name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"]
                .iter()
                .any(|own| name.starts_with(own))
        });
        if told {
            command.env_remove(name);
        }
    }
    if release {
        command.arg("--release");
    }
    assert!(command.status().expect("cargo runs").success(), "example {name} of {package} does not compile");
}

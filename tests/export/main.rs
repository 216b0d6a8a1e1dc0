//! `jumpseat export` as people run it, read by what people read its files with: pyarrow, DuckDB, promtool.

mod docs;
mod lake;
#[allow(dead_code, reason = "each area uses a part of it")]
#[path = "../seat/mod.rs"]
mod seat;
mod text;

use std::path::Path;

use support::{Output, PcpEnv};

use seat::JUMPSEAT;

/// Where ./test puts pyarrow, DuckDB, moto and Prometheus' own parser.
pub(crate) const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/lake-python");

/// Archives of real machines, of Debian's package pcp-testsuite.
pub(crate) fn archive(name: &str) -> String {
    format!("/var/lib/pcp/testsuite/archives/{name}")
}

/// Runs `jumpseat export`.
pub(crate) fn export<'a>(words: impl IntoIterator<Item = &'a str>) -> Output {
    PcpEnv::new().run(JUMPSEAT, ["export"].into_iter().chain(words))
}

/// Runs Python with those packages.
#[track_caller]
pub(crate) fn python<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    assert!(
        Path::new(PYTHON).join("duckdb").is_dir(),
        "DuckDB is not in {PYTHON}: run ./test, which installs it there"
    );
    let mut env = PcpEnv::new();
    env.set("PYTHONPATH", PYTHON);
    env.run("python3", words).ok()
}

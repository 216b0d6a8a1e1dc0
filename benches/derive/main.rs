//! Derived metrics against libpcp on the paths that users use: [`Context`](jumpseat::client::Context) on an archive and on a host; the agent
//! under pmcd; registering, binding and compiling many definitions; and how the cost of one grows with their number.
//!
//! Definitions are all different: no two have the same pair of operands ([`workload`]). Both sides read every value they get, and
//! all values of one fetch are compared before any time counts ([`peer`]). A time is processor time beyond that of fetching
//! the operands alone, which is measured the same way on each side.
//!
//! Needs PCP installed; `./test` does that.

#[path = "../common/mod.rs"]
mod common;

mod agent;
mod clients;
mod growth;
mod host;
mod peer;
mod registering;
mod workload;

use peer::Archive;

/// Instances of each metric, where there are many values.
const INSTANCES: usize = 1000;
const EXPRESSIONS: usize = 1000;

fn main() {
    if std::env::args().nth(1).is_some_and(|arg| arg == host::AGENT) {
        host::serve();
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let wanted = |part: &str| {
        let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
        named.is_empty() || named.iter().any(|name| name == part)
    };
    if wanted("archive") {
        let archive = Archive::make(directory.path(), "wide", EXPRESSIONS, INSTANCES, 10);
        clients::on_archive(&archive, EXPRESSIONS);
    }
    if wanted("host") {
        host::race(EXPRESSIONS, INSTANCES);
    }
    if wanted("agent") {
        agent::race(EXPRESSIONS);
    }
    if wanted("register") {
        for (definitions, goal) in [(100, 5.0), (10_000, 20.0)] {
            let archive = Archive::make(directory.path(), &format!("r{definitions}"), definitions, 1, 10);
            registering::race(&archive, definitions, goal);
        }
    }
    if wanted("growth") {
        growth::race(&Archive::make(directory.path(), "growth", 10_000, 100, 10));
    }
}

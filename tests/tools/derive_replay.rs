//! Replays what real PCPs of three versions did with derived metrics.

use jumpseat::derive::Level;
use jumpseat::derive::replay::{Outcome, replay};

fn check(file: &str, level: Level) {
    let path = format!("{}/tests/data/derive/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let (mut failed, mut passed) = (0, 0);
    for line in text.lines() {
        match replay(line, level).unwrap_or_else(|error| panic!("{error}: {line}")) {
            Outcome::Passed => passed += 1,
            Outcome::Undefined => {}
            Outcome::Failed(how) => {
                failed += 1;
                println!("{} {how}", &line[..line.len().min(60)]);
            }
        }
    }
    assert!(failed == 0 && passed > 0, "{file} at {level:?}: {passed} passed, {failed} failed");
}

#[test]
fn parsing() {
    check("parse-cases.ndjson", Level::V603);
    check("parse-cases.ndjson", Level::V638);
    check("parse-cases.ndjson", Level::V721);
}

#[test]
fn configuration_files() {
    check("config-cases.ndjson", Level::V603);
    check("config-cases.ndjson", Level::V638);
    check("config-cases.ndjson", Level::V721);
}

#[test]
fn binding() {
    check("bind-cases.ndjson", Level::V603);
    check("bind-cases.ndjson", Level::V638);
    check("bind-cases.ndjson", Level::V721);
}

#[test]
fn evaluation() {
    check("eval-cases.ndjson", Level::V603);
    check("eval-cases.ndjson", Level::V638);
    check("eval-cases.ndjson", Level::V721);
}

/// Random patterns and instance names, with what glibc's `regcomp` and `regexec` say.
#[test]
fn patterns() {
    check("pattern-cases.ndjson", Level::V638);
}

/// What comparing random definitions with PCP has found (`tests/derive_differential`).
#[test]
fn found_by_comparing() {
    check("found-cases.ndjson", Level::V603);
    check("found-cases.ndjson", Level::V638);
}

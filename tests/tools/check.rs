//! `jumpseat check` and `--repair` as users call them. What is found, and what is whole, is tested in `pcp-archive`.

use std::ffi::OsStr;

use support::{PcpEnv, temp_dir};

use crate::seat::JUMPSEAT;

const BAD: &str = "/var/lib/pcp/testsuite/badarchives";
const GOOD: &str = "/var/lib/pcp/testsuite/archives/ok-foo";

#[test]
fn archives_are_checked_and_written_anew() {
    let env = PcpEnv::new();
    let run = |words: &[&str]| env.run(JUMPSEAT, ["check"].iter().chain(words).map(OsStr::new));
    assert_eq!(
        run(&[GOOD]).ok(),
        format!("{GOOD}: 9 records, 11 of metadata: 0 errors, 0 warnings, 0 notes\n")
    );

    let cut = format!("{BAD}/ok-truncbin");
    let said = run(&[GOOD, &cut]);
    assert_eq!(said.status.code(), Some(1), "{said}");
    assert!(
        said.stdout.contains("ok-truncbin.0 at byte 204456: error: 344 bytes that are no record"),
        "{said}"
    );
    assert_eq!(run(&["/nosuch"]).status.code(), Some(2));

    let dir = temp_dir();
    let out = dir.path().join("anew");
    let out = out.to_str().expect("a usual name");
    let said = run(&["--json", "--repair", out, &cut]).ok();
    let tail = r#""repaired":{"archive":"#;
    assert!(said.contains(tail) && said.contains(r#""kind":"damage""#), "{said}");
    assert!(said.contains(r#""records":416"#), "{said}");
    assert_eq!(env.run("pmlogcheck", [out]).ok(), "");
    let times = |name: &str| {
        // It complains at the end of what is cut off.
        let dumped = env.run("pmdumplog", ["-Z", "UTC", name]).stdout;
        dumped.lines().filter(|line| line.contains(" metric")).map(str::to_owned).collect::<Vec<_>>()
    };
    // Version 3 has nanoseconds.
    let anew: Vec<String> = times(out).iter().map(|time| time.replacen("000 ", " ", 1)).collect();
    assert!(anew.len() > 400, "pmdumplog printed {} records of 416", anew.len());
    assert_eq!(anew, times(&cut));

    let again = run(&["--repair", out, &cut]);
    assert_eq!(again.status.code(), Some(2));
    assert!(again.stderr.contains("is there already"), "{again}");
    // Version 1 has no label that is read.
    let nothing =
        run(&["--repair", dir.path().join("none").to_str().expect("a usual name"), &format!("{BAD}/ace")]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(nothing.stderr.contains("no label can be read: nothing is written"), "{nothing}");
    assert_eq!(run(&["--repair", out, GOOD, &cut]).status.code(), Some(2));
}

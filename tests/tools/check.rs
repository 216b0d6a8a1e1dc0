//! `jumpseat check` and `--repair` as users call them. What is found, and what is whole, is tested in `pcp-archive`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use support::{PcpEnv, temp_dir};

use crate::seat::JUMPSEAT;
use crate::terminal::on_a_terminal;

const BAD: &str = "/var/lib/pcp/testsuite/badarchives";
const GOOD: &str = "/var/lib/pcp/testsuite/archives/ok-foo";
/// Where in a file of version 2 the host of its label begins.
const HOST: usize = 24;

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
    // Nothing but what went back, and nothing but what is read otherwise than it can be meant.
    for (archive, told) in
        [("badlog-2", "0 errors, 0 warnings, 1 notes"), ("badmeta-2", " errors, 11 warnings, ")]
    {
        let said = run(&[&format!("{BAD}/{archive}")]);
        assert_eq!(said.status.code(), Some(0), "{said}");
        assert!(said.stdout.contains(told), "{said}");
    }
    let said = run(&["-w", &format!("{BAD}/badlog-2")]).ok();
    assert_eq!(said, format!("{BAD}/badlog-2: 9 records, 11 of metadata: 0 errors, 0 warnings, 0 notes\n"));
    let said = run(&["-w", "--json", &format!("{BAD}/badlog-2")]).ok();
    assert!(said.contains(r#""counts":{}"#) && said.contains(r#""more":0"#), "{said}");

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

#[test]
fn files_that_are_missing_foreign_or_unreadable_are_told_of() {
    const WHOLE: &str = "/var/lib/pcp/testsuite/archives/ok-mv-bigbin";
    let env = PcpEnv::new();
    let run = |words: &[&str]| env.run(JUMPSEAT, ["check"].iter().chain(words).map(OsStr::new));
    let dir = temp_dir();
    let base = dir.path().join("a");
    let base = base.to_str().expect("a usual name");
    for suffix in (0..10).map(|number| number.to_string()).chain(["meta".into(), "index".into()]) {
        std::fs::copy(format!("{WHOLE}.{suffix}"), format!("{base}.{suffix}")).expect("copied");
    }
    let volume = format!("{base}.4");
    let mut bytes = std::fs::read(&volume).expect("there");
    std::fs::remove_file(&volume).expect("there");
    let said = run(&[base]);
    assert_eq!(said.status.code(), Some(1), "{said}");
    assert!(said.stdout.starts_with(&format!("{base}.4: error: volume 4 is missing\n")), "{said}");
    assert!(run(&["--json", base]).stdout.contains(r#""counts":{"missing":1}"#));

    // Of another process.
    bytes[11] ^= 1;
    std::fs::write(&volume, bytes).expect("written");
    let out = format!("{base}-anew");
    let said = run(&["--repair", &out, base]).ok();
    assert!(
        said.contains("a.4 at byte 0: error: of another archive: version 2, host moomba, process "),
        "{said}"
    );
    assert!(
        said.ends_with(
            "1 marks where some were lost\n  left out: 101 records in volumes of another archive\n"
        ),
        "{said}"
    );
    assert_eq!(env.run("pmlogcheck", [&out]).ok(), "");

    std::fs::remove_file(&volume).expect("there");
    std::fs::create_dir(&volume).expect("writable");
    let said = run(&[base]);
    assert_eq!(said.status.code(), Some(2), "{said}");
    assert!(said.stdout.contains("a.4: error: Is a directory"), "{said}");
    // The rest is written, and that it is not all is told.
    for (number, words) in [&["--repair"][..], &["--json", "--repair"]].into_iter().enumerate() {
        let out = format!("{base}-rest{number}");
        let said = run(&[words, &[&out, base]].concat());
        assert_eq!(said.status.code(), Some(2), "{said}");
        assert!(said.stdout.contains("files that cannot be read"), "{said}");
        assert_eq!(env.run("pmlogcheck", [&out]).ok(), "");
    }
}

/// A copy of the sound archive.
fn copied(base: &Path) {
    for suffix in [".0", ".meta", ".index"] {
        let mut to = base.as_os_str().to_owned();
        to.push(suffix);
        std::fs::copy(format!("{GOOD}{suffix}"), to).expect("copied");
    }
}

#[test]
fn names_of_any_bytes_are_told_of_in_json() {
    let env = PcpEnv::new();
    let dir = temp_dir();
    let odd = dir.path().join(OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir(&odd).expect("writable");
    let (base, out) = (odd.join("a"), odd.join("out"));
    copied(&base);
    let words =
        [OsStr::new("check"), "--json".as_ref(), "--repair".as_ref(), out.as_os_str(), base.as_os_str()];
    let said = env.run(JUMPSEAT, words).ok();
    for name in ["a", "out"] {
        let told = format!("{}/odd\u{fffd}/{name}", dir.path().display());
        assert!(said.contains(&format!(r#""archive":"{told}""#)), "{said}");
    }
}

#[test]
fn what_archives_say_does_not_drive_a_terminal() {
    let dir = temp_dir();
    let base = dir.path().join("a");
    copied(&base);
    // The label of the metadata: its host is what is told, as another one than that of the other files.
    let path = dir.path().join("a.meta");
    let mut bytes = std::fs::read(&path).expect("there");
    let host = b"\x1b]0;gotcha\x07\xc2\x9b2J\0";
    bytes[HOST..HOST + host.len()].copy_from_slice(host);
    std::fs::write(&path, bytes).expect("writable");
    let base = base.to_str().expect("a usual name");
    for words in [&["check", base][..], &["check", "--json", base]] {
        let shown = on_a_terminal(JUMPSEAT, "jumpseat", words);
        assert!(shown.contains("gotcha"), "{words:?}: {shown:?}");
        assert!(!shown.contains(['\u{9b}', '\x07', '\x1b']), "{words:?}: {shown:?}");
    }
}

#[test]
fn a_repair_that_is_interrupted_leaves_nothing() {
    let env = PcpEnv::new();
    let dir = temp_dir();
    let out = dir.path().join("anew");
    // The signal is there before the program is, and waits for it.
    let script = r#"kill -s "$1" $$; exec "$2" check --repair "$3" "$4""#;
    for signal in ["INT", "TERM", "HUP"] {
        let block = format!("--block-signal={signal}");
        let words = [&block, "sh", "-c", script, "sh", signal, JUMPSEAT];
        let words = words.into_iter().map(OsStr::new).chain([out.as_os_str(), GOOD.as_ref()]);
        let said = env.run("env", words);
        assert_eq!(said.status.code(), Some(2), "{signal}: {said}");
        assert!(said.stderr.contains("anew: stopped before all was written: nothing is"), "{signal}: {said}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0, "{signal}");
    }
}

//! `jumpseat derive` as its users see it.

use std::fs;
use std::path::Path;
use std::process::Command;

fn derive(directory: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_jumpseat"))
        .arg("derive")
        .args(args)
        .current_dir(directory)
        .output()
        .expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("messages are UTF-8");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

const METRICS: &str = "\
# what the manual's example needs
sample.milliseconds DOUBLE counter - millisec
network.interface.total.bytes U64 counter 60.3 byte
network.interface.speed FLOAT discrete 60.3 Mbyte / sec
";

/// The example of pmRegisterDerived(3), which has this table in the manual.
#[test]
fn explain_shows_the_table_of_the_manual() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("metrics"), METRICS).unwrap();
    let expression =
        "delta(network.interface.total.bytes) / delta(sample.milliseconds) / network.interface.speed";
    let (status, stdout, _) = derive(directory.path(), &["explain", "-m", "metrics", expression]);
    let expected = "\
Expression                                Type    Semantics  Dimension & Scale  Instances  Notes
      network.interface.total.bytes       U64     counter    byte               60.3
    delta(network.interface.total.bytes)  DOUBLE  instant    byte               60.3
      sample.milliseconds                 DOUBLE  counter    millisec           -
    delta(sample.milliseconds)            DOUBLE  instant    millisec           -
  delta(...) / delta(...)                 DOUBLE  instant    byte / millisec    60.3
  network.interface.speed                 FLOAT   discrete   Mbyte / sec        60.3
(...) / network.interface.speed           DOUBLE  instant    none               60.3       left /1048576 and *1000
";
    assert_eq!((status, stdout.as_str()), (0, expected));
}

#[test]
fn check_reports_all_problems_at_once() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("metrics"), METRICS).unwrap();
    fs::write(
        directory.path().join("c.conf"),
        "a.good = rate(network.interface.total.bytes)\n\
         a.syntax = 1 +\n\
         a.rule = network.interface.total.bytes * sample.milliseconds\n\
         a.nested = a.good * 2\n",
    )
    .unwrap();
    let (status, stdout, _) = derive(directory.path(), &["check", "--metrics", "metrics", "c.conf"]);
    let expected = "\
c.conf:2:14: error: Arithmetic expression expected to follow PLUS
  a.syntax = 1 +
                ^
error: Illegal operator for counters
  a.rule = network.interface.total.bytes * sample.milliseconds
           ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~ ^ ~~~~~~~~~~~~~~~~~~~
  network.interface.total.bytes: U64 counter, byte, instances 60.3
  sample.milliseconds: DOUBLE counter, millisec, singular
  help: counters can be added to and subtracted from each other; for anything else take rate() or delta() of both first
3 definitions, 2 problems
";
    assert_eq!((status, stdout.as_str()), (1, expected));
    let (_, stdout, _) = derive(directory.path(), &["check", "--level", "6.3.8", "-m", "metrics", "c.conf"]);
    assert!(stdout.contains("error: Illegal nested derived metric: a.good\n"), "{stdout}");
    let (status, stdout, _) = derive(directory.path(), &["check", "c.conf"]);
    assert_eq!((status, stdout.lines().last()), (1, Some("3 definitions, 1 problems")));
    let (status, _, stderr) = derive(directory.path(), &["check", "no.such.file"]);
    assert!(status == 2 && stderr.contains("no.such.file"), "{stderr}");
}

#[test]
fn definitions_come_from_files_directories_and_lists_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::create_dir_all(path.join("dir/below")).unwrap();
    fs::write(path.join("metrics"), METRICS).unwrap();
    fs::write(path.join("dir/below/a"), "a.one = sample.milliseconds\n").unwrap();
    fs::write(path.join("b"), "b.two = rate(a.one)\n").unwrap();
    let (status, stdout, _) = derive(path, &["check", "-m", "metrics", "dir:b:"]);
    assert_eq!((status, stdout.as_str()), (0, "2 definitions, 0 problems\n"));
    let (status, _, stderr) = derive(path, &["check", "dir:none"]);
    assert!(status == 2 && stderr.contains("none: No such file"), "{stderr}");

    let output = Command::new(env!("CARGO_BIN_EXE_jumpseat"))
        .args(["derive", "explain", "-m", "metrics", "b.two"])
        .env("PCP_DERIVED_CONFIG", "dir:b")
        .current_dir(path)
        .output()
        .expect("the binary runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nrate(sample.milliseconds)"), "{output:?}");
}

#[test]
fn replay_counts_and_shows_what_differs() {
    let directory = tempfile::tempdir().unwrap();
    let good = r#"{"id":"a/1","pcp":"6.3.8","src":"a+b","ok":true,"tree":"(PLUS a b)"}"#;
    let bad = r#"{"id":"a/2","pcp":"6.3.8","src":"a b","ok":true,"tree":"(PLUS a b)"}"#;
    fs::write(directory.path().join("good"), format!("{good}\n")).unwrap();
    fs::write(directory.path().join("bad"), format!("{good}\n{bad}\n")).unwrap();
    let (status, stdout, _) = derive(directory.path(), &["replay", "good"]);
    assert_eq!((status, stdout.as_str()), (0, "1 passed, 0 failed\n"));
    let (status, stdout, _) = derive(directory.path(), &["replay", "good", "bad"]);
    assert_eq!(status, 1);
    assert!(stdout.starts_with("bad:2: a b\n  expected (PLUS a b)\n"), "{stdout}");
    assert!(stdout.ends_with("\n2 passed, 1 failed\n"), "{stdout}");
    fs::write(directory.path().join("broken"), "{}\n").unwrap();
    let (status, _, stderr) = derive(directory.path(), &["replay", "broken"]);
    assert_eq!((status, stderr.as_str()), (2, "jumpseat: broken: broken:1: bad field: pcp\n"));
}

/// A mark below a place beyond 65,535 columns, which is more than a width of `format!` can be.
#[test]
fn very_long_definitions_are_told_of() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("metrics"), METRICS).unwrap();
    let name = "x".repeat(70_000);
    let text =
        format!("a = {}*2\n{name} = 1 + * 2\nb = sample.milliseconds + {name}.y\n", "1+".repeat(40_000));
    fs::write(directory.path().join("long"), text).unwrap();
    let (status, stdout, stderr) = derive(directory.path(), &["check", "-m", "metrics", "long"]);
    assert_eq!(status, 1, "{stderr}");
    assert!(stdout.ends_with("1 definitions, 3 problems\n"), "{}", &stdout[stdout.len() - 200..]);
    let expression = format!("1 + {}", "mkconst(1) + ".repeat(10_000));
    let (status, ..) = derive(directory.path(), &["explain", "-m", "metrics", &expression]);
    assert_eq!(status, 1);
}

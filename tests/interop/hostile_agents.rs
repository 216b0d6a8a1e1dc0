//! Agents started, stopped and controlled by people who get it wrong.

use crate::seat::{JUMPSEAT, PMDA, Seat, Transport};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{PrivatePmcd, eventually, temp_dir, wait_until};

#[test]
fn a_second_agent_does_not_hand_out_ids_from_the_same_files() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let first = seat.serve([]);
    seat.feed([], "{\"type\":\"a\",\"n\":1}\n").ok();
    let before = fs::read_to_string(seat.state_dir().join("400.4")).expect("the first agent's ids");
    let second = Command::new(JUMPSEAT)
        .args(["serve", "--listen", "127.0.0.1:0", "--socket"])
        .arg(dir.path().join("second.socket"))
        .arg("--state-dir")
        .arg(seat.state_dir())
        .output()
        .expect("the program is built");
    let message = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{message}");
    let told = format!("400.1: process {} uses it; stop that one", first.process.pid());
    assert!(message.contains(&told), "{message}");
    let after = fs::read_to_string(seat.state_dir().join("400.4")).expect("the first agent's ids");
    assert_eq!(before, after);
}

#[test]
fn ids_stay_after_a_kill_and_a_restart_at_once() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let mut first = seat.serve([]);
    seat.feed([], "{\"type\":\"a\",\"one\":1}\n{\"type\":\"b\",\"two\":\"x\"}\n").ok();
    let before = first.run("pminfo", ["-m", "jumpseat.field"]).ok();
    first.process.crash();
    // Another directory for the logs, the same identifiers.
    let again = temp_dir();
    symlink(seat.state_dir(), again.path().join("ids")).expect("the test's directory is writable");
    let seat = Seat::in_dir(again.path(), "");
    let second = seat.serve([]);
    seat.feed([], "{\"type\":\"b\",\"three\":1,\"two\":\"y\"}\n").ok();
    let after = second.run("pminfo", ["-m", "jumpseat.field"]).ok();
    for line in before.lines() {
        assert!(after.contains(line), "{line} is not in\n{after}");
    }
}

#[test]
fn the_log_says_what_a_control_would_have_allowed() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let log = builder.dir().join("jumpseat.log");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    for (control, value, allowed) in [
        ("source_budget", "1000", "65536 to 67108864 bytes"),
        ("total_budget", "5", "16777216 bytes or more"),
        ("fetch_limit", "99999999999", "131072 to 12582912 bytes"),
        ("recent", "5000", "0 to 1000"),
    ] {
        let refused = pmcd.run("pmstore", [format!("jumpseat.control.{control}").as_str(), value]);
        assert!(refused.stdout.contains("Bad input"), "{refused}");
        let line = format!("jumpseat.control.{control} = {value} refused: allowed is {allowed}");
        eventually("the reason in the log", || {
            fs::read_to_string(&log).unwrap_or_default().contains(&line).then_some(())
        });
    }
}

/// Runs the agent as pmcd does, over pipes, with what `input` is; its exit code and log.
fn run_over(input: impl Into<Stdio>, bytes: &[u8]) -> (Option<i32>, String) {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let mut agent = Command::new(PMDA)
        .args(seat.args())
        .current_dir(dir.path())
        .stdin(input)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program is built");
    if let Some(mut pipe) = agent.stdin.take() {
        // An agent that has given up takes no more.
        let _ = pipe.write_all(bytes);
    }
    let code = wait_until(Duration::from_secs(10), || agent.try_wait().expect("our own child"));
    if code.is_none() {
        agent.kill().expect("our own child");
    }
    let log = fs::read_to_string(dir.path().join("jumpseat.log")).unwrap_or_default();
    (code.unwrap_or_else(|| panic!("the agent still runs:\n{log}")).code(), log)
}

#[test]
fn whatever_comes_down_the_pipe_the_agent_ends_with_it() {
    let whole_but_empty = [0, 0, 0, 12, 0, 0, 0x70, 0, 0, 0, 0, 0];
    let endless = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0x70, 3, 0, 0, 0, 0];
    let cases: [(&[u8], i32, &str); 5] = [
        (&[], 0, "pmcd has closed the connection"),
        (&[0], 0, "pmcd has closed the connection"),
        (&whole_but_empty, 0, "malformed request from pmcd"),
        (&[0; 100_000], 1, "IPC Error: PDU length 0: below the 12 bytes of a header"),
        (&endless, 1, "IPC Error: PDU length 2147483647: above the ceiling"),
    ];
    for (bytes, code, says) in cases {
        let (ended, log) = run_over(Stdio::piped(), bytes);
        assert_eq!(ended, Some(code), "{log}");
        assert!(log.contains(says), "{says} is not in\n{log}");
    }
}

#[test]
fn started_by_hand_without_pmcd_the_agent_says_what_is_missing() {
    let (ended, log) = run_over(Stdio::null(), &[]);
    assert_eq!(ended, Some(1), "{log}");
    assert!(log.contains("standard input is a file or /dev/null, not the pipe"), "{log}");
}

#[test]
fn nobody_reading_the_output_is_no_reason_to_panic() {
    for args in [&["demo", "--seconds", "1"][..], &["derive", "check", "/dev/null"]] {
        let mut program = Command::new(JUMPSEAT)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        drop(program.stdout.take());
        let output = program.wait_with_output().expect("our own child");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && message.is_empty(), "{args:?}: {:?}\n{message}", output.status);
    }
}

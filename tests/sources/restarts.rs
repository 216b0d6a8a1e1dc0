//! Source threads that break in the real agent.

use std::path::Path;
use std::process::Command;

use crate::follow_support::Agent;
use support::eventually;

/// The library whose calls fail as the environment says, built into a directory.
#[track_caller]
fn faults(dir: &Path) -> String {
    let library = dir.join("faults.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/faults.c");
    let output = Command::new("cc")
        .args(["-O1", "-D_LARGEFILE64_SOURCE", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .args([source, "-ldl", "-pthread"])
        .output()
        .expect("there is a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library.display().to_string()
}

/// Only the thread that follows files waits by poll(2): the event loop and sockets use epoll.
#[test]
fn a_thread_that_cannot_wait_any_more_is_started_again_and_loses_no_line() {
    const ENOMEM: u32 = 12;
    let mut agent = Agent::new("[[file]]\npath = \"DIR/app.log\"\nsource = \"app\"\nfrom = \"beginning\"\n");
    agent.append("app.log", "one\n");
    agent.set("LD_PRELOAD", &faults(agent.dir()));
    agent.set("JUMPSEAT_FAULTS", &format!("poll:{ENOMEM}:4:1:1"));
    agent.start();
    agent.wait_received("app", 1);
    // Each is a reason to wake up, and so to wait again, until it has failed once and lives again.
    let mut lines = 1;
    eventually("the thread to be started again", || {
        lines += 1;
        agent.append("app.log", format!("{lines}\n"));
        (agent.total("jumpseat.self.threads.restarted") == 1).then_some(())
    });
    agent.append("app.log", "last\n");
    agent.wait_received("app", lines + 1);
    assert_eq!(agent.messages("app").last().map(String::as_str), Some("last"));
    assert_eq!(agent.number("jumpseat.source.received", "app"), lines + 1, "each line once");
    let log = agent.text();
    assert!(log.contains("polling failed"), "{log}");
    assert!(log.contains("thread jumpseat-follow broke and is started again"), "{log}");
}

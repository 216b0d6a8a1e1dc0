//! What tools print on a terminal: nobody who sends events drives it.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;

use crate::seat::{JUMPSEAT, Seat};
use nix::pty::openpty;
use support::{PcpEnv, temp_dir};

/// What a program prints on a terminal.
pub(crate) fn on_a_terminal(program: &str, name: &str, args: &[&str]) -> String {
    let terminal = openpty(None, None).expect("the machine has terminals");
    let mut command = PcpEnv::new().command(program);
    command.arg0(name).args(args).stdout(terminal.slave);
    let mut child = command.spawn().expect("the program is built");
    // It holds the other end, by which the end of the output would never come.
    drop(command);
    let (mut output, mut part) = (Vec::new(), [0; 4096]);
    let mut master = File::from(terminal.master);
    // After the last holder of the other end has gone, reading fails.
    while let Ok(read @ 1..) = master.read(&mut part) {
        output.extend_from_slice(&part[..read]);
    }
    child.wait().expect("our own child");
    String::from_utf8_lossy(&output).replace("\r\n", "\n")
}

#[test]
fn what_senders_send_does_not_drive_it() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let host = endpoint.host();
    seat.feed([], "{\"type\":\"a\",\"message\":\"\\u001b]0;gotcha\\u0007\\u001b[2J\\u009b2J\"}\n").ok();
    let metric = "jumpseat.event.recent";
    let escaped = "\\x1b]0;gotcha\\x07\\x1b[2J\\u{9b}2J";
    for args in [&["info", "-h", &host, "-x", metric][..], &["val", "-h", &host, "-s", "1", metric]] {
        let shown = on_a_terminal(JUMPSEAT, "jumpseat", args);
        assert!(shown.contains("gotcha"), "{args:?}: {shown:?}");
        assert!(
            !shown.contains('\u{9b}') && !shown.contains('\x07') && !shown.contains("\x1b]"),
            "{shown:?}"
        );
    }
    let shown = on_a_terminal(JUMPSEAT, "jumpseat", &["info", "-h", &host, "-x", metric]);
    assert!(shown.contains(escaped), "{shown:?}");
    // By PCP's name it is PCP's output.
    let shown = on_a_terminal(JUMPSEAT, "pminfo", &["-h", &host, "-x", metric]);
    assert!(shown.contains("\x1b]0;gotcha\x07"), "{shown:?}");
}

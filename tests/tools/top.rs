//! `jumpseat top` as its users have it: in a terminal, on a real pmcd with the sample agent and jumpseat's.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::seat::{JUMPSEAT, Seat, Transport};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;
use support::{AgentSpec, PcpEnv, PrivatePmcd, eventually, wait_until};

const ENTER_SCREEN: &str = "\x1b[?1049h";
const LEAVE_SCREEN: &str = "\x1b[?1049l";
const CLEAR: &str = "\x1b[2J";
const HIDE_CURSOR: &str = "\x1b[?25l";

/// Longer than a drawing takes on a busy machine; another key after that does no harm.
const KEY_LOST: Duration = Duration::from_millis(300);

/// A pseudo terminal with the program in it.
struct Tty {
    master: File,
    slave: OwnedFd,
    before: Termios,
    output: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Tty {
    /// Starts `jumpseat top` with these arguments.
    fn start(pmcd: &PrivatePmcd, args: &[&str]) -> Tty {
        let mut all = vec!["-h".to_owned(), pmcd.inet(), "-t".to_owned(), "0.1".to_owned()];
        all.extend(args.iter().map(|&arg| arg.to_owned()));
        Tty::start_in(pmcd.env(), &all)
    }

    fn start_in(env: &PcpEnv, args: &[String]) -> Tty {
        let size = Winsize { ws_row: 30, ws_col: 110, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).expect("a pseudo terminal");
        let before = tcgetattr(&slave).expect("it has modes");
        let stdio = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let mut command: Command = env.command(JUMPSEAT);
        command.arg("top").args(args);
        command.env("LC_ALL", "C.UTF-8").env("NO_COLOR", "1").env("TERM", "xterm");
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        let child = command.spawn().expect("the program starts");
        let master = File::from(master);
        let output = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, sink) = (master.try_clone().expect("a descriptor"), output.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                sink.lock().expect("no panic holds it").extend_from_slice(&bytes[..count]);
            }
        });
        Tty { master, slave, before, output, child }
    }

    fn keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Bytes written so far.
    fn written(&self) -> usize {
        self.output.lock().expect("no panic holds it").len()
    }

    /// What has been written since then.
    fn output(&self, from: usize) -> String {
        String::from_utf8_lossy(&self.output.lock().expect("no panic holds it")[from..]).into_owned()
    }

    /// Waits until the program has written this, after what was there at `from`.
    #[track_caller]
    fn sees(&self, from: usize, text: &str) {
        eventually(&format!("{text:?} on the terminal"), || self.output(from).contains(text).then_some(()));
    }

    /// Has everything drawn anew: what the screen shows then. `None` if the key is lost, as it may be while the
    /// program takes the terminal.
    fn screen(&mut self) -> Option<String> {
        let from = self.written();
        self.keys("\x0c");
        wait_until(KEY_LOST, || {
            let output = self.output(from);
            let (_, drawn) = output.split_once(CLEAR)?;
            // It hides the cursor at the end of each drawing.
            drawn.split_once(HIDE_CURSOR).map(|(screen, _)| plain(screen))
        })
    }

    /// Waits until this is on the screen.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        eventually(&format!("{text:?} on the screen"), || self.screen()?.contains(text).then_some(()));
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave).expect("it has modes").local_flags.contains(LocalFlags::ICANON)
    }

    /// Waits for the end, after which the terminal must be as it was before.
    #[track_caller]
    fn ends(&mut self) -> ExitStatus {
        let status = eventually("the end", || self.child.try_wait().expect("a child of this process"));
        assert_eq!(tcgetattr(self.slave.as_fd()).expect("it has modes"), self.before);
        // What was written last may still be on its way.
        eventually("the ordinary screen and its cursor", || {
            let output = self.output(0);
            let last = |text: &str| output.rfind(text);
            (last(LEAVE_SCREEN) > last(ENTER_SCREEN) && last("\x1b[?25h") > last(HIDE_CURSOR)).then_some(())
        });
        status
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Output without escape sequences, with a blank for each.
fn plain(output: &str) -> String {
    let mut parts = output.split('\x1b');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1);
        // Moving the cursor is a blank; changing colours is nothing.
        if !part[..end].ends_with('m') {
            text.push(' ');
        }
        text.push_str(&part[end..]);
    }
    text
}

fn seat() -> (Seat, PrivatePmcd) {
    let builder = PrivatePmcd::with([AgentSpec::sample()]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    (seat, pmcd)
}

#[test]
fn values_events_and_keys() {
    let (seat, pmcd) = seat();
    // A reader begins with what comes after its first fetch of a source.
    seat.feed([], "{}").ok();
    let mut tty = Tty::start(&pmcd, &["sample.bin", "mine=2 * sample.long.ten", "jumpseat.event.records"]);
    tty.sees(0, ENTER_SCREEN);
    tty.shows("sample.bin");
    assert!(tty.is_raw());
    tty.shows("9 instances");
    tty.shows("bin-900");
    tty.shows("test");
    seat.feed([], "{\"type\":\"login\",\"user\":\"ann\"}\n{\"type\":\"logout\",\"seconds\":12}\n").ok();
    tty.shows("login user=ann");
    tty.shows("logout seconds=12");
    tty.shows("2 records");
    // Instances: focus, filter, sort.
    tty.keys("\r/bin-3\r");
    tty.shows("1 of 9 instances");
    tty.keys("ss");
    tty.shows("by name");
    // Add a metric, and an expression that is wrong at first.
    tty.keys("asample.long.hundred\r");
    tty.shows("sample.long.hundred");
    tty.keys("abad=1+*2\r");
    tty.shows("Arithmetic expression expected to follow PLUS");
    tty.keys("\x7f\x7f4242\r");
    tty.shows("4243");
    // Remove what is selected: the expression that was just added.
    tty.keys("d");
    eventually("the expression to go", || {
        let shown = tty.screen()?;
        (shown.contains("sample.long.hundred") && !shown.contains("4243")).then_some(())
    });
    tty.keys(" ");
    tty.shows("paused");
    tty.keys("?");
    tty.shows("longer, shorter interval");
    tty.keys("?+");
    tty.shows("every 0.2 s");
    tty.keys("q");
    assert!(tty.ends().success());
}

/// Archive "dyninsts" has one record a second for 20 seconds; its counters grow by one.
#[test]
fn an_archive_is_played_and_sought() {
    let env = PcpEnv::new();
    let archive = "/var/lib/pcp/testsuite/archives/dyninsts";
    let args = ["-a", archive, "-t", "1", "-S", "3", "disk.dev.read"].map(str::to_owned);
    let mut tty = Tty::start_in(&env, &args);
    tty.shows("play 1x");
    tty.keys(" ");
    tty.shows("paused");
    tty.keys("\x1b[H");
    tty.shows("Thu Jan  1 00:00:03 1970");
    tty.keys("\x1b[C\x1b[C\x1b[C");
    tty.shows("00:00:06 1970");
    tty.shows("disk.dev.read");
    tty.keys("\x1b[D");
    tty.shows("00:00:05 1970");
    tty.keys("]");
    tty.shows("00:00:15 1970");
    tty.keys("[");
    tty.shows("00:00:05 1970");
    tty.keys("\x1b[F");
    tty.shows("00:00:19 1970");
    // Fast, so that the end is there at once.
    tty.keys(">>>> ");
    tty.shows("end");
    tty.keys("[");
    tty.shows("play 16x");
    tty.keys(">>>");
    tty.shows("00:00:19 1970");
    tty.keys("<<<<<<<<");
    tty.keys("\x1b[H");
    tty.shows("play 1/2x");
    tty.keys("q");
    assert!(tty.ends().success());
    // Past a bad archive or window there is no screen.
    let refused = env.run(JUMPSEAT, ["top", "--once", "-a", "/nonexistent/a", "x"]).fails(1);
    assert!(refused.contains("/nonexistent"), "{refused}");
    let refused = env.run(JUMPSEAT, ["top", "--once", "-a", archive, "-S", "xx", "disk.dev.read"]).fails(1);
    assert!(refused.contains("^ -- unexpected value"), "{refused}");
    env.run(JUMPSEAT, ["top", "--once", "-a", archive, "-h", "x"]).fails(2);
}

#[test]
fn signals_and_suspension_restore_the_terminal() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut tty = Tty::start(&pmcd, &["sample.long"]);
        tty.shows("sample.long.ten");
        assert!(tty.is_raw());
        tty.signal(signal);
        assert_eq!(tty.ends().signal(), Some(signal as i32));
    }
    let mut tty = Tty::start(&pmcd, &["sample.long.ten"]);
    tty.shows("sample.long.ten");
    let from = tty.written();
    // The test is no shell that would let it go on; so the terminal is given back and taken again.
    tty.signal(Signal::SIGTSTP);
    tty.sees(from, LEAVE_SCREEN);
    // The first of these may come before it has stopped, and is lost then.
    eventually("the program to go on", || {
        tty.signal(Signal::SIGCONT);
        tty.output(from).contains(ENTER_SCREEN).then_some(())
    });
    tty.shows("sample.long.ten");
    assert!(tty.is_raw());
    tty.keys("\x03");
    assert!(tty.ends().success());
}

#[test]
fn a_lost_connection_is_told_and_made_again() {
    let mut pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut tty = Tty::start(&pmcd, &["sample.long.ten", "mine=2 * sample.long.hundred"]);
    tty.shows("live");
    pmcd.stop();
    tty.shows("reconnecting");
    tty.shows("10?");
    pmcd.start_again();
    tty.shows("live");
    tty.shows("200");
    tty.keys("q");
    assert!(tty.ends().success());
}

#[test]
fn screens_can_be_printed() {
    let (_seat, pmcd) = seat();
    let host = pmcd.inet();
    let top = |args: &[&str]| {
        let mut all = vec!["top", "-h", &host, "-t", "0.02"];
        all.extend(args);
        pmcd.run(JUMPSEAT, all)
    };
    let text = top(&["--once", "--size", "80x9", "sample.colour", "ten=sample.long.ten"]).ok();
    assert_eq!(text.lines().count(), 9);
    assert!(text.is_ascii(), "LC_ALL=C: {text}");
    let line = |what: &str| text.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{text}"));
    assert!(line("ten ").trim_end().ends_with(" 10"));
    assert!(line("sample.colour - ").contains("3 instances"));
    assert_eq!(top(&["--frames", "3", "--size", "60x6", "sample.long.ten"]).ok().lines().count(), 18);
    // Metrics that a file defines are there.
    let file = pmcd.dir().join("derived.conf");
    std::fs::write(&file, "my.ninety = 9 * sample.long.ten\n").expect("the test's directory is writable");
    let mut env = pmcd.env().clone();
    env.set("PCP_DERIVED_CONFIG", &file);
    let defined = env.run(JUMPSEAT, ["top", "-h", &host, "-t", "0.02", "--once", "my.ninety"]).ok();
    assert!(defined.lines().any(|line| line.contains("my.ninety") && line.contains(" 90")), "{defined}");
    // Without operands: what there is of jumpseat's.
    let usual = top(&["--once"]).ok();
    assert!(usual.contains("jumpseat.event.count") && usual.contains("events"), "{usual}");
    let refused = top(&["--once", "no.such.metric"]).fails(1);
    assert!(refused.contains("no.such.metric: Unknown metric name"), "{refused}");
    let refused = top(&["--once", "x=1+*2"]).fails(1);
    assert!(refused.contains("1+*2\n  ^\n"), "{refused}");
    let refused = top(&[]).fails(1);
    assert!(refused.contains("standard output is no terminal"), "{refused}");
    top(&["-t", "soon"]).fails(2);
    top(&["--frames", "0"]).fails(2);
    let full = format!("{JUMPSEAT} top -h {host} -t 0.02 --once sample.long.ten > /dev/full");
    let refused = pmcd.run("sh", ["-c", &full]).fails(1);
    assert!(refused.contains("cannot write: No space left on device"), "{refused}");
}

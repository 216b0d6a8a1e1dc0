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
use support::{AgentSpec, PcpEnv, PmnsSource, PrivatePmcd, eventually, wait_until};

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
    // Only what has been seen can be shown on.
    tty.shows("200");
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
    // A name that is not known is a row that says so.
    let row = top(&["--once", "sample.coluor", "sample.long.ten", "no.such.metric"]).ok();
    let line = |what: &str| row.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{row}"));
    assert!(line("sample.coluor").contains("Unknown metric name; did you mean sample.colour?"), "{row}");
    assert!(
        line("sample.long.ten").contains(" 10 ") && line("no.such.metric").contains("Unknown metric name")
    );
    for size in ["10x2", "0x0", "2000x20"] {
        top(&["--once", "--size", size, "sample.long.ten"]).fails(2);
    }
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

/// What a shop of three services tells of an order whose payment fails.
fn order(number: u32, seconds_ago: u64) -> Vec<(&'static str, String)> {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
    let begun = now - u128::from(seconds_ago) * 1_000_000_000;
    let span = |name: &str, id: char, parent: &str, from: u128, to: u128, end: &str| {
        let ids = format!(r#""trace_id":"t{number}","span_id":"{id}{number}""#);
        let ms = |at: u128| begun + at * 1_000_000;
        format!(
            "{{\"time\":{},\"type\":\"{name}\",\"phase\":\"start\",{ids}{parent}}}\n\
             {{\"time\":{},\"type\":\"{name}\",\"phase\":\"end\",{ids},{end}}}\n",
            ms(from),
            ms(to)
        )
    };
    let below = |id: char| format!(r#","parent_id":"{id}{number}""#);
    let failed =
        format!(r#""severity":"error","status":"error","message":"card {number} refused","amount":{number}"#);
    let fine = r#""severity":"info""#;
    vec![
        ("web", span("checkout", 'a', "", 0, 90, fine)),
        ("orders", span("order", 'b', &below('a'), 10, 80, fine)),
        ("payment", span("charge", 'c', &below('b'), 20, 70, &failed)),
    ]
}

fn place_order(seat: &Seat, number: u32) {
    for (source, lines) in order(number, 1) {
        seat.feed(["--source", source], &lines).ok();
    }
}

#[test]
fn spans_traces_events_errors_and_flames_are_views() {
    let (seat, pmcd) = seat();
    place_order(&seat, 1000);
    let mut tty = Tty::start(&pmcd, &["sample.long.ten"]);
    tty.shows("sample.long.ten");
    tty.keys("3");
    tty.shows("payment/charge");
    // A reader begins with what comes after its first fetch, or a little before.
    place_order(&seat, 4711);
    tty.keys("s");
    tty.shows("by span");
    tty.keys("j\r");
    tty.shows("payment/charge ─ durations");
    tty.shows("card 4711 refused");
    // From the slowest example to its trace, over all three.
    tty.keys("\r");
    tty.shows("3 spans ─ 3 sources ─ 90.0ms ─ 1 failed");
    tty.keys("G");
    tty.shows("amount");
    tty.keys("\x1b");
    tty.shows("─ traces ─");
    tty.keys("5");
    tty.shows("card # refused");
    tty.keys("6");
    tty.shows("web/checkout > orders/order > payment/charge");
    // Events: the agent's own filter language, then a search.
    tty.keys("2ftype == \"charge\" && end && amount >= 4711\r");
    tty.shows("1 of ");
    tty.keys("\r");
    tty.shows("flags");
    tty.keys("\x1bf\x15severity >= loud\r");
    tty.shows("loud is not a severity");
    tty.keys("\x1b");
    tty.keys("/checkout\r");
    tty.shows("/checkout");
    // The mouse selects what is there: the first record.
    tty.keys("\x1b[<0;10;5M");
    tty.shows("newer below");
    tty.keys("\x1b1");
    tty.shows("sample.long.ten");
    // Names are completed.
    tty.keys("asample.long.hu\t");
    tty.shows("add: sample.long.hundred");
    tty.keys("\rq");
    assert!(tty.ends().success());
}

#[test]
fn what_is_shown_is_exported_and_layouts_are_saved() {
    let (seat, pmcd) = seat();
    place_order(&seat, 1000);
    let home = tempfile::tempdir().expect("a directory of the test's");
    let mut env = pmcd.env().clone();
    env.set("XDG_CONFIG_HOME", home.path());
    let picture = home.path().join("spans.svg");
    let args =
        ["-h", &pmcd.inet(), "-t", "0.1", "--view", "spans", "sample.long.ten", "x=1+1"].map(str::to_owned);
    let mut tty = Tty::start_in(&env, &args);
    tty.shows("payment/charge");
    // Whatever is in the line is overwritten.
    tty.keys(&format!("e\x15{}\r", picture.display()));
    tty.shows("written to");
    let text = std::fs::read_to_string(&picture).expect("it is there");
    assert!(text.starts_with("<svg ") && text.contains("payment/charge"), "{text}");
    tty.keys("e\x15picture\r");
    tty.shows("the name has to end in");
    tty.keys("wmine\r");
    tty.shows("saved as");
    tty.keys("q");
    assert!(tty.ends().success());
    let host = pmcd.inet();
    let top = |args: &[&str]| {
        let args = [&["top", "-h", &host, "-t", "0.1", "--once"][..], args].concat();
        env.run(JUMPSEAT, args)
    };
    let again = top(&["--layout", "mine"]).ok();
    assert!(again.contains("every 0.1 s") && again.contains("payment/charge"), "{again}");
    let again = top(&["--layout", "mine", "--view", "metrics", "--format", "csv"]).ok();
    assert_eq!(again, "metric,instance,value,unit\nsample.long.ten,,10,\nx,,2,\n");
    let missing = top(&["--layout", "yours"]).fails(1);
    assert!(missing.contains("the key w saves one"), "{missing}");
    let json: serde_json::Value =
        serde_json::from_str(&top(&["--view", "spans", "--format", "json"]).ok()).expect("JSON");
    assert_eq!(json["lines"].as_array().map(Vec::len), Some(3), "{json}");
    assert!(
        json["lines"].as_array().is_some_and(|all| all.iter().all(|line| line["count"] == 1.0)),
        "{json}"
    );
    // Two hosts side by side, each with its title.
    let both = top(&["-h", &host, "--size", "120x10", "sample.long.ten"]).ok();
    assert_eq!(both.matches("jumpseat top").count(), 2, "{both}");
    assert_eq!(both.matches("sample.long.ten").count(), 2, "{both}");
    // A terminal that can do nothing gets no colours.
    let plain = env
        .run("sh", ["-c", &format!("TERM=dumb {JUMPSEAT} top -h {host} -t 0.1 --once --format svg x=1")])
        .ok();
    assert!(!plain.contains("#34e2e2"), "{plain}");
}

/// The kernel's metrics of CPUs.
fn kernel() -> AgentSpec {
    let names = "kernel {\n all\n ncpu LINUX:0:32\n}\nkernel.all {\n cpu\n}\nkernel.all.cpu {\n user LINUX:0:20\n \
                 nice LINUX:0:21\n sys LINUX:0:22\n idle LINUX:0:23\n steal LINUX:0:55\n wait\n}\n\
                 kernel.all.cpu.wait {\n total LINUX:0:35\n}\n";
    AgentSpec::dso("linux", 60, "linux_init", "/var/lib/pcp/pmdas/linux/pmda_linux.so")
        .with_pmns(PmnsSource::new("kernel", "LINUX", names))
}

/// A host whose CPUs are all busy with niced work is busy.
#[test]
fn a_busy_host_is_busy() {
    let pmcd = PrivatePmcd::with([kernel()]).start();
    let host = pmcd.inet();
    // It has no node of its own for what is elsewhere in the kernel's name space.
    let file = pmcd.dir().join("hinv.conf");
    std::fs::write(&file, "hinv.ncpu = kernel.ncpu\n").expect("the test's directory is writable");
    let mut env = pmcd.env().clone();
    env.set("PCP_DERIVED_CONFIG", &file);
    let top =
        |format: &str| env.run(JUMPSEAT, ["top", "-h", &host, "-t", "1", "--once", "--format", format]).ok();
    let title = top("text");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let of = if cpus == 1 { "% of 1 CPU".to_owned() } else { format!("% of {cpus} CPUs") };
    assert!(title.lines().next().is_some_and(|line| line.contains("busy ") && line.contains(&of)), "{title}");
    let mut work: Vec<Child> = (0..cpus)
        .map(|_| {
            Command::new("nice")
                .args(["-n", "19", "sh", "-c", "while :; do :; done"])
                .spawn()
                .expect("a shell")
        })
        .collect();
    let share = |name: &str, text: &str| -> f64 {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.split(',').nth(2).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    let seen = wait_until(Duration::from_secs(30), || {
        let text = top("csv");
        (share("busy", &text) > 80.0 && share("nice", &text) > 1.0).then_some(text)
    });
    for child in &mut work {
        let _ = child.kill();
        let _ = child.wait();
    }
    let seen = seen.expect("all CPUs are busy with niced work");
    assert!(share("busy", &seen) <= 101.0, "{seen}");
    assert!(share("steal", &seen) >= 0.0, "{seen}");
}

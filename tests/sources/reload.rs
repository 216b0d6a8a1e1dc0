//! A reload while events pour in: tables come, go and change, and what is unchanged loses nothing.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::seat::{Endpoint, JUMPSEAT, Seat, Transport};
use support::{PcpEnv, PrivatePmcd, eventually, free_port, temp_dir};

/// Something that writes numbered lines until it is told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Load {
    fn start(mut write: impl FnMut(u64) + Send + 'static) -> Load {
        let (stop, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (to_stop, counted) = (Arc::clone(&stop), Arc::clone(&written));
        let thread = std::thread::spawn(move || {
            while !to_stop.load(Ordering::Relaxed) {
                for _ in 0..20 {
                    let number = counted.load(Ordering::Relaxed);
                    write(number);
                    counted.store(number + 1, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Load { stop, written, thread }
    }

    /// Into a file, which is moved away and begun anew now and then.
    fn of_file(dir: &Path, name: &str) -> Load {
        let (path, old) = (dir.join(name), dir.join(format!("{name}.old")));
        let open = {
            let path = path.clone();
            move || fs::OpenOptions::new().create(true).append(true).open(&path).expect("writable")
        };
        let mut file = open();
        Load::start(move |number| {
            if number % 5000 == 4999 {
                fs::rename(&path, &old).expect("writable");
                file = open();
            }
            file.write_all(format!("{number}\n").as_bytes()).expect("writable");
        })
    }

    /// Into a socket, over one connection.
    fn of_socket(path: &Path) -> Load {
        let mut stream = UnixStream::connect(path).expect("it is served");
        Load::start(move |number| {
            stream.write_all(format!("{{\"message\":\"{number}\"}}\n").as_bytes()).expect("never closed");
        })
    }

    fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only writes");
        self.written.load(Ordering::Relaxed)
    }
}

struct Bench {
    seat: Seat,
    endpoint: Endpoint,
    dir: tempfile::TempDir,
    base: String,
    reloads: usize,
}

impl Bench {
    fn start(base: &str) -> Bench {
        let dir = temp_dir();
        let base = base.replace("DIR", &dir.path().display().to_string());
        let seat = Seat::in_dir(dir.path(), &base);
        let endpoint = seat.serve([]);
        Bench { seat, endpoint, dir, base, reloads: 0 }
    }

    /// Writes the configuration with further tables, and waits until they are in effect.
    #[track_caller]
    fn reload(&mut self, tables: &str) {
        let tables = tables.replace("DIR", &self.dir.path().display().to_string());
        let seat = Seat::in_dir(self.dir.path(), &format!("{}\n{tables}", self.base));
        assert_eq!(seat.config(), self.seat.config());
        self.hup();
    }

    #[track_caller]
    fn hup(&mut self) {
        self.endpoint.process.signal(Signal::SIGHUP);
        self.reloads += 1;
        let log = || self.endpoint.process.text();
        eventually(&format!("reload {}: {}", self.reloads, log()), || {
            (log().matches("sources are as configured").count() == self.reloads).then_some(())
        });
    }

    fn number(&self, metric: &str, source: &str) -> u64 {
        let text = self.endpoint.run("pminfo", ["-f", metric]).ok();
        let line = text.lines().find(|line| line.contains(&format!(" or \"{source}\"]")));
        let value = line.and_then(|line| line.rsplit_once("value ")?.1.parse().ok());
        value.unwrap_or_default()
    }

    #[track_caller]
    fn wait_received(&self, source: &str, number: u64) {
        let log = || self.endpoint.process.text();
        eventually(&format!("{number} of {source}: {}", log()), || {
            (self.number("jumpseat.source.received", source) >= number).then_some(())
        });
    }

    /// The messages of a source, all of them, in their order.
    fn messages(&self, source: &str) -> Vec<String> {
        let records = self.seat.on_disk(source);
        records.iter().map(|record| record["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    #[track_caller]
    fn assert_whole(&self, source: &str, written: u64) {
        self.wait_received(source, written);
        for (metric, expected) in [("received", written), ("missed", 0)] {
            assert_eq!(self.number(&format!("jumpseat.source.{metric}"), source), expected, "{metric}");
        }
        let expected: Vec<String> = (0..written).map(|number| number.to_string()).collect();
        let messages = self.messages(source);
        assert!(messages == expected, "{source}: {} of {written} in order", messages.len());
    }
}

const BASE: &str = "[confine]\nfiles = false\nsystem_calls = false\n[[file]]\npath = 'DIR/stays.log'\nsource = 'stays'\nfrom = 'beginning'\n\
    [[command]]\nrun = 'i=0; while :; do echo $i; i=$((i+1)); sleep 0.002; done'\nsource = 'runs'\n";

#[test]
fn what_is_unchanged_loses_nothing_over_reloads_and_the_others_come_and_go() {
    let mut bench = Bench::start(BASE);
    let dir = bench.dir.path().to_owned();
    let (port, other_port) = (free_port(), free_port());
    let file = Load::of_file(&dir, "stays.log");
    let socket = Load::of_socket(&bench.seat.socket());
    bench.wait_received("stays", 1000);
    bench.wait_received("runs", 20);

    // Added: all of them are there.
    fs::write(dir.join("other.log"), "before\n").expect("writable");
    let other = "[[file]]\npath = 'DIR/other.log'\nsource = 'other'\n";
    let all = format!(
        "{other}[[command]]\nrun = ['/bin/sh', '-c', 'echo one; sleep 1000']\nsource = 'cmd'\n\
         [[socket]]\npath = 'DIR/second.socket'\nsource = 'second'\n[otlp]\nlisten = '127.0.0.1:{port}'\n"
    );
    bench.reload(&all);
    bench.wait_received("cmd", 1);
    eventually("the file to be followed", || {
        bench.endpoint.process.text().contains("other.log: following").then_some(())
    });
    let append = |line: &str| {
        let mut file = fs::OpenOptions::new().append(true).open(dir.join("other.log")).expect("it is there");
        file.write_all(line.as_bytes()).expect("writable");
    };
    append("first\n");
    bench.wait_received("other", 1);
    assert!(support::is_listening(port));
    let second = dir.join("second.socket");
    let feed = |lines: &str| {
        let args = ["feed", "--socket", second.to_str().expect("ASCII")];
        PcpEnv::new().run_with_input(JUMPSEAT, args, lines.as_bytes())
    };
    feed("{\"message\":\"x\"}\n").ok();
    bench.wait_received("second", 1);

    // Changed: they are what they are now, from where they were.
    let changed = all
        .replace("source = 'other'\n", "source = 'other'\nformat = 'logfmt'\n")
        .replace("echo one", "echo two")
        .replace(&port.to_string(), &other_port.to_string());
    append("n=1\n");
    bench.wait_received("other", 2);
    bench.reload(&changed);
    append("message=third\n");
    bench.wait_received("other", 3);
    assert_eq!(bench.messages("other"), ["first", "n=1", "third"], "read by the new table, and none twice");
    bench.wait_received("cmd", 2);
    assert_eq!(bench.messages("cmd"), ["one", "two"]);
    assert!(support::is_listening(other_port) && !support::is_listening(port));
    let text = bench.endpoint.process.text();
    assert!(!text.contains("[[command]] runs"), "{text}");
    for part in [
        "[[command]] cmd /bin/sh -c echo two; sleep 1000: added",
        "[[command]] cmd /bin/sh -c echo one; sleep 1000: removed",
        "other: changed: format \"text\" -> \"logfmt\"",
        "second.socket: added",
        &format!("otlp.listen: \"127.0.0.1:{port}\" -> \"127.0.0.1:{other_port}\""),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // Removed: they are gone; a few times more, as fast as it goes.
    bench.reload("");
    assert!(!second.exists() && !support::is_listening(other_port));
    append("message=unread\n");
    for tables in [changed.as_str(), "", all.as_str(), other, ""] {
        bench.reload(tables);
    }
    // A file that comes back goes on where it was left.
    bench.reload(&changed);
    bench.wait_received("other", 4);
    assert_eq!(bench.messages("other").last().map(String::as_str), Some("unread"));

    let (of_file, of_socket) = (file.finish(), socket.finish());
    assert!(of_file > 5000, "it was rotated: {of_file}");
    bench.assert_whole("stays", of_file);
    bench.assert_whole("test", of_socket);
    // The command was started once, and nothing of it is missing.
    assert_eq!(bench.number("jumpseat.self.follow.restarts", "runs"), 0);
    let of_command = bench.messages("runs");
    let whole = of_command.iter().enumerate().all(|(number, message)| *message == number.to_string());
    assert!(whole && of_command.len() > 100, "{}", of_command.len());
}

#[test]
fn what_the_agent_gave_up_and_what_needs_a_start_is_told_and_costs_nothing_else() {
    let mut bench = Bench::start("");
    let elsewhere = temp_dir();
    let place = elsewhere.path().join("x.socket");
    bench.reload(&format!(
        "domain = 401\n[events]\nmax_types = 7\nrecent = 3\n[[command]]\nrun = 'echo x'\nsource = 'c'\n\
         [[socket]]\npath = {place:?}\nsource = 'far'\n[[socket]]\npath = 'DIR/near.socket'\nsource = 'near'\n"
    ));
    let text = bench.endpoint.process.text();
    for part in [
        "domain: null -> 401; from the next start of the agent on (all numbers of metrics are made with it)",
        "events.max_types: 4096 -> 7; from the next start of the agent on",
        "events.recent: 10 -> 3",
        "not started: command echo x: the agent has given up starting programs, as it had no [[command]] then: restart the agent",
        "x.socket: the agent has given up writing to",
    ] {
        let part = part.replace("null", "(default)");
        assert!(text.contains(&part), "{part}: {text}");
    }
    assert!(bench.dir.path().join("near.socket").exists() && !place.exists());

    // A configuration that is wrong changes nothing, and all that is wrong is told.
    fs::write(bench.seat.config(), "[evnts]\n[[file]]\npth = 5\n").expect("writable");
    bench.endpoint.process.signal(Signal::SIGHUP);
    eventually("the mistakes", || {
        let text = bench.endpoint.process.text();
        (text.contains("did you mean `events`?")
            && text.contains("did you mean `path`?")
            && text.contains("not read again, nothing has changed"))
        .then_some(())
    });
    assert!(bench.dir.path().join("near.socket").exists());
    bench.seat.feed([], "{\"message\":\"x\"}\n").ok();
}

#[test]
fn who_may_change_the_agent_and_how_much_is_on_disk_change_with_a_reload() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let dir = temp_dir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let seat = Seat::in_dir(dir.path(), "");
    let host = format!("unix:{}", dir.path().join("pcp").display());
    let endpoint = seat.serve(["--listen", &host, "--listen-mode", "666"]);
    let mut bench = Bench { seat, endpoint, dir, base: String::new(), reloads: 0 };
    let nobody = nix::unistd::User::from_name("nobody").expect("a system").expect("nobody").uid.as_raw();
    let store = |value: &str| {
        let mut command = Command::new("pmstore");
        command.args(["-h", &host, "jumpseat.control.recent", value]).uid(nobody);
        command.output().expect("pmstore is there").status.success()
    };
    assert!(!store("5"));
    bench.reload("[control]\nusers = ['nobody']\n[log]\ntotal_budget = '8MiB'\nsource_budget = '2MiB'\n");
    eventually("nobody may store", || store("5").then_some(()));
    let budget = bench.endpoint.run("pminfo", ["-f", "jumpseat.log.total.budget"]).ok();
    assert!(budget.contains("value 8388608"), "{budget}");
    // 24 MB, of which a source has 2 MiB at most, and so all.
    let line = format!("{{\"message\":\"{}\"}}\n", "x".repeat(1000));
    bench.seat.feed([], &line.repeat(24_000)).ok();
    let used = bench.number("jumpseat.log.bytes", "test");
    assert!((1 << 16..=8 << 20).contains(&used), "{used}");
    bench.reload("");
    eventually("nobody may not store", || (!store("6")).then_some(()));
}

#[test]
fn under_pmcd_a_store_reloads_all_tables_and_fails_if_there_is_a_mistake() {
    let builder = PrivatePmcd::with([]);
    let dir = builder.dir().to_owned();
    let seat = Seat::in_dir(&dir, "");
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    let reload = || pmcd.run("pmstore", ["jumpseat.control.reload", "1"]);
    Seat::in_dir(
        &dir,
        &format!(
            "[[file]]\npath = '{0}/app.log'\n[[socket]]\npath = '{0}/second'\nsource = 'second'\n",
            dir.display()
        ),
    );
    reload().ok();
    let second = dir.join("second");
    eventually("the second socket", || second.exists().then_some(()));
    let args = ["feed", "--socket", second.to_str().expect("ASCII")];
    PcpEnv::new().run_with_input(JUMPSEAT, args, b"{\"message\":\"x\"}\n").ok();
    eventually("the event", || {
        pmcd.run("pminfo", ["-f", "jumpseat.source.received"])
            .ok()
            .contains("\"second\"] value 1")
            .then_some(())
    });
    eventually("the pattern to be looked for", || {
        seat.log().contains("app.log: matches nothing yet").then_some(())
    });
    let right = fs::read_to_string(seat.config()).expect("it is there");
    fs::write(seat.config(), right.clone() + "[evnts]\n").expect("writable");
    reload().fails(1);
    assert!(seat.log().contains("did you mean `events`?"), "{}", seat.log());
    assert!(second.exists());
    // Before it is put right, anybody can know; the agent that runs has the tables.
    let check = |file: &Path| {
        PcpEnv::new().run(JUMPSEAT, ["config", "check", "-U", "root", file.to_str().expect("ASCII")])
    };
    check(&seat.config()).fails(1);
    fs::write(seat.config(), &right).expect("writable");
    let told = check(&seat.config()).ok();
    assert!(told.contains("changes nothing."), "{told}");
    Seat::in_dir(&dir, "");
    let told = check(&seat.config()).ok();
    assert!(told.contains(&format!("[[socket]] {}: removed", second.display())), "{told}");
    reload().ok();
    eventually("the second socket to go", || (!second.exists()).then_some(()));
}

#[test]
fn who_may_fetch_changes_with_a_reload() {
    let mut bench = Bench::start("");
    bench.endpoint.run("pminfo", ["-f", "jumpseat.self.version"]).ok();
    bench.reload("[access]\nfetch = ['host:192.0.2.1']\n");
    eventually("fetches to be refused", || {
        let mut command = Command::new("pminfo");
        command.args(["-h", &bench.endpoint.host(), "-f", "jumpseat.self.version"]);
        let output = command.output().expect("pminfo is there");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        text.contains("ermission").then_some(())
    });
    bench.reload("[access]\nfetch = ['*']\n");
    eventually("fetches to be answered", || {
        let text = bench.endpoint.run("pminfo", ["-f", "jumpseat.self.version"]).ok();
        text.contains("value").then_some(())
    });
}

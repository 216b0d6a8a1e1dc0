//! Nobody becomes somebody by saying so.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::seat::{PMDA, Seat, Transport};
use nix::unistd::{Uid, User, chown};
use support::{AgentSpec, PrivatePmcd, Process, eventually, temp_dir};

/// A user who is nobody to PCP.
const NOBODY: u32 = 65_534;

/// Whether this test can be somebody else; where it cannot, it says so.
fn is_root(what: &str) -> bool {
    let is_root = Uid::effective().is_root();
    if !is_root {
        eprintln!("NOT TESTED, as only root can be another user: {what}");
    }
    is_root
}

/// What somebody gets who connects to a Unix socket as a user: so many bytes, before it is closed or a second is over.
fn greeting_for(uid: u32, socket: &std::path::Path) -> usize {
    let program = "import socket, sys\n\
                   s = socket.socket(socket.AF_UNIX)\n\
                   s.settimeout(10)\n\
                   s.connect(sys.argv[1])\n\
                   print(len(s.recv(100)))\n";
    let output =
        Command::new("python3").args(["-c", program]).arg(socket).uid(uid).gid(uid).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_stranger_at_the_socket_for_pmcd_is_turned_away_and_pmcd_is_not() {
    if !is_root("strangers at the agent's socket") {
        return;
    }
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let socket = seat.agent_socket();
    let mut command = Command::new(PMDA);
    command.args(seat.args()).arg("-u").arg(&socket).current_dir(dir.path());
    let mut agent = Process::start(&mut command, dir.path(), "agent");
    eventually("the agent's socket", || socket.exists().then_some(()));
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(greeting_for(NOBODY, &socket), 0, "closed without a word");
    assert!(
        eventually("the reason in the log", || {
            let log = seat.log();
            log.contains("connection to the socket for pmcd turned away").then_some(log)
        })
        .contains("uid=65534")
    );
    assert_eq!(greeting_for(0, &socket), 20, "the agent speaks first to pmcd");
    agent.stop();
}

#[test]
fn over_tcp_nobody_controls_the_agent() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Inet);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    // The same user as the agent's, as pmcd would tell; but whoever is first at that port could tell so.
    let refused = pmcd.run("pmstore", ["jumpseat.control.recent", "7"]);
    assert!(refused.stdout.contains("No permission"), "{refused:?}");
    assert_eq!(pmcd.value("jumpseat.control.recent").as_deref(), Some("10"));
}

#[test]
fn pcps_other_programs_do_not_control_an_agent_that_runs_as_pcp() {
    let Some(pcp) = User::from_name("pcp").unwrap().filter(|_| is_root("an agent that runs as pcp")) else {
        return;
    };
    for (settings, allowed) in [("", false), ("[control]\nusers = [\"pcp\"]\n", true)] {
        let builder = PrivatePmcd::with([]);
        let seat = Seat::in_dir(builder.dir(), settings);
        for path in [builder.dir().to_owned(), seat.state_dir()] {
            chown(&path, Some(pcp.uid), None).unwrap();
        }
        let mut argv = vec![PMDA.to_owned()];
        argv.extend(seat.args());
        let user = argv.iter().position(|arg| arg == "-U").unwrap() + 1;
        argv[user] = "pcp".to_owned();
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let agent = AgentSpec::pipe("jumpseat", crate::seat::DOMAIN, &argv).with_pmns(seat.pmns());
        let pmcd = builder.agent(agent).start();
        let store = |uid: u32, value: &str| {
            let mut command = pmcd.env().command("pmstore");
            command.args(["-h", &pmcd.unix(), "jumpseat.control.recent", value]).uid(uid).gid(uid);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let refused = store(pcp.uid.as_raw(), "7").contains("No permission");
        assert_eq!(refused, !allowed, "{}", pmcd.logs());
        assert!(!store(0, "8").contains("No permission"), "root may");
        assert_eq!(pmcd.value("jumpseat.control.recent").as_deref(), Some("8"));
    }
}

/// The records of `jumpseat.event.recent` that a user sees over a Unix socket.
fn recent_for(uid: u32, socket: &std::path::Path) -> String {
    let mut command = support::PcpEnv::new().command("pminfo");
    command.args(["-h", &format!("unix:{}", socket.display()), "-x", "jumpseat.event.recent"]);
    let output = command.uid(uid).gid(uid).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn records_of_a_source_are_for_its_readers() {
    let dir = temp_dir();
    let settings = "[[source]]\nname = \"secret*\"\nreaders = [\"root\"]\n";
    let seat = Seat::in_dir(dir.path(), settings);
    let socket = dir.path().join("clients.socket");
    let listen = format!("unix:{}", socket.display());
    let endpoint = seat.serve(["--listen", &listen, "--listen-mode", "666"]);
    eventually("the socket for clients", || socket.exists().then_some(()));
    seat.feed(
        [],
        "{\"type\":\"open\",\"note\":\"for all\"}\n{\"source\":\"secret1\",\"note\":\"for root\"}\n",
    )
    .ok();
    // Over TCP nobody knows who it is.
    let shown = endpoint.run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
    assert!(shown.contains("for all") && !shown.contains("for root"), "{shown}");
    let refused = endpoint.run("pminfo", ["-f", "jumpseat.self.reads_refused"]).ok();
    assert!(refused.contains("value 1"), "{refused}");
    if is_root("readers other than root") {
        let shown = recent_for(0, &socket);
        assert!(shown.contains("for all") && shown.contains("for root"), "{shown}");
        let shown = recent_for(NOBODY, &socket);
        assert!(shown.contains("for all") && !shown.contains("for root"), "{shown}");
    }
}

#[test]
fn who_may_neither_fetch_nor_store_is_turned_away() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[access]\nfetch = [\"host:127.0.0.2\", \"root\"]\nstore = []\n");
    let socket = dir.path().join("clients.socket");
    let listen = format!("unix:{}", socket.display());
    let endpoint = seat.serve(["--listen", &listen, "--listen-mode", "666"]);
    eventually("the socket for clients", || socket.exists().then_some(()));
    let refused = endpoint.run("pminfo", ["-f", "jumpseat.self.pid"]).fails(1);
    assert!(refused.contains("No permission"), "{refused}");
    let text = endpoint.process.text();
    assert!(text.contains("host 127.0.0.1 turned away: it may neither fetch nor store"), "{text}");
    if is_root("users other than root") {
        let shown = recent_for(NOBODY, &socket);
        assert!(shown.contains("Cannot connect"), "{shown}");
        assert!(endpoint.process.text().contains("user 65534 turned away"), "{}", endpoint.process.text());
        let shown = recent_for(0, &socket);
        assert!(!shown.contains("Cannot connect"), "{shown}");
    }
}

#[test]
fn who_is_named_and_is_nobody_is_told_at_the_start() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[access]\nfetch = [\"no-such-user\"]\n");
    let output = support::PcpEnv::new().run(
        crate::seat::JUMPSEAT,
        ["serve", "--listen", "127.0.0.1:0", "--config", seat.config().to_str().unwrap()],
    );
    let told = output.fails(1);
    assert!(told.contains("jumpseat.toml:3: access.fetch: there is no user \"no-such-user\""), "{told}");
}

/// Has a user send lines to the ingest socket, and waits for the agent's summary.
fn feed_as(uid: u32, seat: &Seat, lines: &str) {
    use std::io::Write as _;
    let mut command = support::PcpEnv::new().command(crate::seat::JUMPSEAT);
    command.args(["feed", "--socket"]).arg(seat.socket()).uid(uid).gid(uid);
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait().unwrap();
}

#[test]
fn a_sender_that_makes_up_names_leaves_some_for_others_also_after_a_restart() {
    use std::fmt::Write as _;
    if !is_root("senders of several users") {
        return;
    }
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[events]\nmax_sources = 32\n[fields]\nmax = 256\n");
    let config = std::fs::read_to_string(seat.config()).unwrap();
    std::fs::write(seat.config(), format!("{config}mode = \"0666\"\n")).unwrap();
    let mut junk = String::new();
    for n in 0..1000 {
        let _ = writeln!(junk, "{{\"source\":\"junk{n}\",\"type\":\"t\",\"field{n}\":{n}}}");
    }
    for round in 0..2 {
        let endpoint = seat.serve([]);
        seat.wait_for_socket();
        feed_as(NOBODY, &seat, &junk);
        feed_as(NOBODY - 1, &seat, &format!("{{\"source\":\"billing{round}\",\"invoice{round}\":7}}\n"));
        let sources = endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
        assert!(sources.contains(&format!("\"billing{round}\"] value 1")), "{sources}");
        let field = endpoint.run("pminfo", [&format!("jumpseat.field.invoice{round}")]).ok();
        assert!(field.contains("invoice"), "{field}");
        assert!(sources.contains("\"junk1\"") && !sources.contains("\"junk999\""), "{sources}");
        let refused = endpoint.run("pminfo", ["-f", "jumpseat.self.names_over_share"]).ok();
        assert!(!refused.contains("value 0"), "{refused}");
        let text = endpoint.process.text();
        assert!(text.contains("user 65534 has taken its share of the names of"), "{text}");
    }
}

#[test]
fn a_user_who_takes_all_places_at_the_ingest_socket_keeps_nobody_out() {
    if !is_root("senders of several users") {
        return;
    }
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let config = std::fs::read_to_string(seat.config()).unwrap();
    std::fs::write(seat.config(), format!("{config}mode = \"0666\"\nmax_connections = 8\n")).unwrap();
    let endpoint = seat.serve([]);
    seat.wait_for_socket();
    let program = "import socket, sys\n\
                   held = []\n\
                   for _ in range(8):\n    s = socket.socket(socket.AF_UNIX)\n    s.connect(sys.argv[1])\n    held.append(s)\n\
                   print('held', flush=True)\n\
                   sys.stdin.read()\n";
    let mut command = support::PcpEnv::new().command("python3");
    command.args(["-c", program]).arg(seat.socket()).uid(NOBODY).gid(NOBODY);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut greedy = command.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(greedy.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "held\n");
    seat.feed([], "{\"type\":\"a\"}\n").ok();
    let received = endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
    assert!(received.contains("\"test\"] value 1"), "{received}\n{}", endpoint.process.text());
    drop(greedy.stdin.take());
    greedy.wait().unwrap();
}

#[test]
fn nobody_sends_in_the_name_of_what_the_configuration_reads_or_of_a_source_that_is_for_others() {
    if !is_root("sending as another user") {
        return;
    }
    let dir = temp_dir();
    std::fs::write(dir.path().join("app.log"), "from the file\n").unwrap();
    let settings = format!(
        "[[file]]\npath = {:?}\nsource = \"audit\"\nfrom = \"beginning\"\n\
         [[source]]\nname = \"billing\"\nsenders = [\"root\", \"daemon\"]\n",
        dir.path().join("app.log")
    );
    let seat = Seat::in_dir(dir.path(), &settings);
    let endpoint = seat.serve([]);
    seat.wait_for_socket();
    std::fs::set_permissions(seat.socket(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let received = |source: &str| {
        let shown = endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
        let line = shown.lines().find(|line| line.contains(&format!("or \"{source}\"]")))?;
        line.rsplit_once("value ")?.1.parse::<u64>().ok()
    };
    eventually("the line of the file", || (received("audit") == Some(1)).then_some(()));
    let lines = "{\"source\":\"audit\"}\n{\"source\":\"billing\"}\n{\"source\":\"other\"}\n";
    feed_as(NOBODY, &seat, lines);
    // Not lost, but not under these names.
    eventually("the events", || (received("test") == Some(2) && received("other") == Some(1)).then_some(()));
    assert_eq!((received("audit"), received("billing")), (Some(1), None));
    let shown = endpoint.run("pminfo", ["-f", "jumpseat.self.sources_forbidden"]).ok();
    assert!(shown.contains("value 2\n"), "{shown}");
    let log = endpoint.process.text();
    assert!(log.contains("user 65534 may not send as source audit"), "{log}");
    // daemon, and root.
    feed_as(1, &seat, lines);
    eventually("billing's", || (received("billing") == Some(1)).then_some(()));
    assert_eq!(received("audit"), Some(1));
    feed_as(0, &seat, lines);
    eventually("root's", || (received("billing") == Some(2) && received("audit") == Some(2)).then_some(()));
}

#[test]
fn the_ingest_socket_is_for_its_group_and_no_other() {
    if !is_root("sending as another user") {
        return;
    }
    use std::os::unix::fs::MetadataExt as _;
    let group = nix::unistd::Group::from_name("games").unwrap().expect("every Debian has it").gid.as_raw();
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let config = std::fs::read_to_string(seat.config()).unwrap();
    std::fs::write(seat.config(), format!("{config}group = \"games\"\n")).unwrap();
    for path in [dir.path(), &seat.state_dir()] {
        chown(path, Some(Uid::from_raw(NOBODY)), None).unwrap();
    }
    // The agent is nobody, and no member of the group otherwise.
    let endpoint = seat.serve(["--user", "nobody"]);
    seat.wait_for_socket();
    let socket = std::fs::metadata(seat.socket()).unwrap();
    assert_eq!((socket.uid(), socket.gid(), socket.mode() & 0o777), (NOBODY, group, 0o660));
    let connects = |uid: u32, gid: u32| {
        let program = "import socket, sys\nsocket.socket(socket.AF_UNIX).connect(sys.argv[1])\n";
        let mut command = Command::new("python3");
        command.args(["-c", program]).arg(seat.socket()).uid(uid).gid(gid);
        command.stderr(std::process::Stdio::null()).status().unwrap().success()
    };
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(connects(1, group));
    assert!(!connects(1, 1));
    drop(endpoint);
}

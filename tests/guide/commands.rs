//! The commands of README and the guide, run as they stand: page by page, in the order of the page, in one shell a page.
//!
//! **The rule.** Every command of a `sh` or `console` block is run, unless it is in [`NOT_RUN`] with a reason, of which there are at
//! most [`MOST_NOT_RUN`]. What a page needs is there: PCP's tools, the programs in the path, a pmcd with the agent, some events, an
//! archive. Places and ports are those of the test ([`Session::adapted`]); `cargo` runs what is built already. Commands that go on
//! until Ctrl-C get it when they have printed something. Each has to succeed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{AgentSpec, PcpEnv, PmnsSource, PrivatePmcd, example, free_port, repository, user};

use crate::blocks::{blocks, documents};
use crate::seat::{JUMPSEAT, PMDA, Seat, Transport};

/// Commands that are not run: how they begin, and why.
const NOT_RUN: [(&str, &str); 12] = [
    ("./test", "it runs this test"),
    ("cd install && sudo ./Install", "changes the machine's pmcd: tests/install.sh runs it in a namespace"),
    ("sudo ./Remove", "the same"),
    ("cargo build --profile dist", "continuous integration builds and measures it"),
    ("pminfo -h pcps:", "PCP 6.0 of Debian 12 has another library for TLS; tests/interop/secure.rs"),
    ("pminfo -h 'pcps:", "the same"),
    (
        "pmevent 'jumpseat.event.records[kernel]'",
        "takes root and the kernel's events; tests/sources/kernel.rs has them",
    ),
    ("pminfo -h host.example.com", "another host"),
    (
        "packaging/build",
        "takes minutes; tests/packages.sh runs it, and tries what comes out in clean systems",
    ),
    ("systemctl disable", "changes the services of the machine; the same"),
    ("jumpseat config check", "the installed file, and files of the reader; tests/tools/config.rs"),
    ("jumpseat log trim", "takes an agent that is stopped; tests/interop/durable.rs"),
];
/// More would be a page that nobody can try.
const MOST_NOT_RUN: usize = 12;

macro_rules! pages {
    ($($name:ident: $document:literal,)*) => {
        $(#[test]
        fn $name() {
            run($document);
        })*
        const PAGES: &[&str] = &[$($document),*];
    };
}

pages! {
    readme: "README.md",
    archives: "docs/archives.md",
    commands: "docs/sources/commands.md",
    configuration: "docs/configuration.md",
    control: "docs/sources/control.md",
    debugging: "docs/debugging.md",
    durability: "docs/durability.md",
    endpoint: "docs/endpoint.md",
    export: "docs/export.md",
    fetch_groups: "docs/fetch-groups.md",
    files: "docs/sources/files.md",
    filter: "docs/filter.md",
    first_minute: "docs/first-minute.md",
    kernel: "docs/sources/kernel.md",
    otel: "docs/otel.md",
    otel_out: "docs/otel-out.md",
    otlp: "docs/sources/otlp.md",
    packages: "docs/packages.md",
    positions: "docs/positions.md",
    scrape: "docs/sources/scrape.md",
    spans: "docs/spans.md",
    tools: "docs/tools.md",
    web: "docs/web.md",
    writing_a_pmda: "docs/writing-a-pmda.md",
    writing_a_source: "docs/writing-a-source.md",
}

#[test]
fn every_page_with_commands_is_run() {
    let has_commands = |document: &String| blocks(document).iter().any(|block| block.is_shell());
    let there: BTreeSet<String> = documents().into_iter().filter(has_commands).collect();
    assert_eq!(there, PAGES.iter().map(|page| (*page).to_owned()).collect());
}

#[test]
fn few_commands_are_not_run() {
    assert!(NOT_RUN.len() <= MOST_NOT_RUN, "{}", NOT_RUN.len());
    let all: Vec<String> = PAGES
        .iter()
        .flat_map(|page| blocks(page))
        .filter(|block| block.is_shell())
        .flat_map(|b| b.commands())
        .collect();
    let unused: Vec<_> =
        NOT_RUN.iter().filter(|(begin, _)| !all.iter().any(|command| command.starts_with(begin))).collect();
    assert!(unused.is_empty(), "no such command any more: {unused:?}");
}

#[test]
fn blocks_say_what_they_are() {
    for document in documents() {
        for block in blocks(&document) {
            assert!(!block.info.is_empty(), "{document}:{}: say what it is, such as `text`", block.line);
        }
    }
}

fn run(document: &str) {
    let commands: Vec<(String, String)> = blocks(document)
        .iter()
        .filter(|block| block.is_shell())
        .flat_map(|block| {
            let place = format!("{document}:{}", block.line);
            block.commands().into_iter().map(move |command| (place.clone(), command))
        })
        .filter(|(_, command)| !NOT_RUN.iter().any(|(begin, _)| command.starts_with(begin)))
        .collect();
    let named = |command: &str| command.contains("--config") || command.contains("--socket");
    let serves = |command: &str| command.starts_with("jumpseat serve") && !named(command);
    let typed: String = commands.iter().map(|(_, command)| command.as_str()).collect();
    let session = Session::prepare(commands.iter().any(|(_, command)| serves(command)), &typed);
    let mut script = PROLOGUE.to_owned();
    for (place, command) in &commands {
        session.step(place, command, &mut script);
    }
    script.push_str("echo ALL DONE\n");
    session.run(document, &script);
}

/// What the shell knows before the first command.
const PROLOGUE: &str = r#"set -m
trap 'kill -- $(jobs -p | sed s/^/-/) 2>/dev/null; wait' EXIT
failed() { echo "FAILED: $1: exit status $2"; exit 1; }
# Ctrl-C, when it has printed something: status 0, or that of who is ended by it.
until_interrupted() {
	local out=$1.out status=0
	bash -c "$2" >"$out" 2>&1 &
	local job=$!
	for _ in $(seq 50); do [ -s "$out" ] && break; kill -0 $job 2>/dev/null || break; sleep 0.1; done
	sleep 0.3
	kill -INT -- -$job 2>/dev/null
	wait $job || status=$?
	cat "$out"
	case $status in 0|130) return 0;; *) return $status;; esac
}
# Until somebody listens there.
listening() {
	if [ "$1" = unix ]; then for _ in $(seq 300); do [ -S "$2" ] && return; sleep 0.1; done; fi
	for _ in $(seq 300); do (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null && return; sleep 0.1; done
	echo "nobody listens at $1:$2"; return 1
}
"#;

/// A place for one page's commands.
struct Session {
    pmcd: PrivatePmcd,
    env: PcpEnv,
    /// Where `jumpseat feed` sends: to the agent under pmcd, or to the one that the page starts.
    socket: PathBuf,
    /// What stands in the documents, and what is there here.
    places: Vec<(&'static str, String)>,
}

impl Session {
    /// `own_agent`: the page starts an agent of its own. `typed`: all that is typed on it.
    fn prepare(own_agent: bool, typed: &str) -> Session {
        let builder = PrivatePmcd::with([AgentSpec::sample(), linux()]);
        let derived = repository().join("install/derived.conf");
        let otlp = free_port();
        let settings = format!("[derived]\nfiles = [{derived:?}]\n[otlp]\nlisten = \"localhost:{otlp}\"\n");
        let seat = Seat::in_dir(builder.dir(), &settings);
        let agent = seat.agent(Transport::Pipe);
        let pmcd = builder.agent(agent).start();
        pmcd.wait_ready("jumpseat");
        let dir = pmcd.dir().to_owned();
        let events = "{\"type\":\"request\",\"phase\":\"start\",\"span_id\":\"1\",\"message\":\"GET /\"}\n\
            {\"type\":\"request\",\"phase\":\"end\",\"span_id\":\"1\",\"severity\":\"info\",\"status\":200}\n";
        for source in ["app", "shop"] {
            seat.feed(
                ["--source", source],
                &events.replace("request", if source == "shop" { "checkout" } else { "request" }),
            )
            .ok();
        }
        for folder in ["bin", "work", "home", "state", "archives", "logs"] {
            fs::create_dir_all(dir.join(folder)).expect("the test's directory");
        }
        symlink(JUMPSEAT, dir.join("bin/jumpseat")).expect("the test's directory");
        symlink(PMDA, dir.join("bin/pmdajumpseat")).expect("the test's directory");
        write_cargo(&dir.join("bin/cargo"), typed);
        let archive = dir.join("archives/myhost").display().to_string();
        pmcd.run(
            JUMPSEAT,
            ["record", "-t", "100msec", "-s", "3", &archive, "kernel.all.load", "jumpseat.event"],
        )
        .ok();
        let port = || free_port().to_string();
        let places = vec![
            ("127.0.0.1:44399", format!("127.0.0.1:{}", port())),
            ("localhost:4318", format!("localhost:{otlp}")),
            ("localhost:4317", format!("localhost:{}", port())),
            ("box.example:44321", format!("localhost:{}", port())),
            ("passwd passwords ada", format!("passwd passwords {}", user())),
            ("user=ada&", format!("user={}&", user())),
            ("/var/log/pcp/pmlogger/myhost", archive),
            ("/var/log/", format!("{}/logs/", dir.display())),
            ("/etc/pcp/jumpseat/", format!("{}/work/", dir.display())),
            ("/tmp/", format!("{}/work/", dir.display())),
        ];
        let mut env = pmcd.env().clone();
        let path = std::env::var("PATH").unwrap_or_default();
        env.set("PATH", format!("{}:{path}", dir.join("bin").display()));
        env.set("HOME", dir.join("home"));
        env.set("XDG_STATE_HOME", dir.join("state"));
        env.set("TERM", "xterm");
        let socket = if own_agent { dir.join("own.socket") } else { seat.socket() };
        if !own_agent {
            symlink(seat.state_dir(), dir.join("state/jumpseat")).expect("the test's directory");
        }
        Session { pmcd, env, socket, places }
    }

    /// A command with the places of this test in it. What has been put in is not looked at again.
    fn adapted(&self, command: &str) -> String {
        let (mut rest, mut adapted) = (command, String::new());
        let first = |rest: &str| {
            let found =
                self.places.iter().filter_map(|(said, here)| Some((rest.find(said)?, *said, here.clone())));
            found.min_by_key(|(at, said, _)| (*at, usize::MAX - said.len()))
        };
        while let Some((at, said, here)) = first(rest) {
            adapted.push_str(&rest[..at]);
            adapted.push_str(&here);
            rest = &rest[at + said.len()..];
        }
        adapted + rest
    }

    /// Adds a command to the script.
    fn step(&self, place: &str, command: &str, script: &mut String) {
        let adapted = self.adapted(command);
        let shown = quoted(&format!("{place}: {}", command.trim()));
        let _ = writeln!(script, "echo == {shown}");
        let run = if wants_screen(&adapted) {
            format!("(sleep 2; printf q) | script -qfec {} /dev/null", quoted(adapted.trim()))
        } else if is_endless(&adapted) {
            format!(
                "until_interrupted {} {}",
                quoted(&place.replace(['/', ':'], "-")),
                quoted(adapted.trim())
            )
        } else {
            adapted.clone()
        };
        let _ = writeln!(script, "{}\nstatus=$?; [ $status = 0 ] || failed {shown} $status", run.trim_end());
        if let Some((host, port)) = listens(&adapted) {
            let _ = writeln!(script, "listening {host} {port} || failed {shown} 1");
        }
    }

    fn run(&self, document: &str, script: &str) {
        let dir = self.pmcd.dir();
        fs::write(dir.join("page.sh"), script).expect("the test's directory");
        let mut command: Command = self.env.command("timeout");
        command.args(["150", "bash", "../page.sh"]).current_dir(dir.join("work"));
        command.env("JUMPSEAT_SOCKET", &self.socket);
        let out = fs::File::create(dir.join("page.out")).expect("the test's directory");
        let both = out.try_clone().expect("a descriptor");
        let status = command.stdin(Stdio::null()).stdout(out).stderr(both).status().expect("bash is there");
        let text = String::from_utf8_lossy(&fs::read(dir.join("page.out")).expect("its output")).into_owned();
        assert!(status.success() && text.contains("ALL DONE\n"), "{document}: {status}\n{text}");
    }
}

/// PCP's agent for the kernel, with all its names.
fn linux() -> AgentSpec {
    let text = fs::read_to_string("/var/lib/pcp/pmns/root_linux").expect("PCP is installed");
    let (_, text) = text.split_once("root {").expect("its root");
    let (top, below) = text.split_once('}').expect("the end of its root");
    let top = top.split_whitespace().collect::<Vec<_>>().join(" ");
    AgentSpec::dso("linux", 60, "linux_init", "/var/lib/pcp/pmdas/linux/pmda_linux.so")
        .with_pmns(PmnsSource::new(&top, "60", below))
}

/// A `cargo` that runs what is built already: a page's release build and the examples that are typed on it take the programs of
/// this test.
fn write_cargo(path: &Path, typed: &str) {
    let mut script = "#!/bin/sh\ncase \"$*\" in\n".to_owned();
    let examples =
        ["archive", "embedded", "events", "fetch_group", "pmda", "traced"].map(|name| ("jumpseat", name));
    for (package, name) in examples.into_iter().chain([("pcp-pmda", "trivial")]) {
        let (words, shift) = match package {
            "jumpseat" => (format!("run --example {name}"), 4),
            package => (format!("run -p {package} --example {name}"), 6),
        };
        if typed.contains(&format!("cargo {words} ")) {
            let program = example(package, name);
            let _ = writeln!(script, "\"{words} \"*) shift {shift}; exec {} \"$@\";;", program.display());
        }
    }
    script.push_str("\"run --release -- \"*) shift 3; exec jumpseat \"$@\";;\n\"build --release\") ;;\n");
    script.push_str("*) echo \"cargo $*: tests/guide does not know it\"; exit 1;;\nesac\n");
    fs::write(path, script).expect("the test's directory");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("the test's directory");
}

/// Whether it goes on until Ctrl-C.
fn is_endless(command: &str) -> bool {
    let ends =
        [" -s ", " -a ", "--once", "--seconds", " --help"].iter().any(|option| command.contains(option));
    let program = |program: &&str| command.split(" | ").any(|part| part.starts_with(program));
    let endless = [
        "pmval ",
        "pmevent ",
        "jumpseat val ",
        "jumpseat events ",
        "jumpseat record ",
        "jumpseat serve ",
        "jumpseat web ",
    ];
    let others = ["tail -f ", "cargo run --release -- demo"];
    !ends && !is_background(command) && endless.iter().chain(&others).any(program)
}

/// Whether it ends in `&`, a comment behind that aside.
fn is_background(command: &str) -> bool {
    command.lines().any(|line| line.split(" #").next().unwrap_or_default().trim_end().ends_with('&'))
}

fn wants_screen(command: &str) -> bool {
    command.starts_with("jumpseat top") && !command.contains("--once")
}

/// Where a program in the background will listen.
fn listens(command: &str) -> Option<(String, String)> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "--listen").filter(|_| is_background(command))?;
    let (host, port) = words.get(at + 1)?.rsplit_once(':')?;
    Some((host.to_owned(), port.to_owned()))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

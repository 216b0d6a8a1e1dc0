//! The jumpseat agent in a test: its configuration, its line in pmcd.conf, and events for it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{AgentSpec, Output, PcpEnv, PmnsSource, PrivatePmcd, Process, eventually, free_port, user};

/// The agent's program.
pub(crate) const PMDA: &str = env!("CARGO_BIN_EXE_pmdajumpseat");
/// The command line program.
pub(crate) const JUMPSEAT: &str = env!("CARGO_BIN_EXE_jumpseat");

/// Domain number used in the tests; the default.
pub(crate) const DOMAIN: u32 = 400;

/// Source of events whose sender gives no other.
pub(crate) const SOURCE: &str = "test";

/// How pmcd talks to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Pipe,
    PipeNotReady,
    Unix,
    Inet,
    Ipv6,
}

/// An agent's files in a directory of the test's.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    dir: PathBuf,
}

impl Seat {
    /// Writes a configuration with everything below `dir`, plus `settings` (TOML tables).
    #[track_caller]
    pub(crate) fn in_dir(dir: &Path, settings: &str) -> Seat {
        let seat = Seat { dir: dir.to_owned() };
        fs::create_dir_all(seat.state_dir()).expect("the test's directory is writable");
        // What a test does not ask for ends with its agent.
        let keep = if settings.contains("[handover]") { "" } else { "[handover]\nkeep = '0s'\n" };
        let text = format!(
            "state_dir = {:?}\n{settings}\n{keep}[[socket]]\npath = {:?}\nsource = {SOURCE:?}\n",
            seat.state_dir(),
            seat.socket()
        );
        fs::write(seat.config(), text).expect("the test's directory is writable");
        seat
    }

    /// Has what comes while the agent is behind wait for it, instead of being lost: however little of a machine it has, it takes all in
    /// time.
    #[track_caller]
    pub(crate) fn patient(self) -> Seat {
        let config = fs::read_to_string(self.config()).expect("ours");
        let patient = config.replace("[[socket]]\n", "[[socket]]\npatience_ms = 1000\n");
        assert_ne!(patient, config);
        fs::write(self.config(), patient).expect("ours");
        self
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("jumpseat.toml")
    }

    /// Where identifiers are kept.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.join("ids")
    }

    /// The ingest socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("ingest.socket")
    }

    /// The agent's own socket, for [`Transport::Unix`].
    pub(crate) fn agent_socket(&self) -> PathBuf {
        self.dir.join("agent.socket")
    }

    /// The agent's arguments besides those for the transport.
    pub(crate) fn args(&self) -> Vec<String> {
        let text = |path: PathBuf| path.to_str().expect("temporary paths are ASCII").to_owned();
        [
            "-d",
            &DOMAIN.to_string(),
            "-U",
            &user(),
            "-l",
            &text(self.dir.join("jumpseat.log")),
            "-c",
            &text(self.config()),
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// The agent for pmcd.conf, started by pmcd.
    pub(crate) fn agent(&self, transport: Transport) -> AgentSpec {
        let mut argv = vec![PMDA.to_owned()];
        argv.extend(self.args());
        let spec = match transport {
            Transport::Pipe => AgentSpec::pipe("jumpseat", DOMAIN, &refs(&argv)),
            Transport::PipeNotReady => AgentSpec::pipe_notready("jumpseat", DOMAIN, &refs(&argv)),
            Transport::Unix => {
                argv.extend(["-u".to_owned(), self.agent_socket().display().to_string()]);
                AgentSpec::unix("jumpseat", DOMAIN, &self.agent_socket(), &refs(&argv))
            }
            Transport::Inet | Transport::Ipv6 => {
                let port = free_port();
                let option = if transport == Transport::Inet { "-i" } else { "-6" };
                argv.extend([option.to_owned(), port.to_string()]);
                match transport {
                    Transport::Inet => AgentSpec::inet("jumpseat", DOMAIN, port, &refs(&argv)),
                    _ => AgentSpec::ipv6("jumpseat", DOMAIN, port, &refs(&argv)),
                }
            }
        };
        spec.with_pmns(self.pmns())
    }

    /// The name space of the repository, as the install scripts give it to pmcd.
    #[track_caller]
    pub(crate) fn pmns(&self) -> PmnsSource {
        PmnsSource::read("jumpseat", "JUMPSEAT", concat!(env!("CARGO_MANIFEST_DIR"), "/pmns/jumpseat"))
    }

    /// Writes a name space with the agent's names only, for tools that read one from a file.
    #[track_caller]
    pub(crate) fn pmns_root(&self) -> PathBuf {
        let pmns = self.pmns();
        let text = pmns.text.replace(&format!("{}:", pmns.symbol), &format!("{DOMAIN}:"));
        let root = self.dir.join("seat.root");
        fs::write(&root, format!("root {{\n  {}\n}}\n{text}", pmns.name))
            .expect("the test's directory is writable");
        root
    }

    /// Runs `jumpseat feed` with these lines on its standard input. All of them are in the agent when it returns.
    #[track_caller]
    pub(crate) fn feed<'a>(&self, options: impl IntoIterator<Item = &'a str>, lines: &str) -> Output {
        self.wait_for_socket();
        let mut args = vec!["feed".to_owned(), "--socket".to_owned(), self.socket().display().to_string()];
        args.extend(options.into_iter().map(str::to_owned));
        PcpEnv::new().run_with_input(JUMPSEAT, args, lines.as_bytes())
    }

    /// The records of a source that are in the agent's log on disk, in their order, as JSON; losses are not among them.
    #[track_caller]
    pub(crate) fn on_disk(&self, source: &str) -> Vec<serde_json::Value> {
        let words = ["log", "show", source, "--state-dir"].map(OsString::from);
        let shown = PcpEnv::new().run(JUMPSEAT, words.into_iter().chain([self.state_dir().into()])).ok();
        let lines = shown.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        lines.filter(|record| record.get("seq").is_some()).collect()
    }

    /// Waits until the agent takes events.
    #[track_caller]
    pub(crate) fn wait_for_socket(&self) {
        eventually("the ingest socket", || std::os::unix::net::UnixStream::connect(self.socket()).ok());
    }

    /// The agent's log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("jumpseat.log")).unwrap_or_default()
    }

    /// Starts `jumpseat serve` on a port of its own choice and waits until it listens.
    #[track_caller]
    pub(crate) fn serve<'a>(&self, options: impl IntoIterator<Item = &'a str>) -> Endpoint {
        self.serve_in(&PcpEnv::new(), options)
    }

    /// The same in another environment.
    #[track_caller]
    pub(crate) fn serve_in<'a>(&self, env: &PcpEnv, options: impl IntoIterator<Item = &'a str>) -> Endpoint {
        self.serve_by(env.command(JUMPSEAT), options)
    }

    /// The same by a command that runs the program with the arguments that it is given.
    #[track_caller]
    pub(crate) fn serve_by<'a>(
        &self,
        mut command: Command,
        options: impl IntoIterator<Item = &'a str>,
    ) -> Endpoint {
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(self.config());
        command.args(options).current_dir(&self.dir);
        // One that ran here before has left its output.
        let before = fs::read(self.dir.join("serve.out")).map_or(0, |output| output.len());
        let mut process = Process::start(&mut command, &self.dir, "serve");
        let port = eventually("jumpseat serve to listen", || {
            assert!(process.exited().is_none(), "jumpseat serve ended:\n{}", process.text());
            let text = process.stdout();
            let line = text.get(before..)?.lines().find(|line| line.starts_with("PCP clients:"))?;
            line.rsplit_once(':')?.1.trim().parse().ok()
        });
        Endpoint { process, port, dir: self.dir.clone() }
    }
}

fn refs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// A running `jumpseat serve`.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub process: Process,
    port: u16,
    dir: PathBuf,
}

impl Endpoint {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What `-h` takes.
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts a PCP tool against the endpoint in the background.
    pub(crate) fn process_of(&self, program: &str, args: &[&str]) -> Process {
        let mut command = PcpEnv::new().command(program);
        command.args(["-h", &self.host()]).args(args);
        Process::start(&mut command, &self.dir, program)
    }

    /// Runs a PCP tool against the endpoint.
    #[track_caller]
    pub(crate) fn run<A: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = A>) -> Output {
        let mut all: Vec<OsString> = vec!["-h".into(), self.host().into()];
        all.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        PcpEnv::new().run(program, all)
    }
}

/// Kills the agent as a crash would, and waits until pmcd has started it again.
pub(crate) fn kill_agent(pmcd: &mut PrivatePmcd) {
    let pid = |pmcd: &PrivatePmcd| pmcd.value("jumpseat.self.pid")?.parse::<i32>().ok();
    let before = eventually("the agent's process", || pid(pmcd));
    kill(Pid::from_raw(before), Signal::SIGKILL).expect("it lives");
    eventually("pmcd to notice", || (pid(pmcd) != Some(before)).then_some(()));
    // It starts an agent again by itself, but not one that has died a moment ago.
    if pid(pmcd).is_none() {
        pmcd.reconfigure();
    }
    eventually("pmcd to start it again", || pid(pmcd));
}

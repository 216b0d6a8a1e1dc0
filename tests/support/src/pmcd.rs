//! A pmcd of the test's own, with its own name space, agents, sockets and directories.

use super::ports::free_port;
use super::process::{Output, PcpEnv, Process, eventually, temp_dir, user, wait_until};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const PMDAS_DIR: &str = "/var/lib/pcp/pmdas";
/// PCP's sample agent as Debian ships it (the other examples come without a compiled program).
pub const SAMPLE_PMDA: &str = "/var/lib/pcp/pmdas/sample/pmdasample";
const PMCD_PMNS: &str = "/var/lib/pcp/pmns/root_pmcd";

/// Another process may take the port between choosing it and pmcd's start; then another one is chosen.
const START_ATTEMPTS: u32 = 5;

/// An agent's part of the name space: PMNS source as packaged agents have it, a block `name { ... }` with
/// everything below it.
#[derive(Debug, Clone)]
pub struct PmnsSource {
    /// The node under `root`.
    pub name: String,
    /// The source text; `SYMBOL:` in it is replaced as pmcd's install scripts do.
    pub text: String,
    /// Symbol used for the domain, `SAMPLE` in `SAMPLE:0:1`.
    pub symbol: String,
}

impl PmnsSource {
    pub fn new(name: &str, symbol: &str, text: impl Into<String>) -> PmnsSource {
        PmnsSource { name: name.to_owned(), text: text.into(), symbol: symbol.to_owned() }
    }

    /// From a file of the repository or of PCP.
    #[track_caller]
    pub fn read(name: &str, symbol: &str, path: impl AsRef<Path>) -> PmnsSource {
        let path = path.as_ref();
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        PmnsSource::new(name, symbol, text)
    }
}

/// One agent: a line of pmcd.conf and, if it has any static names, its name space.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    pub name: String,
    pub domain: u32,
    /// What follows name and domain in pmcd.conf.
    pub how: String,
    pub pmns: Option<PmnsSource>,
}

impl AgentSpec {
    fn new(name: &str, domain: u32, how: String) -> AgentSpec {
        AgentSpec { name: name.to_owned(), domain, how, pmns: None }
    }

    /// A child of pmcd talking over two pipes.
    pub fn pipe(name: &str, domain: u32, argv: &[&str]) -> AgentSpec {
        AgentSpec::new(name, domain, format!("pipe binary {}", words(argv)))
    }

    /// As `pipe`, told to pmcd to be not ready at first.
    pub fn pipe_notready(name: &str, domain: u32, argv: &[&str]) -> AgentSpec {
        AgentSpec::new(name, domain, format!("pipe binary notready {}", words(argv)))
    }

    /// An agent on a Unix socket; started by pmcd unless `argv` is empty.
    pub fn unix(name: &str, domain: u32, path: &Path, argv: &[&str]) -> AgentSpec {
        AgentSpec::new(name, domain, format!("socket unix {} {}", path.display(), words(argv)))
    }

    /// An agent on a TCP port of this machine; started by pmcd unless `argv` is empty.
    pub fn inet(name: &str, domain: u32, port: u16, argv: &[&str]) -> AgentSpec {
        AgentSpec::new(name, domain, format!("socket inet {port} {}", words(argv)))
    }

    /// As `inet` over IPv6.
    pub fn ipv6(name: &str, domain: u32, port: u16, argv: &[&str]) -> AgentSpec {
        AgentSpec::new(name, domain, format!("socket ipv6 {port} {}", words(argv)))
    }

    /// A shared object inside pmcd.
    pub fn dso(name: &str, domain: u32, init: &str, path: &str) -> AgentSpec {
        AgentSpec::new(name, domain, format!("dso {init} {path}"))
    }

    /// Gives the agent static names.
    pub fn with_pmns(mut self, pmns: PmnsSource) -> AgentSpec {
        self.pmns = Some(pmns);
        self
    }

    /// PCP's own sample agent, as a daemon on pipes: domain 29, names `sample.*`.
    pub fn sample() -> AgentSpec {
        AgentSpec::sample_as("sample", 29)
    }

    /// The sample agent under another name and domain, for tests with several agents.
    pub fn sample_as(name: &str, domain: u32) -> AgentSpec {
        let (number, log) = (domain.to_string(), format!("{name}.log"));
        let argv = [SAMPLE_PMDA, "-d", &number, "-U", &user(), "-l", &log];
        AgentSpec::pipe(name, domain, &argv).with_pmns(AgentSpec::sample_pmns(name))
    }

    /// The sample agent's name space, its top node called `name`.
    pub fn sample_pmns(name: &str) -> PmnsSource {
        let packaged = PmnsSource::read(name, "SAMPLE", format!("{PMDAS_DIR}/sample/pmns"));
        let renamed = packaged.text.lines().map(|line| match line.strip_prefix("sample") {
            Some(rest) => format!("{name}{rest}\n"),
            None => format!("{line}\n"),
        });
        PmnsSource { text: renamed.collect(), ..packaged }
    }

    fn line(&self) -> String {
        format!("{} {} {}\n", self.name, self.domain, self.how.trim_end())
    }
}

/// Words of a command for pmcd.conf, quoted where its grammar needs it.
fn words(argv: &[&str]) -> String {
    let quoted = argv.iter().map(|word| {
        if word.is_empty() || word.contains([' ', '\t', '#', '"']) {
            format!("\"{}\"", word.replace('"', "\\\"").replace('#', "\\#"))
        } else {
            (*word).to_owned()
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Settings of a pmcd to start; from [`PrivatePmcd::with`].
#[derive(Debug)]
pub struct PmcdBuilder {
    agents: Vec<AgentSpec>,
    options: Vec<String>,
    access: String,
    env: Vec<(String, String)>,
    dir: TempDir,
}

impl PmcdBuilder {
    /// The directory everything will be in, before the start: for sockets and files the agents need.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// One more agent.
    pub fn agent(mut self, agent: AgentSpec) -> PmcdBuilder {
        self.agents.push(agent);
        self
    }

    /// Further options for pmcd, such as `["-t", "2"]`.
    pub fn options<'a>(mut self, options: impl IntoIterator<Item = &'a str>) -> PmcdBuilder {
        self.options.extend(options.into_iter().map(str::to_owned));
        self
    }

    /// An `[access]` section (the text after that line). Without one everybody may do everything.
    pub fn access(mut self, rules: &str) -> PmcdBuilder {
        self.access = rules.to_owned();
        self
    }

    /// A variable in pmcd's own environment, hence in its agents'.
    pub fn env(mut self, name: &str, value: &str) -> PmcdBuilder {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts pmcd and waits until it answers. Its agents may still be starting when they are `notready`;
    /// all others are connected, or have failed (see [`PrivatePmcd::agent_status`]).
    #[track_caller]
    pub fn start(self) -> PrivatePmcd {
        let PmcdBuilder { agents, options, access, env, dir } = self;
        let root = dir.path();
        for sub in ["run", "tmp", "log", "log/pmcd", "log/pmlogger"] {
            fs::create_dir_all(root.join(sub)).expect("the test's directory is writable");
        }
        let mut pcp_env = PcpEnv::new();
        pcp_env.set("PCP_RUN_DIR", root.join("run"));
        pcp_env.set("PCP_TMP_DIR", root.join("tmp"));
        pcp_env.set("PCP_TMPFILE_DIR", root.join("tmp"));
        pcp_env.set("PCP_LOG_DIR", root.join("log"));
        pcp_env.set("PCP_PMCDCONF_PATH", root.join("pmcd.conf"));
        pcp_env.set("PCP_DERIVED_CONFIG", "");
        pcp_env.set("PMNS_DEFAULT", root.join("root"));
        pcp_env.set("PMCD_SOCKET", root.join("pmcd.socket"));
        let mut pmcd =
            PrivatePmcd { process: None, port: 0, agents, options, access, pmcd_env: env, env: pcp_env, dir };
        pmcd.write_pmns();
        pmcd.write_conf();
        for _ in 0..START_ATTEMPTS {
            pmcd.port = free_port();
            pmcd.env.set("PMCD_PORT", pmcd.port.to_string());
            if pmcd.launch() {
                return pmcd;
            }
        }
        panic!("pmcd does not start:\n{}", pmcd.logs());
    }
}

/// A running pmcd. Dropping it stops pmcd, whose agents end with it, and removes the directory.
#[derive(Debug)]
pub struct PrivatePmcd {
    /// Before `dir`: stopped before its files go.
    process: Option<Process>,
    port: u16,
    agents: Vec<AgentSpec>,
    options: Vec<String>,
    access: String,
    pmcd_env: Vec<(String, String)>,
    env: PcpEnv,
    dir: TempDir,
}

impl PrivatePmcd {
    /// A pmcd with these agents besides its own (domain 2, `pmcd.*`).
    pub fn with(agents: impl IntoIterator<Item = AgentSpec>) -> PmcdBuilder {
        PmcdBuilder {
            agents: agents.into_iter().collect(),
            options: Vec::new(),
            access: String::new(),
            env: Vec::new(),
            dir: temp_dir(),
        }
    }

    /// The directory with everything in it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The environment that leads PCP's tools to this pmcd, over its Unix socket when no host is given.
    pub fn env(&self) -> &PcpEnv {
        &self.env
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host specification (`-h`) over TCP.
    pub fn inet(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Host specification (`-h`) of the Unix socket.
    pub fn unix(&self) -> String {
        format!("unix:/{}", self.socket().display())
    }

    /// The Unix socket clients connect to.
    pub fn socket(&self) -> PathBuf {
        self.dir().join("pmcd.socket")
    }

    /// Process id of pmcd itself.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("pmcd runs between start and drop").pid()
    }

    /// Runs a PCP tool against this pmcd (over the Unix socket unless `args` name a host) to its end.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = A>) -> Output {
        self.env.run(program, args)
    }

    /// Starts a PCP tool against this pmcd in the background; `name` is for its output files.
    #[track_caller]
    pub fn spawn<A: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = A>,
        name: &str,
    ) -> Process {
        Process::start(self.env.command(program).args(args), self.dir(), name)
    }

    /// pmcd's own bit mask for an agent (0: connected and ready; 1 not ready, 2 exited, 4 not started,
    /// 8 protocol failure), from `pmcd.agent.status`; `None` when it does not know the agent.
    pub fn agent_status(&self, agent: &str) -> Option<u32> {
        // over TCP: a client on the Unix socket is upset when an agent is not ready
        let output = self.run("pminfo", ["-h", &self.inet(), "-f", "pmcd.agent.status"]);
        let line = output.stdout.lines().find(|line| line.contains(&format!("or \"{agent}\"]")))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Waits until the agent is connected and ready.
    #[track_caller]
    pub fn wait_ready(&self, agent: &str) {
        let ready = wait_until(Duration::from_secs(20), || (self.agent_status(agent)? == 0).then_some(()));
        assert!(ready.is_some(), "{agent}: status {:?}\n{}", self.agent_status(agent), self.logs());
    }

    /// SIGHUP: pmcd reads its configuration again and starts dead agents. Returns when that is done.
    #[track_caller]
    pub fn reconfigure(&mut self) {
        let sighups =
            |pmcd: &PrivatePmcd| pmcd.value("pmcd.sighups").and_then(|text| text.parse::<u64>().ok());
        let before = sighups(self).expect("pmcd counts its SIGHUPs");
        self.process.as_mut().expect("pmcd runs between start and drop").signal(Signal::SIGHUP);
        // pmcd counts the signal and then reconfigures before it answers anybody again
        eventually("pmcd to take SIGHUP", || sighups(self).filter(|now| *now > before));
    }

    /// Stops pmcd, and starts it again with the same configuration on the same port and sockets.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Starts a stopped pmcd with the same configuration on the same port and sockets.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(self.launch(), "pmcd does not start again:\n{}", self.logs());
    }

    /// Stops pmcd and waits for it.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// The single value of a metric without instances as `pminfo -f` prints it.
    pub fn value(&self, metric: &str) -> Option<String> {
        let output = self.run("pminfo", ["-f", metric]);
        let value = output.stdout.lines().find_map(|line| line.strip_prefix("    value "))?;
        Some(value.to_owned())
    }

    /// Every log in the directory, for the message of a failing test.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for dir in [self.dir().to_owned(), self.dir().join("log/pmcd")] {
            let mut paths: Vec<_> =
                fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
            paths.sort();
            for path in paths {
                if path.extension().is_some_and(|e| e == "log" || e == "err" || e == "out") {
                    let content = fs::read(&path).unwrap_or_default();
                    let _ = writeln!(text, "--- {}\n{}", path.display(), String::from_utf8_lossy(&content));
                }
            }
        }
        text
    }

    /// Starts the process; false when it ends, is deaf, or another program sits on the port.
    fn launch(&mut self) -> bool {
        let port = self.port.to_string();
        let file = |name: &str| self.dir().join(name).into_os_string();
        let mut command = self.env.command("pmcd");
        // Of its five seconds for an agent's first word a disk that is slow for a while may take all: an agent that is new writes what it
        // needs first.
        command.args(["-f", "-A", "-i", "127.0.0.1", "-p", &port, "-q", "20"]);
        for (option, name) in [
            ("-s", "pmcd.socket"),
            ("-c", "pmcd.conf"),
            ("-n", "root"),
            ("-l", "pmcd.log"),
            ("-x", "fatal.log"),
        ] {
            command.arg(option).arg(file(name));
        }
        // with the variable set as well pmcd complains that it has the port twice
        command.env_remove("PMCD_PORT");
        command.args(&self.options).envs(self.pmcd_env.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.dir());
        let mut process = Process::start(&mut command, self.dir(), "pmcd");
        let pid = process.pid().to_string();
        let host = self.inet();
        let answers = wait_until(Duration::from_secs(30), || {
            if process.exited().is_some() {
                return Some(false);
            }
            let output = self.run("pminfo", ["-h", &host, "-f", "pmcd.pid"]);
            // another pmcd's answer means that its port is not ours
            let value = output.stdout.lines().find_map(|line| line.strip_prefix("    value "))?;
            Some(value == pid)
        });
        self.process = Some(process);
        answers == Some(true)
    }

    fn write_pmns(&self) {
        let mut roots = vec![PathBuf::from(PMCD_PMNS)];
        for agent in &self.agents {
            let Some(pmns) = &agent.pmns else { continue };
            let text = pmns.text.replace(&format!("{}:", pmns.symbol), &format!("{}:", agent.domain));
            let source = self.dir().join(format!("pmns.{}", pmns.name));
            fs::write(&source, text).expect("the test's directory is writable");
            let root = self.dir().join(format!("root_{}", pmns.name));
            let include = format!("root {{\n  {}\n}}\n#include \"{}\"\n", pmns.name, source.display());
            fs::write(&root, include).expect("the test's directory is writable");
            roots.push(root);
        }
        let mut args = vec![PathBuf::from("-f")];
        args.extend(roots);
        args.push(self.dir().join("root"));
        self.env.run("pmnsmerge", args).ok();
    }

    fn write_conf(&self) {
        let mut text = format!("pmcd 2 dso pmcd_init {PMDAS_DIR}/pmcd/pmda_pmcd.so\n");
        for agent in &self.agents {
            text += &agent.line();
        }
        if !self.access.is_empty() {
            let _ = write!(text, "\n[access]\n{}\n", self.access);
        }
        fs::write(self.dir().join("pmcd.conf"), text).expect("the test's directory is writable");
    }

    /// Replaces an agent's line in pmcd.conf (or adds one); takes effect with [`PrivatePmcd::reconfigure`].
    pub fn set_agent(&mut self, agent: AgentSpec) {
        match self.agents.iter_mut().find(|known| known.name == agent.name) {
            Some(known) => *known = agent,
            None => self.agents.push(agent),
        }
        self.write_conf();
    }
}

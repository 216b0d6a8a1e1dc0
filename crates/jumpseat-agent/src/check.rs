//! A configuration against the machine it is for: what would keep an agent from doing what it says, and what a reload would
//! change.

use std::fmt;
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};

use jumpseat_source::InvalidKey;
use jumpseat_source::follow::look;
use jumpseat_source::guard::tls::TlsFiles;
use jumpseat_source::registry::known_names;
use nix::sys::stat::Mode;
use pcp_derive::Dialect;
use pcp_net::{Certificate, Passwords, Who, is_served};
use serde::Serialize;

use crate::changes::{Change, between};
use crate::config::Config;
use crate::derived::files;
use crate::handover::{self, Waiting};
use crate::kinds;
use crate::rights::Rights;
use crate::running::{Running, tables};

/// Most files of a pattern that are looked at one by one.
const MOST_FILES: usize = 100;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// The agent will not start, or a table will do nothing.
    Error,
    /// Something will not be as it is written.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How grave it is.
    pub grade: Grade,
    /// The key or the table.
    pub what: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grade = match self.grade {
            Grade::Error => "error",
            Grade::Warning => "warning",
            Grade::Note => "note",
        };
        write!(f, "{grade}: {}: {}", self.what, self.message)
    }
}

/// For whom a configuration is checked.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Where identifiers are kept.
    pub state_dir: PathBuf,
    /// The domain number.
    pub domain: u16,
    /// The user that the agent runs as; `None`: who asks.
    pub user: Option<String>,
}

/// What there is to say of a configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was found.
    pub findings: Vec<Finding>,
    /// The agent that runs with the state directory.
    pub running: Option<Agent>,
}

/// An agent that runs.
#[derive(Clone, Debug, Serialize)]
pub struct Agent {
    /// Its process.
    pub pid: u32,
    /// The file that it has read.
    pub config: PathBuf,
    /// What a reload would change, and what only a start would.
    pub changes: Vec<Change>,
    /// What a reload would not start, as the agent has given up the right to.
    pub unreachable: Vec<Finding>,
}

/// The process of the agent that runs with a state directory and has read a configuration file.
pub fn running(state_dir: &Path, domain: u16) -> Option<u32> {
    Running::read(state_dir, domain).map(|running| running.pid)
}

/// A configuration as data, every key with its value, but for what may be a secret: arguments of commands, and what
/// stands for a user in the specification of a host. (Keys and passwords are in files of their own.)
pub fn without_secrets(config: &Config) -> serde_json::Value {
    let mut tables = tables(config);
    let commands = tables.get_mut("command").and_then(serde_json::Value::as_array_mut);
    for run in commands.into_iter().flatten().filter_map(|table| table.get_mut("run")) {
        let program = match &*run {
            serde_json::Value::Array(words) => words.first().and_then(serde_json::Value::as_str),
            run => run.as_str().and_then(|text| text.split_whitespace().next()),
        };
        // Of a line for the shell not even the first word need be a program.
        let program = program.filter(|word| !word.contains(['=', '\'', '"'])).unwrap_or_default();
        *run = serde_json::json!([program, LEFT_OUT]);
    }
    if let Some(pmcd) = tables.get_mut("derived").and_then(|derived| derived.get_mut("pmcd"))
        && let Some(text) = pmcd.as_str().filter(|text| text.contains(['?', '@']))
    {
        let end = text.find(['?', '@']).unwrap_or_default();
        *pmcd = format!("{}{LEFT_OUT}", &text[..end]).into();
    }
    tables.into()
}

/// Stands for what may be a secret.
const LEFT_OUT: &str = "(left out)";

/// Looks at everything that a configuration needs.
///
/// # Errors
/// There is no such user.
pub fn check(config: &Config, setting: &Setting) -> Result<Report, String> {
    let rights = match &setting.user {
        Some(name) => Rights::of_user(name)?,
        None => Rights::own(),
    };
    let running = Running::read(&setting.state_dir, setting.domain);
    let waiting = handover::waiting(&setting.state_dir, setting.domain);
    let mut checker = Checker { config, setting, rights, running, waiting, findings: Vec::new() };
    checker.all();
    let Checker { running, findings, .. } = checker;
    Ok(Report { findings, running: running.map(|running| agent(config, &running)) })
}

fn agent(config: &Config, running: &Running) -> Agent {
    let new = tables(config);
    let now = between(&running.current, &new).into_iter().filter(|change| change.at_start.is_none());
    let later = between(&running.started, &new).into_iter().filter(|change| change.at_start.is_some());
    let unreachable = kinds::refused(config, &running.reach).into_iter();
    Agent {
        pid: running.pid,
        config: running.path.clone(),
        changes: now.chain(later).collect(),
        unreachable: unreachable
            .map(|(what, message)| Finding { grade: Grade::Warning, what, message })
            .collect(),
    }
}

struct Checker<'a> {
    config: &'a Config,
    setting: &'a Setting,
    rights: Rights,
    running: Option<Running>,
    /// Where an agent has listened that has ended, and the next one will.
    waiting: Waiting,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn all(&mut self) {
        self.directories();
        self.sockets();
        self.otlp();
        self.targets();
        self.secrets();
        self.definitions();
        self.files();
        self.programs();
        self.kernel();
        self.rules();
        self.people();
    }

    fn tell(&mut self, grade: Grade, what: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Finding { grade, what: what.into(), message: message.into() });
    }

    /// Whether the agent that runs has a table of this kind with this value.
    fn runs_with(&self, table: &str, key: &str, value: &str) -> bool {
        let Some(running) = &self.running else { return false };
        let has =
            |table: &serde_json::Value| table.get(key).and_then(serde_json::Value::as_str) == Some(value);
        match running.current.get(table) {
            Some(serde_json::Value::Array(tables)) => tables.iter().any(has),
            Some(table) => has(table),
            None => false,
        }
    }

    fn directories(&mut self) {
        let state = self.setting.state_dir.clone();
        self.writable("state_dir", &state, Grade::Error);
        if let Some(dir) = self.config.log.dir(None, self.setting.domain) {
            self.writable("log.dir", &dir, Grade::Error);
        }
        if let Some(dir) = self.config.log.contexts() {
            let configured = self.config.log.contexts.is_some();
            let grade = if configured { Grade::Warning } else { Grade::Note };
            self.writable("log.contexts", &dir, grade);
        }
    }

    /// A directory that the agent writes to, or makes.
    fn writable(&mut self, what: &str, dir: &Path, grade: Grade) {
        // The nearest that is there.
        let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
        let is_there = there == dir || there.as_os_str().is_empty();
        let (shown, user) = (dir.display(), self.rights.name());
        if is_there && !dir.is_dir() {
            self.tell(grade, what, format!("{shown} is not a directory"));
        } else if !self.rights.may(there, Mode::S_IWUSR | Mode::S_IXUSR) {
            let place = there.display();
            let words = if is_there { String::new() } else { format!(", and {shown} cannot be made") };
            self.tell(grade, what, format!("{user} may not write to {place}{words}: chown or chmod it"));
        }
    }

    fn sockets(&mut self) {
        for socket in &self.config.socket {
            let what = format!("[[socket]] {}", socket.place());
            if let Some(address) = &socket.listen {
                self.address(what.clone(), ("socket", "listen"), address);
                self.receiver(&what, socket.check_files(), socket.tls.as_ref(), socket.token_file.as_deref());
                continue;
            }
            if let Err(error) = socket.gid() {
                self.tell(Grade::Error, &what, error.to_string());
            }
            let dir = socket.path.parent().filter(|dir| !dir.as_os_str().is_empty());
            let dir = dir.unwrap_or(Path::new("."));
            if !dir.is_dir() {
                self.tell(Grade::Error, &what, format!("there is no directory {}", dir.display()));
                continue;
            }
            self.writable(&what, dir, Grade::Error);
            match is_served(&socket.path) {
                Ok(true) if self.runs_with("socket", "path", &socket.path.to_string_lossy()) => {}
                Ok(true) if self.waiting.unix.contains(&socket.path) => {}
                Ok(true) => {
                    self.tell(
                        Grade::Error,
                        &what,
                        "another process listens there; stop it or name another path",
                    );
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) | Ok(false) if is_socket(&socket.path) => {}
                Err(_) | Ok(false) => {
                    self.tell(
                        Grade::Error,
                        &what,
                        "exists and is not a socket; remove it or name another path",
                    );
                }
            }
        }
    }

    fn otlp(&mut self) {
        let otlp = &self.config.otlp;
        for (key, address) in [("listen", &otlp.listen), ("grpc", &otlp.grpc)] {
            let Some(address) = address else { continue };
            self.address(format!("otlp.{key}"), ("otlp", key), address);
        }
        self.receiver("otlp", otlp.check_files(), otlp.tls.as_ref(), otlp.token_file.as_deref());
    }

    /// The files of targets to scrape: the agent's user reads them again.
    fn targets(&mut self) {
        for scrape in &self.config.scrape {
            let what = format!("[[scrape]] {}", scrape.name);
            if let Err(error) = scrape.check_files() {
                // A file of targets may come later, and costs no others.
                let grade = if error.key == "targets_file" { Grade::Warning } else { Grade::Error };
                self.tell(grade, format!("{what}.{}", error.key), error.problem.to_string());
                continue;
            }
            for path in scrape.paths().iter().chain(&scrape.targets_file) {
                self.readable(&what, path);
            }
        }
    }

    /// Whether this address can be listened on, which is the value of a key of a table.
    fn address(&mut self, what: String, (table, key): (&str, &str), address: &str) {
        if self.runs_with(table, key, address) {
            return;
        }
        let addresses = match address.to_socket_addrs() {
            Err(error) => return self.tell(Grade::Error, what, format!("{address}: {error}")),
            Ok(addresses) => addresses,
        };
        let mut others = addresses.filter(|address| !self.waiting.tcp.contains(address));
        let in_use = others.find_map(|address| {
            let error = TcpListener::bind(address).err()?;
            // A machine without IPv6 has one address less of localhost.
            (error.kind() != io::ErrorKind::AddrNotAvailable).then(|| format!("{address}: {error}"))
        });
        if let Some(error) = in_use {
            self.tell(
                Grade::Error,
                what,
                format!("{error}; stop what listens there, or name another address"),
            );
        }
    }

    /// The files of who listens to a network, `checked` as to what is in them: the agent's user reads them again.
    fn receiver(
        &mut self,
        what: &str,
        checked: Result<(), InvalidKey>,
        tls: Option<&TlsFiles>,
        tokens: Option<&Path>,
    ) {
        if let Err(error) = checked {
            return self.tell(Grade::Error, format!("{what}.{}", error.key), error.problem.to_string());
        }
        if let Some(path) = tokens {
            self.readable(&format!("{what}.token_file"), path);
        }
        for path in tls.into_iter().flat_map(TlsFiles::paths) {
            self.readable(&format!("{what}.tls"), &path);
        }
    }

    fn secrets(&mut self) {
        // Read before the user changes, by who starts the agent.
        if let Some(files) = self.config.tls.files()
            && let Err(error) = Certificate::load(&files)
        {
            self.tell(Grade::Error, "tls", error.to_string());
        }
        if let Some(path) = &self.config.access.passwords {
            match Passwords::open(path) {
                Err(error) => self.tell(Grade::Error, "access.passwords", error.to_string()),
                Ok(_) => self.readable("access.passwords", path),
            }
        }
    }

    fn readable(&mut self, what: &str, path: &Path) {
        if !self.rights.may(path, Mode::S_IRUSR) {
            let user = self.rights.name();
            self.tell(
                Grade::Error,
                what,
                format!("{user} may not read {}: chgrp or chmod it", path.display()),
            );
        }
    }

    fn definitions(&mut self) {
        let derived = &self.config.derived;
        let dialect = if derived.portable { Dialect::portable() } else { Dialect::default() };
        match files::read(derived.files.as_deref(), dialect) {
            Err(error) => self.tell(Grade::Error, "derived.files", error.to_string()),
            Ok(found) => {
                for problem in found.problems {
                    self.tell(Grade::Error, "derived.files", problem);
                }
                for path in derived.files.iter().flatten() {
                    self.readable("derived.files", path);
                }
            }
        }
    }

    fn files(&mut self) {
        for file in &self.config.file {
            let what = format!("[[file]] {}", file.path.display());
            let found = match look(file) {
                Ok(found) => found,
                Err(lack) => {
                    self.tell(Grade::Note, what, format!("matches nothing yet: {lack}"));
                    continue;
                }
            };
            let unreadable = |path: &&PathBuf| !self.rights.may(path, Mode::S_IRUSR);
            let closed: Vec<PathBuf> = found.iter().take(MOST_FILES).filter(unreadable).cloned().collect();
            if let Some(first) = closed.first() {
                let more = match closed.len() {
                    1 => String::new(),
                    number => format!(" and {} more", number - 1),
                };
                let (user, first) = (self.rights.name(), first.display());
                let words =
                    format!("{user} may not read {first}{more}: give it the group of the files, or an ACL");
                self.tell(Grade::Error, &what, words);
            }
            if found.len() > file.max_files {
                let words = format!("matches {} files, and max_files is {}", found.len(), file.max_files);
                self.tell(Grade::Warning, &what, words);
            }
        }
    }

    fn programs(&mut self) {
        for command in &self.config.command {
            let argv = command.run.argv();
            let Some(program) = argv.first() else { continue };
            self.program(format!("[[command]] {}", command.run), program);
        }
        for journal in &self.config.journal {
            self.program(format!("[[journal]] {}", journal.source), "journalctl");
        }
    }

    fn program(&mut self, what: String, program: &str) {
        let found = match program.contains('/') {
            true => Some(PathBuf::from(program)).filter(|path| path.is_file()),
            false => std::env::var_os("PATH").and_then(|path| {
                std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
            }),
        };
        match found {
            None => self.tell(Grade::Error, what, format!("there is no program {program}")),
            Some(path) if !self.rights.may(&path, Mode::S_IXUSR) => {
                let words = format!("{} may not run {}", self.rights.name(), path.display());
                self.tell(Grade::Error, what, words);
            }
            Some(_) => {}
        }
    }

    fn kernel(&mut self) {
        for kernel in &self.config.kernel {
            let what = format!("[[kernel]] {}", kernel.source);
            if kernel.events.is_empty() && kernel.probes.is_empty() {
                self.tell(
                    Grade::Note,
                    what,
                    "has neither events nor probes: it takes what programs write to trace_marker",
                );
            } else if !nix::unistd::geteuid().is_root() {
                self.tell(Grade::Note, what, "not looked at: the kernel's events are for root to see");
            }
        }
    }

    fn rules(&mut self) {
        let mut names = kinds::source_names(self.config);
        let known = known_names(&self.setting.state_dir, self.setting.domain).unwrap_or_default();
        names.extend(known.into_iter().filter(|known| known.kind == "source").map(|known| known.name));
        // A file without a name for its source has its own.
        let files = self.config.file.iter().filter(|file| file.source.is_none());
        let found = files.flat_map(|file| look(file).unwrap_or_else(|_| vec![file.path.clone()]));
        names.extend(found.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())));
        for rule in &self.config.source {
            if rule.name.0 != "*" && !names.iter().any(|name| rule.name.matches(name)) {
                let near = pcp_model::text::nearest(&rule.name.0, names.iter().map(String::as_str));
                let hint = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
                let what = format!("[[source]] {}", rule.name.0);
                self.tell(Grade::Note, what, format!("no source is called so yet{hint}"));
            }
        }
    }

    fn people(&mut self) {
        let access = &self.config.access;
        let lists = [("access.fetch", &access.fetch), ("access.store", &access.store)];
        for (what, entries) in lists {
            if Who::of(entries.iter().map(String::as_str), |_| {}) == Who::default() {
                self.tell(Grade::Warning, what, "names nobody: only root is let in");
            }
        }
        for user in &self.config.control.users {
            if !matches!(nix::unistd::User::from_name(user), Ok(Some(_))) {
                let words = format!("there is no user {user:?} on this machine");
                self.tell(Grade::Warning, "control.users", words);
            }
        }
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_left_out() {
        let text = "[derived]\npmcd = 'pcps://h?user=me&pass=hush'\n[[command]]\nrun = ['curl', '-u', 'me:hush']\n\
                    [[command]]\nrun = 'PASS=hush x'\n[[command]]\nrun = 'psql hush'\n";
        let config = Config::parse(text, Path::new("j.toml")).expect("right");
        let shown = without_secrets(&config).to_string();
        assert!(!shown.contains("hush"), "{shown}");
        for part in ["[\"curl\",\"(left out)\"]", "[\"psql\",\"(left out)\"]", "\"pcps://h(left out)\""] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}

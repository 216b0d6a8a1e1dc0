//! Which agents a context may start: those of pmcd's configuration, and those of specifications (`docs/pcp/agent.md` 2,
//! `pmSpecLocalPMDA(3)`).
//!
//! ```text
//! NAME DOMAIN pipe binary [notready] PROGRAM [ARGUMENT...]
//! NAME DOMAIN socket inet|ipv6|unix PORT|PATH [PROGRAM [ARGUMENT...]]
//! NAME DOMAIN dso INIT OBJECT                      [access] ends the list
//! add,DOMAIN,OBJECT,INIT | del,DOMAIN | del,DOMAIN,OBJECT | del,,OBJECT | clear
//! ```
//! A shared object `DIR/pmda_NAME.so` whose routine is `NAME_init` has a daemon beside it, `DIR/pmdaNAME`, which takes its domain by
//! `-d`. One whose routine is called otherwise is another agent than that daemon. Relative paths are of the folder of agents, else of the
//! working directory.
//!
//! Of several agents of a domain the first counts, as in libpcp: what `add` says of a domain that is there already is not looked at, until
//! `del` takes that out.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pcp_files::settings;

use super::LocalFault;

/// The largest domain of an agent.
const MAX_DOMAIN: u16 = 510;
/// pmcd's configuration is no longer: more is not read.
const MAX_CONF: u64 = 1 << 20;
/// Agents, of which more are not taken.
const MAX_AGENTS: usize = 4096;
/// The operating system's agent: libpcp takes its shared object where pmcd has its daemon.
const LINUX: (&str, u16) = ("linux", 60);
/// pmcd's helper, which has a socket that there is one of.
const ROOT: (&str, u16) = ("root", 1);

/// The agents that a context may start.
#[derive(Clone, Debug)]
pub struct LocalAgents {
    /// Of several of a domain the first counts.
    agents: Vec<Agent>,
    /// Where shared objects are that are named by a relative path.
    dir: PathBuf,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Agent {
    pub name: String,
    pub domain: u16,
    pub how: How,
}

/// How an agent is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// A program and its arguments.
    Pipe { words: Vec<String>, notready: bool },
    /// It listens for pmcd.
    Socket,
    /// A shared object.
    Object { object: String, init: String },
}

/// A program to be started, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub words: Vec<String>,
    /// Whether it tells when it is ready.
    pub notready: bool,
}

/// What is wrong with a specification, in the words of `pmSpecLocalPMDA(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalSpecError {
    /// There is more behind `clear`.
    #[error("unexpected text after clear op in spec")]
    AfterClear,
    /// Neither `add`, `del` nor `clear`.
    #[error("bad op in spec")]
    Op,
    /// Nothing follows the word.
    #[error("expected , after op in spec")]
    Comma,
    /// There is no domain.
    #[error("missing domain in spec")]
    NoDomain,
    /// The domain is no number from 0 to 510.
    #[error("bad domain in spec")]
    Domain,
    /// There is no shared object to add.
    #[error("missing dso-path in spec")]
    NoObject,
    /// There is no routine to add.
    #[error("missing init-routine in spec")]
    NoInit,
    /// There is no such agent to leave out.
    #[error("__pmLocalPMDA: Unknown or illegal instance domain identifier")]
    Unknown,
    /// There are more agents than there can be domains.
    #[error("too many specs")]
    TooMany,
}

impl LocalAgents {
    /// Those of the installed pmcd: of the file that `PCP_PMCDCONF_PATH` names, or `$PCP_SYSCONF_DIR/pmcd/pmcd.conf`. None
    /// where that cannot be read.
    pub fn installed() -> LocalAgents {
        let path = |name: &str| settings::setting(name).map(PathBuf::from);
        let conf = path("PCP_PMCDCONF_PATH").unwrap_or_else(|| {
            path("PCP_SYSCONF_DIR").unwrap_or_else(|| PathBuf::from("/etc/pcp")).join("pmcd/pmcd.conf")
        });
        let dir = path("PCP_PMDAS_DIR").unwrap_or_else(|| PathBuf::from("/var/lib/pcp/pmdas"));
        LocalAgents::of_conf(&String::from_utf8_lossy(&beginning(&conf).unwrap_or_default()), &dir)
    }

    /// Those of a text as `pmcd.conf` has it. Lines that make no sense are left out, as pmcd does. Shared objects that
    /// specifications name by a relative path are in `dir`.
    pub fn of_conf(text: &str, dir: &Path) -> LocalAgents {
        let mut agents = Vec::new();
        for line in logical_lines(text) {
            let words = words(&line);
            match words.first().map(String::as_str) {
                Some("[access]") => break,
                Some(_) if agents.len() < MAX_AGENTS => agents.extend(Agent::of_words(words)),
                _ => {}
            }
        }
        LocalAgents { agents, dir: dir.to_owned() }
    }

    /// Without those that libpcp does not have in local contexts: daemons but that of the operating system.
    #[must_use]
    pub fn of_libpcp(mut self) -> LocalAgents {
        self.agents.retain(Agent::is_libpcps);
        self
    }

    /// Changes the table by a specification.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn specify(&mut self, spec: &str) -> Result<(), LocalSpecError> {
        if let Some(rest) = spec.strip_prefix("clear") {
            if !rest.is_empty() {
                return Err(LocalSpecError::AfterClear);
            }
            self.agents.clear();
            return Ok(());
        }
        let spec = spec.split('|').next().unwrap_or_default();
        let (op, rest) = spec.split_at_checked(3).ok_or(LocalSpecError::Op)?;
        if op != "add" && op != "del" {
            return Err(LocalSpecError::Op);
        }
        let rest = rest.strip_prefix(',').ok_or(LocalSpecError::Comma)?;
        let (domain, rest) = rest.split_once(',').unwrap_or((rest, ""));
        let (object, init) = rest.split_once(',').unwrap_or((rest, ""));
        let domain = match domain {
            "" if op == "del" && !object.is_empty() => None,
            "" => return Err(LocalSpecError::NoDomain),
            digits => match digits.parse() {
                Ok(domain) if domain <= MAX_DOMAIN => Some(domain),
                _ => return Err(LocalSpecError::Domain),
            },
        };
        match (op, domain) {
            ("add", Some(domain)) => self.add(domain, object, init),
            _ => self.remove(domain, object),
        }
    }

    fn add(&mut self, domain: u16, object: &str, init: &str) -> Result<(), LocalSpecError> {
        if object.is_empty() {
            return Err(LocalSpecError::NoObject);
        }
        if init.is_empty() {
            return Err(LocalSpecError::NoInit);
        }
        if self.agents.len() >= MAX_AGENTS {
            return Err(LocalSpecError::TooMany);
        }
        let how = How::Object { object: object.to_owned(), init: init.to_owned() };
        let agent = Agent { name: init.strip_suffix("_init").unwrap_or(init).to_owned(), domain, how };
        // A daemon of pmcd's is no agent of local contexts for libpcp, so that what is added takes its place.
        match self.agents.iter().position(|known| known.domain == domain && !known.is_libpcps()) {
            Some(at) => self.agents.insert(at, agent),
            None => self.agents.push(agent),
        }
        Ok(())
    }

    fn remove(&mut self, domain: Option<u16>, object: &str) -> Result<(), LocalSpecError> {
        let given = |agent: &Agent| {
            let same_object = matches!(&agent.how, How::Object { object: own, .. } if own == object);
            agent.is_libpcps() && (Some(agent.domain) == domain || (!object.is_empty() && same_object))
        };
        let at = self.agents.iter().position(given).ok_or(LocalSpecError::Unknown)?;
        self.agents.remove(at);
        Ok(())
    }

    /// The agent of a domain.
    pub(super) fn find(&self, domain: u16) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.domain == domain)
    }

    /// What is to be started for an agent.
    pub(super) fn program(&self, agent: &Agent) -> Result<Program, LocalFault> {
        let (name, domain) = (agent.name.clone(), agent.domain);
        let (object, init) = match &agent.how {
            // It is there for pmcd: another one would take its socket away.
            How::Pipe { .. } if (name.as_str(), domain) == ROOT => {
                return Err(LocalFault::Pmcds { name, domain });
            }
            How::Pipe { words, notready } => {
                let mut words = words.clone();
                // It runs in a folder of its own.
                if let Some(program) = words.first_mut().filter(|program| program.contains('/')) {
                    *program = from_here(Path::new(program)).to_string_lossy().into_owned();
                }
                return Ok(Program { words, notready: *notready });
            }
            How::Socket => return Err(LocalFault::Pmcds { name, domain }),
            How::Object { .. } if agent.is_pmcd() => return Err(LocalFault::Pmcds { name, domain }),
            How::Object { object, init } => (object, init),
        };
        // As libpcp looks for it.
        let places = [self.dir.join(object), from_here(Path::new(object))];
        for object in &places {
            if let Some(daemon) = daemon_beside(object, init) {
                let words = vec![daemon.to_string_lossy().into_owned(), "-d".to_owned(), domain.to_string()];
                return Ok(Program { words, notready: false });
            }
            let with_suffix = PathBuf::from(format!("{}.so", object.display()));
            if let Some(object) = [object, &with_suffix].into_iter().find(|object| object.is_file()) {
                return Err(LocalFault::SharedObject { name, domain, object: object.clone() });
            }
        }
        let [file, _] = places;
        Err(LocalFault::Missing { name, domain, file })
    }
}

/// The daemon of a shared object whose routine is `init`, if there is one. The daemon itself may be named as well.
fn daemon_beside(object: &Path, init: &str) -> Option<PathBuf> {
    let file = object.file_name()?.to_str()?;
    let base = file.strip_suffix(".so").unwrap_or(file);
    let daemon = match base.strip_prefix("pmda_") {
        Some(own) if init.strip_suffix("_init") == Some(own) => object.with_file_name(format!("pmda{own}")),
        None if base == file => object.to_owned(),
        _ => return None,
    };
    is_program(&daemon).then_some(daemon)
}

impl Agent {
    /// Of the words of a line.
    fn of_words(words: Vec<String>) -> Option<Agent> {
        let mut words = words.into_iter();
        let (name, domain, kind) = (words.next()?, words.next()?, words.next()?);
        let domain = domain.parse().ok().filter(|domain| *domain <= MAX_DOMAIN)?;
        let how = match kind.as_str() {
            "pipe" => {
                words.next().filter(|protocol| protocol == "binary")?;
                let mut words: Vec<String> = words.collect();
                let notready = words.iter().take_while(|word| *word == "notready").count();
                words.drain(..notready);
                // pmcd looks in PATH for those that are named without a folder, and so does the system.
                words.first()?;
                How::Pipe { words, notready: notready > 0 }
            }
            "socket" => How::Socket,
            "dso" => {
                let (init, object) = (words.next()?, words.next()?);
                How::Object { object, init }
            }
            _ => return None,
        };
        Some(Agent { name, domain, how })
    }

    fn is_pmcd(&self) -> bool {
        self.name == "pmcd" && matches!(self.how, How::Object { .. })
    }

    /// Whether libpcp has it in its table of shared objects.
    fn is_libpcps(&self) -> bool {
        match self.how {
            How::Object { .. } => !self.is_pmcd(),
            How::Pipe { .. } => (self.name.as_str(), self.domain) == LINUX,
            How::Socket => false,
        }
    }
}

/// What there is of a file, as far as it is read.
fn beginning(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(file)?.take(MAX_CONF).read_to_end(&mut text)?;
    Ok(text)
}

/// A path as it is from any folder. Without a working directory it stays as it is.
fn from_here(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether it is a file that can be run.
fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Lines, with those put together that a backslash at the end continues.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for part in text.lines() {
        match part.strip_suffix('\\') {
            Some(part) => {
                line.push_str(part);
                line.push(' ');
            }
            None => {
                line.push_str(part);
                lines.push(std::mem::take(&mut line));
            }
        }
    }
    lines.push(line);
    lines
}

/// The words of a line: quotes hold one together, `#` outside of them ends the line.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if matches!(chars.peek(), Some('"' | '#')) => {
                word.get_or_insert_default().extend(chars.next());
            }
            '#' if !quoted => break,
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "# comment
root\t1\tpipe\tbinary\t\t/pmdas/root/pmdaroot
pmcd 2 dso pmcd_init /pmdas/pmcd/pmda_pmcd.so
proc 3 pipe binary notready /pmdas/proc/pmdaproc -d 3 \"a b\" \\\"x # rest
bad x pipe binary /x
bad 511 pipe binary /x
bad 5 pipe text /x
bad 6 pipe binary
bad 7 other
web 8 socket inet 9 /x
linux 60 pipe binary \\
    /pmdas/linux/pmdalinux
pmproxy 4 dso pmproxy_init /pmdas/mmv/pmda_mmv.so
[access]
late 9 pipe binary /x
";

    fn conf() -> LocalAgents {
        LocalAgents::of_conf(CONF, Path::new("/pmdas"))
    }

    #[test]
    fn a_configuration_is_read_as_pmcd_reads_it() {
        let agents = conf();
        let domains: Vec<u16> = agents.agents.iter().map(|agent| agent.domain).collect();
        assert_eq!(domains, [1, 2, 3, 8, 60, 4]);
        let words = ["/pmdas/proc/pmdaproc", "-d", "3", "a b", "\"x"].map(str::to_owned).to_vec();
        let proc = Program { words, notready: true };
        assert_eq!(agents.program(agents.find(3).unwrap()).unwrap(), proc);
        let linux = agents.program(agents.find(60).unwrap()).unwrap();
        assert_eq!((linux.words, linux.notready), (vec!["/pmdas/linux/pmdalinux".to_owned()], false));
        assert!(agents.find(9).is_none());
        let domains: Vec<u16> = agents.of_libpcp().agents.iter().map(|agent| agent.domain).collect();
        assert_eq!(domains, [60, 4]);
    }

    #[test]
    fn what_is_pmcds_or_no_program_is_told() {
        let agents = conf();
        let fault = |domain| agents.program(agents.find(domain).unwrap()).unwrap_err();
        for domain in [1, 2, 8] {
            assert!(matches!(fault(domain), LocalFault::Pmcds { .. }), "{domain}");
        }
        assert_eq!(fault(4).to_string(), "agent pmproxy (domain 4) is not there: no /pmdas/mmv/pmda_mmv.so");
    }

    #[test]
    fn specifications_change_the_table_as_in_libpcp() {
        use LocalSpecError::*;
        let check = |specs: &[&str], expected: Result<(), LocalSpecError>| {
            let mut agents = conf();
            let (last, before) = specs.split_last().unwrap();
            before.iter().for_each(|spec| agents.specify(spec).unwrap());
            assert_eq!(agents.specify(last), expected, "{specs:?}");
        };
        for (spec, problem) in [
            ("", Op),
            ("foo", Op),
            ("add", Comma),
            ("addx", Comma),
            ("add,", NoDomain),
            ("add,,x,y", NoDomain),
            ("add,30", NoObject),
            ("add,30,", NoObject),
            ("add,30,foo", NoInit),
            ("add,30,foo,", NoInit),
            ("add,30x,foo,init", Domain),
            ("add,511,foo,init", Domain),
            ("del,", NoDomain),
            ("del,x", Domain),
            ("del,29", Unknown),
            ("del,2", Unknown),
            ("del,3", Unknown),
            ("del,,foo", Unknown),
            ("clear|x", AfterClear),
        ] {
            check(&[spec], Err(problem));
        }
        check(&["del,60"], Ok(()));
        check(&["del,60", "del,60"], Err(Unknown));
        check(&["del,,/pmdas/mmv/pmda_mmv.so"], Ok(()));
        check(&["del,29,/pmdas/mmv/pmda_mmv.so", "del,4"], Err(Unknown));
        check(&["clear", "del,60"], Err(Unknown));
        check(&["add,3,x,y_init", "del,3", "del,3"], Err(Unknown));
        // What is there already counts, unless it is a daemon that libpcp does not have.
        for (domain, specs, name) in [
            (60, &["add,60,x,y_init"][..], "linux"),
            (60, &["del,60", "add,60,x,y_init"], "y"),
            (4, &["add,4,x,y_init"], "pmproxy"),
            (3, &["add,3,x,y_init", "add,3,x,z_init"], "y"),
        ] {
            let mut agents = conf();
            specs.iter().for_each(|spec| agents.specify(spec).unwrap());
            assert_eq!(agents.find(domain).unwrap().name, name, "{specs:?}");
        }
    }

    #[test]
    fn the_daemon_beside_an_object_is_started() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, mode| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (daemon, object) = (file("x/pmdax", 0o755), file("x/pmda_x.so", 0o755));
        let (only, copy) = (file("o/pmda_o.so", 0o644), file("o/copy.so", 0o755));
        // It cannot be run.
        file("o/pmdao", 0o644);
        let program = |spec: &str| {
            let mut agents = LocalAgents::of_conf("", dir.path());
            agents.specify(spec).unwrap();
            agents.program(agents.find(30).unwrap()).map(|program| program.words)
        };
        let expected = vec![daemon.clone(), "-d".to_owned(), "30".to_owned()];
        for object in ["x/pmda_x", "x/pmda_x.so", &object, "x/pmdax", &daemon] {
            assert_eq!(program(&format!("add,30,{object},x_init")).unwrap(), expected, "{object}");
        }
        // The first is another agent than the daemon beside it; the last is not run for being named as a whole.
        for (spec, object) in
            [("x/pmda_x,y_init", &object), ("o/pmda_o,o_init", &only), ("o/copy.so,x_init", &copy)]
        {
            let told = program(&format!("add,30,{spec}")).unwrap_err().to_string();
            assert!(told.contains(&format!("is there as a shared object only ({object})")), "{told}");
        }
        assert!(matches!(program("add,30,n/pmda_n,n_init"), Err(LocalFault::Missing { .. })));
        let begin = beginning(Path::new("/dev/zero")).unwrap();
        assert_eq!(begin.len() as u64, MAX_CONF);
    }
}

//! What the agent's process gives up before it listens to anybody.
//!
//! ```text
//! root:  log opened, helpers for the kernel's files started (Trust::prepare)
//!        the process becomes pcp
//! pcp:   no new privileges, capabilities, files, system calls (Trust::confine), then RunningAgent::open
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jumpseat_confine::{Calls, Capability, Confinement, Files, Measure, confine};
use jumpseat_source::tracefs::Helpers;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{User, geteuid};
use pcp_net::Kept;

use crate::config::Config;
use crate::handover::{Handover, Plan};
use crate::reach::{Reach, TRACEFS};

/// What root keeps who was told to stay root: to read what is others', and to write its own files where these are.
const ROOT_KEEPS: &[Capability] = &[
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_FOWNER,
    Capability::CAP_KILL,
    Capability::CAP_NET_BIND_SERVICE,
];

/// Why a measure is not taken that somebody has switched off.
const CONFIGURED: &str = "as configured";

/// What the process of the agent has kept of its rights, and who else has them.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Who opens the kernel's files. A source without a helper opens them itself.
    pub helpers: Helpers,
    /// Groups to keep, which ingest sockets are for.
    pub groups: Vec<u32>,
    /// What is in force, for `jumpseat.self.confined`.
    pub measures: Vec<Measure>,
    /// What a reload may still reach.
    reach: Reach,
    /// Who keeps listeners for the next agent.
    handover: Option<Arc<Handover>>,
}

impl Trust {
    /// What comes first, while the process has the rights it was started with: helpers for kernel sources, if it is root.
    /// Files made from here on are never writable by everybody, and there may be as many descriptors as allowed.
    ///
    /// # Errors
    /// A helper cannot be started.
    pub fn prepare(config: &Config) -> io::Result<Trust> {
        let inherited = umask(Mode::from_bits_truncate(0o077));
        umask(inherited | Mode::S_IWGRP | Mode::S_IWOTH);
        if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
            // A client or a sender takes one, and the soft limit is often 1024. The lower one serves, with fewer of them.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
        let helpers = if geteuid().is_root() { Helpers::spawn(&config.kernel)? } else { Helpers::default() };
        // One that is not there is told of where the socket is made.
        let groups = config.socket.iter().filter_map(|socket| socket.gid().ok()?);
        let groups = groups.map(|group| group.as_raw()).collect();
        Ok(Trust { helpers, groups, ..Trust::default() })
    }

    /// Starts the keeper of listeners, if the configuration wants one: for the time between becoming who the process is
    /// going to be and [`Trust::confine`]. `places`: where it makes sockets, besides those of the configuration.
    pub fn keep_listeners(&mut self, config: &Config, state_dir: &Path, domain: u16, places: &[PathBuf]) {
        let keep = config.handover.keep.0;
        if keep.is_zero() {
            return;
        }
        let _ = std::fs::create_dir_all(state_dir);
        let mut dirs = vec![state_dir.to_owned()];
        dirs.extend(places_of_sockets(config, places));
        let plan = Plan { state_dir, domain, keep, places: dirs, confine: config.confine.privileges };
        match Handover::start(plan) {
            Ok(handover) => self.handover = Some(Arc::new(handover)),
            Err(error) => tracing::warn!(
                "listeners will be closed between this agent and the next one: no keeper can be started: {error}"
            ),
        }
    }

    /// Leaves listeners to the next agent in systemd's store of descriptors, in place of a keeper: for the time before
    /// [`Trust::confine`].
    ///
    /// # Errors
    /// systemd has not started the process, or its unit has no store.
    pub fn store_listeners(&mut self) -> io::Result<()> {
        self.handover = Some(Arc::new(Handover::with_systemd()?));
        Ok(())
    }

    /// Gives up, for good, what the agent does not need; tells what the system cannot do. For the time when the process is
    /// who it is going to be, and has one thread. `places`: where it makes sockets, besides those of the configuration.
    pub fn confine(&mut self, config: &Config, state_dir: &Path, places: &[PathBuf]) {
        if !config.confine.privileges {
            tracing::warn!("not confined: confine.privileges is off");
            let off = |name| Measure { name, state: Err(CONFIGURED.to_owned()) };
            self.measures = ["privileges", "capabilities", "files", "system_calls"].map(off).into();
            return;
        }
        // To be confined to a directory it must be there. If it cannot be made, whoever writes to it says why.
        let _ = std::fs::create_dir_all(state_dir);
        let writable = self.writable(config, state_dir, places);
        let root = geteuid().is_root();
        self.measures = confine(&Confinement {
            capabilities: if root { ROOT_KEEPS } else { &[] },
            files: files(config, writable.clone()),
            calls: calls(config),
        });
        self.reach = self.left(config, writable);
        for Measure { name, state } in &self.measures {
            match state {
                Ok(what) => tracing::debug!("confined: {name}: {what}"),
                Err(reason) => tracing::warn!("not confined: {name}: {reason}"),
            }
        }
    }

    /// What is in force of a measure, or why it is not.
    pub fn state(&self, name: &str) -> String {
        match self.measures.iter().find(|measure| measure.name == name) {
            Some(Measure { state: Ok(what), .. }) => what.clone(),
            Some(Measure { state: Err(reason), .. }) => format!("not in force: {reason}"),
            None => "not in force: the program did not ask for it".to_owned(),
        }
    }

    /// Who opens the kernel's files.
    pub(crate) fn kernel(&self) -> String {
        let pids: Vec<String> = self.helpers.pids().map(|pid| pid.to_string()).collect();
        match pids.len() {
            0 => "no helper".to_owned(),
            _ => format!("by a helper, process {}", pids.join(", ")),
        }
    }

    /// What a reload may still reach.
    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Who keeps listeners for the next agent, if anybody does.
    pub(crate) fn handover(&self) -> Option<&Arc<Handover>> {
        self.handover.as_ref()
    }

    /// The same, for those who listen.
    pub(crate) fn kept(&self) -> Kept {
        self.handover.clone().map_or_else(Kept::default, |handover| Kept::by(handover))
    }

    /// What is left for a reload, with the measures that are in force.
    fn left(&self, config: &Config, writable: Vec<PathBuf>) -> Reach {
        let in_force =
            |name: &str| self.measures.iter().any(|measure| measure.name == name && measure.state.is_ok());
        let (commands, journals) = (!config.command.is_empty(), !config.journal.is_empty());
        let files = config.confine.files && !commands && in_force("files");
        let calls = config.confine.system_calls && !commands && !journals && in_force("system_calls");
        Reach {
            writable: files.then_some(writable),
            commands: !files && !calls,
            journals: (!files || journals) && !calls,
            helpers: self.helpers.configs().cloned().collect(),
        }
    }

    fn writable(&self, config: &Config, state_dir: &Path, places: &[PathBuf]) -> Vec<PathBuf> {
        let mut writable = vec![state_dir.to_owned(), "/dev/null".into()];
        // Elsewhere than in the state directory, if it says where. (The domain makes no difference then.)
        if let Some(dir) = config.log.dir(None, 0) {
            let _ = std::fs::create_dir_all(&dir);
            writable.push(dir);
        }
        writable.extend(config.log.contexts().filter(|dir| dir.is_dir()));
        writable.extend(places_of_sockets(config, places));
        if !config.kernel.is_empty() && self.helpers.pids().next().is_none() {
            writable.extend(TRACEFS.map(PathBuf::from));
        }
        writable.sort();
        writable.dedup();
        writable
    }
}

/// The directories of the sockets that an agent makes.
fn places_of_sockets(config: &Config, places: &[PathBuf]) -> Vec<PathBuf> {
    let configured = config.socket.iter().filter_map(|socket| socket.unix());
    let dirs = configured.chain(places.iter().map(PathBuf::as_path)).map(|socket| {
        let dir = socket.parent().filter(|dir| !dir.as_os_str().is_empty());
        dir.unwrap_or(Path::new(".")).to_owned()
    });
    dirs.collect()
}

/// The name of the user that the process is.
pub(crate) fn user() -> String {
    let user = geteuid();
    User::from_uid(user).ok().flatten().map_or_else(|| user.to_string(), |user| user.name)
}

fn files(config: &Config, places: Vec<PathBuf>) -> Files {
    if !config.confine.files {
        return Files::Any(CONFIGURED);
    }
    if !config.command.is_empty() {
        return Files::Any("as only the author of a [[command]] knows what it writes");
    }
    Files::WriteBeneath { places, programs: !config.journal.is_empty() }
}

fn calls(config: &Config) -> Calls {
    if !config.confine.system_calls {
        Calls::Any(CONFIGURED)
    } else if config.command.is_empty() && config.journal.is_empty() {
        Calls::Agent
    } else {
        Calls::AgentWithPrograms
    }
}

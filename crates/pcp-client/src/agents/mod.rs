//! Contexts on agents of this machine without a pmcd (`PM_CONTEXT_LOCAL`, `pmNewContext(3)`; `docs/pcp/agent.md` 2 to 12).
//!
//! ```text
//! pmcd.conf, specifications --> table --> program of a domain that is asked for --> its two ends of a socket pair
//! names: a name space from a file; what is below a dynamic node: its agent
//! ```
//! PCP loads such agents into the program as shared objects. Here nothing is loaded: the daemon that stands beside the shared
//! object is started as pmcd would start it on pipes, and is spoken to as pmcd would.
//!
//! * `table`: which agents there are, and how each is started.
//! * `process`: a started agent, and its end.
//! * `connector`: the first words between an agent and its pmcd.
//! * `provider`: requests by domain, results put together.
//!
//! **Invariant:** an agent is started when its domain is first asked for, once at most, and ends with its context. One that fails is ended at
//! once and not started again: its domain has no agent from then on, as with a pmcd that does not restart agents.

mod connector;
mod process;
mod provider;
mod table;

use std::path::PathBuf;
use std::sync::Arc;

use pcp_files::settings;

use super::context::Context;
use super::error::ClientError;
use super::namespace::{Duplicates, NameSpace, NameSpaceError};
use super::registry::global_registry;

pub use process::OPTION_VARIABLES;
pub use table::{LocalAgents, LocalSpecError};

/// Why there is nothing from an agent that a context starts by itself. To those who ask it for metrics it is an error code, which does
/// not say what could be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalFault {
    /// It is nothing that could be started.
    #[error(
        "agent {name} (domain {domain}) is there as a shared object only ({}), which is not loaded here: ask pmcd, without a local context",
        .object.display()
    )]
    SharedObject {
        /// What it is called.
        name: String,
        /// Its domain.
        domain: u16,
        /// Where it is.
        object: PathBuf,
    },
    /// What is said to be an agent is not there.
    #[error("agent {name} (domain {domain}) is not there: no {}", .file.display())]
    Missing {
        /// What it is called.
        name: String,
        /// Its domain.
        domain: u16,
        /// Where it should be.
        file: PathBuf,
    },
    /// Only pmcd can have it: it is pmcd's own, or waits for pmcd at a socket.
    #[error("agent {name} (domain {domain}) is pmcd's alone: ask pmcd, without a local context")]
    Pmcds {
        /// What it is called.
        name: String,
        /// Its domain.
        domain: u16,
    },
    /// It cannot be started.
    #[error("agent {name} (domain {domain}) cannot be started: {program}: {error}")]
    Start {
        /// What it is called.
        name: String,
        /// Its domain.
        domain: u16,
        /// What was to be started.
        program: String,
        /// Why not.
        error: std::io::Error,
    },
    /// It was started, and did not do what an agent does.
    #[error("agent {name} (domain {domain}) {what}")]
    Ended {
        /// What it is called.
        name: String,
        /// Its domain.
        domain: u16,
        /// What it did.
        what: String,
    },
}

impl LocalFault {
    /// Of an agent whose connection failed.
    fn ended(name: &str, domain: u16, error: &ClientError) -> LocalFault {
        let what = match error {
            ClientError::Closed | ClientError::Io(_) => "has ended by itself".to_owned(),
            error => format!("was ended: {error}"),
        };
        LocalFault::Ended { name: name.to_owned(), domain, what }
    }
}

/// Who is told of faults of agents.
pub type TellFault = Box<dyn FnMut(&LocalFault) + Send>;

impl Context {
    /// A context on agents that it starts by itself, under names from a file; without them, requests by name fail with
    /// `PM_ERR_NOPMNS`. Faults of agents are told to `tell`: each agent has one at most.
    pub fn local_agents(agents: LocalAgents, names: Option<Arc<NameSpace>>, tell: TellFault) -> Context {
        Context::new(Box::new(provider::AgentsProvider::new(agents, names, tell)), global_registry())
    }
}

impl NameSpace {
    /// The names that the installed PCP has: the file that `PMNS_DEFAULT` names, or `$PCP_VAR_DIR/pmns/root`.
    ///
    /// # Errors
    /// As [`NameSpace::load`].
    pub fn installed() -> Result<NameSpace, NameSpaceError> {
        let dir =
            settings::setting("PCP_VAR_DIR").map_or_else(|| PathBuf::from("/var/lib/pcp"), PathBuf::from);
        let dir = dir.join("pmns");
        let file = std::env::var_os("PMNS_DEFAULT").filter(|file| !file.is_empty());
        let file = file.map_or_else(|| dir.join("root"), PathBuf::from);
        NameSpace::load(&file, Duplicates::Allowed, &[dir])
    }
}

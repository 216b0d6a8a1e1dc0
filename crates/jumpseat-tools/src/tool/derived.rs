//! Definitions of derived metrics, as every program of PCP's has them (`pmLoadDerivedConfig(3)`).

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use pcp_client::{Context, SharedRegistry, global_registry};
use pcp_derive::{ConfigProblem, Dialect, EquivalentIndoms, Registry};
use pcp_model::PmError;

use super::call::Call;
use super::conf;
use super::messages::{Messages, notification};
use crate::definitions;

/// Options of the language, since 7.1 (`pmDerivedControl(3)`).
const CONTROL: &str = "PCP_DERIVED_CONTROL";

/// Definitions of derived metrics: those of the command line, and those that PCP has in every program.
pub struct Definitions {
    registry: SharedRegistry,
    /// Who tells what is wrong with them.
    name: String,
    initialised: bool,
}

impl Definitions {
    /// Loads the definitions that `PCP_DERIVED_CONFIG` names, or those that are installed with PCP, unless that has
    /// been done.
    pub fn load_defaults(&mut self, call: &Call) {
        let mut messages = Messages::default();
        self.initialise(&mut messages);
        messages.flush(call);
    }

    /// None yet, in a dialect, for a program of this name.
    pub fn new(dialect: Dialect, name: &str) -> Definitions {
        // The one of the process: contexts that are opened later look there.
        let registry = global_registry();
        *registry.write().unwrap_or_else(PoisonError::into_inner) = Registry::new(dialect);
        Definitions { registry, name: name.to_owned(), initialised: false }
    }

    pub(super) fn load(&mut self, files: &str, messages: &mut Messages) -> Result<(), PmError> {
        self.initialise(messages);
        self.add(files, messages)
    }

    fn initialise(&mut self, messages: &mut Messages) {
        if std::mem::replace(&mut self.initialised, true) {
            return;
        }
        self.registry.write().unwrap_or_else(PoisonError::into_inner).initialise();
        if let Ok(options) = std::env::var(CONTROL) {
            let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
            for problem in registry.control(&options) {
                messages.add(&format!("Warning: ${CONTROL}: {problem}\n"));
            }
        }
        let files = match std::env::var("PCP_DERIVED_CONFIG") {
            Ok(files) => files,
            Err(_) => conf::var_dir().join("config/derived").to_string_lossy().into_owned(),
        };
        if !files.is_empty() {
            // Files that nobody named on the command line may be missing.
            let _ = self.add(&files, messages);
        }
        self.read_equivalent_indoms();
    }

    /// Reads which instance domains are as good as one another. The file may be missing, and be of no use to definitions that only
    /// have one domain: so what is wrong with it is told once it is needed.
    fn read_equivalent_indoms(&mut self) {
        let file = match std::env::var_os("PCP_INDOM_CONFIG") {
            Some(file) => PathBuf::from(file),
            None => conf::etc_dir().join("pcp/indom.conf"),
        };
        let Ok(text) = std::fs::read(&file) else { return };
        let (equivalent, problem) = EquivalentIndoms::parse(&String::from_utf8_lossy(&text));
        let equivalent = match problem {
            None => equivalent,
            Some((line, what)) => equivalent.complaining(notification(
                &self.name,
                &format!("Error: __pmEquivInDom: [{}:{line}] {what}", file.display()),
            )),
        };
        self.registry.write().unwrap_or_else(PoisonError::into_inner).set_equivalent_indoms(equivalent);
    }

    fn add(&mut self, files: &str, messages: &mut Messages) -> Result<(), PmError> {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let mut problem = |file: &Path, problem: &ConfigProblem| {
            messages.add(&problem.text(&file.display().to_string()));
        };
        let loaded = definitions::load(&mut registry, Path::new(files), &mut problem);
        match &loaded {
            Ok(count) => tracing::trace!(target: "pcp::derive", "{files}: {count} definitions taken"),
            Err(unreadable) => tracing::trace!(target: "pcp::derive", "{files}: {}", unreadable.error),
        }
        loaded.map(|_| ()).map_err(|unreadable| PmError::from(&unreadable.error))
    }
}

/// Says which definitions of derived metrics turned out to be of no use with these metrics.
pub(crate) fn report_unusable(context: &mut Context) {
    context.derived().take_messages().iter().for_each(|message| complain!("{}", message.trim_end()));
}

//! Who opens the kernel's files: this process, or a helper that kept the rights for it.

use std::sync::Arc;

use super::TracefsError;
use super::config::KernelConfig;
use super::helper::Helper;
use super::setup::{EventText, Opened, Setup};

/// Who opens the kernel's files for a source.
#[derive(Clone, Debug, Default)]
pub enum Opener {
    /// The process itself, which needs the right to.
    #[default]
    Here,
    /// A helper, which knows the source's configuration already.
    Helper(Arc<Helper>),
}

impl Opener {
    /// Makes an instance and opens its files.
    pub(super) fn open(&self, config: &KernelConfig) -> Result<(Session, Opened), TracefsError> {
        match self {
            Opener::Here => {
                let (setup, opened) = Setup::open(config)?;
                Ok((Session::Here(setup), opened))
            }
            Opener::Helper(helper) => {
                let opened = helper.open()?;
                Ok((Session::Helper(Arc::clone(helper)), opened))
            }
        }
    }
}

/// An instance that is there. Dropping this removes it; close its files before.
#[derive(Debug)]
pub(super) enum Session {
    Here(Setup),
    Helper(Arc<Helper>),
}

impl Session {
    /// The event of a number that nobody enabled.
    pub(super) fn search(&self, id: u16) -> Option<EventText> {
        match self {
            Session::Here(setup) => setup.search(id),
            Session::Helper(helper) => helper.search(id),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Session::Helper(helper) = self {
            helper.close();
        }
    }
}

//! Where source threads hand over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;

use super::delivery::Delivery;
use super::lanes::{Lanes, Wake};
use super::registry::Registry;
use pcp_net::{Kept, Restarts};

/// What a source thread needs to hand its records over to the core. Each thread has lanes of its own.
#[derive(Clone)]
pub struct Outlet {
    /// Names and their ids, shared by all.
    pub registry: Arc<Registry>,
    /// The core's channel, shared by all.
    pub out: Sender<Delivery>,
    /// Wakes the core.
    pub wake: Wake,
    /// Where a source may keep what it has to know after a restart; `None`: nothing is kept.
    pub state_dir: Option<PathBuf>,
    /// How often source threads had to be started again.
    pub restarts: Arc<Restarts>,
    /// Who holds listeners for the process after this one.
    pub kept: Kept,
}

impl Outlet {
    /// Lanes for a thread. `patience`: how long to wait for room in a full channel before records are lost.
    pub fn lanes(&self, patience: Duration) -> Lanes {
        Lanes::new(Arc::clone(&self.registry), self.out.clone(), Arc::clone(&self.wake), patience)
    }
}

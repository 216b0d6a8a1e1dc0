//! Where source threads hand over.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::Sender;

use super::delivery::Delivery;
use super::lanes::{Lanes, Wake};
use super::registry::Registry;
use super::series::Series;
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
    /// The core does not take anything yet.
    pub starting: Starting,
    /// Where numbers of metrics go.
    pub series: Series,
}

/// Whether the core is being started: what finds its channel full waits for it then, for longer than for one that is slow. Who
/// connects to listeners that were open all the time sends from the first moment on.
#[derive(Clone, Debug, Default)]
pub struct Starting(Arc<AtomicBool>);

impl Starting {
    /// It is, until this is dropped.
    pub fn begin(&self) -> Begun {
        self.0.store(true, Ordering::Release);
        Begun(self.clone())
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The core is being started.
#[derive(Debug)]
pub struct Begun(Starting);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

impl Outlet {
    /// Lanes for a thread. `patience`: how long to wait for room in a full channel before records are lost.
    pub fn lanes(&self, patience: Duration) -> Lanes {
        let mut lanes =
            Lanes::new(Arc::clone(&self.registry), self.out.clone(), Arc::clone(&self.wake), patience);
        lanes.wait_while(self.starting.clone());
        lanes
    }
}

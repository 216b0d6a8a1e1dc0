//! An orderly end by a store, for whoever has started the agent to start it anew: another program file, another
//! configuration of what is read at the start only, and nobody who sends is refused meanwhile.

use std::sync::Arc;

use pcp_pmda::Handle;

use crate::handover::Handover;

/// What it takes to end for the next agent.
pub(crate) struct Restart {
    handover: Option<Arc<Handover>>,
    by: Option<By>,
    handle: Handle,
}

/// Who starts the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Pmcd,
    Systemd,
}

impl Restart {
    /// For an agent under pmcd, or one of its own.
    pub(crate) fn new(handover: Option<Arc<Handover>>, is_under_pmcd: bool, handle: Handle) -> Restart {
        let by = match is_under_pmcd {
            true => Some(By::Pmcd),
            false => is_of_systemd().then_some(By::Systemd),
        };
        Restart { handover, by, handle }
    }

    /// How many listeners the next agent would get.
    pub(crate) fn held(&self) -> usize {
        self.handover.as_ref().map_or(0, |handover| handover.held())
    }

    /// Ends the agent once what is asked for now is answered.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn begin(&self) -> Result<(), String> {
        let Some(by) = self.by else {
            let words = "nobody would start this agent again: end `jumpseat serve` (SIGTERM) and start it, and who connects meanwhile waits";
            return Err(words.to_owned());
        };
        if self.held() == 0 {
            let words = "nobody keeps its sockets open meanwhile ([handover] keep is 0s, or see the agent's log); restart it as anything else";
            return Err(words.to_owned());
        }
        match by {
            By::Pmcd => tracing::info!(
                "ends for the next agent: pmcd starts it, at once or within a minute; upon SIGHUP at once in any case"
            ),
            By::Systemd => tracing::info!("ends for the next agent, which systemd starts"),
        }
        self.handle.stop();
        Ok(())
    }
}

/// Whether the process is the one that systemd has started, and not something below it.
fn is_of_systemd() -> bool {
    let told = std::env::var("SYSTEMD_EXEC_PID").ok().and_then(|pid| pid.parse::<u32>().ok());
    told == Some(std::process::id())
}

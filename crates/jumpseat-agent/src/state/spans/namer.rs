//! Numbers for the names of series, for good: on file before anybody is told of them.
//!
//! Putting a name on file takes a millisecond, as it is to survive a loss of power; so a thread does it, and the event loop goes on. At most
//! [`ASKED`] names wait; further ones have no instance until their series is new again, or their pair of services is called again.
//!
//! **Bounds:** [`MAX_NAMES`] names in the life of the file, about 200 bytes each in memory.

use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use nix::sys::signal::{SigSet, SigmaskHow};
use pcp_ids::{IdMap, IdsError};
use pcp_model::Inst;
use pcp_net::Worker;

/// Most names in the life of a file.
const MAX_NAMES: Inst = 128 * 1024;
/// Most names that wait to be put on file.
const ASKED: usize = 16 * 1024;
/// Most complaints about the file.
const COMPLAINTS: u32 = 10;

/// Why names cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NamerError {
    /// The file.
    #[error(transparent)]
    File(#[from] IdsError),
    /// The system has no thread for it.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// For whom a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub place: u32,
    pub turn: u32,
}

/// A name and its number; `None`: it could not have any.
#[derive(Debug)]
pub(super) struct Told {
    pub ticket: Ticket,
    pub name: String,
    pub inst: Option<Inst>,
}

/// Gives names numbers.
#[derive(Debug)]
pub(crate) struct Namer {
    keep: Keep,
    told: Receiver<Told>,
    tell: Sender<Told>,
}

#[derive(Debug)]
enum Keep {
    Memory(IdMap),
    /// By a thread, which ends when `Sender` goes.
    File(Sender<(Ticket, String)>, #[allow(dead_code)] Worker),
}

impl Namer {
    /// Numbers that are forgotten at the end.
    pub(super) fn in_memory() -> Namer {
        let (tell, told) = bounded(ASKED);
        Namer { keep: Keep::Memory(IdMap::in_memory()), told, tell }
    }

    /// Numbers on a file. `wake` is called when there are new ones.
    ///
    /// # Errors
    /// The file cannot be used, or there is no thread.
    pub(crate) fn on_file(path: &Path, wake: Arc<dyn Fn() + Send + Sync>) -> Result<Namer, NamerError> {
        let mut ids = IdMap::load(Some(path), MAX_NAMES - 1)?;
        let (ask, asked) = bounded::<(Ticket, String)>(ASKED);
        let (tell, told) = bounded(ASKED);
        let answer = tell.clone();
        let (end, ended) = bounded::<()>(0);
        let mut end = Some(end);
        let work = move || {
            let mut complaints = 0;
            loop {
                let (ticket, name) = crossbeam_channel::select_biased! {
                    recv(ended) -> _ => return,
                    recv(asked) -> ask => match ask {
                        Ok(ask) => ask,
                        Err(_) => return,
                    },
                };
                let inst = ids.get_or_add(&name);
                let inst = inst.inspect_err(|error| {
                    if complaints < COMPLAINTS {
                        complaints += 1;
                        tracing::warn!("the series {name} has no instance: {error}");
                    }
                });
                let told = Told { ticket, name, inst: inst.ok() };
                crossbeam_channel::select! {
                    send(answer, told) -> _ => wake(),
                    recv(ended) -> _ => return,
                }
            }
        };
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).map_err(std::io::Error::from)?;
        let thread = Worker::spawn("jumpseat-names", move || end.take().is_some(), work);
        before.thread_set_mask().map_err(std::io::Error::from)?;
        Ok(Namer { keep: Keep::File(ask, thread?), told, tell })
    }

    /// Asks for the number of a name. Never waits. `false`: there will be no answer, as too many have not been taken in.
    pub(super) fn ask(&mut self, ticket: Ticket, name: String) -> bool {
        match &mut self.keep {
            Keep::Memory(ids) => {
                let has_room = (ids.len() as Inst) < MAX_NAMES || ids.get(&name).is_some();
                let inst = if has_room { ids.get_or_add(&name).ok() } else { None };
                self.tell.try_send(Told { ticket, name, inst }).is_ok()
            }
            Keep::File(ask, _) => {
                let Err(error) = ask.try_send((ticket, name)) else { return true };
                let (ticket, name) = error.into_inner();
                self.tell.try_send(Told { ticket, name, inst: None }).is_ok()
            }
        }
    }

    /// What is on file by now.
    pub(super) fn told(&self) -> Option<Told> {
        self.told.try_recv().ok()
    }
}

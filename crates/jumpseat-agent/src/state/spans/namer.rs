//! Numbers for the names of series, for good: on file before anybody is told of them.
//!
//! Putting a name on file takes a millisecond, as it is to survive a loss of power; so a thread does it, and the event loop goes on. It is
//! there from the first name on: many an agent never has one to name. At most [`ASKED`] names wait; further ones have no instance until their series is new again, or their pair of services is called again.
//! The queues take memory as they fill: an agent has three namers, and mostly nothing to name when it starts.
//!
//! **Bounds:** [`MAX_NAMES`] names in the life of the file, about 200 bytes each in memory; [`UNDER_WAY`] names that were asked for
//! and not taken in.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, SendError, Sender, bounded, unbounded};
use nix::sys::signal::{SigSet, SigmaskHow};
use pcp_ids::{IdMap, IdsError, Settling};
use pcp_model::Inst;
use pcp_net::Worker;

/// Most names in the life of a file.
const MAX_NAMES: Inst = 128 * 1024;
/// Most names that wait to be put on file.
const ASKED: usize = 16 * 1024;
/// Most names that wait to be put on file or to be taken in.
const UNDER_WAY: usize = 2 * ASKED;
/// Most complaints about the file.
const COMPLAINTS: u32 = 10;

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
    /// How many names were asked for and not taken in.
    under_way: usize,
}

#[derive(Debug)]
enum Keep {
    Memory(Box<IdMap>),
    File(Box<OnFile>),
}

/// Numbers on a file, which a thread gives.
struct OnFile {
    ids: Arc<Mutex<IdMap>>,
    wake: Arc<dyn Fn() + Send + Sync>,
    /// The thread, once there was a name: it ends when this goes.
    thread: Option<Thread>,
    /// Whether it was said that there can be none.
    has_complained: bool,
}

#[derive(Debug)]
struct Thread {
    ask: Sender<(Ticket, String)>,
    _worker: Worker,
}

impl Namer {
    /// Numbers that are forgotten at the end.
    pub(super) fn in_memory() -> Namer {
        let (tell, told) = unbounded();
        Namer { keep: Keep::Memory(Box::new(IdMap::in_memory())), told, tell, under_way: 0 }
    }

    /// Numbers on a file. `wake` is called when there are new ones. None may be told before [`Settling::finish`] has returned.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(crate) fn on_file(
        path: &Path,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<(Namer, Settling), IdsError> {
        let (ids, settling) = IdMap::begin(Some(path), MAX_NAMES - 1)?;
        let ids = Arc::new(Mutex::new(ids));
        let file = Box::new(OnFile { ids, wake, thread: None, has_complained: false });
        let (tell, told) = unbounded();
        Ok((Namer { keep: Keep::File(file), told, tell, under_way: 0 }, settling))
    }

    /// Asks for the number of a name. Never waits. `false`: there will be no answer, as too many have not been taken in.
    pub(super) fn ask(&mut self, ticket: Ticket, name: String) -> bool {
        if self.under_way == UNDER_WAY {
            return false;
        }
        let is_asked = match &mut self.keep {
            Keep::Memory(ids) => {
                let has_room = (ids.len() as Inst) < MAX_NAMES || ids.get(&name).is_some();
                let inst = if has_room { ids.get_or_add(&name).ok() } else { None };
                self.tell.send(Told { ticket, name, inst }).is_ok()
            }
            Keep::File(file) => match file.ask(ticket, name, &self.tell) {
                Ok(()) => true,
                Err((ticket, name)) => self.tell.send(Told { ticket, name, inst: None }).is_ok(),
            },
        };
        self.under_way += usize::from(is_asked);
        is_asked
    }

    /// What is on file by now.
    pub(super) fn told(&mut self) -> Option<Told> {
        let told = self.told.try_recv().ok()?;
        self.under_way -= 1;
        Some(told)
    }
}

impl OnFile {
    /// Asks for the number of a name, which is told to `tell`. Gives it back if that cannot be.
    fn ask(&mut self, ticket: Ticket, name: String, tell: &Sender<Told>) -> Result<(), (Ticket, String)> {
        if self.thread.is_none() {
            match self.start(tell.clone()) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) if !self.has_complained => {
                    tracing::warn!(
                        "new series have no instance as long as no thread can be started: {error}"
                    );
                    self.has_complained = true;
                }
                Err(_) => {}
            }
        }
        match &self.thread {
            // Nobody else asks: it gets no longer until then.
            Some(thread) if thread.ask.len() < ASKED => {
                thread.ask.send((ticket, name)).map_err(|SendError(asked)| asked)
            }
            _ => Err((ticket, name)),
        }
    }

    fn start(&self, tell: Sender<Told>) -> io::Result<Thread> {
        let (ids, wake) = (Arc::clone(&self.ids), Arc::clone(&self.wake));
        let (ask, asked) = unbounded::<(Ticket, String)>();
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
                // Only this thread has them, once it is there.
                let inst = ids.lock().unwrap_or_else(PoisonError::into_inner).get_or_add(&name);
                let inst = inst.inspect_err(|error| {
                    if complaints < COMPLAINTS {
                        complaints += 1;
                        tracing::warn!("the series {name} has no instance: {error}");
                    }
                });
                if tell.send(Told { ticket, name, inst: inst.ok() }).is_err() {
                    return;
                }
                wake();
            }
        };
        // Signals are the loop's.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let worker = Worker::spawn("jumpseat-names", move || end.take().is_some(), work);
        before.thread_set_mask()?;
        Ok(Thread { ask, _worker: worker? })
    }
}

impl fmt::Debug for OnFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnFile").field("ids", &self.ids).field("thread", &self.thread).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_names_may_be_under_way_and_no_more() {
        let mut namer = Namer::in_memory();
        let ticket = |place: usize| Ticket { place: place as u32, turn: 1 };
        assert!((0..UNDER_WAY).all(|place| namer.ask(ticket(place), format!("name {place}"))));
        assert!(!namer.ask(ticket(0), "one more".to_owned()));
        assert_eq!(namer.told().map(|told| (told.ticket, told.inst.is_some())), Some((ticket(0), true)));
        assert!(namer.ask(ticket(0), "one more".to_owned()));
        assert!(!namer.ask(ticket(0), "another one".to_owned()));
        assert_eq!(std::iter::from_fn(|| namer.told()).count(), UNDER_WAY);
        assert!(namer.ask(ticket(0), "another one".to_owned()));
    }

    #[test]
    fn each_name_gets_one_answer_from_a_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let (woken, wakes) = unbounded();
        let wake = Arc::new(move || _ = woken.send(()));
        let mut namer = Namer::on_file(&dir.path().join("400.9"), wake).expect("a file").0;
        let has_thread = |namer: &Namer| matches!(&namer.keep, Keep::File(file) if file.thread.is_some());
        assert!(!has_thread(&namer), "there is nothing to name yet");
        let ticket = |place: u32| Ticket { place, turn: 1 };
        assert!((0..20).all(|place| namer.ask(ticket(place), format!("name {}", place % 10))));
        assert!(has_thread(&namer));
        let mut told = Vec::new();
        while told.len() < 20 {
            wakes.recv_timeout(std::time::Duration::from_secs(20)).expect("it wakes for each name");
            told.extend(std::iter::from_fn(|| namer.told()));
        }
        assert!(
            told.iter().zip(0..).all(|(told, place)| told.ticket == ticket(place) && told.inst.is_some())
        );
        assert!(told[..10].iter().zip(&told[10..]).all(|(first, again)| first.inst == again.inst));
        assert_eq!(namer.under_way, 0);
    }
}

//! The keeper: a process that does nothing but hold listeners. It never accepts anybody.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jumpseat_confine::{Calls, Confinement, Files, confine};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use pcp_net::{Spot, UnixListening};
use serde::{Deserialize, Serialize};

use super::door::{ALIVE, PATIENCE, Visit, Wish, is_trusted};
use super::wire::{self, MAX_HELD, Message, Word};

/// What the program is told by its first argument, to be a keeper.
pub const KEEPER_ARGUMENT: &str = "listener-keeper";
/// How often a keeper without an agent looks whether its door is still there: where that has gone, nobody can come any more.
const LOOK: Duration = Duration::from_millis(500);

/// What a keeper is told by its agent, first.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    /// Its door.
    pub door: PathBuf,
    /// How long it waits for the next agent.
    pub keep_ms: u64,
    /// Where sockets' files are, which go with it.
    pub places: Vec<PathBuf>,
    /// Whether it gives up its rights.
    pub confine: bool,
}

/// Is the keeper of the agent at the other end of standard input, to its end.
///
/// # Errors
/// The system's, and what the agent should not have said.
pub fn serve() -> io::Result<()> {
    let agent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some(Message { word: Word::Settings, text, .. }) = wire::receive(&agent)? else {
        return Err(ErrorKind::InvalidData.into());
    };
    let settings: Settings = serde_json::from_str(&text)?;
    // As it shows in a list of processes.
    let _ = prctl::set_name(c"jumpseat-keeper");
    if settings.confine {
        // What the system cannot do is told by the agent, which asks for the same.
        confine(&Confinement {
            capabilities: &[],
            files: Files::WriteBeneath { places: settings.places.clone(), programs: false },
            calls: Calls::Keeper,
        });
    }
    agent.set_read_timeout(Some(PATIENCE))?;
    agent.set_write_timeout(Some(PATIENCE))?;
    let keep = Duration::from_millis(settings.keep_ms);
    let mut keeper =
        Keeper { settings, keep, agent: Some(agent), alone: Instant::now(), door: None, held: Vec::new() };
    keeper.run()
}

struct Keeper {
    settings: Settings,
    keep: Duration,
    /// The agent, to its end.
    agent: Option<UnixStream>,
    /// When that was.
    alone: Instant,
    /// From the moment on at which the agent has begun.
    door: Option<UnixListening>,
    held: Vec<(Spot, OwnedFd)>,
}

impl Keeper {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let (agent, visitor) = self.wait()?;
            if agent && !self.answer_agent() {
                self.lose_agent();
            }
            if visitor && self.receive_visitor() {
                return Ok(());
            }
            let over = self.agent.is_none() && (self.held.is_empty() || self.alone.elapsed() >= self.keep);
            if over || (self.agent.is_none() && !self.door.as_ref().is_some_and(UnixListening::is_there)) {
                self.release();
                return Ok(());
            }
        }
    }

    /// Waits for the agent or somebody at the door; which of them it is.
    fn wait(&self) -> io::Result<(bool, bool)> {
        let mut polled = Vec::new();
        let agent = self.agent.as_ref().map(|agent| agent.as_fd());
        let door = self.door.as_ref().map(|door| door.listener.as_fd());
        polled.extend(agent.iter().chain(&door).map(|fd| PollFd::new(*fd, PollFlags::POLLIN)));
        let timeout = match agent {
            Some(_) => PollTimeout::NONE,
            None => {
                let left = self.keep.saturating_sub(self.alone.elapsed()).min(LOOK);
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::ZERO)
            }
        };
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = polled.iter().map(|fd| fd.any().unwrap_or(true));
        let of_agent = agent.is_some() && ready.next().unwrap_or(false);
        Ok((of_agent, door.is_some() && ready.next().unwrap_or(false)))
    }

    fn lose_agent(&mut self) {
        self.agent = None;
        self.alone = Instant::now();
    }

    /// Does what the agent asks for; false at its end.
    fn answer_agent(&mut self) -> bool {
        let Some(agent) = &self.agent else { return false };
        let Ok(Some(message)) = wire::receive(agent) else { return false };
        let spot = Spot::parse(&message.text);
        let done = match (message.word, spot, message.listener) {
            (Word::Begin, ..) => return self.begin(),
            (Word::Hold, Some(spot), Some(listener)) if self.held.len() < MAX_HELD => {
                self.held.push((spot, listener));
                true
            }
            (Word::Forget, Some(spot), _) => {
                self.held.retain(|(held, _)| *held != spot);
                true
            }
            _ => false,
        };
        let word = if done { Word::Done } else { Word::Refused };
        self.agent.as_ref().is_some_and(|agent| wire::send(agent, word, "", None).is_ok())
    }

    /// Takes over from the keeper before, opens the door, and passes on what there is.
    fn begin(&mut self) -> bool {
        let taken = self.take_over();
        let Some(agent) = &self.agent else { return false };
        let said = match taken {
            Ok(()) => {
                let mut said = Ok(());
                for (spot, listener) in &self.held {
                    said = said.and_then(|()| {
                        wire::send(agent, Word::Listed, &spot.to_string(), Some(listener.as_fd()))
                    });
                }
                said.and_then(|()| wire::send(agent, Word::Done, "", None))
            }
            Err(error) => wire::send(agent, Word::Refused, &error.to_string(), None),
        };
        said.is_ok()
    }

    fn take_over(&mut self) -> io::Result<()> {
        let path = &self.settings.door;
        if let Some(visit) = Visit::begin(path, Wish::Take)? {
            let (listed, _) = visit.hear()?;
            visit.finish()?;
            self.held = listed.into_iter().filter_map(|(spot, fd)| Some((spot, fd?))).collect();
        }
        self.door =
            Some(UnixListening::bind(path, 0o600).map_err(|error| io::Error::other(error.to_string()))?);
        Ok(())
    }

    /// Does what somebody at the door asks for; whether that is this keeper's end.
    fn receive_visitor(&mut self) -> bool {
        let Some(Ok((visitor, _))) = self.door.as_ref().map(|door| door.listener.accept()) else {
            return false;
        };
        let set = visitor.set_read_timeout(Some(PATIENCE));
        if set.and_then(|()| visitor.set_write_timeout(Some(PATIENCE))).is_err() || !is_trusted(&visitor) {
            return false;
        }
        let Ok(Some(Message { word: Word::Visit, text, .. })) = wire::receive(&visitor) else { return false };
        let refuse = |why: &str| _ = wire::send(&visitor, Word::Refused, why, None);
        match Wish::parse(&text) {
            Some(Wish::Take) => {
                if !self.has_ended(PATIENCE / 2) {
                    refuse("the agent before this one still runs");
                    return false;
                }
                if self.list(&visitor, true, "").is_err() || wire::receive(&visitor).ok().flatten().is_none()
                {
                    return false;
                }
                // The next keeper has them, and opens a door of its own once this is closed.
                self.door = None;
                true
            }
            Some(Wish::Look) => {
                let whether = if self.has_ended(Duration::ZERO) { "alone" } else { ALIVE };
                let _ = self.list(&visitor, false, whether);
                false
            }
            Some(Wish::End) => {
                // Whoever comes for it may come before the agent has seen its own end.
                self.keep = Duration::ZERO;
                let is_over = self.has_ended(PATIENCE / 2);
                if is_over {
                    self.release();
                }
                let _ = wire::send(&visitor, Word::Done, "", None);
                is_over
            }
            None => {
                refuse("of another version: it gives up what it held");
                // Else the next agent could not listen there itself.
                let is_over = self.has_ended(PATIENCE / 2);
                if is_over {
                    self.release();
                }
                is_over
            }
        }
    }

    fn list(&self, visitor: &UnixStream, give: bool, last: &str) -> io::Result<()> {
        for (spot, listener) in &self.held {
            wire::send(visitor, Word::Listed, &spot.to_string(), give.then(|| listener.as_fd()))?;
        }
        wire::send(visitor, Word::Done, last, None)
    }

    /// Whether the agent has ended, or does so within a time.
    fn has_ended(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        while let Some(agent) = &self.agent {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            let mut polled = [PollFd::new(agent.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, timeout) {
                Err(Errno::EINTR) => continue,
                Ok(1..) => {}
                _ => return false,
            }
            if !self.answer_agent() {
                self.lose_agent();
            }
        }
        true
    }

    /// Closes everything and removes the files of sockets, as far as they are still these.
    fn release(&mut self) {
        for (spot, _) in self.held.drain(..) {
            if let Spot::Unix { path, file } = spot
                && std::fs::symlink_metadata(&path).is_ok_and(|meta| (meta.dev(), meta.ino()) == file)
            {
                let _ = std::fs::remove_file(&path);
            }
        }
        self.door = None;
    }
}

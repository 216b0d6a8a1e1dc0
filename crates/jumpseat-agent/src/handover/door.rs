//! A keeper's door: a Unix socket in the state directory, for the next keeper and for who looks or wants the end.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;
use pcp_net::{PeerCredentials, Spot};

use super::wire::{self, MAX_HELD, Message, VERSION, Word};

/// How long either side waits for the other: a keeper waits for its agent's end meanwhile.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// What a visitor is told of an agent that runs.
pub(super) const ALIVE: &str = "alive";

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// All listeners, for the next agent.
    Take,
    /// What there is, and whether the agent runs.
    Look,
    /// The end, now or with the agent.
    End,
}

impl Wish {
    const ALL: [(Wish, &str); 3] = [(Wish::Take, "take"), (Wish::Look, "look"), (Wish::End, "end")];

    /// What a visitor wants; `None`: of another version, or nothing that is known.
    pub(super) fn parse(text: &str) -> Option<Wish> {
        let (version, wish) = text.split_once(' ')?;
        let known = version.parse() == Ok(VERSION);
        Wish::ALL.into_iter().find(|(_, word)| known && *word == wish).map(|(wish, _)| wish)
    }

    fn text(self) -> String {
        let word = Wish::ALL.into_iter().find(|(wish, _)| *wish == self).map_or("", |(_, word)| word);
        format!("{VERSION} {word}")
    }
}

/// Where it is.
pub(crate) fn door(state_dir: &Path, domain: u16) -> PathBuf {
    state_dir.join(format!("jumpseat-{domain}-keeper.socket"))
}

/// Whether somebody at the other end may have listeners, or be given them: the same user, or root.
pub(super) fn is_trusted(stream: &UnixStream) -> bool {
    PeerCredentials::of(stream).is_ok_and(|peer| peer.uid == 0 || peer.uid == geteuid().as_raw())
}

/// Where listeners are, and the listeners, if they are given.
pub(super) type Listed = Vec<(Spot, Option<OwnedFd>)>;

/// Somebody at a door.
pub(super) struct Visit {
    stream: UnixStream,
}

impl Visit {
    /// Goes to a door; `None` if nobody is there.
    ///
    /// # Errors
    /// The system's, and that it is somebody else's.
    pub(super) fn begin(door: &Path, wish: Wish) -> io::Result<Option<Visit>> {
        let stream = match UnixStream::connect(door) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            connected => connected?,
        };
        // Root may ask any keeper; a keeper asks those of its own user only.
        if !geteuid().is_root() && !is_trusted(&stream) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        wire::send(&stream, Word::Visit, &wish.text(), None)?;
        Ok(Some(Visit { stream }))
    }

    /// All that is listed, and the last word.
    pub(super) fn hear(&self) -> io::Result<(Listed, String)> {
        let mut listed = Vec::new();
        loop {
            match wire::receive(&self.stream)? {
                Some(Message { word: Word::Listed, text, listener }) if listed.len() < MAX_HELD => {
                    listed.extend(Spot::parse(&text).map(|spot| (spot, listener)));
                }
                Some(Message { word: Word::Done, text, .. }) => return Ok((listed, text)),
                Some(Message { word: Word::Refused, text, .. }) => return Err(io::Error::other(text)),
                Some(_) => return Err(ErrorKind::InvalidData.into()),
                None => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Says that all has come, and waits for the keeper to have left.
    pub(super) fn finish(self) -> io::Result<()> {
        wire::send(&self.stream, Word::Done, "", None)?;
        while wire::receive(&self.stream)?.is_some() {}
        Ok(())
    }
}

/// Listeners that wait for the next agent.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// Addresses and ports.
    pub tcp: Vec<SocketAddr>,
    /// Paths of Unix sockets.
    pub unix: Vec<PathBuf>,
}

/// What waits for the next agent of a state directory; nothing while one runs.
pub fn waiting(state_dir: &Path, domain: u16) -> Waiting {
    let mut waiting = Waiting::default();
    let heard = Visit::begin(&door(state_dir, domain), Wish::Look).and_then(|visit| match visit {
        Some(visit) => visit.hear(),
        None => Ok((Vec::new(), String::new())),
    });
    if let Ok((listed, whether)) = heard
        && whether != ALIVE
    {
        for (spot, _) in listed {
            match spot {
                Spot::Tcp(address) => waiting.tcp.push(address),
                Spot::Unix { path, .. } => waiting.unix.push(path),
            }
        }
    }
    waiting
}

/// Ends what keeps listeners for the next agent of a state directory: now, or when the agent ends. Whether there was anybody.
///
/// # Errors
/// It cannot be reached, or is somebody else's.
pub fn end(state_dir: &Path, domain: u16) -> io::Result<bool> {
    match Visit::begin(&door(state_dir, domain), Wish::End)? {
        Some(visit) => visit.hear().map(|_| true),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_of_another_version_is_none() {
        for (wish, _) in Wish::ALL {
            assert_eq!(Wish::parse(&wish.text()), Some(wish));
        }
        for text in ["", "take", "2 take", "1 dance", "1"] {
            assert_eq!(Wish::parse(text), None, "{text}");
        }
    }
}

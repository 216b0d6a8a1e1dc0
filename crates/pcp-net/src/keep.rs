//! Listeners that outlive their process: somebody else holds them, too, so that who connects waits for the next process in
//! place of being refused.
//!
//! Here is what listeners need of that somebody ([`Keep`]), and by what each is known ([`Spot`]). Who it is, and how the next
//! process gets them, is the program's matter.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Device and inode of a socket's file.
pub type FileId = (u64, u64);

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Spot {
    /// A Unix socket: its path, and the file that was made for it there.
    Unix {
        /// The path.
        path: PathBuf,
        /// The file; another one at the path is another socket.
        file: FileId,
    },
    /// An address and port.
    Tcp(SocketAddr),
}

/// Who holds listeners.
pub trait Keep: Send + Sync + fmt::Debug {
    /// The listener of the process before this one that fits, and nobody else's from now on.
    fn take(&self, fits: &dyn Fn(&Spot) -> bool) -> Option<(Spot, OwnedFd)>;

    /// Holds a listener that is new.
    fn hold(&self, spot: &Spot, listener: BorrowedFd<'_>);

    /// Gives one up: when this returns, it is held no more. Its file is the caller's.
    fn forget(&self, spot: &Spot);

    /// Whether the process is about to leave what it has to the next one: files of sockets stay then.
    fn is_leaving(&self) -> bool;
}

/// Who holds listeners, if anybody does.
#[derive(Clone, Debug, Default)]
pub struct Kept(Option<Arc<dyn Keep>>);

impl Kept {
    /// They are held by this one.
    pub fn by(keep: Arc<dyn Keep>) -> Kept {
        Kept(Some(keep))
    }

    /// The listener that was at this path. One whose file has gone leads nobody anywhere: it is given up.
    pub(crate) fn take_unix(
        &self,
        path: &Path,
        is_there: impl Fn(FileId) -> bool,
    ) -> Option<(OwnedFd, FileId)> {
        let keep = self.0.as_ref()?;
        while let Some((spot, listener)) =
            keep.take(&|spot| matches!(spot, Spot::Unix { path: held, .. } if held == path))
        {
            match spot {
                Spot::Unix { file, .. } if is_there(file) => return Some((listener, file)),
                gone => keep.forget(&gone),
            }
        }
        None
    }

    /// The listener that was at this address.
    pub(crate) fn take_tcp(&self, address: SocketAddr) -> Option<OwnedFd> {
        // Any free port is another one each time.
        let keep = self.0.as_ref().filter(|_| address.port() != 0)?;
        keep.take(&|spot| *spot == Spot::Tcp(address)).map(|(_, listener)| listener)
    }

    /// Has a new listener held, to the end of what this gives.
    pub(crate) fn hold(&self, spot: Spot, listener: BorrowedFd<'_>) -> Holding {
        if let Some(keep) = &self.0 {
            keep.hold(&spot, listener);
        }
        self.held(spot)
    }

    /// The same for one that was taken.
    pub(crate) fn held(&self, spot: Spot) -> Holding {
        Holding(self.0.clone().map(|keep| (keep, spot)))
    }
}

/// A listener is held. Dropping this gives it up, unless the process leaves.
#[derive(Debug)]
pub(crate) struct Holding(Option<(Arc<dyn Keep>, Spot)>);

impl Holding {
    /// Whether the next process is to have it.
    pub(crate) fn is_left(&self) -> bool {
        self.0.as_ref().is_some_and(|(keep, _)| keep.is_leaving())
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some((keep, spot)) = &self.0
            && !keep.is_leaving()
        {
            keep.forget(spot);
        }
    }
}

impl fmt::Display for Spot {
    /// A word of printable ASCII without colons, which [`Spot::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spot::Unix { path, file: (device, inode) } => {
                write!(f, "unix,{device},{inode},")?;
                encode(path.as_os_str().as_bytes(), f)
            }
            Spot::Tcp(address) => {
                f.write_str("tcp,")?;
                encode(address.to_string().as_bytes(), f)
            }
        }
    }
}

impl Spot {
    /// Reads the word for one.
    pub fn parse(word: &str) -> Option<Spot> {
        let (kind, rest) = word.split_once(',')?;
        match kind {
            "tcp" => String::from_utf8(decode(rest)?).ok()?.parse().ok().map(Spot::Tcp),
            "unix" => {
                let mut parts = rest.splitn(3, ',');
                let file = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                let path = decode(parts.next()?)?;
                Some(Spot::Unix { path: std::ffi::OsString::from_vec(path).into(), file })
            }
            _ => None,
        }
    }
}

fn encode(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| match byte {
        b'!'..=b'~' if !matches!(byte, b':' | b'%') => write!(f, "{}", char::from(*byte)),
        _ => write!(f, "%{byte:02x}"),
    })
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_is_one_word_and_comes_back() {
        let spots = [
            Spot::Unix { path: "/run/pcp/jumpseat.socket".into(), file: (27, 1 << 40) },
            Spot::Unix { path: "/tmp/ä: %,\u{7f}/s".into(), file: (0, 1) },
            Spot::Tcp("127.0.0.1:4318".parse().expect("an address")),
            Spot::Tcp("[::1]:44321".parse().expect("an address")),
        ];
        for spot in spots {
            let word = spot.to_string();
            assert!(word.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b':'), "{word}");
            assert_eq!(Spot::parse(&word), Some(spot));
        }
        for wrong in ["", "tcp", "tcp,x", "unix,1,2", "unix,1,x,/a", "udp,1", "tcp,%2", "tcp,%é9"] {
            assert_eq!(Spot::parse(wrong), None, "{wrong}");
        }
    }
}

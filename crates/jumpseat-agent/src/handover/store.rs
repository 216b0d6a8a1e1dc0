//! systemd in the place of a keeper: its store of descriptors, from which the next process of the unit gets them.
//!
//! `FDSTORE=1` with a name leaves a descriptor there, `FDSTOREREMOVE=1` takes it back, and the next process finds all of them from
//! descriptor 3 on, with their names in `LISTEN_FDNAMES` (sd_notify(3), sd_listen_fds(3)).

use std::io::{self, ErrorKind, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::time::Duration;

use pcp_net::Spot;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The first descriptor that is passed.
const FIRST: i32 = 3;
/// Longest name that systemd takes.
const MAX_NAME: usize = 255;
/// How long systemd may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way to systemd.
#[derive(Debug)]
pub(super) struct Store {
    socket: UnixDatagram,
}

impl Store {
    /// Opens it, for a process that systemd has started.
    ///
    /// # Errors
    /// It has not, or the unit does not let the process tell anything.
    pub(super) fn open() -> io::Result<Store> {
        let path = std::env::var("NOTIFY_SOCKET").map_err(|_| {
            let words =
                "there is no NOTIFY_SOCKET: the unit needs NotifyAccess=main and FileDescriptorStoreMax=";
            io::Error::new(ErrorKind::NotFound, words)
        })?;
        let socket = UnixDatagram::unbound()?;
        match path.strip_prefix('@') {
            Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
            None => socket.connect(&path)?,
        }
        Ok(Store { socket })
    }

    /// What the process before has left.
    pub(super) fn left() -> Vec<(Spot, OwnedFd)> {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
        if number("LISTEN_PID") != i32::try_from(std::process::id()).ok() {
            return Vec::new();
        }
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut left = Vec::new();
        for descriptor in (FIRST..).take(number("LISTEN_FDS").and_then(|n| n.try_into().ok()).unwrap_or(0)) {
            let spot = names.next().and_then(Spot::parse);
            match own(descriptor) {
                Ok(listener) => left.extend(spot.map(|spot| (spot, listener))),
                Err(error) => tracing::warn!("descriptor {descriptor} of systemd's cannot be used: {error}"),
            }
        }
        left
    }

    pub(super) fn hold(&self, spot: &Spot, listener: BorrowedFd<'_>) -> io::Result<()> {
        let name = spot.to_string();
        if name.len() > MAX_NAME {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "a path that is too long for systemd's store",
            ));
        }
        self.tell(&format!("FDSTORE=1\nFDNAME={name}"), Some(listener))
    }

    pub(super) fn forget(&self, spot: &Spot) -> io::Result<()> {
        self.tell(&format!("FDSTOREREMOVE=1\nFDNAME={spot}"), None)?;
        // Until it is done, nobody else can listen there.
        let (mut ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        self.tell("BARRIER=1", Some(theirs.as_fd()))?;
        drop(theirs);
        ours.read(&mut [0]).map(|_| ())
    }

    fn tell(&self, text: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let files: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(ErrorKind::InvalidInput.into());
        }
        rustix::io::retry_on_intr(|| {
            sendmsg(&self.socket, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)
        })?;
        Ok(())
    }
}

/// A descriptor that was passed by its number, as one that is owned, and is not passed on.
fn own(descriptor: i32) -> io::Result<OwnedFd> {
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    let own = pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty())?;
    nix::unistd::close(descriptor)?;
    Ok(own)
}

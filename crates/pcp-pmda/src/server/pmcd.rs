//! The line to pmcd: pipe or socket, and what becomes of it when pmcd goes away.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Stats;
use super::io::{Channel, Closed, Line, Rest};
use super::listen::{Listen, Listener};
use pcp_net::Kept;

use crate::{Core, Next, PmcdConnection, PmcdOptions, Process};
use pcp_pdu::ResultWriter;

/// Permission bits of the socket pmcd connects to.
const SOCKET_MODE: u32 = 0o660;

/// How often to look after the socket while pmcd is away: at first, when pmcd is about to remove it and may be
/// back at once, and later.
const SOON: Duration = Duration::from_millis(10);
const LATER: Duration = Duration::from_millis(500);
/// How long it is "at first".
const FIRST: Duration = Duration::from_secs(2);

/// How pmcd talks to the agent, as in pmcd.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Standard input and output.
    #[default]
    Pipe,
    /// A Unix socket of this path, which the agent makes with mode 0660.
    Unix(PathBuf),
    /// A port of the IPv4 loopback address, where pmcd looks for it. Anybody on this machine may connect there in its
    /// place: what comes is answered, but nobody is anybody in particular.
    Inet(u16),
    /// A port of the IPv6 loopback address.
    Ipv6(u16),
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// Nobody has connected.
    Nobody,
    /// It is closed again.
    TurnedAway,
    /// It is the line to pmcd now, to be watched.
    Pmcd,
}

/// The line to pmcd, or the wait for it.
pub(super) struct PmcdLine {
    options: PmcdOptions,
    connection: PmcdConnection,
    line: Option<Line>,
    /// Until pmcd has connected; for good if the agent stays.
    listener: Option<Listener>,
    /// Listen again when pmcd has gone.
    stay: bool,
    listen: Option<Listen>,
    check: Option<Instant>,
    lost: Instant,
}

impl PmcdLine {
    pub(super) fn open<S>(
        transport: &Transport,
        options: PmcdOptions,
        stay: bool,
        core: &mut Core<S>,
    ) -> io::Result<PmcdLine> {
        // Over TCP nobody knows who has connected, and so what it says of its clients is nothing to go by.
        let is_tcp = matches!(transport, Transport::Inet(_) | Transport::Ipv6(_));
        let options = PmcdOptions { identity: options.identity && !is_tcp, ..options };
        let listen = match transport {
            Transport::Pipe => None,
            Transport::Unix(path) => Some(Listen::Unix { path: path.clone(), mode: SOCKET_MODE }),
            Transport::Inet(port) => Some(Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, *port)))),
            Transport::Ipv6(port) => Some(Listen::Tcp(SocketAddr::from((Ipv6Addr::LOCALHOST, *port)))),
        };
        let listener = listen.as_ref().map(|listen| Listener::bind(listen, &Kept::default())).transpose()?;
        let mut line = PmcdLine {
            options,
            connection: PmcdConnection::new(options),
            line: None,
            stay: stay && listener.is_some(),
            listener,
            listen,
            check: None,
            lost: Instant::now(),
        };
        if line.listener.is_none() {
            let connected = line.connect(standard_pipes()?, Process::pmcd(), core);
            connected.map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(line)
    }

    pub(super) fn listener(&self) -> Option<&Listener> {
        self.listener.as_ref()
    }

    pub(super) fn line(&mut self) -> Option<&mut Line> {
        self.line.as_mut()
    }

    /// Takes over a line that pmcd has opened, and greets it.
    fn connect<S>(
        &mut self,
        channel: Channel,
        pmcd: Option<Process>,
        core: &mut Core<S>,
    ) -> Result<(), Closed> {
        self.connection = PmcdConnection::new(self.options);
        let line = self.line.insert(Line::new(channel));
        line.say(|out| self.connection.greet(core, pmcd, out))
    }

    /// Takes the next who has connected to the listener. One at a time is pmcd.
    pub(super) fn accept<S>(&mut self, core: &mut Core<S>) -> io::Result<Accepted> {
        let Some(peer) = self.listener.as_ref().map(Listener::accept).transpose()?.flatten() else {
            return Ok(Accepted::Nobody);
        };
        if let Some(uid) = peer.attributes.uid.filter(|&uid| !may_be_pmcd(uid)) {
            tracing::warn!(
                uid,
                "connection to the socket for pmcd turned away: pmcd runs as root, as pcp, or as the user of this agent"
            );
            return Ok(Accepted::TurnedAway);
        }
        if self.line.is_some() {
            tracing::warn!("second connection to the socket for pmcd turned away");
            return Ok(Accepted::TurnedAway);
        }
        let pmcd = peer.attributes.pid.and_then(Process::of);
        let channel = Channel::socket(peer.socket).map_err(Closed::from);
        if let Err(error) = channel.and_then(|channel| self.connect(channel, pmcd, core)) {
            tracing::warn!(%error, "connection from pmcd lost before it began");
            self.line = None;
            return Ok(Accepted::TurnedAway);
        }
        if !self.stay {
            self.listener = None;
        }
        Ok(Accepted::Pmcd)
    }

    pub(super) fn set_ready<S>(&mut self, core: &mut Core<S>, ready: bool) -> Result<(), Closed> {
        match &mut self.line {
            Some(line) => line.say(|out| self.connection.set_ready(core, ready, out)),
            None => Ok(()),
        }
    }

    pub(super) fn drive<S>(
        &mut self,
        core: &mut Core<S>,
        results: &mut ResultWriter,
        scratch: &mut [u8],
        stats: &Stats,
    ) -> Result<Rest, Closed> {
        let Some(line) = &mut self.line else { return Ok(Rest::Wait) };
        let connection = &mut self.connection;
        line.drive(scratch, |input, out| {
            let (before, begun) = (connection.requests(), Instant::now());
            let result = connection.process(core, input, results, out);
            stats.answered(connection.requests() - before, begun.elapsed());
            result.map(|()| if connection.is_unfinished() { Next::Finish } else { Next::Input })
        })
    }

    /// pmcd has gone. Whether the agent waits for it to come back.
    pub(super) fn lost<S>(&mut self, core: &mut Core<S>) -> io::Result<bool> {
        self.connection.close(core);
        self.line = None;
        if !self.stay {
            return Ok(false);
        }
        if matches!(self.listen, Some(Listen::Unix { .. })) {
            self.lost = Instant::now();
            self.check = Some(self.lost + SOON);
        }
        Ok(true)
    }

    /// When to look whether the socket is still there: only while pmcd is away, which removes the socket of an
    /// agent it cleans up after, and does so after it has closed the connection.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.check.filter(|_| self.line.is_none())
    }

    /// Makes the socket anew if it has gone; whether there is a new listener. Where it cannot be made, as when
    /// its directory has gone as well, this is tried again later.
    pub(super) fn check_socket(&mut self) -> bool {
        let now = Instant::now();
        self.check = Some(now + if now.duration_since(self.lost) < FIRST { SOON } else { LATER });
        let Some(listen @ Listen::Unix { path, .. }) = &self.listen else { return false };
        if path.exists() {
            return false;
        }
        let had_one = self.listener.take().is_some();
        match Listener::bind(listen, &Kept::default()) {
            Ok(listener) => {
                self.listener = Some(listener);
                true
            }
            Err(error) => {
                // Once, not with every try.
                if had_one {
                    tracing::warn!(path = %path.display(), %error, "cannot make the socket for pmcd again yet");
                }
                false
            }
        }
    }

    /// The end: all clients have gone.
    pub(super) fn close<S>(&mut self, core: &mut Core<S>) {
        self.connection.close(core);
        self.line = None;
    }
}

/// Who runs a pmcd: root, PCP's own user, or whoever runs this agent.
fn may_be_pmcd(uid: u32) -> bool {
    let is_pcp = || crate::identity::pcp_user().is_some_and(|pcp| pcp == uid);
    uid == 0 || uid == nix::unistd::geteuid().as_raw() || is_pcp()
}

/// Pipes, sockets and terminals can be; files, directories and `/dev/null` cannot: epoll(7) refuses them.
fn can_be_watched(fd: &OwnedFd) -> bool {
    use nix::sys::stat::{SFlag, fstat};
    let kind = fstat(fd).map(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
    match kind {
        Ok(SFlag::S_IFIFO | SFlag::S_IFSOCK) => true,
        Ok(SFlag::S_IFCHR) => nix::unistd::isatty(fd).unwrap_or(false),
        _ => false,
    }
}

/// Takes over standard input and output. What the process prints from now on goes to standard error: it would
/// be taken for PDUs otherwise.
fn standard_pipes() -> io::Result<Channel> {
    let input: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let output: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
    for (fd, name) in [(&input, "standard input"), (&output, "standard output")] {
        if !can_be_watched(fd) {
            let reason = format!("{name} is a file or /dev/null, not the pipe or socket that pmcd makes");
            return Err(io::Error::other(reason));
        }
    }
    nix::unistd::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    nix::unistd::dup2_stdout(io::stderr())?;
    Channel::pipes(input, output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_cannot_be_made_again_yet_is_made_later() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        std::fs::create_dir(&run).unwrap();
        let path = run.join("pmcd.socket");
        let mut core = crate::Agent::new("none", 500, ()).build().unwrap();
        let transport = Transport::Unix(path.clone());
        let mut pmcd = PmcdLine::open(&transport, PmcdOptions::default(), true, &mut core).unwrap();
        assert!(!pmcd.check_socket(), "it is there");
        std::fs::remove_dir_all(&run).unwrap();
        assert!(!pmcd.check_socket() && !pmcd.check_socket(), "there is no place for it");
        assert!(pmcd.next_check().is_some());
        std::fs::create_dir(&run).unwrap();
        assert!(pmcd.check_socket() && path.exists());
    }
}

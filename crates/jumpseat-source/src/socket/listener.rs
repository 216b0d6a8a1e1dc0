//! Where connections come from.

use std::io;
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token as Key};
use nix::unistd::{Gid, getegid, geteuid, getgroups};
use pcp_net::{TcpListening, UnixListening, listen_tcp};

use crate::config::{DEFAULT_GROUP, SocketConfig};
use crate::outlet::Outlet;
use crate::start::StartError;

/// The listeners of a socket source, which outlive its thread's lives.
pub(super) enum Listening {
    Local(UnixListening),
    Remote(Vec<TcpListening>),
}

/// One of them, as a life polls it.
pub(super) enum Listener {
    Local(UnixListener),
    Remote(TcpListener),
}

/// Somebody who has come.
pub(super) enum Comer {
    Local(UnixStream),
    Remote(TcpStream, SocketAddr),
}

impl Listening {
    /// For another life.
    pub(super) fn listeners(&self) -> io::Result<Vec<Listener>> {
        match self {
            Listening::Local(one) => {
                let listener = one.listener.try_clone()?;
                Ok(vec![Listener::Local(UnixListener::from_std(listener))])
            }
            Listening::Remote(all) => {
                let listener = |one: &TcpListening| one.listener.try_clone().map(TcpListener::from_std);
                all.iter().map(|one| listener(one).map(Listener::Remote)).collect()
            }
        }
    }
}

impl Listener {
    pub(super) fn register(&mut self, registry: &Registry, key: Key) -> io::Result<()> {
        match self {
            Listener::Local(listener) => registry.register(listener, key, Interest::READABLE),
            Listener::Remote(listener) => registry.register(listener, key, Interest::READABLE),
        }
    }

    pub(super) fn accept(&self) -> io::Result<Comer> {
        match self {
            Listener::Local(listener) => listener.accept().map(|(stream, _)| Comer::Local(stream)),
            Listener::Remote(listener) => listener.accept().map(|(stream, peer)| Comer::Remote(stream, peer)),
        }
    }
}

/// Listens where the configuration says.
///
/// # Errors
/// [`StartError`].
pub(super) fn listen(config: &SocketConfig, outlet: &Outlet) -> Result<Listening, StartError> {
    let Some(address) = &config.listen else {
        let group = group_of(config)?;
        let listening = UnixListening::bind_for(&config.path, config.mode, group, &outlet.kept)?;
        return Ok(Listening::Local(listening));
    };
    let listening = listen_tcp(address, &outlet.kept);
    let failed = |error| StartError::Address { address: address.clone(), error };
    listening.map(Listening::Remote).map_err(failed)
}

/// The group that the socket is to have. One that is not configured is no matter of life and death.
fn group_of(config: &SocketConfig) -> Result<Option<Gid>, StartError> {
    let group = config.gid().map_err(StartError::Config)?;
    let Some(gid) = group else {
        tracing::debug!(
            "there is no group {DEFAULT_GROUP}: who may send is a matter of this process's group"
        );
        return Ok(None);
    };
    let is_member =
        geteuid().is_root() || getegid() == gid || getgroups().is_ok_and(|all| all.contains(&gid));
    if config.group.is_none() && !is_member {
        tracing::info!(
            "{}: not of group {DEFAULT_GROUP}, which this user is no member of",
            config.path.display()
        );
        return Ok(None);
    }
    Ok(Some(gid))
}

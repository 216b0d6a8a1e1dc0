//! Where connections come from.

use std::io;
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token as Key};
use pcp_net::{TcpListening, UnixListening};

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

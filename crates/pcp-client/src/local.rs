//! Contexts on an agent in the same program.
//!
//! The agent's event loop serves them as it serves any direct client, over a socket pair: no lock is shared with
//! it, and what such a context sees is what a remote one would see.

use super::context::Context;
use super::error::Result;
use super::handshake::{Handshake, HandshakeConfig};
use super::host::this_host;
use super::line::Line;
use super::options::HostOptions;
use super::provider::ContextKind;
use super::registry::global_registry;
use super::socket::Socket;
use super::waiting::Waiting;
use super::wire::{Connecting, Connector, WireProvider};
use std::io;
use std::os::unix::net::UnixStream;

use pcp_pdu::Features;

impl Context {
    /// A context on an agent that `connect` reaches, such as `move || handle.connect()` with the handle of an
    /// agent's event loop. The loop has to run in another thread, or nobody would answer. Called once now, and
    /// again by each [`Context::reconnect`].
    ///
    /// # Errors
    /// The agent has ended, or does not answer in time.
    pub fn local(connect: impl Fn() -> io::Result<UnixStream> + Send + 'static) -> Result<Context> {
        let connector = LocalConnector { connect: Box::new(connect), options: HostOptions::default() };
        let mut context = Context::new(Box::new(WireProvider::new(Box::new(connector))), global_registry());
        context.reconnect()?;
        Ok(context)
    }
}

/// Connects to an agent in the same program.
struct LocalConnector {
    connect: Box<dyn Fn() -> io::Result<UnixStream> + Send>,
    options: HostOptions,
}

impl Connector for LocalConnector {
    fn kind(&self) -> ContextKind {
        ContextKind::Local
    }

    fn options(&self) -> &HostOptions {
        &self.options
    }

    fn host_name(&self) -> String {
        this_host()
    }

    fn start(&mut self) -> Result<Box<dyn Connecting>> {
        let stream = (self.connect)()?;
        stream.set_nonblocking(true)?;
        let config = HandshakeConfig {
            limit: self.options.request_timeout,
            known_to_kernel: true,
            local: true,
            local_by_name: true,
            ..HandshakeConfig::default()
        };
        let line = Line::new(Socket::Unix(stream));
        Ok(Box::new(LocalConnecting(Some(Handshake::new(line, config)))))
    }
}

/// A connection to the agent that is being opened; `None` once it is open.
struct LocalConnecting(Option<Handshake>);

impl Connecting for LocalConnecting {
    fn advance(&mut self) -> Result<Option<(Line, Features)>> {
        let open = match &mut self.0 {
            Some(handshake) => handshake.advance()?,
            None => false,
        };
        Ok(if open { self.0.take().map(Handshake::finish) } else { None })
    }

    fn waiting(&self) -> Option<Waiting<'_>> {
        self.0.as_ref().map(Handshake::waiting)
    }
}

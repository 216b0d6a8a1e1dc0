//! Contexts on an agent in the same program.
//!
//! The agent's event loop serves them as it serves any direct client, over a socket pair: no lock is shared with
//! it, and what such a context sees is what a remote one would see.

use super::context::Context;
use super::error::Result;
use super::handshake::{Opening, Wishes};
use super::host::this_host;
use super::line::Line;
use super::options::Options;
use super::provider::{ContextKind, Waiting};
use super::registry::global_registry;
use super::socket::Socket;
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
        let inside = Inside { connect: Box::new(connect), options: Options::default() };
        let mut context = Context::new(Box::new(WireProvider::new(Box::new(inside))), global_registry());
        context.reconnect()?;
        Ok(context)
    }
}

struct Inside {
    connect: Box<dyn Fn() -> io::Result<UnixStream> + Send>,
    options: Options,
}

impl Connector for Inside {
    fn kind(&self) -> ContextKind {
        ContextKind::Local
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn host_name(&self) -> String {
        this_host()
    }

    fn start(&mut self) -> Result<Box<dyn Connecting>> {
        let stream = (self.connect)()?;
        stream.set_nonblocking(true)?;
        let wishes = Wishes {
            limit: self.options.request_timeout,
            known_to_kernel: true,
            local: true,
            local_by_name: true,
            ..Wishes::default()
        };
        let line = Line::new(Socket::Unix(stream));
        Ok(Box::new(Inner(Some(Opening::new(line, wishes)))))
    }
}

/// A connection to the agent that is being opened; `None` once it is open.
struct Inner(Option<Opening>);

impl Connecting for Inner {
    fn advance(&mut self) -> Result<Option<(Line, Features)>> {
        let open = match &mut self.0 {
            Some(opening) => opening.advance()?,
            None => false,
        };
        Ok(if open { self.0.take().map(Opening::finish) } else { None })
    }

    fn waiting(&self) -> Option<Waiting<'_>> {
        self.0.as_ref().map(Opening::waiting)
    }
}

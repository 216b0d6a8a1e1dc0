//! What both protocols run on: a TCP connection, encrypted or not, that tells what happens on it, and an executor for one thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connection to a client.
pub(super) enum Stream {
    /// In plain text.
    Plain(TcpStream),
    /// Encrypted; both sides have agreed.
    Secret(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// What it runs on.
    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Secret(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Secret(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Secret(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Secret(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Secret(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// Who is told what happens on a connection.
pub(super) trait Watch {
    /// Bytes have come.
    fn read(&self, bytes: usize);

    /// Bytes are about to be written; `false`: they are thrown away.
    fn may_write(&self) -> bool {
        true
    }

    /// All that was to be written has left.
    fn flushed(&self) {}
}

/// A connection under watch.
pub(super) struct Watched<W> {
    /// The connection itself.
    pub stream: Stream,
    watch: Rc<W>,
}

impl<W: Watch> Watched<W> {
    /// Puts a connection under watch; the result is what hyper takes.
    pub(super) fn new(stream: Stream, watch: Rc<W>) -> TokioIo<Watched<W>> {
        TokioIo::new(Watched { stream, watch })
    }
}

impl<W: Watch> AsyncRead for Watched<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        if read > 0 {
            self.watch.read(read);
        }
        polled
    }
}

impl<W: Watch> AsyncWrite for Watched<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.watch.may_write() {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        if polled.is_ready() {
            self.watch.flushed();
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Runs what belongs to a connection on the thread of the connection: nothing that is shared here needs a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThisThread;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for ThisThread {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

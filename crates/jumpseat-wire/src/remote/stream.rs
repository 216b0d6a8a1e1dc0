//! A connection to an agent on another host.
//!
//! ```text
//! TLS; {"jumpseat":{"token":"SECRET"}}\n  ->  {"jumpseat":{"admitted":"NAME"}}\n  or  {"error":"..."}\n
//! ```

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use rustls::{ClientConnection, StreamOwned};

use super::{Prepared, RemoteError};
use crate::ADMITTED;

/// Longest answer to a token.
const MAX_ANSWER: usize = 8 * 1024;
/// How long a host may be silent about what was sent to it, take nothing, or not be there at all, before the system ends the
/// connection: else one that was switched off would be waited for a quarter of an hour. An agent may take nothing for a minute
/// when its token has sent too much.
const SILENCE: Duration = Duration::from_secs(75);
/// How often the system asks whether it is there.
const ASK: Duration = Duration::from_secs(10);

/// A connection on which this sender has been let in. What is written is encrypted, and given to the system, when [`Write::write`]
/// comes back; if that has failed the next write or flush tells why, as the bytes have been taken.
pub struct RemoteStream {
    tls: StreamOwned<ClientConnection, Socket>,
    /// Why what was taken is not on its way.
    failed: Option<io::Error>,
}

impl RemoteStream {
    pub(super) fn open(
        address: &str,
        prepared: Prepared,
        patience: Duration,
    ) -> Result<RemoteStream, RemoteError> {
        let until = Instant::now() + patience;
        let stream = connected(address, until)?;
        sockopt::set_tcp_nodelay(&stream, true).map_err(io::Error::from)?;
        sockopt::set_tcp_user_timeout(&stream, SILENCE.as_millis() as u32).map_err(io::Error::from)?;
        sockopt::set_socket_keepalive(&stream, true).map_err(io::Error::from)?;
        sockopt::set_tcp_keepidle(&stream, ASK).map_err(io::Error::from)?;
        sockopt::set_tcp_keepintvl(&stream, ASK).map_err(io::Error::from)?;
        let tls = ClientConnection::new(prepared.config, prepared.name).map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(tls, Socket { stream, until: Some(until) });
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock)?;
        }
        tls.write_all(token_line(&prepared.token).as_bytes())?;
        tls.flush()?;
        let answer = line(&mut tls)?;
        if !answer.starts_with(ADMITTED) {
            return Err(RemoteError::Refused { answer });
        }
        tls.sock.until = None;
        let stream = RemoteStream { tls, failed: None };
        stream.set_write_timeout(patience)?;
        stream.set_read_timeout(patience)?;
        Ok(stream)
    }

    /// Whether a read that finds nothing comes back at once.
    ///
    /// # Errors
    /// The system's.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.tls.sock.stream.set_nonblocking(on)
    }

    /// How long a read waits.
    ///
    /// # Errors
    /// The system's.
    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.tls.sock.stream.set_read_timeout(Some(timeout))
    }

    /// How long a write waits.
    ///
    /// # Errors
    /// The system's.
    pub fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.tls.sock.stream.set_write_timeout(Some(timeout))
    }

    /// Says that nothing more comes. What the agent says can still be read.
    ///
    /// # Errors
    /// The system's.
    pub fn end(&mut self) -> io::Result<()> {
        self.tls.conn.send_close_notify();
        self.flush()
    }
}

impl Read for RemoteStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tls.read(buffer)
    }
}

impl Write for RemoteStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let taken = self.tls.write(bytes)?;
        // TLS takes bytes also where the connection does not, and says nothing of it.
        self.failed = self.tls.flush().err();
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.tls.flush(),
        }
    }
}

impl std::fmt::Debug for RemoteStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteStream").field("socket", &self.tls.sock.stream).finish_non_exhaustive()
    }
}

/// TCP, which is used until some time only, if there is one: a server that says a byte now and then is not waited for.
struct Socket {
    stream: TcpStream,
    until: Option<Instant>,
}

impl Socket {
    /// What is left of the time; `None` if there is no limit.
    fn left(&self) -> io::Result<Option<Duration>> {
        self.until.map(left).transpose()
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            self.stream.set_read_timeout(Some(left))?;
        }
        self.stream.read(buffer).map_err(|error| self.late(error))
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// TLS gives all records that are to go out at once, and tries only once to say why it does not trust a server.
    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            self.stream.set_write_timeout(Some(left))?;
        }
        self.stream.write_vectored(bytes).map_err(|error| self.late(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket {
    /// The system says "would block" of a time that has passed.
    fn late(&self, error: io::Error) -> io::Error {
        match error.kind() {
            ErrorKind::WouldBlock if self.until.is_some() => too_late(),
            _ => error,
        }
    }
}

fn too_late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it does not answer in time")
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(too_late()) } else { Ok(left) }
}

/// Connects to the first address of the host that is there.
fn connected(address: &str, until: Instant) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    first_there(&addresses, until)
}

/// Each address may take its part of the time that is left: one where nobody answers leaves some for the others.
fn first_there(addresses: &[SocketAddr], until: Instant) -> io::Result<TcpStream> {
    let mut problem = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for (address, remain) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
        let share = (left(until)? / remain).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(address, share) {
            Ok(stream) => return Ok(stream),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

/// The first line of a connection. A token is printable ASCII, of which JSON writes two characters differently.
fn token_line(token: &str) -> String {
    let escaped = token.replace('\\', "\\\\").replace('"', "\\\"");
    format!("{{\"jumpseat\":{{\"token\":\"{escaped}\"}}}}\n")
}

/// The next line. Nothing comes behind it before somebody asks.
fn line(from: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match from.read(&mut byte) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection")),
            Ok(_) if byte[0] == b'\n' => return Ok(String::from_utf8_lossy(&line).trim().to_owned()),
            Ok(_) if line.len() >= MAX_ANSWER => {
                return Err(io::Error::new(ErrorKind::InvalidData, "its answer is too long"));
            }
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_json() {
        assert_eq!(token_line(r#"a"\b"#), "{\"jumpseat\":{\"token\":\"a\\\"\\\\b\"}}\n");
    }

    /// A listener that takes no further connection, as nobody accepts those that fill its queue.
    fn dead() -> (std::net::TcpListener, Vec<TcpStream>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        rustix::net::listen(&listener, 0).expect("a short queue");
        let address = listener.local_addr().expect("an address");
        let wait = Duration::from_millis(100);
        let waiting =
            std::iter::from_fn(|| TcpStream::connect_timeout(&address, wait).ok()).take(64).collect();
        (listener, waiting)
    }

    #[test]
    fn an_address_where_nobody_answers_leaves_time_for_the_next() {
        let (dead, waiting) = dead();
        assert!(waiting.len() < 64, "its queue is full");
        let live = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let addresses = [&dead, &live].map(|listener| listener.local_addr().expect("an address"));
        let patience = Duration::from_millis(600);
        let stream = first_there(&addresses, Instant::now() + patience).expect("the second one");
        assert_eq!(stream.peer_addr().ok(), Some(addresses[1]));
        let error = first_there(&addresses[..1], Instant::now() + patience / 4).expect_err("nobody");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn an_answer_has_an_end() {
        assert_eq!(line(&mut &b"{\"error\":\"no\"}\r\nmore"[..]).expect("a line"), "{\"error\":\"no\"}");
        let kind = |bytes: &[u8]| line(&mut &bytes[..]).expect_err("no line").kind();
        assert_eq!(kind(b"cut"), ErrorKind::UnexpectedEof);
        assert_eq!(kind(&[b'x'; 2 * MAX_ANSWER]), ErrorKind::InvalidData);
    }

    #[test]
    fn a_server_that_says_nothing_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let until = Instant::now() + Duration::from_millis(50);
        let stream = connected(&address, until).expect("it listens");
        let mut socket = Socket { stream, until: Some(until) };
        let (mut served, _) = listener.accept().expect("a connection");
        served.write_all(b"x").expect("it reads");
        let mut all = Vec::new();
        assert_eq!(socket.read_to_end(&mut all).expect_err("no end").kind(), ErrorKind::TimedOut);
        assert_eq!(all, b"x");
        assert_eq!(connected(&address, until).expect_err("it is late").kind(), ErrorKind::TimedOut);
    }
}

//! One non-blocking line: reads what comes, hands it to the connection, writes what the connection says.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::secure::Secure;
use crate::{Broken, Next, Output};
use pcp_net::{Certificate, TlsError};

/// Rounds of reading and answering before others get their turn.
const ROUNDS: usize = 16;
/// How long one may be answered before others get their turn; an answer that is begun is finished.
const TURN: Duration = Duration::from_millis(5);
/// Buffers above this are given back when they are empty.
const KEEP: usize = 1 << 16;

/// A pipe is made no larger than that: what the system lets everybody do.
const WIDEST: usize = 1 << 20;

/// Why a line is at its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Closed {
    #[error("end of file")]
    Eof,
    #[error("{0}")]
    Broken(#[from] Broken),
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The descriptors of a line: one for a socket, two for a pair of pipes. Both are non-blocking.
#[derive(Debug)]
pub(super) struct Channel {
    input: File,
    output: Option<File>,
}

impl Channel {
    pub(super) fn socket(socket: OwnedFd) -> io::Result<Channel> {
        Ok(Channel { input: nonblocking(socket)?, output: None })
    }

    pub(super) fn pipes(input: OwnedFd, output: OwnedFd) -> io::Result<Channel> {
        Ok(Channel { input: nonblocking(input)?, output: Some(nonblocking(output)?) })
    }

    /// The descriptors to watch: for input, and for output if that is another one.
    pub(super) fn fds(&self) -> (RawFd, Option<RawFd>) {
        (self.input.as_raw_fd(), self.output.as_ref().map(AsRawFd::as_raw_fd))
    }
}

fn nonblocking(fd: OwnedFd) -> io::Result<File> {
    let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(File::from(fd))
}

/// A line with its buffers.
#[derive(Debug)]
pub(super) struct Line {
    channel: Channel,
    input: BytesMut,
    outgoing: Outgoing,
    /// What the line is encrypted with, once its connection says so.
    certificate: Option<Certificate>,
    /// The connection has more to say when everything has left.
    unfinished: bool,
    /// Nothing more is read or answered until [`Line::resume`].
    paused: bool,
    /// The peer has said that nothing more comes.
    ended: bool,
    /// The input may hold more; it has not said otherwise since it last told us so.
    readable: bool,
    /// The peer has closed its side: the end is to be read, after whatever comes before it.
    closing: bool,
    /// The system is to tell when more can be written.
    watched: bool,
}

/// What [`Line::drive`] left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing until the peer or the system moves.
    Wait,
    /// More than one turn's worth: come back without waiting.
    More,
}

#[derive(Debug, Default)]
struct Outgoing {
    /// As the socket will take it.
    waiting: BytesMut,
    /// What encrypts it before.
    secure: Option<Box<Secure>>,
    error: Option<io::Error>,
    /// Bytes written so far.
    written: u64,
    /// What the pipe holds, if it is one and can be made wider.
    pipe: Option<usize>,
}

impl Line {
    pub(super) fn new(channel: Channel) -> Line {
        let room = channel.output.as_ref().and_then(|out| fcntl(out, FcntlArg::F_GETPIPE_SZ).ok());
        let pipe = room.and_then(|room| usize::try_from(room).ok());
        Line {
            channel,
            input: BytesMut::new(),
            outgoing: Outgoing { pipe, ..Outgoing::default() },
            certificate: None,
            unfinished: false,
            paused: false,
            ended: false,
            readable: true,
            closing: false,
            watched: false,
        }
    }

    /// A line that can be encrypted.
    pub(super) fn with_certificate(self, certificate: Option<Certificate>) -> Line {
        Line { certificate, ..self }
    }

    fn fds(&self) -> (RawFd, Option<RawFd>) {
        self.channel.fds()
    }

    /// Notes what the system says can be done, until it turns out that it cannot any more.
    pub(super) fn note_readiness(&mut self, event: &Event) {
        self.closing |= event.is_read_closed() || event.is_error();
        self.readable |= event.is_readable() || self.closing;
    }

    /// Reads on to the end or to where there is no more yet, whatever the system has told.
    pub(super) fn look_for_end(&mut self) {
        self.closing = true;
        self.readable = true;
    }

    /// Puts the line under watch for the first time.
    pub(super) fn watch(&self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut SourceFd(&self.fds().0), token, Interest::READABLE)
    }

    /// Has the system tell when more can be written, for as long as something waits to be. Always asking
    /// would wake the loop each time the peer has read an answer.
    pub(super) fn watch_output(
        &mut self,
        registry: &Registry,
        input: Token,
        output: Token,
    ) -> io::Result<()> {
        let waits = !self.outgoing.waiting.is_empty();
        if waits == std::mem::replace(&mut self.watched, waits) {
            return Ok(());
        }
        match (self.fds(), waits) {
            ((_, Some(fd)), true) => registry.register(&mut SourceFd(&fd), output, Interest::WRITABLE),
            ((_, Some(fd)), false) => registry.deregister(&mut SourceFd(&fd)),
            ((fd, None), true) => {
                registry.reregister(&mut SourceFd(&fd), input, Interest::READABLE | Interest::WRITABLE)
            }
            ((fd, None), false) => registry.reregister(&mut SourceFd(&fd), input, Interest::READABLE),
        }
    }

    /// Bytes that wait to be written.
    pub(super) fn waiting(&self) -> usize {
        self.outgoing.waiting.len() + self.outgoing.secure.as_ref().map_or(0, |secure| secure.waiting())
    }

    /// Whether both sides have agreed on TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.outgoing.secure.as_ref().is_some_and(|secure| secure.is_established())
    }

    /// Whether TLS has begun, and both sides have not agreed on it yet.
    pub(super) fn is_agreeing(&self) -> bool {
        self.outgoing.secure.is_some() && !self.is_encrypted()
    }

    /// Goes on after [`Next::Verdict`].
    pub(super) fn resume(&mut self) {
        self.paused = false;
    }

    /// Bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.outgoing.written
    }

    /// Whether there is the beginning of a request.
    pub(super) fn has_partial_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Lets `speak` send something out of turn.
    pub(super) fn say(&mut self, speak: impl FnOnce(&mut dyn Output)) -> Result<(), Closed> {
        let out = self.channel.output.as_mut().unwrap_or(&mut self.channel.input);
        speak(&mut self.outgoing.to(out, Instant::now()));
        self.outgoing.check()
    }

    /// Writes what waits, lets `process` answer what has come, and reads on, until one of them has to wait.
    /// `scratch` is what is read at a time.
    pub(super) fn drive(
        &mut self,
        scratch: &mut [u8],
        mut process: impl FnMut(&mut BytesMut, &mut dyn Output) -> Result<Next, Broken>,
    ) -> Result<Rest, Closed> {
        let turn = Instant::now();
        for _ in 0..ROUNDS {
            let Channel { input, output } = &mut self.channel;
            let out = output.as_mut().unwrap_or(input);
            self.outgoing.push(out, turn);
            self.outgoing.check()?;
            if !self.outgoing.waiting.is_empty() {
                return Ok(Rest::Wait);
            }
            if self.outgoing.can_seal() || turn.elapsed() >= TURN {
                return Ok(Rest::More);
            }
            if self.paused {
                return Ok(Rest::Wait);
            }
            if !self.input.is_empty() || self.unfinished {
                // A socket's one descriptor serves both ways; the sender only writes.
                let mut next = process(&mut self.input, &mut self.outgoing.to(out, turn))?;
                if next == Next::Encrypt {
                    self.encrypt()?;
                    let out = self.channel.output.as_mut().unwrap_or(&mut self.channel.input);
                    next = process(&mut self.input, &mut self.outgoing.to(out, turn))?;
                }
                self.outgoing.check()?;
                self.paused = next == Next::Verdict;
                self.unfinished = next == Next::Finish;
                if !self.outgoing.is_clear() || self.paused || self.unfinished {
                    continue;
                }
                if turn.elapsed() >= TURN {
                    return Ok(Rest::More);
                }
            }
            if self.ended {
                return Err(Closed::Eof);
            }
            if !self.readable {
                self.give_back();
                return Ok(Rest::Wait);
            }
            self.read(scratch)?;
        }
        Ok(Rest::More)
    }

    /// Reads once.
    fn read(&mut self, scratch: &mut [u8]) -> Result<(), Closed> {
        match self.channel.input.read(scratch) {
            Ok(0) => return Err(Closed::Eof),
            Ok(n) => {
                // A stream that gave less than it could is empty (epoll(7)); but its end may have been
                // told together with the last bytes, and is told only once.
                self.readable = n == scratch.len() || self.closing;
                match &mut self.outgoing.secure {
                    None => self.input.extend_from_slice(&scratch[..n]),
                    Some(_) => self.decrypt(&scratch[..n])?,
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                self.closing = false;
            }
            Err(error) => return Err(Closed::Io(error)),
        }
        Ok(())
    }

    /// Begins TLS. Whatever has come behind the request for it is TLS already, so that nobody on the way can have put
    /// in what would count as the client's own.
    fn encrypt(&mut self) -> Result<(), Closed> {
        let Some(certificate) = &self.certificate else { return Err(Closed::Broken(Broken::Handshake)) };
        self.outgoing.secure = Some(Box::new(Secure::new(certificate.begin()?)));
        let begun = std::mem::take(&mut self.input);
        self.decrypt(&begun)
    }

    fn decrypt(&mut self, bytes: &[u8]) -> Result<(), Closed> {
        let Outgoing { secure, waiting, .. } = &mut self.outgoing;
        let Some(secure) = secure else { return Ok(()) };
        let received = secure.receive(bytes, &mut self.input, waiting);
        if received.is_err() {
            // The peer is told why, as far as the socket takes it at once.
            let out = self.channel.output.as_mut().unwrap_or(&mut self.channel.input);
            self.outgoing.flush(out);
        }
        self.ended = !received?;
        Ok(())
    }

    fn give_back(&mut self) {
        if self.input.is_empty() && self.input.capacity() > KEEP {
            self.input = BytesMut::new();
        }
        if self.outgoing.waiting.is_empty() && self.outgoing.waiting.capacity() > KEEP {
            self.outgoing.waiting = BytesMut::new();
        }
        if let Some(secure) = &mut self.outgoing.secure {
            secure.give_back(KEEP);
        }
    }
}

/// Writes at once what the system takes, and keeps the rest.
struct Sender<'a> {
    outgoing: &'a mut Outgoing,
    out: &'a mut File,
    /// When the turn began.
    turn: Instant,
}

impl Output for Sender<'_> {
    fn send(&mut self, parts: [&[u8]; 2]) {
        if let Some(secure) = &mut self.outgoing.secure {
            secure.put(parts);
            return self.outgoing.push(self.out, self.turn);
        }
        let mut skip = 0;
        if self.outgoing.is_clear() {
            self.outgoing.widen(self.out, parts.iter().map(|part| part.len()).sum());
            skip = self.outgoing.write(self.out, parts);
        }
        for part in parts {
            let done = skip.min(part.len());
            skip -= done;
            self.outgoing.waiting.extend_from_slice(&part[done..]);
        }
    }

    fn has_left(&self) -> bool {
        self.outgoing.is_clear()
    }

    fn is_clear(&self) -> bool {
        self.outgoing.is_clear() && self.turn.elapsed() < TURN
    }
}

impl Outgoing {
    fn to<'a>(&'a mut self, out: &'a mut File, turn: Instant) -> Sender<'a> {
        Sender { outgoing: self, out, turn }
    }

    /// Makes a pipe wider that does not hold so many bytes: each time that it is full costs both sides a turn of the scheduler.
    fn widen(&mut self, out: &File, bytes: usize) {
        if let Some(room) = self.pipe
            && bytes > room
            && room < WIDEST
        {
            let wanted = bytes.checked_next_power_of_two().unwrap_or(WIDEST).min(WIDEST);
            // A user has only so much for pipes. What there is will do, then.
            let widened = fcntl(out, FcntlArg::F_SETPIPE_SZ(wanted as i32)).ok();
            self.pipe = widened.and_then(|room| usize::try_from(room).ok());
        }
    }

    fn is_clear(&self) -> bool {
        let sealed = self.secure.as_ref().is_none_or(|secure| secure.waiting() == 0);
        self.waiting.is_empty() && sealed && self.error.is_none()
    }

    /// Whether there is something to be encrypted now.
    fn can_seal(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.can_seal())
    }

    fn check(&mut self) -> Result<(), Closed> {
        self.error.take().map_or(Ok(()), |error| Err(Closed::Io(error)))
    }

    /// Encrypts and writes until the system takes no more, or the turn is over.
    fn push(&mut self, out: &mut File, turn: Instant) {
        loop {
            self.flush(out);
            let is_stuck = !self.waiting.is_empty() || self.error.is_some();
            let Some(secure) = &mut self.secure else { return };
            if is_stuck || turn.elapsed() >= TURN || !secure.seal(&mut self.waiting) {
                return;
            }
        }
    }

    fn flush(&mut self, out: &mut File) {
        if !self.waiting.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            let done = self.write(out, [&waiting, &[]]);
            self.waiting = waiting;
            bytes::Buf::advance(&mut self.waiting, done);
        }
    }

    /// Writes as much as the system takes; an error other than "later" is kept. Returns the bytes written.
    fn write(&mut self, out: &mut File, parts: [&[u8]; 2]) -> usize {
        let mut slices = parts.map(IoSlice::new);
        let mut slices = &mut slices[..];
        let mut done = 0;
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match out.write_vectored(slices) {
                Ok(0) => self.error = Some(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    done += n;
                    IoSlice::advance_slices(&mut slices, n);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => self.error = Some(error),
            }
            break;
        }
        self.written += done as u64;
        done
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_pipe_is_made_wide_enough_for_an_answer() {
        let (requests, asks) = nix::unistd::pipe().unwrap();
        let (replies, answers) = nix::unistd::pipe().unwrap();
        let mut line = Line::new(Channel::pipes(requests, answers).unwrap());
        let mut replies = File::from(replies);
        let mut sent = |len: usize| {
            let answer: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let before = line.written();
            line.say(|out| out.send([&answer[..7], &answer[7..]])).unwrap();
            let at_once = line.written() - before;
            let mut read = vec![0; len];
            let mut rest = &mut read[..];
            while !rest.is_empty() {
                let taken = replies.read(rest).unwrap();
                rest = &mut rest[taken..];
                line.say(|_| {}).unwrap();
                line.drive(&mut [0; 9], |_, _| Ok(Next::Input)).unwrap();
            }
            assert_eq!(read, answer);
            at_once
        };
        assert_eq!(sent(10), 10);
        assert_eq!(sent(300_000), 300_000);
        assert!((1_000_000..3_000_000).contains(&sent(3_000_000)), "no wider than everybody may have it");
        assert_eq!(sent(300_000), 300_000);
        drop(asks);
    }

    #[test]
    fn a_peer_with_much_to_ask_takes_turns() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut line = Line::new(Channel::socket(ours.into()).unwrap());
        (&theirs).write_all(&[0; 10]).unwrap();
        let mut answered = 0;
        let mut turn = || {
            let rest = line.drive(&mut [0; 100], |input, out| {
                while out.is_clear() && !input.is_empty() {
                    bytes::Buf::advance(input, 1);
                    answered += 1;
                    std::thread::sleep(TURN * 2 / 3);
                }
                Ok(Next::Input)
            });
            (rest.unwrap(), answered)
        };
        let (rest, answered) = turn();
        assert_eq!(rest, Rest::More);
        assert!((1..=2).contains(&answered), "{answered} in one turn");
        let turns = (0..).take_while(|_| turn().0 == Rest::More).count();
        assert!((3..=10).contains(&turns), "{turns} turns");
        assert_eq!(turn(), (Rest::Wait, 10));
    }
}

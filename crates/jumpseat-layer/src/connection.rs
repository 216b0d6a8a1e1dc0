//! A connection to the agent, as one of a sender that numbers what it sends.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use jumpseat_wire::encode::Encoder;
use jumpseat_wire::ring::chunk::{put_chunk, put_rings};
use jumpseat_wire::ring::transcribe::Transcriber;
use jumpseat_wire::{COMMITTED, KNOWN, READ, frame, varint};

use crate::memory::RingFile;
use crate::target::{Stream, Target};

/// Bytes of answers that are read at a time. Half an answer is no longer.
const ANSWERS: usize = 4096;

/// A connection to the agent.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    pub transcriber: Transcriber,
    /// The number of the next item.
    pub position: u64,
    /// Everything up to this number is committed.
    pub committed: u64,
    /// What was committed before this connection.
    known: u64,
    /// The agent reads chunks by itself: those below this number it has read.
    read: Option<u64>,
    /// How long the agent may take to read, and to answer.
    patience: Duration,
    /// What the agent said and is not read yet.
    answers: Vec<u8>,
}

impl Connection {
    /// Connects, and has the agent say what it knows: what is below `first` was acknowledged. `file`: the rings, and the number
    /// of the connection there, for an agent of this machine.
    pub(crate) fn open(
        target: &dyn Target,
        source: &str,
        sender: &str,
        first: u64,
        file: Option<(&RingFile, u64)>,
    ) -> io::Result<Connection> {
        let stream = target.connect()?;
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder.source(source, &mut out).map_err(io::Error::other)?;
        let mut connection = Connection {
            stream,
            transcriber: Transcriber::new(encoder),
            position: first,
            committed: first - 1,
            known: first - 1,
            read: None,
            patience: target.patience(),
            answers: Vec::new(),
        };
        let sent = match file {
            Some((file, number)) => {
                let without = out.len();
                put_rings(&mut out, number);
                connection.stream.send_with(&out, file).transpose()?.unwrap_or_else(|| {
                    out.truncate(without);
                    0
                })
            }
            None => 0,
        };
        connection.transcriber.encoder.sender(sender.as_bytes(), first, &mut out);
        connection.stream.write_all(&out[sent..])?;
        let known = connection.known()?;
        if known >= first {
            // What comes next has the number behind it.
            (connection.position, connection.committed, connection.known) = (known + 1, known, known);
            out.clear();
            connection.transcriber.encoder.sender(sender.as_bytes(), connection.position, &mut out);
            connection.stream.write_all(&out)?;
            connection.known()?;
        }
        Ok(connection)
    }

    /// Whether the agent reads chunks by itself.
    pub(crate) fn has_reader(&self) -> bool {
        self.read.is_some()
    }

    /// Whether the agent has read this chunk, if it was to do so.
    pub(crate) fn has_read(&self, chunk: u64) -> bool {
        self.read.is_some_and(|read| chunk < read)
    }

    /// Has the agent read a chunk, behind which items have this number.
    pub(crate) fn hand_over(&mut self, chunk: u64, next: u64) -> io::Result<()> {
        let mut frame = Vec::new();
        put_chunk(&mut frame, chunk);
        self.position = next;
        self.write(&frame)
    }

    /// Whether something was committed on this connection.
    pub(crate) fn has_progress(&self) -> bool {
        self.committed > self.known
    }

    /// Writes bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).map_err(late)
    }

    /// Reads what the agent says; waits so long for it.
    ///
    /// # Errors
    /// The connection is at its end.
    pub(crate) fn read(&mut self, wait: Option<Duration>) -> io::Result<()> {
        let mut buffer = [0; ANSWERS];
        let read = match wait {
            Some(wait) => self.stream.read_within(wait, &mut buffer),
            None => self.stream.read_now(&mut buffer),
        };
        match read {
            Ok(0) => return Err(ended()),
            Ok(len) => self.answers.extend_from_slice(&buffer[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        while self.answer()?.is_some() {}
        Ok(())
    }

    /// Waits until all that was sent is committed.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let until = Instant::now() + self.patience;
        while self.committed + 1 < self.position {
            if Instant::now() >= until {
                return Err(silent());
            }
            self.read(Some(self.patience))?;
        }
        Ok(())
    }

    /// The number in the next KNOWN frame.
    fn known(&mut self) -> io::Result<u64> {
        let until = Instant::now() + self.patience;
        loop {
            while let Some((kind, number)) = self.answer()? {
                if kind == KNOWN {
                    return Ok(number);
                }
            }
            if Instant::now() >= until {
                return Err(silent());
            }
            let mut buffer = [0; ANSWERS];
            match self.stream.read_within(self.patience, &mut buffer).map_err(late)? {
                0 => return Err(ended()),
                len => self.answers.extend_from_slice(&buffer[..len]),
            }
        }
    }

    /// Takes in the next whole answer: its kind, and the number that it begins with.
    fn answer(&mut self) -> io::Result<Option<(u8, u64)>> {
        let Some((kind, payload, len)) = frame(&self.answers) else {
            // No answer is as long: what speaks here is no agent.
            return if self.answers.len() > 64 << 10 { Err(ErrorKind::InvalidData.into()) } else { Ok(None) };
        };
        let number = varint(payload).map_or(0, |(number, _)| number);
        self.answers.drain(..len);
        match kind {
            COMMITTED => self.committed = self.committed.max(number),
            READ => self.read = self.read.max(Some(number)),
            _ => {}
        }
        Ok(Some((kind, number)))
    }
}

fn ended() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection")
}

fn silent() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it does not answer in time")
}

/// The system says "would block" of a time that has passed.
fn late(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock => {
            io::Error::new(ErrorKind::TimedOut, "it does not take or say anything in time")
        }
        _ => error,
    }
}

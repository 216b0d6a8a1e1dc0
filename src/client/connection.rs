//! One blocking connection to a collector, with one context on it (spec `wire.md` 4, 5, 10 to 15).
//!
//! A request is one write and the reads of its reply. A reply that is late, of the wrong type or
//! undecodable closes the connection: it could otherwise be taken for the answer to the next request.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use bytes::BytesMut;

use crate::model::{Desc, InDom, Instance, PM_IN_NULL, PmError, Pmid, Profile};
use crate::pdu::{
    ByteStr, Challenge, CredFlags, Creds, EncodeError, Features, Fetch, Frame, FrameError, FrameReader,
    InstanceReq, Pdu, PduError, PmnsIds, PmnsNames, ProfilePdu, ResultPdu, StateChange,
};

/// Largest reply accepted: a fetch of a few full event arrays.
const MAX_REPLY: usize = 256 << 20;
/// Bytes asked of the socket at a time.
const READ_SIZE: usize = 64 << 10;
/// The one context on the connection.
const CONTEXT: i32 = 0;

/// A connection to a collector.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    frames: FrameReader,
    input: BytesMut,
    output: BytesMut,
    timeout: Duration,
    features: Features,
    profile_sent: bool,
    broken: bool,
    /// What the collector said has changed, since this was last cleared.
    pub changes: StateChange,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The collector could not be reached, or the connection broke.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The collector answered with an error.
    #[error("{0}")]
    Pcp(#[from] PmError),
    /// The reply did not come in time.
    #[error("no reply within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    /// The collector closed the connection.
    #[error("the collector closed the connection")]
    Closed,
    /// The reply is no PDU.
    #[error("bad reply: {0}")]
    Frame(#[from] FrameError),
    /// The reply is not a correct PDU of its type.
    #[error("bad reply: {0}")]
    Pdu(#[from] PduError),
    /// The reply is a correct PDU, but not one that answers the request.
    #[error("the reply does not answer the request")]
    Unexpected,
    /// The request is too large for the protocol.
    #[error("{0}")]
    Request(#[from] EncodeError),
    /// An earlier error closed the connection.
    #[error("the connection was given up after an earlier error; connect again")]
    Broken,
}

impl Connection {
    /// Connects and shakes hands. `timeout` bounds the connect and, later, each reply.
    ///
    /// # Errors
    /// [`ClientError::Pcp`] when the collector refuses this client.
    pub fn open(address: impl ToSocketAddrs, timeout: Duration) -> Result<Connection, ClientError> {
        let mut last = None;
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => return Connection::shake_hands(stream, timeout),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or(ClientError::Closed, ClientError::Io))
    }

    fn shake_hands(stream: TcpStream, timeout: Duration) -> Result<Connection, ClientError> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(timeout))?;
        let mut connection = Connection {
            stream,
            frames: FrameReader::new(MAX_REPLY),
            input: BytesMut::new(),
            output: BytesMut::new(),
            timeout,
            features: Features(0),
            profile_sent: false,
            broken: false,
            changes: StateChange(0),
        };
        let Pdu::Error(greeting) = connection.receive()? else { return Err(ClientError::Unexpected) };
        let Challenge { features, .. } = greeting.as_greeting()?;
        connection.features = features;
        connection.send(&Pdu::Creds(Creds::version(CredFlags(0))), std::process::id() as i32)?;
        Ok(connection)
    }

    /// Identifiers of metrics by their names; `None` for names that are not there.
    ///
    /// # Errors
    /// Besides those of the connection, the collector's error where there is only one name.
    pub fn lookup_names(&mut self, names: &[&str]) -> Result<Vec<Option<Pmid>>, ClientError> {
        let request = PmnsNames::Plain(names.iter().map(|&name| ByteStr::from(name)).collect());
        match self.ask(&Pdu::PmnsNames(request))? {
            Pdu::PmnsIds(PmnsIds { ids, .. }) if ids.len() == names.len() => {
                Ok(ids.into_iter().map(|id| (id != Pmid::NULL).then_some(id)).collect())
            }
            _ => self.give_up(),
        }
    }

    /// All names of a metric.
    ///
    /// # Errors
    /// Those of the connection and the collector.
    pub fn names_of(&mut self, pmid: Pmid) -> Result<Vec<String>, ClientError> {
        match self.ask(&Pdu::PmnsIds(PmnsIds { status: 0, ids: vec![pmid] }))? {
            Pdu::PmnsNames(PmnsNames::Plain(names)) => {
                Ok(names.iter().map(|name| name.to_str_lossy().into_owned()).collect())
            }
            Pdu::PmnsNames(PmnsNames::Failed(error)) => Err(error.into()),
            _ => self.give_up(),
        }
    }

    /// The descriptor of a metric.
    ///
    /// # Errors
    /// Those of the connection and the collector.
    pub fn desc(&mut self, pmid: Pmid) -> Result<Desc, ClientError> {
        match self.ask(&Pdu::DescReq(pmid))? {
            Pdu::Desc(desc) => Ok(desc),
            _ => self.give_up(),
        }
    }

    /// The instances of an instance domain.
    ///
    /// # Errors
    /// Those of the connection and the collector.
    pub fn instances(&mut self, indom: InDom) -> Result<Vec<Instance>, ClientError> {
        match self.ask(&Pdu::InstanceReq(InstanceReq {
            indom,
            inst: PM_IN_NULL,
            name: ByteStr::default(),
        }))? {
            Pdu::Instance(list) => Ok(list
                .instances
                .into_iter()
                .map(|entry| Instance { id: entry.inst, name: entry.name.to_str_lossy().into_owned() })
                .collect()),
            _ => self.give_up(),
        }
    }

    /// Values of metrics, one value set for each in the same order. Notices of changes are gathered in
    /// [`Connection::changes`].
    ///
    /// # Errors
    /// Those of the connection and the collector; a metric's own error is in its value set.
    pub fn fetch(&mut self, pmids: &[Pmid]) -> Result<ResultPdu, ClientError> {
        if !self.profile_sent {
            let everything = ProfilePdu { ctxid: CONTEXT, profile: Profile::default() };
            self.send(&Pdu::Profile(everything), CONTEXT)?;
            self.profile_sent = true;
        }
        let fetch = Fetch { ctxid: CONTEXT, pmids: pmids.to_vec() };
        let request = match self.features.contains(Features::HIGHRES) {
            true => Pdu::HighResFetch(fetch),
            false => Pdu::Fetch(fetch),
        };
        self.send(&request, CONTEXT)?;
        loop {
            match self.receive()? {
                Pdu::Error(change) if change.code > 0 => {
                    self.changes = self.changes.union(StateChange(change.code as u32));
                }
                Pdu::Error(error) => match error.error() {
                    Some(error) => return Err(error.into()),
                    None => return self.give_up(),
                },
                Pdu::Result(result) | Pdu::HighResResult(result) if result.sets.len() == pmids.len() => {
                    return Ok(result);
                }
                _ => return self.give_up(),
            }
        }
    }

    /// Sends a request and gives its reply; an ERROR reply is an error.
    fn ask(&mut self, request: &Pdu) -> Result<Pdu, ClientError> {
        self.send(request, CONTEXT)?;
        match self.receive()? {
            Pdu::Error(error) => match error.error() {
                Some(error) => Err(error.into()),
                None => self.give_up(),
            },
            reply => Ok(reply),
        }
    }

    fn send(&mut self, pdu: &Pdu, from: i32) -> Result<(), ClientError> {
        if self.broken {
            return Err(ClientError::Broken);
        }
        self.output.clear();
        pdu.encode(from, &mut self.output)?;
        self.stream.write_all(&self.output).map_err(|error| {
            self.broken = true;
            ClientError::Io(error)
        })
    }

    fn receive(&mut self) -> Result<Pdu, ClientError> {
        if self.broken {
            return Err(ClientError::Broken);
        }
        let result = self.receive_frame().and_then(|frame| Ok(Pdu::decode(&frame)?));
        self.broken = result.is_err();
        result
    }

    fn receive_frame(&mut self) -> Result<Frame, ClientError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(frame) = self.frames.next(&mut self.input)? {
                return Ok(frame);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ClientError::Timeout(self.timeout));
            }
            self.stream.set_read_timeout(Some(left))?;
            let filled = self.input.len();
            self.input.resize(filled + READ_SIZE, 0);
            let read = self.stream.read(&mut self.input[filled..]);
            self.input.truncate(filled + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(ClientError::Closed),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    std::io::ErrorKind::Interrupted => {}
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                        return Err(ClientError::Timeout(self.timeout));
                    }
                    _ => return Err(error.into()),
                },
            }
        }
    }

    /// The peer does not keep to the protocol: nothing it says from here on can be trusted.
    fn give_up<T>(&mut self) -> Result<T, ClientError> {
        self.broken = true;
        Err(ClientError::Unexpected)
    }
}

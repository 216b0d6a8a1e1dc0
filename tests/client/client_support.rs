//! Servers of a test's own on real sockets: they relay to a real collector with changes, or play a script.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use jumpseat::client::{ClientError, Context, Fetched, HostOptions};
use jumpseat::model::{PmError, Pmid, Value, ValueType};
use jumpseat::pdu::{ErrorPdu, Features, Pdu};

/// A listening port of this machine. Each connection is served in a thread of its own.
pub(crate) struct Peer {
    pub address: SocketAddr,
}

impl Peer {
    /// `serve` gets each connection with its number, from 0.
    pub(crate) fn start(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let _ = stream.set_nodelay(true);
                let serve = serve.clone();
                std::thread::spawn(move || serve(number, stream));
            }
        });
        Peer { address }
    }

    /// Between clients and the collector on `port`, whose greeting passes through `change`.
    pub(crate) fn relay(port: u16, change: impl Fn(&mut [u8; 20]) + Send + Sync + 'static) -> Peer {
        Peer::start(move |_, mut client| {
            let mut server = TcpStream::connect(("127.0.0.1", port)).expect("the collector listens");
            let mut greeting = [0; 20];
            server.read_exact(&mut greeting).expect("a greeting");
            change(&mut greeting);
            client.write_all(&greeting).expect("a client");
            let (mut from, mut to) =
                (client.try_clone().expect("a socket"), server.try_clone().expect("one"));
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            let _ = std::io::copy(&mut server, &mut client);
            let _ = client.shutdown(Shutdown::Both);
        })
    }

    pub(crate) fn spec(&self) -> String {
        self.address.to_string()
    }
}

/// Reads one PDU, header included; `None` at the end.
pub(crate) fn read_pdu(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut pdu = vec![0; 12];
    stream.read_exact(&mut pdu).ok()?;
    let len = u32::from_be_bytes(pdu[..4].try_into().expect("four bytes")) as usize;
    pdu.resize(len, 0);
    stream.read_exact(&mut pdu[12..]).ok()?;
    Some(pdu)
}

/// The type of a PDU.
pub(crate) fn kind(pdu: &[u8]) -> u32 {
    u32::from_be_bytes(pdu[4..8].try_into().expect("a header"))
}

pub(crate) fn bytes(pdu: &Pdu) -> Vec<u8> {
    pdu.to_bytes(0).expect("a PDU that can be sent").to_vec()
}

/// Shakes hands with a client as pmcd does.
pub(crate) fn greet(stream: &mut TcpStream) {
    let features = Features::HIGHRES.union(Features::DESCS).union(Features::LABELS);
    let greeting = bytes(&Pdu::Error(ErrorPdu::greeting(features)));
    let _ = stream.write_all(&greeting);
    let _ = read_pdu(stream);
}

/// HostOptions that wait long enough for a busy machine, and never refuse to connect again.
pub(crate) fn patient() -> HostOptions {
    let patience = Some(Duration::from_secs(60));
    HostOptions {
        connect_timeout: patience,
        request_timeout: patience,
        reconnect_delays: Vec::new(),
        ..HostOptions::default()
    }
}

/// As [`patient`], with little patience for answers.
pub(crate) fn hasty() -> HostOptions {
    HostOptions { request_timeout: Some(Duration::from_millis(300)), ..patient() }
}

/// A connection of somebody hasty, however long a busy machine takes until one is had in time.
pub(crate) fn hasty_host(spec: &str) -> Context {
    support::eventually("a connection in time", || host(spec, &hasty()).ok())
}

pub(crate) fn host(spec: &str, options: &HostOptions) -> Result<Context, ClientError> {
    Context::host_with(&spec.parse().expect("a host specification"), options)
}

pub(crate) fn code<T>(result: Result<T, ClientError>) -> PmError {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.code(),
    }
}

/// The one value of a 32-bit metric.
pub(crate) fn fetch_i32(context: &mut Context, pmid: Pmid) -> Result<i32, ClientError> {
    let mut fetched = Fetched::new();
    context.fetch(&[pmid], &mut fetched)?;
    let (_, value) = fetched.set(0).expect("a set").values?.get(0).expect("a value");
    match value.to_value(ValueType::I32)? {
        Value::I32(value) => Ok(value),
        other => panic!("{other:?}"),
    }
}

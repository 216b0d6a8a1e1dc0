//! Calls of OTLP over gRPC, on a connection that lives for many: our framing of messages in the body of a call. The
//! first byte says which call, how it is compressed, and how its bytes are cut into frames of HTTP/2.
#![no_main]

mod otlp_port;

use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use otlp_port::{Port, Protocol};

/// Frames of HTTP/2 (RFC 9113, 6), and their flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Calls on one connection.
const CALLS: u32 = 5_000;

struct Client {
    port: Port,
    stream: Option<TcpStream>,
    calls: u32,
}

thread_local! {
    static CLIENT: RefCell<Client> =
        RefCell::new(Client { port: Port::open(Protocol::Grpc), stream: None, calls: 0 });
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, body)) = data.split_first() else { return };
    CLIENT.with_borrow_mut(|client| {
        if client.calls == CALLS {
            client.stream = None;
        }
        if client.stream.is_none() {
            client.stream = client.port.connect().and_then(|stream| greet(stream).ok());
            client.calls = 0;
        }
        let Some(stream) = &mut client.stream else { return };
        let id = 2 * client.calls + 1;
        client.calls += 1;
        match call(stream, id, *first, body) {
            Ok(true) => {}
            Ok(false) => client.stream = None,
            Err(error) => {
                let waited = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind());
                assert!(!waited, "a call without an answer");
                client.stream = None;
            }
        }
        client.port.drain();
    });
});

fn greet(mut stream: TcpStream) -> io::Result<TcpStream> {
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut hello, SETTINGS, 0, 0, &[]);
    // Answers to all calls fit.
    frame(&mut hello, WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    stream.write_all(&hello)?;
    Ok(stream)
}

/// Makes a call and reads to its end. False: the server ends the connection.
fn call(stream: &mut TcpStream, id: u32, first: u8, body: &[u8]) -> io::Result<bool> {
    let path = match first & 3 {
        0 | 1 => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        2 => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        _ => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    };
    // POST and http, from HPACK's static table; the rest as literals that enter no table.
    let mut head = vec![0x83, 0x86];
    let encoding = ["identity", "gzip", "deflate", "zstd"][usize::from(first >> 2 & 3)];
    for (name, value) in [
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-encoding", encoding),
    ] {
        head.push(0);
        for text in [name, value] {
            head.push(text.len() as u8);
            head.extend_from_slice(text.as_bytes());
        }
    }
    let mut bytes = Vec::new();
    frame(&mut bytes, HEADERS, END_HEADERS, id, &head);
    // A message with a right head, or whatever comes.
    let sound = [&[u8::from(first & 4 != 0)], &(body.len() as u32).to_be_bytes()[..], body].concat();
    let body = if first & 128 == 0 { &sound } else { body };
    let cut = [1 << 14, 4, 5, 64][usize::from(first >> 4 & 3)];
    for piece in body.chunks(cut).take(1000) {
        frame(&mut bytes, DATA, 0, id, piece);
    }
    frame(&mut bytes, DATA, END_STREAM, id, &[]);
    stream.write_all(&bytes)?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        io::copy(&mut io::Read::by_ref(stream).take(len.into()), &mut io::sink())?;
        let ours = head[5..] == id.to_be_bytes();
        match head[3] {
            GOAWAY => return Ok(false),
            RST_STREAM if ours => return Ok(true),
            HEADERS | DATA if ours && head[4] & END_STREAM != 0 => return Ok(true),
            _ => {}
        }
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, id: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(payload);
}

//! A connection of OTLP over HTTP, through hyper to the handler and the decoder. The first byte says what is done to the
//! rest: all of it as it is, or a body under one of some heads. There is an answer, or the end of the connection.
#![no_main]

mod otlp_port;

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use otlp_port::{Port, Protocol};

thread_local! {
    static PORT: Port = Port::open(Protocol::Http);
}

const HEADS: [&str; 4] = [
    "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n",
    "POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json; charset=utf-8\r\n",
    "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: gzip\r\n",
    "POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: deflate\r\n",
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let head = |number: u8| HEADS[usize::from(number) % HEADS.len()].as_bytes();
    let request = match first % 16 {
        0..8 => rest.to_vec(),
        // The rest goes on with the head, and then the body as it wants.
        number @ 8..12 => [head(number), rest].concat(),
        number => [head(number), format!("Content-Length: {}\r\n\r\n", rest.len()).as_bytes(), rest].concat(),
    };
    PORT.with(|port| {
        let Some(mut stream) = port.connect() else { return };
        // It may have had enough before the end.
        let _ = stream.write_all(&request);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.")),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "no answer: {error}"),
        }
        port.drain();
    });
});

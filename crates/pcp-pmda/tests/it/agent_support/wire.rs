//! A client's side of the protocol, word by word.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Connects and introduces itself as a client does; with what the server said first.
pub(crate) fn hello(host: &str) -> (TcpStream, [u8; 20]) {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut challenge = [0; 20];
    stream.read_exact(&mut challenge).unwrap();
    stream.write_all(&words(&[20, 0x700c, 1, 1, 0x0102_0000])).unwrap();
    (stream, challenge)
}

/// The bytes of a PDU.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The next PDU from the server.
pub(crate) fn answer(stream: &mut TcpStream) -> Vec<u8> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).unwrap();
    let mut rest = vec![0; u32::from_be_bytes(len) as usize - 4];
    stream.read_exact(&mut rest).unwrap();
    [&len[..], &rest].concat()
}

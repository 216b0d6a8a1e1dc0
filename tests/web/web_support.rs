//! A running `jumpseat web`, and a client of it.
#![allow(dead_code, reason = "each area uses a part of it")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;
use support::{PcpEnv, Process, eventually, free_port};

/// The program.
pub(crate) const JUMPSEAT_WEB: &str = env!("CARGO_BIN_EXE_jumpseat-web");

/// `jumpseat web`, running.
pub(crate) struct Web {
    pub process: Process,
    pub port: u16,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Web {
    /// Starts it at a free port, and waits until it listens.
    #[track_caller]
    pub(crate) fn start(dir: &Path, words: &[&str]) -> Web {
        Web::start_in(&PcpEnv::new(), dir, words)
    }

    /// The same in an environment.
    #[track_caller]
    pub(crate) fn start_in(env: &PcpEnv, dir: &Path, words: &[&str]) -> Web {
        let port = free_port();
        let mut command = env.command(JUMPSEAT_WEB);
        command
            .args(["--listen", &format!("127.0.0.1:{port}"), "--cache"])
            .arg(dir.join("cache"))
            .args(words);
        let process = Process::start(&mut command, dir, "web");
        eventually("it listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        Web { process, port }
    }

    /// GET of a path, which is sent as it is.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    /// GET of a path whose answer is JSON with status 200.
    #[track_caller]
    pub(crate) fn json(&self, path: &str) -> Json {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// Any request, on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: localhost:{}\r\n", self.port));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
        stream.write_all(&[head.as_bytes(), body].concat()).expect("it reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("it answers");
        Answer::parse(&bytes)
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn parse(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8_lossy(&bytes[..end]);
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut body = bytes[end + 4..].to_vec();
        if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
            body = unchunked(&body);
        }
        Answer { status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// A body without its chunks' lengths.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let len = usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).expect("a length");
        if len == 0 {
            break;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + len]);
        rest = &rest[end + 4 + len..];
    }
    body
}

//! A server of HTTP that runs, and clients whose connections stay open.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use jumpseat::client::Context;
use jumpseat::pdu::Fetched;
use support::{PcpEnv, Process, eventually, free_port};

/// A running `jumpseat web`, or pmproxy.
pub(crate) struct Server {
    process: Process,
    port: u16,
}

/// Where a server listens that does nothing but what each has to: it asks pmcd, waiting for it, and answers bytes that it is given. Its
/// threads end with the process.
pub(crate) struct Bare(u16);

impl Bare {
    /// A connection.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.0)
    }
}

fn serve_bare(stream: TcpStream, host: &str, names: &[String], answer: &str) -> std::io::Result<()> {
    let mut context = Context::host(host).expect("pmcd runs");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pmids = context.lookup_names(&names).expect("pmcd answers");
    let pmids: Vec<_> = pmids.into_iter().flatten().collect();
    assert_eq!(pmids.len(), names.len());
    let mut fetched = Fetched::new();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line)? > 0 {
        // The empty line behind the head.
        if line == "\r\n" {
            context.fetch(&pmids, &mut fetched).expect("pmcd answers");
            stream.get_mut().write_all(answer.as_bytes())?;
        }
        line.clear();
    }
    Ok(())
}

impl Server {
    /// `jumpseat web` with further arguments.
    pub(crate) fn start(env: &PcpEnv, dir: &Path, arguments: &[&str]) -> Server {
        let port = free_port();
        let mut command = env.command(env!("CARGO_BIN_EXE_jumpseat-web"));
        command
            .args(["--listen", &format!("127.0.0.1:{port}"), "--cache"])
            .arg(dir.join("cache"))
            .args(arguments);
        Server::listening(Process::start(&mut command, dir, "web"), port)
    }

    /// A pmproxy without a key server.
    pub(crate) fn pmproxy(env: &PcpEnv, dir: &Path) -> Server {
        let (port, conf) = (free_port(), dir.join("pmproxy.conf"));
        let text = "[pmproxy]\npcp.enabled = true\nhttp.enabled = true\nredis.enabled = false\nsecure.enabled = false\n\
                    [discover]\nenabled = false\n[pmseries]\nenabled = false\n[pmsearch]\nenabled = false\n";
        std::fs::write(&conf, text).expect("the directory is ours");
        let mut command = env.command("/usr/lib/pcp/bin/pmproxy");
        command.arg("-f").arg("-A").arg("-t").arg("-c").arg(&conf).arg("-s").arg(dir.join("pmproxy.socket"));
        command
            .arg("-l")
            .arg(dir.join("pmproxy.log"))
            .arg("-i")
            .arg("127.0.0.1")
            .arg("-p")
            .arg(port.to_string());
        Server::listening(Process::start(&mut command, dir, "pmproxy"), port)
    }

    /// A server of which nothing can be left out: what any other takes longer is its own.
    pub(crate) fn bare(host: &str, names: &[&str], answer: &str) -> Bare {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("it listens").port();
        let (host, answer) = (host.to_owned(), answer.to_owned());
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_nodelay(true).expect("it is TCP");
                let (host, names, answer) = (host.clone(), names.clone(), answer.clone());
                std::thread::spawn(move || serve_bare(stream, &host, &names, &answer));
            }
        });
        Bare(port)
    }

    fn listening(process: Process, port: u16) -> Server {
        eventually("it listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        Server { process, port }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// A connection.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.port)
    }
}

/// A client.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_nodelay(true).expect("it is TCP");
        Client(BufReader::new(stream))
    }

    /// The body of an answer.
    pub(crate) fn get(&mut self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).expect("it reads");
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let line = self.line().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            is_chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = Vec::new();
        if !is_chunked {
            self.take(length, &mut body);
        }
        while is_chunked {
            let length = usize::from_str_radix(self.line().trim(), 16).expect("a length");
            self.take(length, &mut body);
            self.line();
            is_chunked = length > 0;
        }
        String::from_utf8(body).expect("it is text")
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).expect("it answers"), 0, "it has hung up");
        line
    }

    fn take(&mut self, length: usize, body: &mut Vec<u8>) {
        let from = body.len();
        body.resize(from + length, 0);
        self.0.read_exact(&mut body[from..]).expect("it answers");
    }
}

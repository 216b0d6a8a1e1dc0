//! The agent as users run it: `jumpseat serve` of this build, fed over its sockets.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::clock;

/// An agent that runs until this is dropped.
pub(crate) struct Served {
    child: Child,
    /// Its ingest socket.
    pub socket: PathBuf,
    /// Where it answers PCP clients.
    pub address: SocketAddr,
    /// How long it took until it listened.
    pub took: Duration,
    output: BufReader<ChildStdout>,
}

impl Served {
    /// Starts it in a directory, with `config` behind the lines for its state directory and its socket.
    pub(crate) fn start(program: &str, dir: &Path, config: &str) -> Served {
        Served::start_with(program, dir, config, &[])
    }

    /// The same with further arguments.
    pub(crate) fn start_with(program: &str, dir: &Path, config: &str, arguments: &[String]) -> Served {
        let (file, socket) = (dir.join("config"), dir.join("socket"));
        let text =
            format!("state_dir = {dir:?}\n[[socket]]\npath = {socket:?}\npatience_ms = 1000\n{config}\n");
        fs::write(&file, text).expect("the directory is ours");
        let begin = Instant::now();
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program is built");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let nobody = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut served = Served { child, socket, address: nobody, took: Duration::ZERO, output };
        served.address = served.told("PCP clients");
        served.took = begin.elapsed();
        served
    }

    /// The address in the next line that begins so.
    pub(crate) fn told(&mut self, what: &str) -> SocketAddr {
        let mut line = String::new();
        while !line.starts_with(what) {
            line.clear();
            assert_ne!(
                self.output.read_line(&mut line).expect("it is text"),
                0,
                "it does not tell of {what}"
            );
        }
        let words = line.split_whitespace().map(|word| word.strip_prefix("http://").unwrap_or(word));
        words.filter_map(|word| word.parse().ok()).next_back().unwrap_or_else(|| panic!("no address: {line}"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The processor time of all its threads so far.
    pub(crate) fn cpu(&self) -> Duration {
        clock::process_cpu(self.pid())
    }

    /// Waits until all its threads are done with what it was sent, those that write new names to the disk as well: until it takes
    /// next to no processor time.
    pub(crate) fn settle(&self) {
        const STEP: Duration = Duration::from_millis(100);
        let mut before = self.cpu();
        for _ in 0..50 {
            std::thread::sleep(STEP);
            let now = self.cpu();
            if now - before < STEP / 1000 {
                return;
            }
            before = now;
        }
        panic!("it is never done");
    }

    /// Sends all of this over a connection, and waits for the summary: that it has taken in `events` of them and lost none.
    pub(crate) fn feed(&self, data: &[u8], events: u64) {
        let mut stream = UnixStream::connect(&self.socket).expect("it listens");
        stream.write_all(data).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("half closed");
        let mut summary = Vec::new();
        stream.read_to_end(&mut summary).expect("it answers");
        let text = String::from_utf8_lossy(&summary);
        assert!(text.contains(&format!("\"accepted\":{events},")) && text.contains("\"missed\":0"), "{text}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

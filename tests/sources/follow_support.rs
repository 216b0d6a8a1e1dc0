//! The agent with files and commands to follow, and what it says of them through PCP's own tools.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::seat::{Endpoint, Seat};
use support::{PcpEnv, Record, eventually, records, temp_dir};

/// An agent in a directory of its own.
pub(crate) struct Agent {
    dir: TempDir,
    seat: Seat,
    env: PcpEnv,
    running: Option<Endpoint>,
}

impl Agent {
    /// Configured with `settings`, in which DIR stands for the directory; not started.
    #[track_caller]
    pub(crate) fn new(settings: &str) -> Agent {
        let dir = temp_dir();
        let settings = settings.replace("DIR", &dir.path().display().to_string());
        let settings = format!("[events]\nrecent = 1000\n{settings}");
        Agent { seat: Seat::in_dir(dir.path(), &settings), dir, env: PcpEnv::new(), running: None }
    }

    /// The same, started.
    #[track_caller]
    pub(crate) fn started(settings: &str) -> Agent {
        let mut agent = Agent::new(settings);
        agent.start();
        agent
    }

    /// A variable of the agent's environment.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.set(name, value);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    #[track_caller]
    pub(crate) fn start(&mut self) {
        self.running = Some(self.seat.serve_in(&self.env, []));
    }

    /// Ends it in good order.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        let mut endpoint = self.running.take().expect("it runs");
        assert!(endpoint.process.stop().success(), "{}", endpoint.process.text());
    }

    /// Kills it.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.running.take().expect("it runs").process.crash();
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.running.as_ref().expect("it runs")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.endpoint().process.pid()
    }

    /// What it wrote, its log included.
    pub(crate) fn text(&self) -> String {
        self.running.as_ref().map_or_else(String::new, |endpoint| endpoint.process.text())
    }

    /// Appends bytes to a file, in one write.
    #[track_caller]
    pub(crate) fn append(&self, name: &str, bytes: impl AsRef<[u8]>) {
        append(&self.path(name), bytes);
    }

    /// The value of a metric, of an instance of it or of the only one.
    #[track_caller]
    pub(crate) fn value(&self, metric: &str, instance: Option<&str>) -> Option<String> {
        let text = self.endpoint().run("pminfo", ["-f", metric]).ok();
        let of = instance.map(|name| format!(" or \"{name}\"]"));
        let line = text.lines().map(str::trim).find(|line| match &of {
            Some(of) => line.contains(of.as_str()),
            None => line.starts_with("value "),
        })?;
        Some(line.rsplit_once("value ")?.1.trim_matches('"').to_owned())
    }

    /// A number of a metric of sources; 0 as long as there is none.
    #[track_caller]
    pub(crate) fn number(&self, metric: &str, source: &str) -> u64 {
        self.value(metric, Some(source)).map_or(0, |text| text.parse().expect("a number"))
    }

    /// A metric without instances.
    #[track_caller]
    pub(crate) fn total(&self, metric: &str) -> u64 {
        self.value(metric, None).map_or(0, |text| text.parse().expect("a number"))
    }

    /// Waits until so many lines of a source have come.
    #[track_caller]
    pub(crate) fn wait_received(&self, source: &str, lines: u64) {
        eventually(&format!("{lines} lines of {source}; {}", self.text()), || {
            (self.number("jumpseat.source.received", source) >= lines).then_some(())
        });
    }

    /// Waits for a state of a source.
    #[track_caller]
    pub(crate) fn wait_state(&self, source: &str, state: &str) {
        eventually(&format!("{source} to be {state}"), || {
            (self.value("jumpseat.self.follow.state", Some(source)).as_deref() == Some(state)).then_some(())
        });
    }

    /// The newest records of a source, oldest first.
    #[track_caller]
    pub(crate) fn recent(&self, source: &str) -> Vec<Record> {
        let text = self.endpoint().run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
        records(&text).into_iter().filter(|record| record.instance == source).collect()
    }

    /// Their messages.
    #[track_caller]
    pub(crate) fn messages(&self, source: &str) -> Vec<String> {
        let message = |record: &Record| record.get("jumpseat.field.message").unwrap_or_default().to_owned();
        self.recent(source).iter().map(message).collect()
    }

    /// The messages of all records of a source that are in the log on disk, which need not run for that.
    #[track_caller]
    pub(crate) fn on_disk(&self, source: &str) -> Vec<String> {
        let records = self.seat.on_disk(source);
        records.iter().map(|record| record["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until the messages of a source are these.
    #[track_caller]
    pub(crate) fn wait_messages(&self, source: &str, expected: &[&str]) {
        self.wait_received(source, expected.len() as u64);
        assert_eq!(self.messages(source), expected);
    }
}

#[track_caller]
pub(crate) fn append(path: &Path, bytes: impl AsRef<[u8]>) {
    let mut file =
        OpenOptions::new().create(true).append(true).open(path).expect("the test's directory is writable");
    file.write_all(bytes.as_ref()).expect("writable");
}

/// Lines `first..last`, each its number.
pub(crate) fn numbers(range: std::ops::Range<u64>) -> String {
    range.map(|n| format!("{n}\n")).collect()
}

/// Moves a file.
#[track_caller]
pub(crate) fn rename(from: &Path, to: &Path) {
    fs::rename(from, to).expect("the test's directory is writable");
}

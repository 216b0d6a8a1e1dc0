//! Programs with the layer for `tracing` that are killed: what they had traced is not lost.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::layer::{Client, Record, sums};
use crate::seat::{Endpoint, Seat};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use support::random::Random;
use support::{eventually, temp_dir};
use tracing_subscriber::prelude::*;

const THREADS: u64 = 4;
/// Where the program sends, and where it says how far it is.
const SOCKET: &str = "JUMPSEAT_TEST_SOCKET";
const PROGRESS: &str = "JUMPSEAT_TEST_PROGRESS";

/// Not a test: the program that is killed. Each thread traces numbers from 1 on, and says of each that it was traced.
#[test]
#[ignore = "the program of the tests beside it"]
fn program() {
    let (Some(socket), Some(progress)) = (std::env::var_os(SOCKET), std::env::var_os(PROGRESS)) else {
        return;
    };
    let progress = File::options().write(true).open(progress).expect("the test has made it");
    let layer = jumpseat::layer().source("killed").socket(socket).buffer(4 << 20);
    let guard = layer.guard();
    tracing_subscriber::registry().with(layer).init();
    // There is a connection from here on: before, nobody knows the rings but the program.
    assert!(guard.flush(Duration::from_secs(30)));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let progress = &progress;
            scope.spawn(move || {
                for number in 1_u64.. {
                    tracing::info!(thread, number);
                    progress.write_all_at(&number.to_ne_bytes(), thread * 8).expect("there is room");
                }
            });
        }
    });
}

/// A program of a test, which ends with it.
struct Program(Child);

impl Program {
    fn kill(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it was killed");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended, or its test fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &str, socket: &Path, progress: &Path) -> Program {
    fs::write(progress, [0; 8 * THREADS as usize]).expect("a file of the test's own");
    let program = Command::new(std::env::current_exe().expect("a test is a program"))
        .args(["--exact", program, "--ignored", "--nocapture"])
        .env(SOCKET, socket)
        .env(PROGRESS, progress)
        .stdout(Stdio::null())
        .spawn();
    Program(program.expect("the test's own program"))
}

/// How far each thread is.
fn progress(file: &Path) -> Vec<u64> {
    let bytes = fs::read(file).expect("it is there");
    bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect()
}

/// The numbers of each thread, in the order in which they came.
fn numbers(records: &[Record]) -> BTreeMap<u64, Vec<u64>> {
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let number = |text: &str| text.strip_prefix("U64(")?.strip_suffix(')')?.parse().ok();
    for record in records {
        let get = |name: &str| record.params.get(name).and_then(|text| number(text));
        if let (Some(thread), Some(number)) = (get("thread"), get("number")) {
            found.entry(thread).or_default().push(number);
        }
    }
    found
}

#[test]
fn all_that_a_killed_program_had_traced_comes_once() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let agent = seat.serve([]);
    let file = dir.path().join("progress");
    for round in 0..25_u64 {
        let mut client = Client::join(&agent);
        let mut child = start("killed::program", seat.socket().as_ref(), &file);
        // At moments that have nothing to do with what the sender is doing.
        let enough = 1 + round * 97;
        eventually("events", || (progress(&file).iter().sum::<u64>() >= enough).then_some(()));
        child.kill();
        let traced = progress(&file);
        let all: u64 = traced.iter().sum();
        client.until(|records| {
            let (came, missed) = sums(records);
            came as u64 + missed as u64 >= all
        });
        // Whatever else comes: a repeat would.
        client.settle();
        let (came, missed) = sums(&client.records);
        let found = numbers(&client.records);
        for (thread, numbers) in &found {
            assert!(numbers.is_sorted_by(|a, b| a < b), "round {round}, thread {thread}: {numbers:?}");
        }
        // One message of each thread may be written without the thread having said so.
        let most = all + THREADS;
        assert!(
            (all..=most).contains(&(came as u64 + missed as u64)),
            "round {round}: {came}, {missed}: {traced:?}"
        );
        if missed == 0 {
            for (thread, traced) in traced.iter().enumerate() {
                let found = found.get(&(thread as u64)).map_or(0, |numbers| numbers.len() as u64);
                assert!(found >= *traced, "round {round}, thread {thread}: {found} of {traced}");
            }
        }
    }
}

/// Not a test: a program that lives longer than several agents, and ends well. Each thread traces numbers from 1 on.
#[test]
#[ignore = "the program of the tests beside it"]
fn steady_program() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let layer = jumpseat::layer().source("killed").socket(socket).buffer(4 << 20);
    let guard = layer.guard();
    tracing_subscriber::registry().with(layer).init();
    assert!(guard.flush(Duration::from_secs(30)));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let progress = std::env::var_os(PROGRESS).map(|path| File::options().write(true).open(path));
                for number in 1..=STEADY {
                    tracing::info!(thread, number);
                    if let Some(Ok(progress)) = &progress {
                        progress.write_all_at(&number.to_ne_bytes(), thread * 8).expect("there is room");
                    }
                    if number % 20 == 0 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
            });
        }
    });
    // It does not wait for an agent that is not there, and this one may have died a moment ago.
    std::thread::sleep(Duration::from_millis(2500));
    assert!(guard.flush(Duration::from_secs(30)));
}

/// How far each thread of that program goes.
const STEADY: u64 = 10_000;

/// The numbers of each thread on disk, in their order.
fn on_disk(seat: &Seat) -> BTreeMap<u64, Vec<u64>> {
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for record in seat.on_disk("killed") {
        if let (Some(thread), Some(number)) = (record["thread"].as_u64(), record["number"].as_u64()) {
            found.entry(thread).or_default().push(number);
        }
    }
    found
}

#[test]
fn a_program_goes_on_with_the_next_agent_and_the_next() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let mut agent = seat.serve([]);
    let mut program = start("killed::steady_program", seat.socket().as_ref(), &dir.path().join("progress"));
    let mut random = Random::new(12, 42);
    for _ in 0..8 {
        std::thread::sleep(Duration::from_micros(random.below(120_000) as u64));
        agent.process.crash();
        agent = seat.serve([]);
    }
    assert!(program.0.wait().expect("it ends").success());
    let expected: Vec<u64> = (1..=STEADY).collect();
    for (thread, numbers) in on_disk(&seat) {
        assert!(numbers == expected, "thread {thread}: {} of {STEADY}", numbers.len());
    }
    assert_eq!(on_disk(&seat).len() as u64, THREADS);
    let missed = agent.run("pminfo", ["-f", "jumpseat.source.missed"]).ok();
    assert!(missed.contains("\"killed\"] value 0"), "{missed}");
}

#[test]
fn whoever_dies_first_what_was_traced_comes_once() {
    let mut random = Random::new(12, 43);
    for round in 0..5 {
        let dir = temp_dir();
        let seat = Seat::in_dir(dir.path(), "");
        let mut agent = seat.serve([]);
        let file = dir.path().join("progress");
        let mut child = start("killed::steady_program", seat.socket().as_ref(), &file);
        eventually("events", || (progress(&file).iter().sum::<u64>() > 10).then_some(()));
        for _ in 0..1 + random.below(2) {
            std::thread::sleep(Duration::from_micros(random.below(20_000) as u64));
            agent.process.crash();
            agent = seat.serve([]);
            // Before that only the program would know its rings.
            eventually("the program is back", || connected(&agent).then_some(()));
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000) as u64));
        child.kill();
        let traced = progress(&file);
        eventually("all that was traced", || {
            (of_program(&agent, "received") >= traced.iter().sum()).then_some(())
        });
        assert_eq!(of_program(&agent, "missed"), 0, "round {round}");
        let found = on_disk(&seat);
        for (thread, traced) in traced.iter().enumerate() {
            let numbers = found.get(&(thread as u64)).expect("it has traced");
            assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "round {round}, thread {thread}");
            assert!(numbers.len() as u64 >= *traced, "round {round}, thread {thread}");
        }
    }
}

/// Whether somebody sends to the agent.
fn connected(agent: &Endpoint) -> bool {
    agent.run("pminfo", ["-f", "jumpseat.self.connections.active"]).ok().contains("value 1")
}

/// A count of the program's source; 0 if there is none.
fn of_program(agent: &Endpoint, count: &str) -> u64 {
    let shown = agent.run("pminfo", ["-f", &format!("jumpseat.source.{count}")]).ok();
    let line = shown.lines().find_map(|line| line.split_once("\"killed\"] value ")?.1.parse().ok());
    line.unwrap_or(0)
}

/// Not a test: a program that forks, and is killed then. Only the parent's events are those of the layer.
#[test]
#[ignore = "the program of the tests beside it"]
fn forking_program() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let layer = jumpseat::layer().source("forked").socket(socket);
    let thread = 0_u64;
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        (1..=10_u64).for_each(|number| tracing::info!(thread, number));
        // SAFETY: the child uses memory that is its own, and no lock that another thread may hold.
        match unsafe { nix::unistd::fork() }.expect("a process") {
            nix::unistd::ForkResult::Child => {
                (0..100_000_u64).for_each(|number| tracing::info!(thread, number));
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("it ends here");
            }
            nix::unistd::ForkResult::Parent { child } => {
                while nix::sys::signal::kill(child, None).is_ok() && !has_ended(child.as_raw()) {
                    std::thread::yield_now();
                }
            }
        }
        (11..=20_u64).for_each(|number| tracing::info!(thread, number));
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("it ends here");
    });
}

/// Whether a child is a zombie.
fn has_ended(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn a_forked_process_leaves_the_rings_of_its_parent_alone() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let agent = seat.serve([]);
    let mut client = Client::join(&agent);
    let status = Command::new(std::env::current_exe().expect("a test is a program"))
        .args(["--exact", "killed::forking_program", "--ignored", "--nocapture"])
        .env(SOCKET, seat.socket())
        .stdout(Stdio::null())
        .status()
        .expect("the test's own program");
    assert!(!status.success(), "it was killed");
    client.until(|records| records.len() >= 20);
    client.settle();
    assert_eq!(numbers(&client.records), BTreeMap::from([(0, (1..=20).collect())]));
    assert_eq!(sums(&client.records), (20, 0));
}

/// What the agent says to a connection that passes this descriptor as that of its rings, and ends.
fn summary(seat: &Seat, descriptor: RawFd) -> String {
    let mut stream = UnixStream::connect(seat.socket()).expect("the agent listens");
    let mut frames = jumpseat::wire::HELLO.to_vec();
    jumpseat::wire::ring::chunk::put_rings(&mut frames, 1);
    let descriptors = [descriptor];
    let control = [ControlMessage::ScmRights(&descriptors)];
    let bytes = [IoSlice::new(&frames)];
    sendmsg::<()>(stream.as_raw_fd(), &bytes, &control, MsgFlags::empty(), None).expect("it is sent");
    stream.shutdown(Shutdown::Write).expect("it is connected");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the agent answers");
    String::from_utf8_lossy(&answer).into_owned()
}

/// A memfd with these bytes, as long as a file of rings, sealed or not.
fn memfd(bytes: &[u8], at: u64, seals: SealFlag) -> File {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create("test", flags).expect("there is memory"));
    file.set_len(70 << 20).expect("it is new");
    file.write_all_at(bytes, at).expect("there is room");
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).expect("it is allowed");
    file
}

#[test]
fn a_descriptor_that_is_no_file_of_rings_is_refused_with_why() {
    use jumpseat::wire::ring::{MAGIC, head};
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let _agent = seat.serve([]);
    let open = |path: &str| File::open(path).expect("it is there");
    let (pipe, _end) = nix::unistd::pipe().expect("descriptors");
    let plain = dir.path().join("plain");
    fs::write(&plain, [0; 4096]).expect("a file of the test's own");
    let check = |descriptor: &dyn AsRawFd, why: &str| {
        let answer = summary(&seat, descriptor.as_raw_fd());
        assert!(answer.contains("\"rejected\":1") && answer.contains(why), "{why}: {answer}");
    };
    check(&open("/dev/zero"), "this is no file");
    check(&open("/"), "this is no file");
    check(&pipe, "this is no file");
    check(&open(plain.to_str().expect("UTF-8")), "this is another file");
    let sealed = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
    check(&memfd(b"", 0, SealFlag::F_SEAL_GROW), "must be sealed");
    check(&memfd(b"garbage", 0, sealed), "does not begin as one");
    let with_chunks = |slots: u64, ring: u64, chunks: (u64, u64)| {
        let mut words = [u64::MAX; head::WORDS];
        (words[head::MAGIC], words[head::SLOTS], words[head::RING]) = (MAGIC, slots, ring);
        (words[head::LEFT], words[head::SENT_TOLD]) = (0, 0);
        (words[head::FIRST], words[head::NEXT]) = chunks;
        words.map(u64::to_ne_bytes).concat()
    };
    let head = |slots: u64, ring: u64| with_chunks(slots, ring, (0, 0));
    check(&memfd(&head(65, 4096), 0, sealed), "1 to 64 slots");
    check(&memfd(&head(1, 4097), 0, sealed), "1 to 64 slots");
    check(&memfd(&head(64, 1 << 50), 0, sealed), "1 to 64 slots");
    check(&memfd(&head(64, 8 << 20), 0, sealed), "cannot be read");
    for chunks in [(0, 17), (2, 1), (0, u64::MAX), (3, 4)] {
        check(&memfd(&with_chunks(2, 1 << 20, chunks), 0, sealed), "a table of chunks");
    }
    // Positions that no ring has, in a file that is sound otherwise.
    let sound = memfd(&head(2, 1 << 20), 0, sealed);
    sound.write_all_at(&u64::MAX.to_ne_bytes(), (64 << 10) + (256 << 10)).expect("not sealed against that");
    check(&sound, "positions of a ring");
    // Bytes that are no message.
    let sound = memfd(&head(2, 1 << 20), 0, sealed);
    sound.write_all_at(&800_u64.to_ne_bytes(), (64 << 10) + (256 << 10)).expect("not sealed against that");
    check(&sound, "no message");
    // None at all, and who sends as usual after all this.
    let mut stream = UnixStream::connect(seat.socket()).expect("the agent listens");
    stream.write_all(&[0xff, b'j', b's', 1, 0x10, 2, 2, 1]).expect("it reads");
    stream.shutdown(Shutdown::Write).expect("it is connected");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the agent answers");
    assert!(String::from_utf8_lossy(&answer).contains("needs a file descriptor"));
}

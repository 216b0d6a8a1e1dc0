//! Programs with the layer for `tracing` that are killed: what they had traced is not lost.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::layer::{Client, Record, sums};
use crate::seat::{Endpoint, Seat};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use support::random::Random;
use support::{eventually, example, temp_dir};

/// What `killed_program.rs` does: how many threads trace, and how far each goes where it ends by itself.
const THREADS: u64 = 4;
const STEADY: u64 = 10_000;

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

/// The program next to this file, doing one of the things that it can.
fn start(what: &str, socket: &Path, progress: &Path) -> Program {
    fs::write(progress, [0; 8 * THREADS as usize]).expect("a file of the test's own");
    let program =
        Command::new(example("jumpseat", "killed_program")).arg(what).args([socket, progress]).spawn();
    Program(program.expect("the tests' own program"))
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
        let mut child = start("for_ever", seat.socket().as_ref(), &file);
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
    let mut program = start("steadily", seat.socket().as_ref(), &dir.path().join("progress"));
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
        let mut child = start("steadily", seat.socket().as_ref(), &file);
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

#[test]
fn a_forked_process_leaves_the_rings_of_its_parent_alone() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let agent = seat.serve([]);
    let mut client = Client::join(&agent);
    let mut program = start("forks", seat.socket().as_ref(), &dir.path().join("progress"));
    let status = program.0.wait().expect("the tests' own program");
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32), "it ends so, and no way else");
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

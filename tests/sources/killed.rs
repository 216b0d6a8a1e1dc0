//! Programs with the layer for `tracing` that are killed: what they had traced is not lost.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::layer::{Client, Record, sums};
use crate::seat::Seat;
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
    let (Some(socket), Some(progress)) = (std::env::var_os(SOCKET), std::env::var_os(PROGRESS)) else { return };
    let progress = File::options().write(true).open(progress).expect("the test has made it");
    let layer = jumpseat::layer().source("killed").socket(socket).buffer(4 << 20);
    tracing_subscriber::registry().with(layer).init();
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

fn start(socket: &Path, progress: &Path) -> Child {
    fs::write(progress, [0; 8 * THREADS as usize]).expect("a file of the test's own");
    Command::new(std::env::current_exe().expect("a test is a program"))
        .args(["--exact", "killed::program", "--ignored", "--nocapture"])
        .env(SOCKET, socket)
        .env(PROGRESS, progress)
        .stdout(Stdio::null())
        .spawn()
        .expect("the test's own program")
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
        let mut child = start(seat.socket().as_ref(), &file);
        // At moments that have nothing to do with what the sender is doing.
        let enough = 1 + round * 97;
        eventually("events", || (progress(&file).iter().sum::<u64>() >= enough).then_some(()));
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
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
        assert!((all..=most).contains(&(came as u64 + missed as u64)), "round {round}: {came}, {missed}: {traced:?}");
        if missed == 0 {
            for (thread, traced) in traced.iter().enumerate() {
                let found = found.get(&(thread as u64)).map_or(0, |numbers| numbers.len() as u64);
                assert!(found >= *traced, "round {round}, thread {thread}: {found} of {traced}");
            }
        }
    }
}

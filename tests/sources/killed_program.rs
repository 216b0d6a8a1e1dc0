//! The program that the tests of `killed.rs` run and kill: `killed_program WHAT SOCKET PROGRESS`. Its threads trace numbers from 1 on.
//! PROGRESS is a file in which each thread has eight bytes, for the number that it has traced last.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use jumpseat::layer::Guard;
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::{ForkResult, fork};
use tracing_subscriber::prelude::*;

const THREADS: u64 = 4;
/// How far each thread of [`steadily`] goes.
const STEADY: u64 = 10_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, socket, progress] = arguments.as_slice() else {
        panic!("killed_program for_ever|steadily|forks SOCKET PROGRESS");
    };
    let progress = File::options().write(true).open(progress).expect("the test has made it");
    match what.as_str() {
        "for_ever" => {
            let _guard = connected(socket);
            in_threads(&progress, 1..=u64::MAX, |_| ());
        }
        "steadily" => steadily(socket, &progress),
        "forks" => forks(socket),
        _ => panic!("no {what}"),
    }
}

/// Traces to the agent, to which there is a connection from here on: before, nobody knows the rings but the program.
fn connected(socket: &str) -> Guard {
    let layer = jumpseat::layer().source("killed").socket(socket).buffer(4 << 20);
    let guard = layer.guard();
    tracing_subscriber::registry().with(layer).init();
    assert!(guard.flush(Duration::from_secs(30)));
    guard
}

/// Each thread traces the numbers, and says of each that it was traced.
fn in_threads(progress: &File, numbers: std::ops::RangeInclusive<u64>, then: fn(u64)) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let numbers = numbers.clone();
            scope.spawn(move || {
                for number in numbers {
                    tracing::info!(thread, number);
                    progress.write_all_at(&number.to_ne_bytes(), thread * 8).expect("there is room");
                    then(number);
                }
            });
        }
    });
}

/// Lives longer than several agents, and ends well.
fn steadily(socket: &str, progress: &File) {
    let guard = connected(socket);
    in_threads(progress, 1..=STEADY, |number| {
        if number.is_multiple_of(20) {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    // It does not wait for an agent that is not there, and this one may have died a moment ago.
    std::thread::sleep(Duration::from_millis(2500));
    assert!(guard.flush(Duration::from_secs(30)));
}

/// Forks, and kills itself then. Only the parent's events are those of the layer.
fn forks(socket: &str) {
    let layer = jumpseat::layer().source("forked").socket(socket);
    let thread = 0_u64;
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        (1..=10_u64).for_each(|number| tracing::info!(thread, number));
        // SAFETY: the child uses memory that is its own, and no lock that another thread may hold.
        match unsafe { fork() }.expect("a process") {
            ForkResult::Child => {
                (0..100_000_u64).for_each(|number| tracing::info!(thread, number));
                raise(Signal::SIGKILL).expect("it ends here");
            }
            ForkResult::Parent { child } => {
                while kill(child, None).is_ok() && !has_ended(child.as_raw()) {
                    std::thread::yield_now();
                }
            }
        }
        (11..=20_u64).for_each(|number| tracing::info!(thread, number));
        raise(Signal::SIGKILL).expect("it ends here");
    });
}

/// Whether a child is a zombie.
fn has_ended(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

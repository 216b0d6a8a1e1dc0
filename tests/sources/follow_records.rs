//! Records of several lines: stack traces through the real agent, however their files are rotated and the agent ends.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::follow_support::{Agent, append, rename};
use support::eventually;
use support::random::Random;

/// A trace of some lines, as a logger writes it.
fn trace(n: u64) -> String {
    let frames = (0..n % 7).map(|frame| format!("\tat com.example.C{n}.f(C.java:{frame})\n"));
    let cause = format!("java.lang.IllegalStateException: number {n}\n");
    format!("ERROR [main] trace {n}\n{cause}{}", frames.collect::<String>())
}

/// The messages of traces.
fn messages(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|n| trace(n).trim_end().to_owned()).collect()
}

/// Longer than any test runs: only what comes next ends a record.
const WAITING: &str = "[[file]]\npath = \"DIR/app.log\"\nfrom = \"beginning\"\nmultiline = { preset = \"java\", timeout_ms = 3600000 }\n";

#[test]
fn traces_are_one_record_in_files_and_commands_and_the_last_one_ends_by_time() {
    let text: String = (0..5).map(trace).collect();
    let agent = Agent::new(
        "[[file]]\npath = \"DIR/app.log\"\nfrom = \"beginning\"\nmultiline = \"java\"\n\
         [[file]]\npath = \"DIR/own.log\"\nfrom = \"beginning\"\nmultiline = { start = '^#', max_lines = 3, max_bytes = 300 }\n\
         [[file]]\npath = \"DIR/lines.json\"\nfrom = \"beginning\"\nformat = \"json\"\nmultiline = \"java\"\n\
         [[command]]\nrun = \"cat DIR/app.log; sleep 1000\"\nsource = \"shell\"\nmultiline = { preset = \"java\", timeout_ms = 100 }\n",
    );
    agent.append("app.log", &text);
    agent.append(
        "own.log",
        format!("# one\r\n two\r\n\n# three\n4\n5\n6\n7\n# eight\n{}\n# nine\n", "x".repeat(400)),
    );
    agent.append(
        "lines.json",
        "{\"level\":\"error\",\"message\":\"a\\nb\",\"n\":1}\njava.lang.Error: x\n\tat y\n{\"n\":2}\n\tat z\n",
    );
    let mut agent = agent;
    agent.start();
    agent.wait_received("app", 5);
    assert_eq!(agent.on_disk("app"), messages(0..5));
    agent.wait_received("shell", 5);
    assert_eq!(agent.on_disk("shell"), messages(0..5));
    agent.wait_received("lines", 2);
    assert_eq!(agent.on_disk("lines"), ["a\nb\njava.lang.Error: x\n\tat y", "\tat z"]);
    agent.wait_received("own", 6);
    let cut = "x".repeat(300);
    assert_eq!(agent.on_disk("own"), ["# one\n two", "# three\n4\n5", "6\n7", "# eight", &cut, "# nine"]);
    assert_eq!(agent.number("jumpseat.source.truncated", "own"), 3);
    assert_eq!(agent.number("jumpseat.source.truncated", "app"), 0);
    eventually("nothing to be left", || {
        (agent.number("jumpseat.self.follow.behind", "app") == 0).then_some(())
    });
}

#[test]
fn a_rotated_file_ends_its_last_record() {
    let agent = Agent::started(WAITING);
    agent.append("app.log", trace(5));
    eventually("the file to be read", || {
        (agent.number("jumpseat.self.follow.files", "app") == 1).then_some(())
    });
    // As logrotate does with create: the rest of the trace still goes to the old file.
    rename(&agent.path("app.log"), &agent.path("app.log.1"));
    append(&agent.path("app.log.1"), "\tat com.example.Late.f(Late.java:1)\n");
    agent.append("app.log", trace(6));
    agent.wait_received("app", 1);
    let late = format!("{}\n\tat com.example.Late.f(Late.java:1)", trace(5).trim_end());
    assert_eq!(agent.on_disk("app"), std::slice::from_ref(&late));
    // As with copytruncate: what has waited for the next line is in no file that is followed any more.
    let size = (late.len() + trace(6).len()) as u64;
    eventually("the second one to be read", || {
        (agent.number("jumpseat.self.follow.behind", "app") + late.len() as u64 + 1 >= size).then_some(())
    });
    agent.append("app.log", trace(3));
    agent.wait_received("app", 2);
    wait_read(&agent, "app.log");
    fs::copy(agent.path("app.log"), agent.path("app.log.2")).expect("writable");
    fs::write(agent.path("app.log"), "").expect("writable");
    agent.wait_received("app", 3);
    agent.append("app.log", trace(4));
    agent.append("app.log", "end\n");
    agent.wait_received("app", 4);
    let expected = [vec![late], messages(6..7), messages(3..5)].concat();
    assert_eq!(agent.on_disk("app"), expected);
    assert_eq!(agent.total("jumpseat.self.follow.truncations"), 1);
    assert_eq!(agent.number("jumpseat.source.truncated", "app"), 0);
}

/// Waits until the agent knows all of a file, of which it has not taken the last record.
fn wait_read(agent: &Agent, name: &str) {
    let size = fs::metadata(agent.path(name)).expect("it is there").len();
    let open = trace(3).len() as u64;
    eventually("the file to be read", || {
        (size > open && agent.number("jumpseat.self.follow.behind", "app") == open).then_some(())
    });
}

/// Writes traces line by line, and counts the lines.
fn write(path: &Path, numbers: std::ops::Range<u64>, lines: &AtomicU64) {
    for n in numbers {
        for line in trace(n).split_inclusive('\n') {
            append(path, line);
            lines.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn every_trace_is_there_once_and_whole_when_the_agent_is_killed_in_the_midst_of_them() {
    kill_again_and_again(WAITING, 24);
}

#[test]
fn the_same_where_records_wait_for_their_turn() {
    kill_again_and_again(&format!("{WAITING}[[source]]\nname = \"app\"\norder_window = \"100ms\"\n"), 12);
}

#[track_caller]
fn kill_again_and_again(settings: &str, rounds: u64) {
    let mut agent = Agent::new(settings);
    let (mut random, mut next) = (Random::new(13, 1), 0);
    for round in 0..rounds {
        let (file, lines) = (agent.path("app.log"), AtomicU64::new(0));
        let count = random.below(60) as u64 + 20;
        agent.start();
        let moment = random.below(count as usize * 4) as u64;
        std::thread::scope(|scope| {
            scope.spawn(|| write(&file, next..next + count, &lines));
            eventually("the moment", || (lines.load(Ordering::Relaxed) >= moment).then_some(()));
            // It may be about to find the file, to read a part of a trace, or to have it on disk.
            agent.kill();
        });
        next += count;
        if round % 6 == 5 {
            agent.start();
            agent.wait_received("app", next - 1);
            rename(&file, &agent.path(&format!("app.log.{round}")));
            write(&file, next..next + 1, &lines);
            next += 1;
            agent.wait_received("app", next - 1);
            agent.kill();
        }
    }
    agent.start();
    agent.append("app.log", "end\n");
    agent.wait_received("app", next);
    assert_eq!(agent.number("jumpseat.source.missed", "app"), 0);
    agent.stop();
    assert!(agent.on_disk("app") == messages(0..next), "each once, whole, and in order");
}

#[test]
fn what_time_has_ended_stays_ended_when_it_is_read_again() {
    let mut agent = Agent::new(
        "[[file]]\npath = \"DIR/app.log\"\nfrom = \"beginning\"\nmultiline = { start = '^#', timeout_ms = 100 }\n",
    );
    let mut expected = Vec::new();
    for life in 0..4 {
        agent.append("app.log", format!("# {life}\na\n"));
        expected.push(format!("# {life}\na"));
        agent.start();
        agent.wait_received("app", expected.len() as u64);
        agent.kill();
        // Without its positions it reads everything again, and now these lines follow the others at once.
        fs::remove_file(agent.dir().join("ids/jumpseat-400-positions.json")).ok();
        agent.append("app.log", "late\nlater\n");
        expected.push("late\nlater".to_owned());
    }
    agent.start();
    agent.wait_received("app", expected.len() as u64);
    assert_ne!(agent.number("jumpseat.source.repeated", "app"), 0);
    agent.stop();
    assert_eq!(agent.on_disk("app"), expected);
}

#[test]
fn the_open_record_of_a_command_is_not_lost_by_the_end_of_the_agent() {
    let mut agent = Agent::started(
        "[[command]]\nrun = \"printf 'one\\\\n 1\\\\ntwo\\\\n 2\\\\n'; exec sleep 1000\"\nsource = \"shell\"\n\
         multiline = { start = '^[a-z]', timeout_ms = 3600000 }\n",
    );
    // One write: who has read the first has read the second.
    agent.wait_received("shell", 1);
    assert_eq!(agent.on_disk("shell"), ["one\n 1"]);
    agent.stop();
    assert_eq!(agent.on_disk("shell"), ["one\n 1", "two\n 2"]);
}

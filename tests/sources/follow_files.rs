//! Files that are followed by the real agent: rotation, truncation, restarts.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::follow_support::{Agent, append, numbers, rename};
use support::{Process, eventually};

const LOG: &str = "[[file]]\npath = \"DIR/app.log\"\nfrom = \"beginning\"\n";

#[test]
fn a_file_is_followed_through_renaming_late_writers_and_removal() {
    let agent = Agent::started(LOG);
    agent.wait_state("app", "waiting");
    agent.append("app.log", "one\ntwo\n");
    agent.wait_messages("app", &["one", "two"]);
    // All at once: what is left of the old file comes before the new one.
    agent.append("app.log", "three\nfour, no newline");
    rename(&agent.path("app.log"), &agent.path("app.log.1"));
    agent.append("app.log", "five\n");
    agent.wait_messages("app", &["one", "two", "three", "four, no newline", "five"]);
    // A writer that has not noticed yet.
    agent.append("app.log.1", "\nsix, late\n");
    agent.wait_received("app", 6);
    assert_eq!(agent.messages("app").last().map(String::as_str), Some("six, late"));
    fs::remove_file(agent.path("app.log")).expect("it is there");
    agent.append("app.log", "seven\n");
    agent.wait_received("app", 7);
    assert_eq!(agent.messages("app").last().map(String::as_str), Some("seven"));
    assert_eq!(agent.total("jumpseat.self.follow.rotations"), 2);
    assert_eq!(agent.number("jumpseat.source.missed", "app"), 0);
    assert_eq!(agent.number("jumpseat.self.follow.behind", "app"), 0);
}

#[test]
fn many_rotations_while_lines_are_written_lose_and_repeat_nothing() {
    let agent = Agent::started(LOG);
    let (mut next, mut first) = (0, 0);
    for round in 0..20 {
        agent.append("app.log", numbers(next..next + 25));
        next += 25;
        if round % 3 == 0 {
            // A file that loses its name before anybody has seen it cannot be found.
            agent.wait_received("app", first + 1);
            first = next;
            agent.append("app.log", numbers(next..next + 5));
            next += 5;
            first += 5;
            rename(&agent.path("app.log"), &agent.path(&format!("app.log.{round}")));
        }
        if round % 5 == 0 {
            agent.wait_received("app", next / 2);
        }
    }
    agent.wait_received("app", next);
    let expected: Vec<String> = (0..next).map(|n| n.to_string()).collect();
    assert_eq!(agent.messages("app"), expected);
}

#[test]
fn a_file_that_is_copied_and_truncated_is_read_from_its_beginning() {
    let agent = Agent::started(LOG);
    agent.append("app.log", "one\ntwo\n");
    agent.wait_messages("app", &["one", "two"]);
    fs::copy(agent.path("app.log"), agent.path("app.log.1")).expect("writable");
    append_truncated(&agent, "three\n");
    agent.wait_messages("app", &["one", "two", "three"]);
    // Longer than before at once: only the beginning tells.
    append_truncated(&agent, "a line that is longer than all lines before it\n");
    agent.wait_received("app", 4);
    assert_eq!(agent.total("jumpseat.self.follow.truncations"), 2);
    assert_eq!(agent.total("jumpseat.self.follow.rotations"), 0);
    // A writer that goes on where it was leaves a hole in front.
    let file = fs::File::options().write(true).open(agent.path("app.log")).expect("it is there");
    file.set_len(0).expect("ours");
    std::os::unix::fs::FileExt::write_all_at(&file, b"after the hole\n", 100_000).expect("ours");
    eventually("the line after the hole", || {
        (agent.messages("app").last()? == "after the hole").then_some(())
    });
    assert_eq!(agent.number("jumpseat.self.follow.repaired", "app"), 1, "{}", agent.text());
    assert_eq!(agent.number("jumpseat.source.truncated", "app"), 0);
}

fn append_truncated(agent: &Agent, text: &str) {
    // Truncated and written at once, as a program does that opens with O_TRUNC.
    fs::write(agent.path("app.log"), text).expect("writable");
}

#[test]
fn patterns_take_new_files_directories_that_return_and_links() {
    let agent = Agent::started(
        "[[file]]\npath = \"DIR/logs/*/x*.log\"\nfrom = \"beginning\"\n\
         [[file]]\npath = \"DIR/link.log\"\nsource = \"linked\"\nfollow_links = true\n",
    );
    fs::create_dir_all(agent.path("logs/a")).expect("writable");
    agent.append("logs/a/x1.log", "a1\n");
    agent.append("logs/a/y.log", "not this\n");
    agent.wait_messages("x1", &["a1"]);
    agent.append("logs/a/x2.log", "a2\n");
    agent.wait_messages("x2", &["a2"]);
    // The directory goes, and comes back with the same file and a new one.
    rename(&agent.path("logs"), &agent.path("gone"));
    append(&agent.path("gone/a/x1.log"), "while away\n");
    append(&agent.path("gone/a/x3.log"), "a3\n");
    agent.wait_messages("x1", &["a1", "while away"]);
    rename(&agent.path("gone"), &agent.path("logs"));
    agent.wait_messages("x3", &["a3"]);
    agent.append("logs/a/x1.log", "again\n");
    agent.wait_messages("x1", &["a1", "while away", "again"]);
    fs::remove_dir_all(agent.path("logs")).expect("ours");
    fs::create_dir_all(agent.path("logs/b")).expect("writable");
    agent.append("logs/b/x1.log", "anew\n");
    agent.wait_messages("x1", &["a1", "while away", "again", "anew"]);

    agent.append("target.1", "t1\n");
    symlink("target.1", agent.path("link.log")).expect("writable");
    agent.wait_messages("linked", &["t1"]);
    agent.append("target.1", "t2\n");
    agent.wait_messages("linked", &["t1", "t2"]);
    agent.append("target.2", "t3\n");
    symlink("target.2", agent.path("new")).expect("writable");
    rename(&agent.path("new"), &agent.path("link.log"));
    agent.wait_messages("linked", &["t1", "t2", "t3"]);
}

#[test]
fn what_matches_nothing_is_told_once_and_again_when_it_does() {
    let agent = Agent::started(
        "[[file]]\npath = \"DIR/lgos/app/*.log\"\n\
         [[file]]\npath = \"DIR/here.log\"\n\
         [[file]]\npath = \"DIR/late.log\"\nfrom = \"beginning\"\n",
    );
    agent.append("here.log", "");
    let dir = agent.dir().display().to_string();
    let told = |what: &str| agent.text().lines().filter(|line| line.contains(what)).count();
    let lacks = format!("{dir}/lgos/app/*.log: matches nothing yet: there is no directory {dir}/lgos");
    let late = format!("{dir}/late.log: matches nothing yet: nothing in {dir} is called so");
    eventually("both to be told", || (told(&lacks) == 1 && told(&late) == 1).then_some(()));
    agent.append("late.log", "one\n");
    agent.wait_messages("late", &["one"]);
    assert_eq!(told(&format!("{dir}/late.log: matches {dir}/late.log now")), 1, "{}", agent.text());
    // Whether here.log was there for the first look or not, it is by now.
    eventually("one to be left", || (agent.total("jumpseat.self.follow.unmatched") == 1).then_some(()));
    fs::create_dir_all(agent.path("lgos/app")).expect("writable");
    agent.append("lgos/app/x.log", "two\n");
    agent.wait_messages("x", &["two"]);
    eventually("none to be left", || (agent.total("jumpseat.self.follow.unmatched") == 0).then_some(()));
    // What goes and comes again is no news.
    fs::remove_file(agent.path("late.log")).expect("it is there");
    agent.append("late.log", "three\n");
    agent.wait_received("late", 2);
    assert_eq!((told(&lacks), told(&late)), (1, 1), "{}", agent.text());
}

#[test]
fn a_restart_neither_loses_nor_repeats_lines() {
    let mut agent = Agent::new("[[file]]\npath = \"DIR/w/*.log\"\nsource = \"app\"\n");
    fs::create_dir(agent.path("w")).expect("writable");
    agent.append("w/app.log", "old 1\nold 2\nincompl");
    agent.start();
    agent.wait_state("app", "following");
    // From its end on, but for a line that was not complete.
    agent.append("w/app.log", "ete\nnew 1\nhalf");
    agent.wait_messages("app", &["incomplete", "new 1"]);
    agent.stop();
    agent.append("w/app.log", " and half\nwhile down\n");
    agent.append("w/second.log", "a new file\n");
    agent.start();
    agent.wait_received("app", 5);
    let mut messages = agent.on_disk("app").split_off(2);
    messages.sort();
    assert_eq!(messages, ["a new file", "half and half", "while down"]);
    agent.stop();
    // Rotated while nobody looked: the rest of the old file comes first.
    agent.append("w/app.log", "the rest\n");
    rename(&agent.path("w/app.log"), &agent.path("w/app.log.old"));
    agent.append("w/app.log", "the new one\n");
    agent.start();
    agent.wait_received("app", 7);
    assert_eq!(agent.on_disk("app")[5..], ["the rest", "the new one"]);
    agent.stop();
    // Truncated while nobody looked.
    fs::write(agent.path("w/app.log"), "short\n").expect("writable");
    agent.start();
    agent.wait_received("app", 8);
    agent.stop();
    agent.start();
    agent.append("w/app.log", "last\n");
    agent.wait_received("app", 9);
    assert_eq!(agent.on_disk("app")[7..], ["short", "last"]);
}

#[test]
fn a_killed_agent_neither_loses_nor_repeats_lines() {
    let mut agent = Agent::started(LOG);
    let mut next = 0;
    for kill in 0..20 {
        agent.append("app.log", numbers(next..next + 100));
        next += 100;
        match kill % 3 {
            // Everything was taken, and the position written or not.
            0 => agent.wait_received("app", next),
            // These may or may not be handed over before the end.
            1 => agent.append("app.log", numbers(next..next + 50)),
            _ => {}
        }
        next += if kill % 3 == 1 { 50 } else { 0 };
        agent.kill();
        agent.append("app.log", numbers(next..next + 10));
        next += 10;
        agent.start();
    }
    agent.wait_received("app", next);
    agent.kill();
    assert_eq!(agent.on_disk("app"), (0..next).map(|n| n.to_string()).collect::<Vec<_>>());
    // Bytes count once, too.
    agent.start();
    let size = fs::metadata(agent.path("app.log")).expect("it is there").len();
    eventually("all bytes", || (agent.number("jumpseat.source.bytes", "app") == size).then_some(()));
}

#[test]
fn a_kill_repeats_nothing_while_lines_wait_for_their_turn() {
    let mut agent = Agent::started(
        "[[file]]\npath = \"DIR/app.log\"\nfrom = \"beginning\"\nformat = \"json\"\n\
         [[source]]\nname = \"app\"\norder_window = \"300ms\"\n",
    );
    // Their times go back and forth, so that some leave before others that were read earlier.
    let line = |n: u64| format!("{{\"time\":{},\"message\":\"{n}\"}}\n", 1_700_000_000 + (n ^ 5));
    let mut next = 0;
    for _ in 0..10 {
        let text: String = (next..next + 200).map(line).collect();
        agent.append("app.log", text);
        next += 200;
        eventually("some have left", || (agent.number("jumpseat.source.received", "app") > 0).then_some(()));
        agent.kill();
        agent.start();
    }
    agent.wait_received("app", next);
    agent.kill();
    let mut found = agent.on_disk("app");
    found.sort_by_key(|n| n.parse::<u64>().expect("a number"));
    assert_eq!(found, (0..next).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn what_was_cut_short_under_its_writer_is_not_taken_for_what_was_there() {
    let mut agent = Agent::started(LOG);
    // Each with the same first line, as tables have.
    let table = |from: u64| format!("number\n{}", numbers(from..from + 10));
    agent.append("app.log", table(0));
    agent.wait_received("app", 11);
    fs::write(agent.path("app.log"), "").expect("writable");
    agent.wait_state("app", "following");
    eventually("it is seen to be empty", || {
        (agent.total("jumpseat.self.follow.truncations") > 0).then_some(())
    });
    agent.append("app.log", table(10));
    agent.wait_received("app", 22);
    agent.kill();
    agent.append("app.log", numbers(20..22));
    agent.start();
    agent.wait_received("app", 24);
    // And cut short while nobody looked: shorter than it was.
    agent.kill();
    fs::write(agent.path("app.log"), "number\n30\n").expect("writable");
    agent.start();
    agent.wait_received("app", 26);
    agent.kill();
    let expected = format!("{}{}20\n21\nnumber\n30\n", table(0), table(10));
    assert_eq!(agent.on_disk("app"), expected.lines().collect::<Vec<_>>());
}

#[test]
fn a_last_line_without_newline_is_taken_after_a_while() {
    let agent = Agent::started("[[file]]\npath = \"DIR/app.log\"\npartial_ms = 300\nfrom = \"beginning\"\n");
    agent.append("app.log", "whole\npart");
    agent.wait_messages("app", &["whole", "part"]);
    agent.append("app.log", " two\n");
    agent.wait_messages("app", &["whole", "part", " two"]);
}

#[test]
fn a_flood_is_held_back_not_lost_and_starves_nobody() {
    const LINES: u64 = 200_000;
    let agent = Agent::started(
        "[[file]]\npath = \"DIR/flood.log\"\nfrom = \"beginning\"\n\
         [[file]]\npath = \"DIR/small.log\"\nformat = \"json\"\nfrom = \"beginning\"\n",
    );
    agent.append("flood.log", "a line of the flood with some text behind it\n".repeat(LINES as usize));
    agent.append("small.log", "{\"message\":\"here\"}\n");
    agent.wait_messages("small", &["here"]);
    agent.wait_received("flood", LINES);
    assert_eq!(agent.number("jumpseat.source.received", "flood"), LINES);
    assert_eq!(agent.number("jumpseat.source.missed", "flood"), 0);
    eventually("nothing to be left", || {
        (agent.number("jumpseat.self.follow.behind", "flood") == 0).then_some(())
    });
}

#[test]
fn too_many_files_and_what_is_no_file_are_told_of() {
    let agent =
        Agent::new("[[file]]\npath = \"DIR/f/*\"\nsource = \"f\"\nmax_files = 2\nfrom = \"beginning\"\n");
    fs::create_dir(agent.path("f")).expect("writable");
    nix::unistd::mkfifo(&agent.path("f/0-fifo"), nix::sys::stat::Mode::S_IRWXU).expect("writable");
    for name in ["1", "2", "3"] {
        agent.append(&format!("f/{name}"), format!("{name}\n"));
    }
    let mut agent = agent;
    agent.start();
    agent.wait_messages("f", &["1", "2"]);
    eventually("what was wrong in the log", || {
        let text = agent.text();
        (text.contains("f/0-fifo: cannot follow: is a FIFO; only a regular file is allowed")
            && text.contains("matches more than 2 files; raise max_files"))
        .then_some(())
    });
    assert_eq!(agent.number("jumpseat.self.follow.files", "f"), 2);
    assert!(agent.total("jumpseat.self.follow.errors") >= 2);
    fs::remove_file(agent.path("f/1")).expect("ours");
    eventually("the third to have its turn", || agent.messages("f").contains(&"3".to_owned()).then_some(()));
}

#[test]
fn pmevent_shows_lines_as_they_come_and_labels_say_from_where() {
    let agent = Agent::started(LOG);
    agent.append("app.log", "first\n");
    agent.wait_received("app", 1);
    let mut command = support::PcpEnv::new().command("pmevent");
    command.args(["-h", &agent.endpoint().host(), "-t", "0.1", "jumpseat.event.records[app]"]);
    let pmevent = Process::start(&mut command, agent.dir(), "pmevent");
    eventually("pmevent to read", || (agent.number("jumpseat.source.readers", "app") > 0).then_some(()));
    agent.append("app.log", "watched\n");
    eventually("pmevent to show the line", || pmevent.stdout().contains("watched").then_some(()));
    assert!(!pmevent.stdout().contains("first"));
    let labels = agent.endpoint().run("pminfo", ["-l", "jumpseat.source.received"]).ok();
    let path = agent.path("app.log").display().to_string();
    assert!(labels.contains("\"kind\":\"file\"") && labels.contains(&path), "{labels}");
}

#[test]
fn root_reads_nothing_that_somebody_else_has_made_a_link_to() {
    assert!(nix::unistd::geteuid().is_root(), "this test plants links as another user: run it as root");
    let table = |name: &str, more: &str| {
        format!("[[file]]\npath = \"DIR/{name}\"\nsource = \"app\"\nfrom = \"beginning\"\n{more}")
    };
    let tables = table("logs/*.log", "") + &table("logs/*/*.log", "");
    let mut agent = Agent::new(&tables);
    for (name, mode) in [("secret", 0o700), ("logs", 0o777)] {
        fs::create_dir(agent.path(name)).expect("root may");
        fs::set_permissions(agent.path(name), Permissions::from_mode(mode)).expect("root may");
    }
    agent.append("secret/key.log", "root's own\n");
    let nobody = |program: &str, args: &[&Path]| {
        let status = Command::new(program).args(args).uid(65534).gid(65534).status();
        assert!(status.expect("it runs").success(), "{program} {args:?}");
    };
    nobody("ln", &[Path::new("-s"), &agent.path("secret/key.log"), &agent.path("logs/x.log")]);
    nobody("ln", &[Path::new("-s"), &agent.path("secret"), &agent.path("logs/way")]);
    nobody("mkfifo", &[&agent.path("logs/fifo.log")]);
    agent.start();
    eventually("three refusals", || (agent.total("jumpseat.self.follow.errors") >= 3).then_some(()));
    agent.append("logs/app.log", "a file\n");
    agent.wait_messages("app", &["a file"]);
    let said = agent.text();
    for refusal in [
        "logs/x.log: cannot follow: is a symbolic link; only a regular file is allowed",
        "logs/way on the way is a symbolic link of uid 65534",
        "logs/fifo.log: cannot follow: is a FIFO",
        "set follow_links",
    ] {
        assert!(said.contains(refusal), "{refusal} is not in\n{said}");
    }
    agent.stop();
    // For those who trust everybody who may write there.
    let agent = Agent::started(&table("link.log", "follow_links = true\n"));
    agent.append("target", "as asked for\n");
    symlink(agent.path("target"), agent.path("link.log")).expect("root may");
    agent.wait_messages("app", &["as asked for"]);
}

#[test]
fn a_hole_of_terabytes_is_skipped_at_once() {
    let agent = Agent::started(LOG);
    agent.append("app.log", "before\n");
    agent.wait_messages("app", &["before"]);
    let file = fs::File::options().write(true).open(agent.path("app.log")).expect("it is there");
    file.set_len(4 << 40).expect("sparse");
    agent.append("app.log", "after\n");
    agent.wait_messages("app", &["before", "after"]);
    // Also as the rest of a line that is too long.
    agent.append("app.log", "x".repeat(100_000));
    agent.wait_received("app", 3);
    file.set_len(8 << 40).expect("sparse");
    agent.append("app.log", "\nend\n");
    agent.wait_received("app", 4);
    assert_eq!(agent.messages("app").last().map(String::as_str), Some("end"));
}

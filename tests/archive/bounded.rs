//! Small archives that ask for a lot: `jumpseat info` on each, with little memory and processor time.

use std::fs::{self, File};
use std::io::{Read, Write, repeat};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use crate::seat::JUMPSEAT;

/// Address space in KiB, and processor seconds, that `info` may take of each: several times what it needs.
const MEMORY: u32 = 500_000;
const SECONDS: u32 = 20;
const INDOM: u32 = 1 << 10;

fn label(volume: i32) -> Vec<u8> {
    let mut label = words(&[132, 0x5005_2602, 1, 0, 0, volume as u32]);
    label.resize(128, 0);
    label[24] = b'h';
    label.extend(words(&[132]));
    label
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn record(head: &[u32], rest: &[u8]) -> Vec<u8> {
    let head = words(head);
    let len = words(&[(head.len() + rest.len() + 8) as u32]);
    [&len, &head[..], rest, &len].concat()
}

/// Metadata: one metric, and what follows.
fn meta(rest: &[Vec<u8>]) -> Vec<u8> {
    [label(-1), record(&[1, 4 << 10, 0, INDOM, 3, 0, 1, 4], b"evil"), rest.concat()].concat()
}

fn archive(meta: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let mark = record(&[5, 0, 0], &[]);
    fs::write(dir.path().join("a.0"), [label(0), mark].concat()).expect("the disk has room");
    fs::write(dir.path().join("a.meta"), meta).expect("the disk has room");
    dir
}

/// Writes a member that is nothing but zeros behind its beginning.
fn packed(path: &Path, beginning: &[u8], zeros: u64) {
    let file = File::create(path).expect("a file can be made");
    let mut encoder = zstd::Encoder::new(file, 1).expect("zstd works");
    encoder.write_all(beginning).expect("the disk has room");
    std::io::copy(&mut repeat(0).take(zeros), &mut encoder).expect("the disk has room");
    encoder.finish().expect("the disk has room");
}

/// What `info` says; it ends by itself, not by a limit.
fn info(dir: &Path, option: &str) -> String {
    said(dir, "info", option)
}

fn said(dir: &Path, tool: &str, option: &str) -> String {
    let limits = format!("ulimit -c 0; ulimit -v {MEMORY}; ulimit -t {SECONDS}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limits, "sh", JUMPSEAT, tool, option, "-a"]).arg(dir.join("a")).arg("evil");
    let output = command.output().expect("sh is there");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.signal(), None, "{said}");
    said
}

#[test]
fn a_record_that_is_nearly_all_compression() {
    let dir = archive(&meta(&[]));
    fs::remove_file(dir.path().join("a.0")).expect("it was there");
    let beginning = [label(0), words(&[1 << 30])].concat();
    packed(&dir.path().join("a.0.zst"), &beginning, (1 << 30) - 4);
    info(dir.path(), "-f");
}

#[test]
fn metadata_that_is_nearly_all_compression() {
    let dir = archive(&meta(&[]));
    fs::remove_file(dir.path().join("a.meta")).expect("it was there");
    let beginning = [meta(&[]), words(&[700 << 20, 4, 5, 4 << 10])].concat();
    packed(&dir.path().join("a.meta.zst"), &beginning, 700 << 20);
    let said = info(dir.path(), "-d");
    assert!(!said.contains("Data Type"), "{said}");
}

#[test]
fn instances_that_share_a_long_name() {
    let ids: Vec<u32> = (0..8_000).collect();
    let head = [&[2, 0, 0, INDOM, 8_000][..], &ids, &ids].concat();
    let dir = archive(&meta(&[record(&head, &[b'x'; 200_000])]));
    let said = info(dir.path(), "-d");
    assert!(!said.contains("Data Type"), "{said}");
}

#[test]
fn instance_domains_from_the_last_to_the_first() {
    let records: Vec<_> =
        (1..=150_000).rev().map(|sec| record(&[2, sec, 0, INDOM, 1, sec, 0], b"x\0")).collect();
    let said = info(archive(&meta(&records)).path(), "-d");
    assert!(said.contains("Data Type"), "{said}");
}

#[test]
fn a_screen_with_a_name_of_a_megabyte() {
    let mut name = vec![b'x'; 1 << 20];
    name.push(0);
    let dir = archive(&meta(&[record(&[2, 0, 0, INDOM, 1, 7, 0], &name)]));
    let values = (0..10).map(|sec| record(&[sec, 0, 1, 4 << 10, 1, 0, 7, 42], &[]));
    let volume: Vec<u8> = [label(0)].into_iter().chain(values).flatten().collect();
    fs::write(dir.path().join("a.0"), volume).expect("the disk has room");
    let said = said(dir.path(), "top", "--once");
    assert!(said.contains("xxxxxxxx") && said.contains("42"), "{said:.2000}");
    assert!(said.len() < 1 << 20, "{} bytes on a screen", said.len());
}

//! `jumpseat record` as a user runs it: against a real pmcd, killed, out of room, continued.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::seat::{JUMPSEAT, Seat, Transport};
use nix::sys::signal::Signal;
use serde_json::Value as Json;
use support::{AgentSpec, Output, PcpEnv, PrivatePmcd, Process, eventually, records, temp_dir};

fn record(pmcd: &PrivatePmcd, args: &[&str]) -> Output {
    let host = pmcd.inet();
    pmcd.run(JUMPSEAT, ["record", "-h", &host].iter().chain(args))
}

fn start(pmcd: &PrivatePmcd, dir: &Path, name: &str, args: &[&str]) -> Process {
    let host = pmcd.inet();
    let mut command = pmcd.env().command(JUMPSEAT);
    command.args(["record", "-h", &host]).args(args).env("PMCD_RECONNECT_TIMEOUT", "1");
    Process::start(&mut command, dir, name)
}

fn check(base: &str) {
    let checked = PcpEnv::new().run("pmlogcheck", [base]);
    assert!(checked.status.success() && checked.stderr.is_empty() && checked.stdout.is_empty(), "{checked}");
}

fn dump(base: &str, option: &str) -> Output {
    PcpEnv::new().run("pmdumplog", [option, base])
}

/// How many records with values pmdumplog shows.
fn samples(dumped: &str) -> usize {
    dumped.lines().filter(|line| line.ends_with(" metrics") || line.ends_with(" metric")).count()
}

/// Whether there is anything that a reader could be shown.
fn first_record_is_whole(base: &str) -> bool {
    const LABEL: usize = 808;
    let volume = fs::read(format!("{base}.0")).unwrap_or_default();
    let len = volume.get(LABEL..LABEL + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    len.is_some_and(|len| volume.len() >= LABEL + len as usize)
}

#[test]
fn the_number_of_samples_asked_for_with_derived_metrics() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let base = dir.path().join("a").display().to_string();
    let list = dir.path().join("list").display().to_string();
    fs::write(&list, "sample.long # a whole subtree\nmy.twice = 2 * sample.long.ten\n").expect("writable");
    let args = [
        "-t",
        "20msec",
        "-s",
        "5",
        "-v",
        "4kb",
        "-c",
        &list,
        &base,
        "sample.colour",
        "pmcd.buf",
        "no.such.metric",
    ];
    let recorded = record(&pmcd, &args);
    assert!(recorded.stderr.contains("no.such.metric: Unknown metric name"), "{recorded}");
    assert!(recorded.stderr.contains("recorded 5 samples"), "{recorded}");
    recorded.ok();
    check(&base);
    let dumped = dump(&base, "-m").ok();
    assert_eq!(samples(&dumped), 5, "{dumped}");
    assert_eq!(dumped.matches("511.2048.1 (my.twice): value 20\n").count(), 5, "{dumped}");
    assert!(dumped.contains("(sample.long.million): value 1000000"), "{dumped}");
    assert!(dumped.contains("inst [1024 or \"1024\"]"), "pmcd's own domains: {dumped}");
    let derived = PcpEnv::new().run("pmval", ["-a", &base, "-t", "1msec", "-s", "5", "my.twice"]).ok();
    assert!(derived.trim_end().ends_with(" 20"), "{derived}");
    let again = record(&pmcd, &["-s", "1", &base, "sample.colour"]).fails(1);
    assert!(again.contains("is there already: --append continues it"), "{again}");
}

#[test]
fn mistakes_are_told() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let base = dir.path().join("a").display().to_string();
    for (args, expected) in [
        (vec!["-s", "1", &base], "no metric is named"),
        (vec!["-s", "1", &base, "no.such"], "nothing to record"),
        (vec!["-t", "soon", &base, "sample.bin"], "^ -- unexpected value"),
        (vec!["-T", "@nonsense", &base, "sample.bin"], "-T:"),
        (
            vec!["-s", "1", &base, "my.bad=sample.bin + * 2"],
            "\"my.bad\", ...)\nsample.bin + * 2\n             ^\n",
        ),
        (vec!["-s", "1", &base, "=sample.bin"], "a name in front of ="),
        (vec!["-s", "1", &base, ""], "write a metric"),
        (vec!["-s", "1", "/no/such/dir/a", "sample.bin"], "No such file or directory"),
    ] {
        let told = record(&pmcd, &args).fails(1);
        assert!(told.contains(expected), "{args:?}: {told}");
    }
    assert_eq!(record(&pmcd, &["-v", "100", &base, "sample.bin"]).status.code(), Some(2), "bytes or what?");
    let unknown =
        pmcd.run(JUMPSEAT, ["record", "-h", "127.0.0.1:1", "-s", "1", &base, "sample.bin"]).fails(1);
    assert!(unknown.contains("127.0.0.1:1"), "{unknown}");
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0, "nothing was begun");
}

#[test]
fn a_signal_ends_it_and_readers_follow_while_it_grows() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let base = dir.path().join("a").display().to_string();
    let args = ["-t", "5msec", "-v", "20kb", &base, "sample.long", "sample.event.records", "sample.bin"];
    let mut recording = start(&pmcd, dir.path(), "record", &args);
    eventually("a few samples", || (samples(&dump(&base, "-m").stdout) > 3).then_some(()));
    let mut seen = 0;
    for _ in 0..10 {
        let dumped = dump(&base, "-m");
        // A record may be half there: what is before it is read.
        let torn = dumped.stderr.contains("Corrupted record");
        assert!(dumped.status.success() || torn, "{dumped}");
        let now = samples(&dumped.stdout);
        assert!(now >= seen, "{now} after {seen}");
        seen = now;
        let value =
            PcpEnv::new().run("pmval", ["-a", &base, "-s", "3", "-t", "1msec", "sample.long.ten"]).ok();
        assert!(value.contains(" 10\n"), "{value}");
    }
    eventually("more samples", || (samples(&dump(&base, "-m").stdout) > seen).then_some(()));
    eventually("the second volume", || fs::metadata(format!("{base}.1")).ok());
    recording.signal(Signal::SIGTERM);
    let status = recording.wait();
    assert!(status.success(), "{}", recording.text());
    check(&base);
}

#[test]
fn whenever_it_is_killed_the_archive_can_be_read_and_continued() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let mut recorded = 0;
    for run in 0..40_u64 {
        let base = dir.path().join(format!("a{run}")).display().to_string();
        let args = [
            "-q",
            "-t",
            "1msec",
            "-v",
            "30kb",
            &base,
            "sample.long",
            "sample.bin",
            "sample.event",
            "sample.dodgey",
            "sample.string",
            "sample.longlong",
            "sample.double",
        ];
        let mut recording = start(&pmcd, dir.path(), "record", &args);
        // At any point: before the first sample, in it, long after it.
        if run % 2 == 0 {
            eventually("the first record", || first_record_is_whole(&base).then_some(()));
        }
        sleep(Duration::from_millis(run * 7 % 90));
        recording.signal(Signal::SIGKILL);
        recording.wait();
        let whole = match first_record_is_whole(&base) {
            true => {
                let dumped = dump(&base, "-m");
                let torn = dumped.stderr.contains("Corrupted record");
                assert!(dumped.status.success() || torn, "run {run}: {dumped}");
                assert!(!dumped.stdout.contains("<noname>"), "run {run}: {}", dumped.stdout);
                samples(&dumped.stdout)
            }
            false => 0,
        };
        recorded += usize::from(whole > 0);
        record(&pmcd, &["-q", "--append", "-s", "2", "-t", "1msec", &base, "sample.long", "sample.event"])
            .ok();
        check(&base);
        let dumped = dump(&base, "-M").ok();
        let marks = dumped.matches("<mark>").count();
        assert_eq!(marks, usize::from(whole > 0), "run {run}: {dumped}");
        let all = samples(&dump(&base, "-m").ok());
        assert_eq!(all, whole + 2, "run {run}");
    }
    assert!(recorded >= 20, "{recorded}");
}

#[test]
fn pmcd_can_come_and_go() {
    let mut pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let base = dir.path().join("a").display().to_string();
    let mut recording =
        start(&pmcd, dir.path(), "record", &["-t", "10msec", &base, "sample.long.ten", "sample.bin"]);
    let count = || samples(&dump(&base, "-m").stdout);
    eventually("a sample", || (count() > 0).then_some(()));
    pmcd.restart();
    eventually("the connection", || recording.text().contains("connected again").then_some(()));
    let before = count();
    eventually("more samples", || (count() > before + 2).then_some(()));
    recording.signal(Signal::SIGINT);
    assert!(recording.wait().success(), "{}", recording.text());
    assert!(recording.text().contains("connection lost"), "{}", recording.text());
    check(&base);
    assert_eq!(dump(&base, "-M").ok().matches("<mark>").count(), 1);
    assert_eq!(dump(&base, "-i").ok().matches(" 9 instances").count(), 1, "the same instances");
}

#[test]
fn without_room_it_says_so_and_the_archive_stays_whole() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let base = dir.path().join("a").display().to_string();
    // The shell counts in blocks of 512 bytes.
    let script = format!(
        "ulimit -f 64; exec {JUMPSEAT} record -h {} -t 1msec {base} sample.long sample.bin sample.string",
        pmcd.inet()
    );
    let full = pmcd.run("sh", ["-c", &script]).fails(1);
    assert!(
        full.contains("File too large") && full.contains("ends with the last sample that found room"),
        "{full}"
    );
    assert!(samples(&dump(&base, "-m").ok()) > 10);
    check(&base);
}

#[test]
fn a_copy_without_room_has_all_samples_that_find_room() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name).display().to_string());
    let metrics = ["sample.long", "sample.bin", "sample.string"];
    record(&pmcd, &[&["-t", "1msec", "-s", "200", &from], &metrics[..]].concat()).ok();
    let len = |base: &str| fs::metadata(format!("{base}.0")).expect("a volume").len();
    let of_sample = len(&from) / 200;
    let script = format!("ulimit -f 64; exec {JUMPSEAT} record -U -a {from} {to} {}", metrics.join(" "));
    let full = pmcd.run("sh", ["-c", &script]).fails(1);
    let told = full.contains("File too large") && full.contains("ends with the last sample that found room");
    assert!(told, "{full}");
    // Samples are written many at a time; the file is as full as if each was written for itself.
    let room = (64 << 9) - len(&to);
    assert!(room < of_sample + of_sample / 2, "{room} bytes left, {of_sample} for a sample");
    let copied = samples(&dump(&to, "-m").ok());
    assert!(copied > 10 && copied < 200, "{copied}");
    check(&to);
    let whole = format!("{to}-whole");
    pmcd.run(JUMPSEAT, [&["record", "-U", "-a", &from, &whole], &metrics[..]].concat()).ok();
    assert_eq!(samples(&dump(&whole, "-m").ok()), 200);
}

#[test]
fn one_recorder_at_a_time() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let base = dir.path().join("a").display().to_string();
    let mut recording = start(&pmcd, dir.path(), "record", &["-t", "5msec", &base, "sample.bin"]);
    eventually("the first volume", || fs::metadata(format!("{base}.0")).ok());
    let second = record(&pmcd, &["--append", "-s", "1", &base, "sample.bin"]).fails(1);
    assert!(second.contains("is being written by another process"), "{second}");
    recording.signal(Signal::SIGTERM);
    assert!(recording.wait().success());
    record(&pmcd, &["--append", "-s", "3", "-t", "5msec", &base, "sample.long.one"]).ok();
    check(&base);
    let damaged = fs::read(format!("{base}.meta")).expect("readable");
    let mut bytes = damaged.clone();
    bytes[900] ^= 0x55;
    bytes[808] ^= 0x55;
    fs::write(format!("{base}.meta"), bytes).expect("writable");
    let refused = record(&pmcd, &["--append", "-s", "1", &base, "sample.bin"]).fails(1);
    assert!(refused.contains("the record at byte 808 is corrupted"), "{refused}");
    // What is no archive of version 3 is left as it is.
    for file in ["old.meta", "old.0"] {
        fs::write(dir.path().join(file), [0, 0, 0, 132, 0x50, 5, 0x26, 2, 1, 2, 3]).expect("writable");
    }
    let old = dir.path().join("old").display().to_string();
    let refused = record(&pmcd, &["--append", "-s", "1", &old, "sample.bin"]).fails(1);
    assert!(refused.contains("not of an archive of version 3"), "{refused}");
    let left = |file: &str| fs::metadata(dir.path().join(file)).map(|meta| meta.len()).ok();
    assert_eq!([left("old.meta"), left("old.0"), left("old.index")], [Some(11), Some(11), None]);
}

#[test]
fn events_of_the_agent_are_recorded_with_their_fields() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    let dir = temp_dir();
    let base = dir.path().join("a").display().to_string();
    // A source is there with its first event.
    seat.feed([], "{\"type\":\"order\",\"message\":\"before\"}\n").ok();
    let args = ["-t", "10msec", &base, "jumpseat.event.records", "jumpseat.event.highres_records"];
    let mut recording = start(&pmcd, dir.path(), "record", &args);
    // The recorder sees what comes after its first fetch.
    eventually("the first record", || first_record_is_whole(&base).then_some(()));
    let lines: String = (0..50)
        .map(|at| {
            format!(
                "{{\"type\":\"order\",\"message\":\"m{at}\",\"amount\":{at},\"field{}\":true}}\n",
                at % 10
            )
        })
        .collect();
    seat.feed([], &lines).ok();
    // pmdumplog reads the metadata first: of what is recorded from then on it knows no names.
    eventually("all records", || (records(&dump(&base, "-m").stdout).len() >= 100).then_some(()));
    recording.signal(Signal::SIGTERM);
    assert!(recording.wait().success(), "{}", recording.text());
    check(&base);
    let all = records(&dump(&base, "-m").ok());
    assert_eq!(all.len(), 100, "each record once in either metric");
    let of = |at: usize| format!("m{at}");
    for at in 0..50 {
        let found = all
            .iter()
            .filter(|record| record.params.iter().any(|(_, value)| *value == format!("\"{}\"", of(at))));
        assert_eq!(found.count(), 2, "{at}");
    }
    let dumped = dump(&base, "-m").ok();
    assert!(!dumped.contains("<noname>") && !dumped.contains("???"), "{dumped}");
    let shown = PcpEnv::new().run("pmevent", ["-a", &base, "jumpseat.event.records"]).ok();
    assert_eq!(records(&shown).len(), 50, "{shown}");
}

#[test]
fn all_of_the_agents_events_are_recorded_once_and_pmlogextract_keeps_their_names() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    let dir = temp_dir();
    let [base, extract] = ["a", "extract"].map(|name| dir.path().join(name).display().to_string());
    seat.feed([], "{\"message\":\"before\"}\n").ok();
    let mut recording = start(&pmcd, dir.path(), "record", &["-t", "10msec", &base, "jumpseat.event"]);
    eventually("the first record", || first_record_is_whole(&base).then_some(()));
    let lines: String = (0..50).map(|n| format!("{{\"the n\":{n},\"of {}\":true}}\n", n % 3)).collect();
    seat.feed([], &lines).ok();
    eventually("all records", || (records(&dump(&base, "-m").stdout).len() >= 50).then_some(()));
    recording.signal(Signal::SIGTERM);
    assert!(recording.wait().success(), "{}", recording.text());
    for left_out in ["jumpseat.event.records", "jumpseat.event.recent"] {
        assert_eq!(
            recording.text().matches(&format!("{left_out}: left out")).count(),
            1,
            "{}",
            recording.text()
        );
    }
    check(&base);
    assert_eq!(records(&dump(&base, "-m").ok()).len(), 50);
    let env = PcpEnv::new();
    env.run("pmlogextract", [&base, &extract]).ok();
    for archive in [&base, &extract] {
        let dumped = dump(archive, "-m").ok();
        assert_eq!(records(&dumped).len(), 50, "{archive}");
        assert!(!dumped.contains("<noname>") && !dumped.contains("???"), "{dumped}");
        let told =
            env.run(JUMPSEAT, ["events", "-a", archive, "--json", "jumpseat.event.highres_records"]).ok();
        let told: Vec<Json> = told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let numbers: Vec<u64> = told.iter().filter_map(|record| record["the n"].as_u64()).collect();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "{archive}");
    }
}

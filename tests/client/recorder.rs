//! Archives written from a real pmcd, read by PCP's own tools, and compared with pmlogger's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jumpseat::archive::{ArchiveWriter, LabelInfo, WriteError, WriteOptions};
use jumpseat::client::{Context, Fetched, Mode};
use jumpseat::event::{ArrayKind, EventFlags, NetEventArray, Param};
use jumpseat::model::{Desc, Instance, PM_IN_NULL, Pmid, Semantics, Timestamp, Value, ValueType};
use jumpseat::recorder::{Recorder, label_of};
use support::{AgentSpec, LoggerRun, PcpEnv, PrivatePmcd, eventually, records, temp_dir};

/// Bytes in front of the records of a volume of version 3.
const V3_LABEL: usize = 808;
/// Metrics of all kinds whose values do not change.
const CONSTANT: [&str; 10] = [
    "sample.long.one",
    "sample.longlong.million",
    "sample.ulonglong.hundred",
    "sample.float.ten",
    "sample.double.million",
    "sample.string.hullo",
    "sample.aggregate.hullo",
    "sample.bin",
    "sample.bad.nosupport",
    "sample.dupnames.two.write_me",
];

fn recorder(pmcd: &PrivatePmcd, base: &Path, options: WriteOptions, names: &[&str]) -> Recorder {
    let mut context = Context::host(&pmcd.unix()).expect("pmcd answers");
    let label = label_of(&mut context, "no.host").expect("pmcd answers");
    let archive = ArchiveWriter::create(base, label, options).expect("nothing is there");
    Recorder::new(context, archive, names.iter().copied()).expect("the metrics are there")
}

fn check(env: &PcpEnv, base: &Path) {
    let checked = env.run("pmlogcheck", [base]);
    assert!(checked.status.success() && checked.stderr.is_empty() && checked.stdout.is_empty(), "{checked}");
}

fn dump(env: &PcpEnv, option: &str, base: &Path) -> String {
    let dumped = env.run("pmdumplog", [option.as_ref(), base.as_os_str()]);
    assert!(dumped.stderr.is_empty(), "{dumped}");
    dumped.ok()
}

/// What follows each line that starts at the margin with one of these words, by that line.
fn blocks(text: &str, starts: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut blocks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if starts.iter().any(|start| line.starts_with(start)) {
            current = Some(blocks.entry(names_sorted(line)).or_default());
        } else if !line.starts_with(' ') {
            current = None;
        } else if let Some(block) = &mut current {
            block.push(line.trim().to_owned());
        }
    }
    blocks
}

/// The names of a metric in the order of the alphabet: theirs depends on which came first to the archive.
fn names_sorted(line: &str) -> String {
    let Some((before, names)) = line.split_once(" (") else { return line.to_owned() };
    let (names, after) = names.split_once(')').unwrap_or((names, ""));
    let mut names: Vec<&str> = names.split(" or ").collect();
    names.sort_unstable();
    format!("{before} ({}){after}", names.join(" or "))
}

/// All that pmdumplog shows of the metrics of the sample agent, their order and times left out.
fn shown(env: &PcpEnv, base: &Path) -> Vec<BTreeMap<String, Vec<String>>> {
    let mut metadata = blocks(&dump(env, "-d", base), &["PMID: 29."]);
    metadata.extend(blocks(&dump(env, "-d", base), &["PMID: 511."]));
    let domains = dump(env, "-i", base)
        .lines()
        .filter(|line| !line.contains(" instances"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let text = dump(env, "-m", base);
    let mut current = String::new();
    for line in text.lines().filter(|line| line.starts_with("    ")) {
        if let Some(metric) = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' ')) {
            let (name, value) = metric.split_once("): ").unwrap_or((metric, ""));
            current = names_sorted(name);
            let lines = values.entry(current.clone()).or_default();
            if !lines.iter().any(|known| known == value) {
                lines.push(value.to_owned());
            }
        } else {
            let lines = values.entry(current.clone()).or_default();
            if !lines.iter().any(|known| known == line.trim()) {
                lines.push(line.trim().to_owned());
            }
        }
    }
    values.retain(|metric, _| !metric.starts_with("2."));
    vec![
        metadata,
        blocks(&domains, &["InDom: 29."]),
        blocks(&dump(env, "-h", base), &["PMID: 29.", "InDom: 29."]),
        values,
    ]
}

#[test]
fn an_archive_is_as_pmlogger_writes_it() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut env = pmcd.env().clone();
    env.set("PCP_ARCHIVE_VERSION", "3");
    let logger = LoggerRun::start(&env, &pmcd.inet(), &CONSTANT, Duration::from_millis(100));
    let dir = temp_dir();
    let base = dir.path().join("own");
    let mut recorder = recorder(&pmcd, &base, WriteOptions::default(), &CONSTANT);
    for _ in 0..10 {
        assert!(recorder.sample().expect("recorded"));
    }
    assert_eq!(recorder.notices(), []);
    recorder.finish().expect("finished");
    eventually("a sample of pmlogger's", || {
        let dumped = env.run("pmdumplog", ["-m".as_ref(), logger.archive().base().as_os_str()]);
        dumped.stdout.contains("(sample.long.one)").then_some(())
    });
    let theirs = logger.finish();
    check(&env, &base);
    let (own, other) = (shown(&env, &base), shown(&env, theirs.base()));
    assert_eq!(own[0].len(), CONSTANT.len());
    assert_eq!(own[1].len(), 1, "the bins");
    assert_eq!(own[3].len(), CONSTANT.len());
    for (own, other) in own.iter().zip(&other) {
        assert_eq!(own, other);
    }
    // The label differs in times and process.
    let label = |base: &Path| {
        let label = dump(&env, "-L", base);
        let lines = label.lines().filter(|line| !line.contains("ing ") && !line.starts_with("PID"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(label(&base), label(theirs.base()));
    assert!(label(&base).contains(&"Log Label (Log Format Version 3)".to_owned()), "{:?}", label(&base));
}

#[test]
fn event_records_come_with_all_that_describes_them() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let base = dir.path().join("events");
    // The parameters are not asked for: the archive has them as records have them.
    let mut recorder = recorder(&pmcd, &base, WriteOptions::default(), &["sample.event.records"]);
    for _ in 0..8 {
        recorder.sample().expect("recorded");
    }
    assert_eq!(recorder.notices(), []);
    recorder.finish().expect("finished");
    let env = pmcd.env();
    check(env, &base);
    let described = dump(env, "-d", &base);
    for param in ["type", "param_32", "param_u64", "param_double", "param_string", "param_aggregate"] {
        assert!(described.contains(&format!("(sample.event.{param})")), "{described}");
    }
    let archive = base.to_str().expect("ASCII");
    let dumped = records(&dump(env, "-m", &base));
    // Two rounds of four fetches: 0, 1, 2 and 5 records from one instance, 1 or 2 from the other.
    assert!(dumped.len() >= 22, "{dumped:?}");
    assert!(dumped.iter().any(|record| record.is_missed() && record.missed == Some(7)), "{dumped:?}");
    assert!(
        dumped.iter().any(|record| record.get("sample.event.param_string") == Some("twelve")),
        "{dumped:?}"
    );
    assert_eq!(
        records(&env.run("pmevent", ["-a", archive, "sample.event.records"]).ok()).len(),
        dumped.len()
    );
    assert!(
        !records(&env.run("pmval", ["-a", archive, "-t", "10msec", "sample.event.records"]).ok()).is_empty()
    );
    let shown = env.run("pminfo", ["-a", archive, "-x", "sample.event.records"]).ok();
    assert!(shown.contains("sample.event.param_string"), "{shown}");
}

/// Metrics that a test makes up.
mod made {
    use jumpseat::model::{Desc, InDom, Pmid, Semantics, Timestamp, Units, Value, ValueType};

    pub(super) const INDOM: InDom = InDom::new(245, 1);
    pub(super) const COUNTER: Pmid = Pmid::new(245, 0, 1);
    pub(super) const TEXT: Pmid = Pmid::new(245, 0, 2);
    pub(super) const EVENTS: Pmid = Pmid::new(245, 0, 3);

    pub(super) fn counter() -> Desc {
        Desc {
            pmid: COUNTER,
            value_type: ValueType::U32,
            indom: INDOM,
            semantics: Semantics::Counter,
            units: Units::COUNT,
        }
    }

    pub(super) fn text() -> Desc {
        let (indom, semantics, units) = (InDom::NULL, Semantics::Discrete, Units::NONE);
        Desc { pmid: TEXT, value_type: ValueType::String, indom, semantics, units }
    }

    pub(super) fn events() -> Desc {
        let (indom, semantics, units) = (InDom::NULL, Semantics::Instant, Units::NONE);
        Desc { pmid: EVENTS, value_type: ValueType::Event, indom, semantics, units }
    }

    pub(super) fn second(at: i64) -> Timestamp {
        Timestamp::new(1_000_000_000 + at, 0)
    }

    pub(super) fn value(number: u32) -> Value {
        Value::U32(number)
    }
}

fn label(host: &str) -> LabelInfo {
    LabelInfo { host: host.to_owned(), zone: "UTC".to_owned(), zone_info: String::new(), pid: 4321 }
}

fn instances(list: &[(i32, &str)]) -> Vec<Instance> {
    list.iter().map(|&(id, name)| Instance { id, name: name.to_owned() }).collect()
}

/// One value for each instance of the counter.
fn counters(at: i64, values: impl IntoIterator<Item = (i32, u32)>) -> Fetched {
    let mut fetched = Fetched::new();
    fetched.timestamp = made::second(at);
    fetched.begin_set(made::COUNTER);
    values
        .into_iter()
        .try_for_each(|(inst, number)| fetched.push_value(inst, &made::value(number)))
        .expect("all fit");
    fetched.end_set();
    fetched
}

#[test]
fn libpcp_interpolates_over_volumes_and_not_over_marks() {
    let dir = temp_dir();
    let base = dir.path().join("made");
    let options = WriteOptions { volume_size: 1000, index_every: 100, together: 0 };
    let mut archive = ArchiveWriter::create(&base, label("made.up"), options).expect("nothing is there");
    archive.desc(&made::counter(), &["made.counter"]).expect("new");
    archive.indom(made::second(0), made::INDOM, &instances(&[(7, "b"), (0, "a one")]));
    for at in 0..20 {
        archive.result(&counters(10 * at, [(0, 100 * at as u32), (7, 7 * at as u32)])).expect("written");
        if at == 14 {
            archive.mark().expect("written");
            archive.mark().expect("one is enough");
        }
    }
    archive.flush().expect("written");
    assert!(archive.volume() > 2, "{}", archive.volume());
    let env = PcpEnv::new();
    check(&env, &base);
    let name = base.to_str().expect("ASCII");
    let values = env.run("pmval", ["-a", name, "-r", "-t", "5sec", "made.counter"]).ok();
    let lines: Vec<Vec<&str>> = values
        .lines()
        .filter(|line| line.starts_with("01:"))
        .map(|line| line.split_whitespace().skip(1).collect())
        .collect();
    for (half, line) in lines.iter().enumerate() {
        // The mark is right behind the sample of 140 s, the next is of 150 s.
        match half == 29 {
            true => assert_eq!(*line, ["No", "values", "available"], "{values}"),
            false => {
                assert_eq!(*line, [(50 * half).to_string(), (7 * half).div_ceil(2).to_string()], "{values}");
            }
        }
    }
    assert_eq!(lines.len(), 39, "{values}");
    let dumped = dump(&env, "-M", &base);
    assert_eq!(dumped.matches("<mark>").count(), 1, "{dumped}");
    // The entries of the index point to records, and the last to the end.
    let index = dump(&env, "-t", &base);
    let entries: Vec<&str> = index.lines().filter(|line| line.starts_with("01:")).collect();
    assert_eq!(
        entries.first().map(|line| line.split_whitespace().skip(1).collect()),
        Some(vec!["0", "808", "808"])
    );
    let last =
        format!("{}", std::fs::metadata(format!("{name}.{}", archive.volume())).expect("a file").len());
    assert!(entries.last().is_some_and(|line| line.ends_with(&last)), "{index}");
    assert!(entries.len() > 5, "{index}");
}

/// The label of an archive of an archive is of what is recorded in it, which is looked up without leaving the place where recording
/// begins.
#[test]
fn asking_an_archive_for_its_label_leaves_it_where_it_is() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let base = dir.path().join("first");
    let mut first = recorder(&pmcd, &base, WriteOptions::default(), &["pmcd.timezone"]);
    for _ in 0..5 {
        assert!(first.sample().expect("recorded"));
    }
    first.finish().expect("finished");
    let mut context = Context::archive(base.to_str().expect("a path of ours")).expect("it was just written");
    let (start, _) = context.span().expect("it has records");
    context.set_mode(Mode::Forward, Some(start)).expect("an archive");
    let label = label_of(&mut context, "no.host").expect("it is read");
    assert_eq!(label.zone, context.time_zone().expect("it has one"));
    assert_eq!(context.mode(), (Mode::Forward, start));
    let archive = ArchiveWriter::create(dir.path().join("second"), label, WriteOptions::default());
    let mut second = Recorder::new(context, archive.expect("new"), ["pmcd.timezone"]).expect("it is there");
    let mut samples = 0;
    while second.sample().is_ok() {
        samples += 1;
    }
    assert_eq!(samples, 5);
}

/// Whoever copies an archive names its metrics in some order; the copy has them in that of its records.
#[test]
fn records_are_taken_over_as_they_are_whatever_the_order_of_names() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let names =
        ["sample.string.hullo", "sample.bin", "sample.long.one", "sample.double.bin", "sample.long.ten"];
    let base = |name: &str| dir.path().join(name);
    let mut first = recorder(&pmcd, &base("first"), WriteOptions::default(), &names);
    for _ in 0..5 {
        assert!(first.sample().expect("recorded"));
    }
    first.finish().expect("finished");
    for (number, names) in
        [&["sample"][..], &[names[4], names[0], names[2], names[1], names[3]]].iter().enumerate()
    {
        let base = base(&format!("copy{number}"));
        let from = dir.path().join("first").display().to_string();
        let mut context = Context::archive(&from).expect("it was just written");
        let label = label_of(&mut context, "no.host").expect("it is read");
        context.set_mode(Mode::Forward, Some(Timestamp::default())).expect("an archive");
        let archive = ArchiveWriter::create(&base, label, WriteOptions::default()).expect("new");
        let mut copy = Recorder::new(context, archive, names.iter().copied()).expect("they are there");
        while copy.sample().is_ok() {}
        copy.finish().expect("finished");
        let records =
            |base: &Path| std::fs::read(base.with_extension("0")).expect("a file").split_off(V3_LABEL);
        assert!(records(&base) == records(&dir.path().join("first")), "{names:?}");
    }
}

#[test]
fn instances_come_and_go() {
    let dir = temp_dir();
    let base = dir.path().join("made");
    let mut archive = ArchiveWriter::create(&base, label("made.up"), WriteOptions::default()).expect("new");
    archive.desc(&made::counter(), &["made.counter"]).expect("new");
    // So many that the metadata is longer than a page, and changes are shorter than all of it.
    let mut all: Vec<(i32, String)> = (0..400).map(|id| (id, format!("instance number {id}"))).collect();
    for at in 0..30 {
        match at {
            0..10 => {}
            10..20 => all.retain(|(id, _)| *id != at * 7),
            _ => all.push((1000 + at, format!("new {at}"))),
        }
        let list: Vec<(i32, &str)> = all.iter().map(|(id, name)| (*id, name.as_str())).collect();
        archive.indom(made::second(at.into()), made::INDOM, &instances(&list));
        archive.result(&counters(at.into(), list.iter().map(|(id, _)| (*id, 1)))).expect("written");
    }
    archive.flush().expect("written");
    let size = std::fs::metadata(base.with_extension("meta")).expect("a file").len();
    assert!(size < 30_000, "changes only: {size}");
    let env = PcpEnv::new();
    check(&env, &base);
    let listed = dump(&env, "-i", &base);
    let counts: Vec<&str> =
        listed.lines().filter_map(|line| line.strip_suffix(" instances")?.split(' ').nth(1)).collect();
    let expected: Vec<String> = [400]
        .into_iter()
        .chain((0..10).map(|gone| 399 - gone))
        .chain(391..=400)
        .map(|n| n.to_string())
        .collect();
    let mut counted = counts.clone();
    counted.sort_unstable();
    let mut expected_sorted: Vec<&str> = expected.iter().map(String::as_str).collect();
    expected_sorted.sort_unstable();
    assert_eq!(counted, expected_sorted, "{counts:?}");
    assert!(listed.contains("1029 or \"new 29\"") && !dump(&env, "-m", &base).contains("???"));
}

#[test]
fn the_same_values_make_the_same_archive() {
    let metrics =
        ["disk.dev.total_rawactive", "disk.md.blkwrite", "disk.dm.write_bytes", "kernel.percpu.cpu.user"];
    let record = || {
        let dir = temp_dir();
        let base = dir.path().join("copy");
        let context =
            Context::archive("/var/lib/pcp/testsuite/archives/zero_disk_activity").expect("it is there");
        let options = WriteOptions::default();
        let archive = ArchiveWriter::create(&base, label("host"), options).expect("nothing is there");
        let mut recorder = Recorder::new(context, archive, metrics).expect("the metrics are there");
        assert!(recorder.sample().expect("there is a record"));
        recorder.finish().expect("there is room");
        ["0", "index", "meta"].map(|part| std::fs::read(base.with_extension(part)).expect("it was written"))
    };
    let first = record();
    for _ in 0..5 {
        assert!(record() == first);
    }
}

#[test]
fn a_parameter_without_a_name_does_not_spoil_the_archive() {
    let dir = temp_dir();
    let base = dir.path().join("made");
    let mut archive = ArchiveWriter::create(&base, label("made.up"), WriteOptions::default()).expect("new");
    let param = Desc { pmid: Pmid::new(245, 0, 99), value_type: ValueType::U32, ..made::text() };
    archive.desc(&made::events(), &["made.events"]).expect("new");
    archive.desc::<&str>(&param, &[]).expect("new");
    let mut array = NetEventArray::new(ArrayKind::Event);
    array.add_record(made::second(1), EventFlags::POINT).expect("room");
    array.add_param(param.pmid, Param::U32(42)).expect("room");
    let mut fetched = Fetched::new();
    fetched.timestamp = made::second(1);
    fetched.begin_set(made::EVENTS);
    fetched.push_value(PM_IN_NULL, &Value::Event(array.into_bytes().into())).expect("fits");
    fetched.end_set();
    archive.result(&fetched).expect("written");
    fetched.timestamp = made::second(2);
    archive.result(&fetched).expect("written");
    archive.flush().expect("written");
    let env = PcpEnv::new();
    let dumped = dump(&env, "-a", &base);
    assert!(dumped.contains("value 42"), "{dumped}");
    let shown = env.run("pmevent", ["-a", base.to_str().expect("ASCII"), "made.events"]).ok();
    assert!(shown.contains("42"), "{shown}");
}

#[test]
fn what_cannot_be_written_is_refused() {
    let dir = temp_dir();
    let base = dir.path().join("made");
    let mut archive = ArchiveWriter::create(&base, label("made.up"), WriteOptions::default()).expect("new");
    archive.desc(&made::text(), &["made.text"]).expect("new");
    let mut other = made::text();
    other.semantics = Semantics::Instant;
    let changed = archive.desc(&other, &["made.text"]);
    assert!(matches!(changed, Err(WriteError::Changed { what: "semantics", .. })), "{changed:?}");
    assert!(!base.with_extension("meta").exists(), "no file before the first record");
    let mut fetched = Fetched::new();
    let mut put = |archive: &mut ArchiveWriter, at: i64| {
        fetched.clear();
        fetched.timestamp = made::second(at);
        fetched.begin_set(made::TEXT);
        fetched.push_value(PM_IN_NULL, &"text".into()).expect("fits");
        fetched.end_set();
        archive.result(&fetched)
    };
    put(&mut archive, 5).expect("written");
    let back = put(&mut archive, 4);
    assert!(matches!(back, Err(WriteError::TimeGoesBack { .. })), "{back:?}");
    put(&mut archive, 5).expect("the same time will do");
    let exists = ArchiveWriter::create(&base, label("made.up"), WriteOptions::default());
    assert!(matches!(exists, Err(WriteError::Exists(_))), "{exists:?}");
    archive.flush().expect("written");
    check(&PcpEnv::new(), &base);
}

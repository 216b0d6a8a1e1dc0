//! What is lost or foreign in archives of several files: what is found, what is judged otherwise because of it, and what is
//! written anew. PCP's tools judge what is written.

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use pcp_archive::{
    Archive, ArchiveWriter, Checked, Grade, Kind, LabelInfo, Loss, RepairError, Repaired, WriteOptions,
    check, repair,
};
use pcp_model::{Desc, InDom, Instance, PM_IN_NULL, Pmid, Semantics, Timestamp, Units, Value, ValueType};
use pcp_pdu::{Fetched, TextLevel, TextTarget};
use support::{PcpEnv, temp_dir};

use crate::suite::SUITE;

const PMID: Pmid = Pmid(60 << 22 | 1 << 10);
const INDOM: InDom = InDom(60 << 22 | 1);
/// Bytes of a label of version 3, and where its process is.
const LABEL: usize = 808;
const PROCESS: usize = 8;

fn counter(pmid: Pmid, indom: InDom) -> Desc {
    Desc { pmid, value_type: ValueType::U32, indom, semantics: Semantics::Counter, units: Units::NONE }
}

fn at(sec: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + sec, 0)
}

/// An archive of a counter without instances: a value a second.
fn counting(base: &Path, volume_size: u64, values: impl IntoIterator<Item = u32>) {
    let options = WriteOptions { volume_size, ..WriteOptions::default() };
    let label = LabelInfo { host: "host".into(), zone: "UTC".into(), pid: 7, ..LabelInfo::default() };
    let mut writer = ArchiveWriter::create(base, label, options).expect("nothing is there");
    writer.desc(&counter(PMID, InDom::NULL), &["counts"]).expect("described once");
    for (sec, value) in (0..).zip(values) {
        let mut fetched = Fetched::new();
        fetched.timestamp = at(sec);
        fetched.begin_set(PMID);
        fetched.push_value(PM_IN_NULL, &Value::U32(value)).expect("a number");
        fetched.end_set();
        writer.result(&fetched).expect("room for it");
    }
    writer.flush().expect("room for it");
}

fn with(base: &Path, suffix: &str) -> PathBuf {
    let mut path = base.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

fn change(base: &Path, suffix: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let path = with(base, suffix);
    let mut bytes = fs::read(&path).expect("there");
    change(&mut bytes);
    fs::write(path, bytes).expect("writable");
}

/// Checks and repairs; pmlogcheck says nothing of what is written.
fn repaired(env: &PcpEnv, base: &Path) -> (Checked, Repaired, PathBuf) {
    let out = with(base, "-anew");
    let repaired = repair(base, &out, &mut |_| ControlFlow::Continue(())).expect("something is whole");
    let said = env.run("pmlogcheck", ["-w".as_ref(), out.as_os_str()] as [&OsStr; 2]);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""));
    (check(base).expect("there"), repaired, out)
}

/// The times of records as pmdumplog shows them, marks with a word.
fn times(env: &PcpEnv, archive: &Path) -> Vec<String> {
    let dumped = env.run("pmdumplog", ["-Z".as_ref(), "UTC".as_ref(), archive.as_os_str()] as [&OsStr; 3]);
    let lines = dumped.stdout.lines().filter(|line| line.as_bytes().first().is_some_and(u8::is_ascii_digit));
    lines
        .map(|line| if line.contains("<mark>") { "mark".to_owned() } else { line[..15].to_owned() })
        .collect()
}

/// A copy of an archive of ten volumes, and the times of its records.
fn of_ten(env: &PcpEnv, dir: &Path) -> (PathBuf, Vec<String>) {
    let whole = Path::new(SUITE).join("archives/ok-mv-bigbin");
    let base = dir.join("a");
    let numbers = (0..10).map(|number| format!(".{number}"));
    for suffix in numbers.chain([".meta".to_owned(), ".index".to_owned()]) {
        fs::copy(with(&whole, &suffix), with(&base, &suffix)).expect("copied");
    }
    (base, times(env, &whole))
}

/// Volume 4 of these is not among the records: there is a mark instead.
fn assert_without_volume_4(env: &PcpEnv, out: &Path, whole: &[String]) {
    let anew = times(env, out);
    let mark = anew.iter().position(|time| time == "mark").expect("a mark");
    let behind = anew.len() - mark - 1;
    assert_eq!(anew[..mark], whole[..mark]);
    assert_eq!(anew[mark + 1..], whole[whole.len() - behind..]);
    assert_eq!((anew.len() - 1, whole.len()), (900, 1001));
}

#[test]
fn volumes_that_are_missing_are_told_of_and_leave_a_mark() {
    let env = PcpEnv::new();
    for has_index in [true, false] {
        let dir = temp_dir();
        let (base, whole) = of_ten(&env, dir.path());
        fs::remove_file(with(&base, ".4")).expect("there");
        if !has_index {
            fs::remove_file(with(&base, ".index")).expect("there");
        }
        let (checked, repaired, out) = repaired(&env, &base);
        assert_eq!((checked.count(Kind::Missing), checked.worst()), (1, Some(Grade::Error)));
        assert!(
            checked.findings.iter().any(|finding| finding.message == "volume 4 is missing"),
            "{checked:?}"
        );
        assert_eq!((repaired.records, repaired.marks), (900, 1));
        assert_without_volume_4(&env, &out, &whole);
    }
}

#[test]
fn an_archive_without_its_metadata_or_volumes_is_looked_at() {
    let env = PcpEnv::new();
    let dir = temp_dir();
    let (base, _) = of_ten(&env, dir.path());
    fs::remove_file(with(&base, ".meta")).expect("there");
    let checked = check(&base).expect("there is something");
    assert_eq!((checked.count(Kind::Missing), checked.records), (1, 1001));
    assert_eq!(checked.findings.len(), 1, "{checked:?}");
    let error = repair(&base, &with(&base, "-anew"), &mut |_| ControlFlow::Continue(()))
        .expect_err("nobody could read it");
    assert!(matches!(error, RepairError::Nothing { .. }), "{error}");
    for number in 0..10 {
        fs::remove_file(with(&base, &format!(".{number}"))).expect("there");
    }
    assert_eq!(check(&base).expect("there is something").count(Kind::Missing), 2);
    fs::remove_file(with(&base, ".index")).expect("there");
    check(&base).expect_err("no such archive");
}

#[test]
fn a_volume_of_another_archive_is_told_of_and_left_out() {
    let env = PcpEnv::new();
    // The process, the time of the start, the host.
    for place in [PROCESS + 3, 15, 24] {
        let dir = temp_dir();
        let (base, whole) = of_ten(&env, dir.path());
        change(&base, ".4", |bytes| bytes[place] ^= 1);
        let (checked, repaired, out) = repaired(&env, &base);
        assert_eq!((checked.count(Kind::Label), checked.findings.len()), (1, 1), "{checked:?}");
        assert!(checked.findings[0].message.starts_with("of another archive: version 2"), "{checked:?}");
        let foreign = repaired.left_out.iter().find(|left| left.loss == Loss::Foreign);
        assert_eq!((repaired.records, repaired.marks), (900, 1));
        assert_eq!(foreign.map(|foreign| foreign.count), Some(101));
        assert_eq!(repaired.left_out.len(), 1);
        assert_without_volume_4(&env, &out, &whole);
    }
}

#[test]
fn an_archive_is_what_most_of_its_files_say() {
    let env = PcpEnv::new();
    let dir = temp_dir();
    let (base, _) = of_ten(&env, dir.path());
    // The first volume, which is read first, is the foreign one.
    change(&base, ".0", |bytes| bytes[PROCESS + 3] ^= 1);
    let (checked, repaired, _) = repaired(&env, &base);
    assert_eq!((checked.count(Kind::Label), checked.findings.len()), (1, 1), "{checked:?}");
    assert!(checked.findings[0].file.ends_with("a.0"));
    assert!(repaired.records < 1001 && checked.records == repaired.records);
    change(&base, ".0", |bytes| bytes[PROCESS + 3] ^= 1);
    change(&base, ".meta", |bytes| bytes[PROCESS + 3] ^= 1);
    let checked = check(&base).expect("there");
    assert!(checked.findings.iter().any(|finding| finding.file.ends_with("a.meta")), "{checked:?}");
    assert_eq!(checked.count(Kind::Undescribed), 0, "nothing was read that could describe it");
    let error = repair(&base, &with(&base, "-again"), &mut |_| ControlFlow::Continue(()))
        .expect_err("nobody could read it");
    assert!(error.to_string().contains("its metadata is of another archive"), "{error}");
}

/// What is done to an archive.
type Lose = fn(&Path);

#[test]
fn what_was_lost_at_the_end_of_a_volume_holds_for_the_next() {
    let env = PcpEnv::new();
    // A record each, and in all volumes but the last one a counter that goes up.
    let values = [10, 20, 30, 5];
    let losses: [(&str, Lose); 5] = [
        ("nothing", |_| {}),
        ("cut off", |base| change(base, ".2", |bytes| bytes.truncate(LABEL + 20))),
        ("cut off between records", |base| change(base, ".2", |bytes| bytes.truncate(LABEL))),
        ("not a record", |base| change(base, ".2", |bytes| bytes[LABEL + 16..LABEL + 20].fill(0x7f))),
        ("missing", |base| fs::remove_file(with(base, ".2")).expect("there")),
    ];
    for (what, lose) in losses {
        let dir = temp_dir();
        let base = dir.path().join("a");
        counting(&base, 1, values);
        lose(&base);
        let (checked, repaired, out) = repaired(&env, &base);
        let is_whole = what == "nothing";
        assert_eq!(checked.count(Kind::Wrap), u64::from(is_whole), "{what}: {checked:?}");
        assert_eq!(repaired.marks, u64::from(!is_whole), "{what}");
        let anew = times(&env, &out);
        let expected: &[&str] =
            if is_whole { &["20", "21", "22", "23"] } else { &["20", "21", "mark", "23"] };
        let seconds: Vec<&str> = anew.iter().map(|time| time.get(6..8).unwrap_or(time)).collect();
        assert_eq!(seconds, expected, "{what}");
    }
}

#[test]
fn how_bad_an_archive_is_does_not_depend_on_what_there_is_room_to_tell() {
    const MANY: i32 = 12_000;
    let dir = temp_dir();
    let base = dir.path().join("a");
    let label = LabelInfo { host: "host".into(), zone: "UTC".into(), ..LabelInfo::default() };
    let mut writer = ArchiveWriter::create(&base, label, WriteOptions::default()).expect("nothing is there");
    writer.desc(&counter(PMID, INDOM), &["counts"]).expect("described once");
    let instances: Vec<Instance> = (0..MANY).map(|id| Instance { id, name: format!("i{id}") }).collect();
    writer.indom(at(0), INDOM, &instances);
    for (sec, value) in [9, 8, 7].into_iter().enumerate() {
        let mut fetched = Fetched::new();
        fetched.timestamp = at(sec as i64);
        fetched.begin_set(PMID);
        (0..MANY).for_each(|inst| fetched.push_value(inst, &Value::U32(value)).expect("a number"));
        fetched.end_set();
        writer.result(&fetched).expect("room for it");
    }
    writer.flush().expect("room for it");
    let checked = check(&base).expect("there");
    assert_eq!((checked.count(Kind::Wrap), checked.worst()), (MANY as u64, Some(Grade::Note)));
    assert_eq!((checked.findings.len(), checked.more()), (10_000, MANY as u64 - 10_000));
    assert_eq!(checked.findings[0].count, 2, "each went back twice");
    change(&base, ".0", |bytes| bytes.extend([0xff; 3]));
    let checked = check(&base).expect("there");
    assert_eq!((checked.count(Kind::Damage), checked.worst()), (1, Some(Grade::Error)));
    let of = |kind| checked.findings.iter().filter(|finding| finding.kind == kind).count();
    assert_eq!((of(Kind::Wrap), of(Kind::Damage)), (10_000, 1), "notes leave no error out");
}

#[test]
fn what_cannot_be_read_and_what_cannot_be_decompressed_differ() {
    let dir = temp_dir();
    let base = dir.path().join("a");
    counting(&base, 1, [1, 2, 3]);
    fs::remove_file(with(&base, ".1")).expect("there");
    fs::create_dir(with(&base, ".1")).expect("writable");
    let checked = check(&base).expect("there");
    assert_eq!((checked.count(Kind::Unreadable), checked.records), (1, 2), "{checked:?}");
    fs::remove_dir(with(&base, ".1")).expect("empty");
    counting(&with(&base, "b"), u64::MAX, 0..50_000);
    let packed = |program: &str| Command::new(program).arg(with(&base, "b.0")).status().expect("installed");
    assert!(packed("xz").success());
    change(&base, "b.0.xz", |bytes| bytes.truncate(bytes.len() / 2));
    let checked = check(&with(&base, "b")).expect("there");
    assert_eq!((checked.count(Kind::Unreadable), checked.count(Kind::Damage)), (0, 1), "{checked:?}");
    assert!(checked.findings.iter().any(|finding| finding.message.starts_with("it cannot be decompressed")));
}

#[test]
fn whole_records_in_front_of_a_cut_in_a_compressed_volume_are_all_written() {
    for (program, suffix) in [("xz", ".0.xz"), ("zstd", ".0.zst"), ("gzip", ".0.gz"), ("bzip2", ".0.bz2")] {
        let dir = temp_dir();
        let (base, plain) = (dir.path().join("a"), dir.path().join("plain"));
        // Numbers that do not compress well, so that the cut is in the middle.
        counting(&base, u64::MAX, (0..40_000_u32).map(|number| number.wrapping_mul(2_654_435_761)));
        fs::copy(with(&base, ".meta"), with(&plain, ".meta")).expect("copied");
        let packed = Command::new(program).arg("-q").arg(with(&base, ".0")).status().expect("installed");
        assert!(packed.success());
        let _ = fs::remove_file(with(&base, ".0"));
        change(&base, suffix, |bytes| bytes.truncate(bytes.len() * 2 / 3));
        // What the decompressor gives before it complains.
        let given = Command::new(program).arg("-dcq").arg(with(&base, suffix)).output().expect("installed");
        assert!(!given.status.success());
        fs::write(with(&plain, ".0"), given.stdout).expect("writable");
        let of = |base: &Path| {
            repair(base, &with(base, "-anew"), &mut |_| ControlFlow::Continue(()))
                .expect("most is whole")
                .records
        };
        let (records, expected) = (of(&base), of(&plain));
        assert!(records >= expected && expected > 10_000, "{program}: {records} records of {expected}");
        assert_eq!(check(&base).expect("there").records, records, "{program}");
    }
}

/// A record of an instance domain, type and all.
fn domain(is_change: bool, sec: i64, instances: &[(i32, Option<&[u8]>)]) -> Vec<u8> {
    let mut body = Vec::new();
    let time = at(sec);
    let words = [time.sec as u32, (time.sec >> 32) as u32, time.nsec, INDOM.0, instances.len() as u32];
    words.iter().for_each(|word| body.extend(word.to_be_bytes()));
    instances.iter().for_each(|(id, _)| body.extend(id.to_be_bytes()));
    let mut offset = 0_i32;
    for (_, name) in instances {
        body.extend(name.map_or(-1, |_| offset).to_be_bytes());
        offset += name.map_or(0, |name| name.len() as i32 + 1);
    }
    for name in instances.iter().filter_map(|(_, name)| *name) {
        body.extend(name);
        body.push(0);
    }
    let len = (body.len() as u32 + 12).to_be_bytes();
    [&len, &(if is_change { 6_u32 } else { 5 }).to_be_bytes(), body.as_slice(), &len].concat()
}

#[test]
fn domains_are_what_they_were_when_metadata_in_front_is_lost() {
    let env = PcpEnv::new();
    let dir = temp_dir();
    let base = dir.path().join("a");
    let label = LabelInfo { host: "host".into(), zone: "UTC".into(), ..LabelInfo::default() };
    let mut writer = ArchiveWriter::create(&base, label, WriteOptions::default()).expect("nothing is there");
    writer.desc(&counter(PMID, INDOM), &["counts"]).expect("described once");
    for sec in [0, 60] {
        let mut fetched = Fetched::new();
        fetched.timestamp = at(sec);
        fetched.begin_set(PMID);
        (1..4).for_each(|inst| fetched.push_value(inst, &Value::U32(inst as u32)).expect("a number"));
        fetched.end_set();
        writer.result(&fetched).expect("room for it");
    }
    writer.flush().expect("room for it");
    change(&base, ".meta", |bytes| {
        // What is changed below is lost.
        bytes.extend([0xee; 33]);
        bytes.extend(domain(true, 20, &[(1, Some(b"one")), (2, Some(b"tw\xff\xfe")), (9, None)]));
        bytes.extend(domain(true, 40, &[(1, None), (3, Some(b"three"))]));
        // This one is late: it stands behind what comes after it.
        bytes.extend(domain(true, 30, &[(2, None), (4, Some(b"fo\xf0r"))]));
        bytes.extend(domain(false, 50, &[(2, Some(b"two"))]));
    });
    let (checked, repaired, out) = repaired(&env, &base);
    assert_eq!(checked.count(Kind::Damage), 1, "{checked:?}");
    assert_eq!(repaired.metadata, checked.metadata);
    let mut archive = Archive::open(out.to_str().expect("a usual name")).expect("sound");
    let mut domain_at = |sec| {
        let instances = archive.instances(INDOM, at(sec)).ok()?;
        Some(instances.map(|(id, name)| format!("{id}{}", name.escape_ascii())).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(domain_at(10), None);
    assert_eq!(domain_at(25).as_deref(), Some("1one 2tw\\xff\\xfe"));
    assert_eq!(domain_at(35).as_deref(), Some("1one 4fo\\xf0r"));
    assert_eq!(domain_at(45).as_deref(), Some("3three 4fo\\xf0r"));
    assert_eq!(domain_at(55).as_deref(), Some("2two"));
    // PCP sees the same: it has no instance that was only taken away, and all the others.
    let dumped = env.run("pmdumplog", ["-i".as_ref(), out.as_os_str()] as [&OsStr; 2]);
    assert!(dumped.status.success(), "{dumped}");
    assert!(dumped.stdout.contains("three") && !dumped.stdout.contains("[9 "), "{dumped}");
}

#[test]
fn metadata_of_any_length_is_written() {
    let env = PcpEnv::new();
    let dir = temp_dir();
    let base = dir.path().join("a");
    counting(&base, u64::MAX, [1, 2]);
    let label = LabelInfo::default();
    let mut writer = ArchiveWriter::append(&base, label, WriteOptions::default()).expect("sound");
    let text = |number: u16| format!("{number} {}", "long ".repeat(200));
    let pmid = |number: u16| Pmid(PMID.0 + u32::from(number));
    for number in 1..1000_u16 {
        let desc = counter(pmid(number), InDom::NULL);
        writer.desc(&desc, &[format!("metric.m{number}")]).expect("described once");
        for level in [TextLevel::OneLine, TextLevel::Help] {
            writer.text(TextTarget::Metric(desc.pmid), level, &text(number));
        }
    }
    let mut fetched = Fetched::new();
    fetched.timestamp = at(9);
    fetched.begin_set(PMID);
    fetched.push_value(PM_IN_NULL, &Value::U32(3)).expect("a number");
    fetched.end_set();
    writer.result(&fetched).expect("room for it");
    writer.flush().expect("room for it");
    drop(writer);
    let (checked, repaired, out) = repaired(&env, &base);
    assert_eq!((repaired.metadata, checked.metadata), (2998, 2998));
    assert!(with(&base, ".meta").metadata().expect("there").len() > 2 << 20);
    let archive = Archive::open(out.to_str().expect("a usual name")).expect("sound");
    for number in [1, 500, 999] {
        let found = archive.text(TextTarget::Metric(pmid(number)), TextLevel::Help);
        assert_eq!(found, Ok(text(number)));
    }
}

/// The records of an archive as they are in its only volume.
fn records(base: &Path) -> (Vec<u8>, Vec<Vec<u8>>) {
    let bytes = fs::read(with(base, ".0")).expect("there");
    let (label, mut rest) = bytes.split_at(LABEL);
    let mut records = Vec::new();
    while let Some(word) = rest.first_chunk() {
        let (record, behind) = rest.split_at(u32::from_be_bytes(*word) as usize);
        records.push(record.to_vec());
        rest = behind;
    }
    (label.to_vec(), records)
}

/// An archive of so many records in so many runs that take turns.
fn interleaved(base: &Path, count: u32, runs: usize) {
    counting(base, u64::MAX, 0..count);
    let (label, records) = records(base);
    let of_run = |run: usize| records.iter().skip(run).step_by(runs).flatten().copied();
    let mut bytes = label;
    (0..runs).for_each(|run| bytes.extend(of_run(run)));
    fs::write(with(base, ".0"), bytes).expect("writable");
    fs::remove_file(with(base, ".index")).expect("there");
}

#[test]
fn runs_that_interleave_are_put_in_order_also_in_compressed_volumes() {
    let env = PcpEnv::new();
    for program in [None, Some("gzip"), Some("xz"), Some("zstd"), Some("bzip2")] {
        let dir = temp_dir();
        let base = dir.path().join("a");
        interleaved(&base, 3000, 5);
        if let Some(program) = program {
            let packed = Command::new(program).arg("-q").arg(with(&base, ".0")).status().expect("installed");
            assert!(packed.success());
            let _ = fs::remove_file(with(&base, ".0"));
        }
        let (checked, repaired, out) = repaired(&env, &base);
        assert_eq!((checked.count(Kind::Time), repaired.records, repaired.marks), (4, 3000, 0));
        assert_eq!(repaired.left_out, []);
        let anew = times(&env, &out);
        assert!(anew.is_sorted() && anew.len() == 3000);
        assert_eq!(check(&out).expect("there").findings.len(), 0);
    }
}

#[test]
fn records_in_more_stretches_than_are_followed_are_refused() {
    let dir = temp_dir();
    let base = dir.path().join("a");
    counting(&base, u64::MAX, 0..65_600);
    let (label, records) = records(&base);
    let backward: Vec<u8> = label.into_iter().chain(records.into_iter().rev().flatten()).collect();
    fs::write(with(&base, ".0"), backward).expect("writable");
    fs::remove_file(with(&base, ".index")).expect("there");
    let error =
        repair(&base, &with(&base, "-anew"), &mut |_| ControlFlow::Continue(())).expect_err("too many");
    assert!(matches!(error, RepairError::Runs { most: 65_536, .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 2, "nothing is left over");
}

#[test]
fn a_volume_of_another_archive_is_walked_through_by_its_own_label() {
    let dir = temp_dir();
    let base = dir.path().join("a");
    counting(&base, 1, [1, 2, 3]);
    // Of version 2, whose labels are shorter; its number is at byte 20 of the label.
    fs::copy(Path::new(SUITE).join("archives/ok-foo.0"), with(&base, ".1")).expect("copied");
    change(&base, ".1", |bytes| bytes[20..24].copy_from_slice(&1_u32.to_be_bytes()));
    let checked = check(&base).expect("there");
    assert_eq!((checked.count(Kind::Damage), checked.count(Kind::Label)), (0, 1), "{checked:?}");
    let repaired =
        repair(&base, &with(&base, "-anew"), &mut |_| ControlFlow::Continue(())).expect("something is whole");
    let foreign = repaired.left_out.iter().find(|left| left.loss == Loss::Foreign);
    assert_eq!((foreign.map(|left| left.count), repaired.records), (Some(9), 2));
}

#[test]
fn of_names_that_are_long_the_beginning_is_told() {
    let dir = temp_dir();
    let base = dir.path().join("a");
    let mut writer = ArchiveWriter::create(&base, LabelInfo::default(), WriteOptions::default())
        .expect("nothing is there");
    let long = vec!["component"; 100_000].join(".");
    writer.desc(&counter(PMID, InDom::NULL), &[&long]).expect("described once");
    for (sec, value) in [(0, 2), (1, 1)] {
        let mut fetched = Fetched::new();
        fetched.timestamp = at(sec);
        fetched.begin_set(PMID);
        fetched.push_value(PM_IN_NULL, &Value::U32(value)).expect("a number");
        fetched.end_set();
        writer.result(&fetched).expect("room for it");
    }
    writer.flush().expect("room for it");
    let checked = check(&base).expect("there");
    let [finding] = checked.findings.as_slice() else { panic!("{} findings", checked.findings.len()) };
    let told = format!("{}... ({PMID}): a counter went from 2 back to 1", &long[..256]);
    assert_eq!((finding.kind, &finding.message), (Kind::Wrap, &told));
}

#[test]
fn records_far_out_of_order_are_refused_rather_than_read_forever() {
    let dir = temp_dir();
    let base = dir.path().join("a");
    interleaved(&base, 60_000, 20);
    let out = with(&base, "-anew");
    let error = repair(&base, &out, &mut |_| ControlFlow::Continue(())).expect_err("too much");
    assert!(matches!(error, RepairError::Disorder { is_packed: false, .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 2, "nothing is left over");
}

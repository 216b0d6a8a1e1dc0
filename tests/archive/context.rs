//! Contexts on archives: what tools and fetch groups see of them, derived metrics included; archives that grow
//! while they are read; and archives with damage anywhere.

use std::fs;
use std::path::Path;

use jumpseat::archive::{Archive, Direction, Replay, ReplayMode, Step};
use jumpseat::client::{Context, ContextKind, Fetched, Mode};
use jumpseat::model::{PmError, Profile, Timestamp, ValueType};
use proptest::prelude::*;

use crate::archive_support::*;

fn copy(from: &str, to: &Path) -> String {
    for suffix in ["meta", "index", "0"] {
        fs::copy(format!("{from}.{suffix}"), to.join(format!("a.{suffix}"))).unwrap();
    }
    to.join("a").to_str().unwrap().to_owned()
}

/// Archive "dyninsts" has one record a second; its counters have the second as value.
#[test]
fn a_context_in_all_modes() {
    let mut context = Context::archive(&suite("archives/dyninsts")).unwrap();
    assert_eq!(context.kind(), ContextKind::Archive);
    let (start, end) = context.span().unwrap();
    assert_eq!((end.as_nanos() - start.as_nanos()) / 1_000_000_000, 19);
    let pmid = context.pmid("disk.dev.read").unwrap();
    let desc = context.desc(pmid).unwrap();
    let sda = context.instance(desc.indom, "sda").unwrap();
    let mut out = Fetched::new();
    let mut read = |context: &mut Context| -> Result<(Timestamp, Option<u64>), PmError> {
        context.fetch(&[pmid], &mut out).map_err(|error| error.code())?;
        let set = out.set(0).unwrap().values?;
        let value = set.iter().find(|(inst, _)| *inst == sda).map(|(_, value)| value);
        let value = value.map(|value| value.to_value(desc.value_type)?.convert(ValueType::U64));
        let value = value.transpose()?.map(|value| match value {
            jumpseat::model::Value::U64(value) => value,
            other => panic!("{other:?}"),
        });
        Ok((out.timestamp, value))
    };
    let first = read(&mut context).unwrap();
    assert_eq!(first.0, start);
    let second = read(&mut context).unwrap();
    assert!(second.0 > first.0);
    context.set_mode(Mode::Backward, Some(end)).unwrap();
    assert_eq!(read(&mut context).unwrap().0, end);
    assert!(read(&mut context).unwrap().0 < end);
    let half = Timestamp::from_nanos(start.as_nanos() + 500_000_000);
    context.set_mode(Mode::Interpolate { step: 1_000_000_000 }, Some(half)).unwrap();
    let mut samples = 0;
    loop {
        match read(&mut context) {
            Ok((time, _)) => assert_eq!(time.as_nanos(), half.as_nanos() + samples * 1_000_000_000),
            Err(error) => {
                assert_eq!(error, PmError::EOL);
                break;
            }
        }
        samples += 1;
    }
    assert_eq!(samples, 19);
    assert_eq!(context.set_mode(Mode::Live, None).unwrap_err().code(), PmError::MODE);
    assert_eq!(context.store(&[]).unwrap_err().code(), PmError::NOTHOST);
}

#[test]
fn an_archive_that_grows_is_read_on() {
    let dir = tempfile::tempdir().unwrap();
    let name = copy(&suite("archives/ok-foo"), dir.path());
    let volume = dir.path().join("a.0");
    let whole = fs::read(&volume).unwrap();
    let all = {
        let mut archive = Archive::open(&name).unwrap();
        record_lines(&mut archive, Direction::Forward)
    };
    fs::remove_file(dir.path().join("a.index")).unwrap();
    // Cut where a logger might be: in the middle of a record.
    fs::write(&volume, &whole[..whole.len() / 2 + 2]).unwrap();
    let mut archive = Archive::open(&name).unwrap();
    let (mut at, mut lines) = (archive.first(), Vec::new());
    let mut read_on = |archive: &mut Archive, lines: &mut Vec<String>| {
        while let Ok(Some(Step::Record(place, after))) = archive.next(at) {
            lines.push(record_line(&archive.record(place).unwrap()));
            at = after;
        }
    };
    read_on(&mut archive, &mut lines);
    let half = lines.len();
    assert!(half > 0 && half + 1 < all.len());
    assert!(!archive.refresh().unwrap());
    let end = archive.end().unwrap();
    fs::write(&volume, &whole).unwrap();
    assert!(archive.refresh().unwrap());
    read_on(&mut archive, &mut lines);
    assert_eq!(lines, all[..all.len() - 1]);
    assert!(archive.end().unwrap() > end);
}

#[test]
fn compressed_members_of_every_kind_are_as_the_plain_ones() {
    let name = suite("archives/ok-mv-bigbin");
    let plain = |direction| record_lines(&mut Archive::open(&name).unwrap(), direction);
    let (forward, backward) = (plain(Direction::Forward), plain(Direction::Backward));
    for (program, suffix) in
        [("xz", "xz"), ("bzip2", "bz2"), ("gzip", "gz"), ("zstd", "zst"), ("lzma", "lzma")]
    {
        let dir = tempfile::tempdir().unwrap();
        for part in ["meta", "index"].map(str::to_owned).into_iter().chain((0..10).map(|n| n.to_string())) {
            let to = fs::File::create(dir.path().join(format!("a.{part}.{suffix}"))).unwrap();
            let mut packer = std::process::Command::new(program);
            let done = packer.arg("-c").arg(format!("{name}.{part}")).stdout(to).status();
            assert!(done.unwrap_or_else(|error| panic!("{program}: {error}")).success());
        }
        let mut archive = Archive::open(dir.path().join("a").to_str().unwrap()).unwrap();
        assert_eq!(record_lines(&mut archive, Direction::Forward), forward, "{program}");
        assert_eq!(record_lines(&mut archive, Direction::Backward), backward, "{program}");
    }
}

#[test]
fn a_directory_is_one_series_with_its_gaps() {
    let mut archive = Archive::open(&suite("archives/multi")).unwrap();
    let forward = record_lines(&mut archive, Direction::Forward);
    let gaps = forward.iter().filter(|line| line.ends_with(" 0 cbf29ce484222325")).count();
    assert!(gaps >= 3, "{gaps}");
    let mut oracle = CPeer::start(ORACLE);
    let list =
        ["11.44", "11.46", "11.50", "11.57"].map(|time| suite(&format!("archives/multi/20150508.{time}")));
    oracle.ask(&format!("open {}", list.join(",")));
    for line in &forward {
        assert_eq!(oracle.ask("next"), *line);
    }
}

/// Everything that can be asked of an archive; only panics and endless loops are wrong.
fn read_everything(name: &str) {
    let Ok(archive) = Archive::open(name) else { return };
    let pmids = archive.pmids();
    let (start, mut replay) = (archive.label().start, Replay::new(archive));
    let archive = replay.archive_mut();
    let end = archive.end().unwrap_or(start);
    for direction in [Direction::Forward, Direction::Backward] {
        assert!(record_lines(archive, direction).len() < 100_000);
    }
    for indom in archive.indoms() {
        let _ = archive.instances_ever(indom);
        let _ = archive.instances(indom, end).map(Iterator::count);
        assert!(archive.indom_records(indom).count() < 100_000);
    }
    let middle = Timestamp::from_nanos((start.as_nanos() + end.as_nanos()) / 2);
    let mut out = Fetched::new();
    for mode in [
        ReplayMode::Forward,
        ReplayMode::Backward,
        ReplayMode::Interpolate(500_000_000),
        ReplayMode::Interpolate(-700_000_000),
    ] {
        replay.set_mode(mode, Some(middle));
        for _ in 0..20 {
            let _ = replay.fetch(&pmids, &Profile::default(), &mut out);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes changed, cut off and inserted in any file.
    #[test]
    fn damage_does_no_harm(
        archive in 0..4_usize,
        damage in prop::collection::vec((0..3_usize, any::<prop::sample::Index>(), any::<u8>(), 0..5_u8), 1..6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let from = ["archives/dyninsts", "archives/changeinst", "archives/omnibus_v3", "archives/eventrec"][archive];
        let name = copy(&suite(from), dir.path());
        for (file, at, byte, kind) in damage {
            let path = dir.path().join(["a.meta", "a.index", "a.0"][file]);
            let mut bytes = fs::read(&path).unwrap();
            if bytes.is_empty() {
                continue;
            }
            let at = at.index(bytes.len());
            match kind {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, byte),
                2 => bytes[at] = 0xff,
                _ => bytes[at] = byte,
            }
            fs::write(&path, bytes).unwrap();
        }
        read_everything(&name);
    }
}

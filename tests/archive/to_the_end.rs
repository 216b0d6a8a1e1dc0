//! Archives read to their end, as the library's users do: the end is no error, damage is one, and nothing is left out.

use std::collections::BTreeMap;
use std::fs;

use jumpseat::client::group::{FetchGroup, Scale};
use jumpseat::client::{Context, EventReader, EventRecord, Mode};
use jumpseat::model::{PmError, Timestamp};
use support::{PrivatePmcd, temp_dir};

use crate::archive_support::suite;
use crate::seat::{JUMPSEAT, Seat};

const SECOND: i64 = 1_000_000_000;

/// Where the first `count` records of a volume end, its label among them.
fn end_of_record(volume: &[u8], count: usize) -> usize {
    (0..count).fold(0, |at, _| at + u32::from_be_bytes(volume[at..at + 4].try_into().unwrap()) as usize)
}

fn later(time: Timestamp, nanos: i64) -> Timestamp {
    Timestamp::from_nanos(time.as_nanos() + i128::from(nanos))
}

/// Archive "dyninsts" has one record a second, eighteen of them with values of this metric.
#[test]
fn samples_of_an_archive_end_with_it_in_every_mode() {
    let mut context = Context::archive(&suite("archives/dyninsts")).unwrap();
    let pmid = context.pmid("disk.dev.read").unwrap();
    let (start, end) = context.span().unwrap();
    let mut times = |mode, origin| -> Vec<Timestamp> {
        context.set_mode(mode, Some(origin)).unwrap();
        let samples: Result<Vec<_>, _> = context.samples(&[pmid]).collect();
        let samples = samples.unwrap();
        assert!(samples.iter().all(|sample| sample.set(0).unwrap().values.is_ok()));
        samples.iter().map(|sample| sample.timestamp).collect()
    };
    let forward = times(Mode::Forward, start);
    assert_eq!((forward.len(), forward[0], *forward.last().unwrap()), (18, start, end));
    let mut backward = times(Mode::Backward, end);
    backward.reverse();
    assert_eq!(backward, forward);
    let steps = Mode::Interpolate { step: SECOND };
    assert_eq!(times(steps, later(start, SECOND / 2)).len(), 19);
    // From before the start: the archive has not ended there. A step that does not divide the way, too.
    let before = later(start, -3 * 86_400 * SECOND - 7);
    let entered = times(steps, before);
    assert!((start..later(start, SECOND)).contains(&entered[0]), "{} {start}", entered[0]);
    assert_eq!((entered[0].as_nanos() - before.as_nanos()) % i128::from(SECOND), 0);
    assert!(entered.len() >= 18 && *entered.last().unwrap() <= end, "{entered:?}");
    let back = times(Mode::Interpolate { step: -SECOND }, later(end, 86_400 * SECOND));
    assert_eq!((back[0], back.len()), (end, 20));
    assert_eq!(times(steps, later(end, SECOND)), []);
    // Steps so long that none is within.
    assert_eq!(times(Mode::Interpolate { step: 86_400 * SECOND }, later(start, -SECOND)), []);

    context.set_mode(Mode::Interpolate { step: 0 }, Some(start)).unwrap();
    let refused: Vec<_> = context.samples(&[pmid]).map(|sample| sample.unwrap_err().code()).collect();
    assert_eq!(refused, [PmError::MODE]);
}

#[test]
fn a_group_reads_to_the_end_and_on_when_there_is_more() {
    let dir = temp_dir();
    let name = dir.path().join("a").display().to_string();
    let from = suite("archives/dyninsts");
    for part in ["meta", "index", "0"] {
        fs::copy(format!("{from}.{part}"), format!("{name}.{part}")).unwrap();
    }
    fs::remove_file(format!("{name}.index")).unwrap();
    let whole = fs::read(format!("{from}.0")).unwrap();
    fs::write(format!("{name}.0"), &whole[..end_of_record(&whole, 10)]).unwrap();

    let mut group = FetchGroup::new(Context::archive(&name).unwrap());
    let reads = group.item::<u64>("disk.dev.read", Some("sda"), Scale::Instant).unwrap();
    let half: Result<Vec<_>, _> = group.samples(|group| group.value(reads).ok()).collect();
    let half = half.unwrap();
    assert!((5..10).contains(&half.len()) && half[0].is_some(), "{half:?}");
    assert!(!group.fetch_next().unwrap());
    // In the middle of a record, which is there when it is whole.
    fs::write(format!("{name}.0"), &whole[..end_of_record(&whole, 10) + 20]).unwrap();
    assert_eq!(group.fetch_next().unwrap_err().code(), PmError::LOGREC);
    assert_eq!(group.value(reads), Err(PmError::VALUE));
    fs::write(format!("{name}.0"), &whole).unwrap();
    assert!(group.context_mut().refresh().unwrap());
    let rest: Result<Vec<_>, _> = group.samples(|group| group.timestamp()).collect();
    assert_eq!(half.len() + rest.unwrap().len(), 18);
}

/// A `while is_ok()` would have taken this for the end.
#[test]
fn damage_is_an_error_and_the_last_item() {
    let dir = temp_dir();
    let name = dir.path().join("a").display().to_string();
    let from = suite("archives/dyninsts");
    for part in ["meta", "0"] {
        fs::copy(format!("{from}.{part}"), format!("{name}.{part}")).unwrap();
    }
    let mut volume = fs::read(format!("{name}.0")).unwrap();
    let at = end_of_record(&volume, 5);
    volume[at..at + 4].copy_from_slice(&[0, 0, 0, 9]);
    fs::write(format!("{name}.0"), volume).unwrap();

    let mut context = Context::archive(&name).unwrap();
    let pmid = context.pmid("disk.dev.read").unwrap();
    let outcomes = |items: Vec<Result<_, jumpseat::client::ClientError>>| -> Vec<Result<(), PmError>> {
        items.into_iter().map(|item| item.map(drop).map_err(|error| error.code())).collect()
    };
    let records = outcomes(context.records().collect());
    let (last, sound) = records.split_last().unwrap();
    assert_eq!((sound.len(), *last), (4, Err(PmError::LOGREC)), "{records:?}");
    assert!(sound.iter().all(Result::is_ok));
    let mut again = Context::archive(&name).unwrap();
    let samples = outcomes(again.samples(&[pmid]).collect());
    assert_eq!(samples, records);
    let mut group = FetchGroup::new(Context::archive(&name).unwrap());
    group.item::<u64>("disk.dev.read", Some("sda"), Scale::Instant).unwrap();
    let sampled: Vec<_> = group.samples(|_| ()).map(|item| item.map_err(|error| error.code())).collect();
    assert_eq!(sampled, records);
}

#[test]
fn a_source_that_lives_has_no_end() {
    let pmcd = PrivatePmcd::with([]).start();
    let mut context = Context::host(&pmcd.unix()).unwrap();
    let pmid = context.pmid("pmcd.version").unwrap();
    let samples: Vec<_> = context.samples(&[pmid]).map(|sample| sample.unwrap_err().code()).collect();
    assert_eq!(samples, [PmError::NOTARCHIVE]);
    let records: Vec<_> = context.records().map(|record| record.unwrap_err().code()).collect();
    assert_eq!(records, [PmError::NOTARCHIVE]);
    let refused = context.event_records("pmcd.version").err().unwrap();
    assert_eq!(refused.code(), PmError::NOTARCHIVE);
    let refused = EventReader::new(&mut context, "pmcd.version").err().unwrap();
    assert_eq!(refused.code(), PmError::TYPE);
}

fn told(record: &EventRecord) -> (String, BTreeMap<String, String>) {
    let short = |name: &str| name.trim_start_matches("jumpseat.field.").to_owned();
    let fields = record.fields.iter().map(|field| (short(&field.name), field.value.to_string()));
    (record.instance.as_deref().unwrap_or_default().to_owned(), fields.collect())
}

/// Live from an agent, and from the archive that was recorded meanwhile: the same records with the same names.
#[test]
fn event_records_have_names_live_and_from_archives() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let mut context = Context::host(&endpoint.host()).unwrap();
    let mut reader = EventReader::new(&mut context, "jumpseat.event.highres_records").unwrap();
    assert_eq!(reader.fetch(&mut context).unwrap(), []);
    let base = dir.path().join("archive");
    let metrics = ["jumpseat.event.highres_records"];
    let record = |append: bool| {
        let options = if append { &["--append"][..] } else { &[] };
        let host = endpoint.host();
        let mut words = vec!["record", "-h", &host, "-t", "20msec", "-s", "3"];
        words.extend(options);
        words.push(base.to_str().unwrap());
        words.extend(metrics);
        support::PcpEnv::new().run(JUMPSEAT, words).ok();
    };
    record(false);
    for n in 0..3 {
        let line = format!("{{\"type\":\"tick\",\"message\":\"number {n}\",\"n\":{n},\"half\":{}.5}}\n", n);
        seat.feed(["--source", "clock"], &line).ok();
    }
    seat.feed(["--source", "other"], "{\"message\":\"hello\"}\n").ok();
    record(true);

    let live = reader.fetch(&mut context).unwrap();
    assert_eq!(live.len(), 4);
    let one = live.iter().find(|record| record.get("n").is_some_and(|n| n.to_string() == "1")).unwrap();
    assert_eq!(one.instance.as_deref(), Some("clock"));
    assert_eq!(one.get("message").unwrap().to_string(), "number 1");
    assert_eq!(one.get("jumpseat.field.half").unwrap().to_string(), "1.5");
    assert_eq!(one.get("essage"), None, "only whole words of a name");
    assert_eq!(reader.fetch(&mut context).unwrap(), []);

    let mut archive = Context::archive(base.to_str().unwrap()).unwrap();
    let recorded: Result<Vec<_>, _> =
        archive.event_records("jumpseat.event.highres_records").unwrap().collect();
    let recorded = recorded.unwrap();
    assert_eq!(recorded.iter().map(told).collect::<Vec<_>>(), live.iter().map(told).collect::<Vec<_>>());
    assert!(recorded.iter().zip(&live).all(|(a, b)| a.time == b.time && a.flags == b.flags));
    archive.set_mode(Mode::Interpolate { step: SECOND }, None).unwrap();
    let refused = archive.event_records("jumpseat.event.highres_records").err().unwrap();
    assert_eq!(refused.code(), PmError::MODE);
}

//! Archives whose bytes mean harm: every file, plain and compressed, arbitrary or with real bytes changed and lengths
//! that promise gigabytes. Reading them neither panics nor takes memory for what is not there.

use std::fs;
use std::io::Write;
use std::path::Path;

use jumpseat::archive::{Archive, Direction, Replay, ReplayMode, Step};
use jumpseat::model::{Profile, Timestamp};
use jumpseat::pdu::Fetched;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use support::alloc::most_taken;

/// Memory that reading one of the small archives here may take: windows of some files, the decoder's and the pieces
/// of one compressed member, and what interpolation holds.
const ROOM: usize = 48 << 20;
const PARTS: [&str; 3] = ["meta", "index", "0"];
const SUITE: &str = "/var/lib/pcp/testsuite/archives";
const ARCHIVES: [&str; 4] = ["dyninsts", "changeinst", "omnibus_v3", "eventrec"];

/// What is done to a file.
#[derive(Clone, Debug)]
enum Damage {
    Cut,
    Byte(u8),
    /// A word that may be a length or a number.
    Word(u32),
    Insert(Vec<u8>),
    /// Nothing behind this place is as it was.
    Noise(Vec<u8>),
    /// Part of it once more.
    Again,
}

fn damage() -> impl Strategy<Value = Damage> {
    let words = prop::sample::select(vec![
        0,
        1,
        2,
        7,
        8,
        9,
        20,
        0x7f,
        0xff,
        0xffff,
        0xff_ffff,
        0x7fff_fff0,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_fff0,
        u32::MAX,
    ]);
    prop_oneof![
        Just(Damage::Cut),
        any::<u8>().prop_map(Damage::Byte),
        words.prop_map(Damage::Word),
        any::<u32>().prop_map(Damage::Word),
        prop::collection::vec(any::<u8>(), 1..40).prop_map(Damage::Insert),
        prop::collection::vec(any::<u8>(), 1..400).prop_map(Damage::Noise),
        Just(Damage::Again),
    ]
}

fn spoil(bytes: &mut Vec<u8>, at: Index, damage: &Damage) {
    let at = if bytes.is_empty() { 0 } else { at.index(bytes.len()) };
    let over = |bytes: &mut [u8], at: usize, new: &[u8]| {
        bytes.iter_mut().skip(at).zip(new).for_each(|(byte, new)| *byte = *new);
    };
    match damage {
        Damage::Cut => bytes.truncate(at),
        Damage::Byte(byte) => over(bytes, at, &[*byte]),
        // Nearly all fields of the metadata and the volumes are multiples of four from the start of a record.
        Damage::Word(word) => over(bytes, at & !3, &word.to_be_bytes()),
        Damage::Insert(new) => drop(bytes.splice(at..at, new.iter().copied())),
        Damage::Noise(new) => {
            bytes.truncate(at);
            bytes.extend_from_slice(new);
        }
        Damage::Again => bytes.extend_from_within(at / 2..at),
    }
}

/// Asks everything of an archive; its answers are of no interest.
fn read_everything(name: &str) {
    let Ok(archive) = Archive::open(name) else { return };
    let (pmids, start, mut replay) = (archive.pmids(), archive.label().start, Replay::new(archive));
    let archive = replay.archive_mut();
    let end = archive.end().unwrap_or(start);
    let mut steps = 0;
    for direction in [Direction::Forward, Direction::Backward] {
        let mut at = match direction {
            Direction::Forward => archive.first(),
            Direction::Backward => archive.last().unwrap_or(archive.first()),
        };
        while let Ok(Some(step)) = match direction {
            Direction::Forward => archive.next(at),
            Direction::Backward => archive.previous(at),
        } {
            steps += 1;
            assert!(steps < 200_000, "no end of {name}");
            at = match step {
                Step::Gap(_, after) => after,
                Step::Record(place, after) => {
                    if let Ok(record) = archive.record(place) {
                        let values =
                            record.sets().flat_map(|set| set.values).flat_map(|values| values.iter());
                        assert!(values.count() < 1_000_000);
                    }
                    after
                }
            };
        }
    }
    for indom in archive.indoms() {
        let _ = archive.instances_ever(indom);
        let _ = archive.instances(indom, end).map(Iterator::count);
        assert!(archive.indom_records(indom).count() < 100_000);
    }
    for pmid in &pmids {
        let _ = archive.names_of(*pmid);
    }
    let _ = archive.leaves("");
    let middle = Timestamp::from_nanos((start.as_nanos() + end.as_nanos()) / 2);
    let mut out = Fetched::new();
    for mode in [
        ReplayMode::Forward,
        ReplayMode::Backward,
        ReplayMode::Interpolate(500_000_000),
        ReplayMode::Interpolate(-700_000_000),
    ] {
        replay.set_mode(mode, Some(middle));
        for _ in 0..10 {
            let _ = replay.fetch(&pmids, &Profile::default(), &mut out);
        }
    }
    let _ = replay.refresh();
}

/// Reads the archive "a" in a directory. The most memory that took.
fn peak(dir: &Path) -> usize {
    most_taken(|| read_everything(dir.join("a").to_str().expect("a path of ours")))
}

fn sound(archive: &str) -> [Vec<u8>; 3] {
    PARTS.map(|part| {
        let path = format!("{SUITE}/{archive}.{part}");
        fs::read(&path).unwrap_or_else(|error| {
            panic!("{path}: {error}. Install PCP's test suite (Debian: pcp-testsuite)")
        })
    })
}

/// Writes a member as it is, or compressed, and then damaged again if that is wanted.
fn put(dir: &Path, part: &str, bytes: &[u8], packing: usize, again: Option<(Index, &Damage)>) {
    let (suffix, mut packed) = match packing {
        1 => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).map(|packed| (".gz", packed))
        }
        2 => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
            encoder.write_all(bytes).and_then(|()| encoder.finish()).map(|packed| (".xz", packed))
        }
        3 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).map(|packed| (".bz2", packed))
        }
        4 => zstd::encode_all(bytes, 1).map(|packed| (".zst", packed)),
        _ => Ok(("", bytes.to_vec())),
    }
    .expect("memory takes everything");
    if let Some((at, damage)) = again {
        spoil(&mut packed, at, damage);
    }
    fs::write(dir.join(format!("a.{part}{suffix}")), packed).expect("the disk has room");
}

// One test: the counters are the whole process's.
#[test]
fn hostile_bytes_do_no_harm() {
    let originals = ARCHIVES.map(sound);
    lengths_that_promise_gigabytes(&originals[0]);
    // The same cases in each run.
    let runner = |cases| {
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
    };
    let wounds = prop::collection::vec((0..3_usize, any::<Index>(), damage()), 1..5);
    let packed = (0..9_usize, 0..3_usize, any::<Index>(), damage());
    runner(400)
        .run(&(0..ARCHIVES.len(), wounds, packed), |(archive, wounds, (packing, part, at, damage))| {
            let dir = tempfile::tempdir()?;
            let mut files = originals[archive].clone();
            for (file, at, damage) in &wounds {
                spoil(&mut files[*file], *at, damage);
            }
            // Half of them are plain; of the others, one member is packed and damaged as a packed file, too.
            for (number, name) in PARTS.iter().enumerate() {
                let packing = if number == part { packing } else { 0 };
                let again = (packing > 0 && at.index(2) == 0).then_some((at, &damage));
                put(dir.path(), name, &files[number], packing, again);
            }
            let peak = peak(dir.path());
            prop_assert!(peak < ROOM, "{peak} bytes");
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    // Sound labels in front of anything at all.
    runner(150)
        .run(&prop::array::uniform3(prop::collection::vec(any::<u8>(), 0..600)), |noise| {
            let dir = tempfile::tempdir()?;
            for ((part, original), noise) in PARTS.iter().zip(&originals[0]).zip(&noise) {
                let bytes = [&original[..132], noise].concat();
                put(dir.path(), part, &bytes, 0, None);
            }
            let peak = peak(dir.path());
            prop_assert!(peak < ROOM, "{peak} bytes");
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Each word of the first records in each file, replaced by lengths of nearly 2 and 4 GiB.
fn lengths_that_promise_gigabytes(original: &[Vec<u8>; 3]) {
    let label = 132;
    for (number, bytes) in original.iter().enumerate() {
        for at in (label..bytes.len().min(label + 400)).step_by(4) {
            for word in [0x7fff_fff0_u32, u32::MAX] {
                let dir = tempfile::tempdir().expect("a directory can be made");
                for (other, part) in PARTS.iter().enumerate() {
                    let mut bytes = original[other].clone();
                    if other == number {
                        bytes[at..].iter_mut().zip(word.to_be_bytes()).for_each(|(byte, new)| *byte = new);
                    }
                    put(dir.path(), part, &bytes, 0, None);
                }
                let peak = peak(dir.path());
                assert!(peak < ROOM, "{word:#x} at {at} of {}: {peak} bytes", PARTS[number]);
            }
        }
    }
}

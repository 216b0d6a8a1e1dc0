//! An archive of PCP's test suite of which the fuzzer makes one file.

#![allow(dead_code, reason = "each target makes one of the files")]

use std::fs;
use std::path::{Path, PathBuf};

use jumpseat::archive::{Archive, Direction, Replay, ReplayMode, Step};
use jumpseat::model::{Profile, Timestamp};
use jumpseat::pdu::Fetched;

const SOUND: &str = "/var/lib/pcp/testsuite/archives/dyninsts";

/// What is done with the fuzzer's bytes.
#[derive(Clone, Copy, PartialEq)]
pub enum Member {
    /// The label of the volume; its records stay.
    Label,
    Metadata,
    Index,
    /// Records; the label stays.
    Volume,
}

/// Reads all there is of the archive, in all ways.
pub fn read(member: Member, data: &[u8]) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    walk(&make(dir.path(), member, data));
}

/// Makes the archive; its name.
pub fn make(dir: &Path, member: Member, data: &[u8]) -> PathBuf {
    for suffix in ["meta", "index", "0"] {
        let mut bytes = fs::read(format!("{SOUND}.{suffix}")).unwrap_or_else(|error| {
            panic!("{SOUND}.{suffix}: {error}. Install PCP's test suite (pcp-testsuite)")
        });
        let label = label_len(&bytes);
        match (member, suffix) {
            (Member::Label, "0") => bytes.splice(..label, data.iter().copied()).for_each(drop),
            (Member::Volume, "0") | (Member::Metadata, "meta") | (Member::Index, "index") => {
                bytes.splice(label.., data.iter().copied()).for_each(drop);
            }
            _ => {}
        }
        fs::write(dir.join(format!("a.{suffix}")), bytes).expect("room for the archive");
    }
    dir.join("a")
}

/// The first record of each file.
fn label_len(bytes: &[u8]) -> usize {
    let len = bytes.first_chunk().map_or(0, |word| u32::from_be_bytes(*word)) as usize;
    len.min(bytes.len())
}

fn walk(name: &Path) {
    let Ok(mut archive) = Archive::open(name.to_str().expect("temporary paths are UTF-8")) else { return };
    let start = archive.label().start;
    let end = archive.end().unwrap_or(start);
    let mut at = archive.first();
    while let Ok(Some(step)) = archive.next(at) {
        at = match step {
            Step::Gap(_, after) => after,
            Step::Record(place, after) => {
                if let Ok(record) = archive.record(place) {
                    let _ = record
                        .sets()
                        .filter_map(|set| set.values.ok())
                        .map(|values| values.iter().count())
                        .sum::<usize>();
                }
                after
            }
        };
    }
    let _ = archive.seek(end, Direction::Backward);
    for indom in archive.indoms() {
        let _ = archive.instances_ever(indom);
        let _ = archive.instances(indom, end).map(Iterator::count);
    }
    let pmids = archive.pmids();
    let mut replay = Replay::new(archive);
    let mut out = Fetched::new();
    let middle = Timestamp::from_nanos((start.as_nanos() + end.as_nanos()) / 2);
    for mode in [
        ReplayMode::Forward,
        ReplayMode::Backward,
        ReplayMode::Interpolate(500_000_000),
        ReplayMode::Interpolate(-700_000_000),
    ] {
        replay.set_mode(mode, Some(middle));
        for _ in 0..5 {
            let _ = replay.fetch(&pmids, &Profile::default(), &mut out);
        }
    }
}

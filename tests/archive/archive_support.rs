//! What the archive tests share: the archives of PCP's test suite, and libpcp as an oracle for them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use jumpseat::archive::{Archive, Direction, Record, Step};
use jumpseat::model::{InDom, LabelSet, Pmid, Timestamp};
use jumpseat::pdu::{SetRef, ValueRef};

pub(crate) use support::CPeer;

pub(crate) const ORACLE: &str = "tests/c/archive_oracle.c";
const SUITE: &str = "/var/lib/pcp/testsuite";

/// libpcp to compare archives with: the installed one, or that of the PCP where the command in
/// `JUMPSEAT_ARCHIVE_PREFIX` runs others (in a container, say). That must see this repository, the target directory and
/// PCP's test suite under the same paths.
pub(crate) fn oracle() -> CPeer {
    CPeer::start_behind(&std::env::var("JUMPSEAT_ARCHIVE_PREFIX").unwrap_or_default(), ORACLE)
}

/// The base names of all archives in a directory of PCP's test suite, sorted.
///
/// # Panics
/// If it is not installed.
pub(crate) fn archives(directory: &str) -> Vec<String> {
    let directory = Path::new(SUITE).join(directory);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| {
        panic!("{}: {error}. Install PCP's test suite (Debian: pcp-testsuite)", directory.display())
    });
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let path: PathBuf = entry.unwrap().path();
            let path = path.to_str().unwrap().to_owned();
            let plain = [".xz", ".bz2", ".gz", ".zst"].iter().find_map(|suffix| path.strip_suffix(suffix));
            Some(plain.unwrap_or(&path).strip_suffix(".meta")?.to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    assert!(!names.is_empty(), "{} has no archives", directory.display());
    names
}

/// The `number`th of `of` equal parts of a directory's archives, for tests that run at the same time.
pub(crate) fn portion(directory: &str, number: usize, of: usize) -> Vec<String> {
    archives(directory).into_iter().skip(number - 1).step_by(of).collect()
}

/// The whole suite.
pub(crate) fn all_archives() -> Vec<String> {
    ["archives", "badarchives", "archives/multi", "archives/multi-xz", "archives/multi-xz-1k"]
        .into_iter()
        .chain(["archives/multi-corrupted"])
        .flat_map(archives)
        .collect()
}

/// A name below the test suite.
pub(crate) fn suite(name: &str) -> String {
    format!("{SUITE}/{name}")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub(crate) fn time(at: Timestamp) -> String {
    format!("{}.{:09}", at.sec, at.nsec)
}

/// A record as the oracle prints it: time, number of metrics, hash of the rest.
pub(crate) fn record_line(record: &Record<'_>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |word: u32| hash = (hash ^ u64::from(word)).wrapping_mul(0x100_0000_01b3);
    let number = |bytes: &[u8]| u32::from_be_bytes(*bytes.first_chunk().unwrap_or(&[0; 4]));
    for set in record.sets() {
        add(set.pmid.0);
        let values = match set.values {
            Err(error) => {
                add(error.0 as u32);
                continue;
            }
            Ok(values) => values,
        };
        add(values.len() as u32);
        for (inst, value) in values.iter() {
            add(inst as u32);
            match value {
                ValueRef::InSitu(word) => add(u32::from_be_bytes(word)),
                ValueRef::Block(block) => {
                    add(number(block));
                    let data = &block[4..];
                    match block[0] {
                        2 | 3 | 5 => {
                            data.first_chunk::<8>().unwrap_or(&[0; 8]).chunks(4).for_each(|w| add(number(w)))
                        }
                        4 | 9 | 10 => add(number(data)),
                        _ => {
                            let (words, rest) = data.as_chunks::<4>();
                            words.iter().for_each(|word| add(u32::from_be_bytes(*word)));
                            if !rest.is_empty() {
                                let mut word = [0; 4];
                                word[..rest.len()].copy_from_slice(rest);
                                add(u32::from_be_bytes(word));
                            }
                        }
                    }
                }
            }
        }
    }
    format!("{} {} {hash:016x}", time(record.timestamp), record.metrics())
}

/// A block as the oracle prints it.
pub(crate) fn block_text(block: &[u8]) -> String {
    let data = &block[4..];
    let text = match block[0] {
        2 | 3 | 5 => hex(data.first_chunk::<8>().unwrap_or(&[0; 8])),
        4 => hex(data.first_chunk::<4>().unwrap_or(&[0; 4])),
        9 | 10 => u32::from_be_bytes(*data.first_chunk().unwrap_or(&[0; 4])).to_string(),
        _ => hex(data),
    };
    format!("{}/{}/{text}", block[0], block.len())
}

/// A value set of a fetch as the oracle prints it.
pub(crate) fn set_text(set: &SetRef<'_>) -> String {
    let mut text = format!("{}:", set.pmid.0);
    match set.values {
        Err(error) => write!(text, "{}", error.0).unwrap(),
        Ok(values) => {
            write!(text, "{}", values.len()).unwrap();
            for (inst, value) in values.iter() {
                let value = match value {
                    ValueRef::InSitu(word) => hex(&word),
                    ValueRef::Block(block) => block_text(block),
                };
                write!(text, ",{inst}={value}").unwrap();
            }
        }
    }
    text
}

pub(crate) fn labels_line(sets: &[LabelSet]) -> String {
    let mut line = sets.len().to_string();
    for set in sets {
        match &set.labels {
            Err(error) => write!(line, " {}:{}:", set.inst, error.0).unwrap(),
            Ok(labels) => {
                write!(line, " {}:{}:", set.inst, labels.len()).unwrap();
                for label in labels {
                    let (name, value) = (hex(label.name.as_bytes()), hex(label.value.as_bytes()));
                    write!(line, "{name}={value}/{},", label.flags.0).unwrap();
                }
            }
        }
    }
    line
}

pub(crate) fn instances_line<'a>(instances: impl Iterator<Item = (i32, &'a [u8])>) -> String {
    let (mut line, mut count) = (String::new(), 0);
    for (id, name) in instances {
        write!(line, " {id}:{}", hex(name)).unwrap();
        count += 1;
    }
    format!("{count}{line}")
}

/// A descriptor and its names as the oracle prints them.
pub(crate) fn desc_line(archive: &Archive, pmid: Pmid) -> String {
    let desc = archive.desc(pmid).unwrap();
    let units = desc.units;
    let mut line = format!(
        "{} {} {} {}.{}.{}.{}.{}.{} ",
        desc.value_type.code(),
        desc.indom.0,
        desc.semantics.code(),
        units.dim_space,
        units.dim_time,
        units.dim_count,
        units.scale_space,
        units.scale_time,
        units.scale_count
    );
    archive.names_of(pmid).iter().for_each(|name| line += &format!("{name},"));
    line.trim_end().to_owned()
}

/// All records in one direction as the oracle prints them, and the code that ends them.
pub(crate) fn record_lines(archive: &mut Archive, direction: Direction) -> Vec<String> {
    const EOL: &str = "err -12370";
    let mut lines = Vec::new();
    let mut at = match direction {
        Direction::Forward => archive.first(),
        Direction::Backward => match archive.last() {
            Ok(last) => last,
            Err(error) => return vec![format!("err {}", error.code().0)],
        },
    };
    loop {
        let step = match direction {
            Direction::Forward => archive.next(at),
            Direction::Backward => archive.previous(at),
        };
        let place = match step {
            Ok(Some(Step::Record(place, after))) => {
                at = after;
                place
            }
            Ok(Some(Step::Gap(when, after))) => {
                at = after;
                lines.push(format!("{} 0 cbf29ce484222325", time(when)));
                continue;
            }
            Ok(None) => {
                lines.push(EOL.to_owned());
                return lines;
            }
            Err(error) => {
                lines.push(format!("err {}", error.code().0));
                return lines;
            }
        };
        match archive.record(place) {
            Ok(record) => lines.push(record_line(&record)),
            Err(error) => {
                lines.push(format!("err {}", error.code().0));
                return lines;
            }
        }
    }
}

/// Instance domains that metrics of the archive have.
pub(crate) fn indoms(archive: &Archive) -> Vec<InDom> {
    let mut indoms: Vec<InDom> =
        archive.pmids().iter().filter_map(|pmid| archive.desc(*pmid).ok()).map(|desc| desc.indom).collect();
    indoms.retain(|indom| *indom != InDom::NULL);
    indoms.sort_unstable();
    indoms.dedup();
    indoms
}

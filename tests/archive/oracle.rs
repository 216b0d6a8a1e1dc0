//! Every archive of PCP's own test suite, damaged ones included, read by libpcp and by us: errors, labels,
//! ends, names, descriptors, instance domains, help texts, labels, and every record in both directions.

use std::collections::BTreeMap;

use jumpseat::archive::{Archive, Direction, Step};
use jumpseat::model::{Instance, LabelSet, Pmid, Timestamp};
use jumpseat::pdu::{LabelTarget, TextLevel, TextTarget};

use crate::archive_support::*;

const FORW: i32 = 2;
const BACK: i32 = 3;

const MENDED: &str = "faults that libpcp had to be led past";

/// How much has to be compared, at least, and may be let off, at most.
struct Limits {
    archives: usize,
    records: usize,
    label_sets: usize,
    refused: usize,
    mended: usize,
}

/// Of a quarter of the sound archives.
const SOUND: Limits = Limits { archives: 45, records: 20_000, label_sets: 9_000, refused: 0, mended: 1 };
const DAMAGED: Limits = Limits { archives: 23, records: 4_000, label_sets: 800, refused: 24, mended: 7 };
const COMPRESSED: Limits = Limits { archives: 16, records: 170, label_sets: 80, refused: 0, mended: 0 };

/// Both at the same archive.
struct Pair {
    name: String,
    oracle: CPeer,
    archive: Archive,
}

/// Opens an archive on both sides; an error must be the same. `None`: it cannot be opened.
fn open(name: &str) -> Option<Pair> {
    let mut oracle = CPeer::start(ORACLE);
    let theirs = oracle.ask(&format!("open {name}"));
    match Archive::open(name) {
        Err(error) => {
            assert_eq!(theirs, format!("err {}", error.code().0), "{name}: {error}");
            None
        }
        Ok(archive) => {
            let label = archive.label();
            let ours = format!(
                "{} {} {} {} {}",
                label.version,
                label.pid,
                time(label.start),
                label.host,
                label.zone
            );
            assert_eq!(theirs, ours, "{name}");
            Some(Pair { name: name.to_owned(), oracle, archive })
        }
    }
}

impl Pair {
    fn same(&mut self, question: &str, ours: &str) {
        let theirs = self.oracle.ask(question);
        assert_eq!(theirs, ours.trim_end(), "{}: {question}", self.name);
    }

    fn metadata(&mut self, count: &mut BTreeMap<&str, usize>) {
        let mut tally = |what, n: usize| *count.entry(what).or_default() += n;
        let mut names = self.archive.leaves("").unwrap();
        // The library adds what every context has.
        names.extend(["event.flags", "event.missed"].map(str::to_owned));
        tally("names", names.len());
        let theirs = self.oracle.ask("names");
        let mut theirs: Vec<&str> = theirs.split(' ').skip(1).collect();
        let built_in = theirs.iter().filter(|name| name.starts_with("event.")).count();
        assert!(built_in >= 2, "{}", self.name);
        // Where its own event.* stand among the archive's names is of no interest.
        theirs.sort_by_key(|name| name.starts_with("event."));
        names.sort_by_key(|name| name.starts_with("event."));
        assert_eq!(theirs, names, "{}", self.name);
        for pmid in self.archive.pmids() {
            let ours = desc_line(&self.archive, pmid);
            let theirs = self.oracle.ask(&format!("desc {}", pmid.0));
            let mut words: Vec<&str> = theirs.split(' ').collect();
            // Not any number is a type.
            if words[0] == "16" {
                words[0] = "255";
            }
            assert_eq!(words.join(" "), ours, "{}: {pmid}", self.name);
            tally("descriptors", 1);
            for (level, bits) in [(TextLevel::OneLine, 1), (TextLevel::Help, 2)] {
                let text = self.archive.text(TextTarget::Metric(pmid), level);
                let ours = text
                    .map_or_else(|error| error.0.to_string(), |text| "0 ".to_owned() + &hex(text.as_bytes()));
                self.same(&format!("text {} {}", pmid.0, bits | 4), &ours);
                tally("help texts", usize::from(ours.starts_with('0')));
            }
        }
        for indom in indoms(&self.archive) {
            let theirs = self.oracle.ask(&format!("indom {}", indom.0));
            match self.archive.instances_ever(indom) {
                Ok(all) => assert_eq!(all, instances_of(&theirs), "{}: {indom}", self.name),
                Err(error) => assert_eq!(theirs, error.0.to_string(), "{}: {indom}", self.name),
            }
            tally("instance domains", 1);
            let text = self.archive.text(TextTarget::InDom(indom), TextLevel::Help);
            let ours =
                text.map_or_else(|error| error.0.to_string(), |text| "0 ".to_owned() + &hex(text.as_bytes()));
            self.same(&format!("text {} {}", indom.0, 2 | 8), &ours);
        }
    }

    /// Instances and labels at some times.
    fn at_times(&mut self, count: &mut BTreeMap<&str, usize>) {
        let Ok(end) = self.archive.end() else { return };
        let start = self.archive.label().start;
        let indoms = indoms(&self.archive);
        let pmids = self.archive.pmids();
        for step in 0..=4_i128 {
            let at = Timestamp::from_nanos(start.as_nanos() + (end.as_nanos() - start.as_nanos()) * step / 4);
            self.same(&format!("mode {FORW} {} {} 0 0", at.sec, at.nsec), "0");
            for indom in &indoms {
                let ours = match self.archive.instances(*indom, at) {
                    Ok(all) => instances_line(all),
                    Err(error) => error.0.to_string(),
                };
                self.same(&format!("instances {}", indom.0), &ours);
                *count.entry("instance domains at a time").or_default() += 1;
            }
            let domains: std::collections::BTreeSet<u16> = pmids.iter().map(|pmid| pmid.domain()).collect();
            let targets = [LabelTarget::Context]
                .into_iter()
                .chain(domains.iter().map(|domain| LabelTarget::Domain(u32::from(*domain))))
                .chain(
                    indoms
                        .iter()
                        .flat_map(|indom| [LabelTarget::InDom(*indom), LabelTarget::Instances(*indom)]),
                )
                .chain(pmids.iter().flat_map(|pmid| {
                    let cluster = Pmid::new(pmid.domain(), pmid.cluster(), 0);
                    [LabelTarget::Item(*pmid), LabelTarget::Cluster(cluster)]
                }));
            for target in targets {
                let sets = self.archive.labels(target, at);
                *count.entry("label sets").or_default() += sets.len();
                self.labels(target, &sets);
            }
        }
    }

    fn labels(&mut self, target: LabelTarget, ours: &[LabelSet]) {
        self.same(&format!("labels {} {}", target.kind().code(), target.ident()), &labels_line(ours));
    }

    fn records(&mut self, direction: Direction, count: &mut BTreeMap<&str, usize>) {
        let (mode, at) = match direction {
            Direction::Forward => (FORW, self.archive.label().start),
            // The library goes to the end for any time behind it.
            Direction::Backward => (BACK, Timestamp::new(i64::from(i32::MAX), 0)),
        };
        // From the start the library needs no setting of the mode, which would go by the index.
        if direction == Direction::Backward {
            self.same(&format!("mode {mode} {} {} 0 0", at.sec, at.nsec), "0");
        }
        let lines = record_lines(&mut self.archive, direction);
        // Fetching goes on in one direction: records that are out of order are passed over.
        let mut ours: Vec<String> = Vec::with_capacity(lines.len());
        let mut last = (direction == Direction::Forward).then(|| self.archive.label().start);
        for line in lines {
            if let Some(now) = stamp(&line) {
                let behind = match direction {
                    Direction::Forward => last.is_some_and(|last| now < last),
                    Direction::Backward => last.is_some_and(|last| now > last),
                };
                if behind {
                    continue;
                }
                last = Some(now);
            }
            ours.push(line);
        }
        for (number, line) in ours.iter().enumerate() {
            let theirs = self.oracle.ask("next");
            if theirs == *line {
                continue;
            }
            let name = self.name.rsplit('/').next().unwrap_or_default();
            let (why, how) = mended(name, direction, number, &theirs).unwrap_or_else(|| {
                let total = ours.len();
                panic!("{} {direction:?}, record {number} of {total}: {theirs}, here {line}", self.name)
            });
            println!("{} {direction:?}: {why}", self.name);
            *count.entry(MENDED).or_default() += 1;
            // All of it is compared with what libpcp makes of the archive when it is led past the fault.
            let theirs = match how {
                Led::Nowhere => Vec::new(),
                Led::Forward => backwards(all_lines(CPeer::start(ORACLE), &self.name)),
                Led::WithoutIndex => without_index(&self.name),
            };
            assert_eq!(theirs, ours[..ours.len() - 1], "{} {direction:?}, led past a fault", self.name);
            break;
        }
        *count.entry("records").or_default() += ours.len() - 1;
    }
}

/// The time a line starts with.
fn stamp(line: &str) -> Option<Timestamp> {
    let (sec, nsec) = line.split(' ').next()?.split_once('.')?;
    Some(Timestamp::new(sec.parse().ok()?, nsec.parse().ok()?))
}

/// How libpcp is led past a fault.
#[derive(Clone, Copy)]
enum Led {
    /// It reads forward, up to the fault; that is turned round.
    Forward,
    /// It gets the archive without its index.
    WithoutIndex,
    /// There is nothing to be read.
    Nowhere,
}

/// Why libpcp's answer need not be ours: only where it fails and we go on.
fn mended(archive: &str, direction: Direction, number: usize, theirs: &str) -> Option<(&'static str, Led)> {
    const EOL: &str = "err -12370";
    const LOGREC: &str = "err -12373";
    const LOGFILE: &str = "err -12375";
    match (archive, direction, number, theirs) {
        // The last bytes of the last volume are no record.
        ("binning" | "pcp-mpstat3", Direction::Backward, 0, LOGREC) => {
            Some(("found the last good record", Led::Forward))
        }
        ("20180608.04.23-01" | "archive-20150417.131733", Direction::Backward, 0, EOL | LOGREC) => {
            Some(("found the last good record", Led::Forward))
        }
        // No record at all can be read.
        ("badlen-2" | "badlen-3" | "badlen-11", Direction::Backward, 0, EOL) => {
            Some(("said that no record can be read", Led::Nowhere))
        }
        // Entries of the index point to volumes or offsets that are not there.
        ("badti-2", Direction::Forward, 0, LOGFILE) => Some(("did without the index", Led::WithoutIndex)),
        ("badti-4", Direction::Forward, 0, LOGREC) => Some(("did without the index", Led::WithoutIndex)),
        _ => None,
    }
}

/// All records that libpcp delivers going forward, up to the end or a fault.
fn all_lines(mut oracle: CPeer, name: &str) -> Vec<String> {
    oracle.ask(&format!("open {name}"));
    let lines = std::iter::repeat_with(|| oracle.ask("next"));
    lines.take_while(|line| !line.starts_with("err")).collect()
}

/// These the other way round, but for those that are out of order then.
fn backwards(lines: Vec<String>) -> Vec<String> {
    let mut last = None;
    let in_order = |line: &String| {
        let now = stamp(line);
        let behind = last.is_some_and(|last| now > last);
        last = if behind { last } else { Some(now) };
        !behind
    };
    lines.into_iter().rev().filter(in_order).collect()
}

/// All records that libpcp delivers going forward where it does not see the index.
fn without_index(name: &str) -> Vec<String> {
    let (directory, base) = name.rsplit_once('/').expect("a path of the suite");
    let copy = tempfile::tempdir().expect("a temporary directory");
    for entry in std::fs::read_dir(directory).expect("it has been read before") {
        let entry = entry.expect("it can be listed");
        let file = entry.file_name().into_string().expect("names of the suite are ASCII");
        let ours = file.strip_prefix(base).is_some_and(|rest| rest.starts_with('.'));
        if ours && !file.starts_with(&format!("{base}.index")) {
            std::os::unix::fs::symlink(entry.path(), copy.path().join(&file)).expect("a link");
        }
    }
    all_lines(CPeer::start(ORACLE), &format!("{}/{base}", copy.path().display()))
}

#[test]
fn sound_archives_1_of_4() {
    compare(portion("archives", 1, 4), &SOUND);
}

#[test]
fn sound_archives_2_of_4() {
    compare(portion("archives", 2, 4), &SOUND);
}

#[test]
fn sound_archives_3_of_4() {
    compare(portion("archives", 3, 4), &SOUND);
}

#[test]
fn sound_archives_4_of_4() {
    compare(portion("archives", 4, 4), &SOUND);
}

/// The index, and the sizes and times of records, as `pmdumplog` prints them.
#[test]
fn index_and_sizes_as_pmdumplog_prints_them() {
    let (mut entries, mut records, mut refused) = (0, 0, 0);
    let numbers = |line: &str| -> Vec<i64> { line.split_whitespace().skip(1).flat_map(str::parse).collect() };
    for name in all_archives() {
        let Some(dump) = dumplog(["-z", "-t", &name]) else {
            assert!(name.contains("badarchives"), "pmdumplog -t {name}");
            refused += 1;
            continue;
        };
        let mut archive = Archive::open(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let theirs = dump.lines().skip_while(|line| *line != "Temporal Index").skip(2);
        // A remark below an entry starts with a tab.
        let theirs: Vec<Vec<i64>> =
            theirs.filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).map(numbers).collect();
        let ours: Vec<Vec<i64>> = archive
            .index()
            .expect("it is there")
            .iter()
            .map(|entry| vec![i64::from(entry.volume as i32), entry.meta as i64, entry.data as i64])
            .collect();
        assert_eq!(theirs, ours, "{name}");
        entries += theirs.len();
        // Of damaged ones it leaves out records, without a word.
        let small = std::fs::metadata(format!("{name}.0")).is_ok_and(|file| file.len() < 100_000);
        if !small || name.contains("badarchives") {
            continue;
        }
        let dump = dumplog(["-z", "-m", "-s", &name]).unwrap_or_else(|| panic!("pmdumplog -m {name}"));
        let theirs: Vec<usize> = dump
            .lines()
            .filter_map(|line| line.strip_prefix('[')?.strip_suffix(" bytes]")?.parse().ok())
            .collect();
        let mut ours = Vec::new();
        let mut at = archive.first();
        while let Ok(Some(Step::Record(place, after))) = archive.next(at) {
            let Ok(record) = archive.record(place) else { break };
            ours.push(record.size());
            at = after;
        }
        assert_eq!(theirs, ours, "{name}");
        records += theirs.len();
    }
    println!("{entries} index entries, {records} sizes, {refused} archives that pmdumplog refuses");
    assert!(entries > 1000 && records > 3000);
    assert!(refused <= REFUSED_BY_PMDUMPLOG, "too many archives are refused");
}

/// How many of the damaged archives pmdumplog does not get through.
const REFUSED_BY_PMDUMPLOG: usize = 30;

/// What pmdumplog prints, if it gets through the archive.
fn dumplog<const N: usize>(args: [&str; N]) -> Option<String> {
    let mut command = std::process::Command::new("pmdumplog");
    let output = command.args(args).env("PCP_DERIVED_CONFIG", "").output().expect("pmdumplog can be run");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The instances in an answer of the oracle.
fn instances_of(line: &str) -> Vec<Instance> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let instance = |word: &str| {
        let (id, name) = word.split_once(':').unwrap();
        let name: Vec<u8> = name.as_bytes().chunks(2).map(byte).collect();
        Instance { id: id.parse().unwrap(), name: String::from_utf8_lossy(&name).into_owned() }
    };
    line.split(' ').skip(1).map(instance).collect()
}

#[test]
fn damaged_archives() {
    compare(archives("badarchives"), &DAMAGED);
}

#[test]
fn compressed_archives() {
    let directories =
        ["archives/multi", "archives/multi-xz", "archives/multi-xz-1k", "archives/multi-corrupted"];
    compare(directories.into_iter().flat_map(archives).collect(), &COMPRESSED);
}

fn compare(names: Vec<String>, limits: &Limits) {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failed = Vec::new();
    for name in names {
        let one = std::panic::catch_unwind(|| {
            let mut count: BTreeMap<&str, usize> = BTreeMap::new();
            let Some(mut pair) = open(&name) else {
                count.insert("refused", 1);
                return count;
            };
            count.insert("archives", 1);
            let end = pair.archive.end().map_or_else(|error| format!("err {}", error.code().0), time);
            // The last volume is damaged, and there is no index to find a good record with.
            if !name.ends_with("/archive-20150417.131733") {
                pair.same("end", &end);
            }
            pair.metadata(&mut count);
            pair.records(Direction::Forward, &mut count);
            pair.records(Direction::Backward, &mut count);
            pair.at_times(&mut count);
            count
        });
        match one {
            Ok(one) => one.into_iter().for_each(|(what, n)| *count.entry(what).or_default() += n),
            Err(_) => failed.push(name),
        }
    }
    println!("{count:?}");
    assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
    let n = |what: &str| count.get(what).copied().unwrap_or_default();
    assert!(n("archives") >= limits.archives, "too few archives were compared");
    assert!(n("records") >= limits.records, "too few records were compared");
    assert!(n("label sets") >= limits.label_sets, "too few label sets were compared");
    assert!(n("refused") <= limits.refused, "too many archives were refused");
    assert!(n(MENDED) <= limits.mended, "too many faults were passed over");
}

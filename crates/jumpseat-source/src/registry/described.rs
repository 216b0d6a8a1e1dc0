//! What is known of sources besides their names, on file with their identifiers: so that a source has the same labels after a
//! restart, before anything has come from it.
//!
//! ```text
//! {"jumpseat_sources":1}
//! {"id":3,"kind":"otlp","address":"127.0.0.1:4318","service":"checkout","labels":[["host","a"]]}
//! ```
//!
//! These are no promises, as identifiers are: what cannot be read or written is told, and comes again with the first event.
//! The file is replaced as a whole, so that a crash leaves the old one or the new one.
//!
//! **Bounds:** [`MAX_LINE`] bytes a source. What is new of a source is written at once, but of each at most once in
//! [`EVERY`]: senders that contradict each other cost no more; the rest is written with the next one, and at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcp_files::{Directory, Disk};
use pcp_model::Inst;
use serde::{Deserialize, Serialize};

use crate::origin::{KINDS, Labels, Origin};

/// Longest line of the file, in bytes: of a source with more its labels are left out, or all.
const MAX_LINE: usize = 16 * 1024;
/// Longest file that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// How often the same source has the file written, at most.
const EVERY: Duration = Duration::from_secs(60);
const HEAD: &str = "{\"jumpseat_sources\":1}\n";

/// What is known of a source besides its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Where it reads.
    pub origin: Option<Origin>,
    /// What its sender says of itself.
    pub labels: Option<Labels>,
}

/// What is known of all sources.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    known: Mutex<BTreeMap<Inst, Known>>,
    /// The file, if there is one. Locked while it is written, which nobody waits for who only asks.
    file: Option<Mutex<File>>,
}

#[derive(Debug, Default)]
struct Known {
    described: Described,
    /// When it had the file written.
    written: Option<Instant>,
}

#[derive(Debug)]
struct File {
    disk: Arc<dyn Disk>,
    name: String,
    /// It could not be written the last time.
    fails: bool,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    id: Inst,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<Labels>,
}

impl Descriptions {
    /// Those in the file of a domain in a directory; none if it cannot be read.
    pub(super) fn load(dir: Option<&Path>, domain: u16) -> Descriptions {
        let Some(dir) = dir else { return Descriptions::default() };
        match Directory::existing(dir) {
            Ok(disk) => Descriptions::on(Arc::new(disk), &format!("{domain}.sources")),
            Err(error) => {
                tracing::warn!("{}: labels of sources are not kept: {error}", dir.display());
                Descriptions::default()
            }
        }
    }

    /// Those in a file of any disk.
    pub(super) fn on(disk: Arc<dyn Disk>, name: &str) -> Descriptions {
        let known = read(&*disk, name).unwrap_or_else(|error| {
            tracing::warn!("{name}: {error}; labels of sources come with their first events");
            BTreeMap::new()
        });
        let file = File { disk, name: name.to_owned(), fails: false };
        Descriptions { known: Mutex::new(known), file: Some(Mutex::new(file)) }
    }

    /// What is known of a source.
    pub(super) fn get(&self, source: Inst) -> Option<Described> {
        self.lock().get(&source).map(|known| known.described.clone())
    }

    /// Takes in what is told of a source. `is_source` says whether there still is one with a number.
    pub(super) fn tell(
        &self,
        source: Inst,
        origin: Option<&Origin>,
        labels: Option<&Labels>,
        is_source: impl Fn(Inst) -> bool,
    ) {
        let mut all = self.lock();
        let known = all.entry(source).or_default();
        let Described { origin: old_origin, labels: old_labels } = &mut known.described;
        let mut is_news = false;
        if origin.is_some() && origin != old_origin.as_ref() {
            *old_origin = origin.cloned();
            is_news = true;
        }
        if labels.is_some() && labels != old_labels.as_ref() {
            *old_labels = labels.cloned();
            is_news = true;
        }
        let now = Instant::now();
        if !is_news || known.written.is_some_and(|written| now.duration_since(written) < EVERY) {
            return;
        }
        known.written = Some(now);
        all.retain(|source, _| is_source(*source));
        drop(all);
        self.save();
    }

    /// Writes the file, if there is one.
    pub(super) fn save(&self) {
        let Some(file) = &self.file else { return };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // Behind the file's lock, so that the last to write has the newest.
        let text = text(&self.lock());
        match file.write(text.as_bytes()) {
            Ok(()) => file.fails = false,
            Err(error) if !file.fails => {
                file.fails = true;
                tracing::warn!("{}: labels of sources are not kept over a restart: {error}", file.name);
            }
            Err(_) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Inst, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Descriptions {
    fn drop(&mut self) {
        if !self.lock().is_empty() {
            self.save();
        }
    }
}

impl File {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let temporary = format!("{}.new", self.name);
        // Of an agent that was killed.
        let _ = self.disk.remove(&temporary);
        let file = self.disk.create(&temporary)?;
        file.write_at(&[bytes], 0)?;
        file.sync()?;
        self.disk.rename(&temporary, &self.name)?;
        // Some file systems cannot sync a directory.
        let _ = self.disk.sync_names();
        Ok(())
    }
}

fn text(all: &BTreeMap<Inst, Known>) -> String {
    let mut text = HEAD.to_owned();
    for (id, Known { described: Described { origin, labels }, .. }) in all {
        let mut line = Line {
            id: *id,
            kind: origin.as_ref().map(|origin| origin.kind),
            address: origin.as_ref().map(|origin| origin.address.clone()).unwrap_or_default(),
            service: origin.as_ref().and_then(|origin| origin.service.clone()),
            labels: labels.clone(),
        };
        for _ in 0..2 {
            match serde_json::to_string(&line) {
                Ok(line) if line.len() <= MAX_LINE => {
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "{line}");
                    break;
                }
                _ => line.labels = None,
            }
        }
    }
    text
}

fn read(disk: &dyn Disk, name: &str) -> io::Result<BTreeMap<Inst, Known>> {
    let file = match disk.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        file => file?,
    };
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let (len, _) = file.extent()?;
    if len > MAX_FILE {
        return Err(invalid("longer than it can be"));
    }
    let mut bytes = vec![0; len as usize];
    let len = file.read_at(&mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..len]).map_err(|_| invalid("not UTF-8"))?;
    let lines = text.strip_prefix(HEAD).ok_or_else(|| invalid("not a file of this version"))?;
    let mut all = BTreeMap::new();
    for line in lines.lines() {
        // Of a later version, or somebody has had a hand in it: the others are as good as before.
        let Ok(Line { id, kind, address, service, labels }) = serde_json::from_str(line) else { continue };
        let kind = kind.and_then(|kind| KINDS.into_iter().find(|known| *known == kind));
        let origin = kind.map(|kind| Origin { kind, address, service });
        all.insert(id, Known { described: Described { origin, labels }, written: None });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use support::SimulatedDisk;
    use support::random::Random;

    fn origin(address: String) -> Origin {
        Origin { kind: "otlp", address, service: Some("checkout".to_owned()) }
    }

    #[test]
    fn what_is_known_is_there_after_a_crash_at_any_moment() {
        const NAME: &str = "400.sources";
        for seed in 0..40 {
            let mut random = Random::new(seed, 7);
            let disk = SimulatedDisk::default();
            let mut told: Vec<(usize, Inst, Origin)> = Vec::new();
            for day in 0..3 {
                let descriptions = Descriptions::on(Arc::new(disk.clone()), NAME);
                for n in 0..random.below(6) {
                    let source = random.below(4) as Inst;
                    let origin = origin(format!("{day}.{n} {}", "x".repeat(random.below(900))));
                    descriptions.tell(source, Some(&origin), None, |_| true);
                    assert_eq!(descriptions.get(source).and_then(|known| known.origin), Some(origin.clone()));
                    told.push((disk.operations(), source, origin));
                }
            }
            for done in 0..=disk.operations() {
                let after = match random.percent(50) {
                    true => disk.killed(done, &mut random),
                    false => disk.unpowered(done, &mut random),
                };
                let found = Descriptions::on(Arc::new(after), NAME);
                for (_, source, _) in told.iter().filter(|(at, ..)| *at <= done) {
                    let known = found.get(*source).and_then(|known| known.origin).expect("it was written");
                    assert!(told.iter().any(|(_, of, told)| of == source && *told == known), "{known:?}");
                }
            }
        }
    }

    #[test]
    fn a_file_that_is_none_and_lines_that_are_none_do_no_harm() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("400.sources");
        let known = |text: &str| {
            std::fs::write(&path, text).expect("write");
            Descriptions::load(Some(dir.path()), 400).get(1)
        };
        for text in ["", "junk", "{\"jumpseat_sources\":2}\n", "{\"jumpseat_sources\":1}\n{\"id\":1"] {
            assert_eq!(known(text), None, "{text}");
        }
        let labels = Some(vec![("a".to_owned(), "b\"".to_owned())]);
        let line = "{\"id\":1,\"kind\":\"otlp\",\"address\":\"x\",\"labels\":[[\"a\",\"b\\\"\"]]}";
        let origin = Some(Origin { kind: "otlp", address: "x".to_owned(), service: None });
        assert_eq!(known(&format!("{HEAD}?\n{line}\n")), Some(Described { origin, labels: labels.clone() }));
        let line = line.replace("otlp", "carrier pigeon");
        assert_eq!(known(&format!("{HEAD}{line}\n")), Some(Described { origin: None, labels }));
    }

    #[test]
    fn what_is_too_long_or_gone_is_left_out() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let descriptions = Descriptions::load(Some(dir.path()), 400);
        let long = vec![("a".to_owned(), "x".repeat(MAX_LINE))];
        descriptions.tell(0, Some(&origin("here".to_owned())), Some(&long), |_| true);
        descriptions.tell(1, Some(&origin("x".repeat(MAX_LINE))), None, |_| true);
        descriptions.tell(2, Some(&origin("there".to_owned())), None, |source| source != 2);
        assert_eq!(descriptions.get(0).expect("told").labels, Some(long));
        drop(descriptions);
        let found = Descriptions::load(Some(dir.path()), 400);
        let kept = Described { origin: Some(origin("here".to_owned())), labels: None };
        assert_eq!((found.get(0), found.get(1), found.get(2)), (Some(kept), None, None));
    }
}

//! A disk that takes nothing for a while.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jumpseat_log::{Entry as Appending, LogDir, Mark};
use pcp_files::{Disk, DiskFile};
use pcp_model::Timestamp;
use support::SimulatedDisk;

use crate::crash::{BOOT, limits};
use crate::seen::{self, Entry};

/// A disk on which there are names, and at times no room.
#[derive(Clone, Debug, Default)]
struct Full {
    disk: SimulatedDisk,
    is_full: Arc<AtomicBool>,
}

#[derive(Debug)]
struct File {
    file: Arc<dyn DiskFile>,
    is_full: Arc<AtomicBool>,
}

impl Full {
    fn file(&self, file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(File { file: file?, is_full: Arc::clone(&self.is_full) }))
    }

    fn open(&self) -> LogDir {
        LogDir::on(Arc::new(self.clone()), 400, BOOT, limits()).expect("a disk in memory")
    }
}

impl Disk for Full {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.create(name))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.open(name))
    }

    fn edit(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.edit(name))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }
}

impl DiskFile for File {
    fn write_at(&self, parts: &[&[u8]], at: u64) -> io::Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_at(parts, at)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }

    fn read_now(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_now(buffer, at)
    }

    fn extent(&self) -> io::Result<(u64, bool)> {
        self.file.extent()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.reserve(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

fn append(dir: &LogDir, times: std::ops::Range<u64>) -> bool {
    let batch = seen::batch(times, 5);
    let entry =
        Appending { lost: (0, Timestamp::default()), batch: &batch, counters: &[], marks: &[], numbered: 0 };
    dir.source(0, "a").append(&entry).written
}

#[test]
fn numbers_of_records_in_memory_are_not_those_of_others_later() {
    let disk = Full::default();
    let dir = disk.open();
    let log = dir.source(0, "a");
    assert!(append(&dir, 0..10));
    let epoch = log.epoch();
    disk.is_full.store(true, Ordering::Relaxed);
    // Readers are told of these, and that they are at 15.
    assert!(!append(&dir, 10..15));
    assert_eq!((log.next(), log.epoch()), (15, epoch));
    drop((log, dir));
    disk.is_full.store(false, Ordering::Relaxed);
    let dir = disk.open();
    let log = dir.source(0, "a");
    assert_eq!(log.next(), 10);
    assert_ne!(log.epoch(), epoch);
    // Who was told of what is gone has not seen anything of what has come since.
    assert!(append(&dir, 20..30));
    assert_eq!((log.translate(15, epoch), log.translate(7, epoch)), (Some(10), Some(7)));
    let epoch = log.epoch();
    let _fetching = dir.fetch_thread().expect("there are threads");
    let expected: Vec<_> = (0..10).chain(20..30).map(Entry::Record).collect();
    assert_eq!(seen::entries(&dir, &log), expected);
    drop((log, dir));
    // Once is enough.
    assert_eq!(disk.open().source(0, "a").epoch(), epoch);
    assert!(disk.names().expect("a disk in memory").iter().all(|name| name.ends_with(".log")));
}

#[test]
fn one_user_cannot_have_the_marks_of_others_forgotten() {
    let dir = Full::default().open();
    let log = dir.source(0, "a");
    let set = |stream: String| {
        let mark = Mark { stream: stream.as_bytes().into(), number: 1, above: Vec::new(), text: Vec::new() };
        let batch = seen::batch([1], 5);
        let entry = Appending {
            lost: (0, Timestamp::default()),
            batch: &batch,
            counters: &[],
            marks: &[mark],
            numbered: 1,
        };
        assert!(log.append(&entry).written);
    };
    set("file:/var/log/a".to_owned());
    set("sender:7:careful".to_owned());
    (0..3000).for_each(|n| set(format!("sender:8:{n}")));
    let known = |stream: &str| log.mark(stream.as_bytes()).is_some();
    assert!(known("file:/var/log/a") && known("sender:7:careful") && known("sender:8:2999"));
    assert!(!known("sender:8:0"));
}

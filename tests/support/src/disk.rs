//! [`SimulatedDisk`]: a disk that remembers every operation, and shows what is left of them when the program, or the power,
//! goes in between.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};

use pcp_files::{Disk, DiskFile};

use crate::random::Random;

/// What a device writes as a whole or not at all, in bytes.
const SECTOR: usize = 512;

type FileId = usize;

#[derive(Clone, Debug)]
enum Operation {
    Create(FileId, String),
    Write(FileId, u64, Vec<u8>),
    SetLen(FileId, u64),
    Sync(FileId),
    SyncNames,
    Rename(String, String),
    Remove(String),
}

#[derive(Debug, Default)]
struct Inner {
    names: BTreeMap<String, FileId>,
    contents: Vec<Vec<u8>>,
    operations: Vec<Operation>,
    /// What was there before the first of them.
    before: Option<Box<Inner>>,
}

/// A disk in memory.
#[derive(Clone, Debug, Default)]
pub struct SimulatedDisk(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct SimulatedFile(SimulatedDisk, FileId);

impl SimulatedDisk {
    /// How many operations there have been.
    pub fn operations(&self) -> usize {
        self.inner().operations.len()
    }

    /// How many of them are waits for the device.
    pub fn syncs(&self) -> usize {
        let is_sync = |operation: &&Operation| matches!(operation, Operation::Sync(_) | Operation::SyncNames);
        self.inner().operations.iter().filter(is_sync).count()
    }

    /// The disk after the death of the program right behind its first `done` operations; if the next one is a write, a part of
    /// it may have come there. The system has all of that; a loss of power later on takes what was not synced.
    pub fn killed(&self, done: usize, random: &mut Random) -> SimulatedDisk {
        let inner = self.inner();
        let mut image = inner.beginning();
        image.before = Some(Box::new(inner.beginning()));
        image.operations = inner.operations[..done].to_vec();
        inner.operations[..done].iter().for_each(|operation| image.play(operation));
        if let Some(Operation::Write(file, at, bytes)) = inner.operations.get(done) {
            let part = random.below(bytes.len() + 1);
            let part = Operation::Write(*file, *at, bytes[..part].to_vec());
            image.play(&part);
            image.operations.push(part);
        }
        SimulatedDisk(Arc::new(Mutex::new(image)))
    }

    /// The disk after a loss of power behind the first `done` operations: what was not synced is there in part, sector by
    /// sector, in no order; names as of some moment since they were synced last.
    pub fn unpowered(&self, done: usize, random: &mut Random) -> SimulatedDisk {
        let inner = self.inner();
        let operations = &inner.operations[..done];
        let names_synced = operations.iter().rposition(|op| matches!(op, Operation::SyncNames)).unwrap_or(0);
        let names_until = names_synced + random.below(done - names_synced + 1);
        let mut image = inner.beginning();
        for (index, operation) in operations.iter().enumerate() {
            match operation {
                Operation::Write(file, at, bytes) => {
                    let is_synced =
                        operations[index..].iter().any(|op| matches!(op, Operation::Sync(id) if id == file));
                    let mode = random.below(3);
                    if is_synced || mode == 0 {
                        image.play(operation);
                    } else if mode == 1 {
                        image.play_sectors(*file, *at, bytes, random);
                    }
                }
                Operation::Create(file, _) if index >= names_until => image.make_room_for(*file),
                Operation::Rename(..) | Operation::Remove(_) if index >= names_until => {}
                _ => image.play(operation),
            }
        }
        image.into_disk()
    }

    /// The same bytes with one of them changed: byte `at` of all files in the order of their names. Returns whether there is
    /// such a byte.
    pub fn flip(&self, at: usize, bit: u8) -> bool {
        let mut inner = self.inner();
        let mut left = at;
        for file in inner.names.clone().into_values() {
            let contents = &mut inner.contents[file];
            if left < contents.len() {
                contents[left] ^= 1 << bit;
                return true;
            }
            left -= contents.len();
        }
        false
    }

    /// Cuts a file short.
    pub fn truncate(&self, name: &str, len: usize) {
        let mut inner = self.inner();
        if let Some(&file) = inner.names.get(name) {
            inner.contents[file].truncate(len);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no operation panics")
    }

    fn run<T>(&self, operation: Operation, result: T) -> io::Result<T> {
        let mut inner = self.inner();
        inner.play(&operation);
        inner.operations.push(operation);
        Ok(result)
    }
}

impl Inner {
    /// What was there before the first operation.
    fn beginning(&self) -> Inner {
        let (names, contents) = self
            .before
            .as_ref()
            .map(|before| (before.names.clone(), before.contents.clone()))
            .unwrap_or_default();
        Inner { names, contents, ..Inner::default() }
    }

    /// A disk that begins with what is here.
    fn into_disk(self) -> SimulatedDisk {
        let Inner { names, contents, .. } = self;
        let before = Inner { names: names.clone(), contents: contents.clone(), ..Inner::default() };
        let inner = Inner { names, contents, operations: Vec::new(), before: Some(Box::new(before)) };
        SimulatedDisk(Arc::new(Mutex::new(inner)))
    }

    fn make_room_for(&mut self, file: FileId) {
        if self.contents.len() <= file {
            self.contents.resize(file + 1, Vec::new());
        }
    }

    fn play(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(file, name) => {
                self.make_room_for(*file);
                self.names.insert(name.clone(), *file);
            }
            Operation::Write(file, at, bytes) => {
                let end = *at as usize + bytes.len();
                let contents = &mut self.contents[*file];
                if contents.len() < end {
                    contents.resize(end, 0);
                }
                contents[*at as usize..end].copy_from_slice(bytes);
            }
            Operation::Rename(from, to) => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Operation::Remove(name) => _ = self.names.remove(name),
            Operation::SetLen(file, len) => self.contents[*file].resize(*len as usize, 0),
            Operation::Sync(_) | Operation::SyncNames => {}
        }
    }

    fn play_sectors(&mut self, file: FileId, at: u64, bytes: &[u8], random: &mut Random) {
        let mut done = 0;
        while done < bytes.len() {
            let here = at as usize + done;
            let len = (SECTOR - here % SECTOR).min(bytes.len() - done);
            if random.below(2) == 0 {
                self.play(&Operation::Write(file, here as u64, bytes[done..done + len].to_vec()));
            }
            done += len;
        }
    }
}

impl Disk for SimulatedDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = {
            let inner = self.inner();
            if inner.names.contains_key(name) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            inner.contents.len()
        };
        self.run(
            Operation::Create(file, name.to_owned()),
            Arc::new(SimulatedFile(self.clone(), file)) as Arc<dyn DiskFile>,
        )
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = *self.inner().names.get(name).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::new(SimulatedFile(self.clone(), file)))
    }

    fn edit(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        match self.create(name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.open(name),
            made => made,
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.inner().names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if !self.inner().names.contains_key(from) {
            return Err(ErrorKind::NotFound.into());
        }
        self.run(Operation::Rename(from.to_owned(), to.to_owned()), ())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !self.inner().names.contains_key(name) {
            return Err(ErrorKind::NotFound.into());
        }
        self.run(Operation::Remove(name.to_owned()), ())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.run(Operation::SyncNames, ())
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, parts: &[&[u8]], at: u64) -> io::Result<()> {
        self.0.run(Operation::Write(self.1, at, parts.concat()), ())
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let inner = self.0.inner();
        let rest = inner.contents[self.1].get(at as usize..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn read_now(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.read_at(buffer, at)
    }

    fn extent(&self) -> io::Result<(u64, bool)> {
        let inner = self.0.inner();
        Ok((inner.contents[self.1].len() as u64, inner.names.values().any(|file| *file == self.1)))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.run(Operation::SetLen(self.1, len), ())
    }

    /// There is room enough: nobody can see that it was set aside.
    fn reserve(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.run(Operation::Sync(self.1), ())
    }
}

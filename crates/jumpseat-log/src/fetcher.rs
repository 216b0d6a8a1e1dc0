//! [`Fetcher`]: what waits for the disk, so that readers do not.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select, tick};
use pcp_files::{Disk, DiskFile};

use crate::segment::{OpenSegment, Patience, ReadError};

/// Jobs that may wait.
const QUEUE: usize = 256;
/// Most bytes that a job has read.
pub(crate) const AHEAD: u64 = 8 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// A job's result, once there is one.
#[derive(Debug)]
pub(crate) struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T> Slot<T> {
    fn new() -> Slot<T> {
        Slot(Arc::new(Mutex::new(None)))
    }

    fn put(&self, result: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether it is there, and nobody has taken it.
    pub(crate) fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn other(&self) -> Slot<T> {
        Slot(Arc::clone(&self.0))
    }
}

/// A segment, and how it can be read from now on.
pub(crate) type Opened = Result<(OpenSegment, Patience), ReadError>;

#[derive(Debug)]
enum Job {
    /// Opens a segment, and has its bytes in memory.
    Open { disk: Arc<dyn Disk>, name: Arc<str>, slot: Slot<Opened> },
    /// Has bytes of a file in memory.
    Read { file: Arc<dyn DiskFile>, at: u64, slot: Slot<()> },
}

/// Jobs for the thread, and the thread's work.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    sender: Sender<Job>,
    receiver: Receiver<Job>,
}

impl Fetcher {
    pub(crate) fn new() -> Fetcher {
        let (sender, receiver) = bounded(QUEUE);
        Fetcher { sender, receiver }
    }

    /// Has a segment opened. `None`: too much waits already.
    pub(crate) fn open(&self, disk: &Arc<dyn Disk>, name: &Arc<str>) -> Option<Slot<Opened>> {
        let slot = Slot::new();
        let job = Job::Open { disk: Arc::clone(disk), name: Arc::clone(name), slot: slot.other() };
        self.sender.try_send(job).ok().map(|()| slot)
    }

    /// Has what is from `at` on in memory, up to [`AHEAD`] bytes. `None`: too much waits already.
    pub(crate) fn read(&self, file: &Arc<dyn DiskFile>, at: u64) -> Option<Slot<()>> {
        let slot = Slot::new();
        let job = Job::Read { file: Arc::clone(file), at, slot: slot.other() };
        self.sender.try_send(job).ok().map(|()| slot)
    }

    /// Does what readers have asked for so far.
    pub(crate) fn work_off(&self) {
        let mut buffer = Vec::new();
        while let Ok(job) = self.receiver.try_recv() {
            buffer.resize(READ_BYTES, 0);
            job.run(&mut buffer);
        }
    }

    /// How many jobs wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.receiver.len()
    }

    /// Does what readers ask for, until `ended` is disconnected; `settle` is called once a second, and at the end.
    pub(crate) fn work(&self, ended: &Receiver<Infallible>, settle: impl Fn()) {
        let (mut buffer, ticks) = (vec![0; READ_BYTES], tick(Duration::from_secs(1)));
        loop {
            select! {
                recv(ended) -> _ => return settle(),
                recv(ticks) -> _ => settle(),
                recv(self.receiver) -> job => match job {
                    Ok(job) => job.run(&mut buffer),
                    Err(_) => return,
                },
            }
        }
    }
}

impl Job {
    fn run(self, buffer: &mut [u8]) {
        match self {
            Job::Open { disk, name, slot } => {
                let opened = OpenSegment::open(&*disk, &name, Patience::Wait);
                slot.put(opened.map(|segment| {
                    have_in_memory(&*segment.file, 0, buffer);
                    // Where nobody can tell whether a read would wait, what has just been read is what does not.
                    let patience = match segment.file.read_now(&mut [0], 0) {
                        Err(error) if error.kind() == io::ErrorKind::Unsupported => Patience::Wait,
                        _ => Patience::Now,
                    };
                    (segment, patience)
                }));
            }
            Job::Read { file, at, slot } => {
                have_in_memory(&*file, at, buffer);
                slot.put(());
            }
        }
    }
}

fn have_in_memory(file: &dyn DiskFile, at: u64, buffer: &mut [u8]) {
    let mut done = 0;
    while done < AHEAD {
        match file.read_at(buffer, at + done) {
            Ok(0) | Err(_) => return,
            Ok(got) => done += got as u64,
        }
    }
}

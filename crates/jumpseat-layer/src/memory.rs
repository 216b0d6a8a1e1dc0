//! Memory of rings: a file without a name that the agent can read when the program is gone, or else the program's own.
//!
//! All `unsafe` code of the package but the one instruction in [`super::clock`]: mappings, given out as slices of atomic numbers.
//! Whatever threads, or other processes that have the file, do to them at the same time is sound.

use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use jumpseat_wire::ring::chunk::{Chunk, ENTRY};
use jumpseat_wire::ring::{AREA, CHUNKS, Geometry, MAGIC, SITES, TABLE, head};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};

/// Numbers in memory, each of which any thread may read and write.
pub(crate) enum Memory {
    Mapped(Mapping),
    Private(Box<[AtomicU64]>),
}

/// A mapping of this process, from `at` on.
///
/// **Invariant:** so many words are mapped there, for reading and writing, from the making of this value to its end;
/// if they are of a file, it is sealed against shrinking, so that they stay.
pub(crate) struct Mapping {
    at: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: it is memory of the whole process, used as atomic numbers only, and unmapped by whoever has it last.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Memory {
    /// Memory of this process alone.
    pub(crate) fn private(words: usize) -> Memory {
        Memory::Private((0..words).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Deref for Memory {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        match self {
            // SAFETY: by the invariant; the slice lives no longer than the mapping; all bit patterns are numbers.
            Memory::Mapped(mapping) => unsafe {
                std::slice::from_raw_parts(mapping.at.as_ptr(), mapping.words)
            },
            Memory::Private(words) => words,
        }
    }
}

impl Mapping {
    /// A part of a file.
    fn of_file(file: &OwnedFd, offset: u64, bytes: u64) -> io::Result<Mapping> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at an address of the kernel's choice, so nothing else is there.
        let at = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, offset) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { at, words: bytes / 8 })
    }

    /// A number that is 1 in this process, and 0 in those that it forks.
    fn of_this_process() -> io::Result<Mapping> {
        let bytes = AREA as usize;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at an address of the kernel's choice, so nothing else is there.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }?;
        let mapping =
            Mapping { at: NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?, words: bytes / 8 };
        // SAFETY: of this mapping alone, and this process keeps what is in it.
        unsafe { madvise(at, bytes, Advice::LinuxWipeOnFork) }?;
        Ok(mapping)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped like this, and nobody borrows from it any more.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.words * 8) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A program's file of rings.
pub(crate) struct RingFile {
    pub file: OwnedFd,
    pub geometry: Geometry,
    /// Its head and its table of sites.
    head: Memory,
    owner: Memory,
}

impl RingFile {
    /// A file for rings of so many bytes, if the system gives one: within a sandbox, or with little memory, perhaps not.
    pub(crate) fn new(ring: usize) -> io::Result<RingFile> {
        let geometry = Geometry::new(ring as u64).ok_or(io::ErrorKind::InvalidInput)?;
        let bytes = geometry.file().ok_or(io::ErrorKind::InvalidInput)?;
        // Beyond its limit the program would be killed by a signal.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let file = memfd_create("jumpseat-rings", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // Memory that is not there would be a signal when it is written to; here it is an error.
        fallocate(&file, FallocateFlags::empty(), 0, AREA)?;
        fallocate(&file, FallocateFlags::empty(), AREA, SITES)?;
        let words = Memory::Mapped(Mapping::of_file(&file, 0, AREA + SITES)?);
        for (at, value) in [(head::SLOTS, geometry.slots), (head::RING, geometry.ring), (head::MAGIC, MAGIC)]
        {
            words[at].store(value, Ordering::Release);
        }
        let owner = Memory::Mapped(Mapping::of_this_process()?);
        owner[0].store(1, Ordering::Relaxed);
        Ok(RingFile { file, geometry, head: words, owner })
    }

    /// Whether this process made it, and not one that was forked from it, which has no business in it.
    #[inline]
    pub(crate) fn is_ours(&self) -> bool {
        self.owner[0].load(Ordering::Relaxed) != 0
    }

    /// Puts a chunk into its place in the table.
    pub(crate) fn set_chunk(&self, number: u64, chunk: &Chunk) {
        let at = TABLE as usize / 8 + (number % CHUNKS) as usize * ENTRY;
        for (word, value) in self.head[at..at + ENTRY].iter().zip(chunk.words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.head(head::NEXT).store(number + 1, Ordering::Release);
    }

    /// A word of its head.
    pub(crate) fn head(&self, at: usize) -> &AtomicU64 {
        &self.head[at]
    }

    /// The memory of a slot.
    pub(crate) fn slot(&self, number: u64) -> io::Result<Memory> {
        let start = self.geometry.slot(number);
        fallocate(&self.file, FallocateFlags::empty(), start, AREA.min(4096))?;
        fallocate(&self.file, FallocateFlags::empty(), start + AREA, self.geometry.ring)?;
        Ok(Memory::Mapped(Mapping::of_file(&self.file, start, AREA + self.geometry.ring)?))
    }

    /// Makes `table` the table of sites, of which so many bytes were there before. What is beyond its room is left out.
    pub(crate) fn set_sites(&self, table: &[u8], before: usize) {
        if table.len() as u64 > SITES {
            return;
        }
        let first = before / 8;
        let words = &self.head[AREA as usize / 8 + first..];
        for (word, bytes) in words.iter().zip(table[first * 8..].chunks(8)) {
            let mut value = [0; 8];
            value[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
        }
        self.head[head::SITES].store(table.len() as u64, Ordering::Release);
    }
}

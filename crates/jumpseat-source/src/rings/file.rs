//! The descriptor that a connection passes. Any local user may pass any; what it is, the kernel says.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use jumpseat_wire::ring::MAX_FILE;
use rustc_hash::FxHashMap;
use rustix::fs::{FileType, SealFlags, fcntl_get_seals, fstat};
use rustix::io::{Errno, pread};

use crate::registry::Taker;

/// Most files of rings at a time, of all connections and of those of one user.
const MAX_HELD: (usize, usize) = (256, 128);

/// How many files are held, and for whom.
#[derive(Debug, Default)]
pub(crate) struct Quota(Mutex<FxHashMap<Taker, usize>>);

/// A descriptor that counts as long as it is held.
#[derive(Debug)]
pub(crate) struct Held {
    file: OwnedFd,
    taker: Taker,
    quota: Arc<Quota>,
}

impl Quota {
    /// Holds a descriptor, unless there are too many.
    pub(crate) fn hold(quota: &Arc<Quota>, taker: Taker, file: OwnedFd) -> Result<Held, &'static str> {
        let mut held = quota.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.values().sum::<usize>() >= MAX_HELD.0 {
            return Err("too many programs have passed rings: 256 are allowed");
        }
        let own = held.entry(taker).or_default();
        if *own >= MAX_HELD.1 {
            return Err("too many programs of this user have passed rings: 128 are allowed");
        }
        *own += 1;
        drop(held);
        Ok(Held { file, taker, quota: Arc::clone(quota) })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.quota.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.taker) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.taker);
            }
        }
    }
}

impl Held {
    /// Whether it is a file that can be read without waiting for anybody, and stays as long as it is.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let stat = fstat(&self.file).map_err(|_| "the descriptor tells nothing about its file")?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err("rings are in a memfd, this is no file");
        }
        let needed = SealFlags::SHRINK | SealFlags::GROW;
        match fcntl_get_seals(&self.file) {
            Ok(seals) if seals.contains(needed) => {}
            Ok(_) => return Err("the memfd of rings must be sealed with F_SEAL_SHRINK and F_SEAL_GROW"),
            Err(_) => return Err("rings are in a memfd, this is another file"),
        }
        if u64::try_from(stat.st_size).is_ok_and(|size| size <= MAX_FILE) {
            return Ok(());
        }
        Err("the memfd of rings is too large: 1 GiB is allowed")
    }

    /// Fills `into` with what is at a place.
    pub(crate) fn read_at(&self, mut offset: u64, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            match pread(&self.file, &mut *into, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    offset += read as u64;
                    into = &mut into[read..];
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

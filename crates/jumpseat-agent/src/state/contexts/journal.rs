//! The file: entries one behind the other, each with its length and checksum.
//!
//! ```text
//! "jsCTX1\n\0"  { length u32, CRC-32 u32, entry } ...      little-endian; entries as `postcard` writes them
//! ```
//!
//! Entries are appended, each in one write; what has become superfluous goes when the file is made anew, under another
//! name, and takes the place of the old one. Reading ends at the first entry that is not whole.
//!
//! **Cost:** an entry is encoded into a buffer that stays, and is one system call; on a file system in memory, where the file
//! belongs, that is a copy.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use pcp_files::{Disk, DiskFile};

use super::entry::Entry;

const MAGIC: &[u8; 8] = b"jsCTX1\n\0";
/// Length and checksum of an entry.
const HEAD: usize = 8;
/// Longest file that is read: more than filters and streams can take.
const MAX_FILE: u64 = 128 << 20;
/// Bytes that are not worth making the file anew.
const SMALL: u64 = 1 << 20;

/// Where the file is.
#[derive(Debug)]
pub(crate) struct Place {
    pub disk: Box<dyn Disk>,
    /// Its name there.
    pub name: String,
    /// All of its path, for people.
    pub path: PathBuf,
}

/// The file, to append to.
#[derive(Debug)]
pub(super) struct Journal {
    file: Arc<dyn DiskFile>,
    len: u64,
    /// How long it was when it was made.
    made: u64,
    buffer: Vec<u8>,
}

impl Place {
    /// What is in the file, if it is there.
    ///
    /// # Errors
    /// The system's; `InvalidData` if it is none of ours.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let file = match self.disk.open(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let (len, _) = file.extent()?;
        if len > MAX_FILE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {MAX_FILE} bytes")));
        }
        let mut bytes = vec![0; len as usize];
        let len = file.read_at(&mut bytes, 0)?;
        bytes.truncate(len);
        if !bytes.is_empty() && !bytes.starts_with(MAGIC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a file of this version"));
        }
        Ok(bytes)
    }

    /// Makes the file anew.
    ///
    /// # Errors
    /// The system's; the old file is still there then.
    pub(super) fn begin<'a>(&self, entries: impl Iterator<Item = Entry<'a>>) -> io::Result<Journal> {
        let mut bytes = MAGIC.to_vec();
        for entry in entries {
            bytes = put(bytes, &entry)?;
        }
        let temporary = format!("{}.new", self.name);
        // Of an agent that was killed.
        let _ = self.disk.remove(&temporary);
        let file = self.disk.create(&temporary)?;
        file.write_at(&[&bytes], 0)?;
        self.disk.rename(&temporary, &self.name)?;
        let len = bytes.len() as u64;
        Ok(Journal { file, len, made: len, buffer: Vec::new() })
    }

    /// Removes the file: what is in it is not so any more.
    pub(super) fn remove(&self) {
        let _ = self.disk.remove(&self.name);
    }
}

impl Journal {
    /// Appends an entry.
    ///
    /// # Errors
    /// The system's; then the file is of no use any more.
    pub(super) fn append(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        self.buffer.clear();
        self.buffer = put(std::mem::take(&mut self.buffer), entry)?;
        self.file.write_at(&[&self.buffer], self.len)?;
        self.len += self.buffer.len() as u64;
        Ok(())
    }

    /// How long it is, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether it should be made anew.
    pub(super) fn is_long(&self) -> bool {
        self.len > SMALL + 2 * self.made
    }
}

fn put(mut bytes: Vec<u8>, entry: &Entry<'_>) -> io::Result<Vec<u8>> {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; HEAD]);
    let mut bytes = postcard::to_extend(entry, bytes).map_err(io::Error::other)?;
    let (head, entry) = bytes[start..].split_at_mut(HEAD);
    let len = u32::try_from(entry.len()).map_err(io::Error::other)?;
    head[..4].copy_from_slice(&len.to_le_bytes());
    head[4..].copy_from_slice(&crc32fast::hash(entry).to_le_bytes());
    Ok(bytes)
}

/// The entries in the bytes of a file, up to the first that is not whole.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry<'static>> {
    let mut rest = bytes.get(MAGIC.len()..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (head, behind) = rest.split_first_chunk::<HEAD>()?;
        let [a, b, c, d, sum @ ..] = *head;
        let entry = behind.get(..u32::from_le_bytes([a, b, c, d]) as usize)?;
        if crc32fast::hash(entry) != u32::from_le_bytes(sum) {
            return None;
        }
        rest = &behind[entry.len()..];
        postcard::from_bytes(entry).ok()
    })
}

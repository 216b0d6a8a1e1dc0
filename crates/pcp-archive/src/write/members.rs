//! The files of an archive that is written, as they belong together.

use std::fs::File;
use std::path::{Path, PathBuf};

use bytes::BufMut;
use nix::fcntl::Flock;

use super::error::WriteError;
use super::files::Growing;
use super::label::{LABEL_LEN, LabelInfo, Role};
use super::put_stamp;
use pcp_model::Timestamp;

/// Bytes of an entry of the index.
pub(super) const ENTRY_LEN: usize = 32;

/// Metadata, the data volume that grows, and the index.
#[derive(Debug)]
pub(super) struct Files {
    pub start: Timestamp,
    pub meta: Growing,
    pub volume: Growing,
    pub number: u32,
    pub index: Growing,
    /// Where in the volume the last entry of the index points to, if it is in this one.
    pub indexed: Option<u64>,
    /// Bytes of the volumes before.
    pub before: u64,
    /// Held on the index, so that nobody else writes.
    pub _lock: Flock<File>,
}

impl Files {
    /// Makes the files of an archive that begins with that record, in front of which is room for a label.
    pub(super) fn create(
        base: &Path,
        info: &LabelInfo,
        start: Timestamp,
        batch: &[u8],
        record: &mut [u8],
    ) -> Result<Files, WriteError> {
        let mut meta = Growing::create(member(base, Role::Meta))?;
        meta.append(&[&info.encode(start, Role::Meta), batch].concat())?;
        // Before the values, as an empty index spoils an archive.
        let mut index = Growing::create(member(base, Role::Index))?;
        let lock = index.lock()?;
        let mut entry = info.encode(start, Role::Index).to_vec();
        put_entry(&mut entry, start, 0, LABEL_LEN as u64, LABEL_LEN as u64);
        index.append(&entry)?;
        let mut volume = Growing::create(member(base, Role::Volume(0)))?;
        record[..LABEL_LEN].copy_from_slice(&info.encode(start, Role::Volume(0)));
        volume.append(record)?;
        Ok(Files {
            start,
            meta,
            volume,
            number: 0,
            index,
            indexed: Some(LABEL_LEN as u64),
            before: 0,
            _lock: lock,
        })
    }

    /// Makes the next volume, which begins with that record.
    pub(super) fn next_volume(
        &mut self,
        base: &Path,
        info: &LabelInfo,
        record: &mut [u8],
    ) -> Result<(), WriteError> {
        self.volume.sync()?;
        let number = self.number + 1;
        let mut volume = Growing::create(member(base, Role::Volume(number)))?;
        record[..LABEL_LEN].copy_from_slice(&info.encode(self.start, Role::Volume(number)));
        volume.append(record)?;
        self.before += self.volume.len;
        self.volume = volume;
        self.number = number;
        self.indexed = None;
        Ok(())
    }

    /// Adds an entry to the index: the lengths of metadata and volume when the record of that time came.
    pub(super) fn add_entry(&mut self, time: Timestamp, meta: u64, data: u64) -> Result<(), WriteError> {
        let mut entry = Vec::with_capacity(ENTRY_LEN);
        put_entry(&mut entry, time, self.number, meta, data);
        self.index.append(&entry)?;
        self.indexed = Some(data);
        Ok(())
    }
}

/// Appends an entry of the index (`docs/pcp/archive.md` 6): the file lengths when the record of that time came.
pub(super) fn put_entry(out: &mut Vec<u8>, time: Timestamp, volume: u32, meta: u64, data: u64) {
    put_stamp(out, time);
    out.put_u32(volume);
    out.put_u64(meta);
    out.put_u64(data);
}

/// The path of a file of the archive.
pub(super) fn member(base: &Path, role: Role) -> PathBuf {
    let mut path = base.as_os_str().to_owned();
    match role {
        Role::Meta => path.push(".meta"),
        Role::Index => path.push(".index"),
        Role::Volume(number) => path.push(format!(".{number}")),
    }
    path.into()
}

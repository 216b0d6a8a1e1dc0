//! [`Ahead`]: room on the disk for what a file that grows is about to get.

use std::ops::RangeInclusive;

use crate::DiskFile;

/// Bytes that a file has at least before room is set aside for it, and at most at once.
const BYTES: RangeInclusive<u64> = (64 << 10)..=(1 << 20);

/// The room that was set aside behind the end of a file: never more than the file has already, and never more than 1 MiB.
///
/// A file system finds room block by block otherwise, which is a quarter of what writing to a new file takes (ext4).
/// Where it cannot set any aside, or has none, the file is written just as well.
#[derive(Debug, Default)]
pub struct Ahead {
    /// Up to where; as far as possible where there is nothing to be had.
    end: u64,
}

impl Ahead {
    /// Before a file of `len` bytes is written to up to `end`: sets room aside for that and for what comes next, but not for more than
    /// `most` bytes of the file.
    pub fn reserve(&mut self, file: &dyn DiskFile, len: u64, end: u64, most: u64) {
        if end <= self.end || len < *BYTES.start() {
            return;
        }
        let wanted = end.saturating_add(len.min(*BYTES.end())).min(most).max(end);
        self.end = if file.reserve(len, wanted).is_ok() { wanted } else { u64::MAX };
    }

    /// Gives back what was set aside for a file of `len` bytes and not written to. A file that somebody else has changed meanwhile
    /// stays as it is.
    pub fn give_back(&mut self, file: &dyn DiskFile, len: u64) {
        if self.end > len && matches!(file.extent(), Ok((now, _)) if now == len) {
            // A file that takes more room than it should is no reason to stop.
            _ = file.set_len(len);
        }
        self.end = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn never_more_than_the_file_has() {
        let file = tempfile::tempfile().unwrap();
        let room = |file: &File| file.metadata().unwrap().blocks() * 512;
        // Blocks, and those by which they are found.
        let slack = 16 * KIB;
        let (mut ahead, mut len) = (Ahead::default(), 0);
        let mut grow = |ahead: &mut Ahead, bytes: u64, most| {
            ahead.reserve(&file, len, len + bytes, most);
            file.write_at(&[&vec![1; bytes as usize]], len).unwrap();
            len += bytes;
            (len, room(&file))
        };
        assert!(grow(&mut ahead, 60 * KIB, u64::MAX).1 <= 60 * KIB + slack, "small files have none");
        grow(&mut ahead, 60 * KIB, u64::MAX);
        let (len, has) = grow(&mut ahead, 10 * KIB, u64::MAX);
        assert!((len + 100 * KIB..=2 * len + slack).contains(&has), "{len} {has}");
        while grow(&mut ahead, 100 * KIB, u64::MAX).0 < 3000 * KIB {}
        let (len, has) = grow(&mut ahead, 1000 * KIB, u64::MAX);
        assert!((len + 100 * KIB..=len + 1024 * KIB + slack).contains(&has), "{len} {has}");
        // Up to the most that the file may have, and beyond that only what is written.
        let (len, has) = grow(&mut ahead, 1200 * KIB, len + 1300 * KIB);
        assert!((len + 90 * KIB..=len + 100 * KIB + slack).contains(&has), "{len} {has}");
        ahead.give_back(&file, len);
        assert!(room(&file) <= len + slack);
        assert_eq!(file.metadata().unwrap().len(), len);
    }

    #[test]
    fn a_file_that_was_changed_stays_so() {
        let file = tempfile::tempfile().unwrap();
        let mut ahead = Ahead::default();
        file.set_len(100 * KIB).unwrap();
        ahead.reserve(&file, 100 * KIB, 101 * KIB, u64::MAX);
        file.set_len(5).unwrap();
        ahead.give_back(&file, 100 * KIB);
        assert_eq!(file.metadata().unwrap().len(), 5);
    }
}

//! Files that are not for everybody: keys and passwords.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// More than any real file of this kind, and little enough to read whatever a mistaken path leads to.
const MAX: u64 = 1 << 20;

/// Reads a file that nobody but its owner and its group may read. The descriptor is judged, not the name.
///
/// # Errors
/// The system's; `PermissionDenied` if others may read or change it, with what to do.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let stat = file.metadata()?;
    if !stat.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let mode = stat.permissions().mode() & 0o777;
    if mode & 0o027 != 0 {
        let text = format!(
            "its permissions {mode:o} let others read or change it; allowed are 600, 640 and less: chmod 600 {}",
            path.display()
        );
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    take(file)
}

/// Reads a file that everybody may read.
///
/// # Errors
/// The system's, and one that is longer than 1 MiB.
pub(crate) fn read_public(path: &Path) -> io::Result<Vec<u8>> {
    take(File::open(path)?)
}

fn take(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file.take(MAX + 1).read_to_end(&mut bytes)? as u64 > MAX {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("longer than {MAX} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_others_may_read_is_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "x").unwrap();
        for (mode, allowed) in [(0o600, true), (0o640, true), (0o644, false), (0o660, false), (0o602, false)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            match read(&path) {
                Ok(bytes) => assert!(allowed && bytes == b"x", "{mode:o}"),
                Err(error) => {
                    assert!(!allowed && error.to_string().contains("chmod 600"), "{mode:o}: {error}")
                }
            }
        }
        assert_eq!(read(dir.path()).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

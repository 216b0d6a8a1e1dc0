//! Folios: files that name PCP archives which belong together (`mkaf(1)`; `docs/pcp/archive.md` 12).
//!
//! ```text
//! PCPFolio                              what the first line begins with
//! Version: 1                            the second
//! Archive: HOST NAME                    one for each archive, separated by blanks and tabs; all else is passed over
//! ```
//!
//! A name that does not begin at the root is in the folio's directory. Of the bytes of names nothing is taken for anything
//! but a name, except the commas between archives that a context on several has.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::messages::error_text;

/// What a folio begins with.
const MAGIC: &[u8] = b"PCPFolio";
const VERSION: &[u8] = b"Version: 1";
const ARCHIVE: &[u8] = b"Archive:";
/// Bytes of a folio that are read; a longer file is none.
const MAX_BYTES: u64 = 1 << 20;
/// Archives in a folio: all of them are open at a time.
const MAX_ARCHIVES: usize = 1000;

/// Why there is no archive to be had from a folio. The words are those of PCP's tools, where these have any.
#[derive(Debug)]
pub(super) enum FolioError {
    Unreadable(io::Error),
    NoHeader,
    BadMagic,
    NoVersion,
    UnknownVersion,
    MissingHost(usize),
    MissingPath(usize),
    NotUtf8(usize),
    TooLong,
    TooMany(usize),
}

impl FolioError {
    /// With the folio's name in its place.
    pub(super) fn of<'a>(&'a self, folio: &'a str) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| match self {
            FolioError::Unreadable(error) => {
                write!(f, "cannot open archive folio {folio}: {}", error_text(error))
            }
            FolioError::NoHeader => write!(f, "archive folio {folio} has no header"),
            FolioError::BadMagic => write!(f, "archive folio {folio} has bad magic"),
            FolioError::NoVersion => write!(f, "archive folio {folio} has no version"),
            FolioError::UnknownVersion => write!(f, "unknown version archive folio {folio}"),
            FolioError::MissingHost(line) => write!(f, "missing host on archive folio line {line}"),
            FolioError::MissingPath(line) => write!(f, "missing path on archive folio line {line}"),
            FolioError::NotUtf8(line) => {
                write!(
                    f,
                    "archive folio {folio}, line {line}: the path is not UTF-8: name the archive with -a"
                )
            }
            FolioError::TooLong => {
                write!(f, "archive folio {folio} has more than {MAX_BYTES} bytes: name the archives with -a")
            }
            FolioError::TooMany(line) => write!(
                f,
                "archive folio {folio}, line {line}: more than {MAX_ARCHIVES} archives: name those you want with -a"
            ),
        })
    }
}

/// The archives that a folio names, in its order.
///
/// # Errors
/// Why it names none that could be opened.
pub(super) fn archives(folio: &str) -> Result<Vec<String>, FolioError> {
    let mut bytes = Vec::new();
    let file = File::open(folio).map_err(FolioError::Unreadable)?;
    // A directory, for instance, can be opened and not be read: PCP's tools find no line in it.
    if file.take(MAX_BYTES + 1).read_to_end(&mut bytes).is_err() {
        return Err(FolioError::NoHeader);
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FolioError::TooLong);
    }
    let dir = Path::new(folio).parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.map_or_else(|| ".".to_owned(), |dir| dir.to_string_lossy().into_owned());
    parse(&bytes, &dir)
}

fn parse(bytes: &[u8], dir: &str) -> Result<Vec<String>, FolioError> {
    if bytes.is_empty() {
        return Err(FolioError::NoHeader);
    }
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut lines = bytes.split(|&byte| byte == b'\n').zip(1..);
    match lines.next() {
        Some((line, _)) if line.starts_with(MAGIC) => {}
        _ => return Err(FolioError::BadMagic),
    }
    match lines.next() {
        None => return Err(FolioError::NoVersion),
        Some((line, _)) if !line.starts_with(VERSION) => return Err(FolioError::UnknownVersion),
        Some(_) => {}
    }
    let mut archives = Vec::new();
    for (line, number) in lines.filter(|(line, _)| line.starts_with(ARCHIVE)) {
        let mut words = line.split(|byte| b" \t\r".contains(byte)).filter(|word| !word.is_empty()).skip(1);
        words.next().ok_or(FolioError::MissingHost(number))?;
        let path = words.next().ok_or(FolioError::MissingPath(number))?;
        let path = std::str::from_utf8(path).map_err(|_| FolioError::NotUtf8(number))?;
        if archives.len() == MAX_ARCHIVES {
            return Err(FolioError::TooMany(number));
        }
        archives.push(if path.starts_with('/') { path.to_owned() } else { format!("{dir}/{path}") });
    }
    Ok(archives)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<String>, String> {
        parse(text.as_bytes(), "dir").map_err(|error| error.of("f").to_string())
    }

    /// Each as with pmprobe of 6.0.3.
    #[test]
    fn folios_are_read_as_by_pcp() {
        let head = "PCPFolio\nVersion: 1\n";
        let found = |rest: &str| parsed(&format!("{head}{rest}")).unwrap();
        assert_eq!(
            found(
                "# a comment\n\nCreated: on gonzo\nCreator: pmchart\nArchive:\tgonzo\t\t/a/b\nArchive: x c extra"
            ),
            ["/a/b", "dir/c"]
        );
        assert!(found("  Archive: h /a\narchive: h /a\nArchived: h /a\nArchive h /a\n").is_empty());
        assert_eq!(found("Archive:x h /a\r\n"), ["/a"]);
        assert_eq!(parsed("PCPFolio1 x\nVersion: 12\nArchive: h /a\n").unwrap(), ["/a"]);
        for (text, expected) in [
            ("", "archive folio f has no header"),
            ("\nVersion: 1\n", "archive folio f has bad magic"),
            ("PCPfolio\nVersion: 1\n", "archive folio f has bad magic"),
            (" PCPFolio\nVersion: 1\n", "archive folio f has bad magic"),
            ("PCPFolio", "archive folio f has no version"),
            ("PCPFolio\n", "archive folio f has no version"),
            ("PCPFolio\nVersion: 2\n", "unknown version archive folio f"),
            ("PCPFolio\nVersion:\t1\n", "unknown version archive folio f"),
            ("PCPFolio\n\nVersion: 1\n", "unknown version archive folio f"),
            ("PCPFolio\nVersion: 1\nArchive:\n", "missing host on archive folio line 3"),
            ("PCPFolio\nVersion: 1\n#\nArchive: /a\n", "missing path on archive folio line 4"),
            ("PCPFolio\nVersion: 1\nArchive:h /a\n", "missing path on archive folio line 3"),
        ] {
            assert_eq!(parsed(text), Err(expected.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn what_a_folio_takes_is_bounded() {
        let many = format!("PCPFolio\nVersion: 1\n{}", "Archive: h /a\n".repeat(MAX_ARCHIVES + 1));
        let error = parsed(&many).unwrap_err();
        assert!(error.contains("line 1003: more than 1000 archives"), "{error}");
        let bad = parse(b"PCPFolio\nVersion: 1\nArchive: h /\xff\n", ".").unwrap_err();
        assert!(bad.of("f").to_string().contains("line 3: the path is not UTF-8"));
        // A file that does not end.
        assert!(matches!(archives("/dev/zero"), Err(FolioError::TooLong)));
    }
}

//! The lines of an id file, as `pmdaCache(3)` writes them.

use std::fmt::Write as _;
use std::sync::Arc;

/// A name and its id, as on file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub id: i32,
    pub name: Arc<str>,
    /// Key bytes of an entry a C agent made with `pmdaCacheStoreKey`, kept as they were.
    pub key: Option<Box<str>>,
    /// When it was last used, in seconds since the epoch.
    pub used: u64,
    /// The id means this name in archives only.
    pub retired: bool,
}

/// The first line of a file.
pub(crate) fn header(max: i32) -> String {
    format!("2 0 {max}\n")
}

/// Appends an entry's line.
pub(crate) fn push_line(out: &mut String, entry: &Entry) {
    let Entry { id, used, name, .. } = entry;
    let key = entry.key.as_deref().unwrap_or("");
    // Writing to a String cannot fail.
    let _ = match entry.retired {
        true => writeln!(out, "{id} {used} {key}(retired:{id}) {name}"),
        false => writeln!(out, "{id} {used} {key}{name}"),
    };
}

/// The name that was retired, in what stands for it in the line of `id`.
fn split_retired(id: i32, text: &str) -> Option<&str> {
    let (number, name) = text.strip_prefix(RETIRED)?.split_once(") ")?;
    (number.parse() == Ok(id) && !name.is_empty()).then_some(name)
}

/// Whether a name would be taken for one that was retired.
pub(crate) fn looks_retired(name: &str) -> bool {
    name.starts_with(RETIRED)
}

/// How the line of a name that was retired begins where others have their name.
const RETIRED: &str = "(retired:";

/// The header's maximum, which version 1 lacks; `None` for what is no header.
pub(crate) fn parse_header(line: &[u8]) -> Option<Option<i32>> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let version = words.next()?;
    words.next()?.parse::<u8>().ok().filter(|mode| *mode <= 1)?;
    match (version, words.next(), words.next()) {
        ("1", None, None) => Some(None),
        ("2", Some(max), None) => max.parse().ok().filter(|max| *max >= 0).map(Some),
        _ => None,
    }
}

/// An entry's line.
pub(crate) fn parse_entry(line: &str) -> Option<Entry> {
    let (id, rest) = line.split_once(' ')?;
    let (used, rest) = rest.split_once(' ')?;
    let (key, name) = split_key(rest);
    if name.is_empty() {
        return None;
    }
    let id = id.parse().ok().filter(|id| *id >= 0)?;
    let retired = split_retired(id, name);
    Some(Entry {
        id,
        name: retired.unwrap_or(name).into(),
        key: key.map(Into::into),
        used: used.parse().ok()?,
        retired: retired.is_some(),
    })
}

/// Splits off a `[hex] ` key with its blank.
pub(crate) fn split_key(text: &str) -> (Option<&str>, &str) {
    let is_key = |hex: &str| !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((hex, _)) if is_key(hex) => {
            let (key, name) = text.split_at(hex.len() + 3);
            (Some(key), name)
        }
        _ => (None, text),
    }
}

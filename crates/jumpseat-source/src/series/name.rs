//! Names of metrics as names of PCP, and back.
//!
//! ```text
//! a dot                                    a dot: a level of the name space
//! a letter, a digit, an underscore         as it is
//! any other byte                           _xHH, in hexadecimal; and so is an underscore before what would be read as that
//! a level that begins with no letter, or   x_ in front
//!   with x_
//! a dot below a metric                     _x2e: PCP has no name that is both a metric and a level
//! the same, of a name without dots         _x01 at the end
//! the same name with another unit or kind  _x02, _x03 at the end: the second, the third of that name
//! ```
//!
//! [`original`] reads all of these back, so that the name of a metric tells what it is called where it comes from.

/// Longest name, in bytes, as OpenTelemetry has it.
pub const MAX_NAME: usize = 255;

/// The name for PCP, by the general rules; the last three are for those that there are already. `None` for no name: empty, too long, or with
/// control characters.
pub fn mapped(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return None;
    }
    Some(name.split('.').map(level).collect::<Vec<_>>().join("."))
}

/// The name with the dot at `at` as part of a level.
pub(super) fn joined(name: &str, at: usize) -> String {
    // The level behind it need not begin with a letter any more, and may keep that it does.
    format!("{}_x2e{}", escapable(&name[..at]), &name[at + 1..])
}

/// The `n`th metric of a name, from 2 on; 1 for the first one where another metric has the name as a level.
pub(super) fn nth(name: &str, n: u8) -> String {
    format!("{}_x{n:02x}", escapable(name))
}

/// A name whose last level may be followed by an escape: behind an `x` it would look like what is put in front.
fn escapable(name: &str) -> String {
    match name.strip_suffix('x') {
        Some(above) if above.is_empty() || above.ends_with('.') => format!("{above}x_x"),
        _ => name.to_owned(),
    }
}

/// What a metric is called where it comes from; `None` for what is no result of [`mapped`] and its kin.
pub fn original(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    for (index, level) in name.split('.').enumerate() {
        if index > 0 {
            bytes.push(b'.');
        }
        read_level(level, &mut bytes)?;
    }
    String::from_utf8(bytes).ok()
}

fn level(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || byte == b'_' && escape(&bytes[at..]).is_none();
        if is_plain {
            out.push(byte.into());
        } else {
            out.push_str(&format!("_x{byte:02x}"));
        }
    }
    // An escape behind an `x` looks like it, too.
    if !out.starts_with(|c: char| c.is_ascii_alphabetic()) || out.starts_with("x_") {
        out.insert_str(0, "x_");
    }
    out
}

fn read_level(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let mut rest = text.as_bytes();
    if let Some(more) = rest.strip_prefix(b"x_") {
        rest = more;
    }
    while let [first, more @ ..] = rest {
        match escape(rest) {
            // Which one of its name it is.
            Some(..0x20) if rest.len() == 4 => return Some(()),
            Some(..0x20) => return None,
            Some(b'.') => {
                out.push(b'.');
                rest = &rest[4..];
                // The level that was joined.
                if let Some(more) = rest.strip_prefix(b"x_") {
                    rest = more;
                }
            }
            Some(byte) => {
                out.push(byte);
                rest = &rest[4..];
            }
            None => {
                out.push(*first);
                rest = more;
            }
        }
    }
    Some(())
}

/// The byte that `_xHH` at the beginning stands for.
fn escape(text: &[u8]) -> Option<u8> {
    let [b'_', b'x', high, low, ..] = *text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_all_kinds() {
        for (name, expected) in [
            ("http.server.duration", "http.server.duration"),
            ("http_requests_total", "http_requests_total"),
            ("a-b/c", "a_x2db_x2fc"),
            ("2xx.count", "x_2xx.count"),
            ("_x.x_y", "x__x.x_x_y"),
            ("a_x2e", "a_x5fx2e"),
            ("a..b", "a.x_.b"),
            ("x.", "x.x_"),
            ("größe", "gr_xc3_xb6_xc3_x9fe"),
        ] {
            assert_eq!(mapped(name).as_deref(), Some(expected));
            assert_eq!(original(expected).as_deref(), Some(name));
        }
        assert_eq!(original(&nth("a.b", 3)).as_deref(), Some("a.b"));
        assert_eq!(original(&joined("a.x_2", 1)).as_deref(), Some("a.2"));
        assert_eq!(mapped(""), None);
        assert_eq!(mapped("a\nb"), None);
        assert_eq!(mapped(&"a".repeat(256)), None);
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in "[a-z_x.2é/-]{1,20}|\\PC{1,40}") {
            if let Some(there) = mapped(&name) {
                prop_assert_eq!(original(&there), Some(name.clone()));
                prop_assert_eq!(original(&nth(&there, 2)), Some(name.clone()));
                prop_assert_eq!(original(&nth(&there, 1)), Some(name.clone()));
                for (at, _) in there.match_indices('.') {
                    prop_assert_eq!(original(&joined(&there, at)), Some(name.clone()));
                }
                let is_level = |level: &str| {
                    level.starts_with(|c: char| c.is_ascii_alphabetic())
                        && level.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                };
                prop_assert!(there.split('.').all(is_level), "{}", there);
            }
        }
    }
}

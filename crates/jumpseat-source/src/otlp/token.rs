//! The token that clients must know, where the configuration names a file with one.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use http::{HeaderMap, header};
use pcp_files::{Links, read_anyones};
use subtle::ConstantTimeEq as _;

use crate::setting::InvalidKey;

/// Told to whoever does not know it, over both protocols.
pub(super) const REFUSED: &str =
    "no valid token: send the one of otlp.token_file in the header Authorization: Bearer TOKEN";

/// The configuration's key.
const KEY: &str = "token_file";
/// Shortest and longest token: shorter ones can be guessed, longer ones do not fit a head.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=4096;

/// A secret. It is never printed.
#[derive(Clone)]
pub(super) struct Token(Vec<u8>);

impl Token {
    /// Reads a file with one line.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or what is in it is no token.
    pub(super) fn read(path: &Path) -> Result<Token, InvalidKey> {
        let invalid = |words: String| InvalidKey::other(KEY, words);
        let (file, meta) = read_anyones(path, Links::Followed)
            .map_err(|error| invalid(format!("cannot read it: {error}")))?;
        if meta.mode() & 0o007 != 0 {
            let words = format!(
                "{}: everybody may use it (mode {:o}); chmod o=",
                path.display(),
                meta.mode() & 0o777
            );
            return Err(invalid(words));
        }
        let mut text = Vec::new();
        file.take(*LENGTHS.end() as u64 + 2)
            .read_to_end(&mut text)
            .map_err(|error| invalid(format!("{}: cannot read it: {error}", path.display())))?;
        let token = text.trim_ascii();
        if !LENGTHS.contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic) {
            let (least, most) = (LENGTHS.start(), LENGTHS.end());
            let words = format!("{}: not one word of {least} to {most} ASCII characters", path.display());
            return Err(invalid(words));
        }
        Ok(Token(token.to_vec()))
    }

    /// Whether a request knows it. How long this takes says nothing of where what was sent is wrong.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (sent.next(), sent.next()) else { return false };
        let Some((scheme, token)) = value.as_bytes().split_first_chunk::<7>() else { return false };
        scheme.eq_ignore_ascii_case(b"bearer ") && token.trim_ascii().ct_eq(&self.0).into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use http::HeaderValue;

    use super::*;

    fn read(text: &str, mode: u32) -> Result<Token, String> {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        fs::write(file.path(), text).expect("written");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("ours");
        Token::read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_is_one_word_of_a_file_that_is_not_everybodys() {
        assert!(read("0123456789abcdef\n", 0o640).is_ok());
        let longest = "x".repeat(4096);
        assert!(read(&format!("{longest}\n"), 0o600).is_ok());
        for (text, mode, part) in [
            ("0123456789abcdef", 0o644, "everybody may use it (mode 644)"),
            ("short", 0o600, "not one word of 16 to 4096"),
            ("", 0o600, "not one word"),
            ("0123456789 abcdefgh", 0o600, "not one word"),
            (&format!("{longest}x"), 0o600, "not one word"),
        ] {
            let error = read(text, mode).err().expect(text);
            assert!(error.starts_with("token_file: ") && error.contains(part), "{error}");
        }
        let error = Token::read(Path::new("/nonexistent/token")).err().expect("there is none").to_string();
        assert!(error.contains("/nonexistent/token"), "{error}");
    }

    #[test]
    fn only_the_whole_token_is_one() {
        let token = read("0123456789abcdef", 0o600).expect("a token");
        for (sent, known) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer 0123456789abcdef", true),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdeg", false),
            ("Bearer 0123456789abcdef0", false),
            ("Bearer ", false),
            ("Basic 0123456789abcdef", false),
            ("0123456789abcdef", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(sent));
            assert_eq!(token.is_in(&headers), known, "{sent}");
            headers.append(header::AUTHORIZATION, HeaderValue::from_static(sent));
            assert!(!token.is_in(&headers), "twice");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }
}

//! A file of tokens: names, secrets, and what each of them may.
//!
//! ```text
//! line   := NAME SP SECRET {SP KEY "=" VALUE} | SECRET   # blank lines and lines that begin with # count for nothing
//! SECRET := 16 to 4096 printable ASCII characters | "sha256:" 64 hexadecimal digits
//! ```
//!
//! A line of one word is a token of the name `token`: a file with nothing but a secret is one of tokens.
//!
//! **Invariant:** what is kept of a secret is its SHA-256, which is compared in constant time; it is in no message.

use std::fmt;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pcp_files::{Links, read_anyones};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

/// Shortest and longest token: shorter ones can be guessed, longer ones do not fit a head.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=4096;
/// What is before a hash.
const HASHED: &str = "sha256:";
/// Longest name of a token.
const MAX_NAME: usize = 64;
/// Most tokens, and the longest file.
const MAX_TOKENS: usize = 1024;
const MAX_FILE: u64 = 1 << 20;

/// What is kept of a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretHash([u8; SHA256_OUTPUT_LEN]);

/// A line of a file of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenLine {
    /// What it is called.
    pub name: String,
    /// What its secret comes to.
    pub hash: SecretHash,
    /// What it may: keys and values, as they are written.
    pub options: Vec<(String, String)>,
}

/// A file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It cannot be read.
    #[error("{}: cannot read it: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Others may read it.
    #[error("{}: everybody may use it (mode {mode:o}); chmod o=", .path.display())]
    Everybody {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A line is not of a token. What is secret of it is not told.
    #[error("{}:{line}: {problem}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// Reads a file: its lines, each with its number.
///
/// # Errors
/// [`TokenError`].
pub fn read_tokens(path: &Path) -> Result<Vec<(usize, TokenLine)>, TokenError> {
    let failed = |error| TokenError::File { path: path.to_owned(), error };
    let (file, meta) =
        read_anyones(path, Links::Followed).map_err(|error| failed(io::Error::other(error.to_string())))?;
    if meta.mode() & 0o007 != 0 {
        return Err(TokenError::Everybody { path: path.to_owned(), mode: meta.mode() & 0o777 });
    }
    let mut text = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE {
        return Err(failed(io::Error::other(format!("longer than {MAX_FILE} bytes"))));
    }
    parse_tokens(&text).map_err(|(line, problem)| TokenError::Line { path: path.to_owned(), line, problem })
}

/// The number of the token whose secret this is. How long this takes says nothing of what is wrong with it.
pub fn find_token<'a>(hashes: impl IntoIterator<Item = &'a SecretHash>, secret: &[u8]) -> Option<usize> {
    let hash = SecretHash::of(secret);
    let mut found = u32::MAX;
    for (number, known) in (0..u32::MAX).zip(hashes) {
        let same: Choice = known.0.ct_eq(&hash.0);
        found.conditional_assign(&number, same);
    }
    (found != u32::MAX).then_some(found as usize)
}

/// The same of text: lines, each with its number.
///
/// # Errors
/// The number of a line, and what is wrong with it, without what is secret of it.
pub fn parse_tokens(text: &[u8]) -> Result<Vec<(usize, TokenLine)>, (usize, String)> {
    let mut tokens: Vec<(usize, TokenLine)> = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let failed = |words: String| (number + 1, words);
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let line = str::from_utf8(line).map_err(|_| failed("not ASCII".to_owned()))?;
        let token = TokenLine::parse(line).map_err(failed)?;
        if tokens.iter().any(|(_, other)| other.name == token.name) {
            return Err(failed(format!("a second token of the name {}", token.name)));
        }
        if tokens.iter().any(|(_, other)| other.hash == token.hash) {
            return Err(failed("the same secret as that of an earlier line".to_owned()));
        }
        if tokens.len() == MAX_TOKENS {
            return Err(failed(format!("more than {MAX_TOKENS} tokens")));
        }
        tokens.push((number + 1, token));
    }
    match tokens.is_empty() {
        true => Err((1, "no token: write one a line, NAME SECRET".to_owned())),
        false => Ok(tokens),
    }
}

impl TokenLine {
    fn parse(line: &str) -> Result<TokenLine, String> {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        let (name, secret) = match words.next() {
            None => ("token", first),
            Some(secret) => (first, secret),
        };
        let of_name = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(of_name) {
            // Not shown: it may be a secret in the wrong place.
            return Err(format!("its first word is no name: 1 to {MAX_NAME} letters, digits and ._-@"));
        }
        let hash = SecretHash::parse(secret).map_err(|words| format!("token {name}: {words}"))?;
        let option = |word: &str| {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| format!("token {name}: a further word that is no option (KEY=VALUE)"))?;
            Ok((key.to_owned(), value.to_owned()))
        };
        let options: Result<_, String> = words.map(option).collect();
        Ok(TokenLine { name: name.to_owned(), hash, options: options? })
    }
}

impl SecretHash {
    /// That of a secret.
    pub fn of(secret: &[u8]) -> SecretHash {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest(&SHA256, secret).as_ref());
        SecretHash(hash)
    }

    /// Its bytes, for who keeps it as a key.
    pub fn bytes(self) -> [u8; SHA256_OUTPUT_LEN] {
        self.0
    }

    fn parse(word: &str) -> Result<SecretHash, String> {
        if let Some(digits) = word.strip_prefix(HASHED) {
            let mut hash = [0; SHA256_OUTPUT_LEN];
            let is_hex =
                digits.len() == 2 * hash.len() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let pairs =
                digits.as_bytes().chunks_exact(2).map(|pair| str::from_utf8(pair).unwrap_or_default());
            for (byte, pair) in hash.iter_mut().zip(pairs) {
                *byte = u8::from_str_radix(pair, 16).unwrap_or_default();
            }
            let wrong = || format!("{HASHED} and not 64 hexadecimal digits (printf %s TOKEN | sha256sum)");
            return is_hex.then_some(SecretHash(hash)).ok_or_else(wrong);
        }
        if !LENGTHS.contains(&word.len()) || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
            let (least, most) = (LENGTHS.start(), LENGTHS.end());
            return Err(format!("not one word of {least} to {most} ASCII characters"));
        }
        Ok(SecretHash::of(word.as_bytes()))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

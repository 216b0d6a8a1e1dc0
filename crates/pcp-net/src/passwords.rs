//! Who may log in: a file of users and what their passwords come to.
//!
//! ```text
//! # one user a line; jumpseat passwd FILE USER writes it
//! ada:$pbkdf2-sha512$i=210000$SALT$KEY        salt and key in base64 without padding
//! ```
//!
//! The file is read anew whenever somebody logs in, so that a change counts at once.
//!
//! **Cost:** a tenth of a second of one processor for each attempt, whether or not there is such a user: that is what
//! makes guessing slow. Not for an event loop.

use std::io::{self, ErrorKind};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, pbkdf2};

use crate::secret;

const SCHEME: &str = "pbkdf2-sha512";
/// Rounds of new entries.
const ROUNDS: u32 = 210_000;
/// Rounds of an entry that somebody else has written: fewer protect nothing, more take seconds.
const ALLOWED_ROUNDS: std::ops::RangeInclusive<u32> = 10_000..=10_000_000;
const SALT: usize = 16;
const KEY: usize = digest::SHA512_OUTPUT_LEN;
/// Longest password.
const MAX_PASSWORD: usize = 1024;

/// A file with users and passwords.
#[derive(Clone, Debug)]
pub struct Passwords {
    path: PathBuf,
}

/// A file with passwords cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PasswordError {
    /// It cannot be read or written, or others may read it.
    #[error("{}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A line is no entry.
    #[error("{}:{line}: {problem}; write entries with: jumpseat passwd {} USER", .path.display(), .path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A name or password that cannot be kept.
    #[error("{0}")]
    Refused(&'static str),
}

/// What a password comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hash {
    rounds: NonZeroU32,
    salt: Vec<u8>,
    key: Vec<u8>,
}

impl Passwords {
    /// The users in a file, all of which is looked at.
    ///
    /// # Errors
    /// [`PasswordError`].
    pub fn open(path: &Path) -> Result<Passwords, PasswordError> {
        let passwords = Passwords { path: path.to_owned() };
        passwords.find("")?;
        Ok(passwords)
    }

    /// Whether it is this user's password. Takes as long for a user that there is not.
    ///
    /// # Errors
    /// [`PasswordError`]: the file is not what it was when it was opened.
    pub fn verify(&self, user: &str, password: &str) -> Result<bool, PasswordError> {
        let found = self.find(user)?;
        let is_there = found.is_some();
        let hash = found.unwrap_or_else(|| Hash { rounds: rounds(), salt: vec![0; SALT], key: vec![0; KEY] });
        // Compares in constant time.
        Ok(hash.verify(password.as_bytes()) && is_there)
    }

    /// Writes a user's password, in place of an older one. A file that is not there yet is made, for its owner alone.
    ///
    /// # Errors
    /// [`PasswordError`]; the file is as it was then.
    pub fn set(path: &Path, user: &str, password: &str) -> Result<(), PasswordError> {
        let refused = |text| Err(PasswordError::Refused(text));
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && c != ':' && c != '#';
        if user.is_empty() || user.len() > 256 || !user.chars().all(is_plain) {
            return refused("a user's name has 1 to 256 bytes and no blanks, colons or #");
        }
        if password.is_empty() || password.len() > MAX_PASSWORD || password.contains('\0') {
            return refused("a password has 1 to 1024 bytes, and none of them is 0");
        }
        let file = |error| PasswordError::File { path: path.to_owned(), error };
        let before = match secret::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(file(error)),
        };
        let before = text(path, before)?;
        let others = before.lines().filter(|line| line.split_once(':').is_none_or(|(name, _)| name != user));
        let mut after: String = others.flat_map(|line| [line, "\n"]).collect();
        let hash = Hash::of(password.as_bytes()).map_err(file)?;
        after.push_str(&format!("{user}:{}\n", hash.to_text()));
        write(path, after.as_bytes()).map_err(file)
    }

    /// What a user's password comes to. All entries are checked on the way.
    fn find(&self, user: &str) -> Result<Option<Hash>, PasswordError> {
        let file = |error| PasswordError::File { path: self.path.clone(), error };
        let text = text(&self.path, secret::read(&self.path).map_err(file)?)?;
        let mut found = None;
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = |problem| PasswordError::Entry { path: self.path.clone(), line: number + 1, problem };
            let (name, hash) = line.split_once(':').ok_or_else(|| entry("no USER:HASH"))?;
            let hash = Hash::parse(hash).ok_or_else(|| entry("not a hash of $pbkdf2-sha512$"))?;
            if name == user {
                found = Some(hash);
            }
        }
        Ok(found)
    }
}

impl Hash {
    fn of(password: &[u8]) -> io::Result<Hash> {
        let (mut salt, mut key) = (vec![0; SALT], vec![0; KEY]);
        SystemRandom::new()
            .fill(&mut salt)
            .map_err(|_| io::Error::other("the system gives no random numbers"))?;
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, rounds(), &salt, password, &mut key);
        Ok(Hash { rounds: rounds(), salt, key })
    }

    fn verify(&self, password: &[u8]) -> bool {
        // What nobody can have set need not be worked for.
        let is_one = password.len() <= MAX_PASSWORD;
        let password = if is_one { password } else { &[] };
        pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA512, self.rounds, &self.salt, password, &self.key).is_ok()
            && is_one
    }

    fn parse(text: &str) -> Option<Hash> {
        let mut parts = text.strip_prefix('$')?.split('$');
        let (scheme, rounds) = (parts.next()?, parts.next()?.strip_prefix("i=")?.parse().ok()?);
        let salt = BASE64.decode(parts.next()?).ok()?;
        let key = BASE64.decode(parts.next()?).ok()?;
        let is_whole = scheme == SCHEME && parts.next().is_none() && salt.len() >= 8 && key.len() == KEY;
        (is_whole && ALLOWED_ROUNDS.contains(&rounds)).then_some(Hash {
            rounds: NonZeroU32::new(rounds)?,
            salt,
            key,
        })
    }

    fn to_text(&self) -> String {
        format!("${SCHEME}$i={}${}${}", self.rounds, BASE64.encode(&self.salt), BASE64.encode(&self.key))
    }
}

fn rounds() -> NonZeroU32 {
    const { NonZeroU32::new(ROUNDS).expect("not zero") }
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, PasswordError> {
    let error = |_| io::Error::new(ErrorKind::InvalidData, "not UTF-8");
    String::from_utf8(bytes)
        .map_err(error)
        .map_err(|error| PasswordError::File { path: path.to_owned(), error })
}

/// Owner and permissions of the old file, or nobody's but its owner's.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    // Whoever reports it names the path.
    let failed = |error: pcp_files::FileError| io::Error::new(error.kind(), error.problem);
    let mut replacement = pcp_files::Replacement::begin(path).map_err(failed)?;
    let file = replacement.file();
    let old = std::fs::metadata(path).ok();
    if let Some(old) = &old {
        std::os::unix::fs::fchown(&*file, Some(old.uid()), Some(old.gid()))?;
    }
    let mode = old.map_or(0o600, |old| old.permissions().mode() & 0o640);
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    replacement.finish().map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_password_lets_in_its_own_user_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwords");
        Passwords::set(&path, "ada", "love lace: 1").unwrap();
        Passwords::set(&path, "bob", "x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let passwords = Passwords::open(&path).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        assert!(!before.contains("love"), "{before}");
        for (user, password, expected) in [
            ("ada", "love lace: 1", true),
            ("ada", "x", false),
            ("ada", "", false),
            ("bob", "x", true),
            ("eve", "x", false),
            ("", "", false),
        ] {
            assert_eq!(passwords.verify(user, password).unwrap(), expected, "{user} {password:?}");
        }
        // A new one takes the place of the old one at once.
        Passwords::set(&path, "bob", "y").unwrap();
        assert!(passwords.verify("bob", "y").unwrap() && !passwords.verify("bob", "x").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn what_is_no_entry_is_told_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwords");
        let key = BASE64.encode([0; KEY]);
        let problem = |text: &str| {
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            Passwords::open(&path).map_err(|error| error.to_string())
        };
        let salt = "AAAAAAAAAAAAAAAAAAAAAA";
        assert!(problem(&format!("# a comment\n\nx:$pbkdf2-sha512$i=10000${salt}${key}\n")).is_ok());
        for wrong in [
            "x".to_owned(),
            "x:secret".to_owned(),
            format!("x:$pbkdf2-sha512$i=1${salt}${key}"),
            format!("x:$pbkdf2-sha512$i=4294967295${salt}${key}"),
            format!("x:$pbkdf2-sha512$i=10000$${key}"),
            format!("x:$pbkdf2-sha512$i=10000${salt}${salt}"),
            format!("x:$argon2id$i=10000${salt}${key}"),
        ] {
            let error = problem(&format!("\n{wrong}\n")).unwrap_err();
            assert!(error.contains("passwords:2: ") && error.contains("jumpseat passwd"), "{error}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Passwords::open(&path).unwrap_err().to_string().contains("chmod 600"));
        for user in ["", "a:b", "a b", "#a"] {
            assert!(matches!(Passwords::set(&path, user, "x"), Err(PasswordError::Refused(_))), "{user:?}");
        }
    }
}

//! Who a client says it is: SASL's mechanism PLAIN (RFC 4616), the one that is offered.

use std::fmt;

use pcp_model::PmError;

/// The list of mechanisms, as it is sent.
pub(super) const MECHANISMS: &[u8] = b"PLAIN";
/// Longest answer of a client (`docs/pcp/wire.md` 16).
const MAX_ANSWER: usize = 2048;
/// `SASL_BADPROT`, as PCP shifts it.
pub(super) const BAD_PROTOCOL: PmError = PmError(-21_349);
/// `SASL_NOMECH`: on such a connection no mechanism is offered.
pub(super) const NO_MECHANISM: PmError = PmError(-21_348);
/// `SASL_BADAUTH`: no such user, or another password.
pub(super) const BAD_PASSWORD: PmError = PmError(-21_357);

/// A name and a password, not judged yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who the client says it is.
    pub user: String,
    /// What it proves it with.
    pub password: String,
}

/// Who a client has proved to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
}

impl Claim {
    /// Of a client's answer to the list: `PLAIN`, NUL, on whose behalf, NUL, user, NUL, password.
    ///
    /// # Errors
    /// It is another mechanism's, or on somebody else's behalf.
    pub(super) fn parse(answer: &[u8]) -> Result<Claim, PmError> {
        let text = std::str::from_utf8(answer).ok().filter(|_| answer.len() < MAX_ANSWER);
        let mut parts = text.ok_or(BAD_PROTOCOL)?.split('\0');
        let mut part = || parts.next().ok_or(BAD_PROTOCOL);
        let (mechanism, behalf, user, password) = (part()?, part()?, part()?, part()?);
        if !mechanism.eq_ignore_ascii_case("PLAIN") {
            return Err(NO_MECHANISM);
        }
        // A password ends with a NUL in no client that is known, but nothing else could come of it.
        if user.is_empty() || parts.any(|rest| !rest.is_empty()) {
            return Err(BAD_PROTOCOL);
        }
        if !behalf.is_empty() && behalf != user {
            return Err(BAD_PASSWORD);
        }
        Ok(Claim { user: user.to_owned(), password: password.to_owned() })
    }
}

impl fmt::Debug for Claim {
    /// Nothing of the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_is_what_rfc_4616_says() {
        let claim =
            |user: &str, password: &str| Ok(Claim { user: user.to_owned(), password: password.to_owned() });
        for (answer, expected) in [
            ("PLAIN\0\0ada\0secret", claim("ada", "secret")),
            ("plain\0ada\0ada\0", claim("ada", "")),
            ("PLAIN\0\0ada\0secret\0", claim("ada", "secret")),
            ("PLAIN\0root\0ada\0secret", Err(BAD_PASSWORD)),
            ("LOGIN\0\0ada\0secret", Err(NO_MECHANISM)),
            ("PLAIN", Err(BAD_PROTOCOL)),
            ("PLAIN\0\0ada", Err(BAD_PROTOCOL)),
            ("PLAIN\0\0\0secret", Err(BAD_PROTOCOL)),
            ("PLAIN\0\0ada\0secret\0more", Err(BAD_PROTOCOL)),
            ("", Err(BAD_PROTOCOL)),
        ] {
            assert_eq!(Claim::parse(answer.as_bytes()), expected, "{answer:?}");
        }
        assert_eq!(Claim::parse(b"PLAIN\0\0\xff\0x"), Err(BAD_PROTOCOL));
        assert_eq!(Claim::parse(&[b"PLAIN\0\0a\0", &[b'x'; 2048][..]].concat()), Err(BAD_PROTOCOL));
        assert!(!format!("{:?}", Claim::parse(b"PLAIN\0\0ada\0secret")).contains("secret"));
    }
}

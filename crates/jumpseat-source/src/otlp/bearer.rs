//! The token of a request: `Authorization: Bearer TOKEN` (RFC 6750), over both protocols.

use std::time::{Duration, Instant};

use http::{HeaderMap, header};

use super::decode::Outcome;
use super::server::{Port, add};
use crate::guard::tokens::Entered;

/// Told to whoever does not know one.
pub(super) const REFUSED: &str =
    "no valid token: send one of otlp.token_file in the header Authorization: Bearer TOKEN";
/// Told to whoever has used up what it allows.
pub(super) const LIMITED: &str =
    "as much as this token allows is under way, or was sent: send it again later";

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It says no token that counts.
    Unknown,
    /// Those before it have used up what its token allows, for so long.
    Limited(Duration),
}

/// Lets a request in, with its token if tokens are wanted.
///
/// # Errors
/// Why not, which is counted.
pub(super) fn admit(port: &Port, headers: &HeaderMap) -> Result<Option<Entered>, Stopped> {
    if !port.guard.wants_token() {
        return Ok(None);
    }
    port.guard.renew(Instant::now());
    let Some(token) = secret(headers).and_then(|secret| port.guard.token(secret)) else {
        add(&port.stats.unauthenticated, 1);
        return Err(Stopped::Unknown);
    };
    token.enter(Instant::now()).map(Some).map_err(|wait| {
        add(&port.stats.over_limit, 1);
        Stopped::Limited(wait)
    })
}

/// Counts what came of a request with its token.
pub(super) fn tell<E>(entered: Option<&Entered>, taken: &Result<Outcome, E>) {
    if let (Some(Entered { token }), Ok(outcome)) = (entered, taken) {
        token.counts().records(outcome.accepted, outcome.rejected);
    }
}

/// What a request says to be its token: once, or it says nothing.
fn secret(headers: &HeaderMap) -> Option<&[u8]> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (sent.next(), sent.next()) else { return None };
    let (scheme, token) = value.as_bytes().split_first_chunk::<7>()?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_is_said_once_and_as_a_bearer() {
        for (sent, expected) in [
            ("Bearer 0123456789abcdef", Some("0123456789abcdef")),
            ("bearer  0123456789abcdef ", Some("0123456789abcdef")),
            ("Bearer ", Some("")),
            ("Basic 0123456789abcdef", None),
            ("0123456789abcdef", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(sent));
            assert_eq!(secret(&headers), expected.map(str::as_bytes), "{sent}");
            headers.append(header::AUTHORIZATION, HeaderValue::from_static(sent));
            assert_eq!(secret(&headers), None, "twice");
        }
        assert_eq!(secret(&HeaderMap::new()), None);
    }
}

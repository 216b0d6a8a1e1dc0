//! Passwords and tokens: who asks.
//!
//! A password is judged in a tenth of a second of a thread; what was right is known for [`REMEMBER`], by what it hashes to, as clients
//! send it with each request. Failures are counted by address, and beyond [`MAX_ATTEMPTS`] in [`PERIOD`] nothing is judged any more.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use pcp_net::{Fresh, PasswordError, Passwords, SecretHash, TokenError, TokenLine, find_token, read_tokens};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::super::run::WebError;
use super::form;

/// How long a password that was right need not be judged again.
const REMEMBER: Duration = Duration::from_secs(300);
/// Most of those at a time.
const MAX_REMEMBERED: usize = 1024;
/// Passwords that are judged at a time: each is a processor's.
const JUDGES: usize = 2;
/// How long a password waits to be judged.
const PATIENCE: Duration = Duration::from_secs(5);
/// Failures of an address in a period.
const MAX_ATTEMPTS: u32 = 20;
const PERIOD: Duration = Duration::from_secs(60);
/// Addresses that are counted.
const MAX_ADDRESSES: usize = 4096;

/// Who may look.
#[derive(Debug)]
pub(super) struct People {
    passwords: Option<Arc<Mutex<Fresh<Passwords, PasswordError>>>>,
    tokens: Option<Mutex<Fresh<Vec<TokenLine>, TokenError>>>,
    remembered: Mutex<HashMap<Remembered, Instant>>,
    /// Attempts that have failed or are being judged.
    attempts: Mutex<HashMap<IpAddr, (u32, Instant)>>,
    judges: Arc<Semaphore>,
}

/// A user and a password that was right.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Remembered([u8; 32]);

/// Whether somebody may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// He may.
    Yes,
    /// He has to say who he is.
    No,
    /// Not before this has passed.
    Later(Duration),
}

impl People {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn open(passwords: Option<&Path>, tokens: Option<&Path>) -> Result<People, WebError> {
        let passwords =
            passwords.map(|path| Fresh::new(vec![path.to_owned()], |paths| Passwords::open(&paths[0])));
        let tokens = tokens.map(|path| Fresh::new(vec![path.to_owned()], |paths| tokens_of(&paths[0])));
        Ok(People {
            passwords: passwords.transpose()?.map(|fresh| Arc::new(Mutex::new(fresh))),
            tokens: tokens.transpose()?.map(Mutex::new),
            remembered: Mutex::default(),
            attempts: Mutex::default(),
            judges: Arc::new(Semaphore::new(JUDGES)),
        })
    }

    /// Whether nobody has to say who he is.
    pub(super) fn is_everybody(&self) -> bool {
        self.passwords.is_none() && self.tokens.is_none()
    }

    /// Who asks, by what he sends: `Bearer SECRET`, or `Basic` with user and password, or name and secret of a token.
    pub(super) async fn who(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Known {
        if self.is_everybody() {
            return Known::Yes;
        }
        let now = Instant::now();
        let Some(shown) = Shown::of(headers) else { return Known::No };
        // What costs nothing to find is never refused for what others have tried from there.
        if self.is_token(&shown, now) || self.is_remembered(&shown, now) {
            return Known::Yes;
        }
        let peer = peer.map(network);
        if let Some(wait) = self.attempt(peer, now) {
            return Known::Later(wait);
        }
        match self.judge(&shown, now).await {
            Some(false) => Known::No,
            Some(true) => {
                self.was_none(peer);
                Known::Yes
            }
            None => {
                self.was_none(peer);
                Known::Later(PATIENCE)
            }
        }
    }

    fn is_token(&self, shown: &Shown, now: Instant) -> bool {
        let Some(tokens) = &self.tokens else { return false };
        let mut tokens = lock(tokens);
        match tokens.renew(now) {
            None => {}
            Some(Ok(new)) => *tokens.value_mut() = new,
            // No file: nobody is let in any more. One that is wrong may be half written.
            Some(Err(_)) if tokens.is_gone() => tokens.value_mut().clear(),
            Some(Err(error)) => tracing::warn!("{error}; the tokens known before count on"),
        }
        let found = find_token(tokens.value().iter().map(|token| &token.hash), shown.secret.as_bytes());
        let named = |at: usize| shown.user.as_ref().is_none_or(|user| *user == tokens.value()[at].name);
        found.is_some_and(named)
    }

    /// Whether it is a password that was right not long ago.
    fn is_remembered(&self, shown: &Shown, now: Instant) -> bool {
        let (Some(passwords), Some(key)) = (&self.passwords, shown.remembered()) else { return false };
        // Somebody's password may have been changed.
        if let Some(new) = lock(passwords).renew(now) {
            lock(&self.remembered).clear();
            if let Err(error) = new {
                tracing::warn!("{error}");
            }
        }
        lock(&self.remembered).get(&key).is_some_and(|&since| now.duration_since(since) < REMEMBER)
    }

    /// Whether it is a password; `None`: that cannot be told now.
    async fn judge(&self, shown: &Shown, now: Instant) -> Option<bool> {
        let (Some(passwords), Some(user), Some(key)) = (&self.passwords, &shown.user, shown.remembered())
        else {
            return Some(false);
        };
        let judge = timeout(PATIENCE, Arc::clone(&self.judges).acquire_owned()).await;
        let Ok(Ok(judge)) = judge else { return None };
        let (file, user, password) = (lock(passwords).value().clone(), user.clone(), shown.secret.clone());
        // Beside the pool, which others may have filled.
        let judged = tokio::task::spawn_blocking(move || {
            let _judge = judge;
            file.verify(&user, &password)
        });
        let is_right = match judged.await {
            Ok(Ok(is_right)) => is_right,
            Ok(Err(error)) => {
                tracing::warn!("{error}");
                return None;
            }
            Err(_) => return None,
        };
        if is_right {
            let mut remembered = lock(&self.remembered);
            if remembered.len() >= MAX_REMEMBERED {
                remembered.clear();
            }
            remembered.insert(key, now);
        }
        Some(is_right)
    }

    /// Counts an attempt, before it is known what comes of it: many at once are many. How long to wait if there were too many.
    fn attempt(&self, peer: Option<IpAddr>, now: Instant) -> Option<Duration> {
        let peer = peer?;
        let mut attempts = lock(&self.attempts);
        if attempts.len() >= MAX_ADDRESSES && !attempts.contains_key(&peer) {
            attempts.retain(|_, (_, since)| now.duration_since(*since) < PERIOD);
            if attempts.len() >= MAX_ADDRESSES {
                return Some(PERIOD);
            }
        }
        let (count, since) = attempts.entry(peer).or_insert((0, now));
        let passed = now.duration_since(*since);
        if passed >= PERIOD {
            (*count, *since) = (0, now);
        } else if *count >= MAX_ATTEMPTS {
            return Some(PERIOD - passed);
        }
        *count += 1;
        None
    }

    /// It was no failure.
    fn was_none(&self, peer: Option<IpAddr>) {
        if let Some(peer) = peer
            && let Some((count, _)) = lock(&self.attempts).get_mut(&peer)
        {
            *count = count.saturating_sub(1);
        }
    }
}

/// Whose address it is: of version 6 a customer has a whole network.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !(u128::MAX >> 64))),
        address => address,
    }
}

/// What somebody says of himself.
struct Shown {
    user: Option<String>,
    secret: String,
}

impl Shown {
    fn of(headers: &HeaderMap) -> Option<Shown> {
        let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, rest) = text.split_once(' ')?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Shown { user: None, secret: rest.to_owned() });
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let plain = String::from_utf8(BASE64.decode(rest).ok()?).ok()?;
        let (user, secret) = plain.split_once(':')?;
        Some(Shown { user: Some(user.to_owned()), secret: secret.to_owned() })
    }

    fn remembered(&self) -> Option<Remembered> {
        let user = self.user.as_ref()?;
        Some(Remembered(SecretHash::of(format!("{user}\0{}", self.secret).as_bytes()).bytes()))
    }
}

/// The answer to who has to say who he is.
pub(super) fn log_in(path: &str) -> Response {
    let why = "log in: with user and password, or with a token (Authorization: Bearer SECRET)";
    let mut answer = form::refusal(path, StatusCode::UNAUTHORIZED, why);
    // Browsers ask for user and password then.
    let ways = HeaderValue::from_static("Basic realm=\"jumpseat\", charset=\"UTF-8\"");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, ways);
    answer
}

/// The tokens of a file. They have no options here: everybody who is let in may see the same.
fn tokens_of(path: &Path) -> Result<Vec<TokenLine>, TokenError> {
    let bare = |(line, token): (usize, TokenLine)| {
        if token.options.is_empty() {
            return Ok(token);
        }
        let problem = format!("token {}: no options (KEY=VALUE) are known here", token.name);
        Err(TokenError::Line { path: path.to_owned(), line, problem })
    };
    read_tokens(path)?.into_iter().map(bare).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The file of tokens (`pcp_net::read_tokens`): who may send, how much, and under which names.
//!
//! ```text
//! option := "requests=" N | "bytes=" SIZE | "in_flight=" N | "sources=" SOURCE {"," PATTERN}
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pcp_net::{SecretHash, TokenError, TokenLine, find_token, read_tokens};

use super::book::{TokenBook, TokenCounts};
use super::pace::Pace;
use crate::registry::is_source_name;
use crate::setting::InvalidKey;
use crate::size;

/// The configuration's key.
const KEY: &str = "token_file";
/// Most sources that a token names.
const MAX_SOURCES: usize = 64;
/// How long to wait where others of the same token are to end first.
const SOON: Duration = Duration::from_secs(1);

/// All tokens that count.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    hash: SecretHash,
    token: Arc<Token>,
}

/// A token, and what those who know it may.
#[derive(Debug)]
pub(crate) struct Token {
    name: String,
    rules: Rules,
    pass: Option<Arc<Pass>>,
    paces: Mutex<[Option<Pace>; 2]>,
    in_flight: AtomicU32,
    revoked: AtomicBool,
    counts: Arc<TokenCounts>,
}

/// What its line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rules {
    requests: Option<u64>,
    bytes: Option<u64>,
    in_flight: Option<u32>,
    sources: Vec<String>,
}

/// In the name of which sources somebody may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The source of what names none, or one that is for others.
    pub(crate) own: String,
    /// Names, and beginnings of names.
    allowed: Vec<(String, bool)>,
    /// Those of the token.
    pub(crate) counts: Arc<TokenCounts>,
}

/// Something of a token's that is going on.
#[derive(Debug)]
pub(crate) struct Entered {
    /// Whose it is.
    pub(crate) token: Arc<Token>,
}

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or a line is not of a token.
    pub(crate) fn read(path: &Path) -> Result<Tokens, InvalidKey> {
        let wrong = |(line, problem)| TokenError::Line { path: path.to_owned(), line, problem };
        let tokens = read_tokens(path).and_then(|lines| Tokens::of(lines).map_err(wrong));
        tokens.map_err(|error| InvalidKey::other(KEY, error.to_string()))
    }

    /// Those of lines, or the number of one and what is wrong with it.
    fn of(lines: Vec<(usize, TokenLine)>) -> Result<Tokens, (usize, String)> {
        let entry = |(number, line)| Entry::of(line).map_err(|problem| (number, problem));
        Ok(Tokens(lines.into_iter().map(entry).collect::<Result<_, _>>()?))
    }

    /// Has what is done with them counted by their names.
    pub(crate) fn enlist(&mut self, book: &TokenBook) {
        for entry in &mut self.0 {
            // Nobody else has one that was just read.
            if let Some(token) = Arc::get_mut(&mut entry.token) {
                token.counts = book.counts(&token.name);
                if let Some(pass) = token.pass.as_mut().and_then(Arc::get_mut) {
                    pass.counts = Arc::clone(&token.counts);
                }
            }
        }
    }

    /// The token of a secret. How long this takes says nothing of what is wrong with it.
    pub(crate) fn find(&self, secret: &[u8]) -> Option<Arc<Token>> {
        let found = find_token(self.0.iter().map(|entry| &entry.hash), secret)?;
        self.0.get(found).map(|entry| Arc::clone(&entry.token))
    }

    /// From now on these count. One whose line is the same goes on as it is; the others are revoked.
    pub(crate) fn become_these(&mut self, new: Tokens) {
        let mut old = std::mem::replace(&mut self.0, new.0);
        for entry in &mut self.0 {
            let is_same = |before: &Entry| {
                before.hash == entry.hash
                    && before.token.name == entry.token.name
                    && before.token.rules == entry.token.rules
            };
            if let Some(at) = old.iter().position(is_same) {
                entry.token = old.swap_remove(at).token;
            }
        }
        Tokens(old).revoke_all();
    }

    /// None counts any more.
    pub(crate) fn revoke_all(&mut self) {
        for entry in self.0.drain(..) {
            entry.token.revoked.store(true, Ordering::Relaxed);
        }
    }
}

impl Entry {
    fn of(line: TokenLine) -> Result<Entry, String> {
        let name = line.name;
        let mut rules = Rules::default();
        for (key, value) in &line.options {
            rules.set(key, value).map_err(|words| format!("token {name}: {key}: {words}"))?;
        }
        Ok(Entry { hash: line.hash, token: Arc::new(Token::new(&name, rules)) })
    }
}

impl Rules {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let count = |most: u64| {
            let number = value.parse::<u64>().ok().filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| format!("not a number from 1 to {most}"))
        };
        match key {
            "requests" => self.requests = Some(count(1_000_000)?),
            "in_flight" => self.in_flight = Some(count(10_000)? as u32),
            "bytes" => {
                let bytes = size::parse(value).filter(|bytes| (1024..=1 << 40).contains(bytes));
                self.bytes = Some(bytes.ok_or("not a size from 1KiB to 1TiB, such as 10MiB")?);
            }
            "sources" => {
                self.sources = value.split(',').map(str::to_owned).collect();
                let names = self.sources.iter().map(|name| name.strip_suffix('*').unwrap_or(name));
                let wrong = names.clone().find(|name| !is_source_name(name));
                if self.sources.len() > MAX_SOURCES || wrong.is_some() || self.sources[0].ends_with('*') {
                    return Err(format!(
                        "not up to {MAX_SOURCES} names of sources with commas between, of which all but the first may end in *"
                    ));
                }
            }
            _ => return Err("requests, bytes, in_flight and sources are allowed".to_owned()),
        }
        Ok(())
    }
}

impl Token {
    fn new(name: &str, rules: Rules) -> Token {
        let pass = rules.sources.first().map(|own| {
            let allowed = rules.sources.iter().map(|name| match name.strip_suffix('*') {
                Some(beginning) => (beginning.to_owned(), true),
                None => (name.clone(), false),
            });
            Arc::new(Pass { own: own.clone(), allowed: allowed.collect(), counts: Arc::default() })
        });
        Token {
            name: name.to_owned(),
            paces: Mutex::new([rules.requests.map(Pace::new), rules.bytes.map(Pace::new)]),
            rules,
            pass,
            in_flight: AtomicU32::new(0),
            revoked: AtomicBool::new(false),
            counts: Arc::default(),
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What those who know it did.
    pub(crate) fn counts(&self) -> &TokenCounts {
        &self.counts
    }

    /// In whose name those who know it may send; `None`: in every name that is not for others.
    pub(crate) fn pass(&self) -> Option<&Arc<Pass>> {
        self.pass.as_ref()
    }

    /// Whether it counts no more.
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }

    /// Begins a request, or a connection that is one long one.
    ///
    /// # Errors
    /// How long to wait first.
    pub(crate) fn enter(self: &Arc<Token>, now: Instant) -> Result<Entered, Duration> {
        self.counts.seen();
        let entered = self.admit(now);
        let counter = if entered.is_ok() { &self.counts.requests } else { &self.counts.over_limit };
        counter.fetch_add(1, Ordering::Relaxed);
        entered
    }

    fn admit(self: &Arc<Token>, now: Instant) -> Result<Entered, Duration> {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wait) = paces.iter_mut().flatten().filter_map(|pace| pace.wait(now)).max() {
            return Err(wait);
        }
        if self.rules.in_flight.is_some_and(|most| self.in_flight.load(Ordering::Relaxed) >= most) {
            return Err(SOON);
        }
        if let [Some(requests), _] = &mut *paces {
            requests.take(1);
        }
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.counts.in_flight.fetch_add(1, Ordering::Relaxed);
        Ok(Entered { token: Arc::clone(self) })
    }

    /// So many bytes have come.
    pub(crate) fn spend(&self, bytes: u64) {
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.rules.bytes.is_some()
            && let [_, Some(pace)] = &mut *self.paces.lock().unwrap_or_else(PoisonError::into_inner)
        {
            pace.take(bytes);
        }
    }

    /// How long to wait before more bytes are read; `None`: not at all.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        self.rules.bytes?;
        self.paces.lock().unwrap_or_else(PoisonError::into_inner)[1].as_mut()?.wait(now)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.token.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.token.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pass {
    /// Whether it is for a source of this name.
    pub(crate) fn covers(&self, name: &[u8]) -> bool {
        self.allowed.iter().any(|(allowed, is_beginning)| match is_beginning {
            true => name.starts_with(allowed.as_bytes()),
            false => name == allowed.as_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const SECRET: &str = "0123456789abcdef";

    fn read(text: &str, mode: u32) -> Result<Tokens, String> {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        fs::write(file.path(), text).expect("written");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("ours");
        Tokens::read(file.path()).map_err(|error| error.to_string())
    }

    fn parse(text: &[u8]) -> Result<Tokens, (usize, String)> {
        Tokens::of(pcp_net::parse_tokens(text)?)
    }

    fn name(tokens: &Tokens, secret: &str) -> Option<String> {
        tokens.find(secret.as_bytes()).map(|token| token.name().to_owned())
    }

    #[test]
    fn a_file_has_tokens_by_name_and_is_not_everybodys() {
        let longest = "x".repeat(4096);
        let hashed =
            SecretHash::of(b"told to nobody else").bytes().map(|byte| format!("{byte:02x}")).concat();
        let text = format!("# who\n\nshop {SECRET} requests=10\nbank {longest}\nmill sha256:{hashed}\n");
        let tokens = read(&text, 0o640).expect("three tokens");
        for (secret, expected) in [
            (SECRET, Some("shop")),
            (longest.as_str(), Some("bank")),
            ("told to nobody else", Some("mill")),
            ("0123456789abcde", None),
            ("0123456789abcdeg", None),
            ("0123456789abcdef0", None),
            (hashed.as_str(), None),
            ("", None),
        ] {
            assert_eq!(name(&tokens, secret).as_deref(), expected, "{secret}");
        }
        // As it was before there were names.
        assert_eq!(name(&read(SECRET, 0o600).expect("one"), SECRET).as_deref(), Some("token"));
        assert!(!format!("{tokens:?}").contains(SECRET));
    }

    #[test]
    fn what_is_no_token_is_told_without_the_secret() {
        for (text, mode, part) in [
            (SECRET, 0o644, "everybody may use it (mode 644)"),
            ("short", 0o600, ":1: token token: not one word of 16 to 4096"),
            ("", 0o600, ":1: no token"),
            ("# x\n", 0o600, "no token"),
            (&format!("a {SECRET}\na {SECRET}x"), 0o600, ":2: a second token of the name a"),
            (&format!("a {SECRET}\nb {SECRET}"), 0o600, ":2: the same secret"),
            (&format!("a/b {SECRET}"), 0o600, "its first word is no name"),
            ("a sha256:12", 0o600, "not 64 hexadecimal digits"),
            (&format!("a {SECRET} quick"), 0o600, "no option"),
            (&format!("a {SECRET} requests=0"), 0o600, "requests: not a number from 1 to"),
            (&format!("a {SECRET} bytes=1"), 0o600, "bytes: not a size"),
            (&format!("a {SECRET} sources=x*"), 0o600, "sources: not up to"),
            (&format!("a {SECRET} sources=x,,y"), 0o600, "sources: not up to"),
            (&format!("a {SECRET} speed=1"), 0o600, "speed: requests, bytes, in_flight and sources"),
        ] {
            let error = read(text, mode).expect_err(text);
            assert!(error.starts_with("token_file: ") && error.contains(part), "{error}");
            assert!(!error.contains(SECRET), "{error}");
        }
        let error = Tokens::read(Path::new("/nonexistent/token")).expect_err("there is none").to_string();
        assert!(error.contains("/nonexistent/token"), "{error}");
    }

    #[test]
    fn a_token_that_is_gone_or_changed_is_revoked_and_others_go_on() {
        let parse = |text: String| parse(text.as_bytes()).expect("tokens");
        let mut tokens = parse(format!("a {SECRET}a\nb {SECRET}b in_flight=1\nc {SECRET}c"));
        let held: Vec<_> =
            ["a", "b", "c"].iter().map(|x| tokens.find(format!("{SECRET}{x}").as_bytes()).unwrap()).collect();
        let _entered = held[1].enter(Instant::now()).expect("the first");
        tokens.become_these(parse(format!("b {SECRET}b in_flight=1\nc {SECRET}c requests=1\nd {SECRET}d")));
        assert_eq!(held.iter().map(|token| token.is_revoked()).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(name(&tokens, &format!("{SECRET}a")), None);
        let same = tokens.find(format!("{SECRET}b").as_bytes()).unwrap();
        assert_eq!(same.enter(Instant::now()).err(), Some(SOON), "what is in flight is still counted");
        tokens.revoke_all();
        assert!(same.is_revoked());
    }

    #[test]
    fn requests_and_bytes_have_a_pace_and_what_is_under_way_a_limit() {
        let text = format!("a {SECRET} requests=2 in_flight=2\nb {SECRET}b bytes=1KiB");
        let tokens = parse(text.as_bytes()).expect("tokens");
        let now = Instant::now();
        let of_requests = tokens.find(SECRET.as_bytes()).unwrap();
        let first = of_requests.enter(now).expect("one");
        let _second = of_requests.enter(now).expect("two");
        assert!(of_requests.enter(now).is_err());
        let later = now + Duration::from_secs(5);
        assert_eq!(of_requests.enter(later).err(), Some(SOON), "two are under way");
        drop(first);
        assert!(of_requests.enter(later).is_ok());
        let of_bytes = tokens.find(format!("{SECRET}b").as_bytes()).unwrap();
        assert_eq!(of_bytes.wait(now), None);
        of_bytes.spend(3 * 1024);
        assert!(of_bytes.wait(now).is_some_and(|wait| wait > Duration::from_millis(1900)));
        assert!(of_bytes.enter(now).is_err());
    }

    proptest::proptest! {
        /// Whatever a file holds is tokens or a mistake on one of its lines, and no mistake tells a secret.
        #[test]
        fn any_text_is_tokens_or_a_mistake(
            lines in proptest::collection::vec("[ -~]{0,20}( [!-~]{0,70})?( (sources|bytes|requests|x)=[!-~]{0,9})?", 0..9),
        ) {
            let text = lines.join("\n");
            match parse(text.as_bytes()) {
                Ok(tokens) => {
                    for line in lines.iter().filter(|line| !line.trim_start().starts_with('#')) {
                        let mut words = line.split_ascii_whitespace();
                        let (Some(first), second) = (words.next(), words.next()) else { continue };
                        let secret = second.unwrap_or(first);
                        let is_hash = secret.starts_with("sha256:");
                        proptest::prop_assert!(is_hash || tokens.find(secret.as_bytes()).is_some());
                    }
                    proptest::prop_assert!(tokens.find(b"").is_none());
                }
                Err((line, words)) => {
                    proptest::prop_assert!((1..=lines.len().max(1)).contains(&line), "{line}: {words}");
                    let secret = lines.get(line - 1).and_then(|line| line.split_ascii_whitespace().nth(1));
                    proptest::prop_assert!(secret.is_none_or(|secret| secret.len() < 16 || !words.contains(secret)));
                }
            }
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn a_pass_is_for_names_and_beginnings_of_names() {
        let text = format!("a {SECRET} sources=shop,shop-*,till");
        let token = parse(text.as_bytes()).expect("a token").find(SECRET.as_bytes()).unwrap();
        let pass = token.pass().expect("it says which");
        assert_eq!(pass.own, "shop");
        for (name, covered) in
            [("shop", true), ("shop-7", true), ("shops", false), ("till", true), ("", false)]
        {
            assert_eq!(pass.covers(name.as_bytes()), covered, "{name}");
        }
    }
}

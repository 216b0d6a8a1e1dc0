//! What those who know tokens do, by the tokens' names: counted for all receivers together, and for as long as the agent runs.
//!
//! ```text
//! DOMAIN.18    ID TIME NAME      the number of a name, for ever; the secret is nowhere
//! ```
//!
//! **Bounded:** `MAX_NAMES` names ever have a number; tokens of further names are not told of.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pcp_ids::{IdMap, IdsError, Settling};
use pcp_model::{InDom, Inst};

/// Serial of the id file, and of the instance domain, of the names of tokens.
pub const TOKEN_SERIAL: u32 = 18;
/// Most names that ever have a number.
const MAX_NAMES: i32 = 4096;

/// What those who know a token did. Read without locks.
#[derive(Default)]
pub struct TokenCounts {
    /// Requests of OTLP, and connections to ingest sockets, that it let in.
    pub requests: AtomicU64,
    /// Of these, those that are under way.
    pub in_flight: AtomicU64,
    /// Bytes that came with it.
    pub bytes: AtomicU64,
    /// Spans, log records, data points, lines and frames that were taken in.
    pub records: AtomicU64,
    /// The same that were refused, as they are malformed or beyond a limit.
    pub rejected: AtomicU64,
    /// Requests and connections beyond what it allows.
    pub over_limit: AtomicU64,
    /// How often a source was named that it is not for.
    pub forbidden: AtomicU64,
    /// When it was last said, in milliseconds since 1970; 0: not yet.
    pub last_seen: AtomicU64,
}

/// The names of tokens, with their numbers.
#[derive(Debug)]
pub struct TokenBook {
    names: Mutex<Names>,
    /// Grows with each name.
    generation: AtomicU64,
}

#[derive(Debug)]
struct Names {
    ids: IdMap,
    known: Vec<Known>,
    /// Those that could not get a number yet: at most as many as may have one.
    unnumbered: Vec<(String, Arc<TokenCounts>)>,
}

/// A name of tokens that count, or did.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its number.
    pub id: Inst,
    /// The name.
    pub name: String,
    /// What was done with it.
    pub counts: Arc<TokenCounts>,
}

impl TokenBook {
    /// With the numbers on file.
    ///
    /// # Errors
    /// As [`IdMap::begin`].
    pub(crate) fn begin(dir: Option<&Path>, domain: u16) -> Result<(TokenBook, Settling), IdsError> {
        let path = dir.map(|dir| dir.join(InDom::new(domain, TOKEN_SERIAL).to_string()));
        let (ids, settling) = IdMap::begin(path.as_deref(), MAX_NAMES - 1)?;
        let names = Mutex::new(Names { ids, known: Vec::new(), unnumbered: Vec::new() });
        Ok((TokenBook { names, generation: AtomicU64::new(0) }, settling))
    }

    /// Where it is counted what is done with tokens of a name. The number of one that is new is on disk before anybody is told of it;
    /// if that fails it counts untold, and the next call tries again.
    pub(crate) fn counts(&self, name: &str) -> Arc<TokenCounts> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.known.iter().find(|known| known.name == name) {
            return Arc::clone(&known.counts);
        }
        let waits = names.unnumbered.iter().position(|(known, _)| known == name);
        let counts = waits.map_or_else(Arc::default, |at| Arc::clone(&names.unnumbered[at].1));
        match names.ids.get_or_add(name) {
            Ok(id) => {
                let known = Known { id, name: name.to_owned(), counts: Arc::clone(&counts) };
                names.known.push(known);
                if let Some(at) = waits {
                    names.unnumbered.swap_remove(at);
                }
                self.generation.fetch_add(1, Ordering::Release);
            }
            Err(error) => {
                tracing::warn!("what token {name} does is not told: {error}");
                if waits.is_none() && names.unnumbered.len() < MAX_NAMES as usize {
                    names.unnumbered.push((name.to_owned(), Arc::clone(&counts)));
                }
            }
        }
        counts
    }

    /// All names, if there are others than at this generation; with the generation of now.
    pub fn since(&self, generation: u64) -> Option<(u64, Vec<Known>)> {
        let now = self.generation.load(Ordering::Acquire);
        (now != generation).then(|| {
            let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            (now, names.known.clone())
        })
    }
}

impl TokenCounts {
    /// It was said just now.
    pub(crate) fn seen(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_seen.store(u64::try_from(now.as_millis()).unwrap_or_default(), Ordering::Relaxed);
    }

    /// So many records were taken in, and so many refused.
    pub(crate) fn records(&self, accepted: u64, rejected: u64) {
        self.records.fetch_add(accepted, Ordering::Relaxed);
        self.rejected.fetch_add(rejected, Ordering::Relaxed);
    }
}

/// Always the same, as what it counts tells nobody apart.
impl fmt::Debug for TokenCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenCounts")
    }
}

impl PartialEq for TokenCounts {
    fn eq(&self, _: &TokenCounts) -> bool {
        true
    }
}

impl Eq for TokenCounts {}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(dir: Option<&Path>, domain: u16) -> Result<TokenBook, IdsError> {
        let (book, settling) = TokenBook::begin(dir, domain)?;
        settling.finish()?;
        Ok(book)
    }

    #[test]
    fn names_keep_their_numbers_and_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let book = load(Some(dir.path()), 400).expect("nothing yet");
        assert!(book.since(0).is_none());
        let [shop, mill] = ["shop", "mill"].map(|name| book.counts(name));
        shop.records(2, 1);
        mill.seen();
        assert!(Arc::ptr_eq(&shop, &book.counts("shop")), "one for all receivers");
        let (generation, known) = book.since(0).expect("two");
        let told: Vec<(Inst, &str)> = known.iter().map(|known| (known.id, known.name.as_str())).collect();
        assert_eq!(told, [(0, "shop"), (1, "mill")]);
        assert!(book.since(generation).is_none());
        drop(book);
        let book = load(Some(dir.path()), 400).expect("two names");
        book.counts("mill");
        assert_eq!(book.since(0).expect("one").1[0].id, 1, "of those that count now only");
    }

    #[test]
    fn what_counts_before_it_has_a_number_is_told_once_it_has() {
        let book = load(None, 400).expect("in memory");
        for n in 0..MAX_NAMES {
            book.counts(&n.to_string());
        }
        let (generation, known) = book.since(0).expect("as many as may be");
        assert_eq!(known.len(), MAX_NAMES as usize);
        let early = book.counts("shop");
        early.records(2, 1);
        assert!(Arc::ptr_eq(&early, &book.counts("shop")), "one for all receivers");
        assert!(book.since(generation).is_none());
        // There is room again.
        let other = load(None, 400).expect("in memory");
        let mut names = book.names.into_inner().expect("nobody else");
        names.ids = other.names.into_inner().expect("nobody else").ids;
        let book = TokenBook { names: Mutex::new(names), generation: AtomicU64::new(generation) };
        assert!(Arc::ptr_eq(&early, &book.counts("shop")));
        let (_, known) = book.since(generation).expect("one more");
        let last = known.last().expect("many");
        assert_eq!((last.name.as_str(), last.counts.records.load(Ordering::Relaxed)), ("shop", 2));
        assert!(book.names.into_inner().expect("nobody else").unnumbered.is_empty());
    }
}

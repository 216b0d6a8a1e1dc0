//! `/series/*`: what is in archives, as pmseries asks for it; `docs/pcp/webapi.md` 9 to 13. There is no key server, and nothing to load.
//!
//! ```text
//! library --build--> facts of each archive --> index          (cache: facts in packs)
//! request --> routes --> engine: language --> select in the index --> plan --> read --> sampling --> functions --> rows
//! ```
//!
//! * [`facts`], [`cache`], [`pack`], [`reading`], [`index`], [`build`]: which series there are, kept as the archives are by a thread of its own.
//! * [`language`]: queries and windows. [`select`]: which series a selector means. [`plan`]: what to read for a series; [`read`]: reads
//!   it; [`values`], [`sampling`], [`functions`]: what is made of it. [`remembered`]: expressions that have an identifier.
//! * [`engine`] puts these together; [`routes`]: requests and answers, so many at a time; [`rows`]: values as text.
//!
//! **Invariant:** the index is never held while a disk is waited for. All work of a request is limited: rows, values, records, time.

mod build;
mod cache;
mod engine;
mod facts;
mod functions;
pub mod fuzzing;
mod index;
mod language;
mod pack;
mod plan;
mod read;
mod reading;
mod remembered;
mod routes;
mod rows;
mod sampling;
mod select;
mod values;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pcp_derive::{Dialect, Registry};
use pcp_net::Worker;

use self::build::{Builder, Shared};
use self::cache::Cache;
use self::engine::Engine;
use super::library::Library;
use super::share::Share;
use crate::WebArgs;

pub(super) use self::routes::routes;

/// Most places of the pool that these requests have together: a quarter of them. What they ask for may take long.
const TURNS: usize = 16;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of the series in archives.
#[derive(Debug)]
pub(super) struct Series {
    engine: Engine,
    turns: Share,
    _builder: Option<Worker>,
}

impl Series {
    /// Begins to build the index of the library; nobody waits for it.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn open(args: &WebArgs, library: Arc<Library>) -> io::Result<Series> {
        let shared = Arc::new(Shared::default());
        let builder = if library.is_empty() { None } else { Some(building(args, library, &shared)?) };
        let engine = Engine {
            shared,
            remembered: Default::default(),
            budget: Default::default(),
            definitions: definitions(),
        };
        Ok(Series { engine, turns: Share::new(TURNS, PATIENCE), _builder: builder })
    }
}

fn building(args: &WebArgs, library: Arc<Library>, shared: &Arc<Shared>) -> io::Result<Worker> {
    let (cache, error) = Cache::open(directory(args));
    if let Some(error) = error {
        tracing::warn!("the index of archives is not kept: {error}");
    }
    let builder = Builder::new(library, Arc::clone(shared), cache);
    let (stop, stopped) = mpsc::channel::<()>();
    Worker::spawn("jumpseat-index", move || stop.send(()).is_ok(), move || builder.run(&stopped))
}

/// Where the index is kept: below `--cache`, or where caches of a user are.
fn directory(args: &WebArgs) -> Option<PathBuf> {
    let of_user = || {
        let set = |name| std::env::var_os(name).filter(|path| Path::new(path).is_absolute());
        let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")));
        caches.map(|caches| caches.join("jumpseat"))
    };
    args.cache.clone().or_else(of_user).map(|cache| cache.join("series"))
}

/// The derived metrics that have names here: those of `PCP_DERIVED_CONFIG`.
fn definitions() -> Registry {
    let mut registry = Registry::new(Dialect::default());
    registry.initialise();
    let named = std::env::var_os("PCP_DERIVED_CONFIG").filter(|path| !path.is_empty());
    if let Some(path) = named {
        let mut problem = |path: &Path, problem: &pcp_derive::ConfigProblem| {
            tracing::warn!("{}: {problem:?}", path.display());
        };
        let path = PathBuf::from(path);
        if let Err(error) = jumpseat_tools::definitions::load(&mut registry, &path, &mut problem) {
            tracing::warn!("derived metrics: {error}");
        }
    }
    registry
}

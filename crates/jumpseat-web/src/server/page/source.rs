//! What is looked at: `host:SPEC`, live, with what archives have of it; `archive:NAME`; `recorded:HOST`, all archives of a host.

use pcp_archive::Glance;
use pcp_client::{ClientError, Context};

use super::Refused;
use crate::server::web::Web;

/// Most archives that are read as one.
const MAX_JOINED: usize = 64;

/// A host, or archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The collector of a host, as it is named on the command line.
    Host(String),
    /// One archive by its name.
    Archive(String),
    /// All archives of a host.
    Recorded(String),
}

impl Source {
    /// Reads the parameter `source`.
    pub(super) fn parse(text: Option<&str>) -> Result<Source, Refused> {
        match text.and_then(|text| text.split_once(':')) {
            Some(("host", spec)) => Ok(Source::Host(spec.to_owned())),
            Some(("archive", name)) => Ok(Source::Archive(name.to_owned())),
            Some(("recorded", host)) => Ok(Source::Recorded(host.to_owned())),
            _ => Err(Refused::bad("source: expected host:SPECIFICATION, archive:NAME or recorded:HOST")),
        }
    }
}

/// The archives of a host that have something between two times (seconds since the epoch), newest last, as many as are read at a time.
pub(super) fn recorded(web: &Web, host: &str, start: f64, finish: f64) -> Vec<Glance> {
    let mut found: Vec<Glance> =
        web.library.all().iter().filter(|glance| glance.label.host == host).cloned().collect();
    found.sort_by_key(|glance| glance.label.start);
    // The last entry of the index is before the last record: what is still written goes on a little.
    const AFTER: f64 = 3_600.0;
    found.retain(|glance| {
        super::lines::seconds(glance.label.start) <= finish
            && super::lines::seconds(glance.last) + AFTER >= start
    });
    found.split_off(found.len().saturating_sub(MAX_JOINED))
}

/// The name of archives that are read as one.
pub(super) fn joined(archives: &[Glance]) -> String {
    archives.iter().map(|glance| glance.name.to_string_lossy()).collect::<Vec<_>>().join(",")
}

impl Source {
    /// A context on it, from the shelf or a new one, with its key there. Waits: for the pool only.
    pub(super) fn open(&self, web: &Web) -> Result<(String, Context), Refused> {
        match self {
            Source::Host(text) => {
                let spec = web.sources.allowed(Some(text))?;
                let key = format!("host:{text}");
                match web.page.shelf.take(&key) {
                    Some(context) => Ok((key, context)),
                    None => Ok((key, web.sources.connect(&spec)?)),
                }
            }
            Source::Archive(name) => {
                let glance =
                    web.library.find(name).ok_or_else(|| Refused::bad(format!("{name}: no such archive")))?;
                open(web, &[glance])
            }
            Source::Recorded(host) => {
                let archives = recorded(web, host, f64::NEG_INFINITY, f64::INFINITY);
                match archives.is_empty() {
                    true => Err(Refused::bad(format!("{host}: no archives of this host"))),
                    false => open(web, &archives),
                }
            }
        }
    }
}

/// A context on archives as one.
pub(super) fn open(web: &Web, archives: &[Glance]) -> Result<(String, Context), Refused> {
    let name = joined(archives);
    let key = format!("archive:{name}");
    let opened: Result<Context, ClientError> = match web.page.shelf.take(&key) {
        Some(mut context) => context.refresh().map(|_| context),
        None => Context::archive(&name),
    };
    let context = opened.map_err(|error| Refused::gone(format!("{name}: {error}")))?;
    Ok((key, context))
}

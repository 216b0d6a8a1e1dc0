//! Names on file while no agent has them: which there are, and taking places back from those that nobody uses any more.
//!
//! **Invariant:** what stays means what it meant. A source stays as long as an event type or a span of it does; ids of what
//! is retired are never handed out again, and metrics of fields keep their names (`leaf`).

use std::path::Path;

use pcp_ids::{IdMap, IdsError};
use pcp_model::Inst;

use super::fields::FIRST_FREE;
use super::names::Kind;
use super::{FieldKind, RegistryError, SourceKind, SpanKind, TypeKind, sent};

/// A name on file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownName {
    /// What it is of: `event type`, `span`, `source` or `field`.
    pub kind: &'static str,
    /// Its number.
    pub id: Inst,
    /// `source/type`, `source/span` with the names as they were sent; `source`; or the type of a field's values and its name.
    pub name: String,
    /// When it was last known to be in use, in seconds since the epoch.
    pub used: u64,
}

/// Names of a kind.
struct Names {
    kind: &'static str,
    file: String,
    ids: IdMap,
}

/// Those that names of sources stand in come first: after a crash there may be sources without them, which is harmless.
const KINDS: [(&str, u32, Inst); 4] =
    [of::<TypeKind>(), of::<SpanKind>(), of::<SourceKind>(), of::<FieldKind>()];

const fn of<K: Kind>() -> (&'static str, u32, Inst) {
    (K::WHAT, K::SERIAL, K::MAX_ID)
}

/// The names that the files in a directory have for the domain, also while an agent uses them.
///
/// # Errors
/// A file cannot be read, or there is none.
pub fn known_names(dir: &Path, domain: u16) -> Result<Vec<KnownName>, RegistryError> {
    let files = open(dir, domain, IdMap::peek)?;
    Ok(files.iter().flat_map(|names| names.ids.iter().map(|(id, _)| names.known(id))).collect())
}

/// Retires the names that were last used before a time, in seconds since the epoch. `dry_run`: only tells which.
///
/// # Errors
/// As [`known_names`], and if an agent uses the files.
pub fn retire(dir: &Path, domain: u16, before: u64, dry_run: bool) -> Result<Vec<KnownName>, RegistryError> {
    // All are locked before the first is changed.
    let load = |path: &Path, max| IdMap::load(Some(path), max);
    let mut files = open(dir, domain, if dry_run { IdMap::peek } else { load })?;
    let mut gone = Vec::new();
    let mut kept = std::collections::HashSet::new();
    for names in &mut files {
        let is_field = names.kind == <FieldKind as Kind>::WHAT;
        let is_kept = |known: &KnownName| {
            known.used >= before
                || (is_field && (known.id as usize) < FIRST_FREE)
                || (names.kind == <SourceKind as Kind>::WHAT && kept.contains(&known.name))
        };
        let all = names.ids.iter().map(|(id, _)| names.known(id));
        let (stay, go): (Vec<_>, Vec<_>) = all.partition(is_kept);
        if !is_field {
            kept.extend(stay.iter().filter_map(|known| Some(known.name.split_once('/')?.0.to_owned())));
        }
        if !dry_run && !go.is_empty() {
            names.ids.retire(go.iter().map(|known| known.id));
            names.ids.save().map_err(|error| RegistryError::File { file: names.file.clone(), error })?;
        }
        gone.extend(go);
    }
    Ok(gone)
}

impl Names {
    fn known(&self, id: Inst) -> KnownName {
        let text = self.ids.name(id).unwrap_or_default();
        let is_pair = self.kind == <TypeKind as Kind>::WHAT || self.kind == <SpanKind as Kind>::WHAT;
        let name = match sent::parse(text).filter(|_| is_pair) {
            Some(known) => format!("{}/{}", known.source, known.name.as_str()),
            None => text.to_owned(),
        };
        KnownName { kind: self.kind, id, name, used: self.ids.last_used(id).unwrap_or_default() }
    }
}

/// The files that are there.
fn open(
    dir: &Path,
    domain: u16,
    open: fn(&Path, Inst) -> Result<IdMap, IdsError>,
) -> Result<Vec<Names>, RegistryError> {
    let mut files = Vec::new();
    for (kind, serial, max) in KINDS {
        let file = format!("{domain}.{serial}");
        let path = dir.join(&file);
        if path.symlink_metadata().is_ok() {
            let failed = |error| RegistryError::File { file: file.clone(), error };
            let ids = open(&path, max).map_err(failed)?;
            files.push(Names { kind, file, ids });
        }
    }
    match files.is_empty() {
        true => Err(RegistryError::None { dir: dir.to_owned(), domain }),
        false => Ok(files),
    }
}

//! The files with the ids of metrics and instances.
//!
//! ```text
//! DOMAIN.10    ID TIME NAME TYPE SEMANTICS SERIAL UNITS UNIT     a metric: all that must never change
//! DOMAIN.11..  ID TIME NAME                                      an instance
//! ```

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use pcp_ids::{IdMap, IdsError, MAX_ID, Settling};
use pcp_model::{InDom, Inst, Pmid, Semantics, Units, ValueType};
use rustc_hash::FxHashMap;

use super::batch::Branch;
use super::{BUCKET_SERIAL, CLUSTERS, NAME_SERIAL, QUANTILE_SERIAL, SET_SERIAL, name};

/// Items of a cluster, as a PMID has room for.
const ITEMS: i32 = 1024;
/// Metrics of one name that differ in what a PMID stands for.
const MOST_OF_A_NAME: u8 = 9;

/// The ids of metrics.
pub(super) struct MetricIds {
    ids: IdMap,
    /// All names ever given, by branch.
    names: [BTreeSet<String>; 3],
}

/// What a PMID stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form<'a> {
    pub value_type: ValueType,
    pub semantics: Semantics,
    pub serial: u32,
    pub units: Units,
    pub unit: &'a str,
    pub branch: Branch,
}

impl MetricIds {
    /// With the names on file.
    ///
    /// # Errors
    /// As [`IdMap::begin_within`].
    pub(super) fn begin(dir: Option<&Path>, domain: u16) -> Result<(MetricIds, Settling), IdsError> {
        let max = ITEMS * CLUSTERS.len() as i32 - 1;
        let (ids, settling) = IdMap::begin_within(path(dir, domain, NAME_SERIAL).as_deref(), max)?;
        let mut names = <[BTreeSet<String>; 3]>::default();
        for (_, text) in ids.iter() {
            let name = text.split(' ').next().unwrap_or_default();
            let (branch, name) = Branch::of_marked(name);
            names[branch as usize].insert(name.to_owned());
        }
        Ok((MetricIds { ids, names }, settling))
    }

    /// The PMID, without a domain, and the name below the root of the metric that is mapped to `name` and has this form; a new one
    /// if there is none.
    pub(super) fn get(
        &mut self,
        mapped: &str,
        form: Form<'_>,
        may_add: bool,
    ) -> Result<(Pmid, String), IdsError> {
        let mut full = Err(IdsError::Full { max: self.ids.max() });
        for n in 1..=MOST_OF_A_NAME {
            let name = if n == 1 { mapped.to_owned() } else { name::nth(mapped, n) };
            let name = self.fitting(name, form.branch);
            let mark = form.branch.mark();
            let text = format!("{mark}{name} {form}");
            let word = format!("{mark}{name}");
            match self.ids.owner(&word) {
                Some((id, known)) if known == text => return Ok((pmid(id), name)),
                Some(_) => {}
                None if !may_add => break,
                None => {
                    full = self.ids.get_or_add_unsettled(&text);
                    if let Ok(id) = full {
                        self.names[form.branch as usize].insert(name.clone());
                        return Ok((pmid(id), name));
                    }
                    break;
                }
            }
        }
        full.map(|id| (pmid(id), String::new()))
    }

    /// The name such that it is not above or below another metric's.
    fn fitting(&self, mut name: String, branch: Branch) -> String {
        let names = &self.names[branch as usize];
        if names.contains(&name) {
            return name;
        }
        let above = |name: &String| {
            let dots = name.match_indices('.').map(|(at, _)| at);
            dots.into_iter().find(|&at| names.contains(&name[..at]))
        };
        while let Some(at) = above(&name) {
            name = name::joined(&name, at);
        }
        let is_level = |name: &str| {
            let below = format!("{name}.");
            names.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below))
        };
        while is_level(&name) {
            name = match name.rfind('.') {
                Some(at) => name::joined(&name, at),
                None => return name::nth(&name, 1),
            };
        }
        name
    }

    pub(super) fn settle(&mut self) -> Result<(), IdsError> {
        self.ids.settle()
    }
}

impl std::fmt::Display for Form<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Form { value_type, semantics, serial, units, unit, .. } = self;
        // No blank, which would be the end of a word.
        let unit: String =
            unit.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect();
        write!(f, "{} {} {serial} {:08x} {unit}", value_type.name(), semantics.name(), units.to_word())
    }
}

/// The ids of the instances of one domain, and how many series each has.
pub(super) struct InstanceIds {
    pub serial: u32,
    ids: IdMap,
    uses: FxHashMap<Inst, u32>,
    /// Most that may ever be given.
    most: usize,
    /// How many were given in the hour that has begun then.
    given: usize,
    since: Instant,
}

/// Of the numbers that may ever be given, beyond the first of so many parts one such part in an hour: whoever sends names without end
/// does not use up in a minute what everybody has for ever.
const PARTS: usize = 16;
const HOUR: Duration = Duration::from_secs(3600);

impl InstanceIds {
    /// With the names on file.
    ///
    /// # Errors
    /// As [`IdMap::begin`].
    pub(super) fn begin_all(
        dir: Option<&Path>,
        domain: u16,
        most: usize,
    ) -> Result<([InstanceIds; 3], Settling), IdsError> {
        let mut settling = Settling::default();
        let mut begin = |serial| -> Result<InstanceIds, IdsError> {
            let (ids, its) = IdMap::begin(path(dir, domain, serial).as_deref(), MAX_ID)?;
            settling = std::mem::take(&mut settling).with(its);
            Ok(InstanceIds { serial, ids, uses: FxHashMap::default(), most, given: 0, since: Instant::now() })
        };
        let ids = [begin(SET_SERIAL)?, begin(BUCKET_SERIAL)?, begin(QUANTILE_SERIAL)?];
        Ok((ids, settling))
    }

    /// The instance of a name, if it has one.
    pub(super) fn known(&self, name: &str) -> Option<Inst> {
        self.ids.get(name)
    }

    /// The instance of a name; `None` if no more may be given, but for those that are there `anyway`.
    pub(super) fn get(&mut self, name: &str, anyway: bool) -> Option<Inst> {
        if let Some(id) = self.ids.get(name) {
            return Some(id);
        }
        if self.since.elapsed() >= HOUR {
            (self.given, self.since) = (0, Instant::now());
        }
        let part = self.most / PARTS;
        let is_too_fast = self.ids.len() >= part && self.given >= part;
        if (self.ids.len() >= self.most || is_too_fast) && !anyway {
            return None;
        }
        let id = self.ids.get_or_add_unsettled(name).ok()?;
        self.given += 1;
        Some(id)
    }

    /// One more series; whether it is the first.
    pub(super) fn use_one(&mut self, inst: Inst) -> bool {
        let uses = self.uses.entry(inst).or_default();
        *uses += 1;
        *uses == 1
    }

    /// One series less; whether it was the last.
    pub(super) fn unuse_one(&mut self, inst: Inst) -> bool {
        let Some(uses) = self.uses.get_mut(&inst) else { return false };
        *uses -= 1;
        let is_last = *uses == 0;
        if is_last {
            self.uses.remove(&inst);
        }
        is_last
    }

    pub(super) fn settle(&mut self) -> Result<(), IdsError> {
        self.ids.settle()
    }
}

fn path(dir: Option<&Path>, domain: u16, serial: u32) -> Option<std::path::PathBuf> {
    dir.map(|dir| dir.join(InDom::new(domain, serial).to_string()))
}

fn pmid(id: i32) -> Pmid {
    Pmid::new(0, CLUSTERS.start() + (id / ITEMS) as u16, (id % ITEMS) as u16)
}

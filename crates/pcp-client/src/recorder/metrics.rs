//! Which metrics are recorded: looking names up.

use std::collections::{HashMap, HashSet};

use super::positions::with_positions;
use super::shape::Shape;
use super::{Metric, Notice, RecordError, Recorder};
use crate::position::metric_for;
use crate::provider::{Found, Lookup, answer};
use pcp_archive::WriteError;
use pcp_model::{Desc, Pmid};

/// The metric of the jumpseat agent that has all there is of its event records.
const RECORDS: &str = "jumpseat.event.highres_records";
/// Those that have the same records: with times in microseconds, and the last ones with each fetch.
const SAME_RECORDS: [&str; 2] = ["jumpseat.event.records", "jumpseat.event.recent"];

impl Recorder {
    /// Looks all names up, again. Metrics that are there no longer are not fetched any more, those that have come
    /// are from now on.
    pub(super) fn look_up(&mut self) -> Result<(), RecordError> {
        let mut names = Vec::new();
        let wanted = self.wanted.clone();
        let below = self.context.traverse_each(&wanted.iter().map(String::as_str).collect::<Vec<_>>())?;
        for (name, below) in wanted.into_iter().zip(below) {
            match below {
                Ok(below) => {
                    self.said.remove(&name);
                    names.extend(self.once(below));
                }
                Err(error) => self.say(&name.clone(), Notice::Missing { name, error }),
            }
        }
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        with_positions(&mut names);
        let mut recorded = HashSet::new();
        let before = std::mem::take(&mut self.metrics);
        let mut before: HashMap<Pmid, Metric> =
            before.into_iter().map(|metric| (metric.desc.pmid, metric)).collect();
        self.pmids.clear();
        self.described = None;
        // At the same places other metrics may be now.
        self.shape = Shape::default();
        let mut found = self.identify(names)?;
        // As records of an archive have them, which then can be taken over as they are. From elsewhere they come as they are asked for.
        found.sort_by_cached_key(|(_, pmid)| self.context.recorded_place(*pmid).unwrap_or(u32::MAX));
        let pmids: Vec<Pmid> = found.iter().map(|(_, pmid)| *pmid).collect();
        let descs = if pmids.is_empty() { Vec::new() } else { self.context.descs(&pmids)? };
        let all_names = self.names_of_each(&pmids)?;
        for (((name, pmid), desc), names) in found.into_iter().zip(descs).zip(all_names) {
            let desc = match desc {
                Ok(desc) => desc,
                Err(error) => {
                    self.say(&name.clone(), Notice::Missing { name, error });
                    continue;
                }
            };
            if !recorded.insert(pmid) || !self.describe_metric(&name, &desc, names)? {
                continue;
            }
            self.said.remove(&name);
            let known = before.remove(&pmid).filter(|metric| metric.desc == desc);
            self.pmids.push(pmid);
            self.metrics.push(known.unwrap_or(Metric { name, desc, explained: false }));
        }
        let with_place = self.metrics.iter().enumerate();
        self.events = with_place.filter_map(|(at, metric)| metric.is_event().then_some(at)).collect();
        self.explained = false;
        self.find_positions();
        Ok(())
    }

    /// Leaves metrics out that were not named themselves, and whose records another one of these has as well.
    fn once(&mut self, mut below: Vec<String>) -> Vec<String> {
        if !below.iter().any(|name| name == RECORDS) {
            return below;
        }
        for name in SAME_RECORDS {
            if self.wanted.iter().all(|wanted| wanted != name) && below.iter().any(|known| known == name) {
                below.retain(|known| known != name && metric_for(name) != Some(known));
                self.say(name, Notice::SameRecords { name: name.to_owned(), in_place: RECORDS.to_owned() });
            }
        }
        below
    }

    /// The identifiers of names that have one.
    fn identify(&mut self, names: Vec<String>) -> Result<Vec<(String, Pmid)>, RecordError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        let pmids = answer(self.context.lookup_names(&refs))?.unwrap_or_default();
        Ok(names.into_iter().zip(pmids).filter_map(|(name, pmid)| Some((name, pmid?))).collect())
    }

    /// All names of each metric, as far as there are any.
    fn names_of_each(&mut self, pmids: &[Pmid]) -> Result<Vec<Vec<String>>, RecordError> {
        let real: Vec<Lookup> =
            pmids.iter().filter(|pmid| !pmid.is_derived()).map(|&pmid| Lookup::NamesOf(pmid)).collect();
        let mut found = self.context.look_up_each(&real)?.into_iter();
        let names = |&pmid: &Pmid| match pmid.is_derived() {
            true => Ok(answer(self.context.names_of(pmid))?.unwrap_or_default()),
            false => match found.next() {
                Some(Ok(Found::Names(names))) => Ok(names),
                _ => Ok(Vec::new()),
            },
        };
        pmids.iter().map(names).collect()
    }

    /// Gives the archive a metric's descriptor and all its names. False if it has another descriptor.
    fn describe_metric(
        &mut self,
        name: &str,
        desc: &Desc,
        mut names: Vec<String>,
    ) -> Result<bool, RecordError> {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        match self.archive.desc(desc, &names) {
            Ok(()) => Ok(true),
            Err(WriteError::Changed { what, .. }) => {
                self.say(name, Notice::Changed { name: name.to_owned(), what });
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

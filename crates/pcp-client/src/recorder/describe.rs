//! What has to be in the archive before the values of a sample: help, labels, instances, event parameters.

use std::collections::{BTreeSet, HashSet};

use byteorder::BigEndian;

use super::{Metric, Notice, RecordError, Recorder};
use crate::provider::{Found, Lookup, answer};
use pcp_event::{ArrayKind, ArrayReader};
use pcp_model::{Desc, InDom, PmError, Pmid, Semantics, Units, ValueType};
use pcp_pdu::{LabelTarget, TextLevel, TextTarget, ValueRef};

/// In this order: where there is no full text the short one is taken.
const LEVELS: [TextLevel; 2] = [TextLevel::OneLine, TextLevel::Help];

/// Something of the domain that a metric's instances are in.
fn in_domain<T>(desc: &Desc, of: impl Fn(InDom) -> T) -> Option<T> {
    (desc.indom != InDom::NULL).then(|| of(desc.indom))
}

/// All that has labels which are a metric's as well.
fn labels_of(desc: &Desc) -> impl Iterator<Item = LabelTarget> + use<> {
    let pmid = desc.pmid;
    let cluster = Pmid::new(pmid.domain(), pmid.cluster(), 0);
    let own =
        [LabelTarget::Domain(pmid.domain().into()), LabelTarget::Cluster(cluster), LabelTarget::Item(pmid)];
    let own = own.into_iter().filter(move |_| !pmid.is_derived());
    let domain = [in_domain(desc, LabelTarget::InDom), in_domain(desc, LabelTarget::Instances)];
    [LabelTarget::Context].into_iter().chain(own).chain(domain.into_iter().flatten())
}

impl Recorder {
    /// Describes all that is new in the sample. False if the sample cannot be recorded.
    pub(super) fn describe(&mut self) -> Result<bool, RecordError> {
        self.describe_instances()?;
        self.explain()?;
        self.describe_params()
    }

    /// Help and labels of the metrics that have none in the archive yet, and of all that they belong to.
    fn explain(&mut self) -> Result<(), RecordError> {
        if self.explained {
            return Ok(());
        }
        let time = self.fetched.timestamp;
        // Metrics share domains, clusters and the context: each is asked about once a sample.
        let (mut lookups, mut asked) = (Vec::new(), HashSet::new());
        for Metric { desc, .. } in self.metrics.iter().filter(|metric| !metric.explained) {
            let texts = [Some(TextTarget::Metric(desc.pmid)), in_domain(desc, TextTarget::InDom)];
            let labels = labels_of(desc).filter(|&target| asked.insert((Some(target), None)));
            lookups.extend(labels.map(Lookup::Labels));
            for target in texts.into_iter().flatten() {
                if asked.insert((None, Some(target))) {
                    lookups.extend(LEVELS.map(|level| Lookup::Text(target, level)));
                }
            }
        }
        for (lookup, found) in lookups.iter().zip(self.look_up_all(&lookups)?) {
            match (lookup, found) {
                (Lookup::Labels(target), Ok(Found::Labels(sets))) => {
                    self.archive.labels(time, *target, &sets)
                }
                (Lookup::Text(target, level), Ok(Found::Text(text))) if !text.is_empty() => {
                    self.archive.text(*target, *level, &text);
                }
                _ => {}
            }
        }
        self.metrics.iter_mut().for_each(|metric| metric.explained = true);
        self.explained = true;
        Ok(())
    }

    /// As [`crate::Context::look_up_each`], derived metrics included; a full text that is empty is the short one.
    fn look_up_all(&mut self, lookups: &[Lookup]) -> Result<Vec<Result<Found, PmError>>, RecordError> {
        let is_derived = |lookup: &Lookup| matches!(lookup, Lookup::Text(TextTarget::Metric(pmid), _) if pmid.is_derived());
        let real: Vec<Lookup> = lookups.iter().filter(|lookup| !is_derived(lookup)).copied().collect();
        let mut real = self.context.look_up_each(&real)?.into_iter();
        let mut all: Vec<Result<Found, PmError>> = Vec::with_capacity(lookups.len());
        for lookup in lookups {
            let found = match *lookup {
                Lookup::Text(target, level) if is_derived(lookup) => {
                    answer(self.context.text(target, level))?.map(Found::Text)
                }
                _ => real.next().unwrap_or(Err(PmError::IPC)),
            };
            // An agent that has one line only leaves the full text empty. The short one was asked for just before.
            let stands_in = match (lookup, &found, all.last()) {
                (Lookup::Text(_, TextLevel::Help), Ok(Found::Text(text)), Some(short)) if text.is_empty() => {
                    short.clone()
                }
                _ => found,
            };
            all.push(stands_in);
        }
        Ok(all)
    }

    /// The domains of values whose instances the archive does not have, or of all where the source's may have
    /// changed.
    fn describe_instances(&mut self) -> Result<(), RecordError> {
        let selection = self.fetched.selection();
        if selection.is_some() && selection == self.described && !self.stale {
            return Ok(());
        }
        if !self.stale && self.shape.is_that_of(&self.fetched) {
            self.described = selection;
            return Ok(());
        }
        let time = self.fetched.timestamp;
        // In their order: the same values make the same archive each time.
        let mut unknown = BTreeSet::new();
        for ((at, metric), set) in self.metrics.iter().enumerate().zip(self.fetched.sets()) {
            let indom = metric.desc.indom;
            let Ok(values) = set.values else { continue };
            let ids = || values.insts();
            if indom == InDom::NULL || (!self.stale && ids().eq(self.shape.of(at).iter().copied())) {
                continue;
            }
            // Instances that were there before are on record, though not in this order: no need to ask then.
            if self.stale || ids().any(|inst| !self.archive.has_instance(indom, inst)) {
                unknown.insert(indom);
            }
        }
        let what = |&indom: &InDom| [Lookup::Instances(indom), Lookup::Labels(LabelTarget::Instances(indom))];
        let lookups: Vec<Lookup> = unknown.iter().flat_map(what).collect();
        for (lookup, found) in lookups.iter().zip(self.context.look_up_each(&lookups)?) {
            match (lookup, found) {
                (Lookup::Instances(indom), Ok(Found::Instances(instances))) => {
                    self.archive.indom(time, *indom, &instances);
                }
                // That there is none is on record then.
                (Lookup::Instances(indom), _) => self.archive.indom(time, *indom, &[]),
                (Lookup::Labels(target), Ok(Found::Labels(sets))) => {
                    self.archive.labels(time, *target, &sets)
                }
                _ => {}
            }
        }
        self.shape.take(&self.fetched);
        self.described = selection;
        Ok(())
    }

    /// The parameters in event records. False if records cannot be read.
    fn describe_params(&mut self) -> Result<bool, RecordError> {
        let mut new: Vec<(usize, Pmid, ValueType)> = Vec::new();
        let mut bad = None;
        for (at, metric) in self.events.iter().filter_map(|&at| Some((at, self.metrics.get(at)?))) {
            let kind = match metric.desc.value_type {
                ValueType::HighResEvent => ArrayKind::HighRes,
                _ => ArrayKind::Event,
            };
            let Some(Ok(values)) = self.fetched.set(at).map(|set| set.values) else { continue };
            for (_, value) in values.iter() {
                let ValueRef::Block(block) = value else { continue };
                match ArrayReader::<BigEndian>::new(kind, block) {
                    Ok(array) => {
                        let params = array.records().flat_map(|record| record.params());
                        let unknown = params.filter(|param| !self.params.contains(&param.pmid));
                        for param in unknown {
                            if !new.iter().any(|(_, pmid, _)| *pmid == param.pmid) {
                                new.push((at, param.pmid, param.value_type));
                            }
                        }
                    }
                    Err(error) => bad = Some((metric.name.clone(), error.to_string())),
                }
            }
        }
        if let Some((name, reason)) = bad {
            self.say(&name.clone(), Notice::BadRecords { name, reason });
            return Ok(false);
        }
        self.describe_new(&new)?;
        // PCP's tools for archives drop the names of metrics that have no set of values in any record.
        for (_, pmid, _) in new.iter().filter(|(_, pmid, _)| !self.pmids.contains(pmid)) {
            self.fetched.begin_set(*pmid);
            self.fetched.end_set();
        }
        Ok(true)
    }

    /// A parameter without descriptor would make the records unreadable: what the source does not tell is taken
    /// from the record.
    fn describe_new(&mut self, new: &[(usize, Pmid, ValueType)]) -> Result<(), RecordError> {
        if new.is_empty() {
            return Ok(());
        }
        let pmids: Vec<Pmid> = new.iter().map(|(_, pmid, _)| *pmid).collect();
        let descs = self.context.descs(&pmids)?;
        // As its senders call it.
        let what = |&pmid: &Pmid| [Lookup::NamesOf(pmid), Lookup::Labels(LabelTarget::Item(pmid))];
        let lookups: Vec<Lookup> = pmids.iter().flat_map(what).collect();
        let mut found = self.context.look_up_each(&lookups)?.into_iter();
        for (&(at, pmid, value_type), desc) in new.iter().zip(descs) {
            let (names, labels) = (found.next(), found.next());
            let names = match names {
                Some(Ok(Found::Names(names))) => Ok(names),
                Some(Err(error)) => Err(error),
                _ => Err(PmError::IPC),
            };
            if let Some(error) = names.as_ref().err().or(desc.as_ref().err())
                && let Some(metric) = self.metrics.get(at)
            {
                let (name, param) = (metric.name.clone(), pmid.to_string());
                self.say(&param.clone(), Notice::NamelessParameter { name, param, error: *error });
            }
            let desc = desc.unwrap_or(Desc {
                pmid,
                value_type,
                indom: InDom::NULL,
                semantics: Semantics::Instant,
                units: Units::NONE,
            });
            // It may be one of the metrics, or have been in the archive before: what differs is said there.
            match self.archive.desc(&desc, &names.unwrap_or_default()) {
                Ok(()) | Err(pcp_archive::WriteError::Changed { .. }) => {
                    self.params.insert(pmid);
                }
                Err(error) => return Err(error.into()),
            }
            if let Some(Ok(Found::Labels(sets))) = labels {
                self.archive.labels(self.fetched.timestamp, LabelTarget::Item(pmid), &sets);
            }
        }
        Ok(())
    }
}

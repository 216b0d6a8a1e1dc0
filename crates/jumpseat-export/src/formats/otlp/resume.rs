//! Where the event records of a live agent go on: its positions, stored before the first fetch and read with each.
//!
//! The metrics with the positions (`docs/positions.md`) are fetched behind the records, in the same fetch, so they are the places
//! behind the very records of that answer. An agent without such metrics is exported from now on.

use std::collections::BTreeMap;
use std::sync::Arc;

use jumpseat_tools::complain;
use pcp_client::{ClientError, ValuesRef, position};
use pcp_model::{InstanceValue, PM_IN_NULL, PmError, Pmid, Timestamp, Value, ValueSet};

use super::state::{Mark, State};
use crate::formats::error::ExportError;
use crate::formats::source::{Metric, NAME, Source};
use crate::formats::walk::Sample;

/// In front of all there ever was.
const BEGINNING: &str = "0";

/// The metrics with positions, by their places among those of the source.
pub(super) struct Resume {
    positions: Vec<usize>,
    /// Those of which the state says nothing yet.
    unknown: Vec<usize>,
    state: Arc<State>,
}

impl Resume {
    /// Adds the positions of what is exported to the metrics of a source, behind all others, and has the agent go on where the last
    /// export has ended. Of a source that was not there then everything comes.
    ///
    /// # Errors
    /// Those of the connection; the agent does not let this client store.
    pub(super) fn begin(source: &mut Source, state: Arc<State>) -> Result<Resume, ExportError> {
        let kept = state.kept();
        let wanted: Vec<&str> =
            source.metrics.iter().filter_map(|metric| position::metric_for(&metric.name)).collect();
        let mut positions = Vec::new();
        for name in wanted {
            let context = &mut source.context;
            let desc = context.pmid(name).and_then(|pmid| context.desc(pmid));
            let desc = match desc {
                Ok(desc) => desc,
                Err(ClientError::Pcp(error)) => {
                    complain!("{NAME}: {name}: {error}: event records are exported from now on");
                    continue;
                }
                Err(error) => return Err(ExportError::source(name)(error)),
            };
            if let Some(kept) = kept.get(name) {
                go_on(source, name, desc.pmid, kept)?;
            }
            source.metrics.retain(|metric| metric.name != name);
            source.metrics.push(Metric { name: name.to_owned(), desc });
            positions.push(name);
        }
        let place = |name: &str| source.metrics.iter().position(|metric| metric.name == name);
        let unknown = positions.iter().filter(|name| !kept.contains_key(**name)).copied();
        let unknown = unknown.filter_map(place).collect();
        let positions = positions.into_iter().filter_map(place).collect();
        Ok(Resume { positions, unknown, state })
    }

    /// Reads the positions, if the metric at this place has them. Whether it has.
    pub(super) fn read(
        &self,
        source: &mut Source,
        at: usize,
        time: Timestamp,
        values: ValuesRef<'_>,
        mark: &mut Mark,
    ) -> bool {
        if !self.positions.contains(&at) {
            return false;
        }
        let mut told = BTreeMap::new();
        for (inst, value) in values.iter() {
            let Ok(text) = value.text() else { continue };
            let Some(name) = source.instance(at, inst, time) else { continue };
            told.insert(name.to_owned(), String::from_utf8_lossy(text).into_owned());
        }
        mark.insert(source.metrics[at].name.clone(), told);
        true
    }

    /// Keeps where the first answer was, before anything is sent: with it the agent has begun to keep records for this client, and
    /// what comes from then on is not missed if the export ends before any of it is taken. `is_empty`: that no record has come
    /// by now. A first answer has none; else what is behind them is kept when they are taken, as ever.
    ///
    /// # Errors
    /// The state cannot be written.
    pub(super) fn anchor(
        &mut self,
        source: &Source,
        sample: &Sample<'_>,
        mark: &Mark,
        is_empty: bool,
    ) -> Result<(), String> {
        if self.unknown.is_empty() {
            return Ok(());
        }
        if !is_empty {
            self.unknown.clear();
            return Ok(());
        }
        // Where there is no source yet, all that comes of any is behind this place.
        let told: Vec<usize> = self.unknown.iter().copied().filter(|at| sample.has(*at)).collect();
        if told.is_empty() {
            return Ok(());
        }
        let place = |at: &usize| {
            let name = source.metrics[*at].name.clone();
            let sources = mark.get(&name).cloned().unwrap_or_default();
            (name, sources)
        };
        self.state.save(&told.iter().map(place).collect())?;
        self.unknown.retain(|at| !told.contains(at));
        Ok(())
    }
}

/// Has the agent go on behind the positions that are kept, and of other sources from the beginning.
fn go_on(
    source: &mut Source,
    name: &str,
    pmid: Pmid,
    kept: &BTreeMap<String, String>,
) -> Result<(), ExportError> {
    let failed = |error| ExportError::source(name)(error);
    store(source, pmid, PM_IN_NULL, BEGINNING).map_err(failed)?;
    let indom = source.context.desc(pmid).map_err(failed)?.indom;
    let instances = source.context.instances(indom).map_err(failed)?;
    for instance in instances {
        let Some(at) = kept.get(&instance.name) else { continue };
        match store(source, pmid, instance.id, at) {
            Ok(()) => {}
            Err(ClientError::Pcp(PmError::BADSTORE)) => {
                let why = position::refusal(&mut source.context).map_err(failed)?.unwrap_or_default();
                complain!(
                    "{NAME}: {}: cannot go on at {at} ({why}): all that there is of it comes",
                    instance.name
                );
                store(source, pmid, instance.id, BEGINNING).map_err(failed)?;
            }
            // Its records are not for this client.
            Err(ClientError::Pcp(PmError::PERMISSION | PmError::INST)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

fn store(source: &mut Source, pmid: Pmid, inst: pcp_model::Inst, text: &str) -> Result<(), ClientError> {
    let value = InstanceValue { inst, value: Value::from(text.to_owned()) };
    source.context.store(&[ValueSet { pmid, values: Ok(vec![value]) }])
}

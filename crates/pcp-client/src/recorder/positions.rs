//! Where event records have been read up to, so that an archive that was interrupted goes on there.
//!
//! The jumpseat agent tells a client where it is in the records of each source, and takes that back ("store"). Here
//! the position is fetched behind the records, in the same fetch, and so it is in the archive in the same record as
//! they are: whatever ends the recorder, the last whole record says where the next one begins. It is stored before the
//! first fetch of a context, and again whenever what was fetched did not get into the archive.
//!
//! **Invariant:** [`Position::kept`] is what the archive's last record says. Agents without such metrics are recorded
//! as they always were.

use std::collections::{HashMap, HashSet};

use byteorder::BigEndian;

use super::{Metric, Notice, RecordError, Recorder};
use crate::position::{METRICS, refusal};
use crate::provider::answer;
use crate::{ContextKind, Fetched, StateChange};
use pcp_archive::{Archive, ArchiveError, Step};
use pcp_event::{ArrayKind, ArrayReader, Param};
use pcp_model::{
    InDom, Inst, Instance, InstanceValue, PM_IN_NULL, PmError, Pmid, Value, ValueSet, ValueType,
};
use pcp_pdu::{ValueRef, ValuesRef};

/// In front of all there ever was.
const BEGINNING: &str = "0";
/// Positions stored at once: pmcd takes requests of 64 KiB.
const AT_ONCE: usize = 512;
/// Changes after which an agent may know nothing of this client any more.
const NEW_AGENTS: StateChange = StateChange::ADD.union(StateChange::RESTART);

/// The positions in all metrics that have them.
#[derive(Default)]
pub(super) struct Positions {
    all: Vec<Position>,
    due: Due,
}

/// Whether the source has to be told where to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    #[default]
    No,
    /// What was fetched is not in the archive.
    Again,
    /// It does not know this client: also of what it gets later it wants everything.
    Anew,
}

/// The positions in the records of one metric.
struct Position {
    records: Pmid,
    kind: ArrayKind,
    pmid: Pmid,
    indom: InDom,
    /// Whether the archive has any, be it those of no source at all: then also what comes first of all is known.
    begun: bool,
    /// By instance, as of the last record that was written.
    kept: HashMap<Inst, String>,
    /// By the name of the instance, as found in an archive that is continued.
    found: HashMap<String, String>,
}

impl Position {
    /// What an answer tells, if the agent is there to tell it.
    fn told<'a>(&self, fetched: &'a Fetched) -> Option<ValuesRef<'a>> {
        fetched.find(self.pmid)?.values.ok()
    }

    /// Whether the answer goes on where the last one ended: as many records as the position has moved by.
    fn goes_on(&self, fetched: &Fetched) -> bool {
        let records = fetched.find(self.records).and_then(|set| set.values.ok());
        let count_of = |inst| {
            let value = records.and_then(|values| values.iter().find(|(other, _)| *other == inst));
            value.map_or(0, |(_, value)| count(self.kind, value))
        };
        self.told(fetched).is_some_and(|told| {
            texts(told).all(|(inst, now)| {
                let before = self.kept.get(&inst).map(String::as_str);
                // A source that is new begins with its first.
                let (before, same) = parse(before.unwrap_or(BEGINNING));
                let (now, epoch) = parse(&now);
                let moved = now.zip(before).and_then(|(now, before)| now.checked_sub(before));
                moved == Some(count_of(inst)) && same.is_none_or(|same| epoch == Some(same))
            })
        })
    }
}

impl Positions {
    fn set_due(&mut self, due: Due) {
        if self.all.iter().any(|position| position.begun) {
            self.due = self.due.max(due);
        }
    }

    /// The connection is a new one.
    pub(super) fn connected_anew(&mut self) {
        self.set_due(Due::Anew);
    }

    /// Whether the agent is there to say where this client is.
    fn are_in(&self, fetched: &Fetched) -> bool {
        self.all.iter().any(|position| position.told(fetched).is_some())
    }

    /// What was fetched is in the archive, or never will be.
    pub(super) fn settled(&mut self, fetched: &Fetched) {
        // An agent that is not there at present says nothing: what it said holds, and is stored when it comes back.
        if self.are_in(fetched) {
            self.due = Due::No;
        }
        for position in &mut self.all {
            if let Some(told) = position.told(fetched) {
                position.begun = true;
                position.kept.clear();
                position.kept.extend(texts(told));
                position.found.clear();
            }
        }
    }
}

/// Puts each metric with positions behind the one with the records, which is asked for first then.
pub(super) fn with_positions(names: &mut Vec<String>) {
    let had: HashSet<String> = names.iter().cloned().collect();
    names.retain(|name| METRICS.iter().all(|(_, position)| name != position));
    let wanted =
        METRICS.iter().filter(|(records, position)| had.contains(*records) || had.contains(*position));
    names.extend(wanted.map(|(_, position)| (*position).to_owned()));
}

impl Recorder {
    /// Takes notice of which metrics with positions are recorded with their records.
    pub(super) fn find_positions(&mut self) {
        // What was recorded once does not go on anywhere.
        if self.context.kind() == ContextKind::Archive {
            return;
        }
        let metric = |name: &str| self.metrics.iter().find(|metric| metric.name == name);
        let mut before = std::mem::take(&mut self.positions.all);
        for (records, position) in METRICS {
            let (Some(Metric { desc: records, .. }), Some(Metric { desc, .. })) =
                (metric(records), metric(position))
            else {
                continue;
            };
            let known =
                before.iter().position(|known| known.pmid == desc.pmid && known.records == records.pmid);
            self.positions.all.push(match known {
                Some(at) => before.swap_remove(at),
                None => Position {
                    records: records.pmid,
                    kind: match records.value_type {
                        ValueType::HighResEvent => ArrayKind::HighRes,
                        _ => ArrayKind::Event,
                    },
                    pmid: desc.pmid,
                    indom: desc.indom,
                    begun: false,
                    kept: HashMap::new(),
                    found: HashMap::new(),
                },
            });
        }
    }

    /// Looks up where an archive that is continued ended.
    pub(super) fn go_on(&mut self) -> Result<(), RecordError> {
        let Some(base) = self.archive.base().to_str().filter(|_| self.archive.last_time().is_some()) else {
            return Ok(());
        };
        if self.positions.all.is_empty() {
            return Ok(());
        }
        let mut archive = Archive::open(base)?;
        for position in &mut self.positions.all {
            if let Some(found) = last_in(&mut archive, position)? {
                (position.begun, position.found) = (true, found);
            }
        }
        self.positions.connected_anew();
        Ok(())
    }

    /// Fetches, so that event records go on where the archive ends.
    pub(super) fn fetch_on(&mut self) -> Result<StateChange, RecordError> {
        let (is_told, changes) = self.resume_and_fetch()?;
        let Recorder { positions, fetched, .. } = self;
        // An agent that came back has begun at its end, unless it knew this client: what it gave comes with the next.
        let goes_on = || positions.all.iter().all(|position| position.goes_on(fetched));
        let is_continued = is_told && (!changes.intersects(NEW_AGENTS) || goes_on());
        if is_continued || !positions.are_in(fetched) {
            return Ok(changes);
        }
        Ok(self.resume_and_fetch()?.1 | changes)
    }

    /// Whether the source knows where to go on, and what the fetch says.
    fn resume_and_fetch(&mut self) -> Result<(bool, StateChange), RecordError> {
        let is_told = self.resume()?;
        // Until it is in the archive.
        self.positions.set_due(Due::Again);
        Ok((is_told, self.context.fetch(&self.pmids, &mut self.fetched)?))
    }

    /// Tells the source where to go on, if it is to be told. Whether it knows.
    fn resume(&mut self) -> Result<bool, RecordError> {
        if self.positions.due == Due::No {
            return Ok(true);
        }
        let (anew, mut done) = (self.positions.due == Due::Anew, true);
        let mut all = std::mem::take(&mut self.positions.all);
        let mut outcome = Ok(());
        for position in all.iter_mut().filter(|position| position.begun) {
            match self.store_all(position, anew) {
                Ok(is_told) => done &= is_told,
                Err(error) => outcome = Err(error),
            }
            if outcome.is_err() {
                break;
            }
        }
        self.positions.all = all;
        if done && outcome.is_ok() {
            self.positions.due = Due::No;
        }
        outcome.map(|()| done)
    }

    /// Stores the positions in one metric. False if the agent is not there: it has to be tried again.
    fn store_all(&mut self, position: &mut Position, anew: bool) -> Result<bool, RecordError> {
        let Ok(instances) = answer(self.context.instances(position.indom))? else { return Ok(false) };
        // Of sources that have come meanwhile, or come between here and the fetch, nothing is in the archive.
        if anew && let Err(error) = self.store(position.pmid, [(PM_IN_NULL, BEGINNING)])? {
            return Ok(self.cannot(error));
        }
        position.kept = instances
            .iter()
            .map(|Instance { id, name }| {
                let kept = position.kept.remove(id).or_else(|| position.found.remove(name));
                (*id, kept.unwrap_or_else(|| BEGINNING.to_owned()))
            })
            .collect();
        position.found.clear();
        for some in instances.chunks(AT_ONCE) {
            let texts =
                some.iter().filter_map(|Instance { id, .. }| Some((*id, position.kept.get(id)?.as_str())));
            if self.store(position.pmid, texts)?.is_err() && !self.store_each(position, some)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same for single sources, as one of them has been refused.
    fn store_each(&mut self, position: &mut Position, instances: &[Instance]) -> Result<bool, RecordError> {
        for Instance { id, name } in instances {
            let Some(at) = position.kept.get_mut(id) else { continue };
            match self.store(position.pmid, [(*id, at.as_str())])? {
                // Its records are not for this client.
                Ok(()) | Err(PmError::PERMISSION | PmError::INST) => {}
                Err(PmError::BADSTORE) => {
                    let reason = refusal(&mut self.context)?.unwrap_or_else(|| PmError::BADSTORE.to_string());
                    // All there is of it comes then, and is counted from its beginning.
                    let gone = std::mem::replace(at, BEGINNING.to_owned());
                    self.say(name, Notice::BegunAnew { instance: name.clone(), position: gone, reason });
                    if let Err(error) = self.store(position.pmid, [(*id, BEGINNING)])? {
                        return Ok(self.cannot(error));
                    }
                }
                Err(error) => return Ok(self.cannot(error)),
            }
        }
        Ok(true)
    }

    /// What cannot be stored at all is said, and not tried again. Whether that is so.
    fn cannot(&mut self, error: PmError) -> bool {
        let is_final = matches!(error, PmError::PERMISSION | PmError::BADSTORE | PmError::PMID);
        if is_final {
            self.say(super::notice::POSITIONS, Notice::PositionsRefused(error));
        }
        is_final
    }

    fn store<'a>(
        &mut self,
        pmid: Pmid,
        texts: impl IntoIterator<Item = (Inst, &'a str)>,
    ) -> Result<Result<(), PmError>, RecordError> {
        let value = |(inst, text): (Inst, &str)| InstanceValue { inst, value: Value::from(text.to_owned()) };
        let set = ValueSet { pmid, values: Ok(texts.into_iter().map(value).collect()) };
        Ok(answer(self.context.store(&[set]))?)
    }
}

/// Texts by instance.
fn texts(values: ValuesRef<'_>) -> impl Iterator<Item = (Inst, String)> + '_ {
    values
        .iter()
        .filter_map(|(inst, value)| Some((inst, String::from_utf8_lossy(value.text().ok()?).into_owned())))
}

/// The sequence number and the epoch of a position.
fn parse(position: &str) -> (Option<u64>, Option<&str>) {
    let (seq, epoch) = position.split_once('@').map_or((position, None), |(seq, epoch)| (seq, Some(epoch)));
    (seq.parse().ok(), epoch)
}

/// How many records an array is about, missed ones included.
fn count(kind: ArrayKind, value: ValueRef<'_>) -> u64 {
    let ValueRef::Block(block) = value else { return 0 };
    let Ok(array) = ArrayReader::<BigEndian>::new(kind, block) else { return 0 };
    let (mut sum, mut counts_next) = (0, false);
    for record in array.records() {
        match (record.missed(), record.params().next()) {
            // Of this form the number comes with a record behind it, as pmcd makes it 0 here.
            (Some(_), _) if kind == ArrayKind::HighRes => counts_next = true,
            (Some(missed), _) => sum += u64::from(missed.unsigned_abs()),
            (None, Some(param)) if counts_next => {
                counts_next = false;
                if let Param::U64(missed) = param.value {
                    sum += missed;
                }
            }
            (None, _) => sum += 1,
        }
    }
    sum
}

/// What the last record of an archive that has positions says, by the names of the instances.
fn last_in(
    archive: &mut Archive,
    position: &Position,
) -> Result<Option<HashMap<String, String>>, ArchiveError> {
    if archive.desc(position.pmid).is_err() {
        return Ok(None);
    }
    let mut at = archive.last()?;
    while let Some(step) = archive.previous(at)? {
        let (Step::Gap(_, before) | Step::Record(_, before)) = step;
        at = before;
        let Step::Record(place, _) = step else { continue };
        let record = archive.record(place)?;
        let set = record.sets().find(|set| set.pmid == position.pmid);
        // In records from when the agent was not there stands an error.
        let Some(Ok(told)) = set.map(|set| set.values) else { continue };
        let (time, told) = (record.timestamp, texts(told).collect::<Vec<_>>());
        let mut names = HashMap::new();
        if let Ok(instances) = archive.instances(position.indom, time) {
            names.extend(instances.map(|(inst, name)| (inst, String::from_utf8_lossy(name).into_owned())));
        }
        return Ok(Some(
            told.into_iter().filter_map(|(inst, at)| Some((names.remove(&inst)?, at))).collect(),
        ));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_stand_behind_all_else() {
        let check = |names: &[&str], expected: &[&str]| {
            let mut names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            with_positions(&mut names);
            assert_eq!(names, expected);
        };
        let [(records, position), (highres, highres_position)] = METRICS;
        check(&["a", "b"], &["a", "b"]);
        check(&[records, "a"], &[records, "a", position]);
        check(&[position, "a", highres, records], &["a", highres, records, position, highres_position]);
        check(&[position, "a"], &["a", position]);
    }
}

//! The thread: connects, looks names up, fetches at its pace, and tries again when pmcd is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use rustc_hash::FxHashMap;

use super::exchange::{ForeignSample, Handle, Metadata, Report, SamplingPlan, is_passing};
use super::link::Link;
use super::mailbox::Poster;
use super::stats::{Phase, SamplerStats};
use pcp_client::ClientError;
use pcp_model::{Desc, InDom, Instance, InstanceValue, PmError, Pmid};
use pcp_pdu::{StateChange, ValueRef};
use pcp_pmda::Instances;

/// Intervals between attempts to reach pmcd: 0, 1, 2, 4 and so on, and no more than this.
const MOST_BACKOFF: u32 = 16;
/// The longest such interval.
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// How often names are looked up that pmcd does not know, and instances listed again that are known.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How often names are looked up that are known, while there is nothing else to ask pmcd for: to learn that it has
/// gone, or is another one.
const LOOK_AFTER: Duration = Duration::from_secs(60);

/// Does what the plans say until there can be no more of them.
pub(super) fn run(
    plans: Receiver<SamplingPlan>,
    reports: &Poster<Report>,
    stats: &SamplerStats,
    wake: &dyn Fn(),
) {
    let Ok(plan) = plans.recv() else { return };
    let mut thread = Thread {
        report: Report { host: plan.host.clone(), ..Report::default() },
        plan,
        stats,
        link: None,
        connected_before: false,
        backoff: 0,
        retry: Instant::now(),
        last: None,
        looked_up: None,
        known: FxHashMap::default(),
        instances: FxHashMap::default(),
        samples: 0,
    };
    loop {
        let due = thread.due();
        thread.publish_phase();
        let plan = match due {
            Some(due) => plans.recv_deadline(due),
            None => plans.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match plan {
            Ok(plan) => thread.take(plan),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                thread.step();
                thread.publish_phase();
                reports.post(thread.report.clone());
                wake();
            }
        }
    }
}

struct Thread<'a> {
    plan: SamplingPlan,
    stats: &'a SamplerStats,
    link: Option<Link>,
    connected_before: bool,
    /// Intervals to wait after the next failure.
    backoff: u32,
    /// When to connect.
    retry: Instant,
    /// When the last sample was due.
    last: Option<Instant>,
    /// When names were looked up on this connection; `None` to do it now.
    looked_up: Option<Instant>,
    /// What pmcd said about each name last.
    known: Metadata,
    /// Instances by name, and when they were listed.
    instances: FxHashMap<InDom, (Instant, Result<Arc<Instances>, PmError>)>,
    report: Report,
    samples: u64,
}

impl Thread<'_> {
    /// When there is something to do, if not another plan.
    fn due(&self) -> Option<Instant> {
        if self.plan.names.is_empty() {
            return None;
        }
        if self.link.is_none() {
            return Some(self.retry);
        }
        let look_up = match &self.looked_up {
            None => return Some(Instant::now()),
            Some(when) => self.validity().map(|validity| *when + validity),
        };
        let sample = (!self.plan.wanted.is_empty())
            .then(|| self.last.map_or_else(Instant::now, |last| last + self.plan.interval));
        [look_up, sample].into_iter().flatten().min()
    }

    /// How long names that were looked up need not be looked up again; `None` for as long as nothing happens.
    fn validity(&self) -> Option<Duration> {
        match self.plan.names.keys().all(|handle| matches!(self.known.get(handle), Some(Ok(_)))) {
            false => Some(LOOK_AGAIN),
            true if self.plan.wanted.is_empty() => Some(LOOK_AFTER),
            true => None,
        }
    }

    fn publish_phase(&self) {
        self.stats.set_phase(match &self.link {
            _ if self.plan.names.is_empty() => Phase::Off,
            None if self.backoff > 0 => Phase::Unreachable,
            None => Phase::Connecting,
            Some(_) if self.plan.wanted.is_empty() => Phase::Idle,
            Some(_) => Phase::Sampling,
        });
    }

    fn take(&mut self, plan: SamplingPlan) {
        // Without names there is nothing to ask for, and a connection is a client that pmcd counts.
        if plan.host != self.plan.host || plan.names.is_empty() {
            self.link = None;
            (self.backoff, self.retry) = (0, Instant::now());
            self.connected_before = false;
        }
        if plan.host != self.plan.host {
            self.known.clear();
            self.report = Report { host: plan.host.clone(), ..Report::default() };
        }
        if plan.names != self.plan.names || plan.lookups != self.plan.lookups {
            self.looked_up = None;
        }
        self.known.retain(|handle, _| plan.names.contains_key(handle));
        self.instances.retain(|indom, _| plan.indoms.contains(indom));
        self.plan = plan;
    }

    /// Does what is due. A failure ends the connection: what pmcd says next could be about something else.
    fn step(&mut self) {
        let Err(error) = self.try_step() else {
            self.backoff = 0;
            return;
        };
        self.stats.errors.fetch_add(1, Ordering::Relaxed);
        if self.backoff == 1 {
            // The first attempt to mend it has failed, too. Further ones are in the counter, not in the log.
            tracing::warn!("derived metrics: no samples from {}: {error}; trying again", self.plan.host);
        }
        self.link = None;
        // Samples go on with the connection.
        self.last = None;
        self.retry = Instant::now() + self.plan.interval.min(LONGEST_RETRY) * self.backoff;
        self.backoff = (self.backoff * 2).clamp(1, MOST_BACKOFF);
    }

    fn try_step(&mut self) -> Result<(), ClientError> {
        if self.link.is_none() {
            self.link = Some(Link::connect(&self.plan.host)?);
            // PMIDs and instances may be others after pmcd or an agent has been restarted.
            self.looked_up = None;
            self.instances.clear();
            if self.connected_before {
                self.stats.reconnects.fetch_add(1, Ordering::Relaxed);
                tracing::info!("derived metrics: connected to {} again", self.plan.host);
            }
            self.connected_before = true;
        }
        match &self.looked_up {
            Some(when) if self.validity().is_none_or(|validity| when.elapsed() < validity) => {}
            _ => self.look_up()?,
        }
        let now = Instant::now();
        let due = self.last.map_or(now, |last| last + self.plan.interval);
        if !self.plan.wanted.is_empty() && due <= now {
            // What was missed is not made up for.
            self.last = Some(if now > due + self.plan.interval { now } else { due });
            self.sample()?;
        }
        Ok(())
    }

    fn look_up(&mut self) -> Result<(), ClientError> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let names = &self.plan.names;
        let answers = link.look_up(&names.values().map(|name| &**name).collect::<Vec<_>>())?;
        for (&handle, answer) in names.keys().zip(answers) {
            let found = answer.and_then(|(pmid, desc)| match (desc, self.known.get(&handle)) {
                // The agent behind it is not there at the moment; what it said before holds.
                (Err(error), Some(Ok(before))) if is_passing(error) => Ok(Desc { pmid, ..*before }),
                (desc, _) => desc,
            });
            self.known.insert(handle, found);
        }
        self.looked_up = Some(Instant::now());
        // The event loop tells by the address whether anything has changed.
        if *self.report.metadata != self.known {
            self.report.metadata = Arc::new(self.known.clone());
        }
        Ok(())
    }

    fn sample(&mut self) -> Result<(), ClientError> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let known = |handle: &Handle| Some((*handle, self.known.get(handle)?.as_ref().ok()?));
        let wanted: Vec<(Handle, &Desc)> = self.plan.wanted.iter().filter_map(known).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let pmids: Vec<Pmid> = wanted.iter().map(|(_, desc)| desc.pmid).collect();
        let begun = Instant::now();
        let fetched = link.fetch(&pmids)?;
        let taken = Instant::now();
        self.stats.latency_nanos.store((taken - begun).as_nanos() as u64, Ordering::Relaxed);
        let mut room = self.plan.budget;
        let mut retyped = false;
        let mut values = FxHashMap::default();
        for (&(handle, desc), set) in wanted.iter().zip(fetched.sets()) {
            let decoded = set.values.and_then(|set| {
                let mut decoded = Vec::with_capacity(set.len());
                for (inst, value) in set.iter() {
                    let size = size_of::<InstanceValue>() + block_size(value);
                    room = room.checked_sub(size).ok_or(PmError::TOOBIG)?;
                    let value = value.to_value(desc.value_type).inspect_err(|_| retyped = true)?;
                    decoded.push(InstanceValue { inst, value });
                }
                Ok(decoded)
            });
            values.insert(handle, decoded);
        }
        let (time, changes) = (fetched.timestamp, fetched.changes);
        self.name_instances(&values)?;
        let indoms = self.instances.iter().map(|(&indom, (_, known))| (indom, known.clone())).collect();
        self.samples += 1;
        self.stats.samples.fetch_add(1, Ordering::Relaxed);
        let sample = ForeignSample { number: self.samples, time, taken, values, indoms };
        self.report.sample = Some(Arc::new(sample));
        // Also when a value is not of the type that its metric had.
        let renaming = [StateChange::ADD, StateChange::RESTART, StateChange::NAMES];
        if retyped || renaming.into_iter().any(|change| changes.contains(change)) {
            self.looked_up = None;
        }
        Ok(())
    }

    /// Lists the instances of domains in which an instance without a name has come up, and of all from time
    /// to time, for those that go.
    fn name_instances(
        &mut self,
        values: &FxHashMap<Handle, Result<Vec<InstanceValue>, PmError>>,
    ) -> Result<(), ClientError> {
        let Some(link) = &mut self.link else { return Ok(()) };
        for &indom in &self.plan.indoms {
            let known = match self.instances.get(&indom) {
                Some((when, Ok(known))) if when.elapsed() < LOOK_AGAIN => Some(known),
                _ => None,
            };
            let is_of = |handle: &Handle| matches!(self.known.get(handle), Some(Ok(d)) if d.indom == indom);
            let all_known = |known: &Arc<Instances>| {
                let sets = values.iter().filter(|(handle, _)| is_of(handle));
                let mut values = sets.flat_map(|(_, values)| values.iter().flatten());
                values.all(|value| known.contains(value.inst))
            };
            if !known.is_some_and(all_known) {
                let listed = link.instances(indom)?.and_then(|list| table(list, self.plan.budget));
                self.instances.insert(indom, (Instant::now(), listed));
            }
        }
        Ok(())
    }
}

/// Instances by number and by name, if they take no more memory than allowed.
fn table(mut list: Vec<Instance>, budget: usize) -> Result<Arc<Instances>, PmError> {
    if list.iter().map(|instance| size_of::<Instance>() + instance.name.len()).sum::<usize>() > budget {
        return Err(PmError::TOOBIG);
    }
    list.sort_unstable_by_key(|instance| instance.id);
    let mut instances = Instances::in_memory();
    for instance in list {
        // A name or number that comes twice is the first's.
        let _ = instances.add_as(instance.id, &instance.name);
    }
    Ok(Arc::new(instances))
}

/// Bytes that a value has besides its [`InstanceValue`].
fn block_size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::InSitu(_) => 0,
        ValueRef::Block(block) => block.len(),
    }
}

//! Instances, asked for once a run, and in archives once at each of the times that metrics are shown at in turn.

use std::collections::VecDeque;

use hashbrown::HashMap;
use pcp_client::{ClientError, Context};
use pcp_model::{InDom, Inst, Instance, PmError, Timestamp};

/// Times of an archive of which instances are remembered: as many groups of metrics that were recorded by themselves, in turn.
const TIMES: usize = 8;

/// What has been learnt about instance domains. A tool that prints one sample sees a domain at one time only, so each
/// is asked for once; instances that have come since are asked for by themselves.
#[derive(Default)]
pub(crate) struct Instances {
    /// Those of now.
    domains: HashMap<InDom, Domain>,
    /// The time that was moved to.
    time: Option<Timestamp>,
    /// Those of other times, the last that was left in front.
    others: VecDeque<(Timestamp, HashMap<InDom, Domain>)>,
}

/// An instance domain at the time it was asked for.
struct Domain {
    /// In the order of the source.
    ids: Result<Vec<Inst>, PmError>,
    /// Their names.
    names: Vec<String>,
    /// The place of the instance that was asked for last. Values come in the order of instances mostly.
    last: usize,
    /// Where each is; nothing as long as the order is that of their numbers.
    places: HashMap<Inst, usize>,
    /// Names of those that the source has not listed.
    unlisted: HashMap<Inst, Result<String, PmError>>,
}

impl Instances {
    /// Goes to a time of an archive, at which there may be other instances.
    pub(crate) fn move_to(&mut self, time: Timestamp) {
        if self.time == Some(time) {
            return;
        }
        let known = self.others.iter().position(|(other, _)| *other == time);
        let known = known.and_then(|at| self.others.remove(at)).map(|(_, domains)| domains);
        let before = std::mem::replace(&mut self.domains, known.unwrap_or_default());
        if let Some(left) = self.time.replace(time) {
            self.others.truncate(TIMES - 2);
            self.others.push_front((left, before));
        }
    }

    /// The instances of a domain, in the order of the source.
    ///
    /// # Errors
    /// The source's.
    pub(crate) fn ids(&mut self, context: &mut Context, indom: InDom) -> Result<&[Inst], PmError> {
        match &self.domain(context, indom).ids {
            Ok(ids) => Ok(ids),
            Err(error) => Err(*error),
        }
    }

    /// The name of an instance.
    ///
    /// # Errors
    /// The source's.
    pub(crate) fn name(&mut self, context: &mut Context, indom: InDom, inst: Inst) -> Result<&str, PmError> {
        let domain = self.domain(context, indom);
        if let Some(place) = domain.place(inst) {
            debug_assert!(place < domain.names.len(), "each has a name");
            return Ok(domain.names.get(place).map_or("", String::as_str));
        }
        // It has come since, or the agent names more than it lists.
        let ask = || context.instance_name(indom, inst).map_err(|error| error.code());
        match domain.unlisted.entry(inst).or_insert_with(ask) {
            Ok(name) => Ok(name),
            Err(error) => Err(*error),
        }
    }

    /// Takes all instances that a domain of an archive ever had for those that it has.
    pub(crate) fn ask_ever(&mut self, context: &mut Context, indom: InDom) {
        self.domains.insert(indom, Domain::new(context.instances_ever(indom)));
    }

    fn domain(&mut self, context: &mut Context, indom: InDom) -> &mut Domain {
        self.domains.entry(indom).or_insert_with(|| Domain::new(context.instances(indom)))
    }
}

impl Domain {
    fn new(instances: Result<Vec<Instance>, ClientError>) -> Domain {
        let (ids, names) = match instances {
            Ok(instances) => {
                let (ids, names): (Vec<Inst>, _) =
                    instances.into_iter().map(|instance| (instance.id, instance.name)).unzip();
                (Ok(ids), names)
            }
            Err(error) => (Err(error.code()), Vec::new()),
        };
        let places = match &ids {
            Ok(ids) if !ids.is_sorted_by(|one, next| one < next) => {
                ids.iter().enumerate().map(|(place, id)| (*id, place)).collect()
            }
            _ => HashMap::new(),
        };
        Domain { ids, names, last: 0, places, unlisted: HashMap::new() }
    }

    /// Where an instance is among those that the source has listed.
    fn place(&mut self, inst: Inst) -> Option<usize> {
        let ids = self.ids.as_deref().ok()?;
        if !self.places.is_empty() {
            return self.places.get(&inst).copied();
        }
        let beside = ids.get(self.last..)?.iter().take(2).position(|id| *id == inst);
        self.last = beside.map(|beside| self.last + beside).or_else(|| ids.binary_search(&inst).ok())?;
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_found_in_any_order() {
        let domain = |ids: &[Inst]| {
            let instance = |&id: &Inst| Instance { id, name: format!("name {id}") };
            Domain::new(Ok(ids.iter().map(instance).collect()))
        };
        let found = |domain: &mut Domain, inst: Inst| {
            let place = domain.place(inst)?;
            Some(domain.names[place].clone())
        };
        for ids in [&[][..], &[7], &[0, 1, 2, 3, 9, 400], &[9, 3, 400, 0, 2, 1], &[1, 2, 3, 0], &[-5, 0, 5]] {
            let mut domain = domain(ids);
            let backward = ids.iter().rev();
            for &inst in ids.iter().chain(backward).chain(ids.iter().step_by(2)).chain(ids) {
                assert_eq!(found(&mut domain, inst), Some(format!("name {inst}")), "{ids:?}");
                assert_eq!(found(&mut domain, 5_000), None);
            }
        }
        // What a source lists twice has the name that came last, wherever one looks from.
        let twice = [(1, "one"), (1, "again"), (2, "two")];
        let instance = |(id, name): (Inst, &str)| Instance { id, name: name.to_owned() };
        let mut twice = Domain::new(Ok(twice.into_iter().map(instance).collect()));
        for inst in [1, 2, 1, 1] {
            let name = if inst == 1 { "again" } else { "two" };
            assert_eq!(found(&mut twice, inst).as_deref(), Some(name));
        }
        let mut failed = Domain::new(Err(ClientError::Pcp(PmError::INDOM)));
        assert_eq!(found(&mut failed, 1), None);
    }
}

//! Instances, asked for once a run, and in archives once at each of the times that metrics are shown at in turn.

use std::collections::{HashMap, VecDeque};

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
    names: HashMap<Inst, Result<String, PmError>>,
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
        let name = domain
            .names
            .entry(inst)
            // It has come since, or the agent names more than it lists.
            .or_insert_with(|| context.instance_name(indom, inst).map_err(|error| error.code()));
        match name {
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
        match instances {
            Ok(instances) => Domain {
                ids: Ok(instances.iter().map(|instance| instance.id).collect()),
                names: instances.into_iter().map(|instance| (instance.id, Ok(instance.name))).collect(),
            },
            Err(error) => Domain { ids: Err(error.code()), names: HashMap::new() },
        }
    }
}

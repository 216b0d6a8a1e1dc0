//! Instances, asked for once a run, and in archives once at each time that metrics are shown at.

use std::collections::HashMap;

use pcp_client::{ClientError, Context};
use pcp_model::{InDom, Inst, Instance, PmError, Timestamp};

/// What has been learnt about instance domains. A tool that prints one sample sees a domain at one time only, so each
/// is asked for once; instances that have come since are asked for by themselves.
#[derive(Default)]
pub(crate) struct Instances {
    domains: HashMap<InDom, Domain>,
    /// The time that was moved to.
    time: Option<Timestamp>,
}

/// An instance domain at the time it was asked for.
struct Domain {
    /// In the order of the source.
    ids: Result<Vec<Inst>, PmError>,
    names: HashMap<Inst, Result<String, PmError>>,
}

impl Instances {
    /// Forgets what was so at another time of an archive.
    pub(crate) fn move_to(&mut self, time: Timestamp) {
        if self.time != Some(time) {
            *self = Instances { time: Some(time), ..Instances::default() };
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

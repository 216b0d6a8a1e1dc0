//! The agent as the expression engine sees it: metadata of its metrics at any time, and their values and
//! instances within a fetch.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use crate::agent::{Call, Instances, OwnMetrics, SetWriter};
use crate::derive::{Column, Context, Meta, Registry, Sample, Source};
use crate::model::{Desc, InDom, Inst, InstanceValue, PmError, Pmid};

use super::State;

/// The metrics that definitions may use, by name and PMID. Never changes.
#[derive(Debug, Default)]
pub struct Catalogue {
    pub by_name: FxHashMap<String, Desc>,
    pub by_pmid: FxHashMap<u32, Desc>,
}

impl Catalogue {
    /// Of these metrics.
    pub fn new<'a>(metrics: impl Iterator<Item = (&'a str, Desc)>) -> Catalogue {
        let mut catalogue = Catalogue::default();
        for (name, desc) in metrics {
            catalogue.by_name.insert(name.to_owned(), desc);
            catalogue.by_pmid.insert(desc.pmid.local(), desc);
        }
        catalogue
    }
}

/// What one client has computed.
#[derive(Debug, Default)]
pub struct Session {
    /// Bindings and history.
    pub context: Context,
    /// The fetch that the operands' values are of.
    fetch: u64,
    /// Room for the values of one operand.
    values: Vec<InstanceValue>,
}

/// The metadata of the agent's own metrics, for binding without evaluating.
pub struct Metadata<'a>(pub &'a Catalogue);

impl Source for Metadata<'_> {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        self.0.by_name.get(name).map(|desc| desc.pmid).ok_or(PmError::NAME)
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        self.0.by_pmid.get(&pmid.local()).copied().map(Meta::from).ok_or(PmError::PMID)
    }
}

/// The agent within a fetch. The engine asks for operands and instances by turns, never for one within
/// the other, so the cell is never borrowed twice.
pub struct World<'a, 'b> {
    own: RefCell<&'a mut OwnMetrics<'b, State>>,
    catalogue: &'a Catalogue,
    call: &'a Call<'a>,
}

impl<'a, 'b> World<'a, 'b> {
    /// For one request.
    pub fn new(
        own: &'a mut OwnMetrics<'b, State>,
        catalogue: &'a Catalogue,
        call: &'a Call<'a>,
    ) -> World<'a, 'b> {
        World { own: RefCell::new(own), catalogue, call }
    }

    fn with_instances<T>(
        &self,
        indom: InDom,
        ask: impl FnOnce(&Instances) -> Result<T, PmError>,
    ) -> Result<T, PmError> {
        if indom.domain() != self.call.pmid.domain() {
            return Err(PmError::INDOM);
        }
        ask(self.own.borrow_mut().instances(indom.serial())?)
    }
}

/// Instances and metadata of a [`World`].
struct WorldSource<'w, 'a, 'b>(&'w World<'a, 'b>);

impl Source for WorldSource<'_, '_, '_> {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        Metadata(self.0.catalogue).pmid(name)
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        Metadata(self.0.catalogue).meta(pmid)
    }

    fn instance(&mut self, indom: InDom, name: &str) -> Result<Inst, PmError> {
        self.0.with_instances(indom, |instances| instances.find(name))
    }

    fn instance_name(
        &mut self,
        indom: InDom,
        inst: Inst,
        found: &mut dyn FnMut(&str),
    ) -> Result<(), PmError> {
        self.0.with_instances(indom, |instances| instances.name(inst).map(found).ok_or(PmError::INST))
    }

    fn instances(&mut self, indom: InDom, out: &mut Vec<Inst>) -> Result<(), PmError> {
        let profile = self.0.call.profile.of(indom);
        self.0.with_instances(indom, |instances| {
            out.extend(instances.active().iter().filter(|&&inst| profile.includes(inst)));
            Ok(())
        })
    }
}

/// Values of a [`World`], and room for them.
struct WorldSample<'w, 'a, 'b> {
    world: &'w World<'a, 'b>,
    values: &'w mut Vec<InstanceValue>,
}

impl Sample for WorldSample<'_, '_, '_> {
    fn operand(&mut self, pmid: Pmid, column: &mut Column) -> Result<(), PmError> {
        self.values.clear();
        self.world.own.borrow_mut().values(self.world.call, pmid, self.values)?;
        for InstanceValue { inst, value } in &*self.values {
            column.push(*inst, value)?;
        }
        Ok(())
    }
}

impl Session {
    /// Evaluates a definition and writes what comes out.
    ///
    /// # Errors
    /// The error of the value set.
    pub fn write(
        &mut self,
        definition: Pmid,
        registry: &Registry,
        world: &World<'_, '_>,
        values: &mut SetWriter<'_>,
    ) -> Result<(), PmError> {
        let stamp = world.call.fetch;
        if self.fetch != stamp.number {
            self.fetch = stamp.number;
            self.context.begin_fetch();
        }
        let mut source = WorldSource(world);
        // Binds it, if this client has not used it before.
        self.context.meta(registry, &mut source, definition)?;
        let mut sample = WorldSample { world, values: &mut self.values };
        let column = self.context.evaluate(definition, stamp.time, &mut sample, &mut source)?;
        for (at, &inst) in column.ids.iter().enumerate() {
            if let Some(value) = column.values.get(at) {
                // What cannot be sent is noted as the instance's error.
                let _ = values.value(inst, &value);
            }
        }
        Ok(())
    }
}

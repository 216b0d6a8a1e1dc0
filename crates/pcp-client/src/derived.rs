//! A context's metrics as the expression engine sees them.

use std::collections::HashMap;

use super::debug;
use super::namespace::NamedProvider;
use pcp_derive::{Column, Meta, MetricSource, OperandValues, Values};
use pcp_model::{InDom, Inst, Instance, PmError, Pmid, Profile, Timestamp, Value, ValueType};
use pcp_pdu::{Fetched, ValueRef};

/// Metadata and instances, asked of the provider when the engine needs them. Instance domains are asked for
/// once in the life of this value: that of one fetch.
pub(super) struct Metrics<'a> {
    provider: &'a mut NamedProvider,
    profile: &'a Profile,
    /// The time of the sample that is computed: an archive's own place has gone on.
    sample: Option<Timestamp>,
    instances: HashMap<InDom, Vec<Instance>>,
}

impl<'a> Metrics<'a> {
    pub(crate) fn new(provider: &'a mut NamedProvider, profile: &'a Profile) -> Metrics<'a> {
        Metrics { provider, profile, sample: None, instances: HashMap::new() }
    }

    /// Those of the time of a sample.
    pub(crate) fn at(self, sample: Timestamp) -> Metrics<'a> {
        Metrics { sample: Some(sample), ..self }
    }

    fn of(&mut self, indom: InDom) -> Result<&[Instance], PmError> {
        // An expression may ask about one domain many times, and the domain must not change in between.
        if !self.instances.contains_key(&indom) {
            let instances = match self.sample.zip(self.provider.recording_mut()) {
                Some((sample, recording)) => recording.instances_at(indom, sample),
                None => self.provider.instances(indom),
            };
            let instances = instances.map_err(|error| error.code())?;
            self.instances.insert(indom, instances);
        }
        self.instances.get(&indom).map(Vec::as_slice).ok_or(PmError::INDOM)
    }
}

impl MetricSource for Metrics<'_> {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        let found = self.provider.lookup_names(&[name]);
        debug::looked_up(&[name], &found);
        let pmids = found.map_err(|error| error.code())?;
        pmids.first().copied().flatten().ok_or(PmError::NAME)
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        let descs = self.provider.descs(&[pmid]).map_err(|error| error.code())?;
        descs.into_iter().next().ok_or(PmError::IPC)?.map(Meta::from)
    }

    /// The whole name wins; else the first word of one, as agents and archives have it.
    fn instance(&mut self, indom: InDom, name: &str) -> Result<Inst, PmError> {
        let instances = self.of(indom)?;
        let whole = instances.iter().find(|instance| instance.name == name);
        let word = || instances.iter().find(|instance| instance.name.split(' ').next() == Some(name));
        whole.or_else(word).map(|instance| instance.id).ok_or(PmError::INST)
    }

    fn instance_name(
        &mut self,
        indom: InDom,
        inst: Inst,
        found: &mut dyn FnMut(&str),
    ) -> Result<(), PmError> {
        let instance = self.of(indom)?.iter().find(|instance| instance.id == inst).ok_or(PmError::INST)?;
        found(&instance.name);
        Ok(())
    }

    fn instances(&mut self, indom: InDom, out: &mut Vec<Inst>) -> Result<(), PmError> {
        let wanted = self.profile.of(indom);
        let ids = self.of(indom)?.iter().map(|instance| instance.id);
        out.extend(ids.filter(|&inst| wanted.includes(inst)));
        Ok(())
    }
}

/// The values of a fetch, found by their metric's place in the request.
pub(super) struct Operands<'a> {
    pub fetched: &'a Fetched,
    pub places: &'a HashMap<Pmid, usize>,
}

impl OperandValues for Operands<'_> {
    fn operand(&mut self, pmid: Pmid, column: &mut Column) -> Result<(), PmError> {
        let Some(set) = self.places.get(&pmid).and_then(|&at| self.fetched.operand(at)) else {
            return Ok(());
        };
        let values = set.values?;
        // As nearly all are sent.
        if let Some(numbers) = column.values.numbers_mut()
            && values.read_into(&mut column.ids, numbers)
        {
            return Ok(());
        }
        let expected = match column.values {
            Values::I32(_) => ValueType::I32,
            Values::U32(_) => ValueType::U32,
            Values::I64(_) => ValueType::I64,
            Values::U64(_) => ValueType::U64,
            Values::Float(_) => ValueType::Float,
            Values::Double(_) => ValueType::Double,
            Values::Other(_) => ValueType::Unknown,
        };
        for (inst, value) in values.iter() {
            column.push(inst, &delivered(value, expected)?)?;
        }
        Ok(())
    }

    fn own_error(&self, pmid: Pmid) -> Option<PmError> {
        self.fetched.operand(*self.places.get(&pmid)?)?.values.err()
    }
}

/// The value in the type it was sent in, which need not be the descriptor's; the engine judges that.
fn delivered(value: ValueRef<'_>, expected: ValueType) -> Result<Value, PmError> {
    match value {
        ValueRef::InSitu(word) => Ok(Value::I32(i32::from_be_bytes(word))),
        ValueRef::Block([code, ..]) if *code != 0 => value.to_value(ValueType::from_code((*code).into())),
        ValueRef::Block(_) => value.to_value(expected),
    }
}

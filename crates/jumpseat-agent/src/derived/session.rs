//! The agent, and what the sampler knows, as the expression engine sees them within a fetch; and what each client has
//! computed so far.

use std::cell::RefCell;
use std::slice;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use pcp_derive::{Column, DerivedContext, Meta, MetricSource, OperandValues, Registry, Values};
use pcp_model::{InDom, Inst, InstanceValue, PM_IN_NULL, PmError, Pmid, Profile, Timestamp, Value};
use pcp_pmda::{Call, Instances, OwnMetrics, SetWriter};

use super::catalogue::{Catalogue, Metadata};
use super::snapshot::Snapshot;
use super::steady::Steady;

/// The agent within a fetch. The engine asks for operands and instances by turns, never for one within
/// the other, so the cell is never borrowed twice.
struct Operands<'a, 'b, S> {
    own: RefCell<&'a mut OwnMetrics<'b, S>>,
    catalogue: &'a Catalogue,
    call: Call<'a>,
    /// Where values come from, if not from the agent as it is now.
    snapshot: Option<&'a Snapshot>,
}

impl<S> Operands<'_, '_, S> {
    fn with_instances<T>(
        &self,
        indom: InDom,
        ask: impl FnOnce(&Instances) -> Result<T, PmError>,
    ) -> Result<T, PmError> {
        if indom.domain() == self.call.pmid.domain() {
            return ask(self.own.borrow_mut().instances(indom.serial())?);
        }
        ask(self.snapshot.ok_or(PmError::INDOM)?.instances(indom)?)
    }
}

/// Instances and metadata of [`Operands`].
struct OperandSource<'o, 'a, 'b, S>(&'o Operands<'a, 'b, S>);

impl<S> MetricSource for OperandSource<'_, '_, '_, S> {
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

/// Values of [`Operands`], and room for them.
struct AgentValues<'o, 'a, 'b, S> {
    operands: &'o Operands<'a, 'b, S>,
    values: &'o mut Vec<InstanceValue>,
}

impl<S> OperandValues for AgentValues<'_, '_, '_, S> {
    fn operand(&mut self, pmid: Pmid, column: &mut Column) -> Result<(), PmError> {
        if let Some(snapshot) = self.operands.snapshot {
            return column.extend(snapshot.values(pmid)?);
        }
        self.values.clear();
        self.operands.own.borrow_mut().values(&self.operands.call, pmid, self.values)?;
        column.extend(self.values)
    }
}

/// What one client has computed.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Bindings and history of what is made of the agent's own metrics only.
    context: DerivedContext,
    /// The fetch that the operands' values are of, and its time.
    fetch: u64,
    time: Timestamp,
    clock: Steady,
    /// Room for the values of one operand.
    values: Vec<InstanceValue>,
    /// The fetch in which a definition was asked for first, so that there were no earlier values.
    began: FxHashMap<Pmid, u64>,
    /// Bindings and history of what is made of samples. Apart from the others, with whom it must not share
    /// values: those are of a fetch, these of a sample.
    sampled: DerivedContext,
    /// The sample that the operands' values are of, and its time.
    sample: u64,
    sample_time: Timestamp,
    sample_clock: Steady,
    /// What each of those had for that sample, or one before.
    results: FxHashMap<Pmid, Computed>,
    /// The metrics made of samples that the client has asked for, by [`Pmid::local`].
    pub asked: Vec<u32>,
    /// Whose it is, if that is known.
    pub user: Option<u32>,
    /// The memory it is counted with, and whether that is to be counted anew.
    pub counted: Option<usize>,
    pub due: bool,
}

/// What came out of a sample.
#[derive(Debug)]
struct Computed {
    sample: u64,
    column: Result<Column, PmError>,
}

impl Session {
    /// A new one, of a user's client.
    pub(crate) fn of(user: Option<u32>) -> Session {
        Session { user, ..Session::default() }
    }

    /// Notes that the client asks for a metric made of samples, and tells whether it is the first time.
    pub(crate) fn ask(&mut self, pmid: Pmid) -> bool {
        let first = !self.asked.contains(&pmid.local());
        self.asked.extend(first.then_some(pmid.local()));
        first
    }

    /// Forgets bindings and history.
    pub(crate) fn forget(&mut self) {
        self.context.reset();
        self.sampled.reset();
        self.results.clear();
        self.began.clear();
    }

    /// Evaluates a definition over the agent's own metrics, under the client's profile, and writes what comes
    /// out. `shared`: what the agent's own history has, for who has none yet.
    ///
    /// # Errors
    /// The error of the value set.
    pub(crate) fn write<S>(
        &mut self,
        of: (Pmid, &Registry, &Catalogue),
        shared: Option<&Column>,
        own: &mut OwnMetrics<'_, S>,
        call: &Call<'_>,
        values: &mut SetWriter<'_>,
    ) -> Result<(), PmError> {
        let (definition, registry, _) = of;
        // Those of definitions that are gone would stay for as long as the client does.
        if self.began.len() > registry.definitions().len() {
            self.began.retain(|pmid, _| registry.find_pmid(*pmid).is_some());
        }
        let number = call.fetch.number;
        let shared = shared.filter(|_| *self.began.entry(definition).or_insert(number) == number);
        self.evaluate(of, own, call, |column| {
            let column = match (column, shared) {
                (Ok(column), Some(shared)) if column.ids.is_empty() => shared,
                (Err(_), Some(shared)) => shared,
                (column, _) => column?,
            };
            write(column, values);
            Ok(())
        })
    }

    /// Evaluates a definition over the agent's own metrics, for the client and under the profile of `call`.
    pub(super) fn evaluate<S, T>(
        &mut self,
        (definition, registry, catalogue): (Pmid, &Registry, &Catalogue),
        own: &mut OwnMetrics<'_, S>,
        call: &Call<'_>,
        take: impl FnOnce(Result<&Column, PmError>) -> T,
    ) -> T {
        let operands = Operands { own: RefCell::new(own), catalogue, call: *call, snapshot: None };
        let mut source = OperandSource(&operands);
        let mut context = self.context.attach(registry, &mut source);
        // All metrics of a fetch see the same values of their operands.
        if self.fetch != call.fetch.number {
            self.fetch = call.fetch.number;
            self.time = self.clock.next(call.fetch.time);
            context.begin_fetch();
        }
        // Binds it, if this client has not used it before.
        if let Err(error) = context.prepare(definition) {
            return take(Err(error));
        }
        let mut operand_values = AgentValues { operands: &operands, values: &mut self.values };
        let mut answers = context.answers(slice::from_ref(&definition), self.time);
        take(answers.answer(definition, &mut operand_values).values())
    }

    /// Writes what comes out of a definition with the values of a sample. It is evaluated once for each sample
    /// that the client's fetches find, for all instances; the client's profile is for the result.
    ///
    /// # Errors
    /// The error of the value set.
    pub(crate) fn write_sampled<S>(
        &mut self,
        (definition, registry, catalogue): (Pmid, &Registry, &Catalogue),
        snapshot: &Snapshot,
        own: &mut OwnMetrics<'_, S>,
        call: &Call<'_>,
        values: &mut SetWriter<'_>,
    ) -> Result<(), PmError> {
        let number = snapshot.sample.number;
        // Evaluated once for a sample, whatever the client's profile is in this fetch, or `rate` would lose instances.
        let everything = Profile::default();
        let call = Call { profile: &everything, ..*call };
        let operands = Operands { own: RefCell::new(own), catalogue, call, snapshot: Some(snapshot) };
        let mut source = OperandSource(&operands);
        let mut context = self.sampled.attach(registry, &mut source);
        if self.sample != number {
            self.sample = number;
            self.sample_time = self.sample_clock.next(snapshot.sample.time);
            context.begin_fetch();
            // Those of definitions that are gone would stay for as long as the client does.
            self.results.retain(|pmid, _| registry.find_pmid(*pmid).is_some());
        }
        context.prepare(definition)?;
        let empty = || Computed { sample: 0, column: Err(PmError::AGAIN) };
        let computed = self.results.entry(definition).or_insert_with(empty);
        if computed.sample != number {
            let mut operand_values = AgentValues { operands: &operands, values: &mut self.values };
            let mut answers = context.answers(slice::from_ref(&definition), self.sample_time);
            let column = answers.answer(definition, &mut operand_values).values();
            computed.sample = number;
            match (&mut computed.column, column) {
                // In the memory there is.
                (Ok(to), Ok(from)) => to.clone_from(from),
                (to, from) => *to = from.cloned(),
            }
        }
        write(computed.column.as_ref().map_err(|error| *error)?, values);
        Ok(())
    }

    /// Memory for values of earlier fetches, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let columns = self.results.values().filter_map(|computed| computed.column.as_ref().ok());
        let results: usize = columns.map(bytes).sum();
        self.context.history_bytes() + self.sampled.history_bytes() + results
    }
}

/// A definition on its way to a client's values, with all that takes. Taken out of the state, which operands are read
/// from meanwhile.
pub(crate) struct Computation {
    /// The engine's PMID.
    pub definition: Pmid,
    pub registry: Arc<Registry>,
    pub catalogue: Arc<Catalogue>,
    pub session: Box<Session>,
    /// What the agent's own history has for it.
    pub shared: Option<Arc<Column>>,
    /// For one that is computed from samples: the newest, or why there is none.
    pub snapshot: Option<Result<Arc<Snapshot>, PmError>>,
}

impl Computation {
    /// Writes the values.
    ///
    /// # Errors
    /// The error of the value set.
    pub(crate) fn write<S>(
        &mut self,
        own: &mut OwnMetrics<'_, S>,
        call: &Call<'_>,
        values: &mut SetWriter<'_>,
    ) -> Result<(), PmError> {
        let definition = (self.definition, &*self.registry, &*self.catalogue);
        match &self.snapshot {
            None => self.session.write(definition, self.shared.as_deref(), own, call, values),
            Some(Ok(snapshot)) => self.session.write_sampled(definition, snapshot, own, call, values),
            Some(Err(error)) => Err(*error),
        }
    }
}

/// Writes the values that the client wants.
fn write(column: &Column, values: &mut SetWriter<'_>) {
    // The common case: all instances at once. What has no room at once may have some of it.
    if values.wants_all()
        && let Some(numbers) = column.values.numbers()
        && values.numbers(&column.ids, numbers).is_ok()
    {
        return;
    }
    for (at, &inst) in column.ids.iter().enumerate() {
        // A singular value has no instance that a profile could leave out.
        if (inst == PM_IN_NULL || values.wants(inst))
            && let Some(value) = column.values.get(at)
        {
            // What cannot be sent is noted as the instance's error.
            let _ = values.value(inst, &value);
        }
    }
}

/// Memory of a column's values.
pub(super) fn bytes(column: &Column) -> usize {
    let values = match &column.values {
        Values::I32(values) => 4 * values.len(),
        Values::U32(values) => 4 * values.len(),
        Values::Float(values) => 4 * values.len(),
        Values::I64(values) => 8 * values.len(),
        Values::U64(values) => 8 * values.len(),
        Values::Double(values) => 8 * values.len(),
        Values::Other(values) => values
            .iter()
            .map(|value| {
                size_of::<Value>()
                    + match value {
                        Value::String(text) => text.len(),
                        Value::Aggregate(bytes) => bytes.len(),
                        _ => 0,
                    }
            })
            .sum(),
    };
    values + 4 * column.len()
}

//! Evaluation: bound definitions of a context, compiled into steps over columns.
//!
//! Every node of every definition gets a slot: an operation and the column it fills. Nodes without a
//! memory that compute the same from the same slots share one, across definitions, and are computed
//! once a fetch. Nodes with a memory (`delta`, `rate`, `max`, `min`, filters, windows) are never
//! shared, as each occurrence has its own history. Cost of a step: its loop over the instances; no
//! allocation once columns have been as long before.

use std::collections::HashMap;
use std::mem;

use super::bind::{Bound, Fact};
use super::column::{Column, Values};
use super::meta::Meta;
use super::nodes::aggregate;
use super::nodes::beyond::{self, BeyondScratch};
use super::nodes::binary::{Binary, BinaryScratch, promoted};
use super::nodes::constant;
use super::nodes::filter::{self, MatchCache};
use super::nodes::history::{Argument, History, Memory};
use super::nodes::pairing::Finder;
use super::nodes::rescale;
use super::nodes::ternary::{Absent, Selection, Ternary};
use super::nodes::unary;
use super::nodes::window::Window;
use super::source::{Sample, Source};
use super::tree::{AggregateFn, BeyondFn, Kind, Matcher, NodeId, WindowFn};
use pcp_model::{Conversion, InDom, Inst, PmError, Pmid, Timestamp, Units, Value, ValueType};

type SlotId = usize;

/// What a slot computes.
#[derive(Clone, Debug)]
enum Op {
    /// Nothing yet.
    Free,
    Operand(Pmid),
    /// A metric of a type that has no values that could be taken.
    Unsupported(Pmid),
    Constant(Value),
    SetConstant(Value, InDom),
    /// A constant whose type has no numbers.
    BadConstant,
    /// No values, ever.
    Empty,
    Negate(SlotId),
    Not(SlotId),
    Binary(Binary, SlotId, SlotId),
    Ternary(Ternary, [SlotId; 3]),
    /// A ternary whose guard is known: the side's values, if the guard has any.
    Guarded(SlotId, SlotId),
    Count(SlotId),
    SumOrAvg(AggregateFn, SlotId),
    MaxOrMin(AggregateFn, SlotId),
    Scalar(SlotId),
    Rescale(Conversion, SlotId),
    Beyond(BeyondFn, SlotId),
    History(History, Box<Memory>, SlotId),
    Instance(Box<str>, InDom, Option<Inst>, SlotId),
    Match(Box<Matcher>, InDom, Box<MatchCache>, SlotId),
    Window(WindowFn, u64, Box<Window>, SlotId),
}

/// What makes two nodes without a memory the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Operand(Pmid, ValueType),
    Constant(ValueType, u64),
    SetConstant(ValueType, u64, InDom),
    Empty(ValueType),
    Negate(SlotId),
    Not(SlotId),
    Binary(Binary, SlotId, SlotId),
    Ternary(Ternary, [SlotId; 3]),
    Guarded(SlotId, SlotId),
    Count(SlotId),
    SumOrAvg(AggregateFn, SlotId),
    Scalar(SlotId),
    Rescale(Units, Units, SlotId),
}

#[derive(Clone, Debug)]
struct Slot {
    op: Op,
    /// Set if it is shared: why others find it.
    key: Option<Key>,
    /// How many nodes use it.
    users: usize,
    /// The fetch it was computed in.
    fetch: u64,
    error: Option<PmError>,
    column: Column,
}

/// A step of a definition's evaluation.
#[derive(Clone, Copy, Debug)]
struct Step {
    slot: SlotId,
    /// The node that remembers an error of this operand.
    remembers: Option<SlotId>,
    /// Whether an error here does not end the evaluation (below `count`).
    tolerated: bool,
}

/// A definition, compiled.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    steps: Vec<Step>,
    result: SlotId,
    /// One entry a node that uses a slot, for giving them back.
    used: Vec<SlotId>,
}

/// All slots of a context.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    slots: Vec<Slot>,
    free: Vec<SlotId>,
    known: HashMap<Key, SlotId>,
    fetch: u64,
    binary: BinaryScratch,
    beyond: BeyondScratch,
    finder: Finder,
}

/// Where the values of a fetch come from.
pub(super) struct Fetch<'a> {
    pub time: Timestamp,
    pub sample: &'a mut dyn Sample,
    pub source: &'a mut dyn Source,
}

impl Machine {
    /// Compiles a bound definition.
    pub fn compile(&mut self, bound: &Bound) -> Plan {
        let mut compiler =
            Compiler { machine: self, bound, slots: Vec::new(), steps: Vec::new(), used: Vec::new() };
        compiler.run();
        let Compiler { slots, steps, used, .. } = compiler;
        // A definition has at least one node, its root last, and the root is always active.
        Plan { steps, result: slots.last().copied().flatten().unwrap_or(0), used }
    }

    /// Gives back the slots of a definition, history included.
    pub fn release(&mut self, plan: Plan) {
        for id in plan.used {
            let Some(slot) = self.slots.get_mut(id) else {
                continue;
            };
            slot.users -= 1;
            if slot.users == 0 {
                if let Some(key) = slot.key.take() {
                    self.known.remove(&key);
                }
                slot.op = Op::Free;
                slot.column = Column::new(ValueType::Unknown);
                self.free.push(id);
            }
        }
    }

    /// A new fetch begins: shared values are computed afresh.
    pub fn begin(&mut self) {
        self.fetch += 1;
    }

    /// Evaluates a definition with the values of this fetch.
    ///
    /// # Errors
    /// The error that the definition's value set has.
    pub fn evaluate(&mut self, plan: &Plan, fetch: &mut Fetch<'_>) -> Result<&Column, PmError> {
        for step in &plan.steps {
            let error = self.ensure(step.slot, fetch);
            if let Some(error) = error.filter(|_| !step.tolerated) {
                if let Some(Slot { op: Op::History(_, memory, _), .. }) =
                    step.remembers.and_then(|id| self.slots.get_mut(id))
                {
                    memory.remember_error(error);
                }
                return Err(error);
            }
        }
        self.slots.get(plan.result).map(|slot| &slot.column).ok_or(PmError::BADDERIVE)
    }

    /// Bytes that nodes with a memory hold for values of earlier fetches.
    pub fn history_bytes(&self) -> usize {
        let bytes = |slot: &Slot| match &slot.op {
            Op::History(_, memory, _) => memory.bytes(),
            _ => 0,
        };
        self.slots.iter().map(bytes).sum()
    }

    /// Computes a slot, unless it has been in this fetch.
    fn ensure(&mut self, id: SlotId, fetch: &mut Fetch<'_>) -> Option<PmError> {
        let slot = self.slots.get_mut(id)?;
        if slot.key.is_some() && slot.fetch == self.fetch {
            return slot.error;
        }
        slot.fetch = self.fetch;
        // Out of its place while it reads others: no slot reads itself.
        let mut op = mem::replace(&mut slot.op, Op::Free);
        let mut out =
            mem::replace(&mut slot.column, Column { ids: Vec::new(), values: Values::Other(Vec::new()) });
        let error = self.compute(&mut op, &mut out, fetch).err();
        if error.is_some() {
            out.clear();
        }
        let slot = self.slots.get_mut(id)?;
        (slot.op, slot.column, slot.error) = (op, out, error);
        error
    }

    fn compute(&mut self, op: &mut Op, out: &mut Column, fetch: &mut Fetch<'_>) -> Result<(), PmError> {
        // Slots are made before the slots that use them, by `compile` alone.
        let slots = &self.slots;
        let at = |id: SlotId| &slots[id].column;
        match op {
            Op::Free | Op::Empty => {}
            Op::Operand(pmid) => {
                out.clear();
                fetch.sample.operand(*pmid, out)?;
            }
            Op::Unsupported(pmid) => {
                // The source's own error stands; only that there is a value counts, not what it is.
                let mut words = Column::new(ValueType::U32);
                fetch.sample.operand(*pmid, &mut words)?;
                if !words.is_empty() {
                    return Err(PmError::TYPE);
                }
            }
            Op::Constant(value) => {
                if out.is_empty() {
                    constant::fill(value, out);
                }
            }
            Op::SetConstant(value, indom) => {
                out.clear();
                fetch.source.instances(*indom, &mut out.ids)?;
                constant::fill_set(value, out);
            }
            Op::BadConstant => return Err(PmError::TYPE),
            Op::Negate(x) => unary::negate(at(*x), out),
            Op::Not(x) => unary::not(at(*x), out),
            Op::Binary(binary, l, r) => binary.eval(at(*l), at(*r), out, &mut self.binary),
            Op::Ternary(ternary, [g, y, n]) => ternary.eval(at(*g), at(*y), at(*n), out)?,
            Op::Guarded(guard, side) => {
                out.clear();
                if !at(*guard).is_empty() {
                    if matches!(at(*side).values, Values::Other(_)) && !at(*side).is_empty() {
                        return Err(PmError::TYPE);
                    }
                    out.copy_from(at(*side));
                }
            }
            Op::Count(x) => aggregate::count(slots[*x].error.is_none().then(|| at(*x)), out),
            Op::SumOrAvg(function, x) => aggregate::sum_or_avg(*function, at(*x), out),
            Op::MaxOrMin(function, x) => aggregate::max_or_min(*function, at(*x), out),
            Op::Scalar(x) => aggregate::scalar(at(*x), out),
            Op::Rescale(conversion, x) => rescale::rescale(conversion, at(*x), out),
            Op::Beyond(function, x) => beyond::eval(*function, at(*x), out, &mut self.beyond),
            Op::History(node, memory, x) => {
                let failed = node.argument == Argument::Count && failed_count(slots, *x);
                memory.eval(node, at(*x), failed, fetch.time, &mut self.finder, out)?;
            }
            Op::Instance(name, indom, found, x) => {
                filter::instance(at(*x), *indom, name, found, fetch.source, out);
            }
            Op::Match(matcher, indom, cache, x) => cache.eval(at(*x), *indom, matcher, fetch.source, out),
            Op::Window(function, length, window, x) => {
                window.eval(*function, *length, at(*x), fetch.time, &mut self.finder, out);
            }
        }
        Ok(())
    }
}

/// Whether a `count` made a zero of an error.
fn failed_count(slots: &[Slot], count: SlotId) -> bool {
    match slots.get(count) {
        Some(Slot { op: Op::Count(x), .. }) => slots.get(*x).is_some_and(|slot| slot.error.is_some()),
        _ => false,
    }
}

struct Compiler<'a> {
    machine: &'a mut Machine,
    bound: &'a Bound,
    /// The slot of each node; none for those that are not evaluated.
    slots: Vec<Option<SlotId>>,
    steps: Vec<Step>,
    used: Vec<SlotId>,
}

impl Compiler<'_> {
    fn run(&mut self) {
        let bound = self.bound;
        for (id, _) in bound.tree.iter() {
            let slot = bound.node(id).active.then(|| self.node(id));
            self.slots.push(slot);
        }
    }

    /// The slot of a node that has been compiled, being an operand of one that is active.
    fn slot(&self, id: NodeId) -> SlotId {
        self.slots.get(id.index()).copied().flatten().unwrap_or(0)
    }

    fn meta(&self, id: NodeId) -> Meta {
        self.bound.node(id).meta
    }

    fn node(&mut self, id: NodeId) -> SlotId {
        let (op, key) = match self.operation(id) {
            Ok(operation) => operation,
            // The node is what its operand is.
            Err(operand) => return operand,
        };
        let slot = self.make(op, key, self.meta(id).value_type);
        self.steps.push(Step { slot, remembers: None, tolerated: false });
        match *self.bound.tree.kind(id) {
            Kind::Delta(x) | Kind::Rate(x) => self.remember(x, slot),
            Kind::Aggregate(AggregateFn::Count, x) => self.tolerate(x),
            _ => {}
        }
        slot
    }

    /// An error that `x` itself has, not one below it, is to be remembered by a node.
    fn remember(&mut self, x: NodeId, by: SlotId) {
        let operand = self.slot(x);
        // The operand's step is the last one of that slot.
        if let Some(step) = self.steps.iter_mut().rev().find(|step| step.slot == operand) {
            step.remembers = Some(by);
        }
    }

    fn tolerate(&mut self, x: NodeId) {
        if matches!(self.bound.tree.kind(x), Kind::Metric(_)) {
            let operand = self.slot(x);
            if let Some(step) = self.steps.iter_mut().rev().find(|step| step.slot == operand) {
                step.tolerated = true;
            }
        }
    }

    fn make(&mut self, op: Op, key: Option<Key>, value_type: ValueType) -> SlotId {
        let known = key.as_ref().and_then(|key| self.machine.known.get(key).copied());
        let id = match known {
            Some(id) => {
                if let Some(slot) = self.machine.slots.get_mut(id) {
                    slot.users += 1;
                }
                id
            }
            None => {
                let column = Column::new(value_type);
                let slot = Slot { op, key: key.clone(), users: 1, fetch: 0, error: None, column };
                let id = match self.machine.free.pop() {
                    Some(id) => {
                        self.machine.slots[id] = slot;
                        id
                    }
                    None => {
                        self.machine.slots.push(slot);
                        self.machine.slots.len() - 1
                    }
                };
                if let Some(key) = key {
                    self.machine.known.insert(key, id);
                }
                id
            }
        };
        self.used.push(id);
        id
    }

    /// A key, if all operands are shared themselves.
    fn shared<const N: usize>(
        &self,
        operands: [SlotId; N],
        key: impl FnOnce([SlotId; N]) -> Key,
    ) -> Option<Key> {
        let shared = operands.iter().all(|&id| self.machine.slots.get(id).is_some_and(|s| s.key.is_some()));
        shared.then(|| key(operands))
    }

    /// What kind of argument a `delta` or `rate` has. `instant` passes its own argument on.
    fn argument(&self, mut x: NodeId) -> Argument {
        let mut passed_on = false;
        while let &Kind::Instant(inner) = self.bound.tree.kind(x) {
            (x, passed_on) = (inner, true);
        }
        match *self.bound.tree.kind(x) {
            Kind::Aggregate(AggregateFn::Count, _) => Argument::Count,
            Kind::Defined(_) | Kind::Anon(_) | Kind::Instance(..) if !passed_on => Argument::Forgetful,
            _ => Argument::Expression,
        }
    }

    /// The operation of a node and its key; or the slot of the operand that the node passes on.
    fn operation(&self, id: NodeId) -> Result<(Op, Option<Key>), SlotId> {
        let bound = self.bound.node(id);
        let value_type = bound.meta.value_type;
        Ok(match self.bound.tree.kind(id) {
            Kind::Metric(_) => match bound.fact {
                Fact::Operand(pmid) => {
                    let unsupported = matches!(value_type, ValueType::NoSupport | ValueType::Unknown);
                    let op = if unsupported { Op::Unsupported(pmid) } else { Op::Operand(pmid) };
                    (op, Some(Key::Operand(pmid, value_type)))
                }
                _ => (Op::Empty, Some(Key::Empty(value_type))),
            },
            Kind::Constant(number) => match constant::value(number, value_type) {
                None => (Op::BadConstant, None),
                Some(value) => {
                    let bits = bits(&value);
                    match bound.meta.indom {
                        InDom::NULL => (Op::Constant(value), Some(Key::Constant(value_type, bits))),
                        indom => {
                            (Op::SetConstant(value, indom), Some(Key::SetConstant(value_type, bits, indom)))
                        }
                    }
                }
            },
            Kind::NoValue(_) | Kind::Anon(_) => (Op::Empty, Some(Key::Empty(value_type))),
            Kind::Defined(_) => {
                let value = u32::from(bound.fact == Fact::Defined(true));
                (Op::Constant(Value::U32(value)), Some(Key::Constant(value_type, value.into())))
            }
            &Kind::Negate(x) => {
                let x = self.slot(x);
                (Op::Negate(x), self.shared([x], |[x]| Key::Negate(x)))
            }
            &Kind::Not(x) => {
                let x = self.slot(x);
                (Op::Not(x), self.shared([x], |[x]| Key::Not(x)))
            }
            &Kind::Binary { op, left, right } => {
                let (l, r) = (self.meta(left), self.meta(right));
                let operand_type =
                    if op.is_arithmetic() { value_type } else { promoted(l.value_type, r.value_type) };
                let scaling = match bound.fact {
                    Fact::Scaled(scaling) => scaling,
                    _ => super::nodes::binary::Scaling::NONE,
                };
                let (left_is_set, right_is_set) = (l.is_set(), r.is_set());
                let binary = Binary { op, scaling, operand_type, left_is_set, right_is_set };
                let (l, r) = (self.slot(left), self.slot(right));
                (Op::Binary(binary, l, r), self.shared([l, r], |[l, r]| Key::Binary(binary, l, r)))
            }
            &Kind::Ternary { guard, yes, no } => {
                let selection = match bound.fact {
                    Fact::Guard(selection) => selection,
                    _ => None,
                };
                if let Some(selection) = selection {
                    let side = self.slot(if selection == Selection::Yes { yes } else { no });
                    let guard = self.slot(guard);
                    return Ok((
                        Op::Guarded(guard, side),
                        self.shared([guard, side], |[guard, side]| Key::Guarded(guard, side)),
                    ));
                }
                let is_absent = |id| {
                    matches!(self.bound.tree.kind(id), Kind::NoValue(_))
                        || self.bound.node(id).fact == Fact::NoValue
                };
                let absent = match (is_absent(yes), is_absent(no)) {
                    (true, _) => Absent::Yes,
                    (_, true) => Absent::No,
                    _ => Absent::None,
                };
                let ids_of_no = !self.meta(yes).is_set() && self.meta(no).is_set();
                let ternary = Ternary { absent, ids_of_no };
                let operands = [self.slot(guard), self.slot(yes), self.slot(no)];
                (
                    Op::Ternary(ternary, operands),
                    self.shared(operands, |operands| Key::Ternary(ternary, operands)),
                )
            }
            &Kind::Aggregate(function, x) => {
                let x = self.slot(x);
                match function {
                    AggregateFn::Count => (Op::Count(x), self.shared([x], |[x]| Key::Count(x))),
                    AggregateFn::Max | AggregateFn::Min => (Op::MaxOrMin(function, x), None),
                    AggregateFn::Avg | AggregateFn::Sum => {
                        (Op::SumOrAvg(function, x), self.shared([x], |[x]| Key::SumOrAvg(function, x)))
                    }
                }
            }
            &(Kind::Delta(x) | Kind::Rate(x)) => {
                let rate = matches!(self.bound.tree.kind(id), Kind::Rate(_));
                let meta = self.meta(x);
                let node = History::new(rate, self.argument(x), meta, self.bound.level);
                (Op::History(node, Box::new(Memory::new(meta.value_type)), self.slot(x)), None)
            }
            &Kind::Instant(x) => return Err(self.slot(x)),
            &Kind::Scalar(x) => {
                let x = self.slot(x);
                (Op::Scalar(x), self.shared([x], |[x]| Key::Scalar(x)))
            }
            Kind::Instance(name, x) => {
                (Op::Instance(name.clone(), self.meta(*x).indom, None, self.slot(*x)), None)
            }
            Kind::Match(matcher, x) => {
                let cache = Box::<MatchCache>::default();
                (Op::Match(matcher.clone(), self.meta(*x).indom, cache, self.slot(*x)), None)
            }
            &Kind::Rescale(units, x) => {
                let from = self.meta(x).units;
                let x = self.slot(x);
                match bound.fact {
                    Fact::Conversion(conversion) => {
                        let key = self.shared([x], |[x]| Key::Rescale(from, units, x));
                        (Op::Rescale(conversion, x), key)
                    }
                    // Bound nodes of this kind always have a conversion.
                    _ => return Err(x),
                }
            }
            &Kind::Beyond(BeyondFn::Window { function, length }, x) => {
                (Op::Window(function, length, Box::default(), self.slot(x)), None)
            }
            &Kind::Beyond(function, x) => (Op::Beyond(function, self.slot(x)), None),
        })
    }
}

fn bits(value: &Value) -> u64 {
    match *value {
        Value::I32(v) => u64::from(v as u32),
        Value::U32(v) => v.into(),
        Value::I64(v) => v as u64,
        Value::U64(v) => v,
        Value::Float(v) => v.to_bits().into(),
        Value::Double(v) => v.to_bits(),
        _ => 0,
    }
}

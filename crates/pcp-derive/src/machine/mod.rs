//! Evaluation: bound definitions of a context, compiled into instructions over columns.
//!
//! Every node of every definition gets a slot: an operation and the column it fills. Nodes without a
//! memory that compute the same from the same slots share one, across definitions, and are computed
//! once a fetch. Nodes with a memory (`delta`, `rate`, `max`, `min`, filters, windows) are never
//! shared, as each occurrence has its own history. Cost of an instruction: its loop over the instances; no
//! allocation once columns have been as long before.
//!
//! A slot's column goes back to the [`pool`] once the only node that needs it has had it. Columns that a history holds are
//! not written to again: the slot gets another one.

mod compile;
pub(crate) mod lists;
pub(crate) mod pool;

use std::collections::HashSet;
use std::sync::Arc;

use hashbrown::HashMap;

use self::lists::Lists;
use self::pool::Pool;
use crate::bind::Bound;
use crate::column::{Column, Values};
use crate::debug;
use crate::functions::{Call, Evaluate, Evaluation, Ordering};
use crate::meta::Meta;
use crate::nodes::binary::{Binary, BinaryScratch};
use crate::nodes::constant::{self, Literal};
use crate::nodes::pairing::Finder;
use crate::nodes::ternary::Ternary;
use crate::nodes::unary;
use crate::source::{MetricSource, OperandValues};
use pcp_model::{InDom, PmError, Pmid, Timestamp, ValueType};

type SlotId = usize;

/// What a slot computes. Slots without a memory are found by it: where it is the same, values are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Operation {
    /// A metric's values, as values of a type.
    Operand(Pmid, ValueType),
    /// A number: one value, or one for each instance of a domain.
    Constant(Literal, InDom),
    /// A constant whose type has no numbers.
    BadConstant,
    /// No values, ever, of a type.
    Empty(ValueType),
    Negate(SlotId),
    Not(SlotId),
    Binary(Binary, SlotId, SlotId),
    Ternary(Ternary, [SlotId; 3]),
    /// A ternary whose guard is known: the side's values, if the guard has any.
    Guarded(SlotId, SlotId),
    /// A function of an operand that has this metadata; the slot's evaluator computes it.
    Call(Call, Meta, SlotId),
    /// `x[instance]`; the slot's evaluator computes it.
    Instance(SlotId),
}

#[derive(Debug)]
struct Slot {
    /// `None` while nothing uses it.
    operation: Option<Operation>,
    /// Of calls and filters.
    evaluator: Option<Box<dyn Evaluate>>,
    /// Whether others find it by its operation.
    shared: bool,
    /// How many nodes use it.
    users: usize,
    /// The fetch it was computed in.
    fetch: u64,
    error: Option<PmError>,
    /// Whether its values stand for an error of its operand.
    recovered: bool,
    keeps: Keeps,
    value_type: ValueType,
    /// How many values it had last.
    len: usize,
    /// Its values, while somebody may need them.
    column: Option<Arc<Column>>,
}

/// What a slot has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// Its column is anybody's once it was needed.
    Nothing,
    /// Its column, until the next fetch.
    Column,
    /// The values in it, from which it goes on.
    Values,
}

impl Slot {
    /// Its column, once nobody needs it any more: only one node uses the slot, and has had it.
    fn spent(&mut self) -> Option<Arc<Column>> {
        if self.keeps != Keeps::Nothing || self.users != 1 {
            return None;
        }
        // Asked again in this fetch it is computed again, of the same operands.
        self.fetch = 0;
        self.column.take()
    }
}

impl Operation {
    /// What it computes, with slots by their numbers.
    fn in_words(&self) -> String {
        match self {
            Operation::Operand(pmid, _) => format!("metric {pmid}"),
            Operation::Constant(..) | Operation::BadConstant => "constant".to_owned(),
            Operation::Empty(_) => "no values".to_owned(),
            Operation::Negate(x) => format!("- node {x}"),
            Operation::Not(x) => format!("! node {x}"),
            Operation::Binary(binary, l, r) => format!("node {l} {} node {r}", binary.op.symbol()),
            Operation::Ternary(_, [guard, yes, no]) => format!("node {guard} ? node {yes} : node {no}"),
            Operation::Guarded(guard, side) => format!("node {side}, if node {guard} has values"),
            Operation::Call(call, _, x) => format!("{}(node {x})", call.word()),
            Operation::Instance(x) => format!("instances of node {x}"),
        }
    }

    fn operands(&self) -> impl Iterator<Item = SlotId> + use<> {
        let operands = match *self {
            Operation::Operand(..)
            | Operation::Constant(..)
            | Operation::BadConstant
            | Operation::Empty(_) => [None; 3],
            Operation::Negate(x) | Operation::Not(x) | Operation::Call(_, _, x) | Operation::Instance(x) => {
                [Some(x), None, None]
            }
            Operation::Binary(_, l, r) | Operation::Guarded(l, r) => [Some(l), Some(r), None],
            Operation::Ternary(_, operands) => operands.map(Some),
        };
        operands.into_iter().flatten()
    }
}

/// A part of a definition's evaluation: have a slot computed.
#[derive(Clone, Copy, Debug)]
struct Instruction {
    slot: SlotId,
    /// The slot that learns of an error here.
    remembers: Option<SlotId>,
    /// Whether an error here does not end the evaluation (below `count`).
    tolerated: bool,
}

/// A definition, compiled.
#[derive(Clone, Debug)]
pub(super) struct Program {
    instructions: Vec<Instruction>,
    /// `None` for a definition that breaks an invariant of binding: it has no values then.
    result: Option<SlotId>,
    /// One entry a node that uses a slot, for giving them back.
    used: Vec<SlotId>,
}

/// The column of what was not computed.
static NO_VALUES: Column = Column::NONE;

/// All slots of a context.
#[derive(Debug, Default)]
pub(super) struct Machine {
    slots: Vec<Slot>,
    free: Vec<SlotId>,
    known: HashMap<Operation, SlotId>,
    fetch: u64,
    /// The result that was given out last.
    given: Option<SlotId>,
    pool: Pool,
    lists: Lists,
    binary: BinaryScratch,
    ordering: Ordering,
    finder: Finder,
}

/// Where the values of a fetch come from.
pub(super) struct Fetch<'a> {
    pub time: Timestamp,
    pub values: &'a mut dyn OperandValues,
    pub source: &'a mut dyn MetricSource,
}

impl Machine {
    /// Compiles a bound definition.
    pub(crate) fn compile(&mut self, bound: &Bound) -> Program {
        compile::compile(self, bound)
    }

    /// Gives back the slots of a definition, history included.
    pub(crate) fn release(&mut self, program: Program) {
        for id in program.used {
            let Some(slot) = self.slots.get_mut(id) else {
                debug_assert!(false, "slots are never taken away");
                continue;
            };
            slot.users -= 1;
            if slot.users == 0 {
                if let Some(operation) = slot.operation.take().filter(|_| slot.shared) {
                    self.known.remove(&operation);
                }
                slot.evaluator = None;
                slot.column = None;
                self.free.push(id);
            }
        }
    }

    /// A new fetch begins: shared values are computed afresh.
    pub(crate) fn begin(&mut self) {
        self.fetch += 1;
        self.pool.begin();
    }

    /// Evaluates a definition with the values of this fetch.
    ///
    /// # Errors
    /// The error that the definition's value set has.
    pub(crate) fn evaluate(&mut self, program: &Program, fetch: &mut Fetch<'_>) -> Result<&Column, PmError> {
        if let Some(given) = self.given.take() {
            self.recycle(given);
        }
        for instruction in &program.instructions {
            let error = self.ensure(instruction.slot, fetch);
            if debug::shows_values() {
                self.show(instruction.slot, error);
            }
            // The first error ends it, as in PCP: what comes later keeps the history it has, without this fetch.
            if let Some(error) = error.filter(|_| !instruction.tolerated) {
                let remembers = instruction.remembers.and_then(|id| self.slots.get_mut(id));
                if let Some(evaluator) = remembers.and_then(|slot| slot.evaluator.as_mut()) {
                    evaluator.operand_failed(error);
                }
                return Err(error);
            }
        }
        self.given = program.result;
        let result = program.result.and_then(|id| self.slots.get(id)?.column.as_deref());
        result.ok_or(PmError::BADDERIVE)
    }

    /// What a slot has computed, for who looks for a fault. Its operands have gone back to the pool.
    fn show(&self, id: SlotId, error: Option<PmError>) {
        let Some(slot) = self.slots.get(id) else { return };
        let what = slot.operation.as_ref().map_or_else(String::new, Operation::in_words);
        debug::computed(id, &what, slot.column.as_deref(), error);
    }

    /// Bytes that nodes with a memory hold for values of earlier fetches.
    pub(crate) fn history_bytes(&self) -> usize {
        let evaluators = || self.slots.iter().filter_map(|slot| slot.evaluator.as_ref());
        let mut seen = HashSet::new();
        let histories = evaluators().filter_map(|node| node.history());
        let shared: usize =
            histories.filter(|column| seen.insert(Arc::as_ptr(column))).map(|c| c.capacity_bytes()).sum();
        shared + evaluators().map(|node| node.history_bytes()).sum::<usize>()
    }

    /// Lets a slot's column be used again, if nobody needs it.
    fn recycle(&mut self, id: SlotId) {
        if let Some(column) = self.slots.get_mut(id).and_then(Slot::spent) {
            self.pool.give(column);
        }
    }

    /// A column that a slot can write to: its own, unless a history holds that.
    fn writable(&mut self, id: SlotId) -> Option<Arc<Column>> {
        let slot = self.slots.get_mut(id)?;
        let mut own = slot.column.take();
        if own.as_mut().and_then(Arc::get_mut).is_some() {
            return own;
        }
        let mut other = self.pool.take(slot.value_type, slot.len);
        if slot.keeps == Keeps::Values
            && let Some(column) = Arc::get_mut(&mut other)
        {
            column.copy_from(own.as_deref().unwrap_or(&Column::new(slot.value_type)));
        }
        Some(other)
    }

    /// Computes a slot, unless it has been in this fetch.
    fn ensure(&mut self, id: SlotId, fetch: &mut Fetch<'_>) -> Option<PmError> {
        let slot = self.slots.get_mut(id)?;
        // What has a memory is computed as often as it is asked for: each time advances its history, as in PCP.
        if slot.shared && slot.fetch == self.fetch {
            return slot.error;
        }
        slot.fetch = self.fetch;
        // Out of their place while others are read: no slot reads itself.
        let mut evaluator = slot.evaluator.take();
        let mut column = self.writable(id)?;
        let Some(out) = Arc::get_mut(&mut column) else {
            debug_assert!(false, "a column that can be written to is nobody else's");
            return Some(PmError::BADDERIVE);
        };
        let computed = self.compute(id, evaluator.as_deref_mut(), out, fetch);
        if computed.is_err() {
            // Whoever tolerates the error finds no values, not those of the last fetch.
            out.clear();
        }
        let len = out.len();
        let slot = self.slots.get_mut(id)?;
        (slot.evaluator, slot.column, slot.len) = (evaluator, Some(column), len);
        slot.error = computed.err();
        slot.recovered = computed.unwrap_or(false);
        let error = slot.error;
        let operands = slot.operation.as_ref().map(Operation::operands);
        for operand in operands.into_iter().flatten() {
            self.recycle(operand);
        }
        error
    }

    /// Fills a slot's column; whether the values stand for an error.
    fn compute(
        &mut self,
        id: SlotId,
        evaluator: Option<&mut (dyn Evaluate + 'static)>,
        out: &mut Column,
        fetch: &mut Fetch<'_>,
    ) -> Result<bool, PmError> {
        // Slots are made before the slots that use them, by the compiler alone.
        let slots = &self.slots;
        let at = |id: SlotId| slots[id].column.as_deref().unwrap_or(&NO_VALUES);
        match &slots[id].operation {
            None | Some(Operation::Empty(_)) => out.clear(),
            &Some(Operation::Operand(pmid, value_type)) => {
                operand(pmid, value_type, fetch, out)?;
                self.lists.number(out);
            }
            &Some(Operation::Constant(literal, InDom::NULL)) => {
                // It stays what it is once it is there.
                if out.is_empty() {
                    constant::fill(&literal.value(), out);
                }
            }
            &Some(Operation::Constant(literal, indom)) => {
                out.clear();
                fetch.source.instances(indom, &mut out.ids)?;
                constant::fill_set(&literal.value(), out);
            }
            Some(Operation::BadConstant) => return Err(PmError::TYPE),
            &Some(Operation::Negate(x)) => unary::negate(at(x), out),
            &Some(Operation::Not(x)) => unary::not(at(x), out),
            Some(Operation::Binary(binary, l, r)) => binary.eval(at(*l), at(*r), out, &mut self.binary),
            Some(Operation::Ternary(ternary, [g, y, n])) => ternary.eval(at(*g), at(*y), at(*n), out)?,
            &Some(Operation::Guarded(guard, side)) => guarded(at(guard), at(side), out)?,
            &Some(Operation::Call(_, _, x) | Operation::Instance(x)) => {
                let (Some(evaluator), Some(operand)) = (evaluator, &slots[x].column) else {
                    debug_assert!(false, "calls and filters have evaluators, and operands were computed");
                    return Err(PmError::BADDERIVE);
                };
                let mut evaluation = Evaluation {
                    time: fetch.time,
                    source: fetch.source,
                    operand,
                    pool: &mut self.pool,
                    finder: &mut self.finder,
                    ordering: &mut self.ordering,
                    operand_error: slots[x].error,
                    operand_recovered: slots[x].recovered,
                    recovered: false,
                };
                evaluator.eval(operand, out, &mut evaluation)?;
                return Ok(evaluation.recovered);
            }
        }
        Ok(false)
    }
}

/// The values of a metric.
fn operand(
    pmid: Pmid,
    value_type: ValueType,
    fetch: &mut Fetch<'_>,
    out: &mut Column,
) -> Result<(), PmError> {
    out.clear();
    if !matches!(value_type, ValueType::NoSupport | ValueType::Unknown) {
        return fetch.values.operand(pmid, out);
    }
    // Nothing can be taken of such a type. The source's own error stands; else only that there is a value
    // counts, not what it is.
    let mut words = Column::new(ValueType::U32);
    fetch.values.operand(pmid, &mut words)?;
    if words.is_empty() { Ok(()) } else { Err(PmError::TYPE) }
}

/// The side of a ternary that is known to be selected.
fn guarded(guard: &Column, side: &Column, out: &mut Column) -> Result<(), PmError> {
    out.clear();
    if guard.is_empty() {
        return Ok(());
    }
    if matches!(side.values, Values::Other(_)) && !side.is_empty() {
        return Err(PmError::TYPE);
    }
    out.copy_from(side);
    Ok(())
}

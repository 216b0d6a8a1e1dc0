//! Bound definitions to programs.

use super::{Instruction, Keeps, Machine, Operation, Program, Slot, SlotId};
use crate::bind::{Bound, Fact};
use crate::functions::{Call, CallNode, Evaluate, OnError};
use crate::meta::Meta;
use crate::nodes::binary::{Binary, Scaling, promoted};
use crate::nodes::constant::{self, Literal};
use crate::nodes::instance::InstanceFilter;
use crate::nodes::ternary::{Absent, Selection, Ternary};
use crate::tree::{BinaryOp, Constant, Kind, NodeId};
use pcp_model::{Value, ValueType};

/// Compiles a bound definition into a machine's slots.
pub(super) fn compile(machine: &mut Machine, bound: &Bound) -> Program {
    let mut compiler = Compiler {
        machine,
        bound,
        nodes: Vec::with_capacity(bound.nodes.len()),
        instructions: Vec::with_capacity(bound.nodes.len()),
        used: Vec::with_capacity(bound.nodes.len()),
    };
    let result = compiler.run();
    debug_assert!(result.is_some(), "active nodes have active operands, and the root is active");
    let Compiler { instructions, used, .. } = compiler;
    Program { instructions, result, used }
}

/// A node that has been compiled.
#[derive(Clone, Copy)]
struct Compiled {
    slot: SlotId,
    /// The node whose values they are: another one if calls only pass them on.
    origin: NodeId,
}

struct Compiler<'a> {
    machine: &'a mut Machine,
    bound: &'a Bound,
    /// Nothing for nodes that are not evaluated.
    nodes: Vec<Option<Compiled>>,
    instructions: Vec<Instruction>,
    used: Vec<SlotId>,
}

impl Compiler<'_> {
    /// Compiles all nodes, operands before operators; the slot of the root, which comes last.
    fn run(&mut self) -> Option<SlotId> {
        let bound = self.bound;
        for (id, _) in bound.tree.iter() {
            // What is on the side of a ternary that never counts has no values that anybody could ask for.
            let compiled = match bound.node(id).active {
                true => Some(self.node(id)?),
                false => None,
            };
            self.nodes.push(compiled);
        }
        Some(self.nodes.last().copied().flatten()?.slot)
    }

    /// An operand of a node that is active, so that it has been compiled.
    fn compiled(&self, id: NodeId) -> Option<Compiled> {
        let compiled = self.nodes.get(id.index()).copied().flatten();
        debug_assert!(compiled.is_some(), "active nodes have active operands");
        compiled
    }

    fn slot(&self, id: NodeId) -> Option<SlotId> {
        Some(self.compiled(id)?.slot)
    }

    fn meta(&self, id: NodeId) -> Meta {
        self.bound.node(id).meta
    }

    fn node(&mut self, id: NodeId) -> Option<Compiled> {
        let bound = self.bound;
        let node = bound.node(id);
        let operation = match bound.tree.kind(id) {
            Kind::Metric(_) => match node.fact {
                Fact::Operand(pmid) => Operation::Operand(pmid, node.meta.value_type),
                _ => Operation::Empty(node.meta.value_type),
            },
            Kind::Constant(number) => literal(number, node.meta),
            Kind::NoValue(_) | Kind::Anon(_) => Operation::Empty(node.meta.value_type),
            Kind::Defined(_) => {
                let value = Value::U32(u32::from(node.fact == Fact::Defined(true)));
                Operation::Constant(Literal::of(&value)?, node.meta.indom)
            }
            &Kind::Negate(x) => Operation::Negate(self.slot(x)?),
            &Kind::Not(x) => Operation::Not(self.slot(x)?),
            &Kind::Binary { op, left, right } => self.binary(id, op, left, right)?,
            &Kind::Ternary { guard, yes, no } => self.ternary(id, guard, yes, no)?,
            Kind::Instance(name, x) => {
                // Not shared, as it keeps the instance that it has found first.
                let filter = InstanceFilter::new(name, self.meta(*x).indom);
                let operation = Operation::Instance(self.slot(*x)?);
                return Some(self.add(id, operation, Some(Box::new(filter)), false));
            }
            Kind::Call(call, x) => return self.call(id, call, *x),
        };
        let shared = self.operands_are_shared(&operation);
        Some(self.add(id, operation, None, shared))
    }

    fn binary(&self, id: NodeId, op: BinaryOp, left: NodeId, right: NodeId) -> Option<Operation> {
        let node = self.bound.node(id);
        let (l, r) = (self.meta(left), self.meta(right));
        let operand_type = match op.is_arithmetic() {
            true => node.meta.value_type,
            false => promoted(l.value_type, r.value_type),
        };
        let scaling = match node.fact {
            Fact::Scaled(scaling) => scaling,
            _ => Scaling::NONE,
        };
        let binary = Binary { op, scaling, operand_type, left_is_set: l.is_set(), right_is_set: r.is_set() };
        Some(Operation::Binary(binary, self.slot(left)?, self.slot(right)?))
    }

    fn ternary(&self, id: NodeId, guard: NodeId, yes: NodeId, no: NodeId) -> Option<Operation> {
        if let Fact::Guard(Some(selection)) = self.bound.node(id).fact {
            let side = if selection == Selection::Yes { yes } else { no };
            return Some(Operation::Guarded(self.slot(guard)?, self.slot(side)?));
        }
        let is_absent = |id| {
            matches!(self.bound.tree.kind(id), Kind::NoValue(_)) || self.bound.node(id).fact == Fact::NoValue
        };
        let absent = match (is_absent(yes), is_absent(no)) {
            (true, _) => Absent::Yes,
            (_, true) => Absent::No,
            _ => Absent::None,
        };
        let ids_of_no = !self.meta(yes).is_set() && self.meta(no).is_set();
        let operands = [self.slot(guard)?, self.slot(yes)?, self.slot(no)?];
        Some(Operation::Ternary(Ternary { absent, ids_of_no }, operands))
    }

    fn call(&mut self, id: NodeId, call: &Call, x: NodeId) -> Option<Compiled> {
        let (operand, argument) = (self.compiled(x)?, self.meta(x));
        let node = CallNode {
            argument,
            origin: self.bound.tree.kind(operand.origin),
            passed_on: operand.origin != x,
            level: self.bound.level,
        };
        let Some(evaluator) = call.rules().evaluator(&node) else {
            return Some(operand);
        };
        // With the operand's metadata, as evaluators are made for it: the same slot may be a constant in units of
        // one scale here and of another there.
        let operation = Operation::Call(call.clone(), argument, operand.slot);
        let shared = !call.rules().has_memory() && self.operands_are_shared(&operation);
        let added = self.add(id, operation, Some(evaluator), shared);
        self.expect_errors(x, operand.slot, call.rules().on_error(), added.slot);
        Some(added)
    }

    /// Says what an error of a function's operand does, in the instruction that computes it.
    fn expect_errors(&mut self, x: NodeId, operand: SlotId, on_error: OnError, function: SlotId) {
        if on_error == OnError::End {
            return;
        }
        // The last one of that slot is the operand's own: other nodes that share the slot came before.
        let Some(instruction) = self.instructions.iter_mut().rev().find(|other| other.slot == operand) else {
            debug_assert!(false, "operands are computed before the functions that take them");
            return;
        };
        match on_error {
            OnError::End => {}
            OnError::Recover => instruction.tolerated = matches!(self.bound.tree.kind(x), Kind::Metric(_)),
            OnError::Remember => instruction.remembers = Some(function),
        }
    }

    /// Whether all operands are shared themselves.
    fn operands_are_shared(&self, operation: &Operation) -> bool {
        // What is made of values with a history has that history, too; and slots of one definition must not be
        // found by another's, or the first would be advanced by both.
        let shared = |id: SlotId| self.machine.slots.get(id).is_some_and(|slot| slot.shared);
        match *operation {
            Operation::Operand(..) | Operation::Constant(..) | Operation::Empty(_) => true,
            Operation::BadConstant | Operation::Instance(_) => false,
            Operation::Negate(x) | Operation::Not(x) | Operation::Call(_, _, x) => shared(x),
            Operation::Binary(_, l, r) | Operation::Guarded(l, r) => shared(l) && shared(r),
            Operation::Ternary(_, operands) => operands.into_iter().all(shared),
        }
    }

    /// Adds an instruction that computes an operation, in a slot that does already if it may be shared.
    fn add(
        &mut self,
        id: NodeId,
        operation: Operation,
        evaluator: Option<Box<dyn Evaluate>>,
        shared: bool,
    ) -> Compiled {
        let known = if shared { self.machine.known.get(&operation).copied() } else { None };
        let slot = match known {
            Some(slot) => slot,
            None => self.make(operation, evaluator, shared, self.meta(id).value_type),
        };
        match self.machine.slots.get_mut(slot) {
            Some(slot) => slot.users += 1,
            None => debug_assert!(false, "slots are never taken away"),
        }
        self.used.push(slot);
        self.instructions.push(Instruction { slot, remembers: None, tolerated: false });
        Compiled { slot, origin: id }
    }

    fn make(
        &mut self,
        operation: Operation,
        evaluator: Option<Box<dyn Evaluate>>,
        shared: bool,
        value_type: ValueType,
    ) -> SlotId {
        let key = shared.then(|| operation.clone());
        let keeps = match &operation {
            Operation::Operand(..) | Operation::BadConstant | Operation::Empty(_) => Keeps::Column,
            Operation::Constant(..) => Keeps::Values,
            Operation::Call(call, ..) if call.rules().keeps_values() => Keeps::Values,
            _ => Keeps::Nothing,
        };
        let slot = Slot {
            operation: Some(operation),
            evaluator,
            shared,
            users: 0,
            fetch: 0,
            error: None,
            recovered: false,
            keeps,
            value_type,
            len: 0,
            column: None,
        };
        let slots = &mut self.machine.slots;
        // A slot that was given back first, so that reloading definitions over and over takes no more memory.
        let free = self.machine.free.pop().and_then(|id| Some((id, slots.get_mut(id)?)));
        let id = match free {
            Some((id, free)) => {
                *free = slot;
                id
            }
            None => {
                slots.push(slot);
                slots.len() - 1
            }
        };
        if let Some(key) = key {
            self.machine.known.insert(key, id);
        }
        id
    }
}

/// A constant, if its type is one of numbers.
fn literal(number: &Constant, meta: Meta) -> Operation {
    match constant::value(number, meta.value_type).and_then(|value| Literal::of(&value)) {
        Some(literal) => Operation::Constant(literal, meta.indom),
        None => Operation::BadConstant,
    }
}

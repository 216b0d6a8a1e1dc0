//! `guard ? a : b` (`docs/pcp/derived-language.md` 8.7 and 8.12, `docs/pcp/derived-eval.md` 4.12).

use super::{BrokenRule, Rules};
use crate::column::{Column, Number, Values};
use crate::meta::Meta;
use pcp_model::{InDom, Inst, PmError};

/// Which operand a guard selects when that is known before there are values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// Always the second.
    Yes,
    /// Always the third.
    No,
}

/// Which operand is `novalue()`, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Absent {
    None,
    Yes,
    No,
}

/// The comparison of the two operands with each other.
pub(crate) fn bind_operands(a: Meta, b: Meta, rules: Rules<'_>) -> Result<(), BrokenRule> {
    if a.value_type != b.value_type {
        return Err("Different types for ternary operands");
    }
    if a.is_set() && b.is_set() && a.indom != b.indom {
        return Err("Different instance domains for ternary operands");
    }
    if a.semantics != b.semantics {
        return Err("Different semantics for ternary operands");
    }
    let (x, y) = (a.units, b.units);
    if (x.dim_space, x.scale_space) != (y.dim_space, y.scale_space) {
        return Err("Different units or scale (space) for ternary operands");
    }
    if (x.dim_time, x.scale_time) != (y.dim_time, y.scale_time) {
        return Err("Different units or scale (time) for ternary operands");
    }
    if (x.dim_count, x.scale_count) != (y.dim_count, y.scale_count) {
        return Err("Different units or scale (count) for ternary operands");
    }
    if rules.extra_units && x.extra != y.extra {
        return Err("Different units or scale (extra) for ternary operands");
    }
    Ok(())
}

/// The checks of the guard.
pub(crate) fn bind_guard(guard: Meta, a: Meta, b: Meta) -> Result<(), BrokenRule> {
    if !guard.is_numeric() {
        return Err("Non-arithmetic operand for ternary guard");
    }
    if !a.is_set() && !b.is_set() && guard.is_set() {
        return Err("Non-scalar ternary guard with scalar expressions");
    }
    Ok(())
}

/// Metadata of the result.
pub(crate) fn result(a: Meta, b: Meta, selection: Option<Selection>, absent: Absent) -> Meta {
    match (selection, absent) {
        (Some(Selection::Yes), _) => a,
        (Some(Selection::No), _) => b,
        (None, Absent::Yes) => Meta { indom: either(a, b), ..b },
        (None, _) => Meta { indom: either(a, b), ..a },
    }
}

fn either(a: Meta, b: Meta) -> InDom {
    if a.is_set() { a.indom } else { b.indom }
}

/// A bound ternary whose guard is looked at in every fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ternary {
    pub absent: Absent,
    /// Whether instances are those of the third operand.
    pub ids_of_no: bool,
}

impl Ternary {
    /// Selects by position.
    ///
    /// # Errors
    /// `PM_ERR_TYPE` for operands that are not numbers (PCP dies).
    pub(crate) fn eval(
        &self,
        guard: &Column,
        yes: &Column,
        no: &Column,
        out: &mut Column,
    ) -> Result<(), PmError> {
        out.clear();
        // Both sides must have values, the one that is not selected, too.
        let lacks = |column: &Column, which| self.absent != which && column.is_empty();
        if guard.is_empty() || lacks(yes, Absent::Yes) || lacks(no, Absent::No) {
            return Ok(());
        }
        match (&yes.values, &no.values, &mut out.values, self.absent) {
            (Values::Other(_), _, _, Absent::None | Absent::No) | (_, Values::Other(_), _, Absent::Yes) => {
                return Err(PmError::TYPE);
            }
            _ => {}
        }
        let (n, ids) = match self.absent {
            Absent::None => (yes.len().max(no.len()), if self.ids_of_no { &no.ids } else { &yes.ids }),
            Absent::Yes => (no.len(), &no.ids),
            Absent::No => (yes.len(), &yes.ids),
        };
        // Instances and values need not come from the same operand, so there may be fewer of the one.
        let ids = &ids[..n.min(ids.len())];
        let picks = Picks { guard, ids, absent: self.absent };
        macro_rules! same_type {
            ($($kind:ident),*) => {
                match (&yes.values, &no.values, &mut out.values) {
                    $((Values::$kind(yes), Values::$kind(no), Values::$kind(to)) => {
                        picks.apply(yes, no, &mut out.ids, to);
                    })*
                    // Only the type of novalue() may differ from that of the result.
                    $((Values::$kind(yes), _, Values::$kind(to)) => picks.apply(yes, &[], &mut out.ids, to),)*
                    $((_, Values::$kind(no), Values::$kind(to)) => picks.apply(&[], no, &mut out.ids, to),)*
                    _ => {}
                }
            };
        }
        same_type!(I32, U32, I64, U64, Float, Double);
        Ok(())
    }
}

/// What is selected for each instance.
struct Picks<'a> {
    guard: &'a Column,
    ids: &'a [Inst],
    absent: Absent,
}

impl Picks<'_> {
    fn apply<T: Copy>(&self, yes: &[T], no: &[T], ids: &mut Vec<Inst>, out: &mut Vec<T>) {
        let mut selected = false;
        for (i, &id) in self.ids.iter().enumerate() {
            // A guard that is shorter goes on with its last value.
            if i < self.guard.len() {
                selected = is_true(&self.guard.values, i);
            }
            let (branch, absent) = match selected {
                true => (yes, self.absent == Absent::Yes),
                false => (no, self.absent == Absent::No),
            };
            // A branch that is shorter goes on with its first value.
            if let Some(&value) = branch.get(i).or(branch.first()).filter(|_| !absent) {
                ids.push(id);
                out.push(value);
            }
        }
    }
}

fn is_true(values: &Values, at: usize) -> bool {
    fn nonzero<T: Number>(values: &[T], at: usize) -> bool {
        values.get(at).is_some_and(|&value| value != T::ZERO)
    }
    match values {
        Values::I32(values) => nonzero(values, at),
        Values::U32(values) => nonzero(values, at),
        Values::I64(values) => nonzero(values, at),
        Values::U64(values) => nonzero(values, at),
        Values::Float(values) => nonzero(values, at),
        Values::Double(values) => nonzero(values, at),
        Values::Other(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_model::ValueType;

    fn column(ids: &[i32], values: &[u32]) -> Column {
        Column::of(ids.to_vec(), Values::U32(values.to_vec()))
    }

    #[test]
    fn everything_goes_by_position() {
        let ternary = Ternary { absent: Absent::None, ids_of_no: false };
        let mut out = Column::new(ValueType::U32);
        let guard = column(&[7, 8], &[1, 0]);
        ternary.eval(&guard, &column(&[1, 2, 3], &[10, 20, 30]), &column(&[-1], &[5]), &mut out).unwrap();
        assert_eq!(out, column(&[1, 2, 3], &[10, 5, 5]));
    }

    #[test]
    fn positions_of_novalue_are_left_out() {
        let ternary = Ternary { absent: Absent::Yes, ids_of_no: false };
        let mut out = Column::new(ValueType::U32);
        let guard = column(&[1, 2], &[1, 0]);
        ternary.eval(&guard, &column(&[], &[]), &column(&[1, 2], &[10, 20]), &mut out).unwrap();
        assert_eq!(out, column(&[2], &[20]));
    }
}

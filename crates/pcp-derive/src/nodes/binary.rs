//! `+ - * /`, relations, `&&` and `||` (`docs/pcp/derived-language.md` 8.5 and 8.6, `docs/pcp/derived-eval.md` 4.6 to 4.9).

use super::pairing::{Finder, Pairing, pair_sets};
use super::{BrokenRule, Operand, Rules};
use crate::column::{Column, Number, Scratch, Values};
use crate::dialect::Level;
use crate::meta::{Meta, dimensions, is_dimensionless};
use crate::tree::BinaryOp;
use pcp_model::{ExtraUnit, InDom, PM_IN_NULL, Semantics, Units, ValueType};

/// What both operands' values are divided by and then multiplied with, to bring them to one scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scaling {
    /// The left operand's factor.
    pub left: ScaleFactor,
    /// The right operand's factor.
    pub right: ScaleFactor,
}

/// A divisor and a multiplier. Both are 32-bit and wrap, as in PCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaleFactor {
    /// Applied first.
    pub divisor: i32,
    /// Applied to the quotient.
    pub multiplier: i32,
}

impl ScaleFactor {
    const ONE: ScaleFactor = ScaleFactor { divisor: 1, multiplier: 1 };

    /// Whether values stay as they are.
    pub fn is_one(self) -> bool {
        self == ScaleFactor::ONE
    }

    fn apply(self, value: f64) -> f64 {
        value / f64::from(self.divisor) * f64::from(self.multiplier)
    }
}

impl Scaling {
    /// Nothing to scale.
    pub const NONE: Scaling = Scaling { left: ScaleFactor::ONE, right: ScaleFactor::ONE };
}

/// The type rule. Where several parts of it are broken, PCP tells of the first in this order.
pub(crate) fn bind(
    op: BinaryOp,
    left: Operand,
    right: Operand,
    rules: Rules<'_>,
) -> Result<(Meta, Scaling), BrokenRule> {
    let (l, r) = (left.meta, right.meta);
    // The operand that the result resembles.
    let mut result = if left.constant { r } else { l };
    result.semantics = semantics(op, result, l, r)?;
    result.value_type = value_type(op, l, r)?;
    check_dimensions(op, l, r, rules.extra_units)?;
    let extra = if rules.extra_units { bind_extra(op, l.units, r.units)? } else { 0 };
    let mut scaling = Scaling::NONE;
    if op.is_arithmetic() {
        let (units, scaled) = result_units(op, result.units, l.units, r.units);
        result.units = units;
        if let Some(scaled) = scaled {
            // Factors need not be whole.
            scaling = scaled;
            result.value_type = ValueType::Double;
        }
        if matches!(op, BinaryOp::Star | BinaryOp::Slash) {
            result.units.extra = extra;
        }
    } else {
        result.units = Units::NONE;
    }
    result.indom = match (l.indom, r.indom) {
        (InDom::NULL, indom) | (indom, InDom::NULL) => indom,
        (a, b) if a == b || rules.level >= Level::V638 && rules.equivalent.are_equivalent(a, b) => a,
        _ => return Err("Operands should have the same instance domain"),
    };
    Ok((result, scaling))
}

/// Which operators counters may have, and what comes of them.
fn semantics(op: BinaryOp, result: Meta, l: Meta, r: Meta) -> Result<Option<Semantics>, BrokenRule> {
    let additive = matches!(op, BinaryOp::Plus | BinaryOp::Minus);
    match (l.is_counter(), r.is_counter()) {
        _ if !op.is_arithmetic() => {}
        (true, true) if !additive => return Err("Illegal operator for counters"),
        (true, false) if additive => return Err("Illegal operator for counter and non-counter"),
        (false, true) if op != BinaryOp::Star => return Err("Illegal operator for non-counter and counter"),
        _ => {}
    }
    if l.is_counter() || r.is_counter() {
        return Ok(result.semantics);
    }
    let discrete = l.semantics == Some(Semantics::Discrete) && r.semantics == Some(Semantics::Discrete);
    Ok(Some(if discrete { Semantics::Discrete } else { Semantics::Instant }))
}

fn value_type(op: BinaryOp, l: Meta, r: Meta) -> Result<ValueType, BrokenRule> {
    if !l.is_numeric() {
        return Err("Non-arithmetic type for left operand");
    }
    if !r.is_numeric() {
        return Err("Non-arithmetic type for right operand");
    }
    Ok(match op {
        BinaryOp::Slash => ValueType::Double,
        _ if op.is_arithmetic() => promoted(l.value_type, r.value_type),
        _ => ValueType::U32,
    })
}

fn check_dimensions(op: BinaryOp, l: Meta, r: Meta, extra: bool) -> Result<(), BrokenRule> {
    let same_dimensions = || same_dimensions(l.units, r.units, extra);
    let fit = match op {
        BinaryOp::Plus | BinaryOp::Minus => same_dimensions(),
        BinaryOp::Star | BinaryOp::Slash => true,
        _ if op.is_boolean() => is_dimensionless(l.units, extra) && is_dimensionless(r.units, extra),
        // Meant for whole constants, but PCP looks at the type only.
        _ => l.value_type == ValueType::U32 || r.value_type == ValueType::U32 || same_dimensions(),
    };
    if !fit {
        return Err("Dimensions are not the same");
    }
    if l.is_counter() && !r.is_counter() && !is_dimensionless(r.units, extra) {
        return Err("Non-counter and not dimensionless for right operand");
    }
    if r.is_counter() && !l.is_counter() && !is_dimensionless(l.units, extra) {
        return Err("Non-counter and not dimensionless for left operand");
    }
    Ok(())
}

/// The larger type in the order 32, U32, 64, U64, FLOAT, DOUBLE.
pub(crate) fn promoted(a: ValueType, b: ValueType) -> ValueType {
    // The numeric types' codes are in that order.
    if a.code() >= b.code() { a } else { b }
}

fn same_dimensions(l: Units, r: Units, extra: bool) -> bool {
    let (l, r) = (dimensions(l, extra), dimensions(r, extra));
    let (none, count) = ([0; 4], [0, 0, 1, 0]);
    l == r || (l == none && r == count) || (l == count && r == none)
}

/// The rules of 7.2 for extra units, and the extra byte of a product or quotient.
fn bind_extra(op: BinaryOp, l: Units, r: Units) -> Result<u8, BrokenRule> {
    let (left, right) = (l.extra_unit(), r.extra_unit());
    let byte = |extra: Option<ExtraUnit>| extra.map_or(0, ExtraUnit::to_byte);
    // There is room for one extra unit in a descriptor.
    if let (Some(left), Some(right)) = (left, right) {
        if op == BinaryOp::Star {
            return Err("Extra units not allowed for both operands of *");
        }
        if op == BinaryOp::Slash && left != right {
            return Err("Different extra units not allowed for both operands of /");
        }
        if left != right {
            return Err("Operands have incompatible extra units or scale");
        }
    }
    Ok(match op {
        BinaryOp::Star => byte(left.or(right)),
        BinaryOp::Slash => match (left, right) {
            (Some(_), Some(_)) => 0,
            (Some(left), None) => left.to_byte(),
            (None, right) => byte(right.map(ExtraUnit::inverse)),
        },
        _ => 0,
    })
}

/// Units of `+ - * /`, and the factors if scales differ.
fn result_units(op: BinaryOp, base: Units, l: Units, r: Units) -> (Units, Option<Scaling>) {
    let mut units = base;
    let mut scaling = Scaling::NONE;
    let mut scaled = false;
    // Brings one axis to the larger scale. `by_right`: whether the sign of the right operand's
    // dimension decides between dividing and multiplying, whichever operand is scaled.
    let mut axis = |dims: (i8, i8), scales: (i8, i8), by_right: bool, step: &dyn Fn(i8) -> i32| {
        if dims.0 == 0 || dims.1 == 0 || scales.0 == scales.1 {
            return None;
        }
        scaled = true;
        let left_is_smaller = scales.0 < scales.1;
        let factor = if left_is_smaller { &mut scaling.left } else { &mut scaling.right };
        let deciding = if by_right || !left_is_smaller { dims.1 } else { dims.0 };
        let side = if deciding > 0 { &mut factor.divisor } else { &mut factor.multiplier };
        for scale in scales.0.min(scales.1)..scales.0.max(scales.1) {
            *side = side.wrapping_mul(step(scale));
        }
        left_is_smaller.then_some(scales.1)
    };
    let signed = |scale: u8| scale as i8;
    let count = axis((l.dim_count, r.dim_count), (l.scale_count, r.scale_count), false, &|_| 10);
    let time = axis((l.dim_time, r.dim_time), (signed(l.scale_time), signed(r.scale_time)), true, &|scale| {
        if scale < 3 { 1000 } else { 60 }
    });
    let space =
        axis((l.dim_space, r.dim_space), (signed(l.scale_space), signed(r.scale_space)), true, &|_| 1024);
    units.scale_count = count.unwrap_or(units.scale_count);
    units.scale_time = time.map_or(units.scale_time, |scale| scale as u8);
    units.scale_space = space.map_or(units.scale_space, |scale| scale as u8);
    let dimension = |base: i8, l: i8, r: i8| match op {
        BinaryOp::Star => nibble(l + r),
        BinaryOp::Slash => nibble(l - r),
        _ => base,
    };
    units.dim_count = dimension(base.dim_count, l.dim_count, r.dim_count);
    units.dim_time = dimension(base.dim_time, l.dim_time, r.dim_time);
    units.dim_space = dimension(base.dim_space, l.dim_space, r.dim_space);
    // A dimension that is gone has no scale; one that only the right operand has, has that operand's.
    if units.dim_count == 0 {
        units.scale_count = 0;
    } else if l.dim_count == 0 {
        units.scale_count = r.scale_count;
    }
    if units.dim_time == 0 {
        units.scale_time = 0;
    } else if l.dim_time == 0 {
        units.scale_time = r.scale_time;
    }
    if units.dim_space == 0 {
        units.scale_space = 0;
    } else if l.dim_space == 0 {
        units.scale_space = r.scale_space;
    }
    (units, scaled.then_some(scaling))
}

/// Dimensions are 4-bit numbers and wrap.
pub(crate) fn nibble(dimension: i8) -> i8 {
    (dimension << 4) >> 4
}

/// A bound operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Binary {
    pub op: BinaryOp,
    pub scaling: Scaling,
    /// The type in which operands are compared or computed with.
    pub operand_type: ValueType,
    pub left_is_set: bool,
    pub right_is_set: bool,
}

/// Memory for evaluating binary operators.
#[derive(Clone, Debug, Default)]
pub(crate) struct BinaryScratch {
    left: Scratch,
    right: Scratch,
    finder: Finder,
    pairs: Vec<(u32, u32)>,
}

impl Binary {
    pub(crate) fn eval(&self, left: &Column, right: &Column, out: &mut Column, scratch: &mut BinaryScratch) {
        if left.is_empty() || right.is_empty() {
            out.clear();
            return;
        }
        let BinaryScratch { left: ls, right: rs, finder, pairs } = scratch;
        let pairing = match (self.left_is_set, self.right_is_set) {
            (false, true) => {
                out.take_instances(right);
                Pairing::OneWithEach
            }
            (true, false) => {
                out.take_instances(left);
                Pairing::EachWithOne
            }
            (false, false) => {
                // PCP makes as many results as the right operand has values, all of the first two.
                let first = right.ids.first().copied().unwrap_or(PM_IN_NULL);
                out.clear();
                out.ids.resize(right.len(), first);
                Pairing::Zip(0)
            }
            (true, true) if left.has_instances_of(right) => {
                out.take_instances(left);
                Pairing::Zip(left.len())
            }
            (true, true) => {
                pair_sets(&left.ids, &right.ids, finder, pairs);
                out.clear();
                out.ids.extend(pairs.iter().filter_map(|&(i, _)| left.ids.get(i as usize)));
                Pairing::Listed
            }
        };
        // One match of the types for each column, so that the loops below it are over plain slices.
        let pairing = Pairs { pairing, pairs, singular: right.len() };
        let (l, r, to) = (&left.values, &right.values, &mut out.values);
        match self.operand_type {
            ValueType::I32 => {
                self.integers(i32::view(l, &mut ls.i32), i32::view(r, &mut rs.i32), pairing, to)
            }
            ValueType::U32 => {
                self.integers(u32::view(l, &mut ls.u32), u32::view(r, &mut rs.u32), pairing, to)
            }
            ValueType::I64 => {
                self.integers(i64::view(l, &mut ls.i64), i64::view(r, &mut rs.i64), pairing, to)
            }
            ValueType::U64 => {
                self.integers(u64::view(l, &mut ls.u64), u64::view(r, &mut rs.u64), pairing, to)
            }
            ValueType::Float => {
                self.floats(f32::view(l, &mut ls.f32), f32::view(r, &mut rs.f32), pairing, to)
            }
            _ => self.doubles(f64::view(l, &mut ls.f64), f64::view(r, &mut rs.f64), pairing, to),
        }
    }

    fn integers<T: Number + Wrapping>(&self, l: &[T], r: &[T], pairs: Pairs<'_>, out: &mut Values) {
        match self.op {
            BinaryOp::Plus => pairs.apply(l, r, out, T::add),
            BinaryOp::Minus => pairs.apply(l, r, out, T::sub),
            BinaryOp::Star => pairs.apply(l, r, out, T::mul),
            _ => self.compare(l, r, pairs, out),
        }
    }

    fn floats(&self, l: &[f32], r: &[f32], pairs: Pairs<'_>, out: &mut Values) {
        match self.op {
            BinaryOp::Plus => pairs.apply(l, r, out, |a, b| a + b),
            BinaryOp::Minus => pairs.apply(l, r, out, |a, b| a - b),
            BinaryOp::Star => pairs.apply(l, r, out, |a, b| a * b),
            _ => self.compare(l, r, pairs, out),
        }
    }

    fn doubles(&self, l: &[f64], r: &[f64], pairs: Pairs<'_>, out: &mut Values) {
        // Zero divided by anything is zero in PCP, by zero too.
        let divide = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a / b };
        // Not with factors of one: that would round twice.
        if self.scaling == Scaling::NONE {
            return match self.op {
                BinaryOp::Plus => pairs.apply(l, r, out, |a, b| a + b),
                BinaryOp::Minus => pairs.apply(l, r, out, |a, b| a - b),
                BinaryOp::Star => pairs.apply(l, r, out, |a, b| a * b),
                BinaryOp::Slash => pairs.apply(l, r, out, divide),
                _ => self.compare(l, r, pairs, out),
            };
        }
        let (x, y) = (self.scaling.left, self.scaling.right);
        match self.op {
            BinaryOp::Plus => pairs.apply(l, r, out, |a, b| x.apply(a) + y.apply(b)),
            BinaryOp::Minus => pairs.apply(l, r, out, |a, b| x.apply(a) - y.apply(b)),
            BinaryOp::Star => pairs.apply(l, r, out, |a, b| x.apply(a) * y.apply(b)),
            _ => pairs.apply(l, r, out, |a, b| divide(x.apply(a), y.apply(b))),
        }
    }

    fn compare<T: Number>(&self, l: &[T], r: &[T], pairs: Pairs<'_>, out: &mut Values) {
        match self.op {
            BinaryOp::Lt => pairs.apply(l, r, out, |a, b| u32::from(a < b)),
            BinaryOp::Leq => pairs.apply(l, r, out, |a, b| u32::from(a <= b)),
            BinaryOp::Eq => pairs.apply(l, r, out, |a, b| u32::from(a == b)),
            BinaryOp::Geq => pairs.apply(l, r, out, |a, b| u32::from(a >= b)),
            BinaryOp::Gt => pairs.apply(l, r, out, |a, b| u32::from(a > b)),
            BinaryOp::Neq => pairs.apply(l, r, out, |a, b| u32::from(a != b)),
            BinaryOp::And => pairs.apply(l, r, out, |a, b| u32::from(a != T::ZERO && b != T::ZERO)),
            _ => pairs.apply(l, r, out, |a, b| u32::from(a != T::ZERO || b != T::ZERO)),
        }
    }
}

/// Integer arithmetic modulo the size of the type.
trait Wrapping {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

macro_rules! wrapping {
    ($($type:ty),*) => {
        $(impl Wrapping for $type {
            fn add(self, other: $type) -> $type {
                self.wrapping_add(other)
            }

            fn sub(self, other: $type) -> $type {
                self.wrapping_sub(other)
            }

            fn mul(self, other: $type) -> $type {
                self.wrapping_mul(other)
            }
        })*
    };
}
wrapping!(i32, u32, i64, u64);

/// Which values go together, for the loops.
#[derive(Clone, Copy)]
struct Pairs<'a> {
    pairing: Pairing,
    pairs: &'a [(u32, u32)],
    /// How many results two singular operands have.
    singular: usize,
}

impl Pairs<'_> {
    fn apply<T: Copy, R: Number>(self, l: &[T], r: &[T], out: &mut Values, f: impl Fn(T, T) -> R) {
        let (Some(out), Some(&l0), Some(&r0)) = (R::of_mut(out), l.first(), r.first()) else {
            return;
        };
        match self.pairing {
            Pairing::Zip(0) => out.resize(self.singular, f(l0, r0)),
            Pairing::Zip(_) => out.extend(l.iter().zip(r).map(|(&a, &b)| f(a, b))),
            Pairing::OneWithEach => out.extend(r.iter().map(|&b| f(l0, b))),
            Pairing::EachWithOne => out.extend(l.iter().map(|&a| f(a, r0))),
            // The pairs are places in these very lists.
            Pairing::Listed => out.extend(self.pairs.iter().map(|&(i, j)| f(l[i as usize], r[j as usize]))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::equivalent::EquivalentIndoms;

    fn bound(op: BinaryOp, l: Meta, r: Meta) -> Result<(Meta, Scaling), BrokenRule> {
        let equivalent = EquivalentIndoms::default();
        let rules = Rules { level: Level::V638, extra_units: false, equivalent: &equivalent };
        let operand = |meta| Operand { meta, constant: false };
        bind(op, operand(l), operand(r), rules)
    }

    #[test]
    fn larger_scale_wins_and_the_other_operand_is_scaled() {
        let units = |word| Meta { units: Units::from_word(word), ..Meta::scalar(ValueType::U32) };
        let (byte, kbyte) = (units(0x1000_0000), units(0x1001_0000));
        let (meta, scaling) = bound(BinaryOp::Plus, byte, kbyte).unwrap();
        assert_eq!(meta, Meta { value_type: ValueType::Double, ..kbyte });
        assert_eq!(scaling.left, ScaleFactor { divisor: 1024, multiplier: 1 });
        assert!(scaling.right.is_one());
    }

    #[test]
    fn counters_only_add_up() {
        let counter = Meta { semantics: Some(Semantics::Counter), ..Meta::scalar(ValueType::U64) };
        assert_eq!(bound(BinaryOp::Star, counter, counter), Err("Illegal operator for counters"));
        assert_eq!(bound(BinaryOp::Plus, counter, counter).unwrap().0, counter);
    }

    #[test]
    fn extra_units_of_a_quotient_are_the_same_in_scale_too() {
        let units = |unit, scale| Units { extra: ExtraUnit { unit, scale }.to_byte(), ..Units::NONE };
        let (one, scaled, other) = (units(3, 1), units(3, 2), units(1, 1));
        let different = Err("Different extra units not allowed for both operands of /");
        assert_eq!(bind_extra(BinaryOp::Slash, one, one), Ok(0));
        assert_eq!(bind_extra(BinaryOp::Slash, one, other), different);
        assert_eq!(bind_extra(BinaryOp::Slash, one, scaled), different);
        let incompatible = Err("Operands have incompatible extra units or scale");
        assert_eq!(bind_extra(BinaryOp::Plus, one, scaled), incompatible);
    }

    #[test]
    fn sets_pair_and_zero_divided_is_zero() {
        let binary = Binary {
            op: BinaryOp::Slash,
            scaling: Scaling::NONE,
            operand_type: ValueType::Double,
            left_is_set: true,
            right_is_set: true,
        };
        let left = Column::of(vec![1, 2, 3], Values::U32(vec![0, 6, 7]));
        let right = Column::of(vec![2, 1], Values::I32(vec![-3, 0]));
        let mut out = Column::new(ValueType::Double);
        binary.eval(&left, &right, &mut out, &mut BinaryScratch::default());
        assert_eq!(out, Column::of(vec![1, 2], Values::Double(vec![0.0, -2.0])));
    }
}

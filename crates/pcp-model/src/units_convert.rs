//! Scale conversion, as `pmConvScale(3)` does it (`docs/pcp/units.md` 7 and 14).

use super::units_extra::Affine;
use super::{Number, PmError, Units, UnitsVocabulary, Value};

/// Highest scale of space (Ebyte) and of time (hour) that converts.
const MAX_SPACE: u8 = 6;
const MAX_TIME: u8 = 5;

/// The way from one scale to another: build it once, apply it to every value.
///
/// Integers are multiplied and divided as 64-bit numbers that wrap, and round halves up for positive
/// values only: what PCP does, quirks included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conversion {
    mult: i64,
    div: i64,
    extra: Option<Affine>,
}

impl Conversion {
    /// The conversion of values in `from` to `to`. Units without dimension count as a number of
    /// things, so "none" and "count" convert into each other.
    ///
    /// # Errors
    /// `PM_ERR_CONV` when the dimensions differ or the factor overflows to nothing, `PM_ERR_UNIT` for
    /// scales without a length.
    pub fn new(from: Units, to: Units, words: UnitsVocabulary) -> Result<Conversion, PmError> {
        let extra = words == UnitsVocabulary::Extra;
        let (from, to) = (counted(from, extra), counted(to, extra));
        if !same_dimension(from, to, extra) {
            return Err(PmError::CONV);
        }
        let mut factor = Factor { mult: 1, div: 1 };
        factor.space(from, to)?;
        factor.time(from, to)?;
        factor.count(from, to);
        if factor.div == 0 {
            // PCP dies of a division by zero here.
            return Err(PmError::CONV);
        }
        // Exact where it can be: multiplying by one whole number does not round.
        if factor.mult.wrapping_rem(factor.div) == 0 {
            factor = Factor { mult: factor.mult.wrapping_div(factor.div), div: 1 };
        }
        let extra = match (extra, from.extra_unit(), to.extra_unit()) {
            (true, Some(from), Some(to)) => from.conversion(to).map_err(|_| PmError::UNIT)?,
            _ => None,
        };
        Ok(Conversion { mult: factor.mult, div: factor.div, extra })
    }

    /// Whether every value stays as it is.
    pub fn is_identity(&self) -> bool {
        self.mult == 1 && self.div == 1 && self.extra.is_none()
    }

    fn signed(&self, value: i64) -> i64 {
        value.wrapping_mul(self.mult).wrapping_add(self.div / 2).wrapping_div(self.div)
    }

    /// A 32-bit signed value in the new scale.
    pub fn i32(&self, value: i32) -> i32 {
        let value = self.signed(i64::from(value)) as i32;
        self.extra.map_or(value, |extra| cast_i32(extra.apply(f64::from(value))))
    }

    /// A 32-bit unsigned value in the new scale.
    pub fn u32(&self, value: u32) -> u32 {
        let value = self.signed(i64::from(value)) as u32;
        self.extra.map_or(value, |extra| cast_i64(extra.apply(f64::from(value))) as u32)
    }

    /// A 64-bit signed value in the new scale.
    pub fn i64(&self, value: i64) -> i64 {
        let value = self.signed(value);
        self.extra.map_or(value, |extra| cast_i64(extra.apply(value as f64)))
    }

    /// A 64-bit unsigned value in the new scale.
    pub fn u64(&self, value: u64) -> u64 {
        let (mult, div) = (self.mult as u64, self.div as u64);
        let value = value.wrapping_mul(mult).wrapping_add((self.div / 2) as u64) / div;
        self.extra.map_or(value, |extra| cast_u64(extra.apply(value as f64)))
    }

    /// A single precision value in the new scale.
    pub fn f32(&self, value: f32) -> f32 {
        let value = value * (self.mult as f32 / self.div as f32);
        self.extra.map_or(value, |extra| extra.apply(f64::from(value)) as f32)
    }

    /// A double precision value in the new scale.
    pub fn f64(&self, value: f64) -> f64 {
        let value = value * (self.mult as f64 / self.div as f64);
        self.extra.map_or(value, |extra| extra.apply(value))
    }

    /// A number in the new scale, of the same type.
    pub fn number(&self, number: Number) -> Number {
        match number {
            Number::I32(v) => Number::I32(self.i32(v)),
            Number::U32(v) => Number::U32(self.u32(v)),
            Number::I64(v) => Number::I64(self.i64(v)),
            Number::U64(v) => Number::U64(self.u64(v)),
            Number::Float(v) => Number::Float(self.f32(v)),
            Number::Double(v) => Number::Double(self.f64(v)),
        }
    }

    /// Any numeric value in the new scale.
    ///
    /// # Errors
    /// `PM_ERR_CONV` for values that are not numbers.
    pub fn value(&self, value: &Value) -> Result<Value, PmError> {
        value.number().map(|number| self.number(number).into()).ok_or(PmError::CONV)
    }
}

/// Units without dimension as the number of things that they count for.
fn counted(units: Units, extra: bool) -> Units {
    let none = (units.dim_space, units.dim_time, units.dim_count) == (0, 0, 0);
    match none && (!extra || units.extra_unit().is_none()) {
        true => Units { dim_count: 1, ..units },
        false => units,
    }
}

fn same_dimension(from: Units, to: Units, extra: bool) -> bool {
    let dimension = |units: Units| {
        let unit = units.extra_unit().filter(|_| extra).map_or(0, |extra| extra.unit);
        (units.dim_space, units.dim_time, units.dim_count, unit)
    };
    dimension(from) == dimension(to)
}

struct Factor {
    mult: i64,
    div: i64,
}

impl Factor {
    fn space(&mut self, from: Units, to: Units) -> Result<(), PmError> {
        if from.dim_space == 0 {
            return Ok(());
        }
        if from.scale_space > MAX_SPACE || to.scale_space > MAX_SPACE {
            return Err(PmError::UNIT);
        }
        // Relative to Mbyte, as the wrapping products depend on the canonical scale.
        let below = |scale: u8| 1i64 << (10 * 2u8.saturating_sub(scale));
        let above = |scale: u8| 1i64 << (10 * scale.saturating_sub(2));
        let (i, o) = (from.scale_space, to.scale_space);
        self.apply(from.dim_space, below(i).wrapping_mul(above(o)), above(i).wrapping_mul(below(o)));
        Ok(())
    }

    fn time(&mut self, from: Units, to: Units) -> Result<(), PmError> {
        // Relative to seconds.
        const BELOW: [i64; 6] = [1_000_000_000, 1_000_000, 1_000, 1, 1, 1];
        const ABOVE: [i64; 6] = [1, 1, 1, 1, 60, 3_600];
        if from.dim_time == 0 {
            return Ok(());
        }
        if from.scale_time > MAX_TIME || to.scale_time > MAX_TIME {
            return Err(PmError::UNIT);
        }
        let (i, o) = (usize::from(from.scale_time), usize::from(to.scale_time));
        self.apply(from.dim_time, BELOW[i].wrapping_mul(ABOVE[o]), ABOVE[i].wrapping_mul(BELOW[o]));
        Ok(())
    }

    fn count(&mut self, from: Units, to: Units) {
        // A metric with an extra unit only has no count, but PCP converts its count scale all the same.
        let none = (from.dim_space, from.dim_time, from.dim_count) == (0, 0, 0);
        let dim_count = if none { 1 } else { from.dim_count };
        if dim_count == 0 {
            return;
        }
        let ten = |power: i8| 10i64.pow(u32::from(power.max(0).unsigned_abs()));
        let (i, o) = (from.scale_count, to.scale_count);
        self.apply(dim_count, ten(-i).wrapping_mul(ten(o)), ten(i).wrapping_mul(ten(-o)));
    }

    /// One dimension: `down` divides and `up` multiplies, once per power.
    fn apply(&mut self, power: i8, down: i64, up: i64) {
        let (down, up) = if power > 0 { (down, up) } else { (up, down) };
        for _ in 0..power.unsigned_abs() {
            self.div = self.div.wrapping_mul(down);
            self.mult = self.mult.wrapping_mul(up);
        }
    }
}

/// A C cast on x86-64: out of range gives the smallest number.
fn cast_i32(value: f64) -> i32 {
    if value > -2_147_483_649.0 && value < 2_147_483_648.0 { value as i32 } else { i32::MIN }
}

/// As [`cast_i32`].
fn cast_i64(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// A C cast on x86-64: negative values wrap.
fn cast_u64(value: f64) -> u64 {
    if value < 9_223_372_036_854_775_808.0 {
        cast_i64(value) as u64
    } else {
        cast_i64(value - 9_223_372_036_854_775_808.0) as u64 ^ 1 << 63
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_round_as_pcp_does() {
        let kbyte = Units::from_word(0x1001_0000);
        let conversion = Conversion::new(Units::BYTE, kbyte, UnitsVocabulary::Classic).unwrap();
        for (value, expected) in [(1536, 2), (511, 0), (512, 1), (-1024, 0), (-1536, -1)] {
            assert_eq!(conversion.i32(value), expected, "{value}");
        }
        assert_eq!(conversion.u64(u64::MAX), 0);
        assert_eq!(conversion.f64(1536.0), 1.5);
        assert_eq!(Conversion::new(Units::BYTE, Units::SECOND, UnitsVocabulary::Classic), Err(PmError::CONV));
    }
}

//! The extra units of PCP 7.2: temperature, voltage, current, power (spec `units.md` 14).
//!
//! They live in the low byte of the units word ([`Units::extra`]): a signed unit of 5 bits (negative:
//! in the divisor) over an unsigned scale of 3 bits. Older versions ignore the byte.

use std::fmt::{self, Write};

use super::c_number::{skip_white, strip_word};
use super::{Level, Units};

/// What [`Units::extra`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraUnit {
    /// 1 temperature, 2 voltage, 3 current, 4 power; negative when in the divisor.
    pub unit: i8,
    /// One-based position in the unit's list of scales.
    pub scale: u8,
}

/// Names and scales, by unit - 1.
const NAMES: [(&str, &[&str]); 4] = [
    ("temperature", &["C", "F", "K"]),
    ("voltage", &["V", "mV", "uV"]),
    ("current", &["A", "mA", "uA"]),
    ("power", &["kW", "W", "mW", "uW"]),
];

impl ExtraUnit {
    /// From the low byte of a units word; `None` if there is no extra unit.
    pub const fn from_byte(byte: u8) -> Option<ExtraUnit> {
        if byte >> 3 == 0 { None } else { Some(ExtraUnit { unit: byte as i8 >> 3, scale: byte & 7 }) }
    }

    /// The low byte of the units word.
    pub const fn to_byte(self) -> u8 {
        (self.unit as u8 & 0x1f) << 3 | self.scale & 7
    }

    /// Name of a unit, and how many scales it has.
    pub(super) fn scales(unit: u8) -> Option<(&'static str, usize)> {
        let (name, scales) = NAMES.get(usize::from(unit).checked_sub(1)?)?;
        Some((name, scales.len()))
    }

    /// The same unit on the other side of the slash.
    pub const fn inverse(self) -> ExtraUnit {
        ExtraUnit { unit: self.unit.wrapping_neg(), scale: self.scale }
    }

    /// `name (scale)` at the front of `text`, any case, and what follows it and its white space.
    pub(super) fn parse_prefix(text: &[u8]) -> Option<(ExtraUnit, &[u8])> {
        NAMES.iter().zip(1..).find_map(|(&(name, scales), unit)| {
            let rest = strip_word(strip_word(text, name.as_bytes())?, b" (")?;
            scales.iter().zip(1..).find_map(|(word, scale)| {
                let rest = strip_word(strip_word(rest, word.as_bytes())?, b")")?;
                Some((ExtraUnit { unit, scale }, skip_white(rest)))
            })
        })
    }

    /// How values change from this scale to `to`, which must have the same unit: `None` when nothing
    /// changes, and an error for scales that PCP has no rule for.
    pub(super) fn conversion(self, to: ExtraUnit) -> Result<Option<Affine>, UnknownScale> {
        if self.scale == to.scale {
            return Ok(None);
        }
        let affine = |a, b, c, d| Ok(Some(Affine { a, b, c, d }));
        let known = |scale: u8, count| (1..=count).contains(&scale);
        match self.unit {
            1 => match (self.scale, to.scale) {
                (1, 2) => affine(32.0, 18.0, 0.0, 10.0),
                (2, 1) => affine(0.0, 10.0, -32.0, 18.0),
                (1, 3) => affine(273.15, 1.0, 0.0, 1.0),
                (3, 1) => affine(0.0, 1.0, -273.15, 1.0),
                (2, 3) => affine(273.15, 10.0, -32.0, 18.0),
                (3, 2) => affine(32.0, 18.0, -273.15, 10.0),
                _ => Err(UnknownScale),
            },
            unit @ 2..=4 => {
                let count = if unit == 4 { 4 } else { 3 };
                if !known(self.scale, count) || !known(to.scale, count) {
                    return Err(UnknownScale);
                }
                let steps = to.scale as i32 - self.scale as i32;
                let factor = 1000f64.powi(steps.abs());
                if steps > 0 { affine(0.0, factor, 0.0, 1.0) } else { affine(0.0, 1.0, 0.0, factor) }
            }
            _ => Err(UnknownScale),
        }
    }
}

/// Two scales of an extra unit with no rule between them (`PM_ERR_UNIT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownScale;

/// `a + b * (value + c) / d`, in double precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Affine {
    a: f64,
    b: f64,
    c: f64,
    d: f64,
}

impl Affine {
    pub(super) fn apply(self, value: f64) -> f64 {
        self.a + self.b * (value + self.c) / self.d
    }
}

impl Units {
    /// The text of `pmUnitsStr(3)` as a release has it: with the extra unit since 7.2.
    pub fn text_at(self, level: Level) -> String {
        match level {
            Level::V721 => self.with_extra().to_string(),
            _ => self.to_string(),
        }
    }
}

/// Units as PCP 7.2 prints them: see [`Units::with_extra`].
pub struct WithExtra(Units);

impl Units {
    /// What [`Units::extra`] stands for.
    pub const fn extra_unit(self) -> Option<ExtraUnit> {
        ExtraUnit::from_byte(self.extra)
    }

    /// Prints as `pmUnitsStr(3)` of PCP 7.2: with the extra unit, and with the word `count` for
    /// scaled units without a dimension. `Units`' own `Display` is that of PCP 6.
    pub const fn with_extra(self) -> WithExtra {
        WithExtra(self)
    }
}

impl fmt::Display for WithExtra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Units { extra: 0, ..self.0 };
        let text = plain.to_string();
        let Some(extra) = self.0.extra_unit() else {
            let dimensionless = (plain.dim_space, plain.dim_time, plain.dim_count) == (0, 0, 0);
            if dimensionless && !text.is_empty() {
                f.write_str("count ")?;
            }
            return f.write_str(&text);
        };
        let mut word = String::new();
        match NAMES.get(usize::from(extra.unit.unsigned_abs()).wrapping_sub(1)) {
            Some((name, scales)) => match scales.get(usize::from(extra.scale).wrapping_sub(1)) {
                Some(scale) => write!(word, "{name} ({scale})")?,
                None => write!(word, "{name} (scale-{})", extra.scale)?,
            },
            None => write!(word, "extra-{}", extra.unit.unsigned_abs())?,
        }
        word.truncate(EXTRA_WORD);
        let text = if (plain.dim_space, plain.dim_time, plain.dim_count) == (0, 0, 0) { "" } else { &text };
        let (dividend, divisor) = match text.split_once("/ ") {
            Some((dividend, divisor)) => (dividend.trim_end(), Some(divisor)),
            None => (text, None),
        };
        let join = |a: &str, b: &str| if b.is_empty() { a.to_owned() } else { format!("{a} {b}") };
        let (dividend, divisor) = if extra.unit > 0 {
            (join(&word, dividend), divisor.map(str::to_owned))
        } else {
            (dividend.to_owned(), Some(join(&word, divisor.unwrap_or_default())))
        };
        match divisor {
            Some(divisor) if dividend.is_empty() => write!(f, "/ {divisor}"),
            Some(divisor) => write!(f, "{dividend} / {divisor}"),
            None => f.write_str(&dividend),
        }
    }
}

/// PCP builds the word in a buffer of 20 bytes.
const EXTRA_WORD: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_units_print_as_in_7_2() {
        for (word, text) in [
            (0x0000_0009, "temperature (C)"),
            (0x0000_00f9, "/ temperature (C)"),
            (0x0100_5021, "power (kW) hour"),
            (0x0100_30e2, "sec / power (W)"),
            (0x0000_000c, "temperature (scale-"),
            (0x0000_0028, "extra-5"),
            (0x0000_0300, "count x 10^3"),
            (0x1f01_3009, "temperature (C) Kbyte / sec"),
        ] {
            assert_eq!(Units::from_word(word).with_extra().to_string(), text, "{word:#010x}");
        }
    }
}

//! Dimension and scale of a metric (`docs/pcp/units.md` 4 and 5).

use std::fmt;

/// Dimensions in space, time and count, a scale for each, and the extra unit of PCP 7.2.
///
/// Dimensions and the count scale are 4-bit signed numbers (-8..=7), the other scales 4-bit unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Units {
    /// Power of space.
    pub dim_space: i8,
    /// Power of time.
    pub dim_time: i8,
    /// Power of count.
    pub dim_count: i8,
    /// 0 byte, 1 Kbyte, ... 8 Ybyte.
    pub scale_space: u8,
    /// 0 nanosecond, 1 microsecond, 2 millisecond, 3 second, 4 minute, 5 hour.
    pub scale_time: u8,
    /// Power of ten.
    pub scale_count: i8,
    /// The low byte of the word, which only PCP 7.2 gives a meaning; passed through.
    pub extra: u8,
}

impl Units {
    /// No dimension at all.
    pub const NONE: Units = Units::dimension(0, 0, 0, 0, 0, 0);
    /// Bytes.
    pub const BYTE: Units = Units::dimension(1, 0, 0, 0, 0, 0);
    /// A number of things.
    pub const COUNT: Units = Units::dimension(0, 0, 1, 0, 0, 0);
    /// Nanoseconds.
    pub const NANOSECOND: Units = Units::dimension(0, 1, 0, 0, 0, 0);
    /// Microseconds.
    pub const MICROSECOND: Units = Units::dimension(0, 1, 0, 0, 1, 0);
    /// Milliseconds.
    pub const MILLISECOND: Units = Units::dimension(0, 1, 0, 0, 2, 0);
    /// Seconds.
    pub const SECOND: Units = Units::dimension(0, 1, 0, 0, 3, 0);

    /// Dimensions in space, time, count, then their scales, as `PMDA_PMUNITS` takes them.
    pub const fn dimension(
        dim_space: i8,
        dim_time: i8,
        dim_count: i8,
        scale_space: u8,
        scale_time: u8,
        scale_count: i8,
    ) -> Units {
        Units { dim_space, dim_time, dim_count, scale_space, scale_time, scale_count, extra: 0 }
    }

    /// The word that stands for these units in a descriptor.
    pub const fn to_word(self) -> u32 {
        (self.dim_space as u32 & 0xf) << 28
            | (self.dim_time as u32 & 0xf) << 24
            | (self.dim_count as u32 & 0xf) << 20
            | (self.scale_space as u32 & 0xf) << 16
            | (self.scale_time as u32 & 0xf) << 12
            | (self.scale_count as u32 & 0xf) << 8
            | self.extra as u32
    }

    /// The units a descriptor's word stands for.
    pub const fn from_word(word: u32) -> Units {
        Units {
            dim_space: signed_nibble(word >> 28),
            dim_time: signed_nibble(word >> 24),
            dim_count: signed_nibble(word >> 20),
            scale_space: (word >> 16 & 0xf) as u8,
            scale_time: (word >> 12 & 0xf) as u8,
            scale_count: signed_nibble(word >> 8),
            extra: word as u8,
        }
    }
}

const fn signed_nibble(word: u32) -> i8 {
    ((word as u8) << 4) as i8 >> 4
}

impl fmt::Display for Units {
    /// The text of `pmUnitsStr(3)`, without PCP 7.2's extra units; empty for no dimension.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = [self.dim_space, self.dim_time, self.dim_count];
        if dims == [0, 0, 0] {
            return match self.scale_count {
                0 => Ok(()),
                1 => f.write_str("x 10"),
                n => write!(f, "x 10^{n}"),
            };
        }
        let mut first = true;
        for (which, &dim) in dims.iter().enumerate().filter(|&(_, &dim)| dim > 0) {
            self.word(f, which, dim.unsigned_abs(), &mut first)?;
        }
        if dims.iter().any(|&dim| dim < 0) {
            f.write_str(if first { "/ " } else { " / " })?;
            first = true;
            for (which, &dim) in dims.iter().enumerate().filter(|&(_, &dim)| dim < 0) {
                self.word(f, which, dim.unsigned_abs(), &mut first)?;
            }
        }
        Ok(())
    }
}

impl Units {
    fn word(&self, f: &mut fmt::Formatter<'_>, which: usize, power: u8, first: &mut bool) -> fmt::Result {
        const SPACE: [&str; 9] =
            ["byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte", "Pbyte", "Ebyte", "Zbyte", "Ybyte"];
        const TIME: [&str; 6] = ["nanosec", "microsec", "millisec", "sec", "min", "hour"];
        if !std::mem::replace(first, false) {
            f.write_str(" ")?;
        }
        match which {
            0 => match SPACE.get(self.scale_space as usize) {
                Some(word) => f.write_str(word)?,
                None => write!(f, "space-{}", self.scale_space)?,
            },
            1 => match TIME.get(self.scale_time as usize) {
                Some(word) => f.write_str(word)?,
                None => write!(f, "time-{}", self.scale_time)?,
            },
            _ => match self.scale_count {
                0 => f.write_str("count")?,
                1 => f.write_str("count x 10")?,
                n => write!(f, "count x 10^{n}")?,
            },
        }
        if power != 1 {
            write!(f, "^{power}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_texts_are_those_of_the_library() {
        for (word, text) in [
            (0x0000_0000, ""),
            (0x0010_0000, "count"),
            (0x0010_0d00, "count x 10^-3"),
            (0x1f01_3000, "Kbyte / sec"),
            (0x0f10_5600, "count x 10^6 / hour"),
            (0x0100_2000, "millisec"),
            (0x0200_3000, "sec^2"),
            (0x0f00_6000, "/ time-6"),
            (0x0010_0100, "count x 10"),
            (0x0000_0800, "x 10^-8"),
            (0x2eee_5d00, "space-14^2 / hour^2 count x 10^-3^2"),
            (0x8888_1800, "/ Ybyte^8 microsec^8 count x 10^-8^8"),
            (0x777f_f700, "space-15^7 time-15^7 count x 10^7^7"),
        ] {
            assert_eq!(Units::from_word(word).to_string(), text, "{word:#010x}");
            assert_eq!(Units::from_word(word).to_word(), word);
        }
    }
}

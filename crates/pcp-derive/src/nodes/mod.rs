//! Operands and operators: one file a family, with its type rule, its evaluation and their tests. Functions
//! are in `functions`.
//!
//! Type rules take the metadata of the operands and give that of the node, or PCP's words for what is
//! wrong. Evaluation takes columns and fills a column.

pub(super) mod binary;
pub(super) mod constant;
pub(super) mod instance;
pub(super) mod pairing;
pub(super) mod ternary;
pub(super) mod unary;

use super::dialect::{Dialect, Level};
use super::equivalent::EquivalentIndoms;
use super::meta::Meta;

/// What type rules depend on besides their operands.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub level: Level,
    /// Whether the extra units of 7.2 count.
    pub extra_units: bool,
    pub equivalent: &'a EquivalentIndoms,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(dialect: &Dialect, equivalent: &'a EquivalentIndoms) -> Rules<'a> {
        Rules { level: dialect.level, extra_units: dialect.has_indom_tag(), equivalent }
    }
}

/// An operand as type rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub meta: Meta,
    /// Whether it is a number, `mkconst` included.
    pub constant: bool,
}

/// PCP's words for a broken rule.
pub(super) type BrokenRule = &'static str;

#[cfg(test)]
pub(super) mod testing {
    //! Metrics with named instances, for the tests of what looks names up.

    use crate::column::{Column, Values};
    use crate::meta::Meta;
    use crate::source::MetricSource;
    use pcp_model::{InDom, Inst, PmError, Pmid};

    pub(crate) const INDOM: InDom = InDom::new(60, 1);

    /// Instances 1 "eth0 up" and 2 "lo", and how often names were asked for.
    pub(crate) struct Names(pub u32);

    impl MetricSource for Names {
        fn pmid(&mut self, _: &str) -> Result<Pmid, PmError> {
            Err(PmError::NAME)
        }

        fn meta(&mut self, _: Pmid) -> Result<Meta, PmError> {
            Err(PmError::PMID)
        }

        fn instance(&mut self, _: InDom, name: &str) -> Result<Inst, PmError> {
            self.0 += 1;
            if name == "lo" { Ok(2) } else { Err(PmError::INST) }
        }

        fn instance_name(
            &mut self,
            _: InDom,
            inst: Inst,
            found: &mut dyn FnMut(&str),
        ) -> Result<(), PmError> {
            self.0 += 1;
            found(match inst {
                1 => "eth0 up",
                2 => "lo",
                _ => return Err(PmError::INST),
            });
            Ok(())
        }
    }

    /// Each instance has its own number as value.
    pub(crate) fn column(ids: &[Inst]) -> Column {
        Column::of(ids.to_vec(), Values::I32(ids.to_vec()))
    }
}

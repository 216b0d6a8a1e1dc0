//! What is known about the values of a node before there are any.

use pcp_model::{Desc, InDom, Pmid, Semantics, Units, ValueType};

/// Metadata of a node: a descriptor without its PMID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Meta {
    /// Type of every value.
    pub value_type: ValueType,
    /// The instance domain, or [`InDom::NULL`].
    pub indom: InDom,
    /// Behaviour over time; `None` for what PCP prints as `???` (semantics 0).
    pub semantics: Option<Semantics>,
    /// Dimension and scale.
    pub units: Units,
}

impl Meta {
    /// A singular discrete value without units.
    pub const fn scalar(value_type: ValueType) -> Meta {
        Meta { value_type, indom: InDom::NULL, semantics: Some(Semantics::Discrete), units: Units::NONE }
    }

    /// What PCP takes for a metric that does not exist, below a ternary: all bits zero, so the instance
    /// domain is 0.0 and not none.
    pub(super) const fn unknown() -> Meta {
        Meta { value_type: ValueType::I32, indom: InDom(0), semantics: None, units: Units::NONE }
    }

    /// Whether there are instances.
    pub fn is_set(&self) -> bool {
        self.indom != InDom::NULL
    }

    pub(super) fn is_numeric(&self) -> bool {
        self.value_type.is_numeric()
    }

    pub(super) fn is_counter(&self) -> bool {
        self.semantics == Some(Semantics::Counter)
    }

    /// The same with other semantics.
    pub(super) fn instant(self) -> Meta {
        Meta { semantics: Some(Semantics::Instant), ..self }
    }

    /// The descriptor of a metric with this metadata.
    pub fn desc(&self, pmid: Pmid) -> Desc {
        Desc {
            pmid,
            value_type: self.value_type,
            indom: self.indom,
            semantics: self.semantics.unwrap_or(Semantics::Other(0)),
            units: self.units,
        }
    }
}

impl From<Desc> for Meta {
    fn from(desc: Desc) -> Meta {
        Meta {
            value_type: desc.value_type,
            indom: desc.indom,
            semantics: Semantics::from_code(desc.semantics.code()),
            units: desc.units,
        }
    }
}

/// Units as they can be read again: with the extra unit where there is one.
pub(super) fn units_text(units: Units) -> String {
    match units.extra {
        0 => units.to_string(),
        _ => units.with_extra().to_string(),
    }
}

/// All dimensions of units, extra unit included if it counts.
pub(super) fn dimensions(units: Units, extra: bool) -> [i8; 4] {
    let extra = if extra { units.extra_unit().map_or(0, |extra| extra.unit) } else { 0 };
    [units.dim_space, units.dim_time, units.dim_count, extra]
}

pub(super) fn is_dimensionless(units: Units, extra: bool) -> bool {
    dimensions(units, extra) == [0; 4]
}

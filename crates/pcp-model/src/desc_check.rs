//! What is questionable about a descriptor, in the words of PCP 7.2 (`docs/pcp/units.md` 14).

use super::{Desc, ExtraUnit, InDom, Semantics, ValueType};

/// Dimensions outside of this are unusual.
const USUAL: std::ops::RangeInclusive<i8> = -2..=2;
/// The largest scales that have a name: Ebyte, hour.
const MAX_SPACE: u8 = 6;
const MAX_TIME: u8 = 5;

impl Desc {
    /// What does not fit in it, a line each; nothing of a good one.
    pub fn questions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let (domain, indom) = (self.pmid.domain(), self.indom);
        // A derived metric has the instances of its operands, which are another agent's.
        if indom != InDom::NULL && indom.domain() != domain && !self.pmid.is_derived() {
            found.push(format!(
                "Warning: domain ({domain}) in metric pmid ({}) different to domain ({}) in metric indom ({indom})",
                self.pmid,
                indom.domain()
            ));
        }
        if self.value_type == ValueType::Unknown {
            let code = self.value_type.code();
            found.push(format!("Error: metric type ({code}) is not one of the valid PM_TYPE_* values"));
        }
        if let Semantics::Other(code) = self.semantics {
            found.push(format!("Error: metric semantics ({code}) is not one of the valid PM_SEM_* values"));
        }
        let units = self.units;
        axis("Space", units.dim_space, units.scale_space.into(), Some(MAX_SPACE), &mut found);
        axis("Time", units.dim_time, units.scale_time.into(), Some(MAX_TIME), &mut found);
        axis("Count", units.dim_count, units.scale_count.into(), None, &mut found);
        if let Some(ExtraUnit { unit, scale }) = units.extra_unit() {
            match ExtraUnit::scales(unit.unsigned_abs()) {
                Some((name, count)) if !(1..=count).contains(&usize::from(scale)) => {
                    let name = name.to_uppercase();
                    found.push(format!(
                        "Error: extraScale ({scale}) in pmUnits is not one of the valid PM_{name}_* values"
                    ));
                }
                Some(_) => {}
                None => found.push(format!(
                    "Error: extraUnit ({unit}) in pmUnits is not one of the valid PM_UNIT_* values"
                )),
            }
        }
        found
    }
}

/// The questions about one dimension and its scale.
fn axis(name: &str, dim: i8, scale: i16, max: Option<u8>, found: &mut Vec<String>) {
    if !USUAL.contains(&dim) {
        found.push(format!("Warning: unusual dimension ({dim}) for {name} in pmUnits"));
    }
    if dim == 0 && scale != 0 {
        found.push(format!("Error: non-zero scale ({scale}) with zero dimension for {name} in pmUnits"));
    } else if max.is_some_and(|max| scale > max.into()) {
        // PCP names the scales of space for those of time, too.
        found.push(format!(
            "Error: scale ({scale}) for {name} in pmUnits is not one of the valid PM_SPACE_* values"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pmid, Units};

    fn questions(units: u32, indom: InDom, value_type: ValueType, semantics: i32) -> Vec<String> {
        let (pmid, semantics) = (Pmid::new(29, 0, 1), Semantics::of_code(semantics));
        Desc { pmid, value_type, indom, semantics, units: Units::from_word(units) }.questions()
    }

    #[test]
    fn good_descriptors_raise_none() {
        for units in [0, 0x1f01_3000, 0x0010_0300, 0x0000_0009, 0x0100_50e1] {
            assert_eq!(
                questions(units, InDom::new(29, 1), ValueType::U64, 1),
                Vec::<String>::new(),
                "{units:#x}"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        assert_eq!(
            questions(0x30f7_6200, InDom::new(30, 2), ValueType::Unknown, 2),
            [
                "Warning: domain (29) in metric pmid (29.0.1) different to domain (30) in metric indom (30.2)",
                "Error: metric type (255) is not one of the valid PM_TYPE_* values",
                "Error: metric semantics (2) is not one of the valid PM_SEM_* values",
                "Warning: unusual dimension (3) for Space in pmUnits",
                "Error: scale (7) for Space in pmUnits is not one of the valid PM_SPACE_* values",
                "Error: non-zero scale (6) with zero dimension for Time in pmUnits",
            ]
        );
        assert_eq!(
            questions(0x0100_600c, InDom::NULL, ValueType::U32, 3),
            [
                "Error: scale (6) for Time in pmUnits is not one of the valid PM_SPACE_* values",
                "Error: extraScale (4) in pmUnits is not one of the valid PM_TEMPERATURE_* values",
            ]
        );
        assert_eq!(
            questions(0x0000_0128, InDom::NULL, ValueType::U32, 3),
            [
                "Error: non-zero scale (1) with zero dimension for Count in pmUnits",
                "Error: extraUnit (5) in pmUnits is not one of the valid PM_UNIT_* values",
            ]
        );
    }
}

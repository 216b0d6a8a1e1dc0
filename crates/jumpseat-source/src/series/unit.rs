//! Units of UCUM, as OpenTelemetry has them, as units of PCP.
//!
//! Only what is the same to the last digit becomes a unit of PCP: `kBy` is 1000 bytes and PCP's Kbyte 1024, so that stays text, as
//! does what PCP has no dimension for (`Cel`, `V`, `%`). Annotations in braces count things.

use pcp_model::Units;

/// Longest unit that is kept, in bytes: the most OpenTelemetry has.
pub const MAX_UNIT: usize = 63;

/// The units of PCP; [`Units::NONE`] where PCP has none for it.
pub fn units(ucum: &str) -> Units {
    match ucum.split_once('/') {
        None => simple(ucum).unwrap_or(Units::NONE),
        Some((over, under)) => match (simple(over), simple(under)) {
            (Some(over), Some(under)) if under.dim_time == 1 => {
                Units { dim_time: over.dim_time - 1, scale_time: under.scale_time, ..over }
            }
            _ => Units::NONE,
        },
    }
}

fn simple(ucum: &str) -> Option<Units> {
    let space = |scale| Units { scale_space: scale, ..Units::BYTE };
    let time = |scale| Units { scale_time: scale, ..Units::NANOSECOND };
    Some(match ucum {
        "" | "1" => Units::NONE,
        "By" => Units::BYTE,
        "KiBy" => space(1),
        "MiBy" => space(2),
        "GiBy" => space(3),
        "TiBy" => space(4),
        "ns" => time(0),
        "us" => time(1),
        "ms" => time(2),
        "s" => time(3),
        "min" => time(4),
        "h" => time(5),
        _ if ucum.starts_with('{') && ucum.ends_with('}') => Units::COUNT,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_the_same_or_none() {
        for (ucum, text) in [
            ("s", "sec"),
            ("ms", "millisec"),
            ("h", "hour"),
            ("By", "byte"),
            ("MiBy", "Mbyte"),
            ("{request}", "count"),
            ("By/s", "byte / sec"),
            ("{packet}/min", "count / min"),
            ("1", ""),
            ("", ""),
            ("1/s", "/ sec"),
            ("kBy", ""),
            ("Cel", ""),
            ("%", ""),
            ("d", ""),
            ("By/m", ""),
            ("s/s", ""),
        ] {
            assert_eq!(units(ucum).to_string(), text, "{ucum}");
        }
    }
}

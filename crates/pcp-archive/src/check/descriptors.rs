//! What descriptors say that they cannot mean.

use std::path::Path;

use super::finding::{Findings, Kind};
use super::values::name;
use crate::metadata::{Metadata, RawDesc};
use pcp_model::{InDom, Pmid, Units};

/// Types of values that there are: from 32-bit integers to event records.
const TYPES: std::ops::RangeInclusive<i32> = 0..=10;
/// A metric that its agent knew of and did not support: nothing else is said of it.
const NO_SUPPORT: i32 = -1;
/// Counter, instantaneous, discrete.
const SEMANTICS: [i32; 3] = [1, 3, 4];
/// Powers of a dimension that make sense.
const DIMENSIONS: std::ops::RangeInclusive<i8> = -2..=2;
/// Exabytes.
const MAX_SPACE: u8 = 6;
/// Hours.
const MAX_TIME: u8 = 5;

/// Checks all descriptors, in the order of their metrics.
pub(super) fn check(metadata: &Metadata, file: &Path, findings: &mut Findings) {
    let mut descs: Vec<(Pmid, RawDesc)> = metadata.raw_descs().collect();
    descs.sort_unstable_by_key(|(pmid, _)| pmid.0);
    for (pmid, desc) in descs {
        let mistakes = mistakes(pmid, desc);
        if !mistakes.is_empty() {
            let name = name(metadata, pmid);
            for what in mistakes {
                findings.add(Kind::Descriptor, file, None, || format!("{name}: {what}"));
            }
        }
        if metadata.names.short_name(pmid, 0).is_none() {
            findings.add(Kind::Descriptor, file, None, || format!("{pmid}: no name"));
        }
    }
}

fn mistakes(pmid: Pmid, desc: RawDesc) -> Vec<String> {
    let mut found = Vec::new();
    if desc.value_type == NO_SUPPORT {
        return found;
    }
    if !TYPES.contains(&desc.value_type) {
        found.push(format!("bad type ({})", desc.value_type));
    }
    let indom = InDom(desc.indom);
    if indom != InDom::NULL && u32::from(indom.domain()) != u32::from(pmid.domain()) {
        let (metrics, instances) = (pmid.domain(), indom.domain());
        found.push(format!("metric of domain {metrics}, instances of domain {instances}"));
    }
    if !SEMANTICS.contains(&desc.semantics) {
        found.push(format!("bad semantics ({})", desc.semantics));
    }
    let units = Units::from_word(desc.units);
    let parts = [
        ("Space", units.dim_space, i32::from(units.scale_space), units.scale_space > MAX_SPACE),
        ("Time", units.dim_time, i32::from(units.scale_time), units.scale_time > MAX_TIME),
        ("Count", units.dim_count, i32::from(units.scale_count), false),
    ];
    for (what, dimension, scale, is_bad) in parts {
        if !DIMENSIONS.contains(&dimension) {
            found.push(format!("bad dimension ({dimension}) for {what}"));
        }
        if dimension == 0 && scale != 0 {
            found.push(format!("scale ({scale}) without a dimension for {what}"));
        }
        if is_bad {
            found.push(format!("bad scale ({scale}) for {what}"));
        }
    }
    found
}

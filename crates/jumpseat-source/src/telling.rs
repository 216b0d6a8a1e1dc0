//! The parameters of a record that tell whether its span has failed.

use crate::registry::WellKnown;
use jumpseat_wire::severity;
use pcp_event::filter::FieldResolver;
use pcp_event::packed::PackedParam;
use pcp_model::{Pmid, ValueType};

/// Which they are, as far as fields are known.
#[derive(Debug)]
pub struct Telling {
    fields: Vec<(Pmid, Tells)>,
    /// A bit for each of them, by the low bits of its PMID: most parameters are none of them by this alone.
    bits: u64,
    /// The fields that were known when they were looked up.
    generation: Option<u64>,
    domain: u16,
}

/// How one of them tells it.
#[derive(Clone, Copy, Debug)]
enum Tells {
    /// By a severity of `error` or graver.
    Severity,
    /// By the word `error`.
    Status,
    /// By the word `true`, or a number that is not zero.
    Error,
}

impl Telling {
    /// Of an agent of this domain, without any fields yet.
    pub fn new(domain: u16) -> Telling {
        Telling { fields: Vec::new(), bits: 0, generation: None, domain }
    }

    /// Looks them up, if fields have come since.
    pub fn look_up(&mut self, known: &impl FieldResolver) {
        // Fields only ever come new, and seldom: the PMIDs are looked up again when one has.
        if self.generation == Some(known.generation()) {
            return;
        }
        self.generation = Some(known.generation());
        self.fields.clear();
        self.fields.push((WellKnown::Severity.pmid(self.domain), Tells::Severity));
        for (name, tells) in [("status", Tells::Status), ("error", Tells::Error)] {
            known.resolve(name, &mut |pmid| self.fields.push((pmid, tells)));
        }
        self.bits = self.fields.iter().fold(0, |bits, (pmid, _)| bits | bit(*pmid));
    }

    /// Whether a parameter says that the span has failed.
    #[inline]
    pub fn is_failure(&self, param: PackedParam<'_>) -> bool {
        self.bits & bit(param.pmid) != 0 && self.says_failure(param)
    }

    fn says_failure(&self, param: PackedParam<'_>) -> bool {
        const INTEGERS: std::ops::RangeInclusive<u32> =
            ValueType::I32.code() as u32..=ValueType::U64.code() as u32;
        let grave = &severity::WORDS[..=3];
        self.fields.iter().filter(|(pmid, _)| *pmid == param.pmid).any(|(_, tells)| {
            match (tells, param.text()) {
                (Tells::Severity, text) => {
                    text.and_then(severity::from_word).is_some_and(|word| grave.contains(&word))
                }
                (Tells::Status, text) => text.is_some_and(|text| text.eq_ignore_ascii_case(b"error")),
                (Tells::Error, Some(text)) => text.eq_ignore_ascii_case(b"true"),
                (Tells::Error, None) => {
                    INTEGERS.contains(&param.value_type) && param.bytes.iter().any(|byte| *byte != 0)
                }
            }
        })
    }
}

#[inline]
fn bit(pmid: Pmid) -> u64 {
    1 << (pmid.0 % 64)
}

//! Ids of spans, and their names, as numbers of 64 bits.
//!
//! Hashed with keys of this process, so that nobody can choose ids that collide; ids of different types are different ids.
//! Those of nearly all senders, a number or the 16 digits of OpenTelemetry's, by [`HashKeys`], which is a tenth of the work.

use std::hash::{BuildHasher, RandomState};

use jumpseat_source::registry::MAX_SENT_NAME;
use pcp_event::packed::PackedParam;
use pcp_model::ValueType;

use super::hash::HashKeys;

/// Longest text that is hashed by [`HashKeys`], in bytes.
const SHORT: usize = 64;

/// The keys. Several, so that what is hashed in one way is never taken for what is hashed in another.
#[derive(Debug)]
pub(super) struct IdKeys {
    numbers: HashKeys,
    texts: HashKeys,
    others: RandomState,
    names: HashKeys,
}

impl IdKeys {
    /// New ones.
    pub(super) fn new() -> IdKeys {
        IdKeys {
            numbers: HashKeys::new(0),
            texts: HashKeys::new(SHORT),
            others: RandomState::new(),
            names: HashKeys::new(MAX_SENT_NAME),
        }
    }

    /// The number of an id.
    #[inline]
    pub(super) fn id(&self, param: PackedParam<'_>) -> u64 {
        const NUMBER: u32 = ValueType::U64.code() as u32;
        const TEXT: u32 = ValueType::String.code() as u32;
        if param.value_type == NUMBER
            && let Ok(bytes) = param.bytes.try_into()
        {
            return self.numbers.number(u64::from_ne_bytes(bytes));
        }
        if param.value_type == TEXT && param.bytes.len() <= SHORT {
            return self.texts.text(param.bytes);
        }
        self.others.hash_one((param.value_type, param.bytes))
    }

    /// The number of a name, unless it is longer than names are.
    #[inline]
    pub(super) fn name(&self, name: &[u8]) -> Option<u64> {
        (name.len() <= MAX_SENT_NAME).then(|| self.names.text(name))
    }
}

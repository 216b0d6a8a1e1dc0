//! Ids of spans as numbers of 64 bits.
//!
//! Hashed with keys of this process (SipHash), so that nobody can choose ids that collide; ids of different types are
//! different ids. Those of nearly all senders, a number or the 16 digits of OpenTelemetry's, are hashed as whole words, which
//! is a third of the work.

use std::hash::{BuildHasher, RandomState};

use pcp_event::packed::PackedParam;
use pcp_model::ValueType;

/// The keys. Three, so that what is hashed in one way is never taken for what is hashed in another.
#[derive(Debug)]
pub(super) struct IdKeys {
    numbers: RandomState,
    digits: RandomState,
    others: RandomState,
}

impl IdKeys {
    /// New ones.
    pub(super) fn new() -> IdKeys {
        IdKeys { numbers: RandomState::new(), digits: RandomState::new(), others: RandomState::new() }
    }

    /// The number of an id.
    #[inline]
    pub(super) fn id(&self, param: PackedParam<'_>) -> u64 {
        const NUMBER: u32 = ValueType::U64.code() as u32;
        const TEXT: u32 = ValueType::String.code() as u32;
        if param.value_type == NUMBER
            && let Ok(bytes) = param.bytes.try_into()
        {
            return self.numbers.hash_one(u64::from_ne_bytes(bytes));
        }
        if param.value_type == TEXT
            && let Ok(bytes) = param.bytes.try_into()
        {
            return self.digits.hash_one(u128::from_ne_bytes(bytes));
        }
        self.others.hash_one((param.value_type, param.bytes))
    }
}

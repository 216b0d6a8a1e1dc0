//! The text of an event filter, and what it says of a record: what is printed means the same.
#![no_main]

use std::sync::Arc;

use jumpseat::event::filter::{FieldResolver, Filter, MAX_COST};
use jumpseat::event::{Batch, EventFlags, Param};
use jumpseat::model::{Pmid, Timestamp};

/// Every field is the record's one parameter, or its other.
struct Fields;

impl FieldResolver for Fields {
    fn generation(&self) -> u64 {
        1
    }

    fn resolve(&self, name: &str, found: &mut dyn FnMut(Pmid)) {
        found(Pmid((name.len() % 2) as u32));
    }
}

libfuzzer_sys::fuzz_target!(|data: (&str, &[u8])| {
    let (text, value) = data;
    let Ok(Some(filter)) = Filter::parse(text) else { return };
    let again = Filter::parse(&filter.to_string());
    assert_eq!(again, Ok(Some(filter.clone())), "{text}");
    let bound = Arc::new(filter).bind(&Fields);
    let mut batch = Batch::default();
    let mut record = batch.record(Timestamp::default(), EventFlags::POINT);
    record.param(Pmid(0), Param::String(value));
    record.param(Pmid(1), Param::U64(value.len() as u64));
    if record.commit().is_ok() {
        let record = batch.bytes();
        assert!(bound.cost(record.len()) <= MAX_COST);
        bound.matches(record);
    }
    // Bytes of whatever kind, too.
    bound.matches(value);
});

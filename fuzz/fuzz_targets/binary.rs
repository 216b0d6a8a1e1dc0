//! What a client of the ingest socket sends: frames behind the binary greeting, else lines.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use jumpseat::model::Timestamp;
use jumpseat::source::event::Limits;
use jumpseat::source::intake::{Intake, Shared};
use jumpseat::source::lanes::Lanes;
use jumpseat::source::registry::{Registry, RegistryConfig};

thread_local! {
    /// Made once: the tables of names are larger than all that is done with them in one run. They fill up, as they do in an
    /// agent, and what is left over from one connection must not harm the next.
    static SHARED: RefCell<Shared> = RefCell::new({
        let (registry, _definitions) = Registry::open(&RegistryConfig::new(400)).expect("nothing is on disk");
        let (out, _deliveries) = bounded(1000);
        let lanes = Lanes::new(registry, out, Arc::new(|| ()), Duration::ZERO);
        Shared::new(lanes, Limits::default(), "fuzz").expect("the name is allowed")
    });
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    SHARED.with_borrow_mut(|shared| {
        let mut intake = Intake::new(1, None, shared);
        let arrived = Timestamp::new(1_800_000_000, 0);
        let mut replies = Vec::new();
        let mut rest = data;
        loop {
            rest = &rest[intake.feed(rest, arrived, shared, &mut replies)..];
            if !intake.is_held() {
                break;
            }
        }
        shared.lanes.flush();
        intake.acknowledge(shared, &mut replies);
        intake.finish(rest, arrived, shared, &mut replies);
        intake.leave(shared);
    });
});

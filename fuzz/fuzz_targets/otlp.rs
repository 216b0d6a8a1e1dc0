//! The body of an OTLP request: the signal in the first byte; protobuf, and JSON that becomes it.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use jumpseat::source::lanes::{Arrival, Lanes};
use jumpseat::source::otlp::decode::{Decoder, Signal};
use jumpseat::source::otlp::{AttributeLimits, json};
use jumpseat::source::registry::{Registry, RegistryConfig};

thread_local! {
    /// Made once, as in `binary.rs`.
    static DECODER: RefCell<Decoder> = RefCell::new({
        let (registry, _definitions) = Registry::open(&RegistryConfig::new(400)).expect("nothing is on disk");
        let (out, _deliveries) = bounded(1000);
        let lanes = Lanes::new(registry, out, Arc::new(|| ()), Duration::ZERO);
        let limits = AttributeLimits { max_field: 1024, max_fields: 64 };
        Decoder::new(lanes, "otlp", true, "localhost:4318", limits).expect("the name is allowed")
    });
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, body)) = data.split_first() else { return };
    let signal = if first & 1 == 0 { Signal::Traces } else { Signal::Logs };
    DECODER.with_borrow_mut(|decoder| {
        decoder.request(Arrival::default(), signal, body);
        let mut protobuf = Vec::new();
        if json::transcode(signal, body, &mut protobuf).is_ok() {
            decoder.request(Arrival::default(), signal, &protobuf);
        }
    });
});

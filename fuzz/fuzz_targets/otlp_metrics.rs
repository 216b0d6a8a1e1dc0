//! The body of an OTLP request with metrics: protobuf, and JSON that becomes it; and the series that come of it.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use jumpseat::source::lanes::{Arrival, Lanes};
use jumpseat::source::otlp::decode::{Decoder, Signal};
use jumpseat::source::otlp::{AttributeLimits, json};
use jumpseat::source::registry::{Registry, RegistryConfig};
use jumpseat::source::series::{Batches, Series, SeriesConfig};

thread_local! {
    /// Made once, as in `binary.rs`.
    static DECODER: RefCell<(Decoder, Batches)> = RefCell::new({
        let (registry, _definitions) = Registry::open(&RegistryConfig::new(400)).expect("nothing is on disk");
        let (out, _deliveries) = bounded(1000);
        let lanes = Lanes::new(registry, out, Arc::new(|| ()), Duration::ZERO);
        let limits = AttributeLimits { max_field: 1024, max_fields: 64 };
        let mut decoder = Decoder::new(lanes, "otlp", true, "localhost:4318", limits).expect("the name is allowed");
        let config = SeriesConfig { max_series: 1000, max_metrics: 100, ..SeriesConfig::default() };
        let (series, batches) = Series::open(config, 400, None, Arc::new(|| ())).expect("nothing is on disk");
        decoder.set_series(series);
        (decoder, batches)
    });
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    DECODER.with_borrow_mut(|(decoder, batches)| {
        let mut take = |body: &[u8]| {
            let outcome = decoder.request(Arrival::default(), Signal::Metrics, body);
            assert!(!outcome.is_busy);
            while batches.take().is_some() {}
        };
        take(data);
        let mut protobuf = Vec::new();
        if json::transcode(Signal::Metrics, data, &mut protobuf).is_ok() {
            take(&protobuf);
        }
    });
});

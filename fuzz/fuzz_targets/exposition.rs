//! An answer of a target that is scraped: Prometheus' text format or OpenMetrics, and the series that come of it.
#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use jumpseat::source::scrape::exposition::Format;
use jumpseat::source::scrape::{Known, ScrapeConfig, Target};
use jumpseat::source::series::{Batches, Series, SeriesConfig};

thread_local! {
    /// Made once, as in `otlp_metrics.rs`.
    static SERIES: RefCell<(Series, Batches)> = RefCell::new({
        let config = SeriesConfig { max_series: 1000, max_metrics: 100, ..SeriesConfig::default() };
        Series::open(config, 400, None, Arc::new(|| ())).expect("nothing is on disk")
    });
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, body)) = data.split_first() else { return };
    let config = ScrapeConfig {
        name: "fuzz".into(),
        labels: BTreeMap::from([("env".to_owned(), "test".to_owned())]),
        honor_labels: first & 2 != 0,
        max_samples: 100,
        max_label: 64,
        ..ScrapeConfig::default()
    };
    let format = if first & 1 != 0 { Format::OpenMetrics } else { Format::Text };
    let target = Target::parse("localhost:9100", &config).expect("an address");
    let mut known = Known::of(&target, &config);
    SERIES.with_borrow_mut(|(series, batches)| {
        let mut take = |body: &[u8]| {
            let outcome = known.take(series, body, format).expect("the batches are taken");
            while batches.take().is_some() {}
            outcome
        };
        let met = take(body);
        // What is found again is what was found.
        assert_eq!(take(body), met);
        take(&body[..body.len() / 2]);
        take(body);
        let mut session = series.begin().expect("the batches are taken");
        known.forget_all(&mut session);
        session.commit();
        while batches.take().is_some() {}
        assert!(known.is_empty() && known.bytes() == 0);
    });
});

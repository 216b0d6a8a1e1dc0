//! Samples of targets that are known cost no allocation of their own, and answers that are made to take much memory take little.

use std::fmt::Write as _;
use std::sync::Arc;

use jumpseat_source::scrape::exposition::Format;
use jumpseat_source::scrape::{Known, ScrapeConfig, Target};
use jumpseat_source::series::{Batches, Series, SeriesConfig};
use support::alloc::{allocations, most_taken};

fn open(max: u32) -> (Series, Batches, Known) {
    let limits = SeriesConfig { max_per_metric: max, max_series: max, ..SeriesConfig::default() };
    let (series, batches) = Series::open(limits, 400, None, Arc::new(|| ())).expect("in memory");
    let config = ScrapeConfig { name: "node".into(), ..ScrapeConfig::default() };
    let target = Target::parse("h:9100", &config).expect("right");
    (series, batches, Known::of(&target, &config))
}

#[test]
fn samples_of_known_series_cost_no_allocation_of_their_own() {
    const SAMPLES: u64 = 10_000;
    let mut body = String::new();
    for n in 0..SAMPLES / 10 {
        let _ = writeln!(body, "# HELP m{n}_bytes Bytes.\n# TYPE m{n}_bytes gauge");
        for device in 0..10 {
            let _ =
                writeln!(body, "m{n}_bytes{{device=\"eth{device}\",path=\"C:\\\\x\\n\"}} {device}.5e3 123");
        }
    }
    let (series, batches, mut known) = open(20_000);
    for is_first in [true, false] {
        let before = allocations();
        let outcome = known.take(&series, body.as_bytes(), Format::Text).expect("room");
        let allocated = allocations() - before;
        assert_eq!((outcome.samples, outcome.first), (SAMPLES, None));
        while batches.take().is_some() {}
        // Three portions, each with a batch of values that grows.
        assert_eq!(is_first, allocated > 100, "{allocated}");
    }
}

#[test]
fn answers_made_to_hurt_take_little_memory() {
    const SIZE: usize = 256 << 10;
    const SERIES: u32 = 2000;
    let bodies = [
        ("a line without an end", "x".repeat(SIZE)),
        ("labels without an end", format!("x{{{}", "a=\"b\",".repeat(SIZE / 6))),
        ("quotes without an end", format!("x{{a=\"{}", "\\\"".repeat(SIZE / 2))),
        ("short lines", "x\n".repeat(SIZE / 2)),
        ("blank lines", "\n".repeat(SIZE)),
        ("the same series", "x 1\n".repeat(SIZE / 4)),
        ("series without end", (0..SIZE / 12).map(|n| format!("x{{a=\"{n}\"}} 1\n")).collect()),
        ("metrics without end", (0..SIZE / 12).map(|n| format!("m{n} 1\n")).collect()),
        (
            "families without end",
            (0..SIZE / 16).map(|n| format!("# TYPE m{n} gauge\n")).collect::<String>() + "x 1\n",
        ),
        ("an exemplar without end", format!("x 1 # {{a=\"{}\"}} 1\n# EOF\n", "y".repeat(SIZE))),
        ("numbers", format!("x {}\n", "1".repeat(SIZE))),
    ];
    for (what, body) in &bodies {
        let (series, batches, mut known) = open(SERIES);
        let taken = most_taken(|| {
            for format in [Format::Text, Format::OpenMetrics] {
                known.take(&series, body.as_bytes(), format).expect("room");
                while batches.take().is_some() {}
            }
        });
        // Series that are kept, as many as there may be; and what families are called.
        assert!(taken < 16 * SIZE, "{what}: {taken} bytes for {}", body.len());
    }
}

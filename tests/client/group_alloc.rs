//! Fetching with a group allocates nothing once its buffers have grown.

use jumpseat::client::group::{FetchGroup, Scale};
use support::alloc::allocations;
use support::{AgentSpec, PrivatePmcd};

#[test]
fn a_warm_fetch_allocates_nothing() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut group = FetchGroup::host(&pmcd.inet()).expect("pmcd listens");
    let (mut numbers, mut texts) = (Vec::new(), Vec::new());
    for metric in ["sample.long.bin_ctr", "sample.double.bin", "sample.string.bin", "sample.colour"] {
        let instances: &[&str] = if metric == "sample.colour" { &["red"] } else { &["bin-100", "bin-500"] };
        for instance in instances {
            numbers.push(group.item::<f64>(metric, Some(instance), "rate").expect("it is there"));
            texts.push(group.item::<String>(metric, Some(instance), Scale::Instant).expect("it is there"));
        }
    }
    let hordes = group.indom::<f64>("sample.hordes.one", Scale::Rate, 1000).expect("it is there");
    let bins = group.indom::<String>("sample.string.bin", Scale::None, 100).expect("it is there");
    let records = ("sample.event.highres_records", Some("fungus"));
    let field = "sample.event.param_string";
    let events = group.event::<String>(records.0, records.1, field, Scale::None, 10).expect("it is there");

    let (mut warm, mut values) = (0, 0);
    for fetch in 0..40 {
        let before = allocations();
        group.fetch().expect("pmcd answers");
        values += numbers.iter().filter(|&&item| group.value(item).is_ok()).count();
        values += texts.iter().filter(|&&item| group.value(item).is_ok_and(|text| !text.is_empty())).count();
        values += group.rows(hordes).map_or(0, |rows| rows.filter(|row| row.value.is_ok()).count());
        values += group.rows(bins).map_or(0, |rows| rows.filter(|row| row.name.is_some()).count());
        values += group.events(events).map_or(0, |rows| rows.filter(|row| row.value.is_ok()).count());
        let allocations = allocations() - before;
        if fetch == 0 {
            assert!(allocations > 0, "the counter counts");
        }
        warm = if fetch < 20 { 0 } else { warm + allocations };
    }
    assert!(values > 40 * 500, "{values}");
    assert_eq!(warm, 0, "allocations in 20 warm fetches");
}

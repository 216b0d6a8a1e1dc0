use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::super::details::{Details, Last, Rules, Seen, Which};
use super::*;
use crate::config::{DimensionsConfig, MAX_DIMENSIONS};
use crate::state::fields::Fields;
use jumpseat_source::Interval;
use pcp_event::packed::PackedParam;
use pcp_model::{Pmid, Timestamp, ValueType};

const ROUTE: Pmid = Pmid::new(400, 16, 20);
const STATUS: Pmid = Pmid::new(400, 16, 21);
const SPAN_ID: Pmid = Pmid::new(400, 16, 2);

struct Bench {
    series: AllSeries,
    names: Instances,
    rule: std::sync::Arc<Rule>,
    max: u32,
}

fn text(pmid: Pmid, text: &str) -> PackedParam<'_> {
    PackedParam { pmid, value_type: ValueType::String.code() as u32, bytes: text.as_bytes() }
}

fn bench(max_per_name: u32, max_per_source: u32) -> Bench {
    let mut names = Instances::in_memory();
    for (inst, name) in [(0, "app/a"), (1, "app/b")] {
        names.add_as(inst, name).expect("a new name");
    }
    let config = DimensionsConfig {
        fields: vec!["route".to_owned(), "status".to_owned()],
        max_per_source,
        max_per_name,
        idle: Interval(Duration::from_nanos(100)),
        ..DimensionsConfig::default()
    };
    let mut fields = Fields::default();
    fields.define(ROUTE, "route".to_owned(), "route".to_owned(), ValueType::String);
    fields.define(STATUS, "status".to_owned(), "status".to_owned(), ValueType::U32);
    let mut rules = Rules::new(400, vec![config], false);
    rules.add(0, "app");
    rules.look_up(&fields);
    let rule = rules.of(0).expect("it matches");
    Bench { series: AllSeries::new(), names, rule, max: 1000 }
}

impl Bench {
    /// A span that has ended, with values at its start and at its end.
    fn ended(&mut self, span: Inst, start: &[PackedParam<'_>], end: &[PackedParam<'_>], now: u64) {
        let (mut first, mut kept) = (Details::default(), Details::default());
        let [mut of_start, mut seen] = [(); 2].map(|()| Seen::of(text(SPAN_ID, "s")));
        self.rule.see(&mut of_start, start.iter().copied(), |_| {});
        self.rule.keep(&mut first, &of_start, Which::Start);
        self.rule.see(&mut seen, end.iter().copied(), |_| {});
        self.rule.keep(&mut kept, &seen, Which::End);
        // Whether it was kept or is seen makes no difference.
        let both = [Last::Seen(&seen), Last::Kept(&kept)];
        let [key, same] = both.map(|last| {
            let mut key = Vec::new();
            self.rule.key(&mut key, &first, last);
            (key, last.trace(), last.span())
        });
        assert_eq!(key, same);
        let last = both[now as usize % 2];
        let of = Of { source: 0, span, names: &self.names, max: self.max };
        let at = Timestamp::from_nanos(0);
        let ended = Ended { nanos: 5, failed: false, at, start: &first, end: last };
        self.series.ended(&self.rule, &of, &ended, When { nanos: now, half: 0 });
        self.series.take_names();
    }

    fn counts(&self) -> BTreeMap<&str, u64> {
        let named = self.series.instances.iter();
        named
            .map(|(inst, name)| (name, self.series.get(inst).expect("it has a series").figures.count))
            .collect()
    }

    fn all(&self) -> u64 {
        self.series.iter().map(|series| series.figures.count).sum()
    }
}

#[test]
fn values_of_both_ends_make_a_series_and_those_of_the_end_hold() {
    let mut bench = bench(10, 10);
    let ok = 200_u32.to_be_bytes();
    let status = PackedParam { pmid: STATUS, value_type: ValueType::U32.code() as u32, bytes: &ok };
    bench.ended(0, &[text(ROUTE, "/cart")], &[status], 1);
    bench.ended(0, &[], &[text(ROUTE, "/cart"), text(STATUS, "200")], 1);
    bench.ended(0, &[text(ROUTE, "/else"), status], &[text(ROUTE, "/cart")], 1);
    bench.ended(1, &[], &[text(ROUTE, "/cart"), status], 1);
    bench.ended(0, &[], &[status], 1);
    bench.ended(0, &[], &[], 1);
    assert_eq!(
        bench.counts(),
        [("app/a:/cart:200", 3), ("app/b:/cart:200", 1), ("app/a::200", 1), ("app/a::", 1)].into()
    );
}

#[test]
fn series_whose_hashes_are_the_same_are_told_apart() {
    let mut bench = bench(5, 10);
    bench.series.hasher = HashKeys::colliding(HASHED);
    for now in 1..=2 {
        for (route, status) in [("", ""), ("a", ""), ("", "a"), ("a", "a"), ("aa", ""), ("b", ""), ("c", "")]
        {
            bench.ended(0, &[text(ROUTE, route)], &[text(STATUS, status)], now);
        }
        bench.ended(1, &[], &[text(ROUTE, "a")], now);
    }
    let (first, second) = (["app/a::", "app/a:a:", "app/a::a", "app/a:a:a", "app/a:aa:"], "app/b:a:");
    let mut expected: BTreeMap<&str, u64> = first.into_iter().chain([second]).map(|name| (name, 2)).collect();
    expected.insert("app/a:(other)", 4);
    assert_eq!(bench.counts(), expected);
}

#[test]
fn a_value_that_has_to_be_written_down_is_found_again() {
    let mut bench = bench(10, 10);
    let (half, most) = (0.5_f64.to_be_bytes(), u64::MAX.to_be_bytes());
    let number = |value_type: ValueType, bytes| PackedParam {
        pmid: STATUS,
        value_type: value_type.code() as u32,
        bytes,
    };
    let numbers = [number(ValueType::Double, &half), number(ValueType::U64, &most)];
    let long = "x".repeat(300);
    for now in 1..=4 {
        for number in numbers {
            // The END's is the one that counts, also if it has to be written down and the START's has not.
            bench.ended(0, &[text(ROUTE, "/a"), text(STATUS, "200")], &[number], now);
        }
        bench.ended(0, &[text(ROUTE, "/a")], &[text(ROUTE, &long)], now);
    }
    let counts = bench.counts();
    assert_eq!(counts.values().collect::<Vec<_>>(), [&4, &4, &4], "{counts:?}");
    assert_eq!(counts.get("app/a:/a:0.5"), Some(&4));
    assert_eq!(counts.get("app/a:/a:18446744073709551615"), Some(&4));
}

#[test]
fn a_series_of_fewer_dimensions_is_another_one() {
    let mut bench = bench(10, 10);
    bench.ended(0, &[], &[], 1);
    let mut fewer = DimensionsConfig { fields: vec!["route".to_owned()], ..DimensionsConfig::default() };
    fewer.idle = bench.rule.config.idle;
    let mut rules = Rules::new(400, vec![fewer], false);
    rules.add(0, "app");
    bench.rule = rules.of(0).expect("it matches");
    bench.ended(0, &[], &[], 2);
    assert_eq!(bench.counts(), [("app/a::", 1), ("app/a:", 1)].into());
}

#[test]
fn values_that_a_name_cannot_have_are_told_apart() {
    let mut bench = bench(10, 10);
    for route in ["GET /x", "GET_/x", "GET\t/x", "a:b", &"x".repeat(300), &format!("{}y", "x".repeat(299))] {
        bench.ended(0, &[], &[text(ROUTE, route)], 1);
    }
    let counts = bench.counts();
    // The two that are long differ only behind what is looked at.
    assert_eq!(counts.len(), 5, "{counts:?}");
    assert_eq!(counts["app/a:GET_/x:"], 1);
    assert!(counts.keys().all(|name| !name.contains([' ', '\t']) && name.len() < 80), "{counts:?}");
}

#[test]
fn beyond_the_budget_spans_count_as_other_until_a_series_is_idle() {
    let mut bench = bench(3, 4);
    for (route, now) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("a", 50)] {
        bench.ended(0, &[], &[text(ROUTE, route)], now);
    }
    assert_eq!(
        bench.counts(),
        [("app/a:a:", 2), ("app/a:b:", 1), ("app/a:c:", 1), ("app/a:(other)", 2)].into()
    );
    assert_eq!((bench.series.folded, bench.series.evicted, bench.series.count()), (2, 0, 3));
    // The source's budget: one of the other span fits.
    bench.ended(1, &[], &[text(ROUTE, "a")], 60);
    bench.ended(1, &[], &[text(ROUTE, "b")], 60);
    assert_eq!((bench.series.folded, bench.series.count()), (3, 4));
    // Two are idle by now, of which the one that was used least recently goes.
    let before = bench.series.instances.find("app/a:b:");
    bench.ended(0, &[], &[text(ROUTE, "f")], 110);
    assert_eq!((bench.series.evicted, bench.series.folded), (1, 3));
    assert!(bench.series.instances.find("app/a:b:").is_err() && bench.counts()["app/a:f:"] == 1);
    // It comes back with its number, and from zero.
    bench.ended(0, &[], &[text(ROUTE, "b")], 120);
    assert_eq!(bench.series.instances.find("app/a:b:"), before);
    assert_eq!((bench.counts()["app/a:b:"], bench.series.evicted), (1, 2));
}

#[test]
fn one_look_at_all_places_pays_for_many_newcomers_of_a_small_budget() {
    let mut bench = bench(10, 1000);
    for n in 0..200 {
        bench.ended(n / 10, &[], &[text(ROUTE, &n.to_string())], 1);
    }
    assert_eq!((bench.series.places.len(), bench.series.evicted), (200, 0));
    // All are idle; of the ten of the span a 64th of all 200 go at once.
    for (route, evicted, count) in [("a", 3, 198), ("b", 3, 199), ("c", 3, 200), ("d", 6, 198)] {
        bench.ended(0, &[], &[text(ROUTE, route)], 1000);
        assert_eq!((bench.series.evicted, bench.series.count()), (evicted, count), "{route}");
    }
    assert_eq!(bench.series.folded, 0);
}

#[test]
fn a_million_label_sets_take_no_more_than_their_budget() {
    let mut bench = bench(100, 1000);
    for n in 0..200_000_u32 {
        let status = n.to_be_bytes();
        let status = PackedParam { pmid: STATUS, value_type: ValueType::U32.code() as u32, bytes: &status };
        // Far apart at last, so that all that there are go.
        bench.ended(0, &[], &[status], u64::from(n / 100_000) * 1000);
    }
    assert_eq!(bench.all() + bench.series.evicted, 200_000, "each evicted one had a single span");
    assert_eq!((bench.series.count(), bench.series.evicted), (100, 100));
    assert!(bench.series.places.len() <= 101 && bench.series.by_key.len() <= 101);
    bench.series.span_gone(0);
    assert_eq!((bench.series.count(), bench.series.iter().count(), bench.counts().len()), (0, 0, 0));
    assert!(bench.series.used.is_empty());
}

proptest! {
    /// Whatever comes, each span is counted once, budgets hold, and tables agree.
    #[test]
    fn spans_are_counted_once_and_budgets_hold(
        spans in prop::collection::vec((0..2_i32, 0..30_u8, 0..60_u64), 0..300),
        max_per_name in 0..6_u32, max_per_source in 0..9_u32, max in 0..9_u32,
    ) {
        let mut bench = bench(max_per_name, max_per_source);
        bench.max = max;
        let (mut now, mut lost) = (0, 0);
        for (number, (span, route, later)) in spans.into_iter().enumerate() {
            now += later;
            let before = (bench.series.evicted, bench.all());
            bench.ended(span, &[], &[text(ROUTE, &route.to_string())], now);
            // What was evicted takes its counts along.
            prop_assert!(bench.series.evicted > before.0 || bench.all() == before.1 + 1);
            lost += (before.1 + 1) - bench.all();
            prop_assert_eq!(bench.all() + lost, number as u64 + 1);
            prop_assert!(bench.series.count() <= max_per_source.min(max));
            for span in [0, 1] {
                let of = bench.series.iter().filter(|series| series.span == span && !series.is_other()).count();
                prop_assert!(of as u32 <= max_per_name);
            }
            prop_assert_eq!(bench.series.by_inst.len(), bench.series.iter().count());
            prop_assert_eq!(bench.series.by_key.len(), bench.series.iter().count());
        }
        prop_assert!(MAX_DIMENSIONS >= 2);
    }
}

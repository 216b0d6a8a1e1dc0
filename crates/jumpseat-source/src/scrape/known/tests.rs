use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;
use crate::series::batch::MetricMeaning;
use crate::series::{Batches, Defined, Gone, SeriesConfig, decode};
use proptest::prelude::*;

/// A target, and a reader of what becomes of its answers.
struct Bench {
    series: Series,
    batches: Batches,
    known: Known,
    metrics: Vec<Arc<MetricMeaning>>,
    names: HashMap<(u32, i32), String>,
    /// By slot: metric, instance, value.
    values: BTreeMap<u32, (String, String, String)>,
    /// How often a series was made.
    made: usize,
}

impl Bench {
    fn with(limits: SeriesConfig, change: impl FnOnce(&mut Owner)) -> Bench {
        let (series, batches) = Series::open(limits, 400, None, Arc::new(|| ())).expect("in memory");
        let labels = BTreeMap::from([("env".to_owned(), "test".to_owned())]);
        let config = ScrapeConfig { name: "node".into(), labels, ..ScrapeConfig::default() };
        let mut owner = Owner::of(&Target::parse("h:1", &config).expect("right"), &config, &Rc::default());
        change(&mut owner);
        Bench {
            series,
            batches,
            known: Known::new(owner),
            metrics: Vec::new(),
            names: HashMap::default(),
            values: BTreeMap::new(),
            made: 0,
        }
    }

    fn new() -> Bench {
        Bench::with(SeriesConfig::default(), |_| ())
    }

    fn take(&mut self, body: &str, format: Format) -> Outcome {
        let outcome = self.known.take(&self.series, body.as_bytes(), format).expect("room");
        self.read();
        outcome
    }

    fn text(&mut self, body: &str) -> Outcome {
        self.take(body, Format::Text)
    }

    fn read(&mut self) {
        while let Some(batch) = self.batches.take() {
            for gone in batch.gone {
                if let Gone::Series { slot, .. } = gone {
                    self.values.remove(&slot);
                }
            }
            for defined in batch.defined {
                match defined {
                    Defined::Metric(meaning) => self.metrics.push(meaning),
                    Defined::Instance { serial, inst, name, .. } => {
                        self.names.insert((serial, inst), name.into());
                    }
                    Defined::Series { pmid, inst, slot } => {
                        self.made += 1;
                        let metric = self.metrics.iter().find(|metric| metric.pmid == pmid).expect("defined");
                        let name = self.names[&(metric.serial, inst)].clone();
                        let mark = metric.branch.mark();
                        self.values.insert(slot, (format!("{mark}{}", metric.name), name, String::new()));
                    }
                }
            }
            for point in batch.points {
                let place = self.values.get_mut(&point.slot).expect("defined");
                let metric = self.metrics.iter().find(|metric| metric.name == place.0).expect("defined");
                let number = match metric.value_type {
                    pcp_model::ValueType::U64 => Number::U64,
                    _ => Number::Double,
                };
                place.2 = decode(point.bits, number).to_string();
            }
            for (slot, text) in batch.texts {
                self.values.get_mut(&slot).expect("defined").2 = text.into();
            }
        }
    }

    /// All values: metric, instance, value.
    fn told(&self) -> Vec<String> {
        let mut all: Vec<String> =
            self.values.values().map(|(metric, name, value)| format!("{metric} {name} {value}")).collect();
        all.sort();
        all
    }

    fn about(&self, name: &str) -> String {
        let metric = self.metrics.iter().find(|metric| metric.name == name).expect(name);
        format!(
            "{} {} {} [{}] {}",
            metric.semantics.name(),
            metric.value_type.name(),
            metric.units,
            metric.unit,
            metric.help
        )
    }
}

#[test]
fn each_type_of_prometheus_becomes_what_it_is() {
    let mut bench = Bench::new();
    let outcome = bench.text(
        "# HELP http_requests_total Requests\\nso far.\n# TYPE http_requests_total counter\n\
         http_requests_total{code=\"200\"} 1027 1395066363000\n\
         # TYPE mem_bytes gauge\nmem_bytes NaN\n\
         # TYPE t_seconds histogram\nt_seconds_bucket{le=\"0.05\"} 24054\nt_seconds_bucket{le=\"+Inf\"} 144320\n\
         t_seconds_sum 53423\nt_seconds_count 144320\n\
         # TYPE rpc summary\nrpc{quantile=\"0.5\"} 4773\nrpc_sum 1.7560473e+07\nrpc_count 2693\n\
         plain 12.47\n",
    );
    assert_eq!((outcome.samples, outcome.first), (10, None));
    assert_eq!(
        bench.told(),
        [
            "http_requests_total node@h:1{code=200,env=test} 1027",
            "mem_bytes node@h:1{env=test} NaN",
            "plain node@h:1{env=test} 12.47",
            "rpc.count node@h:1{env=test} 2693",
            "rpc.quantile node@h:1{env=test,quantile=0.5} 4773",
            "rpc.sum node@h:1{env=test} 17560473",
            "t_seconds.bucket node@h:1{env=test,le=+Inf} 144320",
            "t_seconds.bucket node@h:1{env=test,le=0.05} 24054",
            "t_seconds.count node@h:1{env=test} 144320",
            "t_seconds.sum node@h:1{env=test} 53423",
        ]
    );
    assert_eq!(bench.about("http_requests_total"), "counter DOUBLE  [] Requests\nso far.");
    assert_eq!(bench.about("mem_bytes"), "instant DOUBLE byte [By] ");
    assert_eq!(bench.about("t_seconds.sum"), "counter DOUBLE sec [s] ");
    assert_eq!(bench.about("t_seconds.bucket"), "counter U64 count [s] ");
    assert_eq!(bench.about("rpc.quantile"), "instant DOUBLE  [] ");
}

#[test]
fn each_type_of_openmetrics_becomes_what_it_is() {
    let mut bench = Bench::new();
    let body = "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
         a_seconds_total 17 # {trace_id=\"abc\",span_id=\"d\"} 0.5 1520879607.789\na_seconds_created 1520430000.123\n\
         # TYPE s stateset\ns{s=\"on\"} 1\ns{s=\"off\"} 0\n\
         # TYPE b info\nb_info{version=\"1\"} 1\n\
         # TYPE g gaugehistogram\ng_bucket{le=\"1.0\"} 2 # {trace_id=\"x\"} 0.7\ng_bucket{le=\"+Inf\"} 3\ng_gcount 3\ng_gsum -2.5\n\
         # TYPE u unknown\nu 5\n# EOF\n";
    let outcome = bench.take(body, Format::OpenMetrics);
    assert_eq!((outcome.samples, outcome.first), (10, None));
    let expected = [
        "!a_seconds_total node@h:1{env=test} trace_id=abc span_id=d value=0.5 time=1520879607.789000000",
        "!g node@h:1{env=test,le=1.0} trace_id=x value=0.7",
        "a_seconds_created node@h:1{env=test} 1520430000.123",
        "a_seconds_total node@h:1{env=test} 17",
        "b_info node@h:1{env=test,version=1} 1",
        "g.bucket node@h:1{env=test,le=+Inf} 3",
        "g.bucket node@h:1{env=test,le=1} 2",
        "g.count node@h:1{env=test} 3",
        "g.sum node@h:1{env=test} -2.5",
        "s node@h:1{env=test,s=off} 0",
        "s node@h:1{env=test,s=on} 1",
        "u node@h:1{env=test} 5",
    ];
    assert_eq!(bench.told(), expected);
    assert_eq!(bench.about("a_seconds_total"), "counter DOUBLE sec [s] ");
    assert_eq!(bench.about("a_seconds_created"), "instant DOUBLE sec [s] ");
    assert_eq!(bench.about("g.count"), "instant U64 count [] ");

    // The same again makes nothing new; an exemplar that is another one is told.
    let made = bench.made;
    let outcome = bench.take(&body.replace("0.5 1520879607", "0.6 1520879608"), Format::OpenMetrics);
    assert_eq!((outcome.samples, bench.made), (10, made));
    assert!(bench.told()[0].ends_with("value=0.6 time=1520879608.789000000"), "{:?}", bench.told());
    // Nor is it gone where another family is what has changed.
    bench.take(&body.replace("# TYPE u unknown", "# TYPE u gauge"), Format::OpenMetrics);
    assert_eq!(bench.told(), expected);
}

#[test]
fn exemplars_are_told_whole_and_in_words_that_come_apart() {
    for (exemplar, expected) in [
        (
            r#"{trace_id="0a",user="ann \"b\" c\\d=\n%"} 1 1605281325.123456789"#,
            r#"trace_id=0a user=ann%20"b"%20c\d=%0a%25 value=1.0 time=1605281325.123456789"#,
        ),
        (r#"{"a b=c"="ü"} 0.1234567890123456"#, "a%20b%3dc=ü value=0.1234567890123456"),
        ("{} 9007199254740993 12", "value=9007199254740992.0 time=12.000000000"),
        ("{} -1e300 1.6e9", "value=-1e300 time=1600000000.000000000"),
        // What no reader could take for a time.
        ("{} +Inf -5", "value=inf"),
        ("{} NaN 1e300", "value=NaN"),
        ("{} 1 1.00000000019", "value=1.0 time=1.000000000"),
    ] {
        let mut bench = Bench::new();
        let body = format!("# TYPE a counter\na_total 1 # {exemplar}\n# EOF\n");
        bench.take(&body, Format::OpenMetrics);
        assert_eq!(bench.told()[0], format!("!a_total node@h:1{{env=test}} {expected}"), "{exemplar}");
    }
}

#[test]
fn what_is_left_out_is_forgotten_and_order_makes_no_difference() {
    let mut bench = Bench::new();
    bench.text("a{n=\"1\"} 1\na{n=\"2\"} 2\nb 3\nb{n=\"1\"} 4\n");
    assert_eq!((bench.values.len(), bench.made), (4, 4));
    let outcome = bench.text("b {n=\"1\"} 40\nb 30\na{n=\"2\"} 20\n a{n=\"1\"} 10\n");
    assert_eq!((outcome.samples, outcome.first), (4, None));
    // Written in another way, and the same series.
    assert_eq!(bench.made, 4);
    let all = [
        "a node@h:1{env=test,n=1} 10",
        "a node@h:1{env=test,n=2} 20",
        "b node@h:1{env=test,n=1} 40",
        "b node@h:1{env=test} 30",
    ];
    assert_eq!(bench.told(), all);
    let bytes = bench.known.bytes();
    bench.text("b 31\n");
    assert_eq!(bench.told(), ["b node@h:1{env=test} 31"]);
    assert!(bench.known.bytes() < bytes && bench.known.owner.count.get() == 1);
    let mut session = bench.series.begin().expect("room");
    bench.known.forget_all(&mut session);
    session.commit();
    bench.read();
    assert_eq!((bench.told().len(), bench.known.bytes(), bench.known.owner.count.get()), (0, 0, 0));
    assert_eq!(bench.series.stats().series.load(Ordering::Relaxed), 0);
}

#[test]
fn another_type_is_another_metric_and_the_old_one_goes() {
    let mut bench = Bench::new();
    bench.text("# TYPE a gauge\na 1\n");
    bench.text("# TYPE a counter\na 2\n");
    assert_eq!(bench.told(), ["a_x02 node@h:1{env=test} 2"]);
    bench.text("# TYPE a counter\n# TYPE b gauge\na 3\n");
    assert_eq!(bench.told(), ["a_x02 node@h:1{env=test} 3"]);
}

#[test]
fn labels_of_the_target_win_or_not() {
    let body =
        "a{job=\"theirs\",instance=\"i\",env=\"prod\",empty=\"\"} 1\nb{job=\"\",instance=\"\",env=\"\"} 2\n";
    let mut bench = Bench::new();
    bench.text(body);
    let ours = [
        "a node@h:1{env=test,exported_env=prod,exported_instance=i,exported_job=theirs} 1",
        "b node@h:1{env=test} 2",
    ];
    assert_eq!(bench.told(), ours);
    let mut bench = Bench::with(SeriesConfig::default(), |owner| owner.honor_labels = true);
    bench.text(body);
    assert_eq!(bench.told(), ["a theirs@i{env=prod} 1", "b unknown 2"]);
    let mut bench = Bench::new();
    bench.text("a{job=\"x\",exported_job=\"y\"} 1\n");
    assert_eq!(bench.told(), ["a node@h:1{env=test,exported_exported_job=x,exported_job=y} 1"]);
}

#[test]
fn a_line_that_is_wrong_costs_itself() {
    let mut bench = Bench::with(SeriesConfig::default(), |owner| {
        owner.max_label = 20;
        owner.max_samples = 6;
    });
    let long = "x".repeat(21);
    let body = format!(
        "a 1\n<html>\na 2\nb{{l=\"{long}\"}} 3\n# TYPE c counter\nc -1\n# TYPE h histogram\nh_bucket{{le=\"x\"}} 1\n\
         h_bucket{{le=\"1\"}} 1.5\n# TYPE z zebra\nd 1\ne 2\nf 3\ng 4\ni 5\nj 6\nk 7\n"
    );
    let outcome = bench.text(&body);
    // Syntax, label, number, duplicate, limit.
    assert_eq!((outcome.samples, outcome.refused), (6, [3, 1, 2, 1, 2]));
    assert_eq!(outcome.first, Some((2, 7, "a value that is no number")));
    assert!(!outcome.is_garbage());
    assert_eq!(bench.values.len(), 6);
    assert!(bench.text("<html>\n</html>\n").is_garbage());
    assert!(!bench.text("").is_garbage());
    assert!(bench.values.is_empty());
}

#[test]
fn what_is_beyond_a_limit_is_refused_or_overflows() {
    let limits = SeriesConfig { max_per_metric: 2, ..SeriesConfig::default() };
    let mut bench = Bench::with(limits, |owner| owner.max_series = 5);
    let mut body = String::from("# TYPE c counter\n");
    for n in 0..4 {
        body += &format!("c{{n=\"{n}\"}} {n}\ng{{n=\"{n}\"}} {n}\n");
    }
    let outcome = bench.text(&body);
    // Two of each fit; gauges go on in an instance for all, counters do not.
    assert_eq!((outcome.samples, outcome.refused[Refusal::Limit as usize]), (6, 2));
    assert!(bench.told().contains(&"g {otel.metric.overflow=true} 3".to_owned()), "{:?}", bench.told());
    assert_eq!(bench.series.stats().overflowed.load(Ordering::Relaxed), 2);
    let outcome = bench.text(&format!("{body}x 1\n# TYPE y counter\ny 1\n"));
    assert_eq!((bench.known.len(), outcome.samples), (5, 7));
}

#[test]
fn what_was_forgotten_meanwhile_is_found_again() {
    let mut bench = Bench::new();
    bench.text("a 1\nb{x=\"1\"} 2\n");
    let ids: Vec<SeriesId> = bench.known.entries.iter().map(|entry| entry.series).collect();
    let mut session = bench.series.begin().expect("room");
    ids.into_iter().for_each(|id| session.forget(id));
    session.commit();
    bench.read();
    assert!(bench.values.is_empty());
    bench.text("a 3\nb{x=\"1\"} 4\n");
    assert_eq!(bench.told(), ["a node@h:1{env=test} 3", "b node@h:1{env=test,x=1} 4"]);
}

#[test]
fn a_long_answer_is_taken_in_by_portions() {
    let limits = SeriesConfig { max_per_metric: 20_000, ..SeriesConfig::default() };
    let mut bench = Bench::with(limits, |_| ());
    let body: String = (0..2 * PORTION + 10).map(|n| format!("a{{n=\"{n}\"}} {n}\n")).collect();
    let mut pass = bench.known.begin(body.as_bytes(), Format::Text);
    let mut portions = 1;
    loop {
        let mut session = bench.series.begin().expect("room");
        let is_done = pass.step(&mut bench.known, &mut session);
        session.commit();
        bench.read();
        if is_done {
            break;
        }
        portions += 1;
    }
    assert_eq!((portions, bench.values.len()), (3, 2 * PORTION + 10));
}

proptest! {
    /// Whatever comes, an answer that comes again is what it was, and nothing of it is left when it is forgotten.
    #[test]
    fn the_same_answer_is_the_same_again(
        parts in prop::collection::vec(
            prop_oneof![
                "# TYPE [ab](_total)? (counter|gauge|histogram|summary|zebra)\n",
                "[ab](_bucket|_sum|_count|_total)?([{](le|x|job)=\"[01]?\"[}])? (-?[0-9]|NaN|\\+Inf|x)( # [{]y=\"z\"[}] 1)?\n",
                "\\PC{0,8}\n",
            ],
            0..30,
        ),
        is_open: bool,
    ) {
        let (body, format) = (parts.concat(), if is_open { Format::OpenMetrics } else { Format::Text });
        let mut bench = Bench::with(SeriesConfig { max_per_metric: 2, ..SeriesConfig::default() }, |_| ());
        let met = bench.take(&body, format);
        let told = bench.told();
        prop_assert_eq!(bench.take(&body, format), met);
        prop_assert_eq!(bench.told(), told);
        bench.take(&body[..body.floor_char_boundary(body.len() / 2)], format);
        bench.take(&body, format);
        let mut session = bench.series.begin().expect("room");
        bench.known.forget_all(&mut session);
        session.commit();
        bench.read();
        prop_assert!(bench.known.is_empty());
        prop_assert!(bench.told().iter().all(|told| told.contains("otel.metric.overflow")), "{:?}", bench.told());
    }
}

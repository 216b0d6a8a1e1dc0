//! Definitions over other agents' metrics, with reports as the sampler makes them.

use std::time::{Duration, Instant};

use super::tests::Fixture;
use super::*;
use crate::Clients;
use crate::metrics::derived::read_own;
use crate::sampler::{ForeignSample, Handle, Metadata};
use crate::state::State;
use pcp_model::{
    IndomProfile, Inst, InstanceValue, PM_IN_NULL, ProfileState, Semantics, Timestamp, Units, Value,
    ValueType,
};
use pcp_pmda::{Core, Instances, TextLevel};

/// Nobody is there: all reports are the test's.
const NOWHERE: &str = "unix:/nowhere/pmcd.socket";
/// Long: nothing gets old in a test by itself.
const INTERVAL: Duration = Duration::from_secs(1000);
const DISKS: InDom = InDom::new(60, 1);

/// What pmcd would say about the metrics of these tests.
fn desc(name: &str) -> Result<Desc, PmError> {
    let (item, value_type, indom, semantics) = match name {
        "disk.reads" => (1, ValueType::U64, DISKS, Semantics::Counter),
        "disk.busy" => (2, ValueType::U32, DISKS, Semantics::Instant),
        "load" => (3, ValueType::Double, InDom::NULL, Semantics::Instant),
        "events" => (4, ValueType::Event, InDom::NULL, Semantics::Instant),
        "taken" => (5, ValueType::U32, InDom::new(400, 1), Semantics::Instant),
        "passing" => return Err(PmError::NOAGENT),
        _ => return Err(PmError::NAME),
    };
    let units = if semantics == Semantics::Counter { Units::COUNT } else { Units::NONE };
    Ok(Desc { pmid: Pmid::new(60, 0, item), value_type, indom, semantics, units })
}

/// Puts a report into effect, as the event loop does.
fn apply(core: &mut Core<State>, report: Report) {
    let operands = core.state.derived.apply(report);
    read_own(core, operands);
}

/// An agent under pmcd, and the reports it gets.
struct Sampled {
    fixture: Fixture,
    metadata: Arc<Metadata>,
    samples: u64,
}

impl Sampled {
    fn new(definitions: &str) -> Sampled {
        Sampled::with(definitions, |_| ())
    }

    fn with(definitions: &str, settings: impl FnOnce(&mut DerivedConfig)) -> Sampled {
        let fixture = Fixture::with(definitions, Clients::Pmcd, |config| {
            config.pmcd = Some(NOWHERE.to_owned());
            config.sample_interval = crate::config::Interval(INTERVAL);
            settings(config);
        });
        Sampled { fixture, metadata: Arc::default(), samples: 0 }
    }

    fn derived(&mut self) -> &mut Derived {
        &mut self.fixture.core().state.derived
    }

    fn handle(&mut self, name: &str) -> Handle {
        self.derived().foreign.handle(name).unwrap_or_else(|| panic!("{name} is no operand"))
    }

    /// pmcd has told about these operands.
    fn learn(&mut self, names: &[&str]) {
        let metadata = names.iter().map(|name| (self.handle(name), desc(name))).collect();
        self.metadata = Arc::new(metadata);
        self.report(None);
    }

    fn report(&mut self, sample: Option<Arc<ForeignSample>>) {
        let metadata = Arc::clone(&self.metadata);
        let host = self.derived().foreign.host.clone().unwrap();
        apply(self.fixture.core(), Report { host, metadata, sample });
    }

    /// A sample of a time in seconds, which came some time ago.
    fn sample_of(&mut self, time: i64, ago: Duration, values: &[(&str, &[(Inst, Value)])]) {
        self.samples += 1;
        let value = |(inst, value): &(Inst, Value)| InstanceValue { inst: *inst, value: value.clone() };
        let values =
            values.iter().map(|(name, values)| (self.handle(name), Ok(values.iter().map(value).collect())));
        let values = values.collect();
        let mut disks = Instances::in_memory();
        for (id, name) in [(0, "sda"), (1, "sdb")] {
            disks.add_as(id, name).unwrap();
        }
        self.report(Some(Arc::new(ForeignSample {
            number: self.samples,
            time: Timestamp::new(time, 0),
            taken: Instant::now().checked_sub(ago).unwrap(),
            values,
            indoms: [(DISKS, Ok(Arc::new(disks)))].into_iter().collect(),
        })));
    }

    fn sample(&mut self, time: i64, values: &[(&str, &[(Inst, Value)])]) {
        self.sample_of(time, Duration::ZERO, values);
    }

    /// A fetch, long after all samples as far as times are told.
    fn fetch(&mut self, client: ClientId, names: &[&str]) -> Vec<Result<Vec<Value>, PmError>> {
        self.fixture.fetch(client, 1_000_000, 10, names)
    }

    fn client(&mut self) -> ClientId {
        self.fixture.core().client_open()
    }

    fn help(&mut self, name: &str) -> String {
        let pmid = self.fixture.pmid(name);
        self.fixture.core().metric_text(pmid, TextLevel::Help).unwrap()
    }
}

fn reads(sda: u64, sdb: u64) -> [(Inst, Value); 2] {
    [(0, Value::U64(sda)), (1, Value::U64(sdb))]
}

fn doubles(values: &[f64]) -> Result<Vec<Value>, PmError> {
    Ok(values.iter().map(|&value| Value::Double(value)).collect())
}

#[test]
fn a_definition_is_found_but_not_listed_until_its_operands_are_known() {
    let mut sampled = Sampled::new("own = 1\nload = 2 * load\nabove = jumpseat.derived.load + 1\n");
    let client = sampled.client();
    assert_eq!(sampled.derived().counts(), Counts { usable: 1, waiting: 2, refused: 0 });
    assert_eq!(sampled.fixture.core().traverse(ROOT).unwrap(), ["jumpseat.derived.own"]);
    let pmid = sampled.fixture.pmid("above");
    assert_eq!(sampled.fixture.core().desc(pmid), Err(PmError::AGAIN));
    let again = Err(PmError::AGAIN);
    assert_eq!(sampled.fetch(client, &["load", "above"]), [again.clone(), again.clone()]);
    let before = sampled.fixture.core().generations().names;
    sampled.learn(&["load"]);
    assert_ne!(sampled.fixture.core().generations().names, before);
    assert_eq!(sampled.derived().counts(), Counts { usable: 3, waiting: 0, refused: 0 });
    assert_eq!(sampled.fixture.core().desc(pmid).unwrap().value_type, ValueType::Double);
    // No values yet; the client has said which ones it wants.
    assert_eq!(sampled.fetch(client, &["load", "above"]), [again.clone(), again]);
    assert_eq!(sampled.derived().foreign.wanted(), 1);
    sampled.sample(1, &[("load", &[(PM_IN_NULL, Value::Double(1.5))])]);
    assert_eq!(sampled.fetch(client, &["load", "above"]), [doubles(&[3.0]), doubles(&[4.0])]);
    // The same again changes nothing.
    let before = sampled.fixture.core().generations().names;
    sampled.learn(&["load"]);
    assert_eq!(sampled.fixture.core().generations().names, before);
}

#[test]
fn history_goes_by_samples_and_their_times_for_each_client() {
    let mut sampled = Sampled::new(
        "r = rate(disk.reads)\nd = delta(sum(disk.reads))\nraw = disk.reads\nw = sum_over(disk.busy, \"10sec\")\n",
    );
    sampled.learn(&["disk.reads", "disk.busy"]);
    let (quick, slow) = (sampled.client(), sampled.client());
    let names = ["r", "d", "raw", "w"];
    let busy = |value| [(0, Value::U32(value))];
    let none = || Ok(vec![]);
    let values = |r: &[f64], d: f64, sda, sdb, w| {
        [doubles(r), doubles(&[d]), Ok(vec![Value::U64(sda), Value::U64(sdb)]), Ok(vec![Value::U32(w)])]
    };
    // They have to ask before there is anything.
    for client in [quick, slow] {
        assert!(sampled.fetch(client, &names).iter().all(|set| *set == Err(PmError::AGAIN)));
    }
    sampled.sample(100, &[("disk.reads", &reads(1000, 10)), ("disk.busy", &busy(1))]);
    let first = sampled.fetch(quick, &names);
    assert_eq!(first[..2], [none(), none()]);
    assert_eq!(sampled.fetch(quick, &names), first);
    assert_eq!(sampled.fetch(slow, &names), first);
    sampled.sample(102, &[("disk.reads", &reads(1010, 50)), ("disk.busy", &busy(2))]);
    let second = values(&[5.0, 20.0], 50.0, 1010, 50, 3);
    assert_eq!(sampled.fetch(quick, &names), second);
    // Again and again, until there is another one.
    assert_eq!(sampled.fetch(quick, &names), second);
    assert_eq!(sampled.fetch(quick, &names[..1]), second[..1]);
    sampled.sample(105, &[("disk.reads", &reads(1040, 50)), ("disk.busy", &busy(4))]);
    assert_eq!(sampled.fetch(quick, &names), values(&[10.0, 0.0], 30.0, 1040, 50, 7));
    // Over the five seconds between the two that this client has seen.
    assert_eq!(sampled.fetch(slow, &names), values(&[8.0, 8.0], 80.0, 1040, 50, 5));
    // What is remembered is accounted for, and given back.
    let both = sampled.derived().history_bytes();
    sampled.fixture.core().client_close(slow);
    let one = sampled.derived().history_bytes();
    assert!(0 < one && one < both, "{one} {both}");
    sampled.fixture.core().client_close(quick);
    assert_eq!(sampled.derived().history_bytes(), 0);
}

#[test]
fn own_operands_are_those_of_the_time_of_the_sample() {
    let mut sampled = Sampled::new("mixed = load + jumpseat.control.recent\nown = jumpseat.control.recent\n");
    sampled.learn(&["load"]);
    let client = sampled.client();
    assert_eq!(sampled.fetch(client, &["mixed"]), [Err(PmError::AGAIN)]);
    sampled.fixture.core().state.limits.recent = 7;
    sampled.sample(1, &[("load", &[(PM_IN_NULL, Value::Double(0.5))])]);
    // The fetch sets it to 10.
    assert_eq!(sampled.fetch(client, &["mixed", "own"]), [doubles(&[7.5]), Ok(vec![Value::U32(10)])]);
    sampled.sample(2, &[("load", &[(PM_IN_NULL, Value::Double(0.5))])]);
    assert_eq!(sampled.fetch(client, &["mixed"]), [doubles(&[10.5])]);
}

#[test]
fn a_sample_older_than_three_intervals_or_without_an_operand_is_not_served() {
    let mut sampled = Sampled::new("l = load\nb = sum(disk.busy)\n");
    sampled.learn(&["load", "disk.busy"]);
    let client = sampled.client();
    sampled.fetch(client, &["l", "b"]);
    let load = [("load", &[(PM_IN_NULL, Value::Double(0.5))][..])];
    sampled.sample_of(1, INTERVAL * 2, &load);
    assert_eq!(sampled.fetch(client, &["l", "b"]), [doubles(&[0.5]), Err(PmError::AGAIN)]);
    sampled.sample_of(2, INTERVAL * 3, &load);
    assert_eq!(sampled.fetch(client, &["l"]), [Err(PmError::AGAIN)]);
    assert!(sampled.derived().foreign.age().unwrap() > INTERVAL * 3);
    sampled.derived().set_interval(INTERVAL * 2);
    assert_eq!(sampled.fetch(client, &["l"]), [doubles(&[0.5])]);
}

#[test]
fn instances_have_the_names_that_came_with_the_sample_and_profiles_are_for_results() {
    let mut sampled = Sampled::new(
        "one = disk.busy[sdb]\nnot = matchinst(!/b$/, disk.busy)\nset = mkconst(3, type=u32, meta=disk.busy)\n\
         sum = sum(disk.busy)\nall = disk.busy\n",
    );
    sampled.learn(&["disk.busy"]);
    let client = sampled.client();
    let names = ["one", "not", "set", "sum", "all"];
    sampled.fetch(client, &names);
    sampled.sample(1, &[("disk.busy", &[(0, Value::U32(4)), (1, Value::U32(5))])]);
    let u32s = |values: &[u32]| Ok(values.iter().map(|&value| Value::U32(value)).collect());
    let all = [u32s(&[5]), u32s(&[4]), u32s(&[3, 3]), u32s(&[9]), u32s(&[4, 5])];
    assert_eq!(sampled.fetch(client, &names), all);
    let pmid = sampled.fixture.pmid("all");
    assert_eq!(sampled.fixture.core().desc(pmid).unwrap().indom, DISKS);
    let only = IndomProfile { indom: DISKS, state: ProfileState::Exclude, instances: vec![0] };
    sampled.fixture.profile.indoms.push(only);
    let some = [u32s(&[]), u32s(&[4]), u32s(&[3]), u32s(&[9]), u32s(&[4])];
    assert_eq!(sampled.fetch(client, &names), some);
    sampled.fixture.profile.indoms.clear();
    assert_eq!(sampled.fetch(client, &names), all);
}

#[test]
fn what_has_changed_is_bound_anew_and_all_else_keeps_its_history() {
    let mut sampled = Sampled::new("l = delta(load)\nb = delta(sum(disk.busy))\n");
    sampled.learn(&["load", "disk.busy"]);
    let client = sampled.client();
    let names = ["l", "b"];
    sampled.fetch(client, &names);
    let sample = |sampled: &mut Sampled, time: i64, load: f64, busy: Value| {
        let (load, busy) = ([(PM_IN_NULL, Value::Double(load))], [(0, busy)]);
        sampled.sample(time, &[("load", &load), ("disk.busy", &busy)]);
        sampled.fetch(client, &names)
    };
    sample(&mut sampled, 1, 1.0, Value::U32(1));
    assert_eq!(sample(&mut sampled, 2, 3.0, Value::U32(5)), [doubles(&[2.0]), Ok(vec![Value::I64(4)])]);
    // Another PMID means nothing, another type does.
    let (load, busy) = (sampled.handle("load"), sampled.handle("disk.busy"));
    let before = sampled.fixture.core().generations().names;
    let mut moved = Metadata::default();
    moved.insert(load, desc("load").map(|desc| Desc { pmid: Pmid::new(61, 0, 9), ..desc }));
    moved.insert(busy, desc("disk.busy"));
    sampled.metadata = Arc::new(moved.clone());
    assert_eq!(sample(&mut sampled, 3, 4.0, Value::U32(6)), [doubles(&[1.0]), Ok(vec![Value::I64(1)])]);
    assert_eq!(sampled.fixture.core().generations().names, before);
    moved.insert(busy, desc("disk.busy").map(|desc| Desc { value_type: ValueType::I32, ..desc }));
    sampled.metadata = Arc::new(moved.clone());
    assert_eq!(sample(&mut sampled, 4, 6.0, Value::I32(6)), [doubles(&[2.0]), Ok(vec![])]);
    assert_ne!(sampled.fixture.core().generations().names, before);
    assert_eq!(sample(&mut sampled, 5, 6.0, Value::I32(9)), [doubles(&[0.0]), Ok(vec![Value::I32(3)])]);
    // One that is not there any more is refused, and comes back.
    moved.insert(busy, Err(PmError::NAME));
    sampled.metadata = Arc::new(moved.clone());
    assert_eq!(sample(&mut sampled, 6, 7.0, Value::I32(9)), [doubles(&[1.0]), Err(PmError::BADDERIVE)]);
    assert_eq!(sampled.derived().counts(), Counts { usable: 1, waiting: 0, refused: 1 });
    moved.insert(busy, desc("disk.busy"));
    sampled.metadata = Arc::new(moved);
    assert_eq!(sample(&mut sampled, 7, 8.0, Value::U32(1)), [doubles(&[1.0]), Ok(vec![])]);
    // A reload of the same changes nothing.
    sampled.fixture.rewrite("b = delta(sum(disk.busy))\nl = delta(load)\nmore = load\n");
    assert_eq!(sample(&mut sampled, 8, 9.0, Value::U32(3)), [doubles(&[1.0]), Ok(vec![Value::I64(2)])]);
}

#[test]
fn samples_are_of_what_clients_want_and_for_a_while_after_them() {
    let mut sampled = Sampled::new("l = load\nb = sum(disk.busy)\n");
    sampled.learn(&["load", "disk.busy"]);
    let (a, b) = (sampled.client(), sampled.client());
    let wanted = |sampled: &mut Sampled| {
        sampled.report(None);
        sampled.derived().foreign.wanted()
    };
    assert_eq!(wanted(&mut sampled), 0);
    sampled.fetch(a, &["l"]);
    sampled.fetch(b, &["l", "b"]);
    assert_eq!(wanted(&mut sampled), 2);
    sampled.fixture.core().client_close(b);
    // Somebody may come again.
    assert_eq!(wanted(&mut sampled), 2);
    sampled.derived().set_interval(Duration::from_nanos(1));
    assert_eq!(wanted(&mut sampled), 1);
    sampled.fixture.core().client_close(a);
    assert_eq!(wanted(&mut sampled), 0);
}

#[test]
fn what_cannot_be_sampled_is_refused_with_the_reason() {
    let definitions = "unknown = nosuch + 1\nevents = count(events)\ntaken = taken\nwaits = passing\n\
                       indom = mkconst(1, indom=\"77.1\")\nmine = jumpseat.nosuch\nfine = defined(load) ? load : nosuch\n";
    let mut sampled = Sampled::new(definitions);
    sampled.learn(&["nosuch", "events", "taken", "passing", "load"]);
    assert_eq!(sampled.derived().counts(), Counts { usable: 1, waiting: 1, refused: 5 });
    for (name, reason) in [
        (
            "unknown",
            "nosuch is not a metric of this agent, and unix:/nowhere/pmcd.socket says: Unknown metric name",
        ),
        ("events", "events gives event records"),
        ("taken", "taken has instance domain 400.1, which would be taken for one of this agent's"),
        ("indom", "instance domain 77.1 is not one of this agent's, nor one of its operands"),
        ("mine", "jumpseat.nosuch is not a metric of this agent"),
    ] {
        let text = sampled.help(name);
        assert!(text.starts_with(&format!("cannot be used: {reason}")), "{name}: {text}");
    }
    let client = sampled.client();
    let codes = [Err(PmError::BADDERIVE), Err(PmError::AGAIN)];
    assert_eq!(sampled.fetch(client, &["unknown", "waits"]), codes);
}

#[test]
fn operands_are_no_more_than_the_configuration_allows() {
    let two = |config: &mut DerivedConfig| config.max_operands = 2;
    let mut sampled =
        Sampled::with("a = load\nb = load + sum(disk.busy)\nc = load + sum(disk.reads)\nd = load\n", two);
    sampled.learn(&["load", "disk.busy"]);
    assert_eq!(sampled.derived().counts(), Counts { usable: 3, waiting: 0, refused: 1 });
    let text = sampled.help("c");
    let reason = "disk.reads is one more metric of other agents than derived.max_operands (2) allows";
    assert!(text.contains(reason), "{text}");
}

#[test]
fn what_a_reload_no_longer_allows_is_refused_with_the_reason() {
    let mut sampled = Sampled::new("a = load\nb = sum(disk.busy)\n");
    sampled.learn(&["load", "disk.busy"]);
    assert_eq!(sampled.derived().counts(), Counts { usable: 2, waiting: 0, refused: 0 });
    let mut config = sampled.derived().config.clone();
    config.max_operands = 1;
    sampled.derived().configure(config.clone());
    assert!(sampled.derived().read(), "the files are there");
    assert_eq!(sampled.derived().counts().refused, 1);
    let text = sampled.help("b");
    assert!(text.contains("derived.max_operands (1)"), "{text}");
    config.pmcd = Some(String::new());
    sampled.derived().configure(config.clone());
    assert!(sampled.derived().read(), "the files are there");
    assert_eq!(sampled.derived().counts(), Counts { usable: 0, waiting: 0, refused: 2 });
}

#[test]
fn instances_of_another_host_are_nothing_to_give_to_clients_of_this_one() {
    let other =
        |config: &mut DerivedConfig| config.pmcd = Some("192.0.2.1?user=u&pass=Xq7unlikely".to_owned());
    let mut sampled =
        Sampled::with("all = disk.busy\nsum = sum(disk.busy)\none = scalar(disk.busy[sda])\n", other);
    sampled.learn(&["disk.busy"]);
    assert_eq!(sampled.derived().counts(), Counts { usable: 2, waiting: 0, refused: 1 });
    let text = sampled.help("all");
    // Whoever may fetch reads this.
    assert!(text.contains("it has instances of 192.0.2.1?user=u&pass=..., which"), "{text}");
    let client = sampled.client();
    sampled.fetch(client, &["one"]);
    sampled.sample(1, &[("disk.busy", &[(0, Value::U32(4)), (1, Value::U32(5))])]);
    assert_eq!(sampled.fetch(client, &["one"]), [Ok(vec![Value::U32(4)])]);
}

#[test]
fn what_one_pmcd_has_said_does_not_count_for_another() {
    let mut sampled = Sampled::new("l = load\n");
    sampled.learn(&["load"]);
    let client = sampled.client();
    sampled.fetch(client, &["l"]);
    let load = [("load", &[(PM_IN_NULL, Value::Double(0.5))][..])];
    sampled.sample(1, &load);
    assert_eq!(sampled.fetch(client, &["l"]), [doubles(&[0.5])]);
    let state = &mut sampled.fixture.core().state;
    state.derived.config.pmcd = Some("unix:/elsewhere".to_owned());
    assert!(state.derived.read());
    assert_eq!(sampled.derived().counts(), Counts { usable: 0, waiting: 1, refused: 0 });
    assert_eq!(sampled.fetch(client, &["l"]), [Err(PmError::AGAIN)]);
    let (host, metadata) = (NOWHERE.to_owned(), Arc::clone(&sampled.metadata));
    apply(sampled.fixture.core(), Report { host, metadata, sample: None });
    assert_eq!(sampled.derived().counts().waiting, 1);
    sampled.report(None);
    sampled.sample(2, &load);
    assert_eq!(sampled.fetch(client, &["l"]), [doubles(&[0.5])]);
}

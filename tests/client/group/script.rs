//! An agent that follows a script: both sides fetch the same step, and values and instances come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use jumpseat::client::group::Falling;
use jumpseat::model::{Inst, PmError, Units, Value, ValueType};
use jumpseat::pmda::{Agent, Core, Handle, Indom, Instances, Listen, Metric, Server};

use super::matrix::{Registration, indom, item};
use super::{Sides, check};

const PMNS: &str = "
script {
    plain SCRIPT:0:0
    discrete SCRIPT:0:1
    text SCRIPT:0:2
    grows SCRIPT:0:3
    discretes SCRIPT:0:4
    i32_grows SCRIPT:0:5
    all
}
script.all {
    grows SCRIPT:1:0
    texts SCRIPT:1:1
}
";

const HELP: &str = "\
@ script.plain Values, none, and errors
As the test's script says.
@ script.discrete The same, discrete
As the test's script says.
@ script.text Numbers as text
As the test's script says.
@ script.grows A counter of 64 bits
As the test's script says.
@ script.i32_grows A counter of 32 bits
As the test's script says.
@ script.discretes Discrete values of instances
As the test's script says.
@ script.all.grows Counters of instances
As the test's script says.
@ script.all.texts Texts of instances
As the test's script says.
@ SCRIPT.1 Instances
As the test's script says.
";

/// What a metric gives in each step.
type Script<T> = [Result<Option<T>, PmError>; 10];

const ERROR: PmError = PmError::APPVERSION;

const PLAIN: Script<i64> = [
    Ok(Some(5)),
    Ok(None),
    Err(ERROR),
    Ok(None),
    Ok(Some(7)),
    Ok(Some(-8)),
    Err(ERROR),
    Err(ERROR),
    Ok(Some(1)),
    Ok(None),
];
const TEXT: Script<&str> = [
    Ok(Some("100")),
    Ok(Some("50")),
    Ok(Some("x")),
    Ok(Some("1e3")),
    Ok(Some(" 0x10")),
    Ok(Some("")),
    Ok(Some("3000000000")),
    Ok(None),
    Ok(Some("0")),
    Ok(Some("-1")),
];
const GROWS: Script<u64> = [
    Ok(Some(1)),
    Ok(Some(100)),
    Ok(None),
    Ok(Some(300)),
    Ok(Some(400)),
    Ok(Some(50)),
    Ok(Some(u64::MAX)),
    Ok(Some(9)),
    Err(ERROR),
    Ok(Some(4)),
];

/// The instances of each step, in the agent's order, which is not that of their numbers.
const PRESENT: [&[Inst]; 10] = [
    &[2, 1, 3],
    &[2, 1, 3],
    &[3, 1, 4, 2],
    &[4, 2],
    &[],
    &[4, 2],
    &[1, 2, 3, 4],
    &[4, 3, 2, 1],
    &[4, 3, 2, 1, 5],
    &[7],
];

struct State {
    step: Arc<AtomicUsize>,
    instances: Instances,
}

impl State {
    fn step(&self) -> usize {
        self.step.load(Ordering::SeqCst).min(PRESENT.len() - 1)
    }

    fn at<T: Clone>(&self, script: &Script<T>) -> Result<Option<T>, PmError> {
        script[self.step()].clone()
    }
}

fn agent(step: Arc<AtomicUsize>) -> Core<State> {
    let mut instances = Instances::in_memory();
    for (inst, name) in [(1, "one"), (2, "two words"), (3, "three"), (4, "four"), (5, "five")] {
        instances.add_as(inst, name).expect("all are different");
    }
    let value = |name: &str, value_type| Metric::<State>::new(name, value_type);
    Agent::new("script", 461, State { step, instances })
        .pmns("pmns", PMNS)
        .help("help", HELP)
        .indom(Indom::of(1, |state: &State| &state.instances))
        .metric(
            value("script.plain", ValueType::I64).each(|state, _, _| Ok(state.at(&PLAIN)?.map(Value::I64))),
        )
        .metric(
            value("script.discrete", ValueType::I64)
                .discrete()
                .each(|state, _, _| Ok(state.at(&PLAIN)?.map(Value::I64))),
        )
        .metric(
            value("script.text", ValueType::String).each(|state, _, _| Ok(state.at(&TEXT)?.map(Value::from))),
        )
        .metric(
            value("script.grows", ValueType::U64)
                .counter()
                .units(Units::BYTE)
                .each(|state, _, _| Ok(state.at(&GROWS)?.map(Value::U64))),
        )
        .metric(
            value("script.i32_grows", ValueType::I32)
                .counter()
                .each(|state, _, _| Ok(state.at(&GROWS)?.map(|grows| Value::I32(grows as i32)))),
        )
        .metric(value("script.discretes", ValueType::Double).discrete().indom(1).set(|state, _, values| {
            let step = state.step();
            for &inst in PRESENT[step].iter().filter(|inst| **inst != 7) {
                if values.wants(inst) {
                    values.value(inst, &Value::Double(step as f64 + f64::from(inst) / 8.0))?;
                }
            }
            // A value of another type than was promised cannot be sent; an error in the last step but two.
            if step == 7 { Err(ERROR) } else { Ok(()) }
        }))
        .metric(value("script.all.grows", ValueType::U64).counter().indom(1).set(|state, _, values| {
            let step = state.step() as u64;
            for &inst in PRESENT[state.step()] {
                if values.wants(inst) {
                    values.value(inst, &Value::U64(step * 1000 + inst as u64 * step))?;
                }
            }
            Ok(())
        }))
        .metric(value("script.all.texts", ValueType::String).indom(1).set(|state, _, values| {
            let step = state.step();
            for &inst in PRESENT[step] {
                if values.wants(inst) {
                    values.string(inst, format!("{step}{inst}").as_bytes())?;
                }
            }
            Ok(())
        }))
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The agent, served to direct clients from a thread of its own.
struct Stage {
    step: Arc<AtomicUsize>,
    host: String,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Stage {
    fn new() -> Stage {
        let step = Arc::new(AtomicUsize::new(0));
        let (send, receive) = std::sync::mpsc::channel();
        let shared = step.clone();
        let thread = std::thread::spawn(move || {
            let mut server = Server::new(agent(shared)).expect("an event queue");
            let address =
                server.listen(&Listen::Tcp(([127, 0, 0, 1], 0).into())).expect("loopback has a port");
            send.send((server.handle(), address.to_string())).expect("the test waits");
            server.run().expect("serves until it is stopped");
        });
        let (handle, host) = receive.recv().expect("the server was made");
        Stage { step, host, handle, thread: Some(thread) }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn registrations() -> Vec<Registration> {
    let mut all = Vec::new();
    for metric in ["script.plain", "script.discrete", "script.text"] {
        all.extend((0..=6).map(|to| item(metric, None, None, to)));
        all.extend([2, 5, 6].map(|to| item(metric, None, Some(" "), to)));
        all.push(item(metric, None, Some("rate"), 5));
        all.extend([5, 6].map(|to| indom(metric, None, to, 2)));
    }
    for metric in ["script.grows", "script.i32_grows"] {
        all.push(item(metric, None, None, 5));
        all.push(item(metric, None, Some("rate"), 5));
        all.extend([2, 3, 6].map(|to| item(metric, None, Some("instant"), to)));
    }
    all.push(item("script.grows", None, Some("Kbyte"), 5));
    for metric in ["script.discretes", "script.all.grows", "script.all.texts"] {
        for instance in ["one", "two words", "two", "four"] {
            all.push(item(metric, Some(instance), None, 5));
            all.push(item(metric, Some(instance), Some("rate"), 5));
            all.push(item(metric, Some(instance), Some("instant"), 6));
        }
        for max in [0, 1, 2, 3, 4, 9] {
            all.extend([5, 6].map(|to| indom(metric, Some("instant"), to, max)));
            all.push(indom(metric, Some("rate"), 5, max));
        }
    }
    all
}

/// Fetches all steps on both sides, some registrations being made late.
fn play(falling: Falling, env: &[(&str, &str)]) {
    let stage = Stage::new();
    let mut sides = Sides::new([&stage.host, &stage.host], falling, env);
    let all = registrations();
    let (early, late) = all.split_at(all.len() / 2);
    let mut wrong: Vec<String> = early.iter().filter_map(|one| sides.register(one).err()).collect();
    for step in 0..PRESENT.len() {
        stage.step.store(step, Ordering::SeqCst);
        if step == 2 {
            wrong.extend(late.iter().filter_map(|one| sides.register(one).err()));
            // All of the early ones again: their rates begin at once.
            wrong.extend(early.iter().filter_map(|one| sides.register(one).err()));
        }
        wrong.extend(sides.fetch().into_iter().map(|text| format!("step {step}: {text}")));
    }
    println!("{} codes and outputs compared, {} mended", sides.compared, sides.mended);
    check(&wrong);
}

#[test]
fn values_and_instances_that_come_and_go() {
    play(Falling::NoValue, &[]);
}

#[test]
fn counters_that_wrap() {
    play(Falling::Wrap, &[("PCP_COUNTER_WRAP", "")]);
}

/// What the manual page says, and libpcp does not do.
#[test]
fn a_rate_may_be_negative() {
    let stage = Stage::new();
    let mut group = jumpseat::client::group::FetchGroup::host(&stage.host).unwrap();
    let rate = group.item::<f64>("script.text", None, "rate").unwrap();
    group.fetch().unwrap();
    stage.step.store(1, Ordering::SeqCst);
    group.fetch().unwrap();
    assert!(group.value(rate).unwrap() < 0.0);
}

/// Values of discrete metrics stay, unless the group is told otherwise (PCP_DISCRETE_ONCE of PCP 7.2).
#[test]
fn discrete_values_stay_or_not() {
    use jumpseat::client::Context;
    use jumpseat::client::group::{FetchGroup, GroupOptions, Scale};
    let stage = Stage::new();
    for keep_discrete in [true, false] {
        let options = GroupOptions { keep_discrete, ..GroupOptions::default() };
        let mut group = FetchGroup::with_options(Context::host(&stage.host).unwrap(), options);
        let item = group.item::<i64>("script.discrete", None, Scale::None).unwrap();
        let mut at = |step: usize| {
            stage.step.store(step, Ordering::SeqCst);
            group.fetch().unwrap();
            (group.value(item), group.kept_value(item))
        };
        let none = Err(PmError::VALUE);
        assert_eq!(at(0), (Ok(5), Ok(5)));
        assert_eq!(at(1), if keep_discrete { (Ok(5), Ok(5)) } else { (none, none) });
        assert_eq!(at(2), if keep_discrete { (Err(ERROR), Ok(5)) } else { (Err(ERROR), none) });
        // The error stays as the value does, as in libpcp.
        assert_eq!(at(3), if keep_discrete { (Err(ERROR), Ok(5)) } else { (none, none) });
        assert_eq!(at(4), (Ok(7), Ok(7)));
    }
}

//! Fetch groups against libpcp's own: the same registrations and fetches on both sides, each on a pmcd of its own
//! with equal agents, so that what changes from fetch to fetch changes alike.

mod archives;
mod matrix;
mod outputs;
mod script;

use crate::seat::{Seat, Transport};
use jumpseat::client::Context;
use jumpseat::client::group::{Falling, FetchGroup, GroupOptions};
use jumpseat::model::ValueType;
use matrix::{Kind, Registration, registrations};
use outputs::{Cell, Handle, Output, ours, parse};
use support::CPeer;
use support::{AgentSpec, PrivatePmcd};

/// A pmcd with the sample agent and jumpseat, some of whose values have been set.
fn pmcd() -> (PrivatePmcd, Seat) {
    let builder = PrivatePmcd::with([AgentSpec::sample()]);
    let seat = Seat::in_dir(builder.dir(), "");
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    for (metric, value) in [
        ("long", "-1"),
        ("ulong", "4294967295"),
        ("longlong", "-1099511627776"),
        ("ulonglong", "18446744073709551615"),
        ("float", "0.1"),
        ("double", "1e300"),
        ("string", " 42"),
    ] {
        pmcd.run("pmstore", [&format!("sample.{metric}.write_me"), value]).ok();
    }
    // Fields and sources are known before anybody registers them.
    seat.feed([], EVENTS).ok();
    (pmcd, seat)
}

const EVENTS: &str = concat!(
    r#"{"time":"2026-11-20T10:19:17.203284222Z","type":"request","phase":"start","severity":"warn","#,
    r#""message":"GET /","bytes":1234567890123,"delta":-5,"ratio":0.25,"cached":true}"#,
    "\n",
    r#"{"time":1795083558.5,"type":"tick","message":"17"}"#,
    "\n",
    r#"{"time":1795083559.5,"type":"tock","phase":"end","bytes":12}"#,
    "\n",
);

struct Sides {
    peer: CPeer,
    group: FetchGroup,
    registered: Vec<(Registration, Handle)>,
    /// When the last fetches were made.
    times: [i128; 2],
    /// Codes and outputs compared.
    compared: usize,
    /// Of these, how many differ as `docs/differences.md` says.
    mended: usize,
}

impl Sides {
    /// A group on a host each, ours first, and the environment of libpcp's.
    fn new(hosts: [&str; 2], falling: Falling, env: &[(&str, &str)]) -> Sides {
        Sides::with(hosts, falling, |peer| {
            env.iter().for_each(|(name, value)| drop(peer.ask(&format!("env\t={name}\t={value}"))));
        })
    }

    /// As `new`, after something has been done on libpcp's side.
    fn with(hosts: [&str; 2], falling: Falling, prepare: impl FnOnce(&mut CPeer)) -> Sides {
        let context = Context::host(hosts[0]).expect("the host answers");
        let group = FetchGroup::with_options(context, GroupOptions { falling, ..GroupOptions::default() });
        Sides::over(group, &format!("create\t1\t={}", hosts[1]), prepare)
    }

    /// A group, and libpcp's, which a command creates.
    fn over(group: FetchGroup, create: &str, prepare: impl FnOnce(&mut CPeer)) -> Sides {
        let mut peer = CPeer::start("tests/c/fetchgroup_oracle.c");
        prepare(&mut peer);
        assert_eq!(peer.ask(create), "0");
        assert_eq!(peer.ask("timespec"), "0");
        Sides { peer, group, registered: Vec::new(), times: [0; 2], compared: 0, mended: 0 }
    }

    fn register(&mut self, registration: &Registration) -> Result<(), String> {
        let theirs = self.peer.ask(&registration.command());
        let ours = registration.register(&mut self.group);
        let code = ours.as_ref().err().map_or(0, |error| error.code().0).to_string();
        self.compared += 1;
        if let Ok(handle) = ours {
            self.registered.push((registration.clone(), handle));
        }
        if code == theirs { Ok(()) } else { Err(format!("{registration:?}: {code}, libpcp {theirs}")) }
    }

    /// A fetch on both sides; differences, if any.
    fn fetch(&mut self) -> Vec<String> {
        let code = self.group.fetch().map_or_else(|error| error.code().0, |changes| changes.0 as i32);
        let types: Vec<ValueType> = self.registered.iter().map(|(r, _)| ValueType::from_code(r.to)).collect();
        let (their_code, their_time, theirs) = parse(&self.peer.ask("fetch"), &types);
        let times = [self.group.timestamp().map_or(0, |time| time.as_nanos()), their_time];
        let seconds: [f64; 2] = std::array::from_fn(|side| (times[side] - self.times[side]) as f64 * 1e-9);
        self.times = times;
        let mut wrong = Vec::new();
        if code != their_code {
            wrong.push(format!("the fetch: {code}, libpcp {their_code}"));
        }
        for (((registration, handle), to), theirs) in self.registered.iter().zip(types).zip(theirs) {
            let ours = ours(&self.group, *handle, to);
            self.compared += 1;
            match compare(registration, seconds, ours.clone(), theirs.clone()) {
                Likeness::Same => {}
                Likeness::Mended => self.mended += 1,
                Likeness::Different => wrong.push(format!("{registration:?}\n    {ours:?}\n    {theirs:?}")),
            }
        }
        wrong
    }
}

enum Likeness {
    Same,
    Mended,
    Different,
}

fn compare(registration: &Registration, seconds: [f64; 2], mut ours: Output, mut theirs: Output) -> Likeness {
    if matches!(registration.kind, Kind::Event { .. }) {
        relative_times(&mut ours);
        relative_times(&mut theirs);
    }
    if registration.moves() {
        for cell in ours.cells.iter_mut().chain(&mut theirs.cells) {
            cell.value = cell.value.as_ref().map(|_| String::new());
        }
    }
    let mut mended = false;
    if registration.is_rate() {
        mended = fit_only_one(registration, seconds, &mut ours, &theirs);
        ours.cells.iter_mut().for_each(|cell| growth(cell, registration.to, seconds[0]));
        theirs.cells.iter_mut().for_each(|cell| growth(cell, registration.to, seconds[1]));
    }
    if ours == theirs {
        return if mended { Likeness::Mended } else { Likeness::Same };
    }
    for (our, their) in ours.cells.iter_mut().zip(&theirs.cells) {
        // 2^63 and 2^64 do not fit; libpcp lets them wrap. To libpcp before 7.2 the text "0" is no single-precision
        // number.
        let wrapped = matches!(their.value.as_deref(), Some("-9223372036854775808" | "0"));
        if our.status == -12363 && their.status == 0 && wrapped
            || our.value.as_deref() == Some("00000000") && their.status == -34
        {
            *our = their.clone();
            mended = true;
        }
    }
    // libpcp does not count the values of a discrete metric that were too many, and so does not keep them.
    if matches!(registration.kind, Kind::Indom { max } if max == ours.cells.len()) && theirs.cells.is_empty()
    {
        ours.cells.clear();
        mended = true;
    }
    if let ([cell], Kind::Item { .. }) = (&ours.cells[..], &registration.kind) {
        ours.status = cell.status;
    }
    match mended && ours == theirs {
        true => Likeness::Mended,
        false => Likeness::Different,
    }
}

/// Takes their cell where a rate fits its type on one side and not on the other, if that is because of the times between the fetches: what
/// has grown by as much is too much for the type in the shorter one. Whether there was any.
fn fit_only_one(registration: &Registration, seconds: [f64; 2], ours: &mut Output, theirs: &Output) -> bool {
    let Some(most) = [31, 32, 63, 64].get(registration.to as usize).map(|bits| f64::from(*bits).exp2())
    else {
        return false;
    };
    let mut any = false;
    for (our, their) in ours.cells.iter_mut().zip(&theirs.cells) {
        let side = match (our.status, their.status) {
            (0, -12363) => 0,
            (-12363, 0) => 1,
            _ => continue,
        };
        let rate = [&*our, their][side].value.as_deref().and_then(|value| value.parse::<f64>().ok());
        // A rate that is the most there is may be one that was cut off, and excuses nothing.
        let is_at_the_edge =
            |rate: f64| rate < most - 1.0 && rate * seconds[side] / seconds[1 - side] >= most * 0.999_999;
        if rate.is_some_and(is_at_the_edge) {
            *our = their.clone();
            any = true;
        }
    }
    if let (true, [cell], Kind::Item { .. }) = (any, &ours.cells[..], &registration.kind) {
        ours.status = cell.status;
    }
    any
}

/// Makes the difference to the fetch before of a rate, where it is shown in full.
fn growth(cell: &mut Cell, to: i32, seconds: f64) {
    let Some(value) = &mut cell.value else { return };
    *value = match (to, u64::from_str_radix(value, 16)) {
        (5, Ok(bits)) => format!("{:.6e}", f64::from_bits(bits) * seconds),
        _ => String::new(),
    };
}

/// Events happen in agents that have been started at different times: counts from the first one.
fn relative_times(output: &mut Output) {
    let nanos = |cell: &Cell| {
        let (sec, nsec) = cell.place.split_once(' ').expect("seconds and nanoseconds");
        sec.parse::<i128>().expect("seconds") * 1_000_000_000 + nsec.parse::<i128>().expect("nanoseconds")
    };
    let first = output.cells.iter().map(nanos).find(|&time| time != 0).unwrap_or_default();
    for cell in &mut output.cells {
        let time = nanos(cell);
        cell.place = if time == 0 { "none".to_owned() } else { (time - first).to_string() };
    }
}

fn check(wrong: &[String]) {
    let shown: Vec<&str> = wrong.iter().take(25).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), shown.join("\n"));
}

#[test]
fn registrations_and_fetches_are_those_of_libpcp() {
    let pmcds = [pmcd(), pmcd()];
    let hosts = pmcds.each_ref().map(|(pmcd, _)| pmcd.inet());
    let mut sides = Sides::new([&hosts[0], &hosts[1]], Falling::NoValue, &[]);
    let all = registrations();
    let mut wrong: Vec<String> =
        all.iter().filter_map(|registration| sides.register(registration).err()).collect();
    let refused = all.len() - sides.registered.len();
    for fetch in 0..6 {
        if fetch == 1 || fetch == 4 {
            pmcds.iter().for_each(|(_, seat)| drop(seat.feed([], EVENTS).ok()));
        }
        if fetch == 3 {
            for (metric, value) in [("string", "0"), ("longlong", "9223372036854775807"), ("double", "-0.75")]
            {
                let metric = format!("sample.{metric}.write_me");
                pmcds.iter().for_each(|(pmcd, _)| drop(pmcd.run("pmstore", [&*metric, value]).ok()));
            }
        }
        wrong.extend(sides.fetch().into_iter().map(|text| format!("fetch {fetch}: {text}")));
    }
    println!(
        "{} registrations, {refused} refused; {} codes and outputs compared, {} mended",
        all.len(),
        sides.compared,
        sides.mended
    );
    check(&wrong);
    assert!(all.len() >= 300 && refused >= 50);
    assert!((1..=30).contains(&sides.mended), "{}", sides.mended);
}

/// Derived metrics in groups, as libpcp has them.
#[test]
fn derived_metrics_are_like_others() {
    let pmcds = [pmcd(), pmcd()];
    let hosts = pmcds.each_ref().map(|(pmcd, _)| pmcd.inet());
    const DEFINITIONS: [(&str, &str); 6] = [
        ("fg.sum", "sum(sample.bin)"),
        ("fg.rate", "rate(sample.long.bin_ctr)"),
        ("fg.delta", "delta(sample.step_counter)"),
        ("fg.twice", "2 * sample.double.bin"),
        ("fg.bad", "sample.bin + sample.colour"),
        ("fg.text", "sample.bin + sample.string.bin"),
    ];
    let mut sides = Sides::with([&hosts[0], &hosts[1]], Falling::NoValue, |peer| {
        let registry = jumpseat::client::global_registry();
        for (name, expression) in DEFINITIONS {
            assert_eq!(peer.ask(&format!("derived\t={name}\t={expression}")), "0", "{name}");
            registry.write().expect("nobody panics").register(name, expression).expect("is correct");
        }
    });
    let mut wrong = Vec::new();
    for (name, _) in DEFINITIONS {
        for scale in [None, Some("rate"), Some("instant"), Some(" "), Some("count")] {
            let one = |instance| matrix::item(name, instance, scale, 5);
            let all = [one(None), one(Some("bin-300")), matrix::indom(name, scale, 5, 20)];
            wrong.extend(all.iter().filter_map(|registration| sides.register(registration).err()));
        }
    }
    for fetch in 0..4 {
        wrong.extend(sides.fetch().into_iter().map(|text| format!("fetch {fetch}: {text}")));
    }
    println!("{} codes and outputs compared", sides.compared);
    check(&wrong);
}

//! `jumpseat.derived`: definitions over the agent's own metrics, under pmcd and PCP's tools.

use crate::seat::{SOURCE, Seat, Transport};
use jumpseat::client::{Context, Fetched};
use jumpseat::model::{Pmid, Value, ValueType};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;
use std::time::Duration;
use support::{PrivatePmcd, eventually};

/// A pmcd with the agent, whose definitions are in `derived.conf` next to its configuration.
struct Setting {
    pmcd: PrivatePmcd,
    seat: Seat,
}

impl Setting {
    fn start(definitions: &str) -> Setting {
        let builder = PrivatePmcd::with([]);
        let seat = Seat::in_dir(builder.dir(), "[derived]\nfiles = [\"derived.conf\"]\npmcd = \"\"");
        fs::write(builder.dir().join("derived.conf"), definitions).expect("the test's directory is writable");
        let agent = seat.agent(Transport::Pipe);
        let pmcd = builder.agent(agent).start();
        pmcd.wait_ready("jumpseat");
        Setting { pmcd, seat }
    }

    fn define(&self, definitions: &str) {
        fs::write(self.pmcd.dir().join("derived.conf"), definitions)
            .expect("the test's directory is writable");
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.pmcd.run("pminfo", ["jumpseat.derived"]).stdout.lines().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// The PMID that pminfo shows for a metric.
    fn pmid(&self, name: &str) -> String {
        let text = self.pmcd.run("pminfo", ["-m", name]).ok();
        let (_, pmid) = text.trim().split_once("PMID: ").unwrap_or_else(|| panic!("{text}"));
        pmid.to_owned()
    }
}

/// The numbers in a pmval's output, and how many samples had none.
fn samples(shown: &str) -> (Vec<f64>, usize) {
    let body: Vec<&str> = shown.lines().skip_while(|line| !line.trim().is_empty()).collect();
    let absent = body.iter().filter(|line| line.contains("No values")).count();
    (body.iter().filter_map(|line| line.trim().parse().ok()).collect(), absent)
}

/// The value of the source in pminfo's output.
fn instance_value(shown: &str) -> f64 {
    let line = shown.lines().find(|line| line.trim_start().starts_with("inst ["));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("{shown}"))
}

const SHOWN: &str = "\
jumpseat.derived.bytes_per_event = \
    instant(jumpseat.source.bytes) / instant(jumpseat.source.received)
jumpseat.derived.bytes_per_event(oneline) = bytes of an event
jumpseat.derived.bytes_per_event(helptext) = \"the mean, since
the start\"
twice = 2 * jumpseat.control.recent
here.below = jumpseat.event.count
";

#[test]
fn pminfo_shows_descriptors_help_and_values_next_to_the_other_dynamic_subtree() {
    let setting = Setting::start(SHOWN);
    setting.seat.feed([], "{\"type\":\"a\",\"n\":1}\n{\"type\":\"b\",\"n\":2}\n").ok();
    let shown = setting.pmcd.run("pminfo", ["-dfmtTl", "jumpseat.derived"]);
    assert_eq!(shown.stderr, "", "{shown}");
    let text = shown.ok();
    let mean = instance_value(&setting.pmcd.run("pminfo", ["-f", "jumpseat.source.bytes"]).ok()) / 2.0;
    let without_labels = |text: &str| {
        text.lines()
            .filter(|line| !line.contains("labels "))
            .fold(String::new(), |text, line| text + line + "\n")
    };
    let expected = format!(
        "
jumpseat.derived.bytes_per_event PMID: 400.64.0 [bytes of an event]
    Data Type: double  InDom: 400.1 0x64000001
    Semantics: instant  Units: byte / count
Help:
the mean, since
the start

Derived: instant(jumpseat.source.bytes) / instant(jumpseat.source.received)
    inst [0 or \"{SOURCE}\"] value {mean}

jumpseat.derived.here.below PMID: 400.64.2 [derived: jumpseat.event.count]
    Data Type: 64-bit unsigned int  InDom: 400.2 0x64000002
    Semantics: counter  Units: count
Help:
Derived: jumpseat.event.count
    inst [0 or \"{SOURCE}/a\"] value 1
    inst [1 or \"{SOURCE}/b\"] value 1

jumpseat.derived.twice PMID: 400.64.1 [derived: 2 * jumpseat.control.recent]
    Data Type: 32-bit unsigned int  InDom: PM_INDOM_NULL 0xffffffff
    Semantics: discrete  Units: count
Help:
Derived: 2 * jumpseat.control.recent
    value 20
"
    );
    assert_eq!(without_labels(&text), expected, "{text}");
    assert!(text.contains("\"about\":\"derived\""), "{text}");
    assert!(text.contains("\"type\":\"a\""), "{text}");
    // The other dynamic root of the same domain.
    let fields = setting.pmcd.run("pminfo", ["-m", "jumpseat.field.n"]).ok();
    assert!(fields.contains("jumpseat.field.n PMID: 400."), "{fields}");
    let all = setting.pmcd.run("pminfo", ["jumpseat"]).ok();
    for name in ["jumpseat.field.type", "jumpseat.derived.twice", "jumpseat.derived.here.below"] {
        assert_eq!(all.lines().filter(|line| *line == name).count(), 1, "{name}\n{all}");
    }
    // Profiles hold for what operands are asked for.
    let name = format!("{SOURCE}/b");
    let one = setting.pmcd.run("pmval", ["-s", "1", "-i", &name, "jumpseat.derived.here.below"]).ok();
    assert!(one.contains(&name) && !one.contains(&format!("{SOURCE}/a")), "{one}");
}

/// A client that asks for what was received, and what is derived from it.
struct Watcher {
    context: Context,
    pmids: [Pmid; 3],
    fetched: Fetched,
}

impl Watcher {
    fn new(pmcd: &PrivatePmcd) -> Watcher {
        let mut context = Context::host(&pmcd.inet()).expect("the collector is there");
        let pmids = ["jumpseat.source.received", "jumpseat.derived.fresh", "jumpseat.derived.pace"]
            .map(|name| context.pmid(name).expect("the agent has it"));
        Watcher { context, pmids, fetched: Fetched::new() }
    }

    /// The first value of each, of one fetch.
    fn look(&mut self) -> [Option<f64>; 3] {
        self.context.fetch(&self.pmids, &mut self.fetched).expect("the collector answers");
        // A difference of 64-bit counters is a double.
        let types = [ValueType::U64, ValueType::Double, ValueType::Double];
        let mut values = [None; 3];
        for ((set, value_type), value) in self.fetched.sets().zip(types).zip(&mut values) {
            let first = set.values.expect("no error").get(0);
            *value = first.map(|(_, first)| match first.to_value(value_type).expect("of this type") {
                Value::U64(number) => number as f64,
                Value::Double(number) => number,
                other => panic!("{other:?}"),
            });
        }
        values
    }
}

#[test]
fn each_client_sees_its_own_intervals_and_takes_its_history_along() {
    let setting =
        Setting::start("fresh = delta(jumpseat.source.received)\npace = rate(jumpseat.self.uptime)\n");
    let pmcd = &setting.pmcd;
    setting.seat.feed([], "{\"type\":\"a\"}\n").ok();
    let (mut quick, mut slow) = (Watcher::new(pmcd), Watcher::new(pmcd));
    let mut seen = [&mut quick, &mut slow].map(|watcher| {
        let first = watcher.look();
        assert_eq!((first[1], first[2]), (None, None), "there is nothing before the first fetch");
        first[0].expect("a count")
    });
    let mut look = |which: usize, watcher: &mut Watcher| {
        let [received, fresh, _] = watcher.look();
        let (received, fresh) = (received.expect("a count"), fresh.expect("a difference"));
        assert_eq!(fresh, received - seen[which], "since this client's own last fetch");
        seen[which] = received;
        (received, fresh)
    };
    let mut total = 1.0;
    for round in 1..=5 {
        for _ in 0..4 {
            setting.seat.feed([], &"{\"type\":\"a\"}\n".repeat(round)).ok();
            total += round as f64;
            eventually("what was fed to be counted", || (look(0, &mut quick).0 == total).then_some(()));
        }
        // All of the round: what the quick one has fetched meanwhile makes no difference.
        assert_eq!(look(1, &mut slow), (total, 4.0 * round as f64));
    }
    // A second each second, whatever the interval: the time of the fetch is that of the operands.
    eventually("an interval that is long against a millisecond", || {
        let pace = quick.look()[2].expect("a rate");
        (pace - 1.0).abs().le(&0.02).then_some(())
    });

    assert_ne!(pmcd.value("jumpseat.self.memory.history").as_deref(), Some("0"));
    drop((quick, slow));
    eventually("the history of clients that are gone to be freed", || {
        (pmcd.value("jumpseat.self.memory.history")? == "0").then_some(())
    });
}

#[test]
fn pmlogger_records_derived_metrics_as_any_other() {
    let setting = Setting::start("rate = rate(jumpseat.source.received)\nplain = jumpseat.source.received\n");
    setting.seat.feed([], "{\"type\":\"a\"}\n").ok();
    let names = ["jumpseat.derived.rate", "jumpseat.derived.plain"];
    let logger = setting.pmcd.record(&names, Duration::from_millis(200));
    eventually("values in the archive", || {
        setting.seat.feed([], "{\"type\":\"a\"}\n").ok();
        let shown = logger.archive().dump(["-z"], ["jumpseat.derived.rate"]).stdout;
        (shown.matches(&format!("inst [0 or \"{SOURCE}\"] value")).count() >= 5).then_some(())
    });
    let archive = logger.finish();
    let descriptors = archive.dump(["-d"], []).ok();
    for (name, lines) in [
        ("rate", "Data Type: double  InDom: 400.1 0x64000001\n    Semantics: instant  Units: count / sec"),
        (
            "plain",
            "Data Type: 64-bit unsigned int  InDom: 400.1 0x64000001\n    Semantics: counter  Units: count",
        ),
    ] {
        let pmid = setting.pmid(&format!("jumpseat.derived.{name}"));
        let expected = format!("PMID: {pmid} (jumpseat.derived.{name})\n    {lines}\n");
        assert!(descriptors.contains(&expected), "{expected}\n{descriptors}");
    }
    // What PCP makes of the recorded counter is what the agent made of it at the time.
    let ours = archive
        .run(
            "pmval",
            ["-U", "-w", "20"]
                .map(str::to_owned)
                .into_iter()
                .take(0)
                .chain(["-t", "0.2", "-w", "20", names[0]].map(str::to_owned)),
        )
        .ok();
    let numbers = ours
        .lines()
        .filter(|line| line.split_whitespace().last().is_some_and(|word| word.parse::<f64>().is_ok()));
    assert!(numbers.count() >= 5, "{ours}");
}

#[test]
fn reloads_keep_the_history_of_what_has_not_changed() {
    let same = "elapsed = delta(jumpseat.self.uptime)\n";
    let setting = Setting::start(same);
    let pmcd = &setting.pmcd;
    let client = pmcd.spawn("pmval", ["-t", "0.2", "jumpseat.derived.elapsed"], "client");
    let count = || samples(&client.stdout()).0.len();
    let more = |what: &str| {
        let before = count();
        eventually(what, || (count() > before + 2).then_some(()));
    };
    more("the client's first values");
    let pmid = setting.pmid("jumpseat.derived.elapsed");

    setting.define(&format!("# by pmstore\nadded = 1\n{same}"));
    assert_eq!(pmcd.value("jumpseat.control.reload").as_deref(), Some("0"));
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).ok();
    assert_eq!(pmcd.value("jumpseat.control.reload").as_deref(), Some("1"));
    assert_eq!(setting.names(), ["jumpseat.derived.added", "jumpseat.derived.elapsed"]);
    more("values after the store");

    setting.define(&format!("other = 2\n{same}"));
    let agent: i32 =
        pmcd.value("jumpseat.self.pid").and_then(|pid| pid.parse().ok()).expect("the agent's pid");
    kill(Pid::from_raw(agent), Signal::SIGHUP).expect("the agent runs");
    eventually("SIGHUP to take effect", || {
        (pmcd.value("jumpseat.control.reload").as_deref() == Some("2")).then_some(())
    });
    assert_eq!(setting.names(), ["jumpseat.derived.elapsed", "jumpseat.derived.other"]);
    more("values after the signal");
    assert_eq!(setting.pmid("jumpseat.derived.elapsed"), pmid);
    // Only the very first sample of all had nothing before it.
    assert_eq!(samples(&client.stdout()).1, 1, "{}", client.stdout());

    // Other values are refused, and so is a reload of what is not there.
    let refused = pmcd.run("pmstore", ["jumpseat.control.reload", "2"]).fails(1);
    assert!(refused.contains("Bad input to pmstore"), "{refused}");
    fs::remove_file(pmcd.dir().join("derived.conf")).expect("it was there");
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).fails(1);
    assert_eq!(setting.names(), ["jumpseat.derived.elapsed", "jumpseat.derived.other"]);
    assert!(setting.seat.log().contains("derived.conf: No such file"), "{}", setting.seat.log());
}

#[test]
fn pmids_outlive_the_agent() {
    let mut setting = Setting::start("a = 1\nb = 2\nc = 3\n");
    let names = ["a", "b", "c"].map(|name| format!("jumpseat.derived.{name}"));
    let before = names.each_ref().map(|name| setting.pmid(name));
    assert_eq!(before, ["400.64.0", "400.64.1", "400.64.2"]);
    setting.define("new = 0\nc = 3\nb = 4\n");
    setting.pmcd.restart();
    setting.pmcd.wait_ready("jumpseat");
    assert_eq!([setting.pmid(&names[1]), setting.pmid(&names[2])], [&*before[1], &*before[2]]);
    assert_eq!(setting.pmid("jumpseat.derived.new"), "400.64.3");
    // The name that went comes back as what it was.
    setting.define("c = 3\na = 1\n");
    setting.pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).ok();
    assert_eq!(setting.pmid(&names[0]), before[0]);
    assert!(Path::new(&setting.seat.state_dir()).join("400.5").exists());
}

#[test]
fn broken_definitions_are_told_in_the_log_and_hurt_nobody() {
    let setting = Setting::start(
        "good = jumpseat.control.recent + 1\nsyntax = 1 +\nnot a definition\nforeign = kernel.all.load\n\
         events = sum(jumpseat.event.records)\ncounters = jumpseat.source.bytes * jumpseat.source.received\n\
         good = 5\njumpseat.source.mine = 1\nlast = jumpseat.derived.good + 1",
    );
    assert_eq!(setting.names(), ["jumpseat.derived.good", "jumpseat.derived.last"]);
    let shown = setting.pmcd.run("pminfo", ["-f", "jumpseat.derived"]).ok();
    assert_eq!(shown, "\njumpseat.derived.good\n    value 11\n\njumpseat.derived.last\n    value 12\n");
    let log = setting.seat.log();
    for line in [
        "derived.conf:2: syntax: Arithmetic expression expected to follow PLUS (character 3 of `1 +')",
        "derived.conf:3: missing ``='' after derived metric name",
        "derived.conf: jumpseat.derived.foreign cannot be used: kernel.all.load is not a metric of this agent; for those \
         of others, set derived.pmcd in the configuration",
        "derived.conf: jumpseat.derived.events cannot be used: jumpseat.event.records gives event records",
        "derived.conf: jumpseat.derived.counters cannot be used: jumpseat.source.bytes * jumpseat.source.received: \
         Illegal operator for counters",
        "derived.conf:7: good: Duplicate global derived metric name",
        "derived.conf: jumpseat.source.mine: derived metrics of this agent are below jumpseat.derived",
        "derived metrics: 2 usable, 3 refused",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    assert_eq!(setting.pmcd.value("jumpseat.self.derived.usable").as_deref(), Some("2"));
    assert_eq!(setting.pmcd.value("jumpseat.self.derived.refused").as_deref(), Some("3"));
    // Whoever asks for it by its name learns that it is there and unusable.
    let asked = setting.pmcd.run("pmval", ["-s", "1", "jumpseat.derived.foreign"]).fails(1);
    assert!(asked.contains("Derived metric definition failed"), "{asked}");
    let never = setting.pmcd.run("pmval", ["-s", "1", "jumpseat.derived.syntax"]).fails(1);
    assert!(never.contains("Unknown metric name"), "{never}");
}

#[test]
fn the_installed_configuration_has_its_definitions_next_to_it() {
    let dir = support::temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
    for name in ["jumpseat.toml", "derived.conf"] {
        fs::copy(install.join(name), dir.path().join(name)).expect("the test's directory is writable");
    }
    let ids = seat.state_dir().display().to_string();
    let socket = seat.socket().display().to_string();
    let endpoint = seat.serve(["--state-dir", &ids, "--socket", &socket]);
    seat.feed([], "{\"type\":\"a\"}\n").ok();
    let shown =
        endpoint.run("pminfo", ["-f", "jumpseat.self.derived", "jumpseat.derived.source.mean_bytes"]).ok();
    assert!(shown.contains("jumpseat.self.derived.refused\n    value 0\n"), "{shown}");
    let bytes = instance_value(&endpoint.run("pminfo", ["-f", "jumpseat.source.bytes"]).ok());
    assert!(bytes > 0.0 && instance_value(&shown) == bytes, "{shown}");
}

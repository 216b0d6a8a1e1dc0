//! `jumpseat.derived` over other agents' metrics, under pmcd and PCP's tools.

use crate::seat::{DOMAIN, JUMPSEAT, PMDA, Seat, Transport};
use jumpseat::client::{Context, Fetched, StateChange};
use jumpseat::model::{PmError, Pmid, Value, ValueType};
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use support::{AgentSpec, PcpEnv, PmnsSource, PrivatePmcd, Process, eventually};

/// Between samples. Short, so that tests are.
const INTERVAL: Duration = Duration::from_millis(100);

/// The kernel's metrics, of which a few have names.
fn kernel() -> AgentSpec {
    let names = "kernel {\n all\n}\nkernel.all {\n load LINUX:2:0\n boottime LINUX:0:17\n}\n";
    AgentSpec::dso("linux", 60, "linux_init", "/var/lib/pcp/pmdas/linux/pmda_linux.so")
        .with_pmns(PmnsSource::new("kernel", "LINUX", names))
}

/// The host specification of the pmcd whose files are in a directory.
fn host_of(dir: &Path) -> String {
    format!("unix:/{}", dir.join("pmcd.socket").display())
}

/// A pmcd with our agent, which asks the pmcd at `host` for other agents' metrics.
struct Setting {
    pmcd: PrivatePmcd,
    seat: Seat,
}

impl Setting {
    /// Our agent beside the kernel's and the sample agent, sampling the pmcd that it serves.
    fn start(definitions: &str) -> Setting {
        Setting::with(PrivatePmcd::with([kernel(), AgentSpec::sample()]), definitions, None)
    }

    /// Our agent alone, sampling another pmcd.
    fn beside(other: &PrivatePmcd, definitions: &str) -> Setting {
        Setting::with(PrivatePmcd::with([]), definitions, Some(&host_of(other.dir())))
    }

    fn with(pmcd: support::PmcdBuilder, definitions: &str, host: Option<&str>) -> Setting {
        let seat = Seat::in_dir(pmcd.dir(), &settings(host));
        fs::write(pmcd.dir().join("derived.conf"), definitions).expect("the test's directory is writable");
        let pmcd = pmcd.agent(seat.agent(Transport::Pipe)).start();
        pmcd.wait_ready("jumpseat");
        let setting = Setting { pmcd, seat };
        setting.wait_for_news();
        setting
    }

    fn wait_for_news(&self) {
        eventually("news of the operands", || {
            (self.pmcd.value("jumpseat.self.derived.waiting")? == "0").then_some(())
        });
    }

    fn client(&self, names: &[&str]) -> Client {
        Client::new(&host_of(self.pmcd.dir()), names)
    }

    /// A metric of the sampler.
    fn sampler(&self, name: &str) -> Option<String> {
        self.pmcd.value(&format!("jumpseat.self.sampler.{name}"))
    }

    fn wait_for_state(&self, state: &str) {
        eventually(&format!("the sampler to be {state}"), || {
            (self.sampler("state")? == format!("\"{state}\"")).then_some(())
        });
    }
}

/// Without a host it is the pmcd that the environment names.
fn settings(host: Option<&str>) -> String {
    let millis = INTERVAL.as_millis();
    let host = host.map_or_else(String::new, |host| format!("pmcd = {host:?}\n"));
    format!("[derived]\nfiles = [\"derived.conf\"]\nsample_interval = \"{millis}ms\"\n{host}")
}

/// A client that stays connected and fetches single values of a few derived metrics at once.
struct Client {
    context: Context,
    metrics: Vec<(Pmid, ValueType)>,
    fetched: Fetched,
}

type Values = Vec<Result<Option<f64>, PmError>>;

impl Client {
    fn new(host: &str, names: &[&str]) -> Client {
        let mut context = Context::host(host).expect("the collector is there");
        let metrics = names.iter().map(|name| {
            let pmid = context.pmid(&format!("jumpseat.derived.{name}")).expect("the metric has a name");
            (pmid, context.desc(pmid).expect("the metric has a descriptor").value_type)
        });
        let metrics = metrics.collect();
        Client { context, metrics, fetched: Fetched::new() }
    }

    fn fetch_noting_changes(&mut self) -> (Values, StateChange) {
        let pmids: Vec<Pmid> = self.metrics.iter().map(|(pmid, _)| *pmid).collect();
        let changes = self.context.fetch(&pmids, &mut self.fetched).expect("the collector answers");
        let number = |value| match value {
            Value::I32(v) => f64::from(v),
            Value::U32(v) => f64::from(v),
            Value::I64(v) => v as f64,
            Value::U64(v) => v as f64,
            Value::Double(v) => v,
            other => panic!("{other:?}"),
        };
        let sets = self.fetched.sets().zip(&self.metrics).map(|(set, (_, value_type))| {
            let values = set.values?;
            let first = values.get(0).map(|(_, value)| value.to_value(*value_type).expect("of that type"));
            Ok(first.map(number))
        });
        (sets.collect(), changes)
    }

    fn fetch(&mut self) -> Values {
        self.fetch_noting_changes().0
    }

    /// The values of the first fetch that gives some for all metrics.
    fn first(&mut self, what: &str) -> Vec<f64> {
        eventually(what, || self.fetch().into_iter().collect::<Result<Option<Vec<f64>>, _>>().ok().flatten())
    }
}

#[test]
fn values_and_descriptors_are_those_of_the_same_definitions_in_a_client() {
    let expressions = [
        ("alias", "sample.bin"),
        ("text", "sample.string.hullo"),
        ("one", "sample.bin[bin-300]"),
        ("some", "matchinst(/^bin-[12]/, sample.bin)"),
        ("none", "matchinst(/nobody/, sample.bin)"),
        ("sum", "sum(sample.bin)"),
        ("avg", "avg(sample.bin) + count(sample.double.bin)"),
        ("pairs", "sample.bin * 2 + sample.part_bin"),
        ("scaled", "rescale(kernel.all.boottime, \"hour\") / 24"),
        ("choice", "sample.bin > 450 ? sample.bin : sample.long.one"),
        ("there", "defined(sample.long.ten) ? sample.long.ten : sample.long.one"),
        ("kernels", "count(kernel.all.load)"),
        ("mixed", "sample.bin * jumpseat.control.recent"),
        ("again", "sample.bad.fetch.again + 1"),
    ];
    let definitions = |root: &str| {
        expressions.iter().fold(String::new(), |text, (name, expression)| {
            // The agent gives its definitions a text of its own, and a client another one.
            text + &format!("{root}{name} = {expression}\n{root}{name}(oneline) = one line\n")
        })
    };
    let setting = Setting::start(&definitions(""));
    let config = setting.pmcd.dir().join("client.conf");
    fs::write(&config, definitions("client.")).expect("the test's directory is writable");
    let mut env = setting.pmcd.env().clone();
    env.set("PCP_DERIVED_CONFIG", config);
    // Each metric with its lines, in the order of names.
    let shown = |root: &str| -> Option<Vec<String>> {
        let text = env.run("pminfo", ["-dft", root]).stdout.replace(&format!("{root}."), "");
        let mut metrics: Vec<String> = text.trim().split("\n\n").map(str::to_owned).collect();
        metrics.sort();
        let waiting = metrics.iter().filter(|text| text.contains("Try again")).count();
        // One of them always says so.
        (waiting == 1).then_some(metrics)
    };
    let ours = eventually("values of all", || shown("jumpseat.derived"));
    let theirs = shown("client").expect("pmcd has values");
    assert_eq!(ours.len(), expressions.len(), "{ours:?}");
    assert_eq!(ours, theirs);
    // A client that wants one instance gets one.
    let one = eventually("a value of one instance", || {
        let args = ["-s", "2", "-t", "0.1", "-i", "bin-300", "jumpseat.derived.mixed"];
        let one = setting.pmcd.run("pmval", args).ok();
        one.contains("3000").then_some(one)
    });
    assert!(one.contains("bin-300") && !one.contains("4000"), "{one}");
}

#[test]
fn what_rate_and_delta_see_are_samples_whatever_the_pace_of_a_client() {
    let definitions = "raw = sample.pdu\nd = delta(sample.pdu)\nr = rate(sample.pdu)\n\
                       ms = delta(sample.milliseconds)\nmsr = rate(sample.milliseconds)\n";
    let setting = Setting::start(definitions);
    let names = ["raw", "d", "r", "ms", "msr"];
    let host = host_of(setting.pmcd.dir());
    let run = |pace: Duration, samples: usize| {
        let mut client = Client::new(&host, &names);
        let mut last: Option<Values> = None;
        let (mut seen, mut repeated) = (0, 0);
        while seen < samples {
            let values = client.fetch();
            sleep(pace);
            if values.contains(&Err(PmError::AGAIN)) {
                // Before the first sample that has all of them, or while the newest is too old.
                continue;
            }
            let Some(before) = last.replace(values.clone()) else { continue };
            if values[0] == before[0] {
                // The same sample: what is remembered is not what it would be compared with.
                assert_eq!(values, before);
                repeated += 1;
                continue;
            }
            let number = |of: &Values, at: usize| of[at].ok().flatten().unwrap_or_else(|| panic!("{of:?}"));
            let [d, r, ms, rate_of_ms] = [1, 2, 3, 4].map(|at| number(&values, at));
            assert_eq!(d, number(&values, 0) - number(&before, 0));
            // Differences and rates are over the same time, that between the samples.
            let (seconds, other) = (d / r, ms / 1000.0 / rate_of_ms);
            assert!(seconds > 0.0 && (seconds / other - 1.0).abs() < 1e-9, "{values:?}");
            seen += 1;
        }
        repeated
    };
    let (repeated_by_quick, _) = std::thread::scope(|scope| {
        let quick = scope.spawn(|| run(INTERVAL / 10, 10));
        let slow = scope.spawn(|| run(INTERVAL * 3, 4));
        (quick.join().expect("the quick client is content"), slow.join().expect("the slow client is content"))
    });
    assert!(repeated_by_quick > 0);
}

#[test]
fn the_sampler_rests_when_nobody_wants_values_and_tells_its_state() {
    let setting = Setting::start("x = sample.long.ten + 1\ny = jumpseat.self.pid\n");
    // Names are known; values nobody has asked for.
    setting.wait_for_state("idle");
    assert_eq!(setting.sampler("samples").as_deref(), Some("0"));
    assert_eq!(setting.sampler("metrics").as_deref(), Some("0"));
    assert_eq!(setting.sampler("age"), None);
    // What is made of own metrics only has nothing to do with it.
    assert!(setting.pmcd.value("jumpseat.derived.y").is_some());
    setting.wait_for_state("idle");
    let mut client = setting.client(&["x"]);
    assert_eq!(client.fetch(), [Err(PmError::AGAIN)]);
    assert_eq!(client.first("a value"), [11.0]);
    setting.wait_for_state("sampling");
    assert_eq!(setting.sampler("metrics").as_deref(), Some("1"));
    assert_ne!(setting.sampler("latency").as_deref(), Some("0"));
    drop(client);
    setting.wait_for_state("idle");
    let samples = setting.sampler("samples").expect("a count");
    sleep(INTERVAL * 3);
    assert_eq!(setting.sampler("samples"), Some(samples));
    assert_eq!(setting.sampler("errors").as_deref(), Some("0"));
    // The interval can be changed meanwhile.
    assert_eq!(setting.pmcd.value("jumpseat.control.sample_interval").as_deref(), Some("100"));
    setting.pmcd.run("pmstore", ["jumpseat.control.sample_interval", "60"]).ok();
    assert_eq!(setting.pmcd.value("jumpseat.control.sample_interval").as_deref(), Some("60"));
    setting.pmcd.run("pmstore", ["jumpseat.control.sample_interval", "49"]).fails(1);
    assert!(setting.seat.log().contains("allowed is 50 to 3600000"), "{}", setting.seat.log());
    assert_eq!(setting.client(&["x"]).first("a value"), [11.0]);
}

#[test]
fn when_the_pmcd_asked_goes_values_go_and_come_back_with_it() {
    let mut other = PrivatePmcd::with([AgentSpec::sample()]).start();
    let setting = Setting::beside(&other, "raw = sample.pdu\nd = delta(sample.pdu)\nbad = sample.nosuch\n");
    let mut client = setting.client(&["raw", "d"]);
    // Requests are what is counted: enough of them for the count to be smaller when it begins anew.
    eventually("a high count", || {
        other.run("pminfo", ["-f", "sample.bin", "sample.long", "sample.double"]).ok();
        (client.first("values")[0] > 100.0).then_some(())
    });
    let restarts = |name: &str| setting.sampler(name).expect("a count").parse::<u64>().expect("a number");
    assert_eq!((restarts("reconnects"), restarts("errors")), (0, 0));
    other.stop();
    let before = eventually("values to be too old", || {
        let values = client.fetch();
        values.contains(&Err(PmError::AGAIN)).then_some(values)
    });
    assert_eq!(before, [Err(PmError::AGAIN), Err(PmError::AGAIN)]);
    setting.wait_for_state("unreachable");
    let age: u128 = setting.sampler("age").expect("there was a sample").parse().expect("a number");
    assert!(age > (INTERVAL * 3).as_millis(), "{age}");
    assert!(restarts("errors") > 0);
    assert!(setting.seat.log().contains("trying again"), "{}", setting.seat.log());
    other.start_again();
    // The counter has begun anew; the history has not.
    let values = client.first("values again");
    assert!(values[1] < 0.0, "{values:?}");
    assert_eq!(restarts("reconnects"), 1);
    // Nothing is anything else than before.
    let log = setting.seat.log();
    assert_eq!(log.matches("jumpseat.derived.bad cannot be used").count(), 1, "{log}");
}

#[test]
fn an_agent_that_outlives_pmcd_samples_the_next_one() {
    let builder = PrivatePmcd::with([kernel(), AgentSpec::sample()]);
    let seat = Seat::in_dir(builder.dir(), &settings(Some(&host_of(builder.dir()))));
    fs::write(builder.dir().join("derived.conf"), "sum = sum(sample.bin)\n").expect("the directory is ours");
    let socket = seat.agent_socket();
    let mut command = PcpEnv::new().command(PMDA);
    command.args(seat.args()).arg("-u").arg(&socket).current_dir(builder.dir());
    // Before pmcd, so that there is nobody to ask at first.
    let mut agent = Process::start(&mut command, builder.dir(), "agent");
    eventually("the agent's socket", || socket.exists().then_some(()));
    let spec = AgentSpec::unix("jumpseat", DOMAIN, &socket, &[]).with_pmns(seat.pmns());
    let mut pmcd = builder.agent(spec).start();
    let sum = |pmcd: &PrivatePmcd| {
        pmcd.wait_ready("jumpseat");
        eventually("a value", || Some(pmcd.value("jumpseat.derived.sum")? == "4500").filter(|right| *right))
    };
    sum(&pmcd);
    let count = |pmcd: &PrivatePmcd, name: &str| {
        pmcd.value(&format!("jumpseat.self.sampler.{name}")).and_then(|text| text.parse::<u64>().ok())
    };
    let (samples, reconnects) = (count(&pmcd, "samples"), count(&pmcd, "reconnects"));
    pmcd.stop();
    eventually("the agent's socket", || socket.exists().then_some(()));
    pmcd.start_again();
    eventually("samples of the next pmcd", || {
        sum(&pmcd);
        (count(&pmcd, "reconnects") > reconnects && count(&pmcd, "samples") > samples).then_some(())
    });
    sum(&pmcd);
    assert_eq!(pmcd.value("jumpseat.self.pid"), Some(agent.pid().to_string()));
    pmcd.stop();
    assert!(agent.stop().success(), "{}", agent.text());
}

#[test]
fn a_pmcd_that_does_not_answer_makes_nobody_wait() {
    let other = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut setting = Setting::beside(&other, "x = sample.long.ten\n");
    let mut client = setting.client(&["x"]);
    assert_eq!(client.first("a value"), [10.0]);
    let pid = nix::unistd::Pid::from_raw(other.pid() as i32);
    kill(pid, Signal::SIGSTOP).expect("pmcd runs");
    // The agent answers all the while.
    eventually("the value to be too old", || (client.fetch() == [Err(PmError::AGAIN)]).then_some(()));
    assert!(setting.pmcd.value("jumpseat.self.pid").is_some());
    // It also ends, with its thread in the middle of a request.
    setting.pmcd.stop();
    eventually("the agent to end", || setting.seat.log().contains("ended").then_some(()));
    kill(pid, Signal::SIGCONT).expect("pmcd is there");
}

#[test]
fn an_agent_that_dies_takes_its_own_metrics_with_it_only() {
    let definitions = "sample = sample.long.ten\nkernel = count(kernel.all.load)\n\
                       both = sample.long.ten + count(kernel.all.load)\n";
    let mut setting = Setting::start(definitions);
    let mut client = setting.client(&["sample", "kernel", "both"]);
    let values = client.first("values");
    let daemon: i32 =
        setting.pmcd.value("sample.daemon_pid").and_then(|pid| pid.parse().ok()).expect("its process");
    kill(nix::unistd::Pid::from_raw(daemon), Signal::SIGKILL).expect("the sample agent runs");
    let without = eventually("the agent to be missed", || {
        let values = client.fetch();
        (values[0].is_err() && values[1].is_ok()).then_some(values)
    });
    // pmcd's own word for it, in the same sample.
    assert_eq!(without, [without[0], Ok(Some(values[1])), without[0]]);
    assert_ne!(without[0], Err(PmError::AGAIN));
    setting.pmcd.reconfigure();
    assert_eq!(client.first("values again"), values);
    // Its metrics were what they are all the time.
    assert_eq!(setting.sampler("reconnects").as_deref(), Some("0"));
    assert_eq!(setting.pmcd.value("jumpseat.self.derived.usable").as_deref(), Some("3"));
}

#[test]
fn what_pmcd_does_not_know_is_refused_with_the_name_of_the_operand() {
    let setting = Setting::start(
        "good = sample.long.one\nunknown = sample.nosuch + 1\nuser = jumpseat.derived.unknown * 2\n\
         node = sum(sample.long)\nevents = count(sample.event.records)\nself = jumpseat.derived.self + sample.long.one\n\
         words = sample.string.hullo + 1\n",
    );
    let listed = setting.pmcd.run("pminfo", ["jumpseat.derived"]).ok();
    assert_eq!(listed, "jumpseat.derived.good\n");
    let log = setting.seat.log();
    for line in [
        "jumpseat.derived.unknown cannot be used: sample.nosuch is not a metric of this agent, and local: says: Unknown metric name",
        "jumpseat.derived.user cannot be used: ",
        "jumpseat.derived.node cannot be used: sample.long is not a metric",
        "jumpseat.derived.events cannot be used: sample.event.records gives event records",
        "jumpseat.derived.self cannot be used: ",
        "jumpseat.derived.words cannot be used: ",
        "derived metrics: 0 usable, 0 refused, 7 waiting for news of their operands",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    let asked = setting.pmcd.run("pmval", ["-s", "1", "jumpseat.derived.unknown"]).fails(1);
    assert!(asked.contains("Derived metric definition failed"), "{asked}");
    assert_eq!(setting.pmcd.value("jumpseat.self.derived.refused").as_deref(), Some("6"));
}

#[test]
fn derive_check_knows_what_the_agent_will_know() {
    let setting = Setting::start("");
    let file = setting.pmcd.dir().join("check.conf");
    fs::write(
        &file,
        "mine = rate(sample.pdu) + rate(jumpseat.source.received)\nload = max(kernel.all.load)\n",
    )
    .expect("the test's directory is writable");
    let check = |option: &[&str]| {
        let args = ["derive", "check"].iter().chain(option).copied().map(str::to_owned);
        setting.pmcd.run(JUMPSEAT, args.chain([file.display().to_string()]))
    };
    let host = host_of(setting.pmcd.dir());
    assert_eq!(check(&["--host", &host]).ok(), "2 definitions, 0 problems\n");
    let alone = check(&["--agent"]).fails(1);
    assert!(alone.contains("Unknown operand metric: kernel.all.load"), "{alone}");
    assert_eq!(
        alone.matches("help: --agent knows the metrics of the jumpseat agent only").count(),
        2,
        "{alone}"
    );
}

#[test]
fn an_operand_that_has_become_another_costs_the_history_of_what_is_made_of_it() {
    let setting = Setting::start("same = delta(sample.pdu)\nother = delta(sample.dynamic.meta.metric)\n");
    let mut client = setting.client(&["same", "other"]);
    client.first("values");
    let described = || setting.pmcd.run("pminfo", ["-d", "jumpseat.derived.other"]).ok();
    let before = described();
    // The sample agent lets the type of that metric be changed.
    setting.pmcd.run("pmstore", ["sample.dynamic.meta.pmdesc.type", "5"]).ok();
    eventually("a notice that names mean something else", || {
        client.fetch_noting_changes().1.contains(StateChange::NAMES).then_some(())
    });
    let after = described();
    assert!(after != before && after.contains("double"), "{before}{after}");
    setting.client(&["same", "other"]).first("values of the new type");
}

#[test]
fn without_pmcd_other_agents_metrics_are_had_of_the_one_that_is_named() {
    let definitions = "load = kernel.all.load\nten = sample.long.ten\nfirst = sample.bin[bin-100]\n";
    let dirs = [support::temp_dir(), support::temp_dir()];
    let serve = |dir: &Path, settings: &str| {
        fs::write(dir.join("derived.conf"), definitions).expect("the test's directory is writable");
        let state = dir.join("ids").display().to_string();
        Seat::in_dir(dir, settings).serve(["--state-dir", &state])
    };
    let refused = |endpoint: &crate::seat::Endpoint| {
        let shown = endpoint.run("pminfo", ["-f", "jumpseat.self.derived.refused"]).ok();
        shown.contains("value 3")
    };
    let alone = serve(dirs[0].path(), "[derived]\nfiles = [\"derived.conf\"]");
    assert!(refused(&alone));
    let said = alone.process.text();
    assert!(said.contains("set derived.pmcd in the configuration"), "{said}");
    drop(alone);

    let other = PrivatePmcd::with([kernel(), AgentSpec::sample()]).start();
    let endpoint = serve(dirs[1].path(), &settings(Some(&host_of(other.dir()))));
    let shown = eventually("values of all", || {
        let shown = endpoint.run("pminfo", ["-f", "jumpseat.derived"]).ok();
        (shown.matches(" value ").count() == 5).then_some(shown)
    });
    let labels = endpoint.run("pminfo", ["-l", "jumpseat.derived"]).ok();
    assert!(labels.contains("\"about\":\"derived\"") && !labels.contains("\"source\""), "{labels}");
    // Instances have the names that they have there.
    for line in ["inst [1 or \"1 minute\"] value ", "    value 10\n", "inst [100 or \"bin-100\"] value 100\n"]
    {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
}

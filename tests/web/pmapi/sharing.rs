//! Contexts on one host that share connections to it: what each of them has of its own, and how few connections there are.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value as Json, json};
use support::{AgentSpec, PrivatePmcd, eventually, temp_dir};

use super::events::start;
use super::hostile::clients;
use super::{Sample, make_help};
use crate::web_support::Web;

fn context(web: &Web) -> Json {
    web.json("/pmapi/context?polltimeout=120")["context"].clone()
}

fn values(web: &Web, context: &Json, query: &str) -> Vec<(Json, Json)> {
    let answer = web.json(&format!("/pmapi/{context}/fetch?{query}"));
    let instances = answer["values"][0]["instances"].as_array().expect("instances").clone();
    instances.into_iter().map(|one| (one["instance"].clone(), one["value"].clone())).collect()
}

#[test]
fn many_contexts_take_turns_on_few_connections() {
    let sample = Sample::start(&["-h", "local:", "--allow-store"]);
    let web = &sample.web;
    let before = clients(&sample);
    let contexts: Vec<Json> = (0..100).map(|_| context(web)).collect();
    std::thread::scope(|scope| {
        for part in contexts.chunks(10) {
            scope.spawn(move || {
                for context in part.iter().chain(part) {
                    assert_eq!(values(web, context, "names=sample.long.hundred")[0].1, 100);
                }
            });
        }
    });
    // As many as requests of one host at a time.
    let now = clients(&sample);
    assert!(now <= before + 8, "{before} and then {now}");

    // Each has its own instances, in turn over one connection.
    let (one, other) = (&contexts[0], &contexts[1]);
    for (context, instance) in [(one, "bin-100"), (other, "bin-300")] {
        for expr in ["del".to_owned(), format!("add&iname={instance}")] {
            web.json(&format!("/pmapi/{context}/profile?expr={expr}&name=sample.bin"));
        }
    }
    for _ in 0..3 {
        assert_eq!(values(web, one, "names=sample.bin"), [(json!(100), json!(100))]);
        assert_eq!(values(web, other, "names=sample.bin"), [(json!(300), json!(300))]);
        assert_eq!(values(web, &contexts[2], "names=sample.bin").len(), 9);
    }

    // Its own derived metrics.
    web.json(&format!("/pmapi/{one}/derive?name=my.delta&expr=delta(sample.seconds)"));
    let unknown = web.json(&format!("/pmapi/{other}/fetch?names=my.delta"));
    assert_eq!(unknown["values"], json!([]));
    values(web, one, "names=my.delta");

    // Who stores has a connection of its own, as agents may tell clients apart.
    let shared = clients(&sample);
    for context in &contexts[..5] {
        web.json(&format!("/pmapi/{context}/store?name=sample.write_me&value=7"));
    }
    values(web, &contexts[9], "names=sample.long.one");
    let with_own = clients(&sample);
    assert!(with_own >= 5 && with_own <= shared + 6, "{shared} and then {with_own}");
    // Others have opened connections, and have been told that metrics may have changed.
    assert_eq!(values(web, one, "names=my.delta").len(), 1, "it knows the sample before");

    // Nobody needs them any more.
    eventually("connections that nobody uses are closed", || (clients(&sample) <= before + 6).then_some(()));
    assert_eq!(values(web, &contexts[50], "names=sample.long.one")[0].1, 1, "it connects again");
}

/// Gives two metrics of the sample agent each other's number, for the next start of the collector.
fn exchange_numbers(root: &Path, names: [&str; 2]) {
    let text = fs::read_to_string(root).expect("it was written");
    let (before, rest) = text.split_once("sample.long {").expect("the agent's names");
    let (block, after) = rest.split_once('}').expect("its end");
    let of = |name: &str| {
        let mut words = block.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).expect("its number").to_owned()
    };
    let numbers = names.map(of);
    let line = |line: &str| match line.split_whitespace().next() {
        Some(name) if name == names[0] => format!("{name} {}\n", numbers[1]),
        Some(name) if name == names[1] => format!("{name} {}\n", numbers[0]),
        _ => format!("{line}\n"),
    };
    let block: String = block.lines().map(line).collect();
    fs::write(root, format!("{before}sample.long {{{block}}}{after}")).expect("it is the test's");
}

#[test]
fn numbers_of_metrics_are_asked_for_again_after_a_restart_that_no_connection_has_seen() {
    let mut sample = Sample::start(&[]);
    let before = clients(&sample);
    let contexts: Vec<Json> = (0..3).map(|_| context(&sample.web)).collect();
    let one =
        |sample: &Sample, context: &Json| values(&sample.web, context, "names=sample.long.one")[0].1.clone();
    assert!(contexts.iter().all(|context| one(&sample, context) == 1));
    assert!(clients(&sample) > before);
    // Closed as nobody uses them: nobody is there to be told of the end of the collector.
    eventually("idle connections are closed", || (clients(&sample) <= before).then_some(()));
    sample.pmcd.stop();
    exchange_numbers(&sample.pmcd.dir().join("root"), ["one", "ten"]);
    sample.pmcd.start_again();
    for context in &contexts {
        assert_eq!(one(&sample, context), 10, "what has the name now");
    }
}

#[test]
fn help_texts_are_asked_for_again_when_one_with_its_own_connection_finds_another_collector() {
    let mut sample = Sample::start(&["-h", "local:", "--allow-store"]);
    let [shared, own] = [0, 1].map(|_| context(&sample.web));
    sample.web.json(&format!("/pmapi/{own}/store?name=sample.write_me&value=7"));
    let texts = |sample: &Sample, context: &Json| {
        let answer =
            sample.web.json(&format!("/pmapi/{context}/metric?names=sample.long.one,sample.long.ten"));
        let metrics = answer["metrics"].as_array().expect("metrics").clone();
        metrics
            .iter()
            .map(|one| (one["pmid"].clone(), one["text-oneline"].clone()))
            .collect::<Vec<(Json, Json)>>()
    };
    let before = texts(&sample, &shared);
    assert!(before[0].1.is_string() && before[0].1 != before[1].1, "{before:?}");
    assert_eq!(texts(&sample, &own), before);
    sample.pmcd.stop();
    exchange_numbers(&sample.pmcd.dir().join("root"), ["one", "ten"]);
    exchange_numbers(&sample.dir.path().join("root"), ["one", "ten"]);
    make_help(sample.dir.path());
    sample.pmcd.start_again();
    let [one, ten] = [0, 1].map(|at| before[at].clone());
    let after = [(ten.0, one.1), (one.0, ten.1)];
    assert_eq!(texts(&sample, &own), after, "by name, as it is now");
    assert_eq!(texts(&sample, &shared), after);
}

/// Asks for the value of a query.
type Ask<'a> = &'a dyn Fn(&str) -> String;

#[test]
fn the_fetch_that_is_told_of_other_names_has_their_values() {
    let mut sample = Sample::start(&[]);
    let web = &sample.web;
    let context = context(web);
    let fetched = |query: &str| values(web, &context, query)[0].1.to_string();
    let scraped = |query: &str| {
        let page = web.get(&format!("/pmapi/{context}/metrics?{query}")).text();
        let line = page.lines().find(|line| line.starts_with("sample_long_one"));
        line.and_then(|line| line.split(' ').next_back()).unwrap_or(&page).to_owned()
    };
    let query = "names=sample.long.one";
    assert_eq!([fetched(query), fetched(query), scraped(query)], ["1", "1", "1"]);
    let by_thread = |query: &str| fetched(&format!("{query}&events=true"));
    let ways: [(&str, Ask<'_>, &str); 3] =
        [("polled", &fetched, "10"), ("by a thread", &by_thread, "1"), ("scraped", &scraped, "10")];
    for (domain, (way, value, wanted)) in (30..).zip(ways) {
        exchange_numbers(&sample.pmcd.dir().join("root"), ["one", "ten"]);
        // The collector tells of an agent, and not of names that it has read anew.
        sample.pmcd.set_agent(AgentSpec::sample_as(&format!("other{domain}"), domain));
        sample.pmcd.reconfigure();
        assert_eq!(sample.pmcd.value("sample.long.one").as_deref(), Some(wanted), "the collector has them");
        assert_eq!(value(query), wanted, "{way}");
    }
}

#[test]
fn a_lost_connection_is_lost_for_all_and_each_defines_its_metrics_again() {
    let mut sample = Sample::start(&[]);
    let contexts: Vec<Json> = (0..10).map(|_| context(&sample.web)).collect();
    for context in &contexts {
        sample
            .web
            .json(&format!("/pmapi/{context}/derive?name=my.sum&expr=sample.long.one%2Bsample.long.ten"));
        assert_eq!(values(&sample.web, context, "names=my.sum")[0].1, 11);
    }
    sample.pmcd.restart();
    for context in &contexts {
        assert_eq!(values(&sample.web, context, "names=my.sum")[0].1, 11);
    }
    sample.pmcd.stop();
    let answer = sample.web.get(&format!("/pmapi/{}/fetch?names=sample.long.one", contexts[0]));
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("cannot reconnect context"), "{}", answer.text());
    sample.pmcd.start_again();
    eventually("it is connected again", || {
        let answer = sample.web.get(&format!("/pmapi/{}/fetch?names=my.sum", contexts[1]));
        (answer.status == 200).then_some(())
    });
}

#[test]
fn each_context_has_all_event_records_beside_others_on_the_same_host() {
    let dir = temp_dir();
    let (_pmcd, seat, web) = start("", dir.path(), &[]);
    let contexts: Vec<Json> = (0..3).map(|_| context(&web)).collect();
    let fetch = |context: &Json| {
        let answer = web.json(&format!("/pmapi/{context}/fetch?names=jumpseat.event.records&events=true"));
        let instances = answer["values"][0]["instances"].as_array().cloned().unwrap_or_default();
        instances.iter().map(|one| one["value"].as_array().map_or(0, Vec::len)).sum::<usize>()
    };
    for context in &contexts {
        assert_eq!(fetch(context), 0, "from here on");
    }
    seat.feed(["--source", "app"], &"{\"message\":\"x\"}\n".repeat(20)).ok();
    for context in &contexts {
        let mut found = 0;
        eventually("all records", || {
            found += fetch(context);
            (found == 20).then_some(())
        });
        assert_eq!(fetch(context), 0, "each once");
    }
}

#[test]
fn what_the_agent_computes_from_sample_to_sample_is_of_each_contexts_own_samples() {
    let dir = temp_dir();
    let definitions = dir.path().join("derived.conf");
    fs::write(&definitions, "jumpseat.derived.new = delta(sum(jumpseat.event.count))\n")
        .expect("it is the test's");
    let settings = format!("[derived]\nfiles = [\"{}\"]\npmcd = \"\"", definitions.display());
    let (_pmcd, seat, web) = start(&settings, dir.path(), &[]);
    let feed = |count: usize| {
        seat.feed(["--source", "app"], &"{\"message\":\"x\"}\n".repeat(count)).ok();
    };
    let counted = |context: &Json| -> u64 {
        let found = values(&web, context, "names=jumpseat.event.count");
        found.iter().filter_map(|(_, value)| value.as_u64()).sum()
    };
    let new = |context: &Json| {
        values(&web, context, "names=jumpseat.derived.new").first().and_then(|(_, value)| value.as_f64())
    };
    let contexts: Vec<Json> = (0..3).map(|_| context(&web)).collect();
    feed(1);
    eventually("it is counted", || (counted(&contexts[0]) == 1).then_some(()));
    for context in &contexts {
        assert_eq!(new(context), None, "there is no sample before");
    }
    feed(20);
    eventually("all are counted", || (counted(&contexts[0]) == 21).then_some(()));
    for context in &contexts {
        assert_eq!(new(context), Some(20.0));
    }
}

#[test]
fn a_fetch_whose_client_goes_away_is_ended_and_its_answer_is_nobody_elses() {
    let (dir, collector) = (temp_dir(), PrivatePmcd::with([AgentSpec::sample()]).start());
    let web = &Web::start_in(collector.env(), dir.path(), &["-h", &collector.inet()]);
    let contexts: Vec<Json> = (0..2).map(|_| context(web)).collect();
    let (one, ten) = ("names=sample.long.one", "names=sample.long.ten");
    let expect = |context: &Json| {
        assert_eq!(values(web, context, one)[0].1, 1);
        assert_eq!(values(web, context, ten)[0].1, 10);
    };
    contexts.iter().for_each(expect);
    let pmcd = Pid::from_raw(collector.pid().try_into().expect("pids are small"));
    for context in &contexts {
        let before = unread(collector.port());
        kill(pmcd, Signal::SIGSTOP).expect("it is the test's");
        let mut stream = TcpStream::connect(("127.0.0.1", web.port)).expect("it listens");
        let request = format!("GET /pmapi/{context}/fetch?{one} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        eventually("the fetch was sent", || (unread(collector.port()) > before).then_some(()));
        let from = stream.local_addr().expect("it has one").port();
        drop(stream);
        eventually("the server has noticed", || (!is_open(web.port, from)).then_some(()));
        kill(pmcd, Signal::SIGCONT).expect("it is the test's");
        for _ in 0..10 {
            contexts.iter().for_each(expect);
        }
    }
}

/// Connections over IPv4: ports here and there, whether it is open to both sides, and how many bytes nobody has read.
fn connections() -> Vec<(u16, u16, bool, u64)> {
    const ESTABLISHED: &str = "01";
    const CLOSE_WAIT: &str = "08";
    let table = fs::read_to_string("/proc/net/tcp").expect("the system tells");
    let port = |text: &str| u16::from_str_radix(text.split_once(':')?.1, 16).ok();
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let unread = u64::from_str_radix(words.get(4)?.split_once(':')?.1, 16).ok()?;
        let is_open = matches!(words[3], ESTABLISHED | CLOSE_WAIT);
        Some((port(words[1])?, port(words[2])?, is_open, unread))
    };
    table.lines().skip(1).filter_map(line).collect()
}

/// Bytes that a server has not read from its clients.
fn unread(port: u16) -> u64 {
    let open = connections().into_iter().filter(|(here, _, is_open, _)| *here == port && *is_open);
    open.map(|(.., unread)| unread).sum()
}

/// Whether a server has the connection of a client.
fn is_open(port: u16, client: u16) -> bool {
    connections().iter().any(|(here, there, is_open, _)| (*here, *there, *is_open) == (port, client, true))
}

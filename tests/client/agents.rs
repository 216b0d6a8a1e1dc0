//! Contexts on agents that they start themselves, as a library has them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use jumpseat::client::{
    ClientError, Context, ContextKind, Duplicates, Fetched, LabelTarget, LocalAgents, NameSpace, TextLevel,
    TextTarget,
};
use jumpseat::model::{InDom, PmError, Pmid, Value, ValueSet, ValueType};
use jumpseat::pdu::{Pdu, PmnsNames};
use support::{AgentSpec, SAMPLE_PMDA, eventually, temp_dir, user};

/// A context on agents by lines as in pmcd.conf, under the sample agent's names as `one` (domain 29) and `two` (domain 30), and
/// what was told of faults.
fn context(dir: &Path, conf: &str) -> (Context, Arc<Mutex<Vec<String>>>) {
    let names = [("one", "29"), ("two", "30")]
        .map(|(name, domain)| AgentSpec::sample_pmns(name).text.replace("SAMPLE:", &format!("{domain}:")));
    let file = dir.join("root");
    let text = names.concat();
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    fs::write(&file, format!("root {{ one two }}\n{}\n", text.join("\n"))).expect("writable");
    let names = NameSpace::load(&file, Duplicates::Allowed, &[]).expect("names");
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = told.clone();
    let tell = Box::new(move |fault: &jumpseat::client::LocalFault| {
        teller.lock().expect("nobody panics").push(fault.to_string());
    });
    (Context::local_agents(LocalAgents::of_conf(conf, dir), Some(Arc::new(names)), tell), told)
}

/// Two sample agents.
fn samples() -> String {
    let words = |domain| format!("{SAMPLE_PMDA} -d {domain} -U {} -l sample.log", user());
    format!("one 29 pipe binary {}\ntwo 30 pipe binary {}\n", words(29), words(30))
}

fn code<T: std::fmt::Debug>(result: Result<T, ClientError>) -> PmError {
    result.expect_err("an error").code()
}

fn value(fetched: &Fetched, at: usize) -> Result<Value, PmError> {
    let set = fetched.set(at).expect("a set for each metric").to_values(ValueType::I32)?;
    Ok(set.values?.into_iter().next().expect("a value").value)
}

/// As `pmTraversePMNS(3)` and `pmGetChildren(3)` of 6.0.3, derived metrics or not.
#[test]
fn where_there_are_no_names_nothing_is_below_any() {
    let tell = Box::new(|_: &jumpseat::client::LocalFault| {});
    let mut context = Context::local_agents(LocalAgents::of_conf("", Path::new("/nosuch")), None, tell);
    context.add_derived("my.good", "1 + 2").unwrap();
    for name in ["", "my", "my.good", "event", "no.such"] {
        assert_eq!(code(context.traverse(name)), PmError::NOPMNS, "{name}");
        assert_eq!(code(context.children(name)), PmError::NOPMNS, "{name}");
    }
}

#[test]
fn results_of_several_agents_come_in_the_order_asked_for() {
    let dir = temp_dir();
    let (mut context, told) = context(dir.path(), &samples());
    assert_eq!(context.kind(), ContextKind::Local);
    let names = ["two.long.ten", "one.long.one", "no.such", "two.long.one", "one.long.hundred"];
    let ids: Vec<Option<Pmid>> = context.lookup_names(&names).unwrap();
    assert_eq!((ids[0], ids[2]), (Some(Pmid::new(30, 0, 11)), None));
    let mut ids: Vec<Pmid> = ids.into_iter().flatten().collect();
    // Nobody's, an unknown one, and one a second time.
    ids.extend([Pmid::new(77, 0, 0), Pmid::new(29, 0, 54), ids[0]]);
    let mut fetched = Fetched::new();
    for _ in 0..3 {
        context.fetch(&ids, &mut fetched).unwrap();
        assert_eq!(fetched.sets().map(|set| set.pmid).collect::<Vec<_>>(), ids);
        let values: Vec<_> = (0..ids.len()).map(|at| value(&fetched, at)).collect();
        let number = |number| Ok(Value::I32(number));
        let expected = [
            number(10),
            number(1),
            number(1),
            number(100),
            Err(PmError::NOAGENT),
            Err(PmError::PMID),
            number(10),
        ];
        assert_eq!(values, expected);
        assert!(fetched.timestamp.sec > 1_000_000_000);
    }
    let sum = context.add_derived("sum", "one.long.one + two.long.ten").unwrap();
    context.fetch(&[sum, ids[3]], &mut fetched).unwrap();
    assert_eq!((value(&fetched, 0), value(&fetched, 1)), (Ok(Value::I32(11)), Ok(Value::I32(100))));
    // A profile counts for both.
    let colours = [29, 30].map(|domain| InDom::new(domain, 1));
    let bins = context.lookup_names(&["one.bin", "two.bin"]).unwrap();
    let bins: Vec<Pmid> = bins.into_iter().flatten().collect();
    context.delete_profile(InDom::new(30, 2), &[]).unwrap();
    context.add_profile(InDom::new(30, 2), &[300]).unwrap();
    context.fetch(&bins, &mut fetched).unwrap();
    let counts: Vec<usize> = fetched.sets().map(|set| set.values.map_or(0, |values| values.len())).collect();
    assert_eq!(counts, [9, 1]);
    assert_eq!(context.instance(colours[1], "green").unwrap(), 1);
    assert_eq!(context.instances(colours[0]).unwrap().len(), 3);
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn metadata_stores_and_dynamic_names_reach_their_agents() {
    let dir = temp_dir();
    let (mut context, told) = context(dir.path(), &samples());
    let all = context.traverse("").unwrap();
    assert!(all.len() > 200 && all.contains(&"one.long.one".to_owned()));
    assert_eq!(context.traverse("one.ghosts").unwrap(), ["one.ghosts.visible"]);
    // The sample agent's own, in the order of its nodes.
    let below =
        ["max.redirect", "three", "four", "grunt.five", "grunt.snort.six", "grunt.snort.huff.puff.seven"];
    let mut secret: Vec<String> = below.iter().map(|name| format!("one.secret.foo.bar.{name}")).collect();
    secret.extend(["foo.one", "foo.two", "bar"].map(|name| format!("one.secret.{name}")));
    assert_eq!(context.traverse("one.secret").unwrap(), secret);
    assert_eq!(code(context.pmid("one.nosuch")), PmError::NAME);
    assert_eq!(code(context.pmid("one.long")), PmError::NONLEAF);
    assert_eq!(context.names_of(Pmid::new(30, 0, 10)).unwrap(), ["two.long.one"]);
    let write_me = context.pmid("two.long.write_me").unwrap();
    let other = context.pmid("one.long.write_me").unwrap();
    let sets = [(write_me, 5), (other, 6)].map(|(pmid, number)| ValueSet::singular(pmid, number));
    context.store(&sets).unwrap();
    let mut fetched = Fetched::new();
    context.fetch(&[other, write_me], &mut fetched).unwrap();
    assert_eq!((value(&fetched, 0), value(&fetched, 1)), (Ok(Value::I32(6)), Ok(Value::I32(5))));
    assert_eq!(code(context.store(&[ValueSet::singular(Pmid::new(77, 0, 0), 1)])), PmError::NOAGENT);
    let labels = context.labels(LabelTarget::Domain(30)).unwrap();
    assert!(labels[0].labels.as_ref().unwrap().iter().any(|label| label.name == "agent"), "{labels:?}");
    let own = context.labels(LabelTarget::Context).unwrap();
    assert!(own[0].labels.as_ref().unwrap().iter().any(|label| label.name == "hostname"), "{own:?}");
    let text = TextTarget::Metric(Pmid::new(77, 0, 0));
    assert_eq!(code(context.text(text, TextLevel::OneLine)), PmError::NOAGENT);
    assert!(context.pdu_counts().sent.iter().sum::<u64>() > 10);
    assert!(told.lock().unwrap().is_empty());
}

/// Bytes of a PDU, for `printf(1)`.
fn octal(words: &[u32]) -> String {
    words.iter().flat_map(|word| word.to_be_bytes()).map(|byte| format!("\\{byte:03o}")).collect()
}

fn script(dir: &Path, text: &str) -> String {
    let path = dir.join("agent");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("the test's directory is writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is the test's");
    path.display().to_string()
}

#[test]
fn agents_may_be_unready() {
    let error = |code: i32| octal(&[16, 0x7000, 0, code as u32]);
    let creds = octal(&[20, 0x700c, 1, 1, 0x0102_0000]);
    let (ready, busy) = (error(PmError::PMDAREADY.0), error(PmError::PMDANOTREADY.0));
    let (pmid, null) = (Pmid::new(29, 0, 10).0, u32::MAX);
    let desc = octal(&[32, 0x7005, 0, pmid, 0, null, 3, 0]);
    let dir = temp_dir();
    let go = dir.path().join("go");
    // Its pmcd's credentials are 20 bytes, a request for a descriptor is 16.
    let text = format!(
        "printf '{creds}'; head -c 20 >/dev/null; sleep 0.1; printf '{ready}'\n\
         head -c 16 >/dev/null; printf '{busy}'\n\
         until [ -e {} ]; do sleep 0.01; done; printf '{ready}'; echo >{0}.done\n\
         head -c 16 >/dev/null; printf '{desc}'; exec cat >/dev/null",
        go.display()
    );
    let conf = format!("one 29 pipe binary notready {}\n", script(dir.path(), &text));
    let (mut context, told) = context(dir.path(), &conf);
    assert_eq!(code(context.desc(Pmid(pmid))), PmError::AGAIN);
    // Nothing is asked of it until it says that it is ready again.
    assert_eq!(code(context.desc(Pmid(pmid))), PmError::AGAIN);
    fs::write(&go, "").unwrap();
    eventually("it to be ready", || dir.path().join("go.done").exists().then_some(()));
    assert_eq!(context.desc(Pmid(pmid)).unwrap().value_type, ValueType::I32);
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn agents_may_be_unready_for_long() {
    let error = |code: i32| octal(&[16, 0x7000, 0, code as u32]);
    // It wants to know who asks.
    let creds = octal(&[20, 0x700c, 1, 1, 0x0102_0004]);
    let (ready, busy) = (error(PmError::PMDAREADY.0), error(PmError::PMDANOTREADY.0));
    let (pmid, null) = (Pmid::new(29, 0, 10).0, u32::MAX);
    let desc = octal(&[32, 0x7005, 0, pmid, 0, null, 3, 0]);
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (first, second) = (path("first"), path("second"));
    let numbers = [std::process::id(), nix::unistd::getgid().as_raw(), nix::unistd::getuid().as_raw()];
    let attributes: usize = numbers.iter().map(|number| 16 + number.to_string().len() + 1).sum();
    let text = format!(
        "printf '{creds}'; head -c 20 >/dev/null; printf '{busy}'; timeout 7 head -c 1 >{early}
         until [ -e {first} ]; do sleep 0.01; done; printf '{busy}{ready}'; echo >{first}.done
         head -c {attributes} >{who}; head -c 16 >/dev/null; printf '{busy}'
         until [ -e {second} ]; do sleep 0.01; done; printf '{ready}'; echo >{second}.done
         head -c 16 >/dev/null; printf '{desc}'; exec cat >/dev/null",
        early = path("early"),
        who = path("who"),
    );
    let conf = format!("one 29 pipe binary notready {}\n", script(dir.path(), &text));
    let (mut context, told) = context(dir.path(), &conf);
    let is_ready_by = |file: &str| {
        fs::write(file, "").unwrap();
        eventually("it to be ready", || Path::new(&format!("{file}.done")).exists().then_some(()));
    };
    let begin = Instant::now();
    assert_eq!(code(context.desc(Pmid(pmid))), PmError::AGAIN);
    // It is waited for once, as for an answer.
    assert!(begin.elapsed() >= Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(code(context.desc(Pmid(pmid))), PmError::AGAIN);
    is_ready_by(&first);
    let begin = Instant::now();
    assert_eq!(code(context.desc(Pmid(pmid))), PmError::AGAIN);
    // Nothing was said to it before, then who asks.
    assert_eq!(fs::read(path("early")).unwrap(), b"");
    let who = fs::read(path("who")).unwrap();
    assert!(
        who.windows(5).any(|part| part == [0, 0, 0, 14, numbers[0].to_string().as_bytes()[0]]),
        "{who:?}"
    );
    // As long as it likes: what it was asked last is answered.
    while begin.elapsed() < Duration::from_millis(5500) {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(code(context.desc(Pmid(pmid))), PmError::AGAIN);
    is_ready_by(&second);
    assert_eq!(context.desc(Pmid(pmid)).unwrap().value_type, ValueType::I32);
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn an_error_above_zero_is_an_error_of_the_fetch() {
    let (pmid, null) = (Pmid::new(29, 0, 10).0, u32::MAX);
    let (creds, error) = (octal(&[20, 0x700c, 1, 1, 0x0102_0000]), octal(&[16, 0x7000, 0, 5]));
    let desc = octal(&[32, 0x7005, 0, pmid, 0, null, 3, 0]);
    let dir = temp_dir();
    // Credentials; a profile of 28 bytes and a fetch of 32.
    let text = format!(
        "printf '{creds}'; head -c 20 >/dev/null; head -c 60 >/dev/null; printf '{error}'
         head -c 16 >/dev/null; printf '{desc}'; exec cat >/dev/null"
    );
    // By a relative path: it runs elsewhere.
    let here = std::env::current_dir().expect("a test has a working directory");
    let up = "../".repeat(here.components().count() - 1);
    let program = format!("{up}{}", script(dir.path(), &text).trim_start_matches('/'));
    let (mut context, told) = context(dir.path(), &format!("one 29 pipe binary {program}\n"));
    let mut fetched = Fetched::new();
    context.fetch(&[Pmid(pmid)], &mut fetched).unwrap();
    assert_eq!(value(&fetched, 0), Err(PmError::GENERIC));
    assert_eq!(context.desc(Pmid(pmid)).unwrap().value_type, ValueType::I32);
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn what_is_below_a_dynamic_node_is_its_agents() {
    let creds = octal(&[20, 0x700c, 1, 1, 0x0102_0000]);
    let told = ["one.secret.b.c", "one.secret.a", "one.secret.b"];
    let mut names = BytesMut::new();
    let pdu = Pdu::PmnsNames(PmnsNames::Plain(told.map(Into::into).to_vec()));
    pdu.encode(0, &mut names).unwrap();
    let words: Vec<u32> =
        names.chunks(4).map(|word| u32::from_be_bytes(word.try_into().expect("padded"))).collect();
    let dir = temp_dir();
    // After credentials of 20 bytes the question: 20 and a name of 10, padded.
    let text =
        format!("printf '{creds}'; head -c 52 >/dev/null; printf '{}'; exec cat >/dev/null", octal(&words));
    let (mut context, faults) =
        context(dir.path(), &format!("one 29 pipe binary {}\n", script(dir.path(), &text)));
    let ordered = ["one.secret.b", "one.secret.b.c", "one.secret.a"];
    assert_eq!(context.traverse("one.secret").unwrap(), ordered);
    assert!(faults.lock().unwrap().is_empty());
}

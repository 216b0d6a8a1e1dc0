//! Contexts on real collectors over every kind of way there: sockets, ports, proxies, passwords, containers.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::client_support::{Peer, bytes, code, fetch_i32, greet, host, patient, read_pdu};
use jumpseat::client::{
    ClientError, Context, Fetched, Found, HostOptions, LabelTarget, Lookup, StateChange, TextLevel,
    TextTarget,
};
use jumpseat::model::{InDom, Instance, LabelSet, PmError, Pmid, Value, ValueSet, ValueType};
use jumpseat::pdu::{ByteStr, ErrorPdu, InstanceEntry, InstanceList, Pdu, PmnsIds, PmnsNames};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use support::{
    AgentSpec, Certificates, PcpEnv, PrivatePmcd, Process, free_port, is_listening, temp_dir, wait_until,
};

const LONG_TEN: Pmid = Pmid::new(29, 0, 11);

fn sample() -> PrivatePmcd {
    PrivatePmcd::with([AgentSpec::sample()]).start()
}

#[track_caller]
fn reaches(spec: &str, options: &HostOptions) {
    let mut context = host(spec, options).unwrap_or_else(|error| panic!("{spec}: {error}"));
    assert_eq!(fetch_i32(&mut context, LONG_TEN).unwrap(), 10, "{spec}");
}

#[test]
fn a_collector_is_reached_by_every_kind_of_specification() {
    let pmcd = sample();
    let (port, closed) = (pmcd.port(), free_port());
    let socket = pmcd.socket().display().to_string();
    let options = HostOptions { ports: vec![port], socket: pmcd.socket(), ..patient() };
    for spec in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("127.0.0.1:{closed},{port}"),
        format!("pcp://127.0.0.1:{port}/anything"),
        format!("pcps://127.0.0.1:{port}?secure=relaxed"),
        format!("unix:{socket}"),
        format!("local:{socket}"),
        "unix:".to_owned(),
        "local:".to_owned(),
        // The ports of the options.
        "127.0.0.1".to_owned(),
        "local://nowhere/pmcd.socket".to_owned(),
    ] {
        reaches(&spec, &options);
    }
    reaches("127.0.0.1", &HostOptions { ports: vec![closed, port], ..options });
}

/// As PCP's own clients do: the rules for `localhost` are others than those for the Unix socket.
#[test]
fn who_is_refused_at_the_unix_socket_comes_in_by_localhost() {
    let rules = "allow \"localhost\" : all;\ndisallow \"*\" : all;";
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).access(rules).start();
    let options = HostOptions { ports: vec![pmcd.port()], socket: pmcd.socket(), ..patient() };
    let refused = host("unix:", &options).and_then(|mut context| fetch_i32(&mut context, LONG_TEN));
    assert_eq!(refused.map_err(|error| error.code()), Err(PmError::PERMISSION));
    reaches("local:", &options);
}

/// Over IPv6, by address: contexts, and the tools under PCP's names next to PCP's own.
#[test]
fn a_collector_is_reached_over_ipv6() {
    if !support::has_ipv6() {
        // Where there is no such address, connecting to it has to say so.
        let error = host("[::1]:44321", &patient()).err().expect("nothing listens where there is no address");
        assert!(matches!(error, ClientError::Connect { .. }), "{error}");
        eprintln!("NOT TESTED: this machine has no ::1, so no collector can be asked over IPv6");
        return;
    }
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).options(["-i", "::1"]).start();
    let (port, closed) = (pmcd.port(), free_port());
    for spec in [
        format!("[::1]:{port}"),
        format!("[0:0:0:0:0:0:0:1]:{port}"),
        format!("[::1]:{closed},{port}"),
        format!("pcp://[::1]:{port}/"),
        format!("pcps://[::1]:{port}?secure=relaxed"),
    ] {
        reaches(&spec, &patient());
    }
    reaches("[::1]", &HostOptions { ports: vec![closed, port], ..patient() });
    let error = host(&format!("[::1]:{closed}"), &patient()).err().expect("nothing listens there");
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
}

#[test]
fn what_cannot_be_reached_says_so() {
    let files = temp_dir();
    let stale = files.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let no_socket = files.path().join("none");
    let file = files.path().join("file");
    std::fs::write(&file, "").unwrap();
    let unix = |path: &Path| format!("unix:{}", path.display());
    let errno = PmError::from_errno;
    let closed = free_port();
    for (spec, expected) in [
        (format!("127.0.0.1:{closed}"), errno(111)),
        (format!("localhost:{closed}"), errno(111)),
        ("host.invalid:1".to_owned(), errno(113)),
        ("host.invalid@127.0.0.1:1".to_owned(), errno(111)),
        (unix(&stale), errno(111)),
        (unix(&no_socket), errno(2)),
        (unix(&file), errno(111)),
        (unix(Path::new(&"x".repeat(200))), errno(36)),
    ] {
        let error = host(&spec, &patient()).err().expect(&spec);
        assert_eq!(error.code(), expected, "{spec}: {error}");
    }
    assert_eq!(code(Context::host("")), PmError::NOTHOST);
    assert_eq!(code(Context::host("a:b")), PmError::GENERIC);
    let mut context =
        Context::host_unconnected(&format!("127.0.0.1:{closed}").parse().unwrap(), &patient()).unwrap();
    let error = context.pmid("sample.long.one").unwrap_err();
    assert!(matches!(error, ClientError::NotConnected(_)), "{error}");
    assert_eq!(error.code(), PmError::IPC);
}

/// A pmproxy of the test's own.
fn pmproxy(dir: &Path) -> (Process, u16) {
    let port = free_port();
    let mut env = PcpEnv::new();
    for name in ["PCP_RUN_DIR", "PCP_TMP_DIR", "PCP_LOG_DIR"] {
        env.set(name, dir);
    }
    let file = |name: &str| dir.join(name).into_os_string();
    let mut command = env.command("pmproxy");
    command.args(["-f", "-A", "-t", "-i", "127.0.0.1", "-p", &port.to_string(), "-U", &support::user()]);
    command.arg("-s").arg(file("proxy.socket")).arg("-l").arg(file("proxy.log"));
    let process = Process::start(&mut command, dir, "pmproxy");
    let listens = wait_until(Duration::from_secs(30), || is_listening(port).then_some(()));
    assert!(listens.is_some(), "pmproxy does not start: {}", process.text());
    (process, port)
}

#[test]
fn a_collector_behind_a_proxy_is_reached() {
    let pmcd = sample();
    let files = temp_dir();
    let (_proxy, proxy_port) = pmproxy(files.path());
    let (port, closed) = (pmcd.port(), free_port());
    reaches(&format!("127.0.0.1:{port}@127.0.0.1:{proxy_port}"), &patient());
    reaches(&format!("localhost:{closed},{port}@localhost:{proxy_port},1"), &patient());
    let through = HostOptions { proxy: Some("127.0.0.1".to_owned()), proxy_port, ..patient() };
    reaches(&format!("127.0.0.1:{port}"), &through);
    let error = host(&format!("127.0.0.1:{closed}"), &through).err().expect("nobody listens");
    assert_eq!(error.code(), PmError::IPC, "{error}");
    // A collector is no proxy.
    let error = host(&format!("127.0.0.1:{port}@127.0.0.1:{port}"), &patient()).err().expect("no proxy");
    assert_eq!(error.code(), PmError::IPC, "{error}");
}

/// The greeting's feature bits decide which requests are made.
#[test]
fn older_collectors_are_asked_in_their_way() {
    let pmcd = sample();
    let without = |bits: u8| Peer::relay(pmcd.port(), move |greeting| greeting[18] &= !bits);
    // In the upper byte of the features: 2 labels, 4 high resolution, 8 descriptors.
    let (old, new) = (without(2 | 4 | 8), without(0));
    let mut old = host(&old.spec(), &patient()).unwrap();
    let mut new = host(&new.spec(), &patient()).unwrap();
    let names = ["sample.bin", "sample.string.hullo", "sample.long.one"];
    let pmids: Vec<Pmid> = old.lookup_names(&names).unwrap().into_iter().map(Option::unwrap).collect();
    let asked = [&pmids[..], &[Pmid::new(29, 0, 54)]].concat();
    assert_eq!(old.descs(&asked).unwrap(), new.descs(&asked).unwrap());
    let (mut ours, mut theirs) = (Fetched::new(), Fetched::new());
    old.fetch(&asked, &mut ours).unwrap();
    new.fetch(&asked, &mut theirs).unwrap();
    assert_eq!(ours.timestamp.nsec % 1000, 0);
    for (old, new) in ours.sets().zip(theirs.sets()) {
        let of = |set: jumpseat::pdu::SetRef<'_>| {
            Ok(set.values?.iter().map(|(inst, value)| (inst, format!("{value:?}"))).collect())
        };
        let (old, new): (Result<Vec<_>, PmError>, Result<Vec<_>, PmError>) = (of(old), of(new));
        assert_eq!(old, new);
    }
    let name = new.host_name().unwrap();
    let label = |sets: &[LabelSet]| {
        sets[0].labels.as_ref().unwrap().iter().map(|l| l.value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(label(&old.labels(LabelTarget::Context).unwrap()), [format!("\"{name}\"")]);
    assert_eq!(code(old.labels(LabelTarget::Domain(29))), PmError::NOLABELS);
    assert!(label(&new.labels(LabelTarget::Context).unwrap()).len() > 1);
}

/// Why a name is none is told of each, with all requests under way at once: the peer answers none before it has all.
#[test]
fn why_names_are_unknown_takes_one_round_trip() {
    let peer = Peer::start(|_, mut stream| {
        greet(&mut stream);
        for _ in 0..3 {
            read_pdu(&mut stream);
        }
        let pmid = Pdu::PmnsIds(PmnsIds { status: 1, ids: vec![Pmid::new(29, 0, 10)] });
        let error = |code| Pdu::Error(ErrorPdu::failure(code));
        for reply in [error(PmError::NONLEAF), pmid, error(PmError::NOAGENT)] {
            let _ = stream.write_all(&bytes(&reply));
        }
    });
    let mut context = host(&peer.spec(), &patient()).unwrap();
    let found = context.lookup_each(&["sample", "sample.long.one", "gone.x"]).unwrap();
    assert_eq!(found, [Err(PmError::NONLEAF), Ok(Pmid::new(29, 0, 10)), Err(PmError::NOAGENT)]);
    let pmcd = sample();
    let mut context = host(&format!("127.0.0.1:{}", pmcd.port()), &patient()).unwrap();
    for names in [&["sample", "no.such", "sample.long.one"][..], &["sample"], &["event.missed"]] {
        let single = names.iter().map(|name| context.pmid(name).map_err(|error| error.code()));
        let single: Vec<_> = single.collect();
        assert_eq!(context.lookup_each(names).unwrap(), single, "{names:?}");
    }
    assert_eq!(context.lookup_each(&[]).unwrap(), []);
}

/// What is below names, and instances of domains, is asked for in one go too: the peer answers nothing before it has all.
#[test]
fn names_below_and_instances_take_one_round_trip() {
    let peer = Peer::start(|_, mut stream| {
        greet(&mut stream);
        let names = |names: &[&str]| {
            Pdu::PmnsNames(PmnsNames::Plain(names.iter().map(|&name| ByteStr::from(name)).collect()))
        };
        let error = |code| Pdu::Error(ErrorPdu::failure(code));
        let one = InstanceEntry { inst: 7, name: "seven".into() };
        let list = Pdu::Instance(InstanceList { indom: InDom::new(29, 1), instances: vec![one] });
        for replies in [
            [names(&["a.x", "a.y"]), error(PmError::NAME), names(&["c"])],
            [list, error(PmError::INDOM), names(&["c"])],
        ] {
            for _ in 0..3 {
                read_pdu(&mut stream);
            }
            for reply in replies {
                let _ = stream.write_all(&bytes(&reply));
            }
        }
    });
    let mut context = host(&peer.spec(), &patient()).unwrap();
    let below = context.traverse_each(&["a", "b", "c"]).unwrap();
    let names = |names: &[&str]| Ok(names.iter().map(|&name| name.to_owned()).collect());
    assert_eq!(below, [names(&["a.x", "a.y"]), Err(PmError::NAME), names(&["c"])]);
    let [one, two] = [1, 2].map(|serial| Lookup::Instances(InDom::new(29, serial)));
    let found = context.look_up_each(&[one, two, Lookup::NamesOf(Pmid::new(29, 0, 1))]).unwrap();
    let seven = Instance { id: 7, name: "seven".to_owned() };
    assert_eq!(
        found,
        [Ok(Found::Instances(vec![seven])), Err(PmError::INDOM), Ok(Found::Names(vec!["c".to_owned()]))]
    );
    let pmcd = sample();
    let mut context = host(&format!("127.0.0.1:{}", pmcd.port()), &patient()).unwrap();
    context.add_derived("sample.bin_twice", "2 * sample.bin").unwrap();
    let names = ["sample.bin", "no.such", "sample.many", "sample", "sample.bin_twice"];
    let single: Vec<_> = names.map(|name| context.traverse(name).map_err(|error| error.code())).into();
    assert_eq!(context.traverse_each(&names).unwrap(), single);
    assert_eq!(context.traverse_each(&[]).unwrap(), [] as [Result<Vec<String>, PmError>; 0]);
    for serial in 1..9 {
        let indom = InDom::new(29, serial);
        let single = context.instances(indom).map(Found::Instances).map_err(|error| error.code());
        assert_eq!(context.look_up_each(&[Lookup::Instances(indom)]).unwrap(), [single]);
    }
}

/// Whatever a collector says when it is asked for the labels of the context: it is a host, and has that label.
#[test]
fn a_host_has_the_label_of_its_name_whatever_the_collector_says() {
    let peer = Peer::start(|_, mut stream| {
        greet(&mut stream);
        while read_pdu(&mut stream).is_some() {
            let _ = stream.write_all(&bytes(&Pdu::Error(ErrorPdu::failure(PmError::NAME))));
        }
    });
    let mut context = host(&peer.spec(), &patient()).unwrap();
    let name = context.host_name().unwrap();
    let is_named = |sets: &[LabelSet]| {
        let [LabelSet { labels: Ok(labels), .. }] = sets else { panic!("{sets:?}") };
        let [label] = &labels[..] else { panic!("{labels:?}") };
        (label.name.as_str(), label.value.as_str()) == ("hostname", &format!("\"{name}\""))
    };
    assert!(is_named(&context.labels(LabelTarget::Context).unwrap()));
    let lookups = [LabelTarget::Context, LabelTarget::Domain(29)].map(Lookup::Labels);
    let found = context.look_up_each(&lookups).unwrap();
    assert!(
        matches!(&found[..], [Ok(Found::Labels(sets)), Err(PmError::NAME)] if is_named(sets)),
        "{found:?}"
    );
}

#[test]
fn the_environment_says_where_to_connect() {
    let pmcd = sample();
    let files = temp_dir();
    let (_proxy, proxy_port) = pmproxy(files.path());
    let definitions = files.path().join("definitions");
    std::fs::write(&definitions, "twice = 2 * sample.long.ten\n").unwrap();
    let (port, closed) = (pmcd.port().to_string(), free_port().to_string());
    let explain = |spec: &str, variables: &[(&str, &str)]| {
        let mut command = PcpEnv::new().command(env!("CARGO_BIN_EXE_jumpseat"));
        command.args(["derive", "check", "--host", spec]).arg(&definitions).envs(variables.iter().copied());
        let output = command.output().expect("the program runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let socket = pmcd.socket().display().to_string();
    let run_dir = pmcd.dir().display().to_string();
    let proxy = proxy_port.to_string();
    for (spec, variables) in [
        ("127.0.0.1", &[("PMCD_PORT", port.as_str())][..]),
        ("127.0.0.1", &[("PMCD_PORT", &format!("{closed},{port}"))]),
        ("local:", &[("PMCD_SOCKET", &socket)]),
        ("unix:", &[("PCP_RUN_DIR", &run_dir)]),
        ("127.0.0.1", &[("PMCD_PORT", &port), ("PMPROXY_HOST", "localhost"), ("PMPROXY_PORT", &proxy)]),
        ("127.0.0.1", &[("PMCD_PORT", &port), ("PCP_CONTAINER", "some.box")]),
        ("127.0.0.1", &[("PMCD_PORT", &port), ("PCP_SECURE_SOCKETS", "relaxed")]),
    ] {
        let (ok, error) = explain(spec, variables);
        assert!(ok, "{spec} {variables:?}: {error}");
    }
    for (spec, variables, text) in [
        ("127.0.0.1", &[("PMCD_PORT", closed.as_str())][..], "refused"),
        ("127.0.0.1", &[("PMCD_PORT", &port), ("PCP_CONTAINER", "some box")], "Invalid argument"),
        ("127.0.0.1", &[("PMCD_PORT", &port), ("PCP_SECURE_SOCKETS", "enforce")], "encrypt"),
        (
            "127.0.0.1",
            &[("PMCD_PORT", &port), ("PMPROXY_HOST", "localhost"), ("PMPROXY_PORT", &closed)],
            "refused",
        ),
    ] {
        let (ok, error) = explain(spec, variables);
        assert!(!ok && error.contains(text), "{spec} {variables:?}: {error}");
    }
}

#[test]
fn notices_of_changes_come_with_the_next_fetch() {
    let mut pmcd = sample();
    let mut context = host(&pmcd.unix(), &patient()).unwrap();
    let mut fetched = Fetched::new();
    assert_eq!(context.fetch(&[LONG_TEN], &mut fetched).unwrap(), StateChange(0));
    pmcd.set_agent(AgentSpec::sample_as("other", 30));
    pmcd.reconfigure();
    // What the context asks for itself keeps the notice for whoever fetches.
    context.host_name().unwrap();
    let changes = context.fetch(&[LONG_TEN], &mut fetched).unwrap();
    assert!(changes.contains(StateChange::ADD), "{changes:?}");
    assert_eq!(fetched.changes, changes);
    assert_eq!(context.fetch(&[LONG_TEN], &mut fetched).unwrap(), StateChange(0));
}

#[test]
fn long_requests_are_split_and_longer_ones_refused() {
    let pmcd = sample();
    let mut context = host(&pmcd.unix(), &patient()).unwrap();
    let known = context.traverse("sample").unwrap();
    let mut names: Vec<&str> = known.iter().map(String::as_str).cycle().take(9000).collect();
    names[4321] = "no.such.metric";
    let pmids = context.lookup_names(&names).unwrap();
    let missing: Vec<usize> = (0..pmids.len()).filter(|&at| pmids[at].is_none()).collect();
    assert_eq!(missing, [4321]);
    for at in [0, 4320, 8999] {
        assert_eq!(context.pmid(names[at]).unwrap(), pmids[at].unwrap());
    }
    // One name on its own in the last request, and unknown: the collector answers with an error then.
    let filler = format!("sample.{}", "x".repeat(1000));
    let mut few = vec![filler.as_str(); 62];
    assert_eq!(context.lookup_names(&few).unwrap(), vec![None; 62]);
    few.insert(0, "sample.long.ten");
    assert_eq!(context.lookup_names(&few).unwrap()[0], Some(LONG_TEN));
    let pmids: Vec<Pmid> = pmids.into_iter().flatten().cycle().take(20_000).collect();
    let descs = context.descs(&pmids).unwrap();
    assert_eq!(descs.len(), pmids.len());
    // Some of the sample agent's metrics are bad on purpose.
    let known = descs.iter().zip(&pmids).filter_map(|(desc, pmid)| Some((desc.ok()?.pmid, *pmid)));
    let known: Vec<(Pmid, Pmid)> = known.collect();
    assert!(known.len() > pmids.len() / 2 && known.iter().all(|(got, asked)| got == asked));
    let mut fetched = Fetched::new();
    assert_eq!(code(context.fetch(&pmids, &mut fetched)), PmError::TOOBIG);
    let huge = Value::String(vec![b'y'; 70_000].into());
    assert_eq!(code(context.store(&[ValueSet::singular(LONG_TEN, huge)])), PmError::TOOBIG);
    let indom = InDom::new(29, 2);
    context.add_profile(indom, &(0..20_000).collect::<Vec<_>>()).unwrap();
    assert_eq!(code(context.fetch(&[LONG_TEN], &mut fetched)), PmError::TOOBIG);
    context.add_profile(InDom::NULL, &[]).unwrap();
    assert_eq!(fetch_i32(&mut context, LONG_TEN).unwrap(), 10);
    let most: Vec<Pmid> = pmids.into_iter().take(16_000).collect();
    context.fetch(&most, &mut fetched).unwrap();
    assert_eq!(fetched.len(), most.len());
}

/// One request for the names of many definitions, and one for what they are: not a handful for each.
#[test]
fn what_many_definitions_need_is_asked_in_few_requests() {
    let pmcd = sample();
    let mut context = host(&format!("127.0.0.1:{}", pmcd.port()), &patient()).unwrap();
    let registry = context.registry().clone();
    let names: Vec<String> = (0..200).map(|n| format!("few.n{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        registry
            .write()
            .unwrap()
            .register(name, &format!("sample.long.ten + {n} * sample.long.one"))
            .unwrap();
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pmids: Vec<Pmid> = context.lookup_names(&names).unwrap().into_iter().flatten().collect();
    let sent = |context: &Context| context.pdu_counts().sent.iter().sum::<u64>();
    let before = sent(&context);
    let mut fetched = Fetched::new();
    context.fetch(&pmids, &mut fetched).unwrap();
    let asked = sent(&context) - before;
    assert!(asked < 30, "{asked} requests");
    let last = fetched.sets().last().unwrap().values.unwrap().iter().next().unwrap().1;
    assert_eq!(last.to_value(ValueType::I32).unwrap(), Value::I32(209));
}

#[test]
fn containers_are_named_to_the_collector() {
    let pmcd = sample();
    let label = |context: &mut Context| {
        let sets = context.labels(LabelTarget::Context).unwrap();
        let labels = sets[0].labels.clone().unwrap();
        labels.into_iter().find(|label| label.name == "container").map(|label| label.value)
    };
    let mut context = host(&format!("{}?container=my.box-1", pmcd.inet()), &patient()).unwrap();
    assert_eq!(label(&mut context).as_deref(), Some("\"my.box-1\""));
    context.reconnect().unwrap();
    assert_eq!(label(&mut context).as_deref(), Some("\"my.box-1\""));
    let options = HostOptions { container: Some("other".to_owned()), ..patient() };
    assert_eq!(label(&mut host(&pmcd.unix(), &options).unwrap()).as_deref(), Some("\"other\""));
    assert_eq!(label(&mut host(&pmcd.unix(), &patient()).unwrap()), None);
    let options = HostOptions { container: Some("a b".to_owned()), ..patient() };
    assert_eq!(code(host(&pmcd.unix(), &options)), PmError::from_errno(22));
}

#[test]
fn texts_and_stores_work_behind_every_transport() {
    let pmcd = sample();
    for spec in [pmcd.unix(), pmcd.inet()] {
        let mut context = host(&spec, &patient()).unwrap();
        let pmid = context.pmid("sample.write_me").unwrap();
        context.store(&[ValueSet::singular(pmid, 17)]).unwrap();
        assert_eq!(fetch_i32(&mut context, pmid).unwrap(), 17);
        let agents = context.pmid("pmcd.numagents").unwrap();
        assert!(!context.text(TextTarget::Metric(agents), TextLevel::OneLine).unwrap().is_empty());
    }
}

/// A directory with a configuration of SASL and one user in it, whose password is `secret`.
fn passwords(user: &str) -> tempfile::TempDir {
    let dir = temp_dir();
    let database = dir.path().join("passwords.db");
    let config = format!(
        "mech_list: plain\npwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: {}\n",
        database.display()
    );
    std::fs::write(dir.path().join("pmcd.conf"), config).unwrap();
    let (source, program) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/sasl_user.c"), dir.path().join("user"));
    let built =
        Command::new("cc").arg("-o").arg(&program).args([source, "-l:libsasl2.so.2"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let name = nix::unistd::gethostname().unwrap();
    let made =
        Command::new(&program).args([user, "secret"]).arg(name).env("SASL_CONF_PATH", dir.path()).output();
    assert!(made.as_ref().unwrap().status.success(), "{made:?}");
    dir
}

#[test]
fn users_prove_who_they_are() {
    let user = support::user();
    let sasl = passwords(&user);
    let start = |options: &[&'static str]| {
        let pmcd = PrivatePmcd::with([AgentSpec::sample()]);
        pmcd.env("SASL_CONF_PATH", sasl.path().to_str().unwrap()).options(options.iter().copied())
    };
    let pmcd = start(&[]).start();
    for way in [pmcd.inet(), pmcd.unix()] {
        reaches(&format!("{way}?user={user}&pass=secret"), &patient());
        reaches(&format!("{way}?user={user}&pass=secret&method=plain&container=box"), &patient());
        let error =
            host(&format!("{way}?user={user}&pass=wrong"), &patient()).err().expect("a wrong password");
        assert_eq!(error.code(), PmError(-21357), "{error}");
        for attributes in ["user=x", "pass=x", "user=x&pass=y&method=scram-sha-256"] {
            assert_eq!(code(host(&format!("{way}?{attributes}"), &patient())), PmError::from_errno(95));
        }
    }
    drop(pmcd);
    // With -S pmcd lets nobody in without a name. (The harness looks whether it answers over TCP.)
    let port = free_port();
    let dir = temp_dir();
    let file = |name: &str| dir.path().join(name).into_os_string();
    std::fs::write(file("pmcd.conf"), "pmcd 2 dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so\n").unwrap();
    let mut env = PcpEnv::new();
    for name in ["PCP_RUN_DIR", "PCP_TMP_DIR", "PCP_LOG_DIR"] {
        env.set(name, dir.path());
    }
    let mut command = env.command("pmcd");
    command.args(["-f", "-A", "-S", "-i", "127.0.0.1", "-p", &port.to_string(), "-U", &user]);
    command.args(["-n", "/var/lib/pcp/pmns/root_pmcd"]).env("SASL_CONF_PATH", sasl.path());
    for (option, name) in [("-s", "socket"), ("-c", "pmcd.conf"), ("-l", "pmcd.log"), ("-x", "fatal.log")] {
        command.arg(option).arg(file(name));
    }
    let _pmcd = Process::start(&mut command, dir.path(), "pmcd");
    assert!(wait_until(Duration::from_secs(30), || is_listening(port).then_some(())).is_some());
    let socket = dir.path().join("socket").display().to_string();
    let pid = |spec: &str| host(spec, &patient()).and_then(|mut context| context.pmid("pmcd.pid"));
    assert_eq!(pid(&format!("127.0.0.1:{port}?user={user}&pass=secret")).unwrap(), Pmid::new(2, 0, 23));
    assert_eq!(code(pid(&format!("127.0.0.1:{port}?user={user}&pass=wrong"))), PmError(-21357));
    assert_eq!(code(pid(&format!("127.0.0.1:{port}"))), PmError::from_errno(95));
    // The kernel says who is at the other end of a Unix socket.
    assert_eq!(pid(&format!("unix:{socket}")).unwrap(), Pmid::new(2, 0, 23));
    assert_eq!(code(pid(&format!("unix:{socket}?user={user}&pass=wrong"))), PmError(-21357));
}

#[test]
fn connections_are_encrypted_and_collectors_prove_who_they_are() {
    let (ours, others) = (Certificates::new(), Certificates::new());
    let user = support::user();
    let sasl = passwords(&user);
    let pmcd = PrivatePmcd::with([AgentSpec::sample()])
        .env("PCP_TLSCONF_PATH", &ours.text("tls.conf"))
        .env("SASL_CONF_PATH", sasl.path().to_str().unwrap())
        .start();
    let port = pmcd.port();
    let trusting = |dir: &Certificates| HostOptions { tls_config: dir.path("trust.conf"), ..patient() };
    // What crosses the network is not for everybody: it is looked at on the way.
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let record = seen.clone();
    let relay = Peer::start(move |_, mut client| {
        let mut server = std::net::TcpStream::connect(("127.0.0.1", port)).expect("pmcd listens");
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = std::io::Read::read(&mut server, &mut buffer) {
            record.lock().expect("nobody panics").extend_from_slice(&buffer[..read]);
            let _ = client.write_all(&buffer[..read]);
        }
    });
    let relayed = format!("localhost:{}", relay.address.port());
    let reads_name = |spec: &str| {
        seen.lock().expect("nobody panics").clear();
        let mut context = host(spec, &trusting(&ours)).unwrap_or_else(|error| panic!("{spec}: {error}"));
        context.names_of(LONG_TEN).unwrap();
        seen.lock().expect("nobody panics").windows(15).any(|bytes| bytes == b"sample.long.ten")
    };
    assert!(reads_name(&relayed));
    assert!(!reads_name(&format!("pcps://{relayed}")));
    assert!(!reads_name(&format!("{relayed}?secure=relaxed")));
    for attributes in ["", "?container=box", &format!("?user={user}&pass=secret&container=box")] {
        reaches(&format!("pcps://localhost:{port}{attributes}"), &trusting(&ours));
    }
    reaches(
        &format!("pcps://localhost:{port}"),
        &HostOptions { tls_config: ours.path("tls.conf"), ..patient() },
    );
    let wrong = host(&format!("pcps://localhost:{port}?user={user}&pass=wrong"), &trusting(&ours));
    assert_eq!(code(wrong), PmError(-21357));
    // Another authority, another name, nobody to trust.
    let error = |spec: &str, options: &HostOptions| code(host(spec, options));
    assert_eq!(error(&format!("pcps://localhost:{port}"), &trusting(&others)), PmError::TLS);
    assert_eq!(error(&format!("pcps://127.0.0.1:{port}"), &trusting(&ours)), PmError::TLS);
    let nobody = HostOptions { tls_config: "/nonexistent".into(), ..patient() };
    assert_eq!(error(&format!("pcps://localhost:{port}"), &nobody), PmError::from_errno(95));
}

#[test]
fn a_collector_that_cannot_is_not_asked() {
    let pmcd = sample();
    let with = |change: fn(&mut [u8; 20])| Peer::relay(pmcd.port(), change).spec();
    // In the lower byte of the features: 1 secure, 4 authentication, 0x40 containers, 0x80 certificates.
    let unable = with(|greeting| greeting[19] &= !0x45);
    for attributes in ["user=x&pass=y", "container=box", "compress", "secure"] {
        assert_eq!(
            code(host(&format!("{unable}?{attributes}"), &patient())),
            PmError::from_errno(95),
            "{attributes}"
        );
    }
    reaches(&format!("{unable}?secure=relaxed"), &patient());
    assert_eq!(code(host(&with(|greeting| greeting[19] |= 0x80), &patient())), PmError::NEEDCLIENTCERT);
    // Refusals travel in an older number space.
    let refused = Peer::start(|_, mut stream| {
        let refusal = ErrorPdu::refusal(PmError::CONNLIMIT);
        let _ = stream.write_all(&bytes(&Pdu::Error(refusal)));
    });
    assert_eq!(code(host(&refused.spec(), &patient())), PmError::CONNLIMIT);
}

/// One thread connects many contexts and fetches from them, waiting for all of them at once.
#[test]
fn one_thread_drives_many_contexts() {
    let pmcd = sample();
    let specs = [pmcd.unix(), pmcd.inet(), format!("127.0.0.1:{},{}", free_port(), pmcd.port())];
    let mut contexts: Vec<(Context, Fetched)> = specs
        .iter()
        .cycle()
        .take(30)
        .map(|spec| (Context::host_unconnected(&spec.parse().unwrap(), &patient()).unwrap(), Fetched::new()))
        .collect();
    // pmcd lets no more than five wait at its door: of further ones the system loses some.
    for contexts in contexts.chunks_mut(4) {
        contexts.iter_mut().for_each(|(context, _)| context.start_reconnect().unwrap());
        assert!(matches!(contexts[0].0.pmid("sample.bin"), Err(ClientError::Busy)));
        drive(contexts);
    }
    for _ in 0..3 {
        contexts.iter_mut().for_each(|(context, _)| context.start_fetch(&[LONG_TEN]).unwrap());
        assert!(matches!(contexts[0].0.start_fetch(&[LONG_TEN]), Err(ClientError::Busy)));
        assert!(matches!(contexts[0].0.descs(&[LONG_TEN]), Err(ClientError::Busy)));
        drive(&mut contexts);
        assert!(contexts.iter().all(|(_, fetched)| fetched.set(0).unwrap().values.unwrap().len() == 1));
    }
}

/// More clients than may wait at a Unix socket: each gets its turn.
#[test]
fn clients_queue_at_a_unix_socket() {
    let pmcd = sample();
    let new =
        || (Context::host_unconnected(&pmcd.unix().parse().unwrap(), &patient()).unwrap(), Fetched::new());
    let mut contexts: Vec<(Context, Fetched)> = (0..30).map(|_| new()).collect();
    contexts.iter_mut().for_each(|(context, _)| context.start_reconnect().unwrap());
    drive(&mut contexts);
    assert!(contexts.iter_mut().all(|(context, _)| fetch_i32(context, LONG_TEN).unwrap() == 10));
}

/// Goes on with all of them until they are done.
fn drive(contexts: &mut [(Context, Fetched)]) {
    let mut open: Vec<&mut (Context, Fetched)> = contexts.iter_mut().collect();
    loop {
        open.retain_mut(|(context, fetched)| !context.advance(fetched).unwrap());
        if open.is_empty() {
            return;
        }
        let waiting = open.iter().filter_map(|(context, _)| context.waiting());
        let mut fds: Vec<PollFd<'_>> = waiting
            .map(|waiting| {
                PollFd::new(waiting.fd, PollFlags::from_bits_truncate(waiting.interest.poll_events()))
            })
            .collect();
        poll(&mut fds, PollTimeout::NONE).unwrap();
    }
}

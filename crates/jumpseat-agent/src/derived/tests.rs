//! The derived metrics of an agent in this process.

use super::*;
use crate::identity::{DERIVED_CLUSTERS, derived_name};
use crate::state::State;
use crate::{Clients, Config, RunningAgent, Setup, Signals, Trust};
use pcp_model::{IndomProfile, Profile, ProfileState, Timestamp, Value, ValueType};
use pcp_pdu::{Frame, Pdu, ResultKind, ResultWriter};
use pcp_pmda::{Core, TextLevel};

/// An agent whose definitions are in a file.
pub(super) struct Fixture {
    pub agent: RunningAgent,
    file: std::path::PathBuf,
    pub profile: Profile,
    _dir: tempfile::TempDir,
}

impl Fixture {
    fn new(definitions: &str) -> Fixture {
        Fixture::with(definitions, Clients::Alone, |_| ())
    }

    pub(super) fn with(
        definitions: &str,
        clients: Clients,
        settings: impl FnOnce(&mut DerivedConfig),
    ) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("derived.conf");
        std::fs::write(&file, definitions).unwrap();
        let mut config = Config::default();
        config.derived.files = Some(vec![file.clone()]);
        settings(&mut config.derived);
        let setup = Setup {
            clients,
            config: &config,
            domain: 400,
            state_dir: Some(dir.path()),
            help: None,
            signals: Signals::Leave,
            trust: &Trust::default(),
        };
        Fixture { agent: RunningAgent::open(&setup).unwrap(), file, profile: Profile::default(), _dir: dir }
    }

    pub(super) fn core(&mut self) -> &mut Core<State> {
        self.agent.server.core()
    }

    pub(super) fn rewrite(&mut self, definitions: &str) -> bool {
        std::fs::write(&self.file, definitions).unwrap();
        crate::reload::reload(&mut self.core().state)
    }

    pub(super) fn pmid(&mut self, name: &str) -> Pmid {
        self.core().pmid(&derived_name(name)).unwrap()
    }

    /// One fetch, at a time in seconds, with `jumpseat.control.recent` being `recent`.
    pub(super) fn fetch(
        &mut self,
        client: ClientId,
        time: i64,
        recent: u32,
        names: &[&str],
    ) -> Vec<Result<Vec<Value>, PmError>> {
        let pmids: Vec<Pmid> = names.iter().map(|name| self.pmid(name)).collect();
        let profile = self.profile.clone();
        let core = self.core();
        core.state.limits.recent = recent;
        core.begin_fetch(Timestamp::new(time, 0));
        let mut out = ResultWriter::new(1 << 20);
        for &pmid in &pmids {
            core.fetch(client, &profile, pmid, &mut out).unwrap();
        }
        let parts = out.finish(ResultKind::HighRes, Timestamp::default(), 0).unwrap();
        let mut reader = pcp_pdu::FrameReader::new(1 << 20);
        let mut bytes = bytes::BytesMut::new();
        for part in parts {
            bytes.extend_from_slice(part);
        }
        let frame: Frame = reader.next(&mut bytes).unwrap().unwrap();
        let Pdu::HighResResult(result) = Pdu::decode(&frame).unwrap() else { panic!("not a result") };
        let types: Vec<ValueType> = pmids
            .iter()
            .map(|&pmid| core.desc(pmid).map_or(ValueType::Unknown, |desc| desc.value_type))
            .collect();
        result
            .sets
            .iter()
            .zip(types)
            .map(|(set, value_type)| {
                let values = set.to_values(value_type)?.values?;
                Ok(values.into_iter().map(|value| value.value).collect())
            })
            .collect()
    }
}

#[test]
fn each_client_has_its_own_history_until_it_goes() {
    let mut fixture = Fixture::new("d = delta(jumpseat.control.recent)\nr = rate(jumpseat.control.recent)\n");
    let (a, b) = (fixture.core().client_open(), fixture.core().client_open());
    let both = ["d", "r"];
    assert_eq!(fixture.fetch(a, 100, 10, &both), [Ok(vec![]), Ok(vec![])]);
    assert_eq!(fixture.fetch(b, 101, 14, &both), [Ok(vec![]), Ok(vec![])]);
    let values = |delta, rate| [Ok(vec![Value::I64(delta)]), Ok(vec![Value::Double(rate)])];
    assert_eq!(fixture.fetch(a, 104, 30, &both), values(20, 5.0));
    assert_eq!(fixture.fetch(b, 109, 30, &both), values(16, 2.0));
    let held = fixture.core().state.derived.history_bytes();
    assert!(held > 0);
    fixture.core().client_close(a);
    assert_eq!(fixture.core().state.derived.history_bytes(), held / 2);
    fixture.core().client_close(b);
    assert_eq!(fixture.core().state.derived.history_bytes(), 0);
}

#[test]
fn who_has_no_history_yet_gets_the_agents_own() {
    let history = |config: &mut DerivedConfig| config.history.0 = Duration::from_secs(10);
    let definitions = "d = delta(jumpseat.control.recent)\nr = rate(jumpseat.control.recent)\nn = jumpseat.control.recent\n";
    let mut fixture = Fixture::with(definitions, Clients::Alone, history);
    let all = ["d", "r", "n"];
    let values = |delta, rate, now| {
        [Ok(vec![Value::I64(delta)]), Ok(vec![Value::Double(rate)]), Ok(vec![Value::U32(now)])]
    };
    let sample = |fixture: &mut Fixture, time, recent| {
        let core = fixture.core();
        core.state.limits.recent = recent;
        crate::metrics::derived::sample_for_all(core, Timestamp::new(time, 0));
    };
    assert_eq!(fixture.core().state.derived.shared_window(), Some(Duration::from_secs(10)));
    sample(&mut fixture, 100, 10);
    let early = fixture.core().client_open();
    assert_eq!(fixture.fetch(early, 105, 15, &all)[..2], [Ok(vec![]), Ok(vec![])]);
    sample(&mut fixture, 110, 30);
    // What has a value of its own is of now; what has none, of the last window. From the second fetch on all is its own.
    let late = fixture.core().client_open();
    assert_eq!(fixture.fetch(late, 112, 32, &all), values(20, 2.0, 32));
    assert_eq!(fixture.fetch(late, 113, 37, &all), values(5, 5.0, 37));
    assert_eq!(fixture.fetch(early, 115, 35, &all), values(20, 2.0, 35));
    // A definition that means another thing has no value of what it meant.
    assert!(fixture.rewrite(&definitions.replace("d = delta(", "d = 3 * delta(")));
    let other = fixture.core().client_open();
    assert_eq!(fixture.fetch(other, 116, 35, &["d"]), [Ok(vec![])]);
    sample(&mut fixture, 120, 40);
    sample(&mut fixture, 130, 45);
    let other = fixture.core().client_open();
    assert_eq!(fixture.fetch(other, 131, 45, &["d"]), [Ok(vec![Value::I64(15)])]);
    // Too large: it is given up, and clients have their memory.
    let derived = &mut fixture.core().state.derived;
    let held = derived.history_bytes();
    derived.history_budget = 1;
    sample(&mut fixture, 140, 50);
    assert_eq!(fixture.core().state.derived.shared_window(), None);
    assert!(fixture.core().state.derived.history_bytes() < held);
    // Off, as another configuration says.
    fixture.core().state.derived.configure(DerivedConfig::default());
    assert!(fixture.core().state.derived.read());
    assert_eq!(fixture.core().state.derived.shared_window(), None);
}

#[test]
fn no_rate_is_negative_because_the_clock_was_put_back() {
    let mut fixture = Fixture::new("r = rate(jumpseat.control.recent)\n");
    let client = fixture.core().client_open();
    let mut rate = |time, recent| match &fixture.fetch(client, time, recent, &["r"])[..] {
        [Ok(values)] => values.first().map(|value| match value {
            Value::Double(rate) => *rate,
            other => panic!("{other:?}"),
        }),
        other => panic!("{other:?}"),
    };
    assert_eq!(rate(1000, 10), None);
    assert_eq!(rate(1010, 20), Some(1.0));
    // By a quarter of an hour.
    assert!(rate(110, 30).is_some_and(|rate| rate > 0.0));
    assert_eq!(rate(120, 50), Some(2.0));
}

#[test]
fn when_memory_is_used_up_clients_with_a_history_keep_it_and_new_ones_wait() {
    let mut fixture = Fixture::new("d = delta(jumpseat.control.recent)\n");
    let (a, b) = (fixture.core().client_open(), fixture.core().client_open());
    assert_eq!(fixture.fetch(a, 100, 10, &["d"]), [Ok(vec![])]);
    let derived = &mut fixture.core().state.derived;
    derived.history_budget = derived.history_bytes() as u64;
    assert_eq!(fixture.fetch(b, 101, 20, &["d"]), [Err(PmError::AGAIN)]);
    assert_eq!(fixture.fetch(a, 102, 30, &["d"]), [Ok(vec![Value::I64(20)])]);
    fixture.core().client_close(a);
    assert_eq!(fixture.fetch(b, 103, 30, &["d"]), [Ok(vec![])]);
}

#[test]
fn a_reload_costs_the_history_of_what_has_changed_and_of_what_is_made_of_it() {
    let mut fixture = Fixture::new(
        "same = delta(jumpseat.control.recent)\nbase = jumpseat.control.recent\n\
         above = delta(jumpseat.derived.base)\ngone = jumpseat.control.recent\n",
    );
    let client = fixture.core().client_open();
    let names = ["same", "above"];
    let before = fixture.core().generations();
    fixture.fetch(client, 1, 10, &names);
    let ids = names.map(|name| fixture.pmid(name));
    // Another order, another text, another name: nothing that matters.
    assert!(fixture.rewrite(
        "new = 1\nabove = delta(jumpseat.derived.base)\nbase = jumpseat.control.recent\n\
         same = delta(jumpseat.control.recent)\nsame(oneline) = text\n"
    ));
    assert_eq!(names.map(|name| fixture.pmid(name)), ids);
    assert_ne!(fixture.core().generations().names, before.names);
    assert_eq!(fixture.core().pmid("jumpseat.derived.gone"), Err(PmError::NAME));
    let three = || Ok(vec![Value::I64(3)]);
    assert_eq!(fixture.fetch(client, 2, 13, &names), [three(), three()]);
    // What it is made of has changed.
    assert!(fixture.rewrite(
        "above = delta(jumpseat.derived.base)\nbase = 2 * jumpseat.control.recent\n\
         same = delta(jumpseat.control.recent)\n"
    ));
    assert_eq!(fixture.fetch(client, 3, 16, &names), [three(), Ok(vec![])]);
    assert_eq!(fixture.fetch(client, 4, 19, &names), [three(), Ok(vec![Value::I64(6)])]);
    // Files that cannot be read change nothing.
    std::fs::remove_file(&fixture.file).unwrap();
    assert!(!crate::reload::reload(&mut fixture.core().state));
    assert_eq!(fixture.fetch(client, 5, 22, &["same"]), [three()]);
}

#[test]
fn what_cannot_be_used_is_found_by_name_but_not_listed() {
    let mut fixture = Fixture::new(
        "good = 1\nforeign = kernel.all.load + 1\nevents = count(jumpseat.event.records)\n\
         field = jumpseat.field.type\nuser = jumpseat.derived.foreign + 1\nloop = jumpseat.derived.loop\n\
         indom = mkconst(1, indom=\"60.1\")\nasked = defined(jumpseat.event.records)\n",
    );
    assert_eq!(fixture.core().state.derived.counts(), Counts { usable: 2, waiting: 0, refused: 6 });
    let listed = fixture.core().traverse(ROOT).unwrap();
    assert_eq!(listed, ["jumpseat.derived.asked", "jumpseat.derived.good"]);
    let client = fixture.core().client_open();
    for (name, reason) in [
        ("foreign", "kernel.all.load is not a metric of this agent"),
        ("events", "jumpseat.event.records gives event records"),
        ("field", "jumpseat.field.type is a parameter of event records"),
        ("user", "operand jumpseat.derived.foreign: Derived operand has errors"),
        ("loop", "jumpseat.derived.loop -> jumpseat.derived.loop"),
        ("indom", "instance domain 60.1 is not one of this agent's"),
    ] {
        let pmid = fixture.pmid(name);
        assert_eq!(fixture.core().desc(pmid), Err(PmError::BADDERIVE), "{name}");
        assert_eq!(fixture.core().names(pmid).unwrap(), [derived_name(name)]);
        let text = fixture.core().metric_text(pmid, TextLevel::Help).unwrap();
        assert!(text.starts_with(&format!("cannot be used: {reason}")), "{name}: {text}");
        assert_eq!(fixture.fetch(client, 1, 1, &[name]), [Err(PmError::BADDERIVE)], "{name}");
    }
    assert_eq!(fixture.fetch(client, 1, 1, &["asked"]), [Ok(vec![Value::U32(1)])]);
}

#[test]
fn texts_are_those_of_the_file_or_the_expression() {
    let long = format!("1{}", " + 1".repeat(5000));
    let mut fixture = Fixture::new(&format!(
        "a = 1\na(oneline) = one\na(helptext) = two\nb = 1\nb(oneline) = one\nc = 1 + 1\nd = {long}\n"
    ));
    let mut texts = |name: &str| {
        let pmid = fixture.pmid(name);
        [TextLevel::OneLine, TextLevel::Help].map(|kind| fixture.core().metric_text(pmid, kind).unwrap())
    };
    assert_eq!(texts("a"), ["one", "two\n\nDerived: 1"]);
    assert_eq!(texts("b"), ["one", "one\n\nDerived: 1"]);
    assert_eq!(texts("c"), ["derived: 1 + 1", "Derived: 1 + 1"]);
    let [oneline, help] = texts("d");
    assert!(oneline.len() < 100 && oneline.ends_with("..."), "{oneline}");
    assert!(help.len() < crate::metrics::derived::MAX_TEXT + 10 && help.ends_with("..."), "{}", help.len());
}

#[test]
fn operands_are_read_under_the_clients_profile() {
    let mut fixture = Fixture::new(
        "all = jumpseat.source.received\nsum = sum(jumpseat.source.received)\none = jumpseat.source.received[one]\n\
         set = mkconst(7, meta=jumpseat.source.received, type=u32)\nnot = matchinst(!/zero/, jumpseat.source.received)\n",
    );
    let core = fixture.core();
    for (id, name) in [(0, "zero"), (1, "one one")] {
        core.state.define(jumpseat_source::Definition::Source {
            id,
            name: name.to_owned(),
            gate: Default::default(),
        });
        core.state.sources.get_mut(id).unwrap().account.received = 5 + id as u64;
    }
    let client = core.client_open();
    let names = ["all", "sum", "one", "set", "not"];
    let u64s = |values: &[u64]| Ok(values.iter().map(|&value| Value::U64(value)).collect());
    let u32s = |values: &[u32]| Ok(values.iter().map(|&value| Value::U32(value)).collect());
    let all = fixture.fetch(client, 1, 1, &names);
    assert_eq!(all, [u64s(&[5, 6]), u64s(&[11]), u64s(&[6]), u32s(&[7, 7]), u64s(&[6])]);
    let sources = InDom::new(400, jumpseat_source::registry::SOURCE_SERIAL);
    let only_zero = IndomProfile { indom: sources, state: ProfileState::Exclude, instances: vec![0] };
    fixture.profile.indoms.push(only_zero);
    let some = fixture.fetch(client, 2, 1, &names);
    assert_eq!(some, [u64s(&[5]), u64s(&[5]), u64s(&[]), u32s(&[7]), u64s(&[])]);
    let pmid = fixture.pmid("all");
    let desc = fixture.core().desc(pmid).unwrap();
    assert_eq!((desc.indom, desc.pmid), (sources, Pmid::new(400, *DERIVED_CLUSTERS.start(), 0)));
}

#[test]
fn definitions_are_found_by_all_numbers_that_metrics_have_and_a_file_with_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = |more: &str| {
        // As a program that knows no bound may have left it.
        let numbers = format!("2 0 2147483647\n3 1795170946 small\n65535 1795170946 last\n{more}");
        std::fs::write(dir.path().join("400.5"), numbers).unwrap();
        Derived::open(DerivedConfig::default(), Some(dir.path()), 400)
    };
    let refused = open("2000000000 1795170946 large\n").err().expect("no metric has it").to_string();
    assert!(refused.contains("400.5:4: ") && refused.contains("2000000000"), "{refused}");
    let mut derived = open("").unwrap();
    let file = dir.path().join("derived.conf");
    std::fs::write(&file, "small = 1\nlast = 2\n").unwrap();
    derived.configure(DerivedConfig { files: Some(vec![file]), ..DerivedConfig::default() });
    assert!(derived.read());
    for (id, name) in [(3, "small"), (65_535, "last")] {
        assert_eq!(derived.entry(derived_pmid(id)).unwrap().wanted.name, name);
    }
    for local in [0, 2, 4, 65_534, 65_536].map(|id: u32| derived_pmid(0).local() + id) {
        assert!(found(&derived.by_id, local).is_none(), "{local}");
    }
    assert!(found(&derived.by_id, 0).is_none() && found(&derived.by_id, u32::MAX).is_none());
}

#[test]
fn the_definitions_that_are_shipped_are_right_and_portable() {
    let mut fixture = Fixture::new("");
    for portable in [false, true] {
        let config = DerivedConfig { portable, ..DerivedConfig::default() };
        fixture.core().state.derived.configure(config.clone());
        assert!(fixture.core().state.derived.read());
        let entries = &fixture.core().state.derived.entries;
        assert!(entries.len() >= 5);
        for (name, entry) in entries {
            assert!(entry.desc().is_some(), "{name}: {entry:?}");
            assert!(entry.wanted.oneline.is_some() && entry.wanted.help.is_some(), "{name}");
        }
    }
}

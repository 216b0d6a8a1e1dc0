//! Names give their places to newcomers, as threads and files see it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};

use super::*;
use crate::delivery::Arrival;
use crate::lanes::{At, LaneId, Lanes};
use pcp_event::{EventFlags, Param};
use pcp_ids::IdMap;
use pcp_model::ValueType;

const AFTER: Duration = Duration::from_secs(400_000);

fn config(dir: Option<&Path>) -> RegistryConfig {
    RegistryConfig {
        dir: dir.map(Path::to_owned),
        max_sources: 4,
        recycle_after: AFTER,
        ..RegistryConfig::new(400)
    }
}

/// Long enough for names to be unused.
fn rest(registry: &Registry) {
    registry.advance(AFTER + AFTER / 2);
}

fn open(config: &RegistryConfig) -> (Arc<Registry>, Receiver<Definition>) {
    Registry::open(config).expect("it opens")
}

fn sources(registry: &Registry, names: &[&str]) -> Vec<Option<Inst>> {
    names.iter().map(|name| registry.source(name).ok()).collect()
}

/// Whether one number has ever meant two names, in the file of a kind.
fn numbers(dir: &Path, serial: u32) -> BTreeMap<Inst, String> {
    let ids = IdMap::peek(&dir.join(format!("400.{serial}")), i32::MAX).expect("a file of ids");
    ids.history().map(|(id, name, _)| (id, name.to_owned())).collect()
}

#[test]
fn the_least_recently_used_gives_its_place_and_its_number_is_burnt() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let config = config(Some(dir.path()));
    let (registry, definitions) = open(&config);
    assert_eq!(sources(&registry, &["a", "b", "c", "d", "e"]), [Some(0), Some(1), Some(2), Some(3), None]);
    let login = registry.event_type(0, Some(b"login")).expect("stored");
    registry.span(login, Taker::Trusted);
    let kept = registry.event_type(1, Some(b"login")).expect("stored");
    assert_eq!(sources(&registry, &["e"]), [None], "all are in use");
    rest(&registry);
    assert!(registry.note_source(1));
    definitions.try_iter().for_each(drop);
    let before = registry.epoch();
    assert_eq!(sources(&registry, &["e"]), [Some(4)]);
    assert_ne!(registry.epoch(), before, "threads are to ask again");
    let told: Vec<Definition> = definitions.try_iter().collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(matches!(told[0], Definition::EventTypeGone { id } if id == login), "{told:?}");
    assert!(matches!(told[1], Definition::SpanGone { .. }), "{told:?}");
    assert_eq!(told[2], Definition::SourceGone { id: 0 });
    assert!(matches!(&told[3], Definition::Source { id: 4, name, .. } if name == "e"), "{told:?}");
    assert_eq!(registry.recycled(), [1, 1, 1, 0]);
    assert!(!registry.note_source(0) && !registry.note_event_type(login));
    assert!(registry.has_source(1) && registry.note_event_type(kept));

    // The same name is a new one; who was used in time stays.
    rest(&registry);
    assert!(registry.note_source(1));
    assert_eq!(sources(&registry, &["a", "b"]), [Some(5), Some(1)]);
    drop(registry);
    let (registry, definitions) = open(&config);
    let names: Vec<(Inst, String)> = definitions
        .try_iter()
        .filter_map(|definition| match definition {
            Definition::Source { id, name, .. } => Some((id, name)),
            _ => None,
        })
        .collect();
    let expected = [(1, "b"), (3, "d"), (4, "e"), (5, "a")].map(|(id, name)| (id, name.to_owned()));
    assert_eq!(names, expected);
    assert_eq!(sources(&registry, &["a", "e"]), [Some(5), Some(4)]);
    let history = numbers(dir.path(), SOURCE_SERIAL);
    assert_eq!(history.values().map(String::as_str).collect::<String>(), "abcdea");
    let known = known_names(dir.path(), 400).expect("it can be read");
    assert_eq!(known.iter().filter(|known| known.kind == "source").count(), 4);
}

#[test]
fn what_the_configuration_names_stays_and_so_does_all_without_a_time() {
    let mut config = config(None);
    config.reserved = vec!["app".to_owned()];
    let (registry, _definitions) = open(&config);
    assert_eq!(sources(&registry, &["app", "a", "b", "c"]), [Some(0), Some(1), Some(2), Some(3)]);
    for round in 0..3 {
        rest(&registry);
        let got = registry.source(&format!("new{round}"));
        assert_eq!(got, Ok(4 + round));
        assert!(registry.has_source(0));
    }
    assert!(![1, 2, 3].into_iter().any(|id| registry.has_source(id)));
    registry.set_recycle_after(Duration::ZERO);
    rest(&registry);
    assert_eq!(sources(&registry, &["late"]), [None]);
    registry.set_recycle_after(AFTER);
    assert_eq!(sources(&registry, &["late"]), [Some(7)]);
}

#[test]
fn names_without_end_do_not_cost_a_look_at_all_each() {
    let mut config = config(None);
    (config.max_sources, config.recycle_after) = (256, Duration::from_secs(3600));
    let (registry, _definitions) = open(&config);
    let got = (0..10_000).filter(|n| registry.source(&format!("junk{n}")).is_ok()).count();
    assert_eq!(got, 256);
    assert_eq!(registry.sources.looks(), 256, "once");
    assert_eq!(registry.recycled(), [0; 4]);
}

#[test]
fn what_is_remembered_with_a_name_is_asked_again_with_each_epoch() {
    let config = RegistryConfig { max_fields: FIRST_FREE + 1, ..config(None) };
    let (registry, _definitions) = open(&config);
    let mut cache = FieldCache::new(Arc::clone(&registry));
    let [old, new] = [FieldMemo::default(), FieldMemo::default()];
    let mut field =
        |memo: &FieldMemo, name: &str, value_type| match cache.kept(memo, name.as_bytes(), value_type) {
            Some(pmid) => FieldRef::Own(pmid),
            None => cache.field(name.as_bytes(), value_type, Taker::Trusted),
        };
    let FieldRef::Own(first) = field(&old, "old", ValueType::I64) else { panic!("there is a place") };
    for _ in 0..2 {
        assert_eq!(field(&old, "old", ValueType::I64), FieldRef::Own(first));
        assert_eq!(field(&old, "old", ValueType::Double), FieldRef::Folded, "another type is another field");
        assert_eq!(field(&new, "new", ValueType::I64), FieldRef::Folded, "there is no place");
    }
    // It is used once more, which keeps it its place.
    rest(&registry);
    registry.tick();
    assert_eq!(field(&old, "old", ValueType::I64), FieldRef::Own(first));
    assert_eq!(field(&new, "new", ValueType::I64), FieldRef::Folded);
    rest(&registry);
    registry.tick();
    let FieldRef::Own(second) = field(&new, "new", ValueType::I64) else { panic!("nobody uses the other") };
    assert_ne!(first, second);
    assert_eq!(field(&new, "new", ValueType::I64), FieldRef::Own(second));
    assert_eq!(field(&old, "old", ValueType::I64), FieldRef::Folded, "it has given its place");
}

#[test]
fn types_spans_and_fields_full_of_junk_recover() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut config = config(Some(dir.path()));
    (config.max_types, config.max_spans, config.max_fields) = (8, 4, FIRST_FREE + 4);
    let (registry, _definitions) = open(&config);
    let mut cache = FieldCache::new(Arc::clone(&registry));
    let app = registry.source("app").expect("a place");
    let event_type = |name: &str| {
        let folded = registry.types_folded();
        let id = registry.event_type(app, Some(name.as_bytes())).expect("stored");
        registry.span(id, Taker::Trusted);
        (id, registry.types_folded() == folded)
    };
    let mut field = |name: &str| match cache.field(name.as_bytes(), ValueType::I64, Taker::Trusted) {
        FieldRef::Own(pmid) => Some(pmid),
        FieldRef::Folded => None,
    };
    let own = (0..20).filter(|n| event_type(&format!("junk{n}")).1).count();
    assert_eq!(own, 8);
    let pmids: Vec<_> = (0..20).filter_map(|n| field(&format!("junk{n}"))).collect();
    assert_eq!(pmids.len(), 4);
    assert!(registry.spans_folded() > 0);
    rest(&registry);
    registry.tick();
    let used = field("junk0").expect("it has its place");
    for n in 0..3 {
        assert!(event_type(&format!("real{n}")).1, "real{n}");
    }
    for n in 0..3 {
        let pmid = field(&format!("real{n}")).expect("a place");
        assert!(!pmids.contains(&pmid), "{pmid}: a number that meant something else");
    }
    assert_eq!(field("real3"), None, "the fourth is in use");
    assert_eq!(field("junk0"), Some(used));
    let [_, types, spans, fields] = registry.recycled();
    // Those that stand for all that is beyond count, too, once there are any.
    assert!(types >= 3 && spans >= 3 && fields == 3, "{types} {spans} {fields}");
    assert_eq!(registry.field("message", ValueType::String), FieldRef::Own(WellKnown::Message.pmid(400)));
    drop((registry, cache));
    for serial in [TYPE_SERIAL, SPAN_SERIAL, FIELD_SERIAL] {
        let history = numbers(dir.path(), serial);
        let text = std::fs::read_to_string(dir.path().join(format!("400.{serial}"))).expect("a file");
        assert_eq!(text.lines().count() - 1, history.len(), "no number twice: {text}");
    }
    // Records on disk may have fields that have given their places: they keep their metrics.
    config.keeps_records = true;
    let (_registry, definitions) = open(&config);
    let fields = definitions.try_iter().filter(|known| matches!(known, Definition::Field { .. })).count();
    assert_eq!(fields, 9 + 4 + 3);
}

#[test]
fn who_has_had_his_share_gives_places_of_his_own() {
    let mut config = config(None);
    config.max_sources = 8;
    let (registry, _definitions) = open(&config);
    let of = |uid: u32, name: &str| registry.source_for(name, Taker::User(uid)).ok();
    let theirs = of(2, "theirs").expect("a place");
    let own: Vec<_> = (0..9).filter_map(|n| of(1, &format!("own{n}"))).collect();
    assert_eq!(own.len(), 4);
    assert_eq!(registry.over_share(), 5);
    rest(&registry);
    // Younger than the other's, and his all the same.
    for n in 0..4 {
        assert!(of(1, &format!("again{n}")).is_some(), "{n}");
    }
    assert!(registry.has_source(theirs), "nobody needed it");
    assert!(!own.iter().any(|id| registry.has_source(*id)));
    assert!(of(3, "somebody").is_some());
}

#[test]
fn an_agent_that_is_restarted_knows_what_was_used_before() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut config = config(Some(dir.path()));
    config.recycle_after = Duration::from_secs(86_400);
    let (registry, _definitions) = open(&config);
    sources(&registry, &["a", "b", "c", "d"]);
    drop(registry);
    let path = dir.path().join(format!("400.{SOURCE_SERIAL}"));
    let mut ids = IdMap::load(Some(&path), i32::MAX).expect("a file of ids");
    let now = ids.last_used(0).expect("it is known");
    for (id, days) in [(0, 2), (1, 3), (2, 0), (3, 30)] {
        ids.mark_used_at(id, now - days * 86_400);
    }
    ids.save().expect("it can be written");
    drop(ids);
    // Each life uses one of them.
    for (used, newcomer, gone) in [("d", "e", 1), ("d", "f", 0), ("d", "g", -1)] {
        let (registry, _definitions) = open(&config);
        registry.source(used).expect("it has a place");
        let got = registry.source(newcomer);
        assert_eq!(got.is_ok(), gone >= 0, "{newcomer}: {got:?}");
        assert!(gone < 0 || !registry.has_source(gone), "{gone}");
        assert!(registry.has_source(2) && registry.has_source(3));
    }
}

fn line(lanes: &mut Lanes, lane: LaneId, kind: &[u8]) {
    let (event_type, arrival) = (lanes.type_slot(lane, Some(kind)), Arrival::default());
    let at = At {
        arrival: &arrival,
        lane,
        event_type,
        time: pcp_model::Timestamp::new(1, 0),
        flags: EventFlags::POINT,
    };
    let mut record = lanes.begin(at);
    record.field(b"n", Param::I64(1));
    record.commit().expect("a small record");
    lanes.flush();
}

#[test]
fn a_thread_turns_to_the_instance_that_its_source_has_now() {
    let (registry, _definitions) = open(&config(None));
    let (out, deliveries) = unbounded();
    let mut lanes = Lanes::new(Arc::clone(&registry), out, Arc::new(|| {}), Duration::ZERO);
    let held = lanes.source(b"held").expect("a place");
    let lost = lanes.source(b"lost").expect("a place");
    sources(&registry, &["c", "d"]);
    line(&mut lanes, held, b"t");
    line(&mut lanes, lost, b"t");
    for _ in 0..6 {
        registry.advance(AFTER / 4);
        lanes.flush();
        lanes.keep(held);
    }
    assert!(registry.source("e").is_ok());
    assert!(registry.has_source(0), "somebody holds it");
    assert!(!registry.has_source(1), "nobody has used it");
    // Others take all places. A lane that is held gets one all the same, which is another one.
    sources(&registry, &["f", "g"]);
    line(&mut lanes, lost, b"t");
    line(&mut lanes, held, b"t");
    let told: Vec<(Inst, usize)> =
        deliveries.try_iter().map(|delivery| (delivery.source, delivery.tallies.types.len())).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!((told[0], told[1], told[3]), ((0, 1), (1, 1), (0, 1)));
    assert!(told[2].0 > 4 && told[2].1 == 1, "{told:?}");
    // Lanes do not pile up: those of sources that have gone are used again.
    for n in 0..20 {
        rest(&registry);
        registry.tick();
        lanes.keep(held);
        let lane = lanes.source(format!("short{n}").as_bytes()).expect("a place");
        line(&mut lanes, lane, b"t");
    }
    assert!(lanes.count() <= 8, "{} lanes", lanes.count());
}

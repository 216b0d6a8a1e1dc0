//! Files, commands and journals: `[[file]]`, `[[command]]` and `[[journal]]`, and `jumpseat.self.follow.*`.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jumpseat_source::InvalidKey;
use jumpseat_source::follow::stats::SourceStats;
use jumpseat_source::follow::{self, CommandConfig, FileConfig, Follow, FollowStats, JournalConfig};
use pcp_model::{Units, Value, ValueType};
use pcp_pmda::Metric;

use crate::config::{Config, InvalidTable};
use crate::confine::Trust;
use crate::identity::SOURCES;
use crate::reach::Need;
use crate::state::State;

use super::kind::{Site, SourceKind, StartError, Started, Wanted, check_tables, load};

/// All that one thread follows.
pub(super) struct Followed;

impl SourceKind for Followed {
    fn check(&self, config: &Config) -> Result<(), InvalidTable> {
        check_tables("file", &config.file, FileConfig::validate, |before, this| {
            (before.path == this.path && before.source == this.source)
                .then(|| InvalidKey::duplicate("path", "two tables have the same path and source"))
        })?;
        check_tables("command", &config.command, CommandConfig::validate, |_, _| None)?;
        check_tables("journal", &config.journal, JournalConfig::validate, |before, this| {
            (before.source == this.source)
                .then(|| InvalidKey::duplicate("source", "two journals have the same source"))
        })
    }

    fn sources(&self, config: &Config) -> usize {
        config.file.len() + config.command.len() + config.journal.len()
    }

    fn source_names(&self, config: &Config) -> Vec<String> {
        // A file without a name for its source may stand for many, which get theirs by their own names.
        let files = config.file.iter().filter_map(|file| file.source.clone());
        let commands = config.command.iter().map(CommandConfig::source_name);
        let journals = config.journal.iter().map(|journal| journal.source.clone());
        files.chain(commands).chain(journals).collect()
    }

    fn is_own(&self) -> bool {
        true
    }

    fn queue(&self, config: &Config) -> usize {
        if self.sources(config) == 0 { 0 } else { follow::QUEUE }
    }

    fn wanted<'a>(&self, config: &'a Config) -> Vec<Wanted<'a>> {
        let start = move |site: &mut Site<'_>| {
            let follow = site.trust.reach().allows(config);
            let source = Follow::start(&follow, config.events.max_sources as usize, site.outlet)
                .map_err(|error| StartError::new("files and commands".to_owned(), error))?;
            let stats = Arc::clone(&source.stats);
            Ok(Started { thread: Box::new(source), stats: Some(stats) })
        };
        // One thread for all, which sees to what changes by itself.
        let wanted = Wanted {
            what: "files and commands".to_owned(),
            key: String::new(),
            need: Need::Nothing,
            start: Box::new(start),
        };
        (self.sources(config) > 0).then_some(wanted).into_iter().collect()
    }

    fn adapt(&self, thread: &(dyn Any + Send), config: &Config, trust: &Trust) {
        let Some(thread) = thread.downcast_ref::<Follow>() else { return };
        if !thread.follow(&trust.reach().allows(config)) {
            tracing::warn!(
                "files and commands are followed as configured once there is room for their records"
            );
        }
    }

    fn metrics(&self) -> Vec<Metric<State>> {
        let of = |name: &str, value_type, value: fn(&SourceStats) -> Option<Value>| {
            Metric::new(format!("jumpseat.self.follow.{name}"), value_type).indom(SOURCES).each(
                move |state: &mut State, _, inst| {
                    Ok(state.threads.of::<FollowStats>().find_map(|follow| follow.of(inst)).and_then(value))
                },
            )
        };
        let all = |name: &str, counter: fn(&FollowStats) -> &AtomicU64| {
            Metric::new(format!("jumpseat.self.follow.{name}"), ValueType::U64)
                .units(Units::COUNT)
                .counter()
                .value(move |state: &mut State| -> u64 {
                    state.threads.of::<FollowStats>().map(|follow| load(counter(follow))).sum()
                })
        };
        vec![
            of("files", ValueType::U32, |source| Some(Value::U32(source.files.load(Ordering::Relaxed))))
                .units(Units::COUNT),
            of("behind", ValueType::U64, |source| Some(Value::U64(load(&source.behind)))).units(Units::BYTE),
            of("state", ValueType::String, |source| Some(source.phase().word().into())).discrete(),
            of("restarts", ValueType::U64, |source| Some(Value::U64(load(&source.restarts))))
                .units(Units::COUNT)
                .counter(),
            of("status", ValueType::I32, |source| source.status().map(Value::I32)).discrete(),
            of("repaired", ValueType::U64, |source| Some(Value::U64(load(&source.repaired))))
                .units(Units::COUNT)
                .counter(),
            all("rotations", |follow| &follow.rotations),
            all("truncations", |follow| &follow.truncations),
            all("errors", |follow| &follow.errors),
            all("saves", |follow| &follow.saves),
            Metric::new("jumpseat.self.follow.unmatched", ValueType::U64).units(Units::COUNT).value(
                |state: &mut State| -> u64 {
                    state.threads.of::<FollowStats>().map(|follow| load(&follow.unmatched)).sum()
                },
            ),
        ]
    }
}

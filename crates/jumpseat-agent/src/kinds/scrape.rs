//! Targets that are asked for their metrics: `[[scrape]]`, `jumpseat.scrape.*` and `jumpseat.self.scrape.*`.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use jumpseat_source::InvalidKey;
use jumpseat_source::scrape::config::MAX_TABLES;
use jumpseat_source::scrape::{Failure, Refusal, ScrapeConfig, ScrapeSource, ScrapeStats, TargetStats};
use pcp_model::{Units, Value, ValueType};
use pcp_pmda::Metric;

use crate::config::{Config, InvalidTable};
use crate::confine::Trust;
use crate::identity::SCRAPE_TARGETS;
use crate::reach::Need;
use crate::state::State;

use super::kind::{Site, SourceKind, StartError, Started, Wanted, check_tables, load};

/// All targets, which one thread asks.
pub(super) struct Scrape;

impl SourceKind for Scrape {
    fn check(&self, config: &Config) -> Result<(), InvalidTable> {
        check_tables("scrape", &config.scrape, ScrapeConfig::validate, |before, this| {
            (before.name == this.name).then(|| InvalidKey::duplicate("name", "two tables have the same name"))
        })?;
        match config.scrape.len() > MAX_TABLES {
            true => {
                let invalid = InvalidKey::other("name", format!("more than {MAX_TABLES} tables"));
                Err(InvalidTable { table: "scrape", nth: MAX_TABLES, invalid })
            }
            false => Ok(()),
        }
    }

    fn sources(&self, _config: &Config) -> usize {
        // They have metrics, and no records.
        0
    }

    fn source_names(&self, _config: &Config) -> Vec<String> {
        Vec::new()
    }

    fn queue(&self, _config: &Config) -> usize {
        0
    }

    fn wanted<'a>(&self, config: &'a Config) -> Vec<Wanted<'a>> {
        let start = move |site: &mut Site<'_>| {
            let source = ScrapeSource::start(&config.scrape, site.outlet)
                .map_err(|error| StartError::new("targets to scrape".to_owned(), error))?;
            let stats = Arc::clone(&source.stats);
            Ok(Started { thread: Box::new(source), stats: Some(stats) })
        };
        // One thread for all, which sees to what changes by itself.
        let wanted = Wanted {
            what: "targets to scrape".to_owned(),
            key: String::new(),
            need: Need::Nothing,
            start: Box::new(start),
        };
        (!config.scrape.is_empty()).then_some(wanted).into_iter().collect()
    }

    fn adapt(&self, thread: &(dyn Any + Send), config: &Config, _trust: &Trust) {
        if let Some(thread) = thread.downcast_ref::<ScrapeSource>() {
            thread.configure(&config.scrape);
        }
    }

    fn metrics(&self) -> Vec<Metric<State>> {
        let text = |name: &str, value: fn(&TargetStats) -> Option<Value>| {
            Metric::new(format!("jumpseat.scrape.{name}"), ValueType::String)
                .indom(SCRAPE_TARGETS)
                .discrete()
                .each(move |state: &mut State, _, inst| Ok(state.targets.get(inst).and_then(value)))
        };
        let mut metrics = vec![
            last("up", ValueType::U32, Units::NONE, |target| Value::U32(load(&target.up) as u32)),
            last("duration", ValueType::U64, Units::NANOSECOND, |target| Value::U64(load(&target.duration))),
            last("samples", ValueType::U64, Units::COUNT, |target| Value::U64(load(&target.samples))),
            last("series", ValueType::U64, Units::COUNT, |target| Value::U64(load(&target.series))),
            count("bytes".to_owned(), |target| &target.bytes).units(Units::BYTE),
            count("scrapes".to_owned(), |target| &target.scrapes),
            count("late".to_owned(), |target| &target.late),
            count("skipped".to_owned(), |target| &target.skipped),
            count("connections".to_owned(), |target| &target.connections),
            text("problem", |target| {
                target.was_scraped().then(|| Value::from(target.problem.load().as_str().to_owned()))
            }),
        ];
        for failure in Failure::ALL {
            let name = format!("failed.{}", failure.word());
            metrics.push(count(name, move |target| &target.failed[failure as usize]));
        }
        for refusal in Refusal::ALL {
            let name = format!("refused.{}", refusal.word());
            metrics.push(count(name, move |target| &target.refused[refusal as usize]));
        }
        let all = |name: &str, units, value: fn(&ScrapeStats) -> u64| {
            Metric::new(format!("jumpseat.self.scrape.{name}"), ValueType::U64)
                .units(units)
                .value(move |state: &mut State| -> u64 { state.threads.of::<ScrapeStats>().map(value).sum() })
        };
        metrics.extend([
            all("targets", Units::COUNT, |stats| stats.targets.load().len() as u64),
            all("running", Units::COUNT, |stats| load(&stats.running)),
            all("memory", Units::BYTE, |stats| load(&stats.memory)),
            all("known", Units::BYTE, |stats| load(&stats.known)),
            all("left_out", Units::COUNT, |stats| load(&stats.left_out)),
            all("unreadable", Units::COUNT, |stats| load(&stats.unreadable)).counter(),
        ]);
        metrics
    }
}

/// What the last scrape of each target has come to; no value before the first.
fn last(name: &str, value_type: ValueType, units: Units, value: fn(&TargetStats) -> Value) -> Metric<State> {
    Metric::new(format!("jumpseat.scrape.{name}"), value_type).indom(SCRAPE_TARGETS).units(units).each(
        move |state: &mut State, _, inst| {
            Ok(state.targets.get(inst).filter(|target| target.was_scraped()).map(value))
        },
    )
}

/// What is counted of each target.
fn count(name: String, counter: impl Fn(&TargetStats) -> &AtomicU64 + 'static) -> Metric<State> {
    Metric::new(format!("jumpseat.scrape.{name}"), ValueType::U64)
        .indom(SCRAPE_TARGETS)
        .units(Units::COUNT)
        .counter()
        .each(move |state: &mut State, _, inst| {
            Ok(state.targets.get(inst).map(|target| Value::U64(load(counter(target)))))
        })
}

//! Events of the Linux kernel: `[[kernel]]`, and `jumpseat.kernel.*`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use jumpseat_source::InvalidKey;
use jumpseat_source::tracefs::{self, KernelConfig, KernelStats, TracefsSource};
use pcp_model::{Inst, Units, Value, ValueType};
use pcp_pmda::Metric;

use crate::config::{Config, InvalidTable};
use crate::identity::SOURCES;
use crate::reach::Need;
use crate::state::State;

use super::kind::{Site, SourceKind, StartError, Started, Wanted, check_tables, load};

/// The kernel sources.
pub(super) struct Kernel;

impl SourceKind for Kernel {
    fn check(&self, config: &Config) -> Result<(), InvalidTable> {
        check_tables("kernel", &config.kernel, KernelConfig::validate, |before, this| {
            (before.source == this.source)
                .then(|| InvalidKey::duplicate("source", "two kernel sources have the same name"))
        })
    }

    fn sources(&self, config: &Config) -> usize {
        config.kernel.len()
    }

    fn source_names(&self, config: &Config) -> Vec<String> {
        config.kernel.iter().map(|kernel| kernel.source.clone()).collect()
    }

    fn is_own(&self) -> bool {
        true
    }

    fn queue(&self, config: &Config) -> usize {
        config.kernel.len() * tracefs::QUEUE
    }

    fn wanted<'a>(&self, config: &'a Config) -> Vec<Wanted<'a>> {
        let one = |kernel: &'a KernelConfig| {
            let start = move |site: &mut Site<'_>| {
                let opener = site.trust.helpers.opener(&kernel.source);
                let source = TracefsSource::start(kernel, opener, site.outlet)
                    .map_err(|error| StartError::new(format!("kernel source {}", kernel.source), error))?;
                let stats = Arc::clone(&source.stats);
                Ok(Started { thread: Box::new(source), stats: Some(stats) })
            };
            Wanted {
                what: format!("kernel source {}", kernel.source),
                key: format!("{kernel:?}"),
                need: Need::Kernel(kernel),
                start: Box::new(start),
            }
        };
        config.kernel.iter().map(one).collect()
    }

    fn metrics(&self) -> Vec<Metric<State>> {
        let of = |name: &str, value: fn(&KernelStats) -> &AtomicU64| {
            Metric::new(format!("jumpseat.kernel.{name}"), ValueType::U64)
                .indom(SOURCES)
                .units(Units::COUNT)
                .each(move |state: &mut State, _, inst| {
                    Ok(kernel(state, inst).map(|stats| Value::U64(load(value(stats)))))
                })
        };
        vec![
            Metric::new("jumpseat.kernel.state", ValueType::String).indom(SOURCES).discrete().each(
                |state: &mut State, _, inst| {
                    Ok(kernel(state, inst).map(|stats| Value::from(stats.state().to_owned())))
                },
            ),
            of("enabled", |stats| &stats.enabled),
            of("refused", |stats| &stats.refused),
            of("lost", |stats| &stats.lost).counter(),
            of("late", |stats| &stats.late).counter(),
        ]
    }
}

fn kernel(state: &State, inst: Inst) -> Option<&KernelStats> {
    state.threads.of::<KernelStats>().find(|stats| stats.source == inst)
}

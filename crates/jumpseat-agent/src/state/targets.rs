//! The targets that are scraped, as their thread has told of them last ([`ScrapeStats`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jumpseat_source::scrape::{ScrapeStats, TargetStats};
use pcp_model::Inst;
use pcp_pmda::Instances;
use rustc_hash::FxHashMap;

use super::threads::ThreadStats;

/// All targets.
pub(crate) struct Targets {
    /// The instances that stand for them.
    pub(crate) instances: Instances,
    targets: FxHashMap<Inst, Arc<TargetStats>>,
    /// What was taken over last, of which scraper.
    seen: Option<(Arc<ScrapeStats>, u64)>,
    label_generation: u64,
}

impl Default for Targets {
    fn default() -> Targets {
        Targets {
            instances: Instances::in_memory(),
            targets: FxHashMap::default(),
            seen: None,
            label_generation: 0,
        }
    }
}

impl Targets {
    /// Takes over what is new, if anything is.
    pub(crate) fn refresh(&mut self, threads: &ThreadStats) {
        let scraper = threads.shared::<ScrapeStats>().next();
        let now = scraper.map(|stats| {
            // Before the targets: what is new since then is taken over the next time.
            let generation = stats.generation.load(Ordering::Acquire);
            (stats, generation)
        });
        let is_same = match (&self.seen, &now) {
            (None, None) => true,
            (Some(seen), Some(now)) => Arc::ptr_eq(&seen.0, &now.0) && seen.1 == now.1,
            _ => false,
        };
        if is_same {
            return;
        }
        let targets = now.as_ref().map(|(stats, _)| stats.targets.load_full()).unwrap_or_default();
        let gone: Vec<Inst> = self.instances.active().to_vec();
        let there = |inst: Inst| targets.binary_search_by_key(&inst, |target| target.inst).is_ok();
        gone.into_iter().filter(|inst| !there(*inst)).for_each(|inst| self.instances.hide(inst));
        self.targets.clear();
        for target in targets.iter() {
            let added = self.instances.add_as(target.inst, &target.name);
            debug_assert!(added.is_ok(), "the scraper has them told apart");
            self.targets.insert(target.inst, Arc::clone(target));
        }
        self.seen = now;
        self.label_generation += 1;
    }

    /// The target of an instance.
    pub(crate) fn get(&self, inst: Inst) -> Option<&TargetStats> {
        self.targets.get(&inst).map(|target| &**target)
    }

    /// Changes whenever labels do.
    pub(super) fn label_generation(&self) -> u64 {
        self.label_generation
    }
}

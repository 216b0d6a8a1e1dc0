//! Which dynamic subtree has a metric, by its cluster and item.
//!
//! **Cost:** a page of 2 KiB for each cluster that ever had such a metric, 8 MiB if all 4,096 have. A fetch asks for each of its metrics, mostly for one behind the other: these are
//! beside each other here, while a table by hash would be waited for from memory each time.

use pcp_model::Pmid;
use rustc_hash::FxHashMap;

const ITEMS: usize = 1024;
/// Most subtrees of an agent.
pub(crate) const MAX_SUBTREES: usize = u16::MAX as usize;

/// Subtrees by metrics.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By cluster; in it by item one more than the subtree's number, 0 for none.
    pages: FxHashMap<u16, Box<[u16; ITEMS]>>,
}

impl Owners {
    /// The number of the subtree that has a metric; its domain does not matter.
    pub(super) fn get(&self, pmid: Pmid) -> Option<usize> {
        let owner = *self.pages.get(&pmid.cluster())?.get(usize::from(pmid.item()))?;
        owner.checked_sub(1).map(usize::from)
    }

    /// A subtree, one of [`MAX_SUBTREES`], has this metric.
    pub(super) fn insert(&mut self, pmid: Pmid, subtree: usize) {
        debug_assert!(subtree < MAX_SUBTREES, "an agent with more is not built");
        let page = self.pages.entry(pmid.cluster()).or_insert_with(|| Box::new([0; ITEMS]));
        if let Some(owner) = page.get_mut(usize::from(pmid.item())) {
            *owner = subtree as u16 + 1;
        }
    }

    /// Nobody has any.
    pub(super) fn clear(&mut self) {
        self.pages.values_mut().for_each(|page| page.fill(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_all_clusters_are_told_apart() {
        let mut owners = Owners::default();
        let all = [(0, 0), (0, 1023), (64, 0), (64, 1), (4095, 1023)];
        for (subtree, (cluster, item)) in all.into_iter().enumerate() {
            assert_eq!(owners.get(Pmid::new(400, cluster, item)), None);
            owners.insert(Pmid::new(400, cluster, item), subtree);
        }
        for (subtree, (cluster, item)) in all.into_iter().enumerate() {
            assert_eq!(owners.get(Pmid::new(1, cluster, item)), Some(subtree));
        }
        for (cluster, item) in [(0, 1), (64, 2), (65, 0), (4095, 1022)] {
            assert_eq!(owners.get(Pmid::new(400, cluster, item)), None);
        }
        owners.insert(Pmid::new(400, 0, 0), 7);
        assert_eq!(owners.get(Pmid::new(400, 0, 0)), Some(7));
        owners.clear();
        assert_eq!(owners.get(Pmid::new(400, 0, 0)), None);
    }
}

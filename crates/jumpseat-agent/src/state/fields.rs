//! The fields of event records that are known: one for each name and type.

use hashbrown::HashMap;
use rustc_hash::FxHashMap;

use pcp_event::filter::FieldResolver;
use pcp_model::{Pmid, ValueType};

/// The fields known so far. Grows only: an archive may hold any parameter ever sent.
#[derive(Debug, Default)]
pub struct Fields {
    by_pmid: FxHashMap<u32, Field>,
    /// Every PMID of a field name, for filters, which name fields and not metrics.
    by_name: HashMap<String, Vec<Pmid>>,
    generation: u64,
}

/// A field.
#[derive(Debug)]
pub struct Field {
    /// The last component of its metric's name.
    pub leaf: String,
    /// Its own name, as senders write it.
    pub name: String,
    /// The type of its values.
    pub value_type: ValueType,
}

impl Fields {
    /// Takes in a field. Its metric can be looked up from now on.
    pub fn define(&mut self, pmid: Pmid, leaf: String, name: String, value_type: ValueType) {
        let pmids = self.by_name.entry(name.clone()).or_default();
        if !pmids.contains(&pmid) {
            pmids.push(pmid);
        }
        self.by_pmid.insert(pmid.local(), Field { leaf, name, value_type });
        self.generation += 1;
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_pmid.len()
    }

    /// The field of a metric.
    pub fn get(&self, pmid: Pmid) -> Option<&Field> {
        self.by_pmid.get(&pmid.local())
    }

    /// All, by the PMIDs of their metrics without a domain.
    pub fn iter(&self) -> impl Iterator<Item = (Pmid, &Field)> {
        self.by_pmid.iter().map(|(&local, field)| (Pmid(local), field))
    }
}

impl FieldResolver for Fields {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn resolve(&self, name: &str, found: &mut dyn FnMut(Pmid)) {
        for &pmid in self.by_name.get(name).into_iter().flatten() {
            found(pmid);
        }
    }
}

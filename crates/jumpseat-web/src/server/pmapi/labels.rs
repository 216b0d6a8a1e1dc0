//! Labels of metrics, domains and instances, merged; and the identifiers that are made of them (`docs/pcp/webapi.md` 5 and 9).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use pcp_client::{Context, Found, LabelTarget, Lookup};
use pcp_model::{Desc, InDom, Inst, Label, LabelFlags, LabelSet, Pmid};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::value::RawValue;

use super::call::refused;
use crate::server::answer::Refusal;

/// Labels that were asked for, level by level, for one answer.
#[derive(Debug, Default)]
pub(super) struct Labels {
    levels: HashMap<LabelTarget, Vec<LabelSet>>,
}

/// Labels of several levels, by name; values are JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Merged<'a> {
    by_name: BTreeMap<&'a str, &'a str>,
}

impl Labels {
    /// Asks for the labels of these, but for those that were asked for before.
    ///
    /// # Errors
    /// Those of the source as a whole.
    pub(super) fn look_up(
        &mut self,
        context: &mut Context,
        targets: impl IntoIterator<Item = LabelTarget>,
    ) -> Result<(), Refusal> {
        let mut new: Vec<LabelTarget> = Vec::new();
        for target in targets {
            // Once each, also if it comes twice.
            if let Entry::Vacant(vacant) = self.levels.entry(target) {
                vacant.insert(Vec::new());
                new.push(target);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let lookups: Vec<Lookup> = new.iter().map(|&target| Lookup::Labels(target)).collect();
        let found = context.look_up_each(&lookups);
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                new.iter().for_each(|target| drop(self.levels.remove(target)));
                return Err(refused(&error));
            }
        };
        for (target, found) in new.into_iter().zip(found) {
            if let Ok(Found::Labels(sets)) = found {
                self.levels.insert(target, sets);
            }
        }
        Ok(())
    }

    /// Labels of these levels, later ones win; optional ones where they are wanted.
    pub(super) fn merged(&self, targets: &[LabelTarget], optional: bool) -> Merged<'_> {
        let mut merged = Merged::default();
        for target in targets {
            merged.add(self.of(*target), optional);
        }
        merged
    }

    fn of(&self, target: LabelTarget) -> &[Label] {
        let set = self.levels.get(&target).and_then(|sets| sets.first());
        set.and_then(|set| set.labels.as_deref().ok()).unwrap_or_default()
    }

    /// Labels of instances by number, for who wants those of all.
    pub(super) fn by_instance(&self, indom: InDom) -> HashMap<Inst, &[Label]> {
        let sets = self.levels.get(&LabelTarget::Instances(indom)).map_or(&[][..], Vec::as_slice);
        sets.iter().filter_map(|set| Some((set.inst, set.labels.as_deref().ok()?))).collect()
    }
}

/// The levels of a metric: derived ones have no agent, cluster or item.
pub(super) fn levels(desc: &Desc) -> Vec<LabelTarget> {
    let Desc { pmid, indom, .. } = *desc;
    let of_indom = (indom != InDom::NULL).then_some(LabelTarget::InDom(indom));
    let mut levels = vec![LabelTarget::Context];
    if pmid.is_derived() {
        levels.extend(of_indom);
        return levels;
    }
    levels.push(LabelTarget::Domain(pmid.domain().into()));
    levels.extend(of_indom);
    let cluster = Pmid::new(pmid.domain(), pmid.cluster(), 0);
    levels.extend([LabelTarget::Cluster(cluster), LabelTarget::Item(pmid)]);
    levels
}

/// The levels of an instance domain.
pub(super) fn levels_of_indom(indom: InDom) -> [LabelTarget; 3] {
    [LabelTarget::Context, LabelTarget::Domain(indom.domain().into()), LabelTarget::InDom(indom)]
}

impl<'a> Merged<'a> {
    /// Adds a level, which wins.
    pub(super) fn add(&mut self, labels: &'a [Label], optional: bool) {
        for label in labels {
            if optional || label.flags.0 & LabelFlags::OPTIONAL == 0 {
                self.by_name.insert(&label.name, &label.value);
            }
        }
    }

    /// Names and values, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + '_ {
        self.by_name.iter().map(|(name, value)| (*name, *value))
    }

    /// The object, as identifiers are made of it.
    pub(super) fn text(&self) -> String {
        let members: Vec<String> = self.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }
}

/// An object, its values verbatim.
impl Serialize for Merged<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.by_name.len()))?;
        for (name, value) in self.iter() {
            match serde_json::from_str::<&RawValue>(value) {
                Ok(json) => map.serialize_entry(name, json)?,
                // An agent that sends what is no JSON.
                Err(_) => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearer_labels_win_and_stay_as_they_are_written() {
        let label = |name: &str, value: &str, flags| Label {
            name: name.to_owned(),
            value: value.to_owned(),
            flags: LabelFlags(flags),
        };
        let host = [label("hostname", "\"shard\"", 1), label("port", "1", 1), label("user", "5", 0x81)];
        let own = [label("port", "44321", 16), label("bad", "x", 16)];
        let mut merged = Merged::default();
        merged.add(&host, false);
        merged.add(&own[..1], false);
        assert_eq!(merged.text(), r#"{"hostname":"shard","port":44321}"#);
        merged.add(&own, false);
        let json = serde_json::to_string(&merged).expect("JSON");
        assert_eq!(json, r#"{"bad":"x","hostname":"shard","port":44321}"#);
    }
}

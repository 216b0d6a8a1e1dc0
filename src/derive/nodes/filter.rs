//! `x[instance]` and `matchinst` (spec `derived-eval.md` 4.16 and 4.17).

use std::collections::HashMap;

use crate::derive::column::Column;
use crate::derive::source::Source;
use crate::derive::tree::Matcher;
use crate::model::{InDom, Inst};

/// Evaluates `x[name]`: the instance is looked up with the first values, and kept for good once found.
pub(in crate::derive) fn instance(
    x: &Column,
    indom: InDom,
    name: &str,
    found: &mut Option<Inst>,
    source: &mut dyn Source,
    out: &mut Column,
) {
    out.clear();
    if x.is_empty() {
        return;
    }
    if found.is_none() && indom != InDom::NULL {
        *found = source.instance(indom, name).ok();
    }
    let Some(inst) = *found else {
        return;
    };
    if let Some(at) = x.ids.iter().position(|&id| id == inst) {
        out.push_from(x, at);
    }
}

/// Which instances a `matchinst` has let through.
#[derive(Clone, Debug, Default)]
pub(in crate::derive) struct MatchCache {
    seen: HashMap<Inst, Seen>,
    evaluations: u32,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    passes: bool,
    /// In how many evaluations since the last ageing.
    times: u32,
}

impl MatchCache {
    /// An ageing every so many evaluations forgets instances that were in fewer than half of them.
    const AGE: u32 = 100;

    /// Evaluates `matchinst`. Names are looked up once an instance.
    pub fn eval(
        &mut self,
        x: &Column,
        indom: InDom,
        matcher: &Matcher,
        source: &mut dyn Source,
        out: &mut Column,
    ) {
        out.clear();
        self.evaluations += 1;
        if indom != InDom::NULL {
            for (at, &inst) in x.ids.iter().enumerate() {
                let seen = self.seen.entry(inst).or_insert_with(|| {
                    let mut passes = false;
                    let mut test = |name: &str| {
                        let name = name.split(' ').next().unwrap_or_default();
                        passes = matcher.pattern.is_match(name) != matcher.invert;
                    };
                    // An instance without a name passes neither way.
                    let named = source.instance_name(indom, inst, &mut test).is_ok();
                    Seen { passes: named && passes, times: 0 }
                });
                seen.times += 1;
                if seen.passes {
                    out.push_from(x, at);
                }
            }
        }
        if self.evaluations == MatchCache::AGE {
            self.evaluations = 0;
            self.seen.retain(|_, seen| {
                let keep = seen.times >= MatchCache::AGE / 2;
                seen.times = 0;
                keep
            });
        }
    }
}

//! `x[instance]` and `matchinst` (spec `derived-eval.md` 4.16 and 4.17).

use std::collections::HashMap;

use crate::column::Column;
use crate::source::Source;
use crate::tree::Matcher;
use pcp_model::{InDom, Inst};

/// Evaluates `x[name]`: the instance is looked up with the first values, and kept for good once found.
pub(crate) fn instance(
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
pub(crate) struct MatchCache {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Values;
    use crate::meta::Meta;
    use crate::pattern::Pattern;
    use pcp_model::{PmError, Pmid};

    /// Instances 1 "eth0 up" and 2 "lo", and how often names were asked for.
    struct Names(u32);

    impl Source for Names {
        fn pmid(&mut self, _: &str) -> Result<Pmid, PmError> {
            Err(PmError::NAME)
        }

        fn meta(&mut self, _: Pmid) -> Result<Meta, PmError> {
            Err(PmError::PMID)
        }

        fn instance(&mut self, _: InDom, name: &str) -> Result<Inst, PmError> {
            self.0 += 1;
            if name == "lo" { Ok(2) } else { Err(PmError::INST) }
        }

        fn instance_name(
            &mut self,
            _: InDom,
            inst: Inst,
            found: &mut dyn FnMut(&str),
        ) -> Result<(), PmError> {
            self.0 += 1;
            found(match inst {
                1 => "eth0 up",
                2 => "lo",
                _ => return Err(PmError::INST),
            });
            Ok(())
        }

        fn instances(&mut self, _: InDom, _: &mut Vec<Inst>) -> Result<(), PmError> {
            Err(PmError::INDOM)
        }
    }

    const INDOM: InDom = InDom::new(60, 1);

    fn column(ids: &[Inst]) -> Column {
        Column { ids: ids.to_vec(), values: Values::I32(ids.to_vec()) }
    }

    #[test]
    fn names_are_cut_at_the_first_space_and_looked_up_once() {
        let (mut names, mut cache, mut out) = (Names(0), MatchCache::default(), column(&[]));
        let matcher = |invert| Matcher { invert, pattern: Pattern::new("0$").unwrap() };
        for _ in 0..3 {
            cache.eval(&column(&[1, 2, 3]), INDOM, &matcher(false), &mut names, &mut out);
            assert_eq!(out, column(&[1]));
        }
        assert_eq!(names.0, 3);
        MatchCache::default().eval(&column(&[1, 2, 3]), INDOM, &matcher(true), &mut names, &mut out);
        assert_eq!(out, column(&[2]), "an instance without a name matches neither way");
    }

    #[test]
    fn an_instance_is_looked_up_until_it_is_found() {
        let (mut names, mut found, mut out) = (Names(0), None, column(&[]));
        instance(&column(&[]), INDOM, "lo", &mut found, &mut names, &mut out);
        assert_eq!((found, names.0), (None, 0), "no lookup without values");
        for _ in 0..2 {
            instance(&column(&[1, 2]), INDOM, "lo", &mut found, &mut names, &mut out);
            assert_eq!(out, column(&[2]));
        }
        assert_eq!(names.0, 1);
        instance(&column(&[2]), InDom::NULL, "lo", &mut None, &mut names, &mut out);
        assert!(out.is_empty(), "singular operands have no instances");
    }
}

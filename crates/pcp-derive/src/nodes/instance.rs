//! `x[instance]` (`docs/pcp/derived-eval.md` 4.16).

use crate::column::Column;
use crate::functions::{Evaluate, Evaluation};
use pcp_model::{InDom, Inst, PmError};

/// A bound `x[instance]`.
#[derive(Debug)]
pub(crate) struct InstanceFilter {
    name: Box<str>,
    indom: InDom,
    found: Option<Inst>,
}

impl InstanceFilter {
    pub(crate) fn new(name: &str, indom: InDom) -> InstanceFilter {
        InstanceFilter { name: name.into(), indom, found: None }
    }
}

impl Evaluate for InstanceFilter {
    /// The instance is looked up with the first values, and kept for good once found, as in PCP: a name that
    /// moves to another instance is not followed.
    fn eval(&mut self, x: &Column, out: &mut Column, fetch: &mut Evaluation<'_>) -> Result<(), PmError> {
        out.clear();
        if x.is_empty() {
            return Ok(());
        }
        if self.found.is_none() && self.indom != InDom::NULL {
            self.found = fetch.source.instance(self.indom, &self.name).ok();
        }
        let wanted = self.found;
        if let Some(at) = x.ids.iter().position(|&id| Some(id) == wanted) {
            out.push_from(x, at);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::testing::eval_with;
    use crate::nodes::testing::{INDOM, Names, column};

    #[test]
    fn an_instance_is_looked_up_until_it_is_found() {
        let (mut names, mut out) = (Names(0), column(&[]));
        let mut filter = InstanceFilter::new("lo", INDOM);
        eval_with(&mut filter, &column(&[]), 0, &mut names, &mut out).unwrap();
        assert_eq!((filter.found, names.0), (None, 0), "no lookup without values");
        for _ in 0..2 {
            eval_with(&mut filter, &column(&[1, 2]), 0, &mut names, &mut out).unwrap();
            assert_eq!(out, column(&[2]));
        }
        assert_eq!(names.0, 1);
        let mut singular = InstanceFilter::new("lo", InDom::NULL);
        eval_with(&mut singular, &column(&[2]), 0, &mut names, &mut out).unwrap();
        assert!(out.is_empty(), "singular operands have no instances");
    }
}

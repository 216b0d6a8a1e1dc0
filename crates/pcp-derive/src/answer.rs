//! The answer to a fetch: which metrics are computed, and which the source has answered itself (
//! `docs/pcp/derived-eval.md` 2 and 3). Every fetch goes through here: those of client contexts, of the agent, and of
//! recorded cases that are replayed.

use std::collections::HashMap;

use super::column::Column;
use super::context::Attached;
use super::dialect::Level;
use super::source::OperandValues;
use pcp_model::{FetchResult, InstanceValue, PmError, Pmid, Timestamp, ValueSet};

/// What a fetch answers for one metric.
#[derive(Debug)]
pub enum Answer<'a> {
    /// These values.
    Values(&'a Column),
    /// This error.
    Error(PmError),
    /// What the source itself has answered: it is not a derived metric, or none that is bound.
    OfSource,
}

impl<'a> Answer<'a> {
    /// The values of a metric that only a definition can give any.
    ///
    /// # Errors
    /// The error of the value set; `PM_ERR_PMID` where it would be the source's to answer.
    pub fn values(self) -> Result<&'a Column, PmError> {
        match self {
            Answer::Values(column) => Ok(column),
            Answer::Error(error) => Err(error),
            Answer::OfSource => Err(PmError::PMID),
        }
    }
}

/// Answers the metrics of a request, one by one: made by [`Attached::answers`].
pub struct Answers<'a, 'b> {
    attached: &'a mut Attached<'b>,
    request: &'a [Pmid],
    time: Timestamp,
    /// Found out when it is wanted first.
    any_bound: Option<bool>,
}

impl<'b> Attached<'b> {
    /// The answers to a fetch of `request`, whose operands have the values of this time. What the request
    /// needs has been bound: by [`Attached::expand`], or by asking for its metadata. Operands are asked for
    /// once between two calls of [`Attached::begin_fetch`].
    pub fn answers<'a>(&'a mut self, request: &'a [Pmid], time: Timestamp) -> Answers<'a, 'b> {
        Answers { attached: self, request, time, any_bound: None }
    }

    /// The answer to a fetch of `request`, made of the source's answer to the expanded list: one value set
    /// for each metric asked for. For sources whose values are decoded already; it begins the fetch itself.
    pub fn answer(&mut self, request: &[Pmid], fetched: &FetchResult) -> FetchResult {
        self.begin_fetch();
        let mut values = FetchedValues::new(fetched);
        let mut answers = self.answers(request, fetched.timestamp);
        let set = |&pmid: &Pmid| {
            let values = match answers.answer(pmid, &mut values) {
                Answer::Values(column) => Ok(column.to_values()),
                Answer::Error(error) => Err(error),
                Answer::OfSource => values.of(pmid).map(<[_]>::to_vec),
            };
            ValueSet { pmid, values }
        };
        FetchResult { timestamp: fetched.timestamp, sets: request.iter().map(set).collect() }
    }
}

impl Answers<'_, '_> {
    /// The answer for one metric of the request. A metric that is asked for twice is to be answered twice.
    pub fn answer(&mut self, pmid: Pmid, values: &mut dyn OperandValues) -> Answer<'_> {
        let Some(at) = self.attached.context.bound_at(pmid) else {
            return self.not_bound(pmid, values);
        };
        let level = self.attached.context.level();
        match self.attached.evaluate(at, self.time, values) {
            Ok(column) => Answer::Values(column),
            Err(error) => Answer::Error(as_derived(pmid, error, level)),
        }
    }

    fn not_bound(&mut self, pmid: Pmid, values: &dyn OperandValues) -> Answer<'static> {
        let context = &*self.attached.context;
        let any_bound = || self.request.iter().any(|&pmid| context.is_bound(pmid));
        // PCP goes through a result only if something in it is bound; only then does it find the others.
        if context.knows(pmid) && *self.any_bound.get_or_insert_with(any_bound) {
            return Answer::Error(PmError::PMID);
        }
        let error = values.own_error(pmid);
        let told = error.map(|error| as_derived(pmid, error, context.level()));
        told.filter(|_| told != error).map_or(Answer::OfSource, Answer::Error)
    }
}

/// An error as a fetch tells of it: from 7.2.1 on, a derived metric lacks no agent but a meaning.
fn as_derived(pmid: Pmid, error: PmError, level: Level) -> PmError {
    match error {
        PmError::NOAGENT if level >= Level::V721 && pmid.is_derived() => PmError::PMID,
        error => error,
    }
}

/// A fetch result as operands.
struct FetchedValues<'a> {
    sets: HashMap<Pmid, &'a Result<Vec<InstanceValue>, PmError>>,
}

impl FetchedValues<'_> {
    fn new(fetched: &FetchResult) -> FetchedValues<'_> {
        FetchedValues { sets: fetched.sets.iter().map(|set| (set.pmid, &set.values)).collect() }
    }

    /// Nothing of a metric that was not fetched.
    fn of(&self, pmid: Pmid) -> Result<&[InstanceValue], PmError> {
        match self.sets.get(&pmid) {
            Some(Ok(values)) => Ok(values),
            Some(Err(error)) => Err(*error),
            None => Ok(&[]),
        }
    }
}

impl OperandValues for FetchedValues<'_> {
    fn operand(&mut self, pmid: Pmid, column: &mut Column) -> Result<(), PmError> {
        column.extend(self.of(pmid)?)
    }

    fn own_error(&self, pmid: Pmid) -> Option<PmError> {
        self.of(pmid).err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::NoMetrics;
    use crate::{DerivedContext, Dialect, Registry};

    /// What is answered for a broken definition, next to one that binds or alone, when the source knows no agent.
    fn broken(level: Level, next_to: bool) -> Result<Vec<InstanceValue>, PmError> {
        let mut registry = Registry::new(Dialect::strict(level));
        let bound = registry.register("d.one", "1").unwrap();
        let broken = registry.register("d.broken", "no.such").unwrap();
        let (mut context, mut source) = (DerivedContext::new(), NoMetrics);
        let mut attached = context.attach(&registry, &mut source);
        let request = if next_to { vec![broken, bound] } else { vec![broken] };
        attached.expand(&mut request.clone());
        let sets = vec![ValueSet { pmid: broken, values: Err(PmError::NOAGENT) }];
        let answer = attached.answer(&request, &FetchResult { timestamp: Timestamp::default(), sets });
        assert!(
            answer.sets.iter().skip(1).all(|set| set.values.as_ref().is_ok_and(|values| values.len() == 1))
        );
        answer.sets.into_iter().next().unwrap().values
    }

    #[test]
    fn a_derived_metric_lacks_no_agent_from_7_2_1_on() {
        assert_eq!(broken(Level::V638, false), Err(PmError::NOAGENT));
        assert_eq!(broken(Level::V721, false), Err(PmError::PMID));
        assert_eq!(broken(Level::V638, true), Err(PmError::PMID), "something else is bound");
    }
}

//! Expressions that were asked for: their identifiers are asked about later, and only the hash of an expression comes back.
//!
//! **Invariant:** the newest [`MAX`] of them, of at most [`MAX_TEXT`] bytes together. What was forgotten is unknown; clients begin with
//! the query again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use pcp_model::Desc;

use super::language::Expr;
use crate::server::identity::Id;

const MAX: usize = 8192;
const MAX_TEXT: usize = 8 << 20;

/// The expressions.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    /// With the number of the insertion.
    by_id: HashMap<Id, (u64, Arc<Known>)>,
    /// Insertions, oldest first. Of what was inserted again, only the last counts.
    order: VecDeque<(u64, Id)>,
    inserted: u64,
    text: usize,
}

/// What an identifier that is in no archive stands for.
#[derive(Debug)]
pub(super) enum Known {
    /// An expression with functions.
    Expression { canonical: String, expr: Expr, desc: Desc },
    /// A derived metric of a source.
    Derived(Derived),
}

/// A derived metric of a source.
#[derive(Clone, Debug)]
pub(super) struct Derived {
    pub id: Id,
    pub source: Id,
    /// As it was asked for.
    pub name: String,
    pub expression: String,
    pub desc: Desc,
}

impl Remembered {
    /// What an identifier stands for.
    pub(super) fn get(&self, id: Id) -> Option<Arc<Known>> {
        self.all().by_id.get(&id).map(|(_, known)| Arc::clone(known))
    }

    /// Remembers one, as the newest.
    pub(super) fn insert(&self, id: Id, known: Known) {
        let mut all = self.all();
        all.inserted += 1;
        let (number, len) = (all.inserted, known.len());
        if let Some((_, before)) = all.by_id.insert(id, (number, Arc::new(known))) {
            all.text -= before.len();
        }
        all.text += len;
        all.order.push_back((number, id));
        while all.by_id.len() > MAX || all.text > MAX_TEXT || all.order.len() > 2 * MAX {
            let Some((number, oldest)) = all.order.pop_front() else { break };
            if all.by_id.get(&oldest).is_some_and(|(newest, _)| *newest == number)
                && let Some((_, gone)) = all.by_id.remove(&oldest)
            {
                all.text -= gone.len();
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// About how many bytes it has.
    fn len(&self) -> usize {
        match self {
            // The text and the tree.
            Known::Expression { canonical, .. } => 4 * canonical.len(),
            Known::Derived(derived) => derived.name.len() + derived.expression.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::language::Selector;
    use super::*;
    use pcp_model::{InDom, Pmid, Semantics, Units, ValueType};

    #[test]
    fn the_oldest_are_forgotten() {
        let remembered = Remembered::default();
        let desc = Desc {
            pmid: Pmid::NULL,
            value_type: ValueType::Double,
            indom: InDom::NULL,
            semantics: Semantics::Instant,
            units: Units::NONE,
        };
        let known = |canonical: &str| Known::Expression {
            canonical: canonical.to_owned(),
            expr: Expr::Select(Selector { metric: None, conditions: Vec::new() }),
            desc,
        };
        let id = |number: usize| Id::expression(&number.to_string());
        for number in 0..MAX + 10 {
            remembered.insert(id(number), known("x"));
            // Asked for again and again, it is the newest.
            remembered.insert(id(0), known("x"));
        }
        assert!(remembered.get(id(0)).is_some() && remembered.get(id(1)).is_none());
        assert!(remembered.get(id(MAX + 9)).is_some());
        remembered.insert(id(5), known(&"x".repeat(MAX_TEXT)));
        let all = remembered.all();
        assert_eq!((all.by_id.len(), all.text), (0, 0));
    }
}

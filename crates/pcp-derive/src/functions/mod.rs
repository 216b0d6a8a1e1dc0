//! The functions of the language: one file each (or one a family that shares its loops), one line each in
//! [`FUNCTIONS`].
//!
//! A function's file has everything about it: its word and since when there is one ([`Function`]), how its
//! arguments are read, and what it is once they are ([`FunctionCall`]): type rule, evaluation, printing.
//! Nothing else in the crate knows a function by name. To add one, write the file and add the line.
//!
//! Functions that give a node of its own kind instead of a call (`anon`, `defined`, `mkconst`, `novalue`) have
//! their words and arguments here, and the rules of those nodes in `nodes` and `bind`: they look up
//! names, which a function of one argument never does.

mod abs;
mod anon;
mod avg;
mod clamp;
mod count;
mod defined;
mod delta;
mod extremum;
mod history;
mod instant;
mod matchinst;
mod mkconst;
mod novalue;
mod quantile;
mod rate;
mod rescale;
mod scalar;
mod stddev;
mod sum;
mod top;
pub(crate) mod window;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::column::Column;
use crate::dialect::{Dialect, Level};
use crate::machine::pool::Pool;
use crate::meta::Meta;
use crate::nodes::pairing::Finder;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::{self, Expected, OperandTaken, Parser};
use crate::source::MetricSource;
use crate::tree::Kind;
use pcp_model::{PmError, Timestamp};

/// All functions.
static FUNCTIONS: [&Function; 25] = [
    &avg::AVG,
    &count::COUNT,
    &extremum::MAX,
    &extremum::MIN,
    &sum::SUM,
    &delta::DELTA,
    &rate::RATE,
    &instant::INSTANT,
    &anon::ANON,
    &defined::DEFINED,
    &mkconst::MKCONST,
    &novalue::NOVALUE,
    &rescale::RESCALE,
    &matchinst::MATCHINST,
    &scalar::SCALAR,
    &top::TOPK,
    &top::BOTTOMK,
    &quantile::QUANTILE,
    &stddev::STDDEV,
    &abs::ABS,
    &clamp::CLAMP,
    &window::AVG_OVER,
    &window::MIN_OVER,
    &window::MAX_OVER,
    &window::SUM_OVER,
];

/// A word that is a function where `(` follows it directly, and how its arguments are read.
#[derive(Debug)]
pub(crate) struct Function {
    pub word: &'static str,
    pub availability: Availability,
    /// Whether `/` begins a pattern from its `(` to its `)`.
    pub takes_pattern: bool,
    /// Reads from the word on: up to the argument if that is an expression, else everything.
    pub parse: fn(&mut Parser<'_>, &'static Function) -> parser::Result<Option<OperandTaken>>,
    /// What stands behind an argument that is an expression.
    pub behind: Option<Behind>,
}

/// Arguments behind the expression and its comma.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind {
    /// PCP's words for them, or words like PCP's.
    pub expected: Expected,
    /// Whether a `)` in the comma's place is told in these words, and not in those for the expression.
    pub expected_at_close: bool,
    /// Reads them from behind the comma, up to the closing parenthesis.
    pub parse: fn(&mut Parser<'_>) -> parser::Result<Call>,
}

/// Which dialects have a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// Every release has it.
    Always,
    /// Releases from this one on.
    Since(Level),
    /// No PCP has it.
    BeyondPcp,
}

impl Function {
    /// The function of a word, if the dialect has one.
    pub(crate) fn of(word: &str, dialect: &Dialect) -> Option<&'static Function> {
        let function = FUNCTIONS.into_iter().find(|function| function.word == word)?;
        let available = match function.availability {
            Availability::Always => true,
            Availability::Since(level) => dialect.level >= level,
            Availability::BeyondPcp => dialect.beyond_pcp,
        };
        available.then_some(function)
    }
}

/// By its word, as nothing else tells functions apart.
impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.word == other.word
    }
}

/// A function with all its arguments but the expression.
///
/// Methods with a default are for the few functions that differ from most.
pub(crate) trait FunctionCall: fmt::Debug + Send + Sync {
    fn function(&self) -> &'static Function;

    /// The type rule: the metadata of the result from that of the expression.
    fn bind(&self, x: Meta, rules: Rules<'_>) -> Result<Meta, BrokenRule>;

    /// What evaluates it in one place of one definition; `None` if its values are those of the expression.
    fn evaluator(&self, node: &CallNode<'_>) -> Option<Box<dyn Evaluate>>;

    /// Whether results depend on earlier evaluations, so that each place needs an evaluator of its own.
    fn has_memory(&self) -> bool {
        false
    }

    /// Whether it goes on from the values that it had last, which it finds where it puts the new ones.
    fn keeps_values(&self) -> bool {
        false
    }

    /// What an error of the expression itself does; one below it always ends the evaluation.
    fn on_error(&self) -> OnError {
        OnError::End
    }

    /// The arguments before the expression as they are written, comma included.
    fn before(&self) -> String {
        String::new()
    }

    /// The arguments behind the expression as they are written, comma included.
    fn behind(&self) -> String {
        String::new()
    }

    /// What PCP shows of it in a tree, before and behind the expression.
    fn in_tree(&self) -> (String, String) {
        (format!("{} ", self.function().word.to_uppercase()), String::new())
    }

    /// What PCP says is wrong when the type rule is broken; `x` is the expression if it is a name or a number.
    fn in_message(&self, x: Option<&str>, _: Rules<'_>) -> String {
        format!("{}({})", self.function().word.to_uppercase(), x.unwrap_or("(null)"))
    }
}

/// What an error of the expression itself does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnError {
    /// It is the error of the definition.
    End,
    /// If the expression is a metric's name, the function makes a value of it.
    Recover,
    /// It ends the evaluation, but the function learns of it.
    Remember,
}

/// A function called with all its arguments but the expression.
#[derive(Clone)]
pub struct Call(Shared);

// Most functions have no more arguments. Their calls need no memory, and registering tens of thousands of
// definitions is a case that counts.
#[derive(Clone)]
enum Shared {
    Plain(&'static dyn FunctionCall),
    With(Arc<dyn FunctionCall>),
}

impl Call {
    /// Of a function that takes an expression only.
    pub(crate) const fn plain(call: &'static dyn FunctionCall) -> Call {
        Call(Shared::Plain(call))
    }

    /// Of a function with these arguments.
    pub(crate) fn with(call: impl FunctionCall + 'static) -> Call {
        Call(Shared::With(Arc::new(call)))
    }

    /// The function's word, as it is written.
    pub fn word(&self) -> &'static str {
        self.rules().function().word
    }

    /// Whether it asks for the names of instances.
    pub fn needs_instance_names(&self) -> bool {
        self.rules().function().takes_pattern
    }

    pub(crate) fn rules(&self) -> &dyn FunctionCall {
        match &self.0 {
            Shared::Plain(call) => *call,
            Shared::With(call) => &**call,
        }
    }
}

/// As it is written, with `...` for the expression.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}...{})", self.word(), self.rules().before(), self.rules().behind())
    }
}

/// Calls are the same if they are written the same.
impl PartialEq for Call {
    fn eq(&self, other: &Call) -> bool {
        let written = |call: &Call| (call.rules().before(), call.rules().behind());
        self.word() == other.word()
            && match (&self.0, &other.0) {
                (Shared::Plain(_), Shared::Plain(_)) => true,
                _ => written(self) == written(other),
            }
    }
}

impl Eq for Call {}

impl Hash for Call {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.word().hash(state);
        if let Shared::With(call) = &self.0 {
            (call.before(), call.behind()).hash(state);
        }
    }
}

/// Where a call stands in a bound definition.
pub(crate) struct CallNode<'a> {
    /// Metadata of the expression.
    pub argument: Meta,
    /// The node whose values the expression has.
    pub origin: &'a Kind,
    /// Whether other calls pass the origin's values on.
    pub passed_on: bool,
    /// The release whose rules hold.
    pub level: Level,
}

/// Evaluates one node of one operand, and keeps what that node remembers.
pub(crate) trait Evaluate: fmt::Debug + Send + Sync {
    /// Fills `out` from the operand's values. In it is anything, or what was after the evaluation before
    /// ([`FunctionCall::keeps_values`]).
    ///
    /// # Errors
    /// The error of the definition's value set.
    fn eval(&mut self, x: &Column, out: &mut Column, fetch: &mut Evaluation<'_>) -> Result<(), PmError>;

    /// The operand itself had an error, so there is nothing to evaluate ([`OnError::Remember`]).
    fn operand_failed(&mut self, _: PmError) {}

    /// Bytes held for values of earlier fetches, but for those of [`Evaluate::history`].
    fn history_bytes(&self) -> usize {
        0
    }

    /// Values of an earlier fetch, which others may hold as well.
    fn history(&self) -> Option<&Arc<Column>> {
        None
    }
}

/// What evaluators are given besides their operand's values.
pub(crate) struct Evaluation<'a> {
    pub time: Timestamp,
    pub source: &'a mut dyn MetricSource,
    /// The operand, for who keeps its values.
    pub operand: &'a Arc<Column>,
    /// Where columns go that nobody needs any more.
    pub pool: &'a mut Pool,
    pub finder: &'a mut Finder,
    pub ordering: &'a mut Ordering,
    /// Why the operand has no values. Only a function that recovers sees any.
    pub operand_error: Option<PmError>,
    /// Whether the operand's values stand for an error that it recovered from.
    pub operand_recovered: bool,
    /// To be set by an evaluator whose values stand for an error.
    pub recovered: bool,
}

/// Memory for functions that look at values in order; kept from fetch to fetch.
#[derive(Debug, Default)]
pub(crate) struct Ordering {
    pub places: Vec<u32>,
    pub doubles: Vec<f64>,
}

/// The type rule that most functions begin with.
pub(crate) fn numeric(x: Meta) -> Result<Meta, BrokenRule> {
    if x.is_numeric() { Ok(x) } else { Err("Non-arithmetic operand for function") }
}

#[cfg(test)]
pub(crate) mod testing {
    //! What the tests of functions share.

    use super::*;
    use crate::column::{Number, Values};
    use crate::source::NoMetrics;
    use pcp_model::Inst;

    /// A call's evaluator for an argument with this metadata.
    pub(crate) fn evaluator(call: &dyn FunctionCall, argument: Meta) -> Box<dyn Evaluate> {
        let node =
            CallNode { argument, origin: &Kind::Metric("x".into()), passed_on: false, level: Level::V638 };
        call.evaluator(&node).expect("does not pass its argument on")
    }

    /// One evaluation of an evaluator at a time.
    pub(crate) fn eval_at(
        evaluator: &mut dyn Evaluate,
        x: &Column,
        time: i64,
        out: &mut Column,
    ) -> Result<(), PmError> {
        eval_with(evaluator, x, time, &mut NoMetrics, out)
    }

    /// The same with a source of metadata.
    pub(crate) fn eval_with(
        evaluator: &mut dyn Evaluate,
        x: &Column,
        time: i64,
        source: &mut dyn MetricSource,
        out: &mut Column,
    ) -> Result<(), PmError> {
        let mut evaluation = Evaluation {
            time: Timestamp::new(time, 0),
            source,
            operand: &Arc::new(x.clone()),
            pool: &mut Pool::default(),
            finder: &mut Finder::default(),
            ordering: &mut Ordering::default(),
            operand_error: None,
            operand_recovered: false,
            recovered: false,
        };
        evaluator.eval(x, out, &mut evaluation)
    }

    /// Values of instances 1, 2, ... in, instances and values out, as doubles.
    pub(crate) fn check(call: &dyn FunctionCall, values: Values, expected: &[(Inst, f64)]) {
        let x = Column::of((1..).take(values.len()).collect(), values);
        let argument = Meta::scalar(x.values.value_type());
        let rules = Rules { level: Level::V638, extra_units: false, equivalent: &Default::default() };
        let mut out = Column::new(call.bind(argument, rules).expect("binds").value_type);
        eval_at(&mut *evaluator(call, argument), &x, 0, &mut out).expect("evaluates");
        let mut doubles = Vec::new();
        f64::convert(&out.values, &mut doubles);
        assert_eq!(out.ids.into_iter().zip(doubles).collect::<Vec<_>>(), expected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_word() {
        for function in FUNCTIONS {
            assert_eq!(Function::of(function.word, &Dialect::default()), Some(function));
            let strict = Function::of(function.word, &Dialect::strict(Level::V721));
            assert_eq!(strict.is_some(), function.availability != Availability::BeyondPcp);
        }
        assert_eq!(Function::of("novalue", &Dialect::strict(Level::V603)), None);
    }
}

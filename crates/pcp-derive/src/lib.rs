//! Derived metrics: the whole language of `pmRegisterDerived(3)`, as one engine.
//!
//! The data flow, and the files in its order:
//!
//! ```text
//! text --lexer, parser--> tree --registry--> definition (name, PMID, help)
//!                                               |
//!                        context: bind (types, units, instances of every node)
//!                                               |
//!       machine: instructions over columns, history  <-- values of a fetch
//!                                               |
//!                              answer: columns, errors, or the source's own
//! ```
//!
//! * A [`Registry`] holds the definitions of a process: parsed once, told apart by name and PMID.
//! * A [`DerivedContext`] is what one client sees: definitions are bound lazily against its [`MetricSource`], and
//!   evaluated with the values of its fetches ([`OperandValues`]); it keeps their history. Every fetch is
//!   answered by [`Answers`].
//! * `functions` has one file a function: word, arguments, type rule, evaluation, printing, tests; and the table of
//!   them. `nodes` has one file a family of operators.
//!
//! **Invariants:** no clock and no I/O; what happens in the world comes in through [`MetricSource`] and
//! [`OperandValues`]. No input makes it panic or exhaust the stack: trees are vectors in post-order, and every
//! pass is a loop.
//!
//! Cost: parsing and binding are linear in the text; a fetch costs one pass over the instances a node,
//! nodes that several definitions have in common are computed once, and nothing is allocated once
//! columns have been as long before.
//!
//! ```
//! use pcp_derive::{DerivedContext, Dialect, Registry};
//! # use pcp_derive::{Meta, MetricSource};
//! # use pcp_model::{InDom, Inst, PmError, Pmid, ValueType};
//! # struct Metrics;
//! # impl MetricSource for Metrics {
//! #     fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
//! #         if name == "disk.reads" { Ok(Pmid::new(1, 0, 0)) } else { Err(PmError::NAME) }
//! #     }
//! #     fn meta(&mut self, _: Pmid) -> Result<Meta, PmError> { Ok(Meta::scalar(ValueType::U64)) }
//! # }
//! # let mut metrics = Metrics;
//! let mut registry = Registry::new(Dialect::default());
//! let twice = registry.register("disk.twice", "2 * disk.reads")?;
//! let mut context = DerivedContext::new();
//! let meta = context.attach(&registry, &mut metrics).meta(twice)?;
//! assert_eq!(meta.value_type, ValueType::U64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod bind;
mod column;
mod config;
mod context;
mod debug;
mod diagnostic;
mod dialect;
mod equivalent;
mod explain;
mod functions;
mod lexer;
mod machine;
mod meta;
mod nodes;
mod parser;
mod pattern;
mod print;
mod registry;
mod report;
mod source;
mod syntax;
mod tree;

pub use answer::{Answer, Answers};
pub use bind::{Bound, BoundNode, Fact, MAX_NODES};
pub use column::{Column, Values};
pub use config::{ConfigProblem, ConfigProblemKind, Loaded, is_name};
pub use context::{AddError, Attached, DerivedContext};
pub use diagnostic::{BindError, BindErrorKind};
pub use dialect::{Dialect, Level, UnknownLevel};
pub use equivalent::EquivalentIndoms;
pub use explain::explain;
pub use functions::Call;
pub use functions::window::MAX_SAMPLES;
pub use meta::Meta;
pub use nodes::binary::{ScaleFactor, Scaling};
pub use nodes::ternary::Selection;
pub use parser::{MAX_DEPTH, MAX_LENGTH, parse};
pub use pattern::{Pattern, PatternError};
pub use registry::{DERIVED_DOMAIN, Definition, HelpKind, RegisterError, Registry, Scope};
pub use report::{describe, report_binding, report_refusal};
pub use source::{MetricSource, OperandValues};
pub use syntax::SyntaxError;
pub use tree::{BinaryOp, Constant, Kind, Node, NodeId, Span, Tags, Tree};

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

//! Derived metrics.
mod bind;
mod column;
mod config;
mod context;
mod diagnostic;
mod dialect;
mod equivalent;
mod lexer;
mod machine;
mod meta;
mod nodes;
mod parser;
mod pattern;
mod registry;
#[cfg(feature = "cli")]
pub mod replay;
mod source;
mod syntax;
mod tree;
pub use dialect::*;
pub use registry::Scope;

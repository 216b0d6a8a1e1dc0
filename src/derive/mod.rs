//! Derived metrics.
mod dialect;
pub use dialect::*;
mod lexer;
mod parser;
mod pattern;
#[cfg(feature = "cli")]
pub mod replay;
mod syntax;
mod tree;

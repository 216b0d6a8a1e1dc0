//! PCP's data model: identifiers, descriptors, values, labels, profiles and error codes.
//!
//! **Invariant:** nothing here knows bytes on a wire, files, sockets or clocks. Every other part of
//! the crate speaks in these types.
//!
//! # Features
//!
//! | feature | by default | brings |
//! | --- | --- | --- |
//! | `time` | no | the module `time`: intervals, instants, windows and time zones as PCP's tools take them, with `jiff` |
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod c_number;
mod desc;
mod desc_check;
mod error;
mod ident;
mod label;
mod level;
mod number;
mod number_convert;
mod number_parse;
mod numbers;
pub mod pmns;
mod print;
mod profile;
pub mod text;
#[cfg(feature = "time")]
pub mod time;
mod timestamp;
mod units;
mod units_convert;
mod units_extra;
mod units_parse;
mod value;

pub use desc::{Desc, Semantics, ValueType};
pub use error::{ErrorAt, PmError};
pub use ident::{InDom, Inst, PM_IN_NULL, ParseIdentError, Pmid};
pub use label::{Label, LabelFlags, LabelKind, LabelSet};
pub use level::{Level, UnknownLevel};
pub use number::Number;
pub use numbers::{Numbers, NumbersMut};
pub use print::{PrintOptions, UntypedValue, number_text};
pub use profile::{IndomProfile, Profile, ProfileState, ProfileView};
pub use timestamp::Timestamp;
pub use units::Units;
pub use units_convert::Conversion;
pub use units_extra::{ExtraUnit, WithExtra};
pub use units_parse::{UnitsParseError, UnitsVocabulary};
pub use value::{FetchResult, Instance, InstanceValue, Value, ValueSet};

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

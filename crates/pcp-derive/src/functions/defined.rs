//! `defined(metric)`: 1 if there is such a metric, else 0; known when the definition is bound (
//! `docs/pcp/derived-language.md` 8.11).

use super::{Availability, Function};
use crate::tree::Kind;

pub(super) static DEFINED: Function = Function {
    word: "defined",
    availability: Availability::Always,
    takes_pattern: false,
    parse: |parser, function| {
        // PCP has no words for what it expects here.
        parser.open_call(function, None);
        let (name, _) = parser.metric_name()?;
        Ok(Some(parser.whole_call(Kind::Defined(name.into()))))
    },
    behind: None,
};

//! What the core is told of names.

use std::sync::Arc;

use super::sent::SentName;
use crate::gate::Gate;
use pcp_model::{Inst, Pmid, ValueType};

/// A name the core has to know before the first delivery that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// An instance of the sources' instance domain.
    Source {
        /// Instance id.
        id: Inst,
        /// Instance name.
        name: String,
        /// What it lets through.
        gate: Arc<Gate>,
    },
    /// An instance of the (source, event type) instance domain. Told again if only its event type was not known before.
    EventType {
        /// Instance id.
        id: Inst,
        /// The source's instance id.
        source: Inst,
        /// Instance name, `source/word`.
        name: String,
        /// The event type as it was sent.
        event_type: String,
    },
    /// An instance of the spans' instance domain.
    Span {
        /// Instance id.
        id: Inst,
        /// The source's instance id.
        source: Inst,
        /// Instance name, `source/word`.
        name: String,
        /// The span's name as it was sent.
        span: SentName,
    },
    /// A source has given its place to a newcomer: neither its instance nor its name means anything any more. Its event
    /// types and spans have gone before.
    SourceGone {
        /// Instance id, which nobody gets again.
        id: Inst,
    },
    /// The same of an event type.
    EventTypeGone {
        /// Instance id.
        id: Inst,
    },
    /// The same of a span.
    SpanGone {
        /// Instance id.
        id: Inst,
    },
    /// A metric below `jumpseat.field`.
    Field {
        /// The metric.
        pmid: Pmid,
        /// The last component of the metric's name.
        leaf: String,
        /// The field's name as events carry it.
        field: String,
        /// Type of its values.
        value_type: ValueType,
    },
}

//! Where operands come from: what the engine asks of its surroundings.

use super::column::Column;
use super::meta::Meta;
use pcp_model::{InDom, Inst, PmError, Pmid};

/// Metadata of the metrics that definitions may name. Derived metrics are none of its business. Instances are
/// only asked for where there are values: a source of metadata alone leaves them to the defaults, which know no
/// instance domain.
pub trait MetricSource {
    /// The PMID of a real metric.
    ///
    /// # Errors
    /// When there is no such metric, or the source cannot say.
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError>;

    /// The metadata of a metric (a [`Desc`](pcp_model::Desc) converts into it).
    ///
    /// # Errors
    /// Why there is none.
    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError>;

    /// These names, and the metadata of the metrics that have them, are about to be asked about: a source that is far away
    /// may ask for all of them at once.
    fn expect(&mut self, names: &[&str]) {
        let _ = names;
    }

    /// The instance of a name (`pmLookupInDom(3)`).
    ///
    /// # Errors
    /// When there is no such instance at this time.
    fn instance(&mut self, indom: InDom, name: &str) -> Result<Inst, PmError> {
        let _ = (indom, name);
        Err(PmError::INDOM)
    }

    /// Calls `found` with the name of an instance (`pmNameInDom(3)`).
    ///
    /// # Errors
    /// When there is no such instance at this time.
    fn instance_name(
        &mut self,
        indom: InDom,
        inst: Inst,
        found: &mut dyn FnMut(&str),
    ) -> Result<(), PmError> {
        let _ = (indom, inst, found);
        Err(PmError::INDOM)
    }

    /// Appends the instances that the profile lets through to `out` (`pmGetInDom(3)`).
    ///
    /// # Errors
    /// Why they cannot be had.
    fn instances(&mut self, indom: InDom, out: &mut Vec<Inst>) -> Result<(), PmError> {
        let _ = (indom, out);
        Err(PmError::INDOM)
    }
}

/// The values of one fetch.
pub trait OperandValues {
    /// Puts the values of an operand into `column`, which is empty and of the operand's type.
    ///
    /// # Errors
    /// The value set's error code.
    fn operand(&mut self, pmid: Pmid, column: &mut Column) -> Result<(), PmError>;

    /// The error that the source itself answers for a metric which was asked for, if it was asked and that is an
    /// error. The default is for sources that are never asked for derived metrics.
    fn own_error(&self, pmid: Pmid) -> Option<PmError> {
        let _ = pmid;
        None
    }
}

/// A source that has no metrics.
#[cfg(test)]
pub(super) struct NoMetrics;

#[cfg(test)]
impl MetricSource for NoMetrics {
    fn pmid(&mut self, _: &str) -> Result<Pmid, PmError> {
        Err(PmError::NAME)
    }

    fn meta(&mut self, _: Pmid) -> Result<Meta, PmError> {
        Err(PmError::PMID)
    }
}

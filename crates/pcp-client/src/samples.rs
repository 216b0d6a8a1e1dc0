//! Reading an archive to its end: what there is, one after the other, and then nothing more.
//!
//! The end is no error here. What is one, a record that cannot be read, is told in its place and is the last that comes.

use super::context::Context;
use super::error::{ClientError, Result};
use super::provider::Mode;
use pcp_model::{PmError, Pmid, Timestamp};
use pcp_pdu::Fetched;

/// # Reading to the end
///
/// From where the context is, in the direction of its mode ([`Context::set_mode`]). After the end of an archive that is still
/// written, [`Context::refresh`] and read on.
impl Context {
    /// Fetches the next sample of metrics from an archive; false at its end, where `out` is empty. As
    /// [`Context::samples`], for who wants to reuse one result.
    ///
    /// # Errors
    /// `PM_ERR_NOTARCHIVE` of a source that lives; `PM_ERR_MODE` for a step of no length; those of reading.
    pub fn fetch_next(&mut self, pmids: &[Pmid], out: &mut Fetched) -> Result<bool> {
        out.clear();
        to_next(self, |context| context, |context| context.fetch(pmids, out))
    }

    /// All samples of metrics of an archive: records that have any of them, or interpolated values at the steps of the
    /// mode. Each has a set of values for each metric, in the order asked for.
    ///
    /// Errors are those of [`Context::fetch_next`]. An error is the last item.
    ///
    /// ```no_run
    /// use pcp_client::Context;
    ///
    /// let mut context = Context::archive("/var/log/pcp/pmlogger/host/20261120")?;
    /// let load = context.pmid("kernel.all.load")?;
    /// for sample in context.samples(&[load]) {
    ///     let sample = sample?;
    ///     println!("{} {:?}", sample.timestamp, sample.set(0));
    /// }
    /// # Ok::<(), pcp_client::ClientError>(())
    /// ```
    pub fn samples(&mut self, pmids: &[Pmid]) -> impl Iterator<Item = Result<Fetched>> {
        let pmids = pmids.to_vec();
        to_end(move || {
            let mut out = Fetched::new();
            Ok(self.fetch_next(&pmids, &mut out)?.then_some(out))
        })
    }

    /// All records of an archive, each with all that is in it, without derived metrics; an empty one where recording was
    /// interrupted.
    ///
    /// Errors are those of [`Context::fetch_record`]. An error is the last item.
    pub fn records(&mut self) -> impl Iterator<Item = Result<Fetched>> {
        to_end(move || {
            let mut out = Fetched::new();
            Ok(unless_end(self.fetch_record(&mut out))?.map(|()| out))
        })
    }

    /// Whether there is an end to be read to.
    fn has_end(&self) -> Result<()> {
        match self.mode().0 {
            Mode::Live => Err(PmError::NOTARCHIVE.into()),
            Mode::Interpolate { step: 0 } => Err(PmError::MODE.into()),
            _ => Ok(()),
        }
    }

    /// Goes to the first step within the archive, if the sample that was just asked for was in front of it: not one by one.
    fn enter(&mut self) -> Result<bool> {
        let (Mode::Interpolate { step }, next) = self.mode() else { return Ok(false) };
        let (start, end) = self.span()?;
        let step = i128::from(step);
        let asked = next.as_nanos() - step;
        let edge = if step > 0 { start } else { end }.as_nanos();
        // How far it is to the edge in the direction of the steps.
        let distance = (edge - asked) * step.signum();
        if distance <= 0 {
            return Ok(false);
        }
        let first = Timestamp::from_nanos(asked + div_up(distance, step.abs()) * step);
        let inside = (start..=end).contains(&first);
        if inside {
            self.set_mode(self.mode().0, Some(first))?;
        }
        Ok(inside)
    }
}

/// Fetches by `fetch`, of whom `context` is the context, what is next; false at the end.
pub(super) fn to_next<S, T>(
    source: &mut S,
    context: impl Fn(&mut S) -> &mut Context,
    mut fetch: impl FnMut(&mut S) -> Result<T>,
) -> Result<bool> {
    context(source).has_end()?;
    if unless_end(fetch(source))?.is_some() {
        return Ok(true);
    }
    // Outside of the archive on the side that one comes from is before its start, and not its end.
    Ok(context(source).enter()? && unless_end(fetch(source))?.is_some())
}

/// What `next` gives until it gives nothing more or fails.
pub(super) fn to_end<T>(mut next: impl FnMut() -> Result<Option<T>>) -> impl Iterator<Item = Result<T>> {
    let mut over = false;
    std::iter::from_fn(move || {
        if over {
            return None;
        }
        let item = next().transpose();
        over = !matches!(item, Some(Ok(_)));
        item
    })
}

/// `None` for `PM_ERR_EOL`.
fn unless_end<T>(fetched: Result<T>) -> Result<Option<T>> {
    match fetched {
        Ok(fetched) => Ok(Some(fetched)),
        Err(ClientError::Pcp(PmError::EOL)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn div_up(distance: i128, step: i128) -> i128 {
    (distance + step - 1) / step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_the_last_item() {
        let mut left = vec![Ok(Some(1)), Err(PmError::LOGREC.into()), Ok(Some(3))].into_iter();
        let items = to_end(|| left.next().unwrap_or(Ok(None))).map(|item| item.map_err(|error| error.code()));
        assert_eq!(items.collect::<Vec<_>>(), [Ok(1), Err(PmError::LOGREC)]);
        assert_eq!(to_end(|| Ok(None::<u32>)).count(), 0);
    }
}

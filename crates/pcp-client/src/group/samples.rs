//! Fetching an archive to its end.

use super::fetch_group::FetchGroup;
use crate::error::ClientError;
use crate::samples::{to_end, to_next};

/// # Reading an archive to its end
///
/// The same as for a context ([`Context::samples`](crate::Context::samples)): the end is no error, and what cannot be read
/// is one.
impl FetchGroup {
    /// Fetches the next sample of an archive; false at its end, where outputs are `PM_ERR_VALUE`.
    ///
    /// # Errors
    /// As [`FetchGroup::fetch`], and `PM_ERR_NOTARCHIVE` of a source that lives.
    pub fn fetch_next(&mut self) -> Result<bool, ClientError> {
        to_next(self, |group| &mut group.context, FetchGroup::fetch)
    }

    /// What `read` takes out of each sample of an archive. An error is the last item.
    ///
    /// ```no_run
    /// use pcp_client::Context;
    /// use pcp_client::group::{FetchGroup, Scale};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut group = FetchGroup::new(Context::archive("/var/log/pcp/pmlogger/host/20261120")?);
    /// let load = group.item::<f32>("kernel.all.load", Some("1 minute"), Scale::None)?;
    /// let mut most = 0.0_f32;
    /// for sample in group.samples(|group| group.value(load).ok()) {
    ///     most = most.max(sample?.unwrap_or(0.0));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn samples<T>(
        &mut self,
        mut read: impl FnMut(&FetchGroup) -> T,
    ) -> impl Iterator<Item = Result<T, ClientError>> {
        to_end(move || Ok(if self.fetch_next()? { Some(read(self)) } else { None }))
    }
}

//! What an archive's label says about the source.

use crate::provider::answer;
use crate::{ClientError, Context, ContextKind, Fetched, without_password};
use pcp_archive::LabelInfo;
use pcp_model::PmError;

/// The label of an archive of this context's metrics, recorded by this process. `host` is for sources that do
/// not tell their name; a password in it is left out.
///
/// # Errors
/// Those of the source as a whole.
pub fn label_of(context: &mut Context, host: &str) -> Result<LabelInfo, ClientError> {
    let host = answer(context.host_name())?.unwrap_or_else(|_| without_password(host).into_owned());
    let zone = match context.kind() {
        ContextKind::Archive => Some(context.time_zone()?),
        _ => text(context, "pmcd.timezone")?,
    };
    let zone = zone.unwrap_or_else(|| "UTC".to_owned());
    let zone_info = text(context, "pmcd.zoneinfo")?.unwrap_or_default();
    Ok(LabelInfo { host, zone, zone_info, pid: std::process::id().cast_signed() })
}

/// The text of a metric of the collector's own, if it has it.
fn text(context: &mut Context, name: &str) -> Result<Option<String>, ClientError> {
    let Ok(pmid) = answer(context.pmid(name))? else { return Ok(None) };
    let mut fetched = Fetched::new();
    if answer(context.fetch(&[pmid], &mut fetched))?.is_err() {
        return Ok(None);
    }
    let value = fetched.set(0).and_then(|set| set.values.ok()?.get(0)).ok_or(PmError::VALUE);
    let text = value.and_then(|(_, value)| value.text());
    Ok(text.ok().map(|text| String::from_utf8_lossy(text).into_owned()).filter(|text| !text.is_empty()))
}

//! What an archive's label says about the source.

use crate::provider::answer;
use crate::{ClientError, Context, ContextKind, Fetched, without_password};
use pcp_archive::LabelInfo;
use pcp_model::Pmid;

/// The label of an archive of this context's metrics, recorded by this process. `host` is for sources that do
/// not tell their name; a password in it is left out.
///
/// # Errors
/// Those of the source as a whole.
pub fn label_of(context: &mut Context, host: &str) -> Result<LabelInfo, ClientError> {
    let host = answer(context.host_name())?.unwrap_or_else(|_| without_password(host).into_owned());
    let [zone, zone_info] = texts(context, ["pmcd.timezone", "pmcd.zoneinfo"])?;
    let zone = match context.kind() {
        ContextKind::Archive => Some(context.time_zone()?),
        _ => zone,
    };
    let zone = zone.unwrap_or_else(|| "UTC".to_owned());
    let zone_info = zone_info.unwrap_or_default();
    Ok(LabelInfo { host, zone, zone_info, pid: std::process::id().cast_signed() })
}

/// The texts of metrics of the collector's own, as far as it has them.
fn texts<const N: usize>(
    context: &mut Context,
    names: [&str; N],
) -> Result<[Option<String>; N], ClientError> {
    let mut texts = [const { None }; N];
    let pmids = context.lookup_each(&names)?;
    let known: Vec<Pmid> = pmids.iter().flatten().copied().collect();
    if known.is_empty() {
        return Ok(texts);
    }
    let (mode, origin) = context.mode();
    let mut fetched = Fetched::new();
    let answered = answer(context.fetch(&known, &mut fetched))?;
    // An archive is left where it was: what is recorded begins there.
    context.set_mode(mode, Some(origin))?;
    if answered.is_err() {
        return Ok(texts);
    }
    let places = texts.iter_mut().zip(pmids).filter_map(|(text, pmid)| pmid.is_ok().then_some(text));
    for (text, set) in places.zip(fetched.sets()) {
        let value = set.values.ok().and_then(|values| values.get(0)?.1.text().ok());
        *text = value.map(|text| String::from_utf8_lossy(text).into_owned()).filter(|text| !text.is_empty());
    }
    Ok(texts)
}

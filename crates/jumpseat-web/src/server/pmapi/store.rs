//! `/pmapi/store`: changes values of a metric, where `--allow-store` lets clients.
//!
//! A page of another site can make a browser send any GET (`<img>`), and over plain HTTP the browser says neither `Origin` nor
//! `Sec-Fetch-Site`, by which the gate would know: what may be such a GET is refused. With POST browsers say the origin.

use std::collections::HashSet;

use http::{HeaderMap, StatusCode, Uri, header};
use pcp_model::{Desc, InDom, Inst, InstanceValue, PM_IN_NULL, PmError, Pmid, Value, ValueSet, ValueType};

use super::call::{Call, Deadline, Output, coded};
use super::choice::{Choice, Names};
use super::indom::{identifier, instances};
use super::session::Session;
use crate::server::answer::Refusal;

pub(super) fn store(call: &Call, session: &mut Session, number: u32, may: bool) -> Result<Output, Refusal> {
    let (name, pmid, desc) = metric(call, session)?;
    let failed = |code: PmError| coded(&format!("failed to store value to metric {name}: "), code);
    if !may {
        return Err(Refusal { status: StatusCode::FORBIDDEN, ..failed(PmError::PERMISSION) });
    }
    let text = call.query.get("value").unwrap_or(&call.body);
    let value = match desc.value_type {
        ValueType::String => Value::parse(text, desc.value_type),
        _ if text.trim().is_empty() => Err(PmError::TYPE),
        _ => Value::parse(text, desc.value_type),
    };
    let value = value.map_err(failed)?;
    let chosen = chosen(call, session, &desc)?;
    if chosen.is_empty() {
        return Err(failed(PmError::INST));
    }
    let values = chosen.into_iter().map(|inst| InstanceValue { inst, value: value.clone() });
    let set = ValueSet { pmid, values: Ok(values.collect()) };
    // Some agents keep what was stored for each client.
    session.keep_connection()?;
    session.context.store(&[set]).map_err(|error| failed(error.code()))?;
    Output::success(number)
}

/// Whether a GET is none that a page of another site may have made a browser send.
///
/// # Errors
/// It may be: status 403.
pub(super) fn expect_no_foreign_page(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    // The gate has seen that this one may.
    if headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    let host = uri.authority().map(|host| host.as_str().as_bytes());
    let host = host.or_else(|| headers.get(header::HOST).map(|host| host.as_bytes()));
    let is_own = |referer: &http::HeaderValue| {
        let referer = Uri::try_from(referer.as_bytes()).ok();
        let of = referer.as_ref().and_then(Uri::authority).map(|of| of.as_str().as_bytes());
        of.zip(host).is_some_and(|(of, host)| of.eq_ignore_ascii_case(host))
    };
    let is_browser =
        headers.get_all(header::USER_AGENT).iter().any(|agent| agent.as_bytes().starts_with(b"Mozilla/"));
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    let says_own = matches!(site, Some(b"same-origin" | b"none"));
    if headers.get_all(header::REFERER).iter().all(is_own) && (says_own || !is_browser) {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::FORBIDDEN,
        "a page of another site may have made the browser ask for this: store with POST",
    ))
}

/// The metric, and what errors call it.
fn metric(call: &Call, session: &mut Session) -> Result<(String, Pmid, Desc), Refusal> {
    if let Some(name) = call.query.get("name") {
        let found = session.metrics(&[name], Deadline::new())?.into_iter().next().flatten();
        let (pmid, desc) = found.ok_or_else(|| Refusal::bad(format!("{name} - failed to lookup metric")))?;
        return Ok((name.to_owned(), pmid, desc));
    }
    let text = call.query.get("pmid").unwrap_or_default();
    let pmid = text.parse().ok().or_else(|| identifier(text).map(Pmid));
    let desc = match pmid {
        Some(pmid) => {
            session.descs(&[pmid])?.into_iter().next().and_then(Result::ok).map(|desc| (pmid, desc))
        }
        None => None,
    };
    let (pmid, desc) = desc.ok_or_else(|| Refusal::bad(format!("{text} - failed to lookup PMID")))?;
    Ok((text.to_owned(), pmid, desc))
}

/// The instances that are named, if they are there; of a metric without instances the one.
fn chosen(call: &Call, session: &mut Session, desc: &Desc) -> Result<Vec<Inst>, Refusal> {
    let choice = Choice::read(&call.query)?;
    if desc.indom == InDom::NULL {
        return Ok(vec![PM_IN_NULL]);
    }
    if matches!(choice, Choice::All) {
        return Ok(Vec::new());
    }
    let all = instances(session, desc.indom)?;
    // Better none than some of those that were named.
    let is_there = |name: &String| all.iter().any(|instance| instance.name == *name);
    let is_complete = match &choice {
        Choice::Names(Names::Exact(names)) => names.iter().all(is_there),
        Choice::Numbers(numbers) => {
            let known: HashSet<Inst> = all.iter().map(|instance| instance.id).collect();
            numbers.is_subset(&known)
        }
        _ => true,
    };
    if !is_complete {
        return Ok(Vec::new());
    }
    Ok(all.iter().filter(|instance| choice.has(instance)).map(|instance| instance.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_others_store_nothing_by_get() {
        let asked = |headers: &[(&'static str, &'static str)]| {
            let mut all = HeaderMap::new();
            for (name, value) in [("host", "web1:44322")].iter().chain(headers) {
                all.append(*name, http::HeaderValue::from_static(value));
            }
            let uri = Uri::from_static("/pmapi/store?name=a&value=1");
            expect_no_foreign_page(&uri, &all).map_err(|refusal| refusal.status.as_u16())
        };
        let firefox =
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0");
        assert_eq!(asked(&[]), Ok(()));
        assert_eq!(asked(&[("user-agent", "curl/8.5.0")]), Ok(()));
        assert_eq!(asked(&[("referer", "http://WEB1:44322/x")]), Ok(()));
        assert_eq!(asked(&[firefox, ("sec-fetch-site", "same-origin")]), Ok(()));
        assert_eq!(asked(&[firefox, ("sec-fetch-site", "none")]), Ok(()));
        // The gate has looked at it.
        assert_eq!(asked(&[firefox, ("origin", "http://grafana"), ("referer", "http://grafana/")]), Ok(()));
        for foreign in
            ["http://web1/", "http://evil.example:44322/", "http://web1:44322@evil/", "/", "%%", ""]
        {
            assert_eq!(asked(&[("referer", foreign)]), Err(403), "{foreign}");
        }
        assert_eq!(asked(&[firefox]), Err(403));
        assert_eq!(asked(&[firefox, ("referer", "http://web1:44322/")]), Err(403));
        assert_eq!(asked(&[firefox, ("sec-fetch-site", "cross-site")]), Err(403));
    }
}

//! What fuzz targets reach: everything that is read of a request before a context is looked at.

use http::{HeaderMap, HeaderValue, header};

use super::call::Call;
use super::choice::{Choice, Names};
use super::moment::Place;
use super::target::Target;
use crate::server::query::Query;
use crate::server::sources::{Sources, place};

/// Reads a request: path, parameters, a body, what is accepted. Whether all of it is good.
pub fn web_query(path: &str, parameters: &str, body: &str, accept: &str) -> bool {
    let Some(target) = Target::parse(path) else { return false };
    let Ok(query) = Query::parse(parameters) else { return false };
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(accept) {
        headers.insert(header::ACCEPT, value);
    }
    let posted = (!body.is_empty()).then(|| body.to_owned());
    if let (Ok(choice), Some(name)) = (Choice::read(&query), query.get("iname")) {
        let instance = pcp_model::Instance { id: 1, name: name.to_owned() };
        choice.has(&instance);
    }
    if let (Some(list), Some(name)) = (query.get("filter"), query.get("names"))
        && let Ok(names) = Names::globs(list, &query)
    {
        names.has(name);
    }
    let has_place = Place::read(&query).is_ok();
    let has_time = query.get("time").is_none_or(super::moment::is_time);
    let host = query.first(&["hostspec", "hostname"]);
    let has_host = Sources::new(&[], true, true).is_ok_and(|any| match any.allowed(host) {
        Ok(spec) => place(&place(&spec.place)) == place(&spec.place),
        Err(_) => host.is_none(),
    });
    let has_timeout = super::contexts::poll_timeout(query.get("polltimeout")).is_ok();
    let call = Call::new(target, query, posted, &headers, None, None);
    has_place && has_time && has_host && has_timeout && call.is_ok_and(|call| call.check().is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn good_requests_are_good() {
        assert!(web_query("/pmapi/fetch", "names=a.b,c&events=true", "", "*/*"));
        assert!(web_query("/metrics", "filter=*x&time=10min", "", "application/openmetrics-text"));
        assert!(web_query("/pmapi/context", "hostspec=pcp://WEB1.:44321&polltimeout=10", "", ""));
        assert!(!web_query("/pmapi/context", "hostspec=::::", "", ""));
        assert!(!web_query("/pmapi/context", "polltimeout=x", "", ""));
        assert!(!web_query("/pmapi/fetch", "name%zz", "", ""));
        assert!(!web_query("/pmapi/indom", "name=a&iname=(&match=regex", "", ""));
    }

    proptest! {
        #[test]
        fn any_request_is_good_or_refused(
            command in "(context|fetch|indom|profile|derive|store|metrics|children)",
            parameters in "((names?|iname|match|instance|filter|time|start|mode|interval|expr|polltimeout|hostspec|context)=\\PC{0,40}&){0,4}",
            body in "\\PC{0,20}",
            accept in "\\PC{0,40}",
        ) {
            web_query(&format!("/pmapi/{command}"), &parameters, &body, &accept);
            let escaped: String = parameters.bytes().map(|byte| if byte.is_ascii() { char::from(byte).to_string() } else { format!("%{byte:02x}") }).collect();
            web_query(&format!("/pmapi/7/_{command}"), &escaped, &body, &accept);
        }
    }
}

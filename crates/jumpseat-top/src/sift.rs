//! Which records are shown: those that have a text in them, and pass a filter of the agent's own language.

use std::sync::Arc;

use pcp_event::filter::{FieldResolver, Filter};
use pcp_model::Pmid;

use super::events::Shown;
use super::sample::EventRecord;

/// What is behind the names of fields that were seen with several types.
const TYPES: [&str; 8] = ["_i32", "_u32", "_i64", "_u64", "_float", "_double", "_string", "_text"];

/// What a record has to have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sift {
    /// In small letters.
    text: String,
    filter: Option<Arc<Filter>>,
}

impl Sift {
    /// Records with this text in one of their fields, type and source included, that pass a filter.
    ///
    /// # Errors
    /// Why the filter is none, and where.
    pub(crate) fn new(text: &str, filter: &str) -> Result<Sift, String> {
        let filter = Filter::parse(filter).map_err(|error| error.to_string())?.map(Arc::new);
        Ok(Sift { text: text.to_lowercase(), filter })
    }

    /// Whether all records pass.
    pub(crate) fn is_open(&self) -> bool {
        self.text.is_empty() && self.filter.is_none()
    }

    /// Whether a record is shown.
    pub(crate) fn passes(&self, shown: &Shown) -> bool {
        let found = |text: &str| text.to_lowercase().contains(&self.text);
        let record = &shown.record;
        let named = self.text.is_empty()
            || found(&shown.stream)
            || record.params.iter().any(|(name, value)| found(value) || found(&format!("{name}={value}")));
        let passed = |filter: &Arc<Filter>| filter.bind(&Fields(record)).matches(&record.packed);
        named && self.filter.as_ref().is_none_or(passed)
    }
}

/// The fields of one record: a packed record has them by their place in it.
struct Fields<'a>(&'a EventRecord);

impl FieldResolver for Fields<'_> {
    fn generation(&self) -> u64 {
        0
    }

    fn resolve(&self, name: &str, found: &mut dyn FnMut(Pmid)) {
        let is = |param: &str| {
            param.strip_prefix(name).is_some_and(|rest| rest.is_empty() || TYPES.contains(&rest))
        };
        for (at, _) in (0..).zip(&self.0.params).filter(|(_, (param, _))| is(param)) {
            found(Pmid(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteorder::BigEndian;
    use pcp_event::pack::{ArrayKind, EventFlags, Param, put_param, put_record};
    use pcp_model::Timestamp;

    fn shown() -> Shown {
        let mut packed = Vec::new();
        put_record::<BigEndian>(&mut packed, ArrayKind::HighRes, Timestamp::default(), EventFlags::START, 2);
        put_param::<BigEndian>(&mut packed, Pmid(0), &Param::String(b"http.request"));
        put_param::<BigEndian>(&mut packed, Pmid(1), &Param::I64(503));
        let params =
            vec![("type".into(), "http.request".to_owned()), ("status_i64".into(), "503".to_owned())];
        let record = EventRecord {
            time: Timestamp::default(),
            flags: EventFlags::START,
            missed: None,
            params,
            packed: packed.into(),
        };
        Shown::new("web".into(), record)
    }

    #[test]
    fn texts_and_filters_choose_records() {
        let passes = |text: &str, filter: &str| Sift::new(text, filter).unwrap().passes(&shown());
        assert!(passes("", "") && passes("HTTP", "") && passes("web", "") && !passes("orders", ""));
        assert!(passes("", "status >= 500 && type =~ '^http' && start"));
        assert!(!passes("", "status < 500") && !passes("", "end") && !passes("x", "start"));
        assert!(Sift::new("", "status >").unwrap_err().contains("column"));
    }
}

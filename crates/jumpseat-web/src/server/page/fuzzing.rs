//! What fuzz targets reach: everything that is read of a question of the page before a source is looked at.

use super::look::{duration, nanos, text, whole};
use super::samples::{exprs, window};
use super::sift::Sift;
use super::source::Source;
use crate::server::query::Query;
use crate::server::records::record::Record;

/// Reads the parameters of a question, and asks its filter about a record. Whether all of them are good.
pub fn page_query(parameters: &str, message: &str) -> bool {
    let Ok(query) = Query::parse(parameters) else { return false };
    let mut is_good = Source::parse(query.get("source")).is_ok();
    is_good &= exprs(query.get("expr").unwrap_or("a")).is_ok();
    match window(&query, -300.0) {
        Ok(window) => {
            let window = window.absolute(1.7e9);
            let _ = (nanos(window.start), nanos(window.finish));
        }
        Err(_) => is_good = false,
    }
    is_good &= ["before", "since"].iter().all(|name| whole::<i64>(&query, name).is_ok());
    is_good &= ["skip", "limit"].iter().all(|name| whole::<usize>(&query, name).is_ok());
    is_good &= ["min", "max"].iter().all(|name| duration(&query, name).is_ok());
    is_good &= ["service", "name", "id"].iter().all(|name| text(&query, name).is_ok());
    let (Ok(filter), Ok(text)) = (text(&query, "filter"), text(&query, "text")) else { return false };
    match Sift::new(filter.as_deref(), text.as_deref()) {
        Ok(mut sift) => {
            sift.passes(&Record::of_message(message));
        }
        Err(_) => is_good = false,
    }
    is_good
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn good_questions_are_good() {
        assert!(page_query("source=host:local:&expr=a%0arate(b)&start=-60&points=100", ""));
        assert!(page_query("source=archive:/a&filter=status%3D%3D503&text=y&limit=10&min=200ms", "xy"));
        assert!(!page_query("source=web1", ""));
        assert!(!page_query("source=host:a&start=1e300", ""));
        assert!(!page_query("source=host:a&filter=((", ""));
        assert!(!page_query("source=host:a&max=-1", ""));
    }

    proptest! {
        #[test]
        fn any_question_is_good_or_refused(
            parameters in "((source|expr|start|finish|points|before|since|skip|limit|min|max|service|name|id|filter|text)=\\PC{0,40}&){0,5}",
            message in "\\PC{0,20}",
        ) {
            page_query(&parameters, &message);
            let escaped: String = parameters.bytes().map(|byte| if byte.is_ascii() { char::from(byte).to_string() } else { format!("%{byte:02x}") }).collect();
            page_query(&escaped, &message);
        }
    }
}

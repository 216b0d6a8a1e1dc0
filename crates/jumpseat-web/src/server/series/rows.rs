//! Values as the text of an answer.
//!
//! ```text
//! [{"series":"ID","instance":"ID","timestamp":MS.US,"value":"TEXT"},...]      within {"client":"...","result":...} if it has a name
//! ```
//!
//! **Cost:** written by hand into memory that is taken once, as rows are most of the work of a panel's query: no allocation for a row, and
//! of a time that several rows have one text.

use std::io::Write as _;

use super::engine::ShownSeries;
use super::values::{Datum, Of, Point};

/// About how long a row is.
const ROW: usize = 176;
const BEFORE_INSTANCE: &[u8] = b",\"instance\":\"";

/// The line that is answered.
pub(super) fn text(client: Option<&str>, series: &[ShownSeries]) -> Vec<u8> {
    let count: usize = series.iter().map(|shown| shown.values.len()).sum();
    let mut text = Vec::with_capacity(64 + client.map_or(0, str::len) + ROW * count);
    if let Some(client) = client {
        text.extend_from_slice(b"{\"client\":");
        string(client, &mut text);
        text.extend_from_slice(b",\"result\":");
    }
    text.push(b'[');
    let mut rows = Rows { text, time: (None, Vec::new()), is_first: true };
    for shown in series {
        for point in shown.values.samples.iter().flat_map(|sample| &sample.points) {
            rows.push(shown, point);
        }
    }
    let mut text = rows.text;
    text.push(b']');
    if client.is_some() {
        text.push(b'}');
    }
    text.extend_from_slice(b"\r\n");
    text
}

struct Rows {
    text: Vec<u8>,
    /// The last time, and how it is written.
    time: (Option<i64>, Vec<u8>),
    is_first: bool,
}

impl Rows {
    fn push(&mut self, shown: &ShownSeries, point: &Point) {
        let Rows { text, time: (last, time), is_first } = self;
        text.extend_from_slice(if *is_first { b"{\"series\":\"" } else { b",{\"series\":\"" });
        *is_first = false;
        text.extend_from_slice(&shown.series.digits());
        text.push(b'"');
        match point.of {
            Of::Metric if shown.by_metric => {
                text.extend_from_slice(BEFORE_INSTANCE);
                text.extend_from_slice(&shown.values.id.digits());
                text.push(b'"');
            }
            Of::Metric => {}
            Of::Instance(place) => match shown.values.instances.get(place as usize) {
                Some(instance) => {
                    text.extend_from_slice(BEFORE_INSTANCE);
                    text.extend_from_slice(&instance.digits());
                    text.push(b'"');
                }
                None => text.extend_from_slice(b",\"instance\":null"),
            },
            Of::Together => text.extend_from_slice(b",\"instance\":\"\""),
        }
        if *last != Some(point.time) {
            *last = Some(point.time);
            time.clear();
            let (millis, micros) = (point.time.div_euclid(1000), point.time.rem_euclid(1000));
            // Writing to memory does not fail.
            let _ = write!(time, ",\"timestamp\":{millis}.{micros:03},\"value\":");
        }
        text.extend_from_slice(time);
        if let Datum::Text(datum) = &point.datum {
            string(datum, text);
        } else {
            // Digits, signs, points, letters: nothing of it is another thing in JSON.
            text.push(b'"');
            point.datum.print(text);
            text.push(b'"');
        }
        text.push(b'}');
    }
}

/// Appends a JSON string.
fn string(of: &str, text: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(text, of);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pcp_model::{Desc, InDom, Number, Pmid, Semantics, Units, ValueType};

    use super::super::values::{Sample, Values};
    use super::*;
    use crate::server::identity::Id;

    fn shown(points: Vec<Point>, by_metric: bool) -> ShownSeries {
        let desc = Desc {
            pmid: Pmid::NULL,
            value_type: ValueType::Double,
            indom: InDom::NULL,
            semantics: Semantics::Instant,
            units: Units::NONE,
        };
        let instances: Arc<[Id]> = [Id::expression("i")].into();
        let (id, source, name) = (Id::expression("m"), Id::ZERO, "m".to_owned());
        let values = Values { id, source, name, desc, instances, samples: vec![Sample { time: 1, points }] };
        ShownSeries { series: Id::ZERO, by_metric, values }
    }

    #[test]
    fn rows_are_json_with_all_that_is_known() {
        let point = |time, of, datum| Point { time, of, datum };
        let number = |number: u64| Datum::Number(Number::U64(number));
        let points = vec![
            point(1_500_000_000_001_002, Of::Metric, number(7)),
            point(1_500_000_000_001_002, Of::Instance(0), Datum::Rate(0.5)),
            point(-1, Of::Instance(9), Datum::Number(Number::Double(f64::NAN))),
            point(0, Of::Together, Datum::Text("\"a \\n \u{1}\"".into())),
        ];
        let zero = "0".repeat(40);
        let instance = Id::expression("i");
        let wanted = [
            format!(r#"[{{"series":"{zero}","timestamp":1500000000001.002,"value":"7"}}"#),
            format!(
                r#"{{"series":"{zero}","instance":"{instance}","timestamp":1500000000001.002,"value":"0.500000"}}"#
            ),
            format!(r#"{{"series":"{zero}","instance":null,"timestamp":-1.999,"value":"nan"}}"#),
            format!(
                "{{\"series\":\"{zero}\",\"instance\":\"\",\"timestamp\":0.000,\"value\":\"\\\"a \\\\n \\u0001\\\"\"}}]\r\n"
            ),
        ];
        let series = [shown(points.clone(), false)];
        assert_eq!(String::from_utf8_lossy(&text(None, &series)), wanted.join(","));
        let line = text(Some("a\"b"), &[shown(Vec::new(), false), shown(points, true)]);
        let json: serde_json::Value = serde_json::from_slice(&line).expect("it is JSON");
        assert_eq!(json["client"], "a\"b");
        assert_eq!(json["result"][0]["instance"], Id::expression("m").to_string());
        assert_eq!(json["result"][3]["value"], "\"a \\n \u{1}\"");
        assert_eq!(text(None, &[]), b"[]\r\n");
    }
}

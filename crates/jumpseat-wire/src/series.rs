//! Series of numbers that came from elsewhere: how the agent calls them, so that who reads its metrics can tell what they were.
//!
//! ```text
//! shop@web-1{http.route=/cart,method=GET}     an instance: head { name = value , ... }, sorted by name
//! ```
//!
//! What would be read otherwise, and blanks, which end names for PCP's tools, are %HH; so every name reads back ([`parse`]). The
//! labels of the instance have the values with their types, by names as PCP allows them ([`label`]).

/// The label of a metric with its name as it came.
pub const NAME: &str = "otel_name";
/// The label of a metric with its unit as it came, if it had one.
pub const UNIT: &str = "otel_unit";
/// The label of a metric with what of it the values are: a word of [`Form`].
pub const KIND: &str = "otel_kind";
/// The label of an instance with the names of its resource's attributes, as they came, written as [`names`] does.
pub const RESOURCE_NAMES: &str = "otel_resource_names";
/// The attribute with the name of the scope, and the label with its version.
pub const SCOPE_NAME: &str = "otel.scope.name";
/// See [`SCOPE_NAME`].
pub const SCOPE_VERSION: &str = "otel.scope.version";
/// The attribute with the upper bound of a bucket.
pub const BOUND: &str = "le";
/// The attribute with a quantile.
pub const QUANTILE: &str = "quantile";

/// Longest name of a label, in bytes; what is beyond it is cut, and one more may come in front.
pub const MAX_LABEL: usize = 80;

/// What of a metric values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the words of OpenTelemetry, and parts of histograms and summaries")]
pub enum Form {
    Gauge,
    Counter,
    UpDownCounter,
    Bucket,
    ExponentialBucket,
    Quantile,
    Count,
    Sum,
    Min,
    Max,
    Scale,
    /// Texts: the newest exemplar of a series.
    Exemplar,
    /// When a sum began, in nanoseconds since the epoch.
    Start,
}

impl Form {
    const ALL: [(Form, &'static str); 13] = [
        (Form::Gauge, "gauge"),
        (Form::Counter, "counter"),
        (Form::UpDownCounter, "updowncounter"),
        (Form::Bucket, "bucket"),
        (Form::ExponentialBucket, "exponential_bucket"),
        (Form::Quantile, "quantile"),
        (Form::Count, "count"),
        (Form::Sum, "sum"),
        (Form::Min, "min"),
        (Form::Max, "max"),
        (Form::Scale, "scale"),
        (Form::Exemplar, "exemplar"),
        (Form::Start, "start"),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        // Each is among them.
        Form::ALL.iter().find(|(form, _)| *form == self).map_or("", |(_, word)| word)
    }

    /// Whether values are in no unit of the metric's: counts, and what is told beside values.
    pub fn is_of_no_unit(self) -> bool {
        use Form::{Bucket, Count, Exemplar, ExponentialBucket, Scale, Start};
        matches!(self, Bucket | ExponentialBucket | Count | Scale | Exemplar | Start)
    }

    /// The one of a word.
    pub fn from_word(word: &str) -> Option<Form> {
        Form::ALL.iter().find(|(_, known)| *known == word).map(|(form, _)| *form)
    }
}

/// Appends text; what is in `special`, and whatever would end a name, is escaped.
pub fn escape(out: &mut String, text: &str, special: &str) {
    for c in text.chars() {
        // A name that begins with one of the brackets is something else in the files of ids.
        let begins = out.is_empty() && matches!(c, '[' | '(');
        if begins || c == '%' || c.is_whitespace() || c.is_control() || special.contains(c) {
            let mut utf8 = [0; 4];
            for byte in c.encode_utf8(&mut utf8).bytes() {
                out.push_str(&format!("%{byte:02x}"));
            }
        } else {
            out.push(c);
        }
    }
}

/// Names in one text, with commas between.
pub fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for (index, name) in all.enumerate() {
        if index > 0 {
            text.push(',');
        }
        escape(&mut text, name, ",");
    }
    text
}

/// The names in a text of [`names`]; `None` for what is none.
pub fn parse_names(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(unescape).collect()
}

/// The parts of an instance's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parsed {
    /// What stands in front.
    pub head: String,
    /// Names and values, as text, sorted by name.
    pub pairs: Vec<(String, String)>,
}

/// The parts of an instance's name; `None` for what is none.
pub fn parse(name: &str) -> Option<Parsed> {
    let Some((head, rest)) = name.split_once('{') else {
        return Some(Parsed { head: unescape(name)?, pairs: Vec::new() });
    };
    let pair = |text: &str| {
        let (name, value) = text.split_once('=')?;
        Some((unescape(name)?, unescape(value)?))
    };
    let pairs = rest.strip_suffix('}')?.split(',').map(pair).collect::<Option<Vec<_>>>()?;
    Some(Parsed { head: unescape(head)?, pairs })
}

/// The name of the label that an attribute becomes: a letter, then letters, digits and underscores. Every other character becomes an
/// underscore; what does not start with a letter gets an `f` in front.
pub fn label(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let mut label: String = name.chars().take(MAX_LABEL).map(plain).collect();
    if !label.starts_with(|c: char| c.is_ascii_alphabetic()) {
        label.insert(0, 'f');
    }
    label
}

/// What was given to [`escape`]; `None` for what it does not make.
pub fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        match (first, more) {
            (b'%', [high, low, more @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push((digit(high)? << 4 | digit(low)?) as u8);
                rest = more;
            }
            (b'%', _) => return None,
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_instances_come_apart() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        for (name, head, pairs) in [
            ("shop", "shop", vec![]),
            ("a%20b@c{x=1}", "a b@c", vec![pair("x", "1")]),
            ("{x=%2c=},y%3d={}}", "", vec![pair("x", ",=}"), pair("y=", "{}")]),
        ] {
            assert_eq!(parse(name), Some(Parsed { head: head.to_owned(), pairs }), "{name}");
        }
        for wrong in ["a{", "a{}", "a{x}", "a%", "a%2", "a%zz", "a{x=1", "%ff"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lists_of_names_come_back() {
        for all in [vec![], vec!["a"], vec!["a,b", "c d", "%", "größe"]] {
            assert_eq!(
                parse_names(&names(all.iter().copied())).as_deref(),
                Some(&*all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
            );
        }
    }

    #[test]
    fn words_come_back() {
        for (form, word) in Form::ALL {
            assert_eq!((form.word(), Form::from_word(word)), (word, Some(form)));
        }
    }
}

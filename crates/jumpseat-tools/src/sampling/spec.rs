//! Metrics as they are named on command lines (`pmParseMetricSpec(3)`).

/// `[HOST:]METRIC[INSTANCE,...]`, `ARCHIVE/METRIC[...]` or `@:METRIC`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MetricSpec {
    /// Where it comes from, if that is said.
    pub source: Option<MetricSource>,
    /// Its name.
    pub metric: String,
    /// Names of instances.
    pub instances: Vec<String>,
}

/// A source of metrics.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MetricSource {
    /// A collector.
    Host(String),
    /// An archive.
    Archive(String),
    /// Agents within the program.
    Local,
}

impl MetricSpec {
    /// Reads a specification.
    ///
    /// # Errors
    /// PCP's two lines that say what is wrong, and where.
    pub(super) fn parse(text: &str) -> Result<MetricSpec, String> {
        let wrong = |rest: &str, what: &str| {
            let at = text.len() - rest.len();
            Err(format!("{text}\n{}^ -- {what}\n", " ".repeat(at)))
        };
        let blank = |c: char| c.is_ascii_whitespace();
        let body = text.trim_start_matches(blank);
        let end = body.find('[').unwrap_or(body.len());
        let (name, brackets) = body.split_at(end);
        let mut spec = MetricSpec::default();
        let mut metric = name;
        // A colon belongs to a host if no slash comes after it: names of archives may have colons too.
        match (name.rfind('/'), name.rfind(':')) {
            (slash, Some(colon)) if slash.is_none_or(|slash| slash < colon) => {
                let host = &name[..colon];
                match host.trim_matches(blank) {
                    "" => return wrong(body, "host name expected"),
                    "@" => spec.source = Some(MetricSource::Local),
                    host => spec.source = Some(MetricSource::Host(host.to_owned())),
                }
                metric = &name[colon + 1..];
            }
            (Some(slash), _) => {
                let archive = &name[..slash];
                if archive.trim_matches(blank).is_empty() {
                    return wrong(body, "archive name expected");
                }
                spec.source = Some(MetricSource::Archive(archive.to_owned()));
                metric = &name[slash + 1..];
            }
            (None, _) => {}
        }
        if metric.trim_matches(blank).is_empty() {
            return wrong(brackets, "performance metric name expected");
        }
        spec.metric = metric.trim_matches(blank).to_owned();
        if let Some(list) = brackets.strip_prefix('[') {
            let Some(end) = list.rfind(']') else {
                return wrong("", "closing ] expected");
            };
            let rest = list[end + 1..].trim_start_matches(blank);
            if !rest.is_empty() {
                return wrong(rest, "unexpected extra characters");
            }
            spec.instances = split(&list[..end], &['"']);
        }
        Ok(spec)
    }
}

/// Names in a list, with commas or white space between; those with either of them inside are quoted.
pub(super) fn names(list: &str) -> Vec<String> {
    split(list, &['\'', '"'])
}

fn split(list: &str, quotes: &[char]) -> Vec<String> {
    let (mut names, mut name, mut quote) = (Vec::new(), String::new(), None);
    for c in list.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => name.push(c),
            None if name.is_empty() && quotes.contains(&c) => quote = Some(c),
            None if c == ',' || c.is_ascii_whitespace() => {
                if !name.is_empty() {
                    names.push(std::mem::take(&mut name));
                }
            }
            None => name.push(c),
        }
    }
    if !name.is_empty() {
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_instances() {
        let spec = MetricSpec::parse("h:44321:a.b[x, y] ").unwrap();
        assert_eq!(spec.source, Some(MetricSource::Host("h:44321".to_owned())));
        assert_eq!((spec.metric.as_str(), spec.instances), ("a.b", vec!["x".to_owned(), "y".to_owned()]));
        let spec = MetricSpec::parse("a.b[\"1 minute\" '5,x]").unwrap();
        assert_eq!(spec.instances, ["1 minute", "'5", "x"]);
        assert_eq!(
            MetricSpec::parse("/p/q:r/a.b").unwrap().source,
            Some(MetricSource::Archive("/p/q:r".to_owned()))
        );
        assert_eq!(MetricSpec::parse("@:a").unwrap().source, Some(MetricSource::Local));
        assert_eq!(
            MetricSpec::parse("a").unwrap(),
            MetricSpec { metric: "a".to_owned(), ..MetricSpec::default() }
        );
    }

    #[test]
    fn names_may_be_quoted() {
        assert_eq!(names("a,'b c' \"d,e\",,f"), ["a", "b c", "d,e", "f"]);
    }

    #[test]
    fn errors_point_at_the_place() {
        for (text, at, what) in [
            ("localhost:", 10, "performance metric name expected"),
            (":x", 0, "host name expected"),
            ("/x", 0, "archive name expected"),
            ("t.cnt[", 6, "closing ] expected"),
            ("a[b]x", 4, "unexpected extra characters"),
            ("", 0, "performance metric name expected"),
        ] {
            assert_eq!(MetricSpec::parse(text), Err(format!("{text}\n{:at$}^ -- {what}\n", "")));
        }
    }
}

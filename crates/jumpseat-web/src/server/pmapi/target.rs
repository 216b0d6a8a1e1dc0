//! What a path asks for: `/metrics`, `/pmapi/[N/][_]COMMAND`.

/// A command of PMWEBAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Context,
    Children,
    Metric,
    Indom,
    Fetch,
    Profile,
    Derive,
    Store,
    Metrics,
}

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    pub command: Command,
    /// The context, as it is written.
    pub context: Option<&'a str>,
    /// The form with numbers for machines, which begins with an underscore.
    pub raw: bool,
}

impl Target<'_> {
    /// Reads a path; whole ones only (D19).
    pub(super) fn parse(path: &str) -> Option<Target<'_>> {
        if path == "/metrics" {
            return Some(Target { command: Command::Metrics, context: None, raw: false });
        }
        let rest = path.strip_prefix("/pmapi/")?;
        let (context, word) = match rest.split_once('/') {
            Some((context, word)) => (Some(context), word),
            None => (None, rest),
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !context.is_none_or(is_number) {
            return None;
        }
        let (raw, word) = word.strip_prefix('_').map_or((false, word), |word| (true, word));
        let command = match word {
            "context" => Command::Context,
            "children" => Command::Children,
            "metric" => Command::Metric,
            "indom" => Command::Indom,
            "fetch" => Command::Fetch,
            "profile" => Command::Profile,
            "derive" => Command::Derive,
            "store" => Command::Store,
            "metrics" => Command::Metrics,
            _ => return None,
        };
        Some(Target { command, context, raw })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_whole() {
        let is = |command, context, raw| Some(Target { command, context, raw });
        for (path, target) in [
            ("/metrics", is(Command::Metrics, None, false)),
            ("/pmapi/metrics", is(Command::Metrics, None, false)),
            ("/pmapi/_metric", is(Command::Metric, None, true)),
            ("/pmapi/12/fetch", is(Command::Fetch, Some("12"), false)),
            ("/pmapi/12/_fetch", is(Command::Fetch, Some("12"), true)),
            ("/pmapi/contextual", None),
            ("/pmapi/context/", None),
            ("/pmapi/1x/context", None),
            ("/pmapi/-1/context", None),
            ("/pmapi//context", None),
            ("/pmapi/1/", None),
            ("/pmapi/1", None),
            ("/pmapi/", None),
            ("/pmapi/Context", None),
            ("/metrics/x", None),
        ] {
            assert_eq!(Target::parse(path), target, "{path}");
        }
    }
}

//! What a user asks to see.

use jumpseat::derive::is_name;

/// A metric by its name, or an expression with a name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A metric, or all below a name.
    Metric(String),
    /// A derived metric.
    Expression {
        /// What it is called on the screen.
        name: String,
        /// The expression.
        text: String,
    },
}

/// What is shown if nothing is asked for, of what the collector has.
pub const USUAL: [&str; 14] = [
    "load=kernel.all.load[1 minute]",
    "kernel.all.cpu.user",
    "kernel.all.cpu.sys",
    "kernel.all.cpu.wait.total",
    "mem.util.used",
    "mem.util.available",
    "disk.dev.read_bytes",
    "disk.dev.write_bytes",
    "network.interface.in.bytes",
    "network.interface.out.bytes",
    "jumpseat.event.count",
    "jumpseat.source.received",
    "jumpseat.source.missed",
    "jumpseat.event.highres_records",
];

impl Wanted {
    /// `METRIC`, `NAME=EXPRESSION` or an expression, which is its own name.
    pub fn parse(text: &str) -> Wanted {
        let text = text.trim();
        if let Some((name, expression)) = text.split_once('=')
            && is_name(name.trim_end())
            && !expression.starts_with('=')
        {
            return Wanted::Expression {
                name: name.trim_end().to_owned(),
                text: expression.trim().to_owned(),
            };
        }
        // Names of metrics have more letters than those of definitions.
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
        match text.chars().all(plain) && !text.starts_with(|c: char| c.is_ascii_digit()) {
            true => Wanted::Metric(text.to_owned()),
            false => Wanted::Expression { name: text.to_owned(), text: text.to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_and_expressions_are_told_apart() {
        let expression = |name: &str, text: &str| Wanted::Expression { name: name.into(), text: text.into() };
        for metric in ["hinv.ncpu", "proc.psinfo.some-thing", "a_1", ""] {
            assert_eq!(Wanted::parse(&format!(" {metric} ")), Wanted::Metric(metric.to_owned()));
        }
        assert_eq!(Wanted::parse("busy = 100 - idle"), expression("busy", "100 - idle"));
        assert_eq!(Wanted::parse("my.x=a == b"), expression("my.x", "a == b"));
        assert_eq!(Wanted::parse("a == b"), expression("a == b", "a == b"));
        assert_eq!(Wanted::parse("rate(a.b)"), expression("rate(a.b)", "rate(a.b)"));
        assert_eq!(
            Wanted::parse("kernel.all.load[1 minute]").clone(),
            expression("kernel.all.load[1 minute]", "kernel.all.load[1 minute]")
        );
        assert_eq!(Wanted::parse("3"), expression("3", "3"));
    }
}

//! What a user asks to see.

use pcp_derive::is_name;

/// A metric by its name, or an expression with a name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
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

/// What is shown if nothing is asked for, of what the collector has. Of the CPUs there are [`shares`] before them.
pub const USUAL: [&str; 11] = [
    "load=kernel.all.load[1 minute]",
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

/// What a host's CPUs do, in percent of all of them: busy is whatever is not idle, so that nothing can hide from it.
pub fn shares(cpus: u32) -> Vec<Operand> {
    let of = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
    let idle = Operand::Expression {
        name: format!("{BUSY}{of}"),
        text: "100 - 100 * rate(kernel.all.cpu.idle) / hinv.ncpu".to_owned(),
    };
    let parts =
        [("user", "user"), ("nice", "nice"), ("system", "sys"), ("steal", "steal"), ("wait", "wait.total")];
    let part = |(name, metric): (&str, &str)| Operand::Expression {
        name: format!("  {name} %"),
        text: format!("100 * rate(kernel.all.cpu.{metric}) / hinv.ncpu"),
    };
    std::iter::once(idle).chain(parts.map(part)).collect()
}

/// What the name of the share of time in which CPUs are not idle begins with.
pub const BUSY: &str = "busy % of ";

impl Operand {
    /// What it is called on the screen.
    pub fn name(&self) -> &str {
        match self {
            Operand::Metric(name) | Operand::Expression { name, .. } => name,
        }
    }

    /// `METRIC`, `NAME=EXPRESSION` or an expression, which is its own name.
    pub fn parse(text: &str) -> Operand {
        let text = text.trim();
        if let Some((name, expression)) = text.split_once('=')
            && is_name(name.trim_end())
            // `a == b` is a comparison.
            && !expression.starts_with('=')
        {
            return Operand::Expression {
                name: name.trim_end().to_owned(),
                text: expression.trim().to_owned(),
            };
        }
        // Names of metrics have more letters than those of definitions.
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
        match text.chars().all(plain) && !text.starts_with(|c: char| c.is_ascii_digit()) {
            true => Operand::Metric(text.to_owned()),
            false => Operand::Expression { name: text.to_owned(), text: text.to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_and_expressions_are_told_apart() {
        let expression =
            |name: &str, text: &str| Operand::Expression { name: name.into(), text: text.into() };
        for metric in ["hinv.ncpu", "proc.psinfo.some-thing", "a_1", ""] {
            assert_eq!(Operand::parse(&format!(" {metric} ")), Operand::Metric(metric.to_owned()));
        }
        assert_eq!(Operand::parse("busy = 100 - idle"), expression("busy", "100 - idle"));
        assert_eq!(Operand::parse("my.x=a == b"), expression("my.x", "a == b"));
        assert_eq!(Operand::parse("a == b"), expression("a == b", "a == b"));
        assert_eq!(Operand::parse("rate(a.b)"), expression("rate(a.b)", "rate(a.b)"));
        assert_eq!(
            Operand::parse("kernel.all.load[1 minute]").clone(),
            expression("kernel.all.load[1 minute]", "kernel.all.load[1 minute]")
        );
        assert_eq!(Operand::parse("3"), expression("3", "3"));
    }
}

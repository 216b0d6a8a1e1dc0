//! Random definitions: mostly ones that mean something, some that break a type rule, some that are
//! not even expressions.

use std::rc::Rc;

use pcp_derive::{Level, Scope};

use super::world::{self, World};
use support::random::Random;

pub(super) struct Definition {
    pub scope: Scope,
    pub name: String,
    pub expression: String,
}

/// A fetch: the sample it meets and the definitions it asks for.
#[derive(Clone)]
pub(super) struct Fetch {
    pub sample: usize,
    pub list: Vec<usize>,
}

pub(super) struct Batch {
    pub world: Rc<World>,
    pub definitions: Vec<Definition>,
    pub fetches: Vec<Fetch>,
}

impl Batch {
    pub(super) fn new(level: Level, definitions: usize, samples: usize, random: &mut Random) -> Batch {
        let world = world::world(samples, random);
        let definitions: Vec<Definition> = (0..definitions)
            .map(|n| {
                let name = match random.below(100) {
                    0 if n > 0 => format!("d.x{}", random.below(n)),
                    1 => random.pick(&["count", "m.n7"]).to_owned(),
                    _ => format!("d.x{n}"),
                };
                let scope = if random.percent(25) { Scope::Context } else { Scope::Global };
                let mut writer = Writer { world: &world, level, random, defined: n, focus: Vec::new() };
                Definition { scope, name, expression: writer.definition() }
            })
            .collect();
        let all: Vec<usize> = (0..definitions.len()).collect();
        let fetches = (0..samples).map(|sample| {
            let mut list = all.clone();
            if random.percent(20) {
                list.retain(|_| random.percent(70));
            }
            if random.percent(10) {
                list.push(random.pick(&all));
            }
            Fetch { sample, list }
        });
        let fetches = fetches.collect();
        Batch { world: Rc::new(world), definitions, fetches }
    }
}

const BINARY: [&str; 12] = ["+", "-", "*", "/", "<", "<=", "==", ">=", ">", "!=", "&&", "||"];
const UNITS: [&str; 14] = [
    "byte",
    "Kbyte",
    "mbyte",
    "sec",
    "millisec",
    "hour",
    "count",
    "count x 10^3",
    "byte / sec",
    "Kbyte/sec",
    "none",
    "",
    "wibble",
    "Mbyte^2",
];
const PATTERNS: [&str; 20] = [
    "eth",
    "^e",
    "a$",
    "^(eth|lo)$",
    "[0-9]",
    "[^a-z]",
    ".",
    "x*",
    "^$",
    "d(i|s)+",
    "e{1}",
    "e{2,}",
    "[[:upper:]]",
    "[",
    "(",
    "a{2,1}",
    "sda\\/1",
    "a\\\\.b",
    "*",
    "",
];
const INSTANCES: [&str; 9] = ["eth0", "lo", "sda", "cpu 0", "no.such", "x\\]y", "", " ", "été"];

struct Writer<'a> {
    world: &'a World,
    level: Level,
    random: &'a mut Random,
    /// How many definitions came before.
    defined: usize,
    /// The metrics that the definition draws on: few, so that operands go together more often.
    focus: Vec<usize>,
}

impl Writer<'_> {
    fn definition(&mut self) -> String {
        let first = self.random.below(world::METRICS);
        self.focus = vec![first];
        for _ in 0..self.random.below(4) {
            let other = self.companion(first);
            self.focus.push(other);
        }
        let depth = self.random.pick(&[1, 2, 2, 3, 3, 4]);
        let mut text = self.expression(depth);
        if self.random.percent(8) {
            self.damage(&mut text);
        }
        text
    }

    /// A metric that goes with another.
    fn companion(&mut self, with: usize) -> usize {
        let metrics = &self.world.metrics;
        for _ in 0..20 {
            let other = self.random.below(world::METRICS);
            let (a, b) = (&metrics[with], &metrics[other]);
            let domains = a.indom == b.indom || !a.is_set() || !b.is_set();
            if a.units == b.units && domains && (a.semantics == b.semantics || self.random.percent(30)) {
                return other;
            }
        }
        self.random.below(world::METRICS)
    }

    fn metric(&mut self) -> String {
        let n = if self.random.percent(92) {
            self.random.pick(&self.focus)
        } else {
            self.random.below(world::METRICS)
        };
        if self.random.percent(98) {
            return self.world.metrics[n].name.clone();
        }
        match self.random.below(4) {
            0 => "no.such".to_owned(),
            1 => "m".to_owned(),
            2 => self.random.pick(&["event.flags", "event.missed"]).to_owned(),
            // One of the definitions before this one: libpcp does not come back from a circle.
            _ if self.defined > 0 => format!("d.x{}", self.random.below(self.defined)),
            _ => "d.x".to_owned(),
        }
    }

    /// A metric that always has values, so that what 6.0.3 crashes on is not in every batch.
    fn solid(&mut self) -> String {
        for _ in 0..40 {
            let n = if self.random.percent(70) {
                self.random.pick(&self.focus)
            } else {
                self.random.below(world::METRICS)
            };
            if self.world.metrics[n].solid {
                return self.world.metrics[n].name.clone();
            }
        }
        self.metric()
    }

    fn space(&mut self) -> &'static str {
        self.random.pick(&["", "", "", " ", " ", " ", "  ", "\t"])
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.leaf();
        }
        let below = depth - 1;
        match self.random.weighted(&[8, 34, 6, 4, 8, 11, 9, 5, 6, 5, 11, 2]) {
            0 => self.leaf(),
            1 => {
                let (left, right) = (self.expression(below), self.expression(below));
                let operator = self.random.pick(&BINARY);
                // Arithmetic more often than the rest.
                let operator =
                    if self.random.percent(40) { self.random.pick(&BINARY[..4]) } else { operator };
                format!("{left}{}{operator}{}{right}", self.space(), self.space())
            }
            2 => format!("-{}{}", self.space(), self.expression(below)),
            3 => format!("!{}{}", self.space(), self.expression(below)),
            4 => {
                let inside = self.expression(below);
                let instance = if self.random.percent(if self.level == Level::V603 { 1 } else { 15 }) {
                    format!("[{}]", self.random.pick(&INSTANCES))
                } else {
                    String::new()
                };
                format!("({inside}){instance}")
            }
            5 => {
                let function = self.random.pick(&["avg", "sum", "max", "min", "count"]);
                let solid = matches!(function, "max" | "min") && self.random.percent(90);
                let metric = if solid { self.solid() } else { self.metric() };
                format!("{function}({}{metric}{})", self.space(), self.space())
            }
            6 => {
                let function = self.random.pick(&["delta", "rate", "rate", "instant"]);
                let of_expression = self.random.percent(if self.level == Level::V603 { 3 } else { 60 });
                let argument = if of_expression { self.expression(below) } else { self.metric() };
                format!("{function}({argument})")
            }
            7 => {
                let argument = match self.level {
                    Level::V603 if self.random.percent(95) => self.solid(),
                    _ => self.expression(below),
                };
                format!("scalar({argument})")
            }
            8 => {
                let argument = if self.random.percent(70) { self.metric() } else { self.expression(below) };
                let invert = self.random.pick(&["", "", "!", "! "]);
                format!("matchinst({invert}/{}/{},{argument})", self.random.pick(&PATTERNS), self.space())
            }
            9 => {
                let argument = self.expression(below);
                format!("rescale({argument},{}\"{}\")", self.space(), self.random.pick(&UNITS))
            }
            10 => self.ternary(below),
            _ => {
                format!("anon(PM_TYPE_{})", self.random.pick(&["32", "U32", "64", "U64", "FLOAT", "DOUBLE"]))
            }
        }
    }

    fn ternary(&mut self, below: usize) -> String {
        let guard = match self.random.weighted(&[40, 25, 15, 10, 10]) {
            0 => {
                let (left, right) = (self.leaf(), self.leaf());
                format!("{left} {} {right}", self.random.pick(&BINARY[4..]))
            }
            1 => format!("defined({})", self.metric()),
            2 => self.metric(),
            3 => {
                self.random.pick(&["0", "1", "!0", "!1", "1.5", "defined(no.such) || 1", "0 && 1"]).to_owned()
            }
            _ => self.expression(below),
        };
        // Branches must agree in everything: mostly the same metric, dressed differently.
        let yes = if self.random.percent(40) { self.metric() } else { self.expression(below) };
        let no = match self.random.below(4) {
            0 => yes.clone(),
            1 => self.constant_like(&yes),
            2 => format!("({yes})"),
            _ => self.expression(below),
        };
        let no_value = self.random.percent(if self.level == Level::V603 { 2 } else { 15 });
        let (yes, no) = match (no_value, self.random.below(8)) {
            (true, 0..4) => (yes, self.no_value()),
            (true, 4..7) => (self.no_value(), no),
            (true, _) => (self.no_value(), self.no_value()),
            _ => (yes, no),
        };
        format!("{guard}{}?{}{yes} : {no}", self.space(), self.space())
    }

    fn no_value(&mut self) -> String {
        let tags = if self.random.percent(50) { String::new() } else { self.tags() };
        format!("novalue({tags})")
    }

    /// A constant with the metadata of a metric, if it is one.
    fn constant_like(&mut self, name: &str) -> String {
        let Some(metric) = self.world.metrics.iter().find(|metric| metric.name == name) else {
            return self.leaf();
        };
        let n = self.random.below(100);
        format!(
            "mkconst({n},type={},semantics={},units=\"{}\")",
            metric.value_type.name(),
            metric.semantics.name(),
            metric.units
        )
    }

    fn tags(&mut self) -> String {
        let mut tags = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            tags.push(match self.random.weighted(&[40, 25, 25, 10]) {
                0 => {
                    let types = ["32", "u32", "64", "U64", "FLOAT", "double", "Double", "string", "x"];
                    format!("type={}{}", self.space(), self.random.pick(&types))
                }
                1 => {
                    let words = ["counter", "instant", "discrete", "Counter", "other"];
                    format!("semantics={}", self.random.pick(&words))
                }
                2 => format!("units=\"{}\"", self.random.pick(&UNITS)),
                _ if self.level >= Level::V638 => format!("meta={}", self.metric()),
                _ => "type=\"u64\"".to_owned(),
            });
        }
        tags.join(self.random.pick(&[",", ", "]))
    }

    fn number(&mut self) -> String {
        match self.random.below(20) {
            0..9 => self.random.below(20).to_string(),
            9..15 => format!("{}.{}", self.random.below(20), self.random.below(100)),
            _ => {
                let odd =
                    ["0", "4294967295", "4294967296", "2147483648", ".5", "3.", ".", "007", "65536", "1e3"];
                self.random.pick(&odd).to_owned()
            }
        }
    }

    fn leaf(&mut self) -> String {
        match self.random.weighted(&[62, 16, 6, 4, 10, 2]) {
            0 => self.metric(),
            1 => self.number(),
            2 => format!("mkconst({},{}{})", self.number(), self.space(), self.tags()),
            3 => format!("defined({})", self.metric()),
            4 => {
                let name = match self.random.percent(80) {
                    true => self.set_metric(),
                    false => self.metric(),
                };
                format!("{name}{}[{}]", self.space(), self.random.pick(&INSTANCES))
            }
            _ => self.constant_of_metric(),
        }
    }

    fn constant_of_metric(&mut self) -> String {
        let name = self.metric();
        self.constant_like(&name)
    }

    fn set_metric(&mut self) -> String {
        let sets: Vec<usize> =
            self.focus.iter().copied().filter(|&n| self.world.metrics[n].is_set()).collect();
        match sets.is_empty() {
            true => self.metric(),
            false => self.world.metrics[self.random.pick(&sets)].name.clone(),
        }
    }

    /// Makes a text that is mostly no expression any more.
    fn damage(&mut self, text: &mut String) {
        const TOKENS: [&str; 34] = [
            "(",
            ")",
            "?",
            ":",
            ",",
            "=",
            "[",
            "]",
            "[x]",
            "/",
            "\"",
            "\"a\"",
            "&",
            "|",
            "_",
            "%",
            "é",
            "novalue()",
            "mkconst(",
            "matchinst(",
            "matchinst(/a/,",
            "defined(",
            "anon(",
            "type",
            "units",
            "meta",
            "delta(",
            "1",
            ".",
            "x",
            "novalue(type=",
            "rescale(",
            "scalar(",
            "sum(",
        ];
        for _ in 0..1 + self.random.below(2) {
            let at = self.random.below(text.chars().count() + 1);
            let (byte, length) =
                text.char_indices().nth(at).map_or((text.len(), 0), |(byte, c)| (byte, c.len_utf8()));
            match self.random.below(4) {
                0 => text.insert_str(byte, self.random.pick(&TOKENS)),
                1 => text.replace_range(byte..byte + length, ""),
                2 => text.replace_range(byte..byte + length, self.random.pick(&TOKENS)),
                _ => text.truncate(byte),
            }
        }
    }
}

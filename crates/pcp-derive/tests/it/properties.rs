//! What holds for every definition and every sample.

use pcp_derive::{
    Column, DerivedContext, Dialect, Level, Meta, MetricSource, OperandValues, Registry, parse,
};
use pcp_model::{InDom, Inst, PmError, Pmid, Semantics, Timestamp, Units, Value, ValueType};
use proptest::prelude::*;

/// Pieces that texts are made of, so that they are often nearly right.
const PIECES: [&str; 58] = [
    "a",
    "b.c",
    "1",
    "2.5",
    ".",
    "0",
    "+",
    "-",
    "*",
    "/",
    "<",
    "<=",
    "==",
    ">",
    "!=",
    "&&",
    "||",
    "!",
    "?",
    ":",
    "(",
    ")",
    ",",
    "[x]",
    "[",
    "]",
    "\"",
    "\"byte\"",
    "/x/",
    "=",
    "type=u64",
    "units=\"kbyte/sec\"",
    "meta=a",
    "indom=1.2",
    "avg(",
    "count(",
    "sum(",
    "delta(",
    "rate(",
    "instant(",
    "scalar(",
    "mkconst(",
    "novalue(",
    "novalue()",
    "rescale(",
    "matchinst(",
    "defined(",
    "anon(PM_TYPE_U64)",
    "topk(2,",
    "quantile(.5,",
    "stddev(",
    "abs(",
    "clamp(a,1,2)",
    "avg_over(",
    "\"30sec\"",
    "\\",
    "é",
    " ",
];

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..24).prop_map(|pieces| pieces.concat())
}

/// A correct expression over a few metrics.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(
            &["s.i", "s.u", "s.l", "s.q", "s.f", "s.d", "m.i", "m.u", "m.l", "m.q", "m.f", "m.d", "t"][..]
        )
        .prop_map(str::to_owned),
        (0u32..100).prop_map(|n| n.to_string()),
        Just("2.5".to_owned()),
        Just("mkconst(3,type=64)".to_owned()),
        Just("mkconst(3,meta=m.i)".to_owned()),
        Just("defined(m.i)".to_owned()),
        Just("max(m.d)".to_owned()),
        Just("count(m.f)".to_owned()),
        Just("avg(m.q)".to_owned()),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let op = prop::sample::select(&["+", "-", "*", "/", "<", "==", "!=", "&&", "||"][..]);
        let call = prop::sample::select(
            &[
                "delta(",
                "rate(",
                "instant(",
                "scalar(",
                "-(",
                "!(",
                "matchinst(/a/,",
                "matchinst(!/0$/,",
                "abs(",
                "topk(2,",
                "bottomk(1,",
                "quantile(.9,",
                "stddev(",
            ][..],
        );
        prop_oneof![
            (inner.clone(), op, inner.clone()).prop_map(|(a, op, b)| format!("({a}) {op} ({b})")),
            (call, inner.clone()).prop_map(|(call, x)| format!("{call}{x})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(g, a, b)| format!("({g}) ? ({a}) : ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(g, a)| format!("({g}) ? ({a}) : novalue()")),
            inner.clone().prop_map(|x| format!("({x})[a1]")),
            inner.clone().prop_map(|x| format!("sum_over({x},\"5 sec\")")),
            inner.clone().prop_map(|x| format!("avg_over({x},\"5 sec\")")),
            inner.prop_map(|x| format!("rescale({x},\"count\")")),
        ]
    })
}

const INDOM: InDom = InDom::new(245, 1);

/// One metric a type: singular `s.x`, with instances `m.x`, and a text `t`.
struct World;

const TYPES: [(&str, ValueType); 6] = [
    ("i", ValueType::I32),
    ("u", ValueType::U32),
    ("l", ValueType::I64),
    ("q", ValueType::U64),
    ("f", ValueType::Float),
    ("d", ValueType::Double),
];

impl MetricSource for World {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        if name == "t" {
            return Ok(Pmid::new(245, 2, 0));
        }
        let (kind, letter) = name.split_once('.').ok_or(PmError::NAME)?;
        let at = TYPES.iter().position(|(other, _)| *other == letter).ok_or(PmError::NAME)?;
        Ok(Pmid::new(245, u16::from(kind == "m"), at as u16))
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        let value_type =
            if pmid.cluster() == 2 { ValueType::String } else { TYPES[usize::from(pmid.item())].1 };
        let indom = if pmid.cluster() == 1 { INDOM } else { InDom::NULL };
        Ok(Meta { value_type, indom, semantics: Some(Semantics::Instant), units: Units::NONE })
    }

    fn instance(&mut self, _: InDom, name: &str) -> Result<Inst, PmError> {
        name.strip_prefix('a').and_then(|id| id.parse().ok()).ok_or(PmError::INST)
    }

    fn instance_name(&mut self, _: InDom, inst: Inst, found: &mut dyn FnMut(&str)) -> Result<(), PmError> {
        found(&format!("a{inst}"));
        Ok(())
    }

    fn instances(&mut self, _: InDom, out: &mut Vec<Inst>) -> Result<(), PmError> {
        out.extend(0..3);
        Ok(())
    }
}

/// Any values: the same instances several times, sets for singular metrics, errors.
#[derive(Debug)]
struct Any(Vec<(Inst, u64)>, Option<i32>);

impl OperandValues for Any {
    fn operand(&mut self, pmid: Pmid, column: &mut Column) -> Result<(), PmError> {
        if let Some(code) = self.1.filter(|code| code % 7 == i32::from(pmid.item())) {
            return Err(PmError(code - 12_000));
        }
        let skip = usize::from(pmid.item()) % (self.0.len() + 1);
        self.0[skip..].iter().try_for_each(|&(inst, bits)| {
            let value = match pmid.item() {
                _ if pmid.cluster() == 2 => Value::from("text"),
                0 => Value::I32(bits as i32),
                1 => Value::U32(bits as u32),
                2 => Value::I64(bits as i64),
                3 => Value::U64(bits),
                4 => Value::Float(f32::from_bits(bits as u32)),
                _ => Value::Double(f64::from_bits(bits)),
            };
            column.push(inst, &value)
        })
    }
}

fn samples() -> impl Strategy<Value = Vec<(i64, Any)>> {
    let bits = prop_oneof![any::<u64>(), 0u64..4, Just(u64::MAX), Just(1 << 63), Just(f64::NAN.to_bits())];
    let values = prop::collection::vec((-1i32..6, bits), 0..50);
    let sample = (any::<i16>(), values, prop::option::weighted(0.2, -100i32..0));
    prop::collection::vec(sample.prop_map(|(time, values, error)| (time.into(), Any(values, error))), 1..6)
}

proptest! {
    #[test]
    fn parsing_never_panics(text in prop_oneof![soup(), any::<String>()]) {
        for dialect in [Dialect::default(), Dialect::strict(Level::V603), Dialect::strict(Level::V721)] {
            match parse(&text, &dialect) {
                Ok(tree) => prop_assert!(!tree.nodes().is_empty()),
                Err(error) => prop_assert!((-1..=text.len() as i64).contains(&error.position)),
            }
        }
    }

    #[test]
    fn loading_never_panics(lines in prop::collection::vec(soup(), 0..6), tail in any::<Vec<u8>>()) {
        let mut contents = lines.join("\na.b = ").into_bytes();
        contents.extend(tail);
        let loaded = Registry::new(Dialect::default()).load(&contents);
        prop_assert!(loaded.problems.iter().all(|problem| problem.text("F").ends_with('\n')));
    }

    #[test]
    fn printing_and_parsing_again_gives_the_same_tree(text in prop_oneof![expression(), soup()]) {
        let dialect = Dialect::default();
        if let Ok(tree) = parse(&text, &dialect) {
            let printed = tree.to_expression();
            let again = parse(&printed, &dialect).unwrap_or_else(|error| panic!("{printed}: {error}"));
            let kinds = |tree: &pcp_derive::Tree| -> Vec<_> {
                tree.nodes().iter().map(|node| node.kind.clone()).collect()
            };
            prop_assert_eq!(kinds(&tree), kinds(&again), "{}", printed);
        }
    }

    #[test]
    fn evaluation_never_panics(text in expression(), mut samples in samples()) {
        let mut registry = Registry::new(Dialect::default());
        // Division cannot be written inside matchinst: `/` begins a pattern there.
        let Ok(pmid) = registry.register("d.x", &text) else { return Ok(()) };
        let (mut context, mut world) = (DerivedContext::new(), World);
        let mut context = context.attach(&registry, &mut world);
        let Ok(meta) = context.meta(pmid) else { return Ok(()) };
        for (time, sample) in &mut samples {
            context.begin_fetch();
            let mut answers = context.answers(std::slice::from_ref(&pmid), Timestamp::new(*time, 0));
            if let Ok(column) = answers.answer(pmid, sample).values() {
                prop_assert_eq!(column.ids.len(), column.values.len(), "{}", text);
                if let Some(value) = column.values.get(0) {
                    prop_assert_eq!(value.value_type(), meta.value_type, "{}", text);
                }
            }
        }
    }
}

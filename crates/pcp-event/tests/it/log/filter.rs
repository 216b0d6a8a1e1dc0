//! The filter language: what tests mean, and that no text and no record is too odd.

use std::cell::Cell;
use std::sync::Arc;

use pcp_event::{Batch, BoundFilter, EventFlags, FieldResolver, Filter, Param};
use pcp_model::{Pmid, Timestamp};
use proptest::prelude::*;

const fn field(item: u16) -> Pmid {
    Pmid::new(400, 16, item)
}

/// Field names and their PMIDs: one name may have several types.
const NAMES: [(&str, Pmid); 9] = [
    ("type", field(0)),
    ("message", field(1)),
    ("severity", field(2)),
    ("status", field(8)),
    ("status", field(9)),
    ("ratio", field(10)),
    ("user.id", field(11)),
    ("odd name`\\", field(12)),
    ("ok", field(13)),
];

struct Names;

impl FieldResolver for Names {
    fn generation(&self) -> u64 {
        1
    }

    fn resolve(&self, name: &str, found: &mut dyn FnMut(Pmid)) {
        NAMES.iter().filter(|(field, _)| *field == name).for_each(|&(_, pmid)| found(pmid));
    }
}

fn bind(text: &str) -> BoundFilter {
    match Filter::parse(text) {
        Ok(Some(filter)) => Arc::new(filter).bind(&Names),
        other => panic!("{text}: {other:?}"),
    }
}

fn record(flags: EventFlags, params: &[(u16, Param<'_>)]) -> Batch {
    let mut batch = Batch::default();
    let mut record = batch.record(Timestamp::new(1, 2), flags);
    params.iter().for_each(|&(item, value)| record.param(field(item), value));
    record.commit().unwrap();
    batch
}

#[test]
fn tests_mean_what_the_manual_says() {
    use Param::{Double, Float, I32, I64, String, U32, U64};
    let text = |text: &'static str| String(text.as_bytes());
    let point = EventFlags::POINT;
    let web = record(
        EventFlags::START | EventFlags::ID,
        &[
            (0, text("http.request")),
            (1, text("time out of host \"b\"")),
            (2, text("WARNING")),
            (8, U32(503)),
            (10, Double(0.5)),
            (11, U64(u64::MAX)),
            (13, U32(1)),
        ],
    );
    let twice = record(point, &[(8, U32(200)), (9, text("404")), (8, U32(500))]);
    let big = record(point, &[(11, I64(i64::MIN)), (10, Float(f32::NAN)), (9, text("x"))]);
    let near = record(point, &[(11, U64((1 << 53) + 1)), (10, Double(-0.5)), (8, I32(-7))]);
    let odd = record(EventFlags::END, &[(12, text("")), (2, text("loud")), (13, text("false"))]);
    for (record, yes, no) in [
        (
            &web,
            &[
                "type == \"http.request\" && severity >= warn && (status >= 500 || message =~ \"time.?out\")",
                "severity == warn",
                "severity == 'warning'",
                "severity in [error, warn]",
                "severity < err",
                "severity != error",
                "severity =~ 'WARN'",
                "severity not in [error, 'loud']",
                "status == 503",
                "status == 503.0",
                "status == 0x1f7",
                "status != 404",
                "status in [404, 503]",
                "status not in [404]",
                "status > 502.5",
                "status < 1e300",
                "status >= -9223372036854775808",
                "ratio == 0.5",
                "ratio < 1",
                "ratio > 0",
                "ratio != 1",
                "user.id == 18446744073709551615",
                "user.id < 18446744073709551616.0",
                "start",
                "!point",
                "not end and start",
                "exists(status)",
                "!exists(`odd name\\`\\\\`)",
                "!(gone == 1)",
                "!(gone != 1)",
                "type > 'http'",
                "type < 'i'",
                "message =~ 'host \"b\"$'",
                "message !~ '^out'",
                "message == \"time out of host \\\"b\\\"\"",
                "message =~ \"host\\s\"",
                "ok == true",
                "ok != false",
                "ok in [true]",
                "end || start && ok == 1",
                "type != 5",
                "(((start)))",
                "!!start",
            ][..],
            &[
                "gone == 1",
                "gone != 1",
                "gone not in [1]",
                "gone !~ 'x'",
                "exists(gone)",
                "type == 5",
                "type == 'HTTP.request'",
                "status == '503'",
                "status =~ '503'",
                "severity > warn",
                "severity == 5",
                "end",
                "start && end || point",
                "ratio > 0.5",
                "user.id == 18446744073709551615.0",
                "ok == false",
                "message == true",
                "!(start || end)",
                "type in ['x', 5, true]",
            ][..],
        ),
        (
            &twice,
            &[
                "status == 500",
                "status == 200",
                "status == '404'",
                "status > 400",
                "status < 300",
                "status =~ '^4'",
            ],
            &["status != 500", "status not in [1, 200]", "status !~ '4'", "status == 404"],
        ),
        (
            &big,
            &[
                "user.id == -9223372036854775808",
                "user.id < -1",
                "status != 5",
                "exists(ratio)",
                "ratio != 1",
            ],
            &[
                "user.id > 0",
                "ratio == 1",
                "ratio < 1",
                "ratio >= 1",
                "ratio == 1.5",
                "user.id < -9223372036854775808.0",
            ],
        ),
        (
            &near,
            &[
                "user.id > 9007199254740992.0",
                "user.id != 9007199254740992.0",
                "ratio < 0",
                "ratio > -1",
                "status < -6.5",
            ],
            &["user.id == 9007199254740992.0", "ratio == 0", "status == 7", "status <= -7.5"],
        ),
        (
            &odd,
            &["`odd name\\`\\\\` == ''", "severity == 'loud'", "severity != warn", "ok == false", "end"],
            &[
                "severity < warn",
                "severity >= trace",
                "severity == warn",
                "ok == true",
                "ok != false",
                "ok == 0",
            ],
        ),
    ] {
        let packed = record.get(0).unwrap();
        yes.iter().for_each(|text| assert!(bind(text).matches(packed), "{text}"));
        no.iter().for_each(|text| assert!(!bind(text).matches(packed), "{text}"));
    }
}

#[test]
fn fields_that_appear_later_are_found_after_binding_again() {
    struct Growing(Cell<u64>);
    impl FieldResolver for Growing {
        fn generation(&self) -> u64 {
            self.0.get()
        }
        fn resolve(&self, name: &str, found: &mut dyn FnMut(Pmid)) {
            if name == "status" && self.0.get() > 0 {
                found(field(8));
            }
        }
    }
    let names = Growing(Cell::new(0));
    let mut filter = Arc::new(Filter::parse("status == 1").unwrap().unwrap()).bind(&names);
    let batch = record(EventFlags::POINT, &[(8, Param::U32(1))]);
    assert!(!filter.matches(batch.bytes()));
    names.0.set(1);
    assert!(!filter.matches(batch.bytes()));
    filter.rebind(&names);
    assert!(filter.matches(batch.bytes()));
}

/// Texts of filters, each part valid.
fn filter_text() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("status".to_owned()),
        Just("user.id".to_owned()),
        Just("`odd name\\`\\\\`".to_owned()),
        Just("`and`".to_owned()),
        "[a-z]{1,3}x(\\.[0-9a-z]{1,2})?",
        // Any name; an escape must not swallow the closing quote.
        "`[^`\\\\]{1,6}`",
    ];
    let string = prop_oneof!["'[^']{0,8}'", "\"([^\"\\\\]|\\\\[\"\\\\nrtdw.]){0,8}\""];
    let number = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| format!("{n:#x}")),
        any::<f64>().prop_filter("numbers are finite", |n| n.is_finite()).prop_map(|n| format!("{n:?}")),
    ];
    let value = prop_oneof![string, number, Just("true".to_owned()), Just("false".to_owned())].boxed();
    let equality = prop_oneof![Just("=="), Just("!=")];
    let order = prop_oneof![Just("<"), Just("<="), Just(">"), Just(">="), Just("=="), Just("!=")];
    let test = prop_oneof![
        (name.clone(), equality, value.clone()).prop_map(|(n, op, v)| format!("{n}{op}{v}")),
        (name.clone(), order.clone(), any::<i32>()).prop_map(|(n, op, v)| format!("{n} {op} {v}")),
        (order, prop_oneof![Just("warn"), Just("'ERR'"), Just("fatal")])
            .prop_map(|(op, v)| format!("severity {op} {v}")),
        (name.clone(), any::<bool>(), proptest::collection::vec(value, 1..4)).prop_map(|(n, not, list)| {
            format!("{n} {}in [{}]", if not { "not " } else { "" }, list.join(","))
        }),
        (name.clone(), any::<bool>(), "'[a-z.?*^$ ]{0,1}[a-z]{0,4}'").prop_filter_map(
            "a valid regular expression",
            |(n, not, re)| {
                let text = format!("{n} {} {re}", if not { "!~" } else { "=~" });
                Filter::parse(&text).is_ok().then_some(text)
            }
        ),
        name.prop_map(|n| format!("exists({n})")),
        prop_oneof![Just("start"), Just("end"), Just("point")].prop_map(str::to_owned),
    ];
    test.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|x| format!("!({x})")),
            inner.clone().prop_map(|x| format!("not {x}")),
            inner.clone().prop_map(|x| format!("({x})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} && {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or ({b})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a} || {b}) and {c}")),
        ]
    })
}

proptest! {
    #[test]
    fn a_printed_filter_reads_the_same(text in filter_text()) {
        let filter = Filter::parse(&text).unwrap().expect("it has a test");
        let printed = filter.to_string();
        let again = Filter::parse(&printed).unwrap().expect("it has a test");
        prop_assert_eq!(&again, &filter, "{} from {}", printed, text);
        prop_assert_eq!(again.to_string(), printed);
        prop_assert_eq!(again.fields(), filter.fields());
    }

    #[test]
    fn no_text_is_too_odd(text in ".{0,60}") {
        if let Err(error) = Filter::parse(&text) {
            prop_assert!((1..=text.chars().count() + 1).contains(&error.column), "{}", error);
        }
    }

    #[test]
    fn no_mix_of_pieces_is_too_odd(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "(", ")", "[", "]", ",", "==", "!=", "<", "=~", "!~", "=", "&&", "and", "||", "or", "!", "not", "in",
                "exists", "true", "start", "*", "severity", "status", "warn", "5", "-1.5", "'x'", "\"(\"", "`", "`a`", "\\",
            ]),
            0..14,
        )
    ) {
        let text = pieces.join(" ");
        match Filter::parse(&text) {
            Ok(Some(filter)) => {
                let again = Filter::parse(&filter.to_string()).unwrap();
                prop_assert_eq!(again, Some(filter));
            }
            Ok(None) => prop_assert!(["", "true", "*"].contains(&text.as_str())),
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.column), "{}", error),
        }
    }

    #[test]
    fn no_record_is_too_odd(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        cut in 0usize..120,
        at in 0usize..120,
        flip in any::<u8>(),
    ) {
        let filter = bind("status > 5 || message =~ 'x' || severity >= warn || ratio < 1 || !exists(ok)");
        filter.matches(&bytes);
        // A sound record, damaged.
        let batch = record(EventFlags::POINT, &[
            (8, Param::U32(1)), (1, Param::String(b"hello")), (10, Param::Double(1.0)), (13, Param::Aggregate(b"")),
        ]);
        let mut packed = batch.bytes().to_vec();
        packed.truncate(cut);
        if let Some(byte) = packed.get_mut(at) {
            *byte ^= flip;
        }
        filter.matches(&packed);
    }
}

//! The formats of lines: no bytes make them panic, what they refuse has a place.

use jumpseat_source::event::{Event, Limits, Value};
use jumpseat_source::follow::FormatName;
use jumpseat_source::follow::lines::{Journal, Parser, Reading, repair};
use pcp_model::Timestamp;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp { sec: 1_795_180_566, nsec: 0 };
const LIMITS: Limits = Limits { max_line: 4096, max_field: 64, truncate: false };
const PATTERN: &str = r"^(?<time>\S+)? ?(?<severity>\w+)?(?<id>:\d+)?(?<any>.*)$";

fn parsers() -> Vec<Parser> {
    let of = |format, pattern| {
        Parser::new(&Reading { format, pattern, ..Reading::default() }).expect("a good pattern")
    };
    vec![
        of(FormatName::Text, None),
        of(FormatName::Json, None),
        of(FormatName::Logfmt, None),
        of(FormatName::Syslog, None),
        of(FormatName::Plain, Some(PATTERN)),
        of(FormatName::Nginx, None),
        of(FormatName::Apache, None),
        of(FormatName::Klog, None),
        Parser::new(&Reading {
            format: FormatName::Plain,
            pattern: Some("(?<time>.*)"),
            time_format: Some("%d/%b/%Y %H:%M:%S%.f %z"),
            ..Reading::default()
        })
        .expect("good"),
        Parser::Journal(Journal::new(&["_PID".to_owned()])),
    ]
}

/// Parses as a stream does, with and without limits that cut, whole and cut; every text must be one.
fn check(line: &[u8]) -> Result<(), TestCaseError> {
    let mut event = Event::default();
    for mut parser in parsers() {
        let mut scratch = Vec::new();
        let line = if parser.repairs() { repair(line, &mut scratch).0 } else { line };
        for (truncate, cut) in [(false, false), (true, false), (true, true)] {
            let limits = Limits { truncate, ..LIMITS };
            match parser.parse(line, &limits, cut, NOW, &mut event) {
                Ok(_) => {
                    let fields = event.fields.iter().flat_map(|field| {
                        let value = match field.value {
                            Value::Text(text) => Some(text),
                            _ => None,
                        };
                        [Some(field.name), value]
                    });
                    for text in fields.chain([event.message, event.event_type, event.source]).flatten() {
                        let bytes = event.text(line, text);
                        prop_assert_eq!(bytes.len(), text.len());
                        prop_assert!(std::str::from_utf8(bytes).is_ok(), "{parser:?}: {bytes:?}");
                        prop_assert!(!bytes.contains(&0), "{parser:?}: {bytes:?}");
                    }
                    prop_assert!(event.message.is_none_or(|text| text.len() <= LIMITS.max_field));
                }
                Err(refusal) => {
                    prop_assert!(!refusal.detail.is_empty());
                    prop_assert!(
                        (1..=line.len() as u32 + 1).contains(&refusal.column),
                        "{parser:?}: {refusal}"
                    );
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes(line in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&line)?;
    }

    #[test]
    fn almost_right_lines(
        line in prop::sample::select(vec![
            r#"<34>1 2026-11-20T13:16:06Z host app 12 ID [a b="c\"d"][e f="g"] text"#,
            "<13>Nov 20 13:16:06 host app[123]: text",
            r#"ts=2026-11-20 level=info msg="a \u00e9 b" n=1.5 é=x flag"#,
            r#"{"time":5,"a":{"b":[1,"x"]},"msg":"é"}"#,
            r#"{"__CURSOR":"s=1","MESSAGE":[104,105,255],"_PID":"7","__REALTIME_TIMESTAMP":"1795180566000000"}"#,
            "20/Nov/2026 13:16:06.5 +0100",
            "2026-11-20 13:16:06,123 [main] ERROR é",
            "ERROR [2026-11-20 13:16:06.5 +0100] é",
            "2026/11/20 13:16:06 [error] 3#4: *5 é, client: ::1, server: é, request: \"GET /\\x22 HTTP/1.1\"",
            "a:80 ::1 - é [20/Nov/2026:13:16:06 +0100] \"GET /\\\"é HTTP/1.1\" 200 5 \"é\" \"-\" 0.5",
            "[Fri Nov 20 13:16:06.5 2026] [core:error] [pid 7:tid 8] [client ::1:80] AH00128: é",
            "E1120 13:16:06.123456    7 é.go:12] \"é \\\"x\\\"\" a=\"b\" c=5",
        ]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..6),
    ) {
        let mut line = line.as_bytes().to_vec();
        for (at, byte, what) in edits {
            if line.is_empty() {
                break;
            }
            let at = at.index(line.len());
            match what {
                0 => line[at] = byte,
                1 => line.insert(at, byte),
                _ => line.truncate(at),
            }
        }
        check(&line)?;
    }

    #[test]
    fn special_characters(line in r#"[ \[\]"\\=<>:{},a1-]{0,60}"#) {
        check(line.as_bytes())?;
    }
}

#[test]
fn refusals_have_their_place() {
    for (format, line, expected) in [
        (FormatName::Logfmt, "=x", "column 1: expected a key: logfmt is key=value key=\"text in quotes\""),
        (FormatName::Logfmt, "a=1 b\"c", "column 6: a quote within a key"),
        (FormatName::Logfmt, "a=\"x", "column 3: a text whose closing quote is missing"),
        (
            FormatName::Logfmt,
            "some words",
            "column 1: no key=value pair; for lines of any form use format = \"text\"",
        ),
        (
            FormatName::Logfmt,
            "a=1 time=soon",
            "column 10: not a time in one of the usual forms: say how it is written with time_format",
        ),
        (FormatName::Syslog, "<34>1 2026-11-20T13:16:06Z host", "column 32: the line ends within its header"),
        (FormatName::Syslog, "<34>1 - - - - - x", "column 17: expected structured data: - or ["),
        (
            FormatName::Syslog,
            "<34>1 - - - - - [a b=c]",
            "column 21: expected structured data: [id name=\"value\"]",
        ),
        (FormatName::Syslog, "<34>1 - - - - - [a b=\"c]", "column 23: a text whose closing quote is missing"),
        (
            FormatName::Syslog,
            "<34>1 soon - - - - -",
            "column 7: not a time in one of the usual forms: say how it is written with time_format",
        ),
        (FormatName::Syslog, "hello", "column 1: neither a priority nor a time as syslog daemons write it"),
        (
            FormatName::Json,
            "{\"a\":tru}",
            "column 9: expected a value: true, false, null, a number or a string",
        ),
    ] {
        let mut parser = Parser::new(&Reading { format, ..Reading::default() }).expect("no pattern");
        let limits = Limits { max_field: 4096, ..LIMITS };
        let refusal = parser.parse(line.as_bytes(), &limits, false, NOW, &mut Event::default());
        assert_eq!(refusal.expect_err(line).to_string(), expected, "{line}");
    }
}

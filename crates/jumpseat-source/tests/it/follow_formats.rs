//! Lines as real programs write them, in the formats that name their parts.

use jumpseat_source::event::{Event, Limits, SeverityText, Text, Value};
use jumpseat_source::follow::FormatName;
use jumpseat_source::follow::lines::{FieldNames, Parser, Reading};
use pcp_model::Timestamp;

/// 2026-11-22T23:00:00Z
const NOW: Timestamp = Timestamp { sec: 1_795_388_400, nsec: 0 };
/// 2026-11-22T22:30:01Z, which most lines below have.
const THEN: i64 = NOW.sec - 1799;

/// A line as `nanoseconds after THEN|severity|type|message|field=value ...`, or why it was refused.
fn shown(parser: &mut Parser, line: &str) -> String {
    let limits = Limits { max_line: 65_536, max_field: 16_384, truncate: true };
    let mut event = Event::default();
    if let Err(refusal) = parser.parse(line.as_bytes(), &limits, false, NOW, &mut event) {
        return refusal.to_string();
    }
    let text = |text: Text| String::from_utf8_lossy(event.text(line.as_bytes(), text)).into_owned();
    let time = event.time.map(|time| match time.sec - THEN {
        0 => time.nsec.to_string(),
        seconds => format!("{seconds}s+{}", time.nsec),
    });
    let severity = event.severity.map(|severity| match severity {
        SeverityText::Word(word) => word.to_owned(),
        SeverityText::Text(other) => format!("({})", text(other)),
    });
    let fields = event.fields.iter().map(|field| {
        let value = match field.value {
            Value::Text(value) => format!("'{}'", text(value)),
            Value::I64(n) => n.to_string(),
            Value::U64(n) => n.to_string(),
            Value::Double(n) => format!("{n:?}"),
            Value::Bool(b) => b.to_string(),
        };
        format!("{}={value}", text(field.name))
    });
    let parts = [time, severity, event.event_type.map(text), event.message.map(text)];
    let parts = parts.map(Option::unwrap_or_default).join("|");
    format!("{parts}|{}", fields.collect::<Vec<_>>().join(" "))
}

#[track_caller]
fn check(reading: &Reading<'_>, lines: &[(&str, &str)]) {
    let mut parser = Parser::new(&Reading { time_zone: Some("UTC"), ..*reading }).expect("right");
    for (line, expected) in lines {
        assert_eq!(shown(&mut parser, line), *expected, "{line}");
    }
}

fn of(format: FormatName) -> Reading<'static> {
    Reading { format, ..Reading::default() }
}

#[test]
fn json_of_many_loggers() {
    check(
        &of(FormatName::Json),
        &[
            // Logback, Elastic, zap, pino, bunyan, slog, serilog, docker, tracing, and odd ones.
            (
                r#"{"@timestamp":"2026-11-22T22:30:01.5Z","level":"WARN","message":"m","thread_name":"t"}"#,
                "500000000|warning||m|thread_name='t'",
            ),
            (
                r#"{"@timestamp":"2026-11-22T22:30:01.000Z","log.level":"ERROR","message":"m","ecs.version":"1.2"}"#,
                "0|error||m|ecs.version='1.2'",
            ),
            (
                r#"{"@timestamp":"2026-11-22T22:30:01Z","log":{"level":"fatal","logger":"a"},"message":"m"}"#,
                "0|critical||m|log.logger='a'",
            ),
            (
                r#"{"level":"info","ts":1795386601.25,"caller":"a.go:7","msg":"m"}"#,
                "250000000|info||m|caller='a.go:7'",
            ),
            (r#"{"level":30,"time":1795386601123,"pid":7,"msg":"m"}"#, "123000000|info||m|pid=7"),
            (r#"{"ts":1795386601123456789,"severity":"DEBUG","msg":"m"}"#, "123456789|debug||m|"),
            (r#"{"timestamp":"1795386601","lvl":"crit","msg":"m"}"#, "0|critical||m|"),
            (r#"{"time":"2026-11-22T23:30:01+01:00","level":"INFO","msg":"m","source":"a"}"#, "0|info||m|"),
            (
                r#"{"timestamp":"2026-11-22 22:30:01,123","level":"Information","message":"m"}"#,
                "123000000|info||m|",
            ),
            (
                r#"{"log":"a\n","stream":"stderr","time":"2026-11-22T22:30:01.000000001Z"}"#,
                "1||||log='a\n' stream='stderr'",
            ),
            // Only the first counts, and what is no time is kept where it may be something else.
            (
                r#"{"ts":"2026-11-22T22:30:01Z","time":"2026-11-22T22:30:09Z","level":"info","severity":"error"}"#,
                "0|info|||time='2026-11-22T22:30:09Z' severity='error'",
            ),
            (
                r#"{"ts":"soon","timestamp":true,"@timestamp":-1e99,"time":1795386601}"#,
                "0||||ts='soon' timestamp=true @timestamp=-1e99",
            ),
            (
                r#"{"time":"soon"}"#,
                "column 9: not a time in one of the usual forms: say how it is written with time_format",
            ),
            (r#"{"a":{"time":"soon","level":"x"},"level":"LOUD"}"#, "|(LOUD)|||a.time='soon' a.level='x'"),
        ],
    );
}

#[test]
fn names_that_a_table_maps() {
    let fields = FieldNames {
        time: Some("when.at".into()),
        severity: Some("grade".into()),
        message: Some("log".into()),
        event_type: Some("kind".into()),
    };
    check(
        &Reading { fields: Some(&fields), ..of(FormatName::Json) },
        &[
            (
                r#"{"when":{"at":1795386601},"grade":"warn","log":"m","kind":"k","time":5,"msg":"x"}"#,
                "0|warning|k|m|time=5 msg='x'",
            ),
            (
                r#"{"when":{"at":"soon"}}"#,
                "column 15: not a time in one of the usual forms: say how it is written with time_format",
            ),
        ],
    );
    check(
        &Reading { fields: Some(&fields), ..of(FormatName::Logfmt) },
        &[("when.at=1795386601 grade=err log=m kind=k level=info", "0|error|k|m|level='info'")],
    );
    let format = Some("%d.%m.%Y %H:%M:%S");
    check(
        &Reading { time_format: format, ..of(FormatName::Json) },
        &[(r#"{"time":"22.11.2026 22:30:01","msg":"m"}"#, "0|||m|")],
    );
    check(
        &Reading { time_format: format, ..of(FormatName::Text) },
        &[
            ("22.11.2026 22:30:01 ERROR text", "0|error||22.11.2026 22:30:01 ERROR text|"),
            ("2026-11-22 22:30:01 ERROR text", "|||2026-11-22 22:30:01 ERROR text|"),
        ],
    );
    let berlin = Reading { time_zone: Some("Europe/Berlin"), ..of(FormatName::Klog) };
    let mut parser = Parser::new(&berlin).expect("it is in the database");
    assert_eq!(shown(&mut parser, "I1122 23:30:01.000000 1 a.go:7] m"), "0|info||m|pid=1 file='a.go' line=7");
}

#[test]
fn nginx_logs() {
    let refused = "column 1: not a line of nginx: neither 2026/11/22 22:30:01 [error] 31#7: text nor a request in the \
                   combined format";
    check(
        &of(FormatName::Nginx),
        &[
            (
                r#"10.0.0.1 - anna [22/Nov/2026:22:30:01 +0000] "GET /a?b=c HTTP/1.1" 200 512 "https://example.com/" "curl/8.5 (x)""#,
                "0||access|GET /a?b=c HTTP/1.1|client='10.0.0.1' user='anna' method='GET' path='/a?b=c' protocol='HTTP/1.1' \
                 status=200 bytes=512 referer='https://example.com/' agent='curl/8.5 (x)'",
            ),
            (
                r#"::1 - - [22/Nov/2026:23:30:01 +0100] "POST /a b HTTP/2.0" 404 0 "-" "-" "10.9.8.7" 0.005"#,
                "0||access|POST /a b HTTP/2.0|client='::1' method='POST' path='/a b' protocol='HTTP/2.0' status=404 bytes=0 \
                 extra='\"10.9.8.7\" 0.005'",
            ),
            (
                r#"10.0.0.1 - - [22/Nov/2026:22:30:01 +0000] "\x16\x03\x01" 400 157 "-" "-""#,
                r"0||access|\x16\x03\x01|client='10.0.0.1' status=400 bytes=157",
            ),
            (
                r#"10.0.0.1 - - [22/Nov/2026:22:30:01 +0000] "" 408 -"#,
                "0||access||client='10.0.0.1' status=408",
            ),
            (
                r#"2026/11/22 22:30:01 [error] 31#7: *9 open() "/a, b" failed (2: No such file), client: 10.0.0.1, server: _, request: "GET /x, y HTTP/1.1", host: "a.example""#,
                "0|error|error|open() \"/a, b\" failed (2: No such file)|pid=31 tid=7 connection=9 client='10.0.0.1' server='_' \
                 request='GET /x, y HTTP/1.1' host='a.example'",
            ),
            (
                "2026/11/22 22:30:01 [notice] 1#1: start worker processes",
                "0|notice|error|start worker processes|pid=1 tid=1",
            ),
            (
                "2026/11/22 22:30:01 [emerg] 1#1: bind() to 0.0.0.0:80 failed",
                "0|emergency|error|bind() to 0.0.0.0:80 failed|pid=1 tid=1",
            ),
            ("2026/11/22 22:30:01 [warn] text without a process", "0|warning|error|text without a process|"),
            (
                "2026/11/22 22:30:01 [error] 1#1: *2 x, client: unix:, odd: y",
                "0|error|error|x|pid=1 tid=1 connection=2 client='unix:'",
            ),
            ("", "||||"),
            ("text", refused),
            ("[22/Nov/2026:22:30:01 +0000]", refused),
            ("2026/11/22 at noon", refused),
            (
                r#"10.0.0.1 [22/Nov/2026:22:30:01 +0000] "x" 1 2"#,
                "column 1: expected client, identity and user in front of the time",
            ),
            (
                r#"a - - [22/Nov/2026:99:30:01 +0000] "x" 1 2"#,
                "column 8: not a time: requests have one such as [22/Nov/2026:22:30:01 +0000]",
            ),
            (
                r#"a - - [22/Nov/2026:22:30:01 +0000] "x"#,
                "column 37: a request whose closing quote is missing",
            ),
            (
                r#"a - - [22/Nov/2026:22:30:01 +0000] "x" y 2"#,
                "column 40: expected the status and the number of bytes",
            ),
            (r#"a - - [22/Nov/2026:22:30:01 +0000] "x""#, "column 39: the line ends before its numbers"),
        ],
    );
}

#[test]
fn apache_logs() {
    check(
        &of(FormatName::Apache),
        &[
            (
                r#"10.0.0.1 - - [22/Nov/2026:22:30:01 +0000] "GET /\"q\" HTTP/1.1" 200 -"#,
                r#"0||access|GET /\"q\" HTTP/1.1|client='10.0.0.1' method='GET' path='/\"q\"' protocol='HTTP/1.1' status=200"#,
            ),
            (
                r#"www.example.com:443 10.0.0.1 - anna [22/Nov/2026:22:30:01 +0000] "OPTIONS * HTTP/1.0" 200 126 "-" "Apache (internal dummy connection)""#,
                "0||access|OPTIONS * HTTP/1.0|vhost='www.example.com:443' client='10.0.0.1' user='anna' method='OPTIONS' path='*' \
                 protocol='HTTP/1.0' status=200 bytes=126 agent='Apache (internal dummy connection)'",
            ),
            (
                "[Sun Nov 22 22:30:01.123456 2026] [core:error] [pid 7:tid 140] [client 10.0.0.1:4711] AH00128: File does not exist: /x",
                "123456000|error|error|AH00128: File does not exist: /x|module='core' pid=7 tid=140 client='10.0.0.1:4711' code='AH00128'",
            ),
            (
                "[Sun Nov 22 22:30:01.1 2026] [mpm_event:notice] [pid 7:tid 8] AH00489: Apache/2.4.62 (Debian) configured",
                "100000000|notice|error|AH00489: Apache/2.4.62 (Debian) configured|module='mpm_event' pid=7 tid=8 code='AH00489'",
            ),
            (
                "[Sun Nov 22 22:30:01 2026] [error] [client 10.0.0.1] File does not exist",
                "0|error|error|File does not exist|client='10.0.0.1'",
            ),
            (
                "[Sun Nov 22 22:30:01.5 2026] [ssl:trace3] [pid 7] [remote 10.0.0.1:443] [x] text",
                "500000000|trace|error|[remote 10.0.0.1:443] [x] text|module='ssl' pid=7",
            ),
            ("[Sun Nov 22 22:30:01.5 2026] [php:warn]", "500000000|warning|error||module='php'"),
            (
                "[at noon] [error] x",
                "column 2: not a line of Apache: neither [Sun Nov 22 22:30:01 2026] [core:error] text nor a request in the \
                 common or combined format",
            ),
        ],
    );
}

#[test]
fn klog_lines() {
    let refused = "not a line of klog: I1122 22:30:01.123456 1234 file.go:77] text";
    check(
        &of(FormatName::Klog),
        &[
            (
                "I1122 22:30:01.123456    1234 server.go:77] text: x",
                "123456000|info||text: x|pid=1234 file='server.go' line=77",
            ),
            (
                r#"E1122 22:30:01.000000       1 pod_workers.go:1301] "Error syncing pod" err="a \"b\": c" pod="default/web" n=5 level=9"#,
                r#"0|error||Error syncing pod|pid=1 file='pod_workers.go' line=1301 err='a "b": c' pod='default/web' n=5 level=9"#,
            ),
            (
                "W20261122 22:30:01.5 77 a/b.cc:12] glog",
                "500000000|warning||glog|pid=77 file='a/b.cc' line=12",
            ),
            (
                r#"I1122 22:30:01.0 1 a.go:7] "quoted" and more"#,
                r#"0|info||"quoted" and more|pid=1 file='a.go' line=7"#,
            ),
            (r#"I1122 22:30:01.0 1 a.go:7] "only""#, "0|info||only|pid=1 file='a.go' line=7"),
            (r#"I1122 22:30:01.0 1 a.go:7] "open"#, r#"0|info||"open|pid=1 file='a.go' line=7"#),
            ("F1231 22:30:01.0 1 a.go:7]", "-28166400s+0|critical|||pid=1 file='a.go' line=7"),
            ("I1122 22:30:01.0 a.go", &format!("column 18: {refused}")),
            ("I1322 22:30:01.0 1 a.go:7] x", &format!("column 2: {refused}")),
            ("text", &format!("column 1: {refused}")),
            ("goroutine 1 [running]:", &format!("column 1: {refused}")),
        ],
    );
}

/// Lines of nothing but what a format has to look for, as long as a line may be: each is over in one pass or refused.
#[test]
fn no_line_makes_a_format_keep_more_than_it_says() {
    let parts = [
        ", client: ",
        "[",
        "] [",
        "\\\"",
        "\"",
        " ",
        "0",
        "[client x]",
        "a=\"",
        "ERROR",
        "2026-11-22 22:30:01 ",
        ", client: \"x\"",
        "[01/",
        "I1122 22:30:01.0 1 a:1] ",
    ];
    let heads = [
        "",
        "2026/11/22 22:30:01 [error] 1#1: *1 x",
        "[Sun Nov 22 22:30:01 2026] [core:error] ",
        "a - - [22/Nov/2026:22:30:01 +0000] \"x\" 1 2 ",
        "I1122 22:30:01.0 1 a.go:7] \"",
    ];
    let limits = Limits { max_line: 65_536, max_field: 16_384, truncate: true };
    let mut event = Event::default();
    for format in [FormatName::Text, FormatName::Nginx, FormatName::Apache, FormatName::Klog] {
        let mut parser = Parser::new(&of(format)).expect("right");
        for (head, part) in heads.iter().flat_map(|head| parts.map(|part| (head, part))) {
            let line = format!("{head}{}", part.repeat(65_000 / part.len()));
            let result = parser.parse(line.as_bytes(), &limits, false, NOW, &mut event);
            // Of klog the fields are the program's own.
            let most = if format == FormatName::Klog { line.len() / 2 } else { 16 };
            assert!(
                result.is_err() || event.fields.len() <= most,
                "{format:?} {head}{part}: {}",
                event.fields.len()
            );
            assert!(event.arena.len() <= 2 * line.len(), "{format:?} {head}{part}");
        }
    }
}

//! The formats of lines allocate nothing for a line.

use jumpseat_source::event::{Event, Limits};
use jumpseat_source::follow::FormatName;
use jumpseat_source::follow::lines::{Journal, Parser, Reading};
use pcp_model::Timestamp;
use support::alloc::allocations;

const NOW: Timestamp = Timestamp { sec: 1_795_180_566, nsec: 0 };

#[test]
fn lines_cost_no_allocation_of_their_own() {
    let of = |format, pattern, time_format| {
        Parser::new(&Reading { format, pattern, time_format, ..Reading::default() }).expect("a good pattern")
    };
    let clf = r#"^(?<host>\S+) \S+ \S+ \[(?<time>[^\]]+)\] "(?<message>[^"]*)" (?<status>\d+)"#;
    let own = r"^(?<time>\S+ \S+) (?<severity>\w+) (?<message>.*)$";
    let mut cases = [
        (of(FormatName::Text, None, None), "any text"),
        (of(FormatName::Text, None, None), "2026-11-20 13:16:06,123 [main] ERROR text"),
        (
            of(FormatName::Nginx, None, None),
            r#"::1 - - [20/Nov/2026:13:16:06 +0000] "GET /x HTTP/1.1" 200 5 "-" "curl""#,
        ),
        (
            of(FormatName::Nginx, None, None),
            r#"2026/11/20 13:16:06 [error] 3#4: *5 text, client: ::1, request: "GET /""#,
        ),
        (
            of(FormatName::Apache, None, None),
            "[Fri Nov 20 13:16:06.5 2026] [core:error] [pid 7:tid 8] [client ::1:80] AH00128: text",
        ),
        (of(FormatName::Klog, None, None), r#"E1120 13:16:06.5    7 a.go:12] "text" a="b" c=5"#),
        (of(FormatName::Json, None, None), r#"{"time":5.5,"type":"t","msg":"a \"b\"","o":{"n":1.5}}"#),
        (of(FormatName::Logfmt, None, None), r#"ts=2026-11-20T13:16:06 level=info msg="a \"b\"" n=1.5 flag"#),
        (
            of(FormatName::Syslog, None, None),
            r#"<34>1 2026-11-20T13:16:06Z host app 12 ID [a b="c\"d"] text"#,
        ),
        (of(FormatName::Syslog, None, None), "Nov 20 13:16:06 host app[123]: text"),
        (
            of(FormatName::Plain, Some(clf), None),
            r#"10.0.0.1 - - [20/Nov/2026:13:16:06 +0000] "GET /x HTTP/1.1" 200"#,
        ),
        (of(FormatName::Plain, Some(own), Some("%d.%m.%Y %H:%M:%S")), "20.11.2026 13:16:06 WARN text"),
        (
            Parser::Journal(Journal::new(&["_PID".to_owned()])),
            r#"{"__CURSOR":"s=1","MESSAGE":"hi","_PID":"7","__REALTIME_TIMESTAMP":"1795180566000000"}"#,
        ),
    ];
    let limits = Limits::default();
    let mut event = Event::default();
    for (parser, line) in &mut cases {
        let mut parse = || {
            let parsed = parser.parse(line.as_bytes(), &limits, false, NOW, &mut event);
            assert_eq!(parsed, Ok(true), "{line}");
        };
        (0..100).for_each(|_| parse());
        let before = allocations();
        (0..10_000).for_each(|_| parse());
        let made = allocations() - before;
        assert!(made < 10, "{made} allocations for 10,000 lines like {line}");
    }
}

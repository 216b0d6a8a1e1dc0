//! NDJSON lines and the records they become.

use crate::ingest_support::Desk;
use jumpseat_source::clock::SenderClock;
use jumpseat_source::delivery::Reason;
use jumpseat_source::event::Limits;
use jumpseat_source::registry::RegistryConfig;

const ROOMY: Limits = Limits { max_line: 4096, max_field: 4096, truncate: false };
const TIGHT: Limits = Limits { max_line: 64, max_field: 16, truncate: false };
const CUT: Limits = Limits { max_line: 64, max_field: 16, truncate: true };

/// A line and its record, or `line:column reason: detail`.
#[track_caller]
fn check_with(limits: Limits, line: &[u8], expected: &str) {
    let mut desk = Desk::new(limits);
    desk.feed(line);
    desk.feed(b"\n");
    desk.finish();
    let (records, tallies) = desk.records();
    let got = match records.as_slice() {
        [] if desk.intake.account.rejected == 0 => "nothing".to_owned(),
        [] => desk.first_error(),
        [one] => one.strip_prefix("default: ").unwrap_or(one).to_owned(),
        more => panic!("one record or none: {more:?}"),
    };
    assert_eq!(got, expected, "{}", String::from_utf8_lossy(line));
    assert_eq!(tallies.bytes, line.len() as u64 + 1);
    assert_eq!(tallies.rejected_total(), desk.intake.account.rejected);
}

#[track_caller]
fn check(line: &str, expected: &str) {
    check_with(ROOMY, line.as_bytes(), expected);
}

#[test]
fn the_order_of_parameters_is_fixed_and_fields_keep_theirs() {
    check("{}", "1000.000000005 point {}");
    check(
        r#"{"b":1,"message":"hi","level":"WARN","type":"req","parent_id":"p","a":2,"span_id":"s","time":5}"#,
        r#"5.000000000 point,id,parent {span_id "s", parent_id "p", type "req", severity "warning", message "hi", b 1, a 2}"#,
    );
    check(
        r#" { "event" : "e" , "msg" : "m" , "severity" : 3 , "id" : 18446744073709551615 , "parent" : 0 } "#,
        r#"1000.000000005 point,id,parent {span_id_u64 18446744073709551615, parent_id_u64 0, type "e", severity "error", message "m"}"#,
    );
}

#[test]
fn a_parent_without_an_id_is_no_parent_flag() {
    check(r#"{"parent":7,"phase":"start"}"#, "1000.000000005 start {parent_id_u64 7}");
}

#[test]
fn phases() {
    for (word, flag) in [
        ("start", "start"),
        ("begin", "start"),
        ("B", "start"),
        ("b", "start"),
        ("end", "end"),
        ("E", "end"),
        ("e", "end"),
        ("point", "point"),
        ("i", "point"),
    ] {
        check(&format!(r#"{{"ph":"{word}"}}"#), &format!("1000.000000005 {flag} {{}}"));
    }
    check(r#"{"phase":"beta"}"#, r#"1000.000000005 point {phase "beta"}"#);
    check(r#"{"ph":7.2}"#, "1000.000000005 point {ph 7.2}");
}

#[test]
fn field_types() {
    check(
        r#"{"a":-1,"b":9223372036854775808,"c":0.1,"d":true,"e":false,"f":null,"g":"x","h":""}"#,
        r#"1000.000000005 point {a -1, b 9223372036854775808, c 0.1, d 1, e 0, g "x", h ""}"#,
    );
    check(
        r#"{"big":18446744073709551616,"huge":1e400,"n":-0}"#,
        r#"1000.000000005 point {big "18446744073709551616", huge "1e400", n 0}"#,
    );
    check(
        r#"{"a":{"b":{"c":1},"d":[1, {"x":"]"}, []]},"e":{}, "f":[ ]}"#,
        r#"1000.000000005 point {a_b_c 1, a_d "[1, {\"x\":\"]\"}, []]", f "[ ]"}"#,
    );
}

#[test]
fn types_of_one_name_are_different_fields() {
    let mut desk = Desk::new(ROOMY);
    desk.feed(b"{\"v\":1}\n{\"v\":1.5}\n{\"v\":\"x\"}\n{\"v\":2}\n{\"v.\":2}\n");
    let (records, _) = desk.records();
    let fields: Vec<&str> = records.iter().filter_map(|r| r.split_once('{').map(|(_, p)| p)).collect();
    assert_eq!(fields, ["v 1}", "v_double 1.5}", "v_string \"x\"}", "v 2}", "v_ 2}"]);
}

#[test]
fn strings() {
    check(
        r#"{"message":"a\"\\\/\b\f\n\r\té€😀\ud83d\ude00 tail"}"#,
        "1000.000000005 point {message \"a\\\"\\\\/\\u{8}\\u{c}\\n\\r\\té€😀😀 tail\"}",
    );
    check(r#"{"m\u00e9":"x\u0000y"}"#, "1000.000000005 point {m_ \"x\u{fffd}y\"}");
    check(
        r#"{"x":"\ud800 \udc00 \ud800\u0041"}"#,
        "1000.000000005 point {x \"\u{fffd} \u{fffd} \u{fffd}A\"}",
    );
}

#[test]
fn known_members_of_other_types() {
    check(
        r#"{"type":5,"message":true,"level":42,"id":-1,"source":7}"#,
        r#"7: 1000.000000005 point,id {span_id "-1", type "5", severity "42", message "true"}"#,
    );
    check(r#"{"level":30,"type":null}"#, r#"1000.000000005 point {severity "info"}"#);
    check(r#"{"message":{"text":"x"}}"#, r#"1000.000000005 point {message_text "x"}"#);
    check(
        r#"{"type":"a","event":"b","type":"c"}"#,
        r#"1000.000000005 point {type "a", event "b", type "c"}"#,
    );
    check(r#"{"severity":"LOUD"}"#, r#"1000.000000005 point {severity "LOUD"}"#);
}

#[test]
fn times() {
    check(r#"{"time":"1970-01-01T00:00:01.25Z"}"#, "1.250000000 point {}");
    check(r#"{"time":1795180566.000000001}"#, "1795180566.000000001 point {}");
    check(r#"{"time":1795180566123}"#, "1795180566.123000000 point {}");
    check(r#"{"time":null}"#, "1000.000000005 point {}");
    check(
        r#"{"a":1,"time":"soon"}"#,
        "1:15 time: not a time: write RFC 3339, such as 2026-11-20T13:00:00.5Z, or a number",
    );
    check(r#"{"time":1e30}"#, "1:9 time: a number that is no time in seconds, milli-, micro- or nanoseconds");
    check(r#"{"time":true}"#, "1:13 time: a time is a number or a string");
}

#[test]
fn refusals_have_their_place() {
    for (line, expected) in [
        ("hello", "1:1 syntax: expected an object: {"),
        ("[1]", "1:1 syntax: expected an object: {"),
        ("{", "1:2 syntax: the line ends in the middle of the object"),
        (r#"{"a"}"#, "1:5 syntax: expected a colon after the member name"),
        (r#"{"a":}"#, "1:6 syntax: expected a value"),
        (r#"{"a":1,}"#, "1:8 syntax: expected a member name in quotes"),
        (r#"{"a":1 "b":2}"#, "1:8 syntax: expected a comma or } after the value"),
        (r#"{"a":01}"#, "1:6 syntax: not a JSON number"),
        (r#"{"a":nul}"#, "1:9 syntax: expected a value: true, false, null, a number or a string"),
        (r#"{"a":1}x"#, "1:8 syntax: expected the end of the line after the object"),
        (r#"{"a":"b"#, "1:8 syntax: the line ends in the middle of the object"),
        ("{\"a\":\"b\u{1}\"}", "1:8 syntax: a control character in a string: write it as \\u00xx"),
        (r#"{"a":"\x"}"#, "1:8 syntax: an unknown escape sequence"),
        (r#"{"a":"\u12"}"#, "1:11 syntax: expected four hexadecimal digits after \\u"),
        (r#"{"a":[1,2}"#, "1:10 syntax: expected a comma or the closing bracket"),
        (r#"{"a":[1,{"b" 2}]}"#, "1:14 syntax: expected a colon after the member name"),
    ] {
        check(line, expected);
    }
    check_with(ROOMY, b"{\"a\":\"\xff\"}", "1:7 encoding: invalid UTF-8");
    check_with(ROOMY, b"{\"a\":\0}", "1:6 syntax: expected a value");
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    check(&nested(32), &format!("1000.000000005 point {{{} 1}}", vec!["a"; 32].join("_")));
    check(&nested(33), "1:161 depth: nested deeper than 32 levels");
    let array = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    check(&array(31), &format!("1000.000000005 point {{a \"{}{}\"}}", "[".repeat(31), "]".repeat(31)));
    check(&array(32), "1:37 depth: nested deeper than 32 levels");
    check(&format!("{{\"a\":{}", "[".repeat(4000)), "1:37 depth: nested deeper than 32 levels");
    check(&r#"{"a":"#.repeat(800), "1:161 depth: nested deeper than 32 levels");
}

#[test]
fn blank_lines_are_nothing_but_count_as_lines() {
    check("", "nothing");
    check(" \t\r", "nothing");
    let mut desk = Desk::new(ROOMY);
    desk.feed(b"\r\n\n{\"a\":1}\r\n  \nbad\n{}");
    desk.finish();
    assert_eq!(desk.first_error(), "5:1 syntax: expected an object: {");
    assert_eq!((desk.intake.account.accepted, desk.intake.account.rejected), (2, 1));
}

#[test]
fn too_long_is_refused() {
    check_with(TIGHT, br#"{"a":"0123456789abcdef"}"#, r#"1000.000000005 point {a "0123456789abcdef"}"#);
    check_with(
        TIGHT,
        br#"{"a":"0123456789abcdefg"}"#,
        "1:6 oversize_field: a text longer than the limit for fields",
    );
    let line = format!("{{\"a\":1}}{}", " ".repeat(57));
    check_with(TIGHT, line.as_bytes(), "1000.000000005 point {a 1}");
    check_with(TIGHT, format!("{line} ").as_bytes(), "1:65 oversize_line: a line longer than the limit");
    let name = "n".repeat(129);
    check(&format!(r#"{{"{name}":1}}"#), "1:2 oversize_field: a member name longer than 128 bytes");
}

#[test]
fn too_long_is_cut_where_so_configured() {
    check_with(
        CUT,
        "{\"a\":\"0123456789abcdé\"}".as_bytes(),
        r#"1000.000000005 point {a "0123456789abcdé"}"#,
    );
    check_with(
        CUT,
        "{\"a\":\"0123456789abcdeé\"}".as_bytes(),
        r#"1000.000000005 point {a "0123456789abcde"}"#,
    );
    let spaces = " ".repeat(40);
    let cut = |start: &str, filler: &str, expected: &str| {
        let line = format!("{{{spaces}{start}{}", filler.repeat(200));
        check_with(CUT, line.as_bytes(), &format!("1000.000000005 point {{{expected}}}"));
    };
    cut(r#""a":1,"message":"tail"#, "z", r#"message "tailzz", a 1"#);
    cut(r#""a":1,"message":"tai"#, "é", r#"message "taié", a 1"#);
    cut(r#""a":1,"message":"tai"#, r"\n", r#"message "tai\n", a 1"#);
    cut(r#""a":1,"type":"tail"#, "z", "a 1");
    cut(r#""a":1,"b":"#, "1", "a 1");
    cut(r#""a":1,"b":"#, "[", "a 1");
}

#[test]
fn sources_by_hello_and_by_line() {
    let mut desk = Desk::new(ROOMY);
    desk.feed(
        b"{\"type\":\"a\"}\n{\"jumpseat\":{\"source\":\"app\",\"ack\":true}}\n{\"type\":\"a\"}\n\
          {\"type\":\"b\",\"source\":\"other\"}\n{}\n{\"source\":\"not a name\"}\n",
    );
    let (mut records, tallies) = desk.records();
    records.sort_unstable();
    assert_eq!(
        records,
        [
            r#"app: 1000.000000005 point {type "a"}"#,
            "app: 1000.000000005 point {}",
            r#"default: 1000.000000005 point {type "a"}"#,
            "default: 1000.000000005 point {}",
            r#"other: 1000.000000005 point {type "b"}"#,
        ]
    );
    let mut counts: Vec<(&str, u64)> =
        tallies.types.iter().map(|(id, count)| (desk.names.event_type(*id), *count)).collect();
    counts.sort_unstable();
    assert_eq!(
        counts,
        [("app/(none)", 1), ("app/a", 1), ("default/(none)", 1), ("default/a", 1), ("other/b", 1)]
    );
    assert_eq!(
        String::from_utf8_lossy(&desk.replies),
        "{\"jumpseat\":{\"line\":3,\"refused\":null,\"source\":\"app\",\"version\":1}}\n"
    );
}

#[test]
fn control_lines() {
    let mut desk = Desk::new(ROOMY);
    desk.feed(b"{}\n{\"jumpseat\":{\"missed\":3,\"time\":\"1970-01-01T00:00:09Z\"}}\n{}\n");
    desk.feed(b"{\"jumpseat\":{\"sync\":42}}\n{\"jumpseat\":{\"colour\":1}}\n{\"jumpseat\":5}\n");
    desk.finish();
    let (records, tallies) = desk.records();
    assert_eq!(
        records,
        [
            "default: 1000.000000005 point {}",
            "default: 9.000000000 missed 3",
            "default: 1000.000000005 point {}",
            "default: 1000.000000005 point {jumpseat 5}",
        ]
    );
    assert_eq!(tallies.rejected[Reason::Control as usize], 1);
    assert_eq!(
        String::from_utf8_lossy(&desk.replies),
        "{\"jumpseat\":{\"accepted\":2,\"missed\":0,\"rejected\":0,\"synced\":42}}\n\
         {\"accepted\":3,\"first_error\":{\"column\":21,\"detail\":\"not a control line: source, clock, line, sender, next, ack, \
         sync, missed and time are allowed\",\"line\":5,\"reason\":\"control\"},\"missed\":0,\"rejected\":1,\
         \"truncated\":0}\n"
    );
}

#[test]
fn lines_have_the_numbers_that_the_sender_says() {
    let mut desk = Desk::new(ROOMY);
    desk.feed(b"{\"jumpseat\":{\"source\":\"app\"}}\n{\"jumpseat\":{\"line\":70}}\n{}\n\n{\"a\":}\n{oops\n");
    desk.finish();
    let replies = String::from_utf8_lossy(&desk.replies);
    assert!(replies.contains("\"line\":72"), "{replies}");
    let mut desk = Desk::new(ROOMY);
    // A number that leaves no room for those behind it is made smaller.
    desk.feed(b"{\"jumpseat\":{\"line\":18446744073709551615,\"ack\":true}}\n{oops\n{}\n{}\n");
    desk.finish();
    let replies = String::from_utf8_lossy(&desk.replies);
    assert!(replies.contains("\"line\":9223372036854775808"), "{replies}");
}

#[test]
fn numeric_times_of_other_clocks_become_real_times() {
    for clock in [SenderClock::Monotonic, SenderClock::Boottime] {
        let mut desk = Desk::new(ROOMY);
        let (then, now) = (clock.now().expect("it is there"), SenderClock::Realtime.now().expect("too"));
        let (sec, nsec) = (then / 1_000_000_000, then % 1_000_000_000);
        desk.feed(format!("{{\"jumpseat\":{{\"clock\":\"{}\"}}}}\n", clock.word()).as_bytes());
        // Seconds and nanoseconds, as numbers and in text; text in RFC 3339 and events without a time are real.
        for time in [format!("{sec}.{nsec:09}"), format!("{then}"), format!("\"{then}\"")] {
            desk.feed(format!("{{\"time\":{time}}}\n").as_bytes());
        }
        desk.feed(b"{\"time\":\"1970-01-01T00:00:09Z\"}\n{}\n{\"time\":99999999999999999999}\n");
        desk.feed(format!("{{\"jumpseat\":{{\"missed\":1,\"time\":{then}}}}}\n").as_bytes());
        desk.feed(b"{\"jumpseat\":{\"clock\":\"realtime\"}}\n{\"time\":7}\n");
        desk.finish();
        let (records, _) = desk.records();
        let times: Vec<f64> =
            records.iter().map(|record| record.split(' ').nth(1).unwrap().parse().unwrap()).collect();
        let now = now as f64 / 1e9;
        for time in [times[0], times[1], times[2], times[5]] {
            assert!((time - now).abs() < 5.0, "{now}: {records:?}");
        }
        assert_eq!((times[0], times[1]), (times[2], times[2]));
        assert_eq!([times[3], times[4], times[6]], [9.0, 1000.000000005, 7.0], "{records:?}");
        assert_eq!(
            desk.first_error(),
            "7:9 time: a number that is no time of a clock: write seconds with a fraction or whole nanoseconds"
        );
    }
}

#[test]
fn a_clock_that_is_none_is_refused_with_what_is_allowed() {
    let mut desk = Desk::new(ROOMY);
    desk.feed(b"{}\n{\"jumpseat\":{\"clock\":\"sundial\"}}\n{\"time\":7}\n");
    desk.finish();
    assert_eq!(desk.first_error(), "2:30 control: not a clock: realtime, monotonic and boottime are allowed");
    assert_eq!(desk.records().0[1], "default: 7.000000000 point {}");
}

#[test]
fn fields_beyond_the_cap_are_folded() {
    let registry = RegistryConfig { max_fields: 17, ..RegistryConfig::new(400) };
    let mut desk = Desk::with(ROOMY, &registry, 10);
    desk.feed(b"{\"one\":1,\"two\":2,\"three\":\"x\",\"four\":1.5}\n");
    let (records, tallies) = desk.records();
    assert_eq!(
        records,
        [r#"default: 1000.000000005 point {one 1, other "two=2", other "three=x", other "four=1.5"}"#]
    );
    assert_eq!(tallies.folded, 3);
}

#[test]
fn long_names_of_nested_objects_do_not_multiply_memory() {
    let limits = Limits { max_line: 64 * 1024, max_field: 1024, truncate: true };
    let mut desk = Desk::new(limits);
    let members = r#""a":1,"#.repeat(10_000);
    desk.feed(format!("{{\"{}\":{{{members}\"z\":0}}}}\n", "n".repeat(120)).as_bytes());
    assert_eq!(desk.first_error().split(' ').nth(1), Some("oversize_line:"));
}

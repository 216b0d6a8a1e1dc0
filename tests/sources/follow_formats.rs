//! Every format through the real agent, and what hostile writers may put into files.

use std::fs;
use std::io::{Seek, SeekFrom, Write};

use crate::follow_support::Agent;
use support::eventually;

/// A record as `flags type severity message {field value, ...}`, for comparison.
fn shown(agent: &Agent, source: &str) -> Vec<String> {
    let records = agent.recent(source);
    let text = |record: &support::Record| {
        let params = record
            .params
            .iter()
            .map(|(name, value)| format!("{} {value}", name.strip_prefix("jumpseat.field.").unwrap_or(name)));
        format!("{} {}", record.time, params.collect::<Vec<_>>().join(", "))
    };
    records.iter().map(text).collect()
}

const FORMATS: &str = r#"
[[file]]
path = "DIR/access.log"
format = "plain"
pattern = '^(?<host>\S+) \S+ \S+ \[(?<time>[^\]]+)\] "(?<message>(?<type>\w+) [^"]*)" (?<status>\d+) (?<bytes>\d+|-)(?: (?<seconds>[\d.]+))?'
from = "beginning"
[[file]]
path = "DIR/lines.json"
format = "json"
from = "beginning"
[[file]]
path = "DIR/app.logfmt"
format = "logfmt"
from = "beginning"
[[file]]
path = "DIR/syslog"
format = "syslog"
from = "beginning"
[[file]]
path = "DIR/own.txt"
format = "plain"
pattern = '^(?<time>[\d.]+ [\d:]+) (?<severity>\w+) (?<id>\w+) (?<message>.*)$'
time_format = "%d.%m.%Y %H:%M:%S"
from = "beginning"
"#;

#[test]
fn every_format_becomes_records_with_types_and_times() {
    let mut agent = Agent::new(FORMATS);
    agent.set("TZ", "UTC");
    agent.append(
        "access.log",
        "10.0.0.1 - - [20/Nov/2026:13:16:06 +0000] \"GET /x HTTP/1.1\" 200 512 0.25\n\
         nonsense\n\
         10.0.0.2 - - [20/Nov/2026:14:16:07 +0100] \"POST / HTTP/1.1\" 503 -\n\
         10.0.0.2 - - [20/Nov/2026] \"POST / HTTP/1.1\" 503 -\n",
    );
    agent.append(
        "lines.json",
        "{\"time\":\"2026-11-20T13:16:06.5Z\",\"type\":\"t\",\"level\":\"warn\",\"msg\":\"m\",\"span_id\":7,\"n\":1.5}\n{\"a\":\n\n",
    );
    agent.append(
        "app.logfmt",
        "ts=2026-11-20T13:16:06Z level=info msg=\"a \\\"b\\\"\" latency=1.5 n=-3 version=1.2.3 retry\nbroken=\"x\n",
    );
    agent.append(
        "syslog",
        "<34>1 2026-11-20T13:16:06.003Z host.example su 12 ID47 [sd@1 ip=\"10.0.0.1\" q=\"a\\\"b\"][x y=\"z\"] 'su' failed\n\
         <13>Nov 20 13:16:06 host app[123]: an old text\n\
         2026-11-20T13:16:06.25+00:00 host kernel: [1.5] no pid\n\
         <191>1 - - - - - -\n\
         no time at all\n",
    );
    agent.append("own.txt", "20.11.2026 13:16:06 LOUD ab12 text\n20.11.2026 13:16:07 err 12 text\n");
    agent.start();
    agent.wait_received("access", 2);
    assert_eq!(
        shown(&agent, "access"),
        [
            "13:16:06.000 type \"GET\", message \"GET /x HTTP/1.1\", host \"10.0.0.1\", status 200, bytes 512, seconds 0.25",
            "13:16:07.000 type \"POST\", message \"POST / HTTP/1.1\", host \"10.0.0.2\", status 503, bytes_string \"-\"",
        ]
    );
    assert_eq!(agent.number("jumpseat.source.malformed", "access"), 2);
    agent.wait_received("lines", 1);
    assert_eq!(
        shown(&agent, "lines"),
        ["13:16:06.500 span_id_u64 7, type \"t\", severity \"warning\", message \"m\", n 1.5"]
    );
    agent.wait_received("app", 1);
    let fields = "latency 1.5, n_i64 -3, version \"1.2.3\", retry 1";
    assert_eq!(
        shown(&agent, "app").iter().map(|line| line.replace("n -3", "n_i64 -3")).collect::<Vec<_>>(),
        [format!("13:16:06.000 severity \"info\", message \"a \"b\"\", {fields}")]
    );
    agent.wait_received("syslog", 4);
    let lines = shown(&agent, "syslog");
    assert_eq!(
        lines[0],
        "13:16:06.003 type \"su\", severity \"critical\", message \"'su' failed\", facility \"auth\", \
         host \"host.example\", pid 12, msgid \"ID47\", sd_1_ip \"10.0.0.1\", sd_1_q \"a\"b\", x_y \"z\""
    );
    assert_eq!(
        lines[1],
        "13:16:06.000 type \"app\", severity \"notice\", message \"an old text\", facility \"user\", host \"host\", pid 123"
    );
    assert_eq!(lines[2], "13:16:06.250 type \"kernel\", message \"[1.5] no pid\", host \"host\"");
    assert!(lines[3].ends_with(" severity \"debug\", facility \"local7\""), "{}", lines[3]);
    agent.wait_received("own", 2);
    assert_eq!(
        shown(&agent, "own"),
        [
            "13:16:06.000 span_id \"ab12\", severity \"LOUD\", message \"text\"",
            "13:16:07.000 span_id_u64 12, severity \"error\", message \"text\"",
        ]
    );
    for source in ["lines", "app", "syslog"] {
        assert_eq!(agent.number("jumpseat.source.malformed", source), 1, "{source}");
    }
    // With file, line and column.
    let log = agent.text();
    for (file, line, column, what) in [
        ("access.log", 2, 1, "a line that the pattern does not match"),
        ("access.log", 4, 15, "not a time in one of the usual forms: say how it is written with time_format"),
        ("lines.json", 2, 6, "the line ends in the middle of the object"),
        ("syslog", 5, 1, "neither a priority nor a time as syslog daemons write it"),
    ] {
        let found = log.lines().any(|text| {
            text.contains(&format!("{file} (read at offset 0): line refused: {what}"))
                && text.contains(&format!("line={line}"))
                && text.contains(&format!("column={column}"))
        });
        assert!(found, "{file}:{line}:{column}: {what}\n{log}");
    }
}

const LOGGERS: &str = r#"
[[file]]
path = "DIR/app.log"
from = "beginning"
time_zone = "Europe/Berlin"
multiline = "python"
[[file]]
path = "DIR/access.log"
format = "nginx"
from = "beginning"
[[file]]
path = "DIR/error_log"
format = "apache"
from = "beginning"
[[file]]
path = "DIR/kubelet.log"
format = "klog"
from = "beginning"
[[file]]
path = "DIR/ecs.json"
format = "json"
from = "beginning"
[[command]]
run = "cat DIR/own.json"
restart = "never"
source = "own"
format = "json"
fields = { time = "when", severity = "grade", message = "log", type = "kind" }
"#;

#[test]
fn what_loggers_and_web_servers_write_has_its_times_severities_and_types() {
    let mut agent = Agent::new(LOGGERS);
    agent.set("TZ", "UTC");
    agent.append(
        "app.log",
        "2026-11-20 14:16:06,123 ERROR root: no\n2026-11-20 14:16:07,001 - app - WARNING - slow\nNo time\n",
    );
    agent.append(
        "access.log",
        "10.0.0.1 - - [20/Nov/2026:13:16:06 +0000] \"GET /x HTTP/1.1\" 200 512 \"-\" \"curl\"\n\
         nonsense\n\
         2026/11/20 13:16:07 [crit] 31#7: *9 no, client: ::1, request: \"GET / HTTP/1.1\"\n",
    );
    agent.append(
        "error_log",
        "[Fri Nov 20 13:16:06.5 2026] [core:error] [pid 7:tid 8] [client ::1:80] AH00128: no file\n",
    );
    agent.append("kubelet.log", "E1120 13:16:06.250000    7 pod.go:12] \"no pod\" err=\"late\" n=5\n");
    agent.append(
        "ecs.json",
        "{\"@timestamp\":\"2026-11-20T13:16:06.5Z\",\"log\":{\"level\":\"warn\"},\"message\":\"m\"}\n\
         {\"ts\":1795180566.25,\"lvl\":\"error\",\"msg\":\"m\"}\n",
    );
    agent.append(
        "own.json",
        "{\"when\":1795180566123,\"grade\":\"fatal\",\"log\":\"m\",\"kind\":\"k\",\"level\":\"x\"}\n",
    );
    agent.start();
    agent.wait_received("app", 3);
    let lines = shown(&agent, "app");
    assert_eq!(
        lines[..2],
        [
            "13:16:06.123 severity \"error\", message \"2026-11-20 14:16:06,123 ERROR root: no\"",
            "13:16:07.001 severity \"warning\", message \"2026-11-20 14:16:07,001 - app - WARNING - slow\"",
        ]
    );
    assert!(lines[2].ends_with(" message \"No time\""), "{}", lines[2]);
    for (source, expected) in [
        (
            "access",
            &[
                "13:16:06.000 type \"access\", message \"GET /x HTTP/1.1\", client \"10.0.0.1\", method \"GET\", path \"/x\", \
                 protocol \"HTTP/1.1\", status 200, bytes 512, agent \"curl\"",
                "13:16:07.000 type \"error\", severity \"critical\", message \"no\", pid 31, tid 7, connection 9, client \"::1\", \
                 request \"GET / HTTP/1.1\"",
            ][..],
        ),
        (
            "error_log",
            &[
                "13:16:06.500 type \"error\", severity \"error\", message \"AH00128: no file\", module \"core\", pid 7, tid 8, \
               client \"::1:80\", code \"AH00128\"",
            ],
        ),
        (
            "kubelet",
            &[
                "13:16:06.250 severity \"error\", message \"no pod\", pid 7, file \"pod.go\", line 12, err \"late\", n 5",
            ],
        ),
        (
            "ecs",
            &[
                "13:16:06.500 severity \"warning\", message \"m\"",
                "13:16:06.250 severity \"error\", message \"m\"",
            ],
        ),
        ("own", &["13:16:06.123 type \"k\", severity \"critical\", message \"m\", level \"x\""]),
    ] {
        agent.wait_received(source, expected.len() as u64);
        assert_eq!(shown(&agent, source), expected, "{source}");
    }
    assert_eq!(agent.number("jumpseat.source.malformed", "access"), 1);
    assert!(agent.text().contains("not a line of nginx: neither"), "{}", agent.text());
}

#[test]
fn a_line_without_end_is_cut_or_refused_in_bounded_memory() {
    const GIB: u64 = 1 << 30;
    let agent = Agent::new(
        "[[file]]\npath = \"DIR/cut.log\"\nfrom = \"beginning\"\n\
         [[file]]\npath = \"DIR/refused.log\"\nfrom = \"beginning\"\noversize = \"refuse\"\n",
    );
    for name in ["cut.log", "refused.log"] {
        let mut file = fs::File::create(agent.path(name)).expect("writable");
        file.write_all(b"x").expect("writable");
        // A hole takes no space; it reads as NULs.
        file.seek(SeekFrom::Start(GIB)).expect("a file");
        file.write_all(b"\nbehind it\n").expect("writable");
    }
    let mut agent = agent;
    agent.start();
    agent.wait_received("cut", 2);
    agent.wait_received("refused", 1);
    let messages = agent.messages("cut");
    assert!(messages[0].starts_with("x\u{fffd}") && messages[0].len() <= 16 * 1024, "{}", messages[0].len());
    assert_eq!(messages[1], "behind it");
    assert_eq!(agent.messages("refused"), ["behind it"]);
    assert_eq!(agent.number("jumpseat.source.truncated", "cut"), 1);
    assert_eq!(agent.number("jumpseat.source.oversized", "refused"), 1);
    assert_eq!(agent.number("jumpseat.source.bytes", "cut"), GIB + 11);
    let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux has it");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak < 200 * 1024, "{peak} KiB");
}

#[test]
fn rubbish_is_counted_and_loses_nothing_else() {
    let agent = Agent::started(
        "[[file]]\npath = \"DIR/text.log\"\nfrom = \"beginning\"\n\
         [[file]]\npath = \"DIR/json.log\"\nformat = \"json\"\nfrom = \"beginning\"\n\
         [[file]]\npath = \"DIR/names.log\"\nformat = \"logfmt\"\nfrom = \"beginning\"\n[fields]\nmax = 200\n",
    );
    agent.append("text.log", b"a\0b\ncaf\xe9\nfine\r\n\n");
    agent.wait_messages("text", &["a\u{fffd}b", "caf\u{fffd}", "fine"]);
    assert_eq!(agent.number("jumpseat.self.follow.repaired", "text"), 2);

    let deep = "{\"a\":".repeat(10_000);
    agent.append(
        "json.log",
        format!("{deep}\n{{\"source\":\"a b\"}}\n{{\"jumpseat\":{{\"source\":\"x\"}}}}\n"),
    );
    agent.append("json.log", b"{\"a\":\"\xff\"}\n{\"a\":\"\0\"}\n{\"message\":\"fine\"}\n");
    agent.wait_received("json", 2);
    assert_eq!(agent.messages("json"), ["", "fine"]);
    assert_eq!(agent.number("jumpseat.source.malformed", "json"), 4);

    // A million names.
    let mut lines = String::new();
    for line in 0..20_000 {
        for n in 0..50 {
            lines.push_str(&format!("k{line}_{n}=1 "));
        }
        lines.push('\n');
    }
    agent.append("names.log", &lines);
    agent.append("names.log", format!("{}=1 message=fine\n", "n".repeat(1000)));
    agent.wait_received("names", 20_001);
    assert_eq!(agent.messages("names").last().map(String::as_str), Some("fine"));
    assert!(agent.total("jumpseat.self.fields.known") <= 200);
    assert!(agent.total("jumpseat.self.fields.folded") > 900_000);
    eventually("nothing to be left", || {
        (agent.number("jumpseat.self.follow.behind", "names") == 0).then_some(())
    });
    assert_eq!(agent.number("jumpseat.source.missed", "names"), 0);
}

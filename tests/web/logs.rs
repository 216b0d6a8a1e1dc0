//! Loki's API, as Grafana's data source uses it: lines of two hosts, live and of an archive, and as they come.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value as Json, json};
use support::{AgentSpec, PrivatePmcd, eventually, temp_dir, wait_until};

use crate::seat::kill_agent;
use crate::traces::{Host, escaped, now, recorded, web_on};
use crate::web_support::{Answer, Web};

/// Lines of two sources at a time in milliseconds: three of `app`, of which one is an error, and one of `db`.
fn feed(web1: &Host, web2: &Host, at: u64) {
    let line = |millis: u64, rest: &str| {
        format!("{{\"time\":{}.{:03},{rest}}}\n", (at + millis) / 1000, (at + millis) % 1000)
    };
    let app = [
        line(0, r#""type":"login","message":"welcome back","user":"ann","severity":"info""#),
        line(
            10,
            r#""type":"order","message":"no such item","user":"bob","severity":"error","n":7,"took":"250ms","trace_id":"t-1""#,
        ),
        line(20, r#""type":"login","message":"welcome \"back\"","user":"bob b","severity":"notice""#),
    ];
    web1.seat.feed(["--source", "app"], &app.concat()).ok();
    web2.seat.feed(["--source", "db"], &line(15, r#""type":"query","n":12,"severity":"debug""#)).ok();
}

/// The lines of an answer: labels, time after `at` in milliseconds, text.
#[track_caller]
fn lines(answer: &Json, at: u64) -> Vec<(String, u64, String)> {
    assert_eq!(
        (&answer["status"], &answer["data"]["resultType"]),
        (&json!("success"), &json!("streams")),
        "{answer}"
    );
    let mut lines = Vec::new();
    for stream in answer["data"]["result"].as_array().expect("a list") {
        let labels = &stream["stream"];
        let of = |name: &str| labels[name].as_str().unwrap_or("-").to_owned();
        for value in stream["values"].as_array().expect("a list") {
            let nanos: u64 = value[0].as_str().expect("a text").parse().expect("a number");
            let text = value[1].as_str().expect("a text").to_owned();
            lines.push((
                format!("{}/{}/{}/{}", of("host"), of("source"), of("type"), of("level")),
                nanos / 1_000_000 - at,
                text,
            ));
        }
    }
    lines.sort_by_key(|(_, millis, _)| *millis);
    lines
}

fn range(web: &Web, query: &str, at: u64, more: &str) -> Answer {
    let (start, end) = ((at - 10_000) * 1_000_000, (at + 10_000) * 1_000_000);
    web.get(&format!(
        "/loki/api/v1/query_range?query={}&start={start}&end={end}&step=1000ms{more}",
        escaped(query)
    ))
}

/// Everything that Grafana asks about these lines.
#[track_caller]
fn expect_lines(web: &Web, at: u64) {
    let all = [
        ("web1/app/login/info", 0, r#"welcome back user=ann"#),
        ("web1/app/order/error", 10, r#"no such item user=bob n=7 took=250ms trace_id=t-1"#),
        ("web2/db/query/debug", 15, r#"query n=12"#),
        ("web1/app/login/info", 20, r#"welcome "back" user="bob b""#),
    ];
    let of = |places: &[usize]| -> Vec<_> {
        places
            .iter()
            .map(|&place| all[place])
            .map(|(labels, millis, text)| (labels.to_owned(), millis, text.to_owned()))
            .collect()
    };
    let ask = |query: &str, more: &str| {
        let answer = range(web, query, at, more);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("application/json")),
            "{query}: {}",
            answer.text()
        );
        answer.json()
    };
    let mut told = Json::Null;
    let came = wait_until(Duration::from_secs(20), || {
        told = ask(r#"{host=~"web."} | drop metric"#, "");
        (lines(&told, at) == of(&[0, 1, 2, 3])).then_some(())
    });
    assert!(came.is_some(), "{told}\n{}", web.get("/records/hosts").text());
    for (query, places) in [
        (r#"{source="app"}"#, &[0, 1, 3][..]),
        (r#"{source!="app",host=~"web[12]"}"#, &[2]),
        (r#"{level="error"} |= "item""#, &[1]),
        (r#"{host="web1"} != "item" |~ "user=.b""#, &[3]),
        (r#"{host="web1"} |~ "user=\"?bob""#, &[1, 3]),
        (r#"{host="web1"} |= "ann" or "bob b""#, &[0, 3]),
        (r#"{severity="notice"}"#, &[3]),
        (r#"{host=~".+"} | json | n > 6"#, &[1, 2]),
        (r#"{host=~".+"} | logfmt | n > 6 and took < 1s"#, &[1]),
        (r#"{host=~".+"} | trace_id="t-1""#, &[1]),
        (r#"{nothing="at all"}"#, &[]),
    ] {
        assert_eq!(lines(&ask(query, ""), at), of(places), "{query}");
    }
    // So many, from either end.
    let of_all = r#"{host=~".+"}"#;
    assert_eq!(lines(&ask(of_all, "&limit=2&direction=backward"), at), of(&[2, 3]));
    assert_eq!(lines(&ask(of_all, "&limit=2&direction=forward"), at), of(&[0, 1]));
    let newest = ask(r#"{source="app",type="login"} | drop severity"#, "&limit=10");
    let times = &newest["data"]["result"][0]["values"];
    assert!(times[0][0].as_str() > times[1][0].as_str(), "the newest first: {times}");

    // Labels by their kind, as Grafana takes them.
    let query = format!(
        "/loki/api/v1/query_range?query={}&start={}",
        escaped(r#"{source="app",type="order"} | logfmt"#),
        (at - 1000) * 1_000_000
    );
    let kinds =
        web.ask("GET", &query, &[("X-Loki-Response-Encoding-Flags", "categorize-labels")], b"").json();
    assert_eq!(kinds["data"]["encodingFlags"], json!(["categorize-labels"]));
    let result = &kinds["data"]["result"][0];
    assert_eq!(
        result["stream"],
        json!({ "host": "web1", "source": "app", "type": "order", "level": "error", "severity": "error", "metric": result["stream"]["metric"] })
    );
    assert_eq!(result["values"][0][2]["structuredMetadata"], json!({ "trace_id": "t-1" }));
    assert_eq!(result["values"][0][2]["parsed"]["user"], "bob");
    // The same as a form.
    let form = format!("query={}&start={}&limit=5", escaped(r#"{source="db"}"#), (at - 1000) * 1_000_000);
    let form = web.ask(
        "POST",
        "/loki/api/v1/query_range",
        &[("Content-Type", "application/x-www-form-urlencoded")],
        form.as_bytes(),
    );
    assert_eq!(lines(&form.json(), at), of(&[2]));

    // The panel above the lines.
    let volume =
        ask(r#"sum by (level, detected_level) (count_over_time({host=~".+"} | drop __error__[20s]))"#, "");
    assert_eq!(volume["data"]["resultType"], "matrix");
    let counts: Vec<(String, String)> = volume["data"]["result"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|series| {
            let last = series["values"].as_array().and_then(|values| values.last()).expect("a value");
            (
                series["metric"]["level"].as_str().expect("a level").to_owned(),
                last[1].as_str().expect("a text").to_owned(),
            )
        })
        .collect();
    let expected = [("debug", "1"), ("error", "1"), ("info", "2")];
    assert_eq!(counts, expected.map(|(level, count)| (level.to_owned(), count.to_owned())));
    let end = (at + 1000) * 1_000_000;
    let instant = |query: &str| {
        web.json(&format!("/loki/api/v1/query?time={end}&query={}", escaped(query)))["data"].clone()
    };
    let value = |query: &str| instant(query)["result"][0]["value"][1].clone();
    assert_eq!(value(r#"sum(count_over_time({host=~".+"}[1m]))"#), "4");
    assert_eq!(value(r#"sum(rate({source="app"}[1m])) * 60"#), "3");
    assert_eq!(
        value(
            r#"sum(count_over_time({source="app"} |= "item" [1m])) / sum(count_over_time({source="app"}[1m])) * 300"#
        ),
        "100"
    );
    assert_eq!(value(r#"topk(1, sum by (source) (count_over_time({host=~".+"}[1m])))"#), "3");
    assert_eq!(
        instant(r#"topk(1, sum by (source) (count_over_time({host=~".+"}[1m])))"#)["result"][0]["metric"],
        json!({ "source": "app" })
    );
    assert_eq!(value(r#"sum(bytes_over_time({source="db"}[1m]))"#), "10");

    // Names and values, as the editor asks for them.
    let window = format!("start={}&end={end}", (at - 1000) * 1_000_000);
    let list = |path: &str| {
        web.json(&format!("/loki/api/v1/{path}{}{window}", if path.contains('?') { '&' } else { '?' }))["data"].clone()
    };
    assert_eq!(list("labels"), json!(["host", "level", "metric", "severity", "source", "type"]));
    assert_eq!(list("label/source/values"), json!(["app", "db"]));
    assert_eq!(
        list(&format!("label/type/values?query={}", escaped(r#"{source="app"}"#))),
        json!(["login", "order"])
    );
    assert_eq!(list("label/nothing/values"), json!([]));
    let series = list(&format!(
        "series?match[]={}&match[]={}",
        escaped(r#"{source="db"}"#),
        escaped(r#"{type="order"}"#)
    ));
    let sources: Vec<&Json> =
        series.as_array().expect("a list").iter().map(|labels| &labels["source"]).collect();
    assert_eq!(sources, ["app", "db"]);
    let stats =
        web.json(&format!("/loki/api/v1/index/stats?query={}&{window}", escaped(r#"{source="app"}"#)));
    assert_eq!((&stats["entries"], &stats["streams"]), (&json!(3), &json!(3)));
    let volume =
        web.json(&format!("/loki/api/v1/index/volume?query={}&{window}", escaped(r#"{host=~".+"}"#)));
    assert_eq!(volume["data"]["result"].as_array().map(Vec::len), Some(2), "{volume}");

    // What Logs Drilldown asks for.
    let detected =
        |path: &str, query: &str| web.json(&format!("/loki/api/v1/{path}?query={}&{window}", escaped(query)));
    let labels = detected("detected_labels", r#"{source="app"}"#);
    let cardinality = |all: &Json, name: &str| {
        let all = all.as_array().expect("a list");
        all.iter().find(|one| one["label"] == name).map(|one| one["cardinality"].clone())
    };
    let labels = &labels["detectedLabels"];
    assert_eq!((cardinality(labels, "type"), cardinality(labels, "host")), (Some(json!(2)), Some(json!(1))));
    let fields = detected("detected_fields", r#"{source="app"}"#);
    let field = |name: &str| fields["fields"].as_array()?.iter().find(|field| field["label"] == name);
    let known = |kind: &str, cardinality: u32, name: &str| {
        let wanted =
            json!({ "label": name, "type": kind, "cardinality": cardinality, "parsers": ["logfmt"] });
        assert_eq!(field(name), Some(&wanted), "{fields}");
    };
    known("string", 3, "user");
    known("int", 1, "n");
    known("duration", 1, "took");
    assert_eq!(fields["limit"], 1000);
    let users = detected("detected_field/user/values", r#"{source="app"}"#);
    assert_eq!(users, json!({ "values": ["ann", "bob", "bob b"], "limit": 1000 }));
    let none = detected("detected_fields", r#"{source="nobody"}"#);
    assert_eq!(none, json!({ "fields": [], "limit": 1000 }));
    assert_eq!(detected("patterns", r#"{source="app"}"#), json!({ "status": "success", "data": [] }));
    let limits = web.json("/loki/api/v1/drilldown-limits");
    assert_eq!(
        (&limits["pattern_ingester_enabled"], &limits["limits"]["volume_enabled"]),
        (&json!(false), &json!(true))
    );
    let bad = web.get(&format!("/loki/api/v1/detected_fields?query={}", escaped("{")));
    assert_eq!(bad.status, 400, "{}", bad.text());
}

#[test]
fn lines_are_found_live_and_in_archives() {
    let dir = temp_dir();
    let (web1, web2) = (Host::start("web1"), Host::start("web2"));
    let at = now() - 60_000;
    let archives = dir.path().join("archives");
    std::fs::create_dir(&archives).expect("a directory");
    recorded(&web1, &archives.join("web1"), 3, || {
        recorded(&web2, &archives.join("web2"), 1, || feed(&web1, &web2, at));
    });
    let live = web_on(dir.path(), &[&web1, &web2], &[]);
    expect_lines(&live, at);
    // As Grafana tests the data source.
    assert_eq!(live.get("/ready").text(), "ready\n");
    let health = live.json(&format!(
        "/loki/api/v1/query?query={}&time=4000000000&direction=backward",
        escaped("vector(1)+vector(1)")
    ));
    assert_eq!(
        (&health["data"]["resultType"], &health["data"]["result"]),
        (&json!("vector"), &json!([{ "metric": {}, "value": [4_000_000_000_u64, "2"] }]))
    );
    assert_eq!(live.json("/loki/api/v1/status/buildinfo")["version"], "2.9.0");
    let base = archives.display().to_string();
    expect_lines(&web_on(dir.path(), &[&web1, &web2], &["-a", &base]), at);
    expect_lines(&Web::start(dir.path(), &["-a", &base]), at);
}

/// A client of `tail`.
struct Socket {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl Socket {
    /// Opens one, or the answer that refuses it.
    #[track_caller]
    fn open(web: &Web, query: &str) -> Result<Socket, String> {
        let mut stream = TcpStream::connect(("127.0.0.1", web.port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
        let head = format!(
            "GET /loki/api/v1/tail?{query} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            web.port
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("it answers");
            bytes.extend(byte);
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        if !head.starts_with("HTTP/1.1 101") {
            let mut body = [0; 200];
            let len = stream.read(&mut body).unwrap_or(0);
            return Err(head + &String::from_utf8_lossy(&body[..len]));
        }
        assert!(head.to_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
        Ok(Socket { stream, rest: Vec::new() })
    }

    /// The next message that is a text.
    #[track_caller]
    fn next(&mut self) -> Json {
        loop {
            let head = self.take(2);
            let len = match head[1] {
                126 => usize::from(u16::from_be_bytes(self.take(2).try_into().expect("two"))),
                127 => usize::try_from(u64::from_be_bytes(self.take(8).try_into().expect("eight")))
                    .expect("not so long"),
                len => usize::from(len),
            };
            let body = self.take(len);
            match head[0] {
                0x81 => return serde_json::from_slice(&body).expect("JSON"),
                0x89 => {}
                other => panic!("frame {other:x} {body:?}"),
            }
        }
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        while self.rest.len() < len {
            let mut bytes = [0; 4096];
            let read = self.stream.read(&mut bytes).expect("a message");
            assert!(read > 0, "it has ended");
            self.rest.extend(&bytes[..read]);
        }
        self.rest.drain(..len).collect()
    }
}

#[test]
fn lines_come_as_they_happen_and_after_a_restart_of_the_collector() {
    let dir = temp_dir();
    let mut host = Host::start("web1");
    let web = web_on(dir.path(), &[&host], &[]);
    let say = |host: &Host, text: &str| {
        host.seat
            .feed(["--source", "app"], &format!("{{\"message\":\"{text}\",\"severity\":\"warning\"}}\n"))
            .ok();
    };
    say(&host, "before");
    eventually("the first line", || {
        let query = escaped(r#"{source="app"}"#);
        let found = web.json(&format!("/loki/api/v1/query_range?query={query}"));
        found["data"]["result"][0]["values"].is_array().then_some(())
    });
    let mut socket =
        Socket::open(&web, &format!("query={}", escaped(r#"{source="app"} != "not this""#))).expect("open");
    let text = |told: &Json| told["streams"][0]["values"][0][1].as_str().expect("a line").to_owned();
    let first = socket.next();
    assert_eq!(
        (text(&first), &first["streams"][0]["stream"]["level"]),
        ("before".to_owned(), &json!("warning"))
    );
    say(&host, "not this");
    say(&host, "now");
    assert_eq!(text(&socket.next()), "now");
    host.pmcd.stop();
    host.pmcd.start_again();
    host.pmcd.wait_ready("jumpseat");
    say(&host, "after");
    assert_eq!(text(&socket.next()), "after");
    // From now on only.
    let start = escaped(&(now() * 1_000_000 + 60_000_000_000).to_string());
    let mut late = Socket::open(&web, &format!("query={}&start={start}", escaped("{}"))).expect("open");
    say(&host, "last");
    assert_eq!((text(&late.next()), text(&socket.next())), ("last".to_owned(), "last".to_owned()));
    for (query, status, told) in [
        ("query=", "400", "parse error at line 1, col 1"),
        ("query=%7Ba%3D", "400", "parse error at line 1, col 4"),
        ("query=vector(1)", "400", "only label matchers"),
        ("query=%7B%7D&limit=99999", "400", "max entries limit"),
        ("query=%7B%7D&delay_for=60", "400", "delay_for"),
    ] {
        let refused = Socket::open(&web, query).err().expect("refused");
        assert!(
            refused.starts_with(&format!("HTTP/1.1 {status}")) && refused.contains(told),
            "{query}: {refused}"
        );
    }
    let plain = web.get("/loki/api/v1/tail?query=%7B%7D");
    assert!((400..500).contains(&plain.status), "{}: {}", plain.status, plain.text());
}

#[test]
fn wrong_and_hostile_queries_are_told_in_lokis_form() {
    let dir = temp_dir();
    let host = Host::start("web1");
    let web = web_on(dir.path(), &[&host], &[]);
    let query = |text: &str| format!("query_range?query={}", escaped(text));
    let deep = query(&format!("{}1{}", "(".repeat(3000), ")".repeat(3000)));
    let long = query(&format!("{{a=\"{}\"}}", "x".repeat(17_000)));
    for (path, told) in [
        (query(""), "parse error at line 1, col 1: syntax error: unexpected end of the query"),
        (query("{a=}"), "parse error at line 1, col 4: syntax error: unexpected }, expecting a text"),
        (query("{a=~\"(\"}"), "parse error at line 1, col 5: error parsing regexp: unclosed group"),
        (query("{a=~\"((a{1000}){1000}){1000}\"}"), "parse error at line 1, col 5: error parsing regexp"),
        (
            query("{} | line_format \"x\""),
            "parse error at line 1, col 6: syntax error: unexpected line_format",
        ),
        (deep, "parse error at line 1, col 33: more than 32 expressions in one another"),
        (long, "parse error at line 1, col 1: the query has more than"),
        (query("{}") + "&limit=5001", "max entries limit per query exceeded"),
        (query("{}") + "&limit=-1", "limit must be a positive value"),
        (query("{}") + "&direction=up", "invalid direction 'up'"),
        (query("{}") + "&start=yesterday", "could not parse 'yesterday' as start"),
        (query("{}") + "&start=99999999999999999999999", "could not parse"),
        (query("{}") + "&start=2000000000&end=1000000000", "end timestamp must not be before"),
        (query("rate({}[1m])") + "&step=1ms", "exceeded maximum resolution of 11,000 points"),
        (query("rate({}[1m])") + "&step=0", "zero or negative query resolution"),
        (
            query(
                "count_over_time({}[1m])+count_over_time({}[1m])+count_over_time({}[1m])+count_over_time({}[1m])+count_over_time({}[1m])+count_over_time({}[1m])+count_over_time({}[1m])+count_over_time({}[1m])+count_over_time({}[1m])",
            ),
            "more than 8 ranges",
        ),
        ("query?query=%7B%7D".to_owned(), "log queries are not supported as an instant query type"),
        ("series".to_owned(), "0 matcher groups supplied"),
        ("series?match[]=x".to_owned(), "parse error at line 1, col 1"),
        ("labels?end=x".to_owned(), "could not parse 'x' as end"),
        ("query_range?query=%ff".to_owned(), "the parameters are not UTF-8"),
    ] {
        let answer = web.get(&format!("/loki/api/v1/{path}"));
        let short = path.get(..100).unwrap_or(&path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (400, Some("text/plain; charset=utf-8")),
            "{short}"
        );
        assert!(answer.text().starts_with(told), "{short}: {}", answer.text());
    }
    let big = vec![b'x'; 400_000];
    let form = web.ask("POST", "/loki/api/v1/query_range", &[], &big);
    assert_eq!((form.status, form.text().starts_with("the form has more than")), (400, true));
    // Times at the end of the world.
    for more in [
        "&start=-9223372036854775808&end=9223372036854775807",
        "&start=1&end=9223372036854775807&step=1000000h",
    ] {
        assert_eq!(web.get(&format!("/loki/api/v1/{}{more}", query("{}"))).status, 200, "{more}");
        let rate = web.get(&format!("/loki/api/v1/{}{more}", query("sum(rate({}[1000y]))")));
        assert!(matches!(rate.status, 200 | 400), "{more}: {}", rate.text());
    }
}

#[test]
fn an_agent_that_is_killed_is_followed_on_with_each_record_once() {
    let dir = temp_dir();
    let mut host = Host::start("web1");
    let web = web_on(dir.path(), &[&host], &[]);
    let query = format!("/loki/api/v1/query_range?limit=5000&query={}", escaped(r#"{source="app"}"#));
    let found = || -> Vec<String> {
        let answer = web.json(&query);
        let streams = answer["data"]["result"].as_array().expect("a list").iter();
        let values = streams.flat_map(|stream| stream["values"].as_array().expect("a list"));
        let mut texts: Vec<String> =
            values.map(|value| value[1].as_str().expect("a line").to_owned()).collect();
        texts.sort_unstable();
        texts
    };
    let mut expected = Vec::new();
    for round in 0..3 {
        let texts: Vec<String> = (0..200).map(|n| format!("round {round} line {n:03}")).collect();
        let lines: String = texts.iter().map(|text| format!("{{\"message\":\"{text}\"}}\n")).collect();
        host.seat.feed(["--source", "app"], &lines).ok();
        expected.extend(texts);
        let mut last = Vec::new();
        let came = wait_until(Duration::from_secs(30), || {
            last = found();
            (last == expected).then_some(())
        });
        assert!(
            came.is_some(),
            "round {round}: {} of {}\n{}",
            last.len(),
            expected.len(),
            web.get("/records/hosts").text()
        );
        kill_agent(&mut host.pmcd);
        host.pmcd.wait_ready("jumpseat");
    }
}

#[test]
fn event_records_of_any_agent_are_lines() {
    let dir = temp_dir();
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let web = Web::start(dir.path(), &["-h", &pmcd.inet()]);
    let query = format!(
        "/loki/api/v1/query_range?query={}",
        escaped(r#"{metric="sample.event.records",level="unknown"} |= "sample.event.param_string""#)
    );
    let text = eventually("a line", || {
        let answer = web.json(&query);
        answer["data"]["result"][0]["values"][0][1].as_str().map(str::to_owned)
    });
    assert!(text.contains("sample.event.param_string=\"fetch #"), "{text}");
    let missed = format!(
        "/loki/api/v1/query_range?query={}",
        escaped(r#"{type="missed",level="warning"} | json | missed > 0"#)
    );
    let missed = eventually("a missed record", || {
        let answer = web.json(&missed);
        answer["data"]["result"][0]["values"][0][1].as_str().map(str::to_owned)
    });
    assert!(missed.contains(" records missed missed="), "{missed}");
    let told = web.json("/records/hosts");
    assert!(told["hosts"][0]["missed"].as_u64() > Some(0), "{told}");
}

//! Jaeger's queries, as Grafana's data source and Jaeger's page send them: spans of two hosts and two sources each, live and of
//! archives.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};
use support::{PrivatePmcd, eventually, free_port, temp_dir, wait_until};

use crate::seat::{JUMPSEAT, Seat, Transport};
use crate::web_support::Web;

/// A host with its agent.
pub(crate) struct Host {
    pub pmcd: PrivatePmcd,
    pub seat: Seat,
    pub otlp: u16,
}

impl Host {
    /// A pmcd of this name, whose agent takes lines and OTLP.
    #[track_caller]
    pub(crate) fn start(name: &str) -> Host {
        let otlp = free_port();
        let builder = PrivatePmcd::with([]).options(["-H", name]);
        let seat = Seat::in_dir(builder.dir(), &format!("[otlp]\nlisten = \"localhost:{otlp}\"\n"));
        let agent = seat.agent(Transport::Pipe);
        let pmcd = builder.agent(agent).start();
        pmcd.wait_ready("jumpseat");
        Host { pmcd, seat, otlp }
    }
}

/// `jumpseat web` on hosts, which it has reached.
#[track_caller]
pub(crate) fn web_on(dir: &Path, hosts: &[&Host], more: &[&str]) -> Web {
    let names: Vec<String> = hosts.iter().map(|host| host.pmcd.inet()).collect();
    web_to(dir, &names.iter().map(String::as_str).collect::<Vec<_>>(), more)
}

/// The same, on the collectors at these addresses.
#[track_caller]
fn web_to(dir: &Path, addresses: &[&str], more: &[&str]) -> Web {
    let words = addresses.iter().flat_map(|address| ["-h", address]).chain(more.iter().copied());
    let web = Web::start(dir, &words.collect::<Vec<_>>());
    let mut told = Json::Null;
    let reached = wait_until(Duration::from_secs(20), || {
        told = web.json("/records/hosts");
        let all = told["hosts"].as_array().expect("a list");
        all.iter().all(|host| host["metrics"][0] == "jumpseat.event.highres_records").then_some(())
    });
    assert!(reached.is_some(), "{told}");
    web
}

/// Now, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(age.as_millis()).expect("before the end of time")
}

/// Bytes as they are in a URL.
pub(crate) fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A line of a span, at a time in milliseconds.
fn line(phase: &str, millis: u64, rest: &str) -> String {
    format!("{{\"phase\":\"{phase}\",\"time\":{}.{:03},{rest}}}\n", millis / 1000, millis % 1000)
}

/// Posts JSON to the agent's receiver.
#[track_caller]
pub(crate) fn post(port: u16, path: &str, body: &Json) {
    let body = body.to_string();
    let mut stream = eventually("the OTLP listener", || TcpStream::connect(("localhost", port)).ok());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The trace's id.
const TRACE: &str = "00af3d2b5a6c4e1f8899aabbccddeeff";

/// A request at a time: `web` on one host, by lines, calls `shop` there, by OTLP, which calls `stock` on the other, by OTLP, too, where it
/// fails. And a span that goes on.
fn request(trace: &str, web1: &Host, web2: &Host, at: u64) {
    let ids = format!("\"trace_id\":\"{trace}\",\"span_id\":\"00000000000000a1\"");
    let lines = [
        line("start", at, &format!("{ids},\"type\":\"GET /\",\"kind\":\"server\",\"http.route\":\"/cart\"")),
        line(
            "point",
            at + 5,
            "\"span_id\":\"00000000000000a1\",\"type\":\"cache\",\"message\":\"missed it\",\"age\":7",
        ),
        line("end", at + 90, "\"span_id\":\"00000000000000a1\",\"status\":\"ok\""),
        line("start", at + 95, "\"span_id\":\"77\",\"type\":\"sweep\""),
    ];
    web1.seat.feed(["--source", "web"], &lines.concat()).ok();
    let nanos = |millis: u64| (millis * 1_000_000).to_string();
    let resource = |service: &str| {
        json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": service } },
            { "key": "deployment.environment", "value": { "stringValue": "test" } }] })
    };
    let shop = json!({ "traceId": trace, "spanId": "00000000000000a2", "parentSpanId": "00000000000000a1", "name": "POST /orders",
        "kind": 2, "startTimeUnixNano": nanos(at + 10), "endTimeUnixNano": nanos(at + 80),
        "attributes": [{ "key": "items", "value": { "intValue": "3" } }, { "key": "gift", "value": { "boolValue": true } },
            { "key": "total", "value": { "doubleValue": 4.5 } }],
        "links": [{ "traceId": "00000000000000000000000000000077", "spanId": "0000000000000077" }] });
    let stock = json!({ "traceId": trace, "spanId": "00000000000000a3", "parentSpanId": "00000000000000a2", "name": "reserve",
        "kind": 3, "startTimeUnixNano": nanos(at + 30), "endTimeUnixNano": nanos(at + 70),
        "status": { "code": 2, "message": "none left" },
        "events": [{ "timeUnixNano": nanos(at + 60), "name": "retry", "attributes": [
            { "key": "attempt", "value": { "intValue": "2" } }] }] });
    let body = |service: &str, span: &Json| json!({ "resourceSpans": [{ "resource": resource(service), "scopeSpans": [{ "spans": [span] }] }] });
    post(web1.otlp, "/v1/traces", &body("shop", &shop));
    post(web2.otlp, "/v1/traces", &body("stock", &stock));
}

/// What is told of the request: by spans of the trace, by searches, by dependencies.
#[track_caller]
fn expect_request(web: &Web, at: u64) {
    let mut told = Json::Null;
    let all = wait_until(Duration::from_secs(20), || {
        told = web.get(&format!("/api/traces/{TRACE}")).json();
        let spans = told["data"][0]["spans"].as_array()?;
        (spans.len() == 3 && spans.iter().all(|span| span["warnings"].is_null())).then(|| told.clone())
    });
    let all = all.unwrap_or_else(|| {
        panic!(
            "not all spans of the trace: {told}\n{}",
            web.get("/records/hosts").text() + &web.get("/api/traces?service=web").text()
        )
    });
    assert_eq!((&all["errors"], &all["total"], &all["limit"]), (&Json::Null, &json!(1), &json!(0)));
    let trace = &all["data"][0];
    assert_eq!((&trace["traceID"], &trace["warnings"]), (&json!(TRACE), &Json::Null));
    let spans = trace["spans"].as_array().expect("a list");
    let of = |span: &Json| {
        let process = &trace["processes"][span["processID"].as_str().expect("a name")];
        let host = process["tags"].as_array().expect("a list").iter().find(|tag| tag["key"] == "pcp.host");
        let texts = [&process["serviceName"], &span["operationName"], &host.expect("a host")["value"]];
        let texts = texts.map(|text| text.as_str().expect("a text").to_owned());
        (texts, span["startTime"].as_u64().expect("a time"), span["duration"].as_u64().expect("a time"))
    };
    let told: Vec<_> = spans.iter().map(of).collect();
    let expected = |texts: [&str; 3], start: u64, millis: u64| {
        (texts.map(str::to_owned), (at + start) * 1000, millis * 1000)
    };
    assert_eq!(
        told,
        [
            expected(["web", "GET /", "web1"], 0, 90),
            expected(["shop", "POST /orders", "web1"], 10, 70),
            expected(["stock", "reserve", "web2"], 30, 40)
        ]
    );
    let tag = |span: &Json, key: &str| {
        let tags = span["tags"].as_array().expect("a list").iter();
        tags.filter(|tag| tag["key"] == key)
            .map(|tag| (tag["type"].clone(), tag["value"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(tag(&spans[0], "http.route"), [(json!("string"), json!("/cart"))]);
    assert_eq!(tag(&spans[0], "span.kind"), [(json!("string"), json!("server"))]);
    assert_eq!(tag(&spans[1], "items"), [(json!("int64"), json!(3))]);
    assert_eq!(tag(&spans[1], "gift"), [(json!("bool"), json!(true))]);
    assert_eq!(tag(&spans[1], "total"), [(json!("float64"), json!(4.5))]);
    assert_eq!(tag(&spans[2], "error"), [(json!("bool"), json!(true))]);
    assert_eq!(tag(&spans[2], "otel.status_description"), [(json!("string"), json!("none left"))]);
    assert_eq!(spans[0]["references"], json!([]));
    assert_eq!(
        spans[1]["references"],
        json!([{ "refType": "CHILD_OF", "traceID": TRACE, "spanID": "00000000000000a1" },
            { "refType": "FOLLOWS_FROM", "traceID": "00000000000000000000000000000077", "spanID": "0000000000000077" }])
    );
    assert_eq!(
        spans[0]["logs"],
        json!([{ "timestamp": (at + 5) * 1000, "fields": [{ "key": "event", "type": "string", "value": "cache" },
            { "key": "message", "type": "string", "value": "missed it" }, { "key": "age", "type": "int64", "value": 7 }] }])
    );
    assert_eq!(spans[2]["logs"][0]["fields"][1], json!({ "key": "attempt", "type": "int64", "value": 2 }));
    // Zeros in front and capital letters are the same to Jaeger.
    let short = web.json(&format!("/api/traces/{}", TRACE.trim_start_matches('0').to_uppercase()));
    assert_eq!(short["data"][0]["spans"].as_array().map(Vec::len), Some(3));

    // As Grafana fills its lists, and searches.
    let services = web.json("/api/services");
    assert_eq!((&services["data"], &services["total"]), (&json!(["shop", "stock", "web"]), &json!(3)));
    assert_eq!(web.json("/api/services/web/operations")["data"], json!(["GET /", "sweep"]));
    assert_eq!(web.json("/api/services/nobody/operations")["data"], json!([]));
    assert_eq!(
        web.json("/api/operations?service=stock&spanKind=client")["data"],
        json!([{ "name": "reserve", "spanKind": "client" }])
    );
    assert_eq!(web.json("/api/operations?service=stock&spanKind=server")["data"], json!([]));
    let window = format!("start={}&end={}&lookback=custom", (at - 1000) * 1000, (at + 1000) * 1000);
    let found = |query: &str| -> Vec<String> {
        let answer = web.json(&format!("/api/traces?{window}&{query}"));
        let traces = answer["data"].as_array().expect("a list");
        traces
            .iter()
            .map(|trace| {
                format!(
                    "{} {}",
                    trace["traceID"].as_str().expect("an id"),
                    trace["spans"].as_array().expect("a list").len()
                )
            })
            .collect()
    };
    let whole = [format!("{TRACE} 3")];
    for query in [
        "service=shop&limit=20".to_owned(),
        format!("service=web&operation={}", escaped("GET /")),
        format!("service=stock&tags={}", escaped(r#"{"error":"true"}"#)),
        format!("service=stock&tags={}", escaped("error=true otel.status_description=\"none left\"")),
        format!("service=shop&tags={}", escaped(r#"{"items":"3","deployment.environment":"test"}"#)),
        "service=web&tag=event:cache".to_owned(),
        "service=stock&minDuration=40ms&maxDuration=40ms".to_owned(),
    ] {
        assert_eq!(found(&query), whole, "{query}");
    }
    for query in [
        "service=shop&operation=reserve",
        "service=nobody",
        "service=shop&minDuration=1s",
        "service=shop&tag=items:4",
        "service=shop&maxDuration=69ms",
    ] {
        assert_eq!(found(query), Vec::<String>::new(), "{query}");
    }
    // The one that goes on is of a trace of its own, and is the newest.
    let of_web = web.json(&format!("/api/traces?{window}&service=web&limit=1"));
    let open = &of_web["data"][0];
    assert_eq!(
        (&open["spans"][0]["operationName"], of_web["data"].as_array().map(Vec::len)),
        (&json!("sweep"), Some(1))
    );
    assert_eq!(open["spans"][0]["warnings"], json!(["unfinished: there is no record of its end"]));
    let id = open["traceID"].as_str().expect("an id");
    assert_eq!(id.len(), 32);
    assert_eq!(web.json(&format!("/api/traces/{id}"))["data"][0]["spans"].as_array().map(Vec::len), Some(1));
    let elsewhere = web.get(&format!("/api/traces/{TRACE}?start=1000000&end=2000000"));
    assert_eq!(
        (elsewhere.status, elsewhere.json()["errors"][0]["msg"].clone()),
        (404, json!("trace not found"))
    );

    let calls = web.json(&format!("/api/dependencies?endTs={}&lookback=3600000", at + 1000));
    assert_eq!(
        calls["data"],
        json!([{ "parent": "shop", "child": "stock", "callCount": 1 }, { "parent": "web", "child": "shop", "callCount": 1 }])
    );
    assert_eq!(web.json(&format!("/api/dependencies?endTs={}&lookback=1", at - 1000))["data"], json!([]));
}

/// An archive of a host's records, made while `work` is done, until it has so many.
#[track_caller]
pub(crate) fn recorded(host: &Host, archive: &Path, records: usize, work: impl FnOnce()) {
    const METRIC: &str = "jumpseat.event.records";
    let base = archive.display().to_string();
    let inet = host.pmcd.inet();
    let mut recorder =
        host.pmcd.spawn(JUMPSEAT, ["record", "-q", "-t", "100msec", "-h", &inet, &base, METRIC], "recorder");
    eventually("the recorder's first sample", || {
        (std::fs::metadata(format!("{base}.0")).ok()?.len() > 200).then_some(())
    });
    work();
    eventually("all records in the archive", || {
        let text = host.pmcd.run(JUMPSEAT, ["events", "--json", "-a", &base, METRIC]).stdout;
        (text.lines().count() >= records).then_some(())
    });
    recorder.stop();
}

#[test]
fn one_trace_of_two_hosts_is_whole_live_and_in_archives_and_in_both() {
    let dir = temp_dir();
    let (web1, web2) = (Host::start("web1"), Host::start("web2"));
    let at = now() - 60_000;
    let archives = dir.path().join("archives");
    std::fs::create_dir(&archives).expect("a directory");
    // web2 by jumpseat record, web1 by pmlogger.
    // pmlogger knows fields that are there when it begins.
    request("11af3d2b5a6c4e1f8899aabbccddee11", &web1, &web2, at - 24 * 3_600_000);
    let metrics = ["jumpseat.event.highres_records", "jumpseat.field"];
    let logger = web1.pmcd.record(&metrics, Duration::from_millis(200));
    let logged = |least: usize| {
        let base = logger.archive().base().display().to_string();
        let args = ["events", "--json", "-a", &base, "jumpseat.event.highres_records"];
        let text = web1.pmcd.run(JUMPSEAT, args).stdout;
        (text.lines().count() >= least).then_some(())
    };
    eventually("pmlogger's first sample", || {
        web1.seat.feed(["--source", "other"], "{\"message\":\"are you there\"}\n").ok();
        logged(1)
    });
    recorded(&web2, &archives.join("web2"), 3, || request(TRACE, &web1, &web2, at));
    let live = web_on(dir.path(), &[&web1, &web2], &[]);
    expect_request(&live, at);

    web1.seat.feed(["--source", "web"], "{\"message\":\"that was all\"}\n").ok();
    eventually("all records in pmlogger's archive", || {
        let base = logger.archive().base().display().to_string();
        let args = ["events", "--json", "-a", &base, "jumpseat.event.highres_records"];
        web1.pmcd.run(JUMPSEAT, args).stdout.contains("that was all").then_some(())
    });
    let base = logger.archive().base().display().to_string();
    let both = web_on(dir.path(), &[&web1, &web2], &["-a", &archives.display().to_string(), "-a", &base]);
    expect_request(&both, at);
    let archive = logger.finish();
    let past = Web::start(
        dir.path(),
        &["-a", &archives.display().to_string(), "-a", &archive.base().display().to_string()],
    );
    expect_request(&past, at);
}

#[test]
fn a_collector_that_dies_and_comes_back_is_followed_on() {
    let dir = temp_dir();
    let mut host = Host::start("web1");
    let web = web_on(dir.path(), &[&host], &[]);
    let operations = || web.json("/api/services/app/operations")["data"].clone();
    let span = |name: &str| {
        let ids = format!("\"trace_id\":\"t-{name}\",\"span_id\":\"{name}\"");
        line("start", now(), &format!("{ids},\"type\":\"{name}\"")) + &line("end", now() + 1, &ids)
    };
    host.seat.feed(["--source", "app"], &span("before")).ok();
    eventually("the first", || (operations() == json!(["before"])).then_some(()));
    host.pmcd.stop();
    assert_eq!(operations(), json!(["before"]), "what was is kept");
    host.pmcd.start_again();
    host.pmcd.wait_ready("jumpseat");
    host.seat.feed(["--source", "app"], &span("after")).ok();
    eventually("the second", || (operations() == json!(["after", "before"])).then_some(()));
    for name in ["before", "after"] {
        let trace = web.json(&format!("/api/traces/t-{name}"));
        assert_eq!(trace["data"][0]["spans"].as_array().map(Vec::len), Some(1), "each once: {trace}");
        assert_eq!(trace["data"][0]["spans"][0]["warnings"], Json::Null);
    }
}

/// A way to a collector on which a connection ends at a request, once: at the first from now on, or so many further.
struct Way {
    address: String,
    /// Requests until then; 0 if none is to end.
    left: Arc<AtomicUsize>,
}

impl Way {
    fn to(collector: &str) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
        let address = listener.local_addr().expect("it listens").to_string();
        let (left, collector) = (Arc::new(AtomicUsize::new(0)), collector.to_owned());
        let way = Way { address, left: Arc::clone(&left) };
        std::thread::spawn(move || {
            for client in listener.incoming().map(|client| client.expect("nothing is wrong with it")) {
                let (collector, left) = (TcpStream::connect(&collector), Arc::clone(&left));
                let Ok(collector) = collector else { continue };
                let (mut answers, mut to) =
                    (collector.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
                std::thread::spawn(move || _ = std::io::copy(&mut answers, &mut to));
                std::thread::spawn(move || requests(&client, &collector, &left));
            }
        });
        way
    }
}

/// Hands on requests until one of them, or the client, ends the connection.
fn requests(mut client: &TcpStream, mut collector: &TcpStream, left: &AtomicUsize) {
    let mut length = [0; 4];
    while client.read_exact(&mut length).is_ok() {
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        request[..4].copy_from_slice(&length);
        if client.read_exact(&mut request[4..]).is_err() {
            break;
        }
        let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if before == Ok(1) || collector.write_all(&request).is_err() {
            break;
        }
    }
    // Whichever of them is gone already.
    _ = client.shutdown(Shutdown::Both);
    _ = collector.shutdown(Shutdown::Both);
}

#[test]
fn records_come_once_wherever_a_connection_ends() {
    let dir = temp_dir();
    let host = Host::start("web1");
    let ways: Vec<Way> = (0..16).map(|_| Way::to(&host.pmcd.inet())).collect();
    let webs: Vec<Web> = ways.iter().map(|way| web_to(dir.path(), &[way.address.as_str()], &[])).collect();
    let span = |name: &str| {
        let ids = format!("\"trace_id\":\"t-{name}\",\"span_id\":\"{name}\"");
        line("start", now(), &format!("{ids},\"type\":\"{name}\"")) + &line("end", now() + 1, &ids)
    };
    for (at, way) in (1..).zip(&ways) {
        way.left.store(at, Ordering::SeqCst);
    }
    host.seat.feed(["--source", "app"], &span("first")).ok();
    for (at, (way, web)) in (1..).zip(ways.iter().zip(&webs)) {
        eventually("its connection has ended", || (way.left.load(Ordering::SeqCst) == 0).then_some(()));
        // What nobody has had before comes over a new one.
        let next = format!("after-{at}");
        host.seat.feed(["--source", "app"], &span(&next)).ok();
        let operations = || web.json("/api/services/app/operations")["data"].clone();
        let has = |all: Json| all.as_array().is_some_and(|all| all.iter().any(|name| *name == *next));
        eventually("the next", || has(operations()).then_some(()));
    }
    for (at, web) in (1..).zip(&webs) {
        let trace = web.json("/api/traces/t-first");
        let spans = trace["data"][0]["spans"].as_array().map(Vec::len);
        assert_eq!(spans, Some(1), "where it ends at request {at}: {trace}");
    }
}

#[test]
fn wrong_and_hostile_queries_are_told_in_jaegers_form() {
    let dir = temp_dir();
    let host = Host::start("web1");
    let web = web_on(dir.path(), &[&host], &[]);
    let long = "x".repeat(20_000);
    let deep = escaped(&"[".repeat(10_000));
    let tags = escaped(&format!("{{\"a\":{}", "[".repeat(10_000)));
    for (path, status) in [
        ("/api/traces".to_owned(), 400),
        ("/api/traces?service=a&start=x".to_owned(), 400),
        ("/api/traces?service=a&start=9999999999999999999999".to_owned(), 400),
        ("/api/traces?service=a&limit=-1".to_owned(), 400),
        ("/api/traces?service=a&minDuration=forever".to_owned(), 400),
        (format!("/api/traces?service=a&tags={deep}"), 400),
        (format!("/api/traces?service=a&tags={tags}"), 400),
        ("/api/traces?service=%ff".to_owned(), 400),
        ("/api/traces/0".to_owned(), 400),
        ("/api/traces/%ff".to_owned(), 400),
        ("/api/services/%ff/operations".to_owned(), 400),
        (format!("/api/traces/{long}"), 404),
        ("/api/traces/nobody".to_owned(), 404),
        ("/api/services/a/b/other".to_owned(), 404),
        ("/api/operations".to_owned(), 400),
        ("/api/dependencies".to_owned(), 400),
        // As Jaeger without a store for metrics.
        ("/api/metrics/latencies?service=shop&quantile=0.95".to_owned(), 501),
        ("/api/metrics/minstep".to_owned(), 501),
        ("/api/dependencies?endTs=-9223372036854775808&lookback=9223372036854775807".to_owned(), 200),
    ] {
        let answer = web.get(&path);
        let short = path.get(..80).unwrap_or(&path);
        assert_eq!(answer.status, status, "{short}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/json"), "{short}");
        let json = answer.json();
        if status != 200 {
            assert_eq!((&json["data"], &json["errors"][0]["code"]), (&Json::Null, &json!(status)), "{short}");
        }
    }
    let absurd =
        web.json("/api/traces?service=a&start=-9223372036854775808&end=9223372036854775807&limit=99999999");
    assert_eq!(absurd["data"], json!([]));
}

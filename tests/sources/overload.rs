//! Much at a time. More than the receiver has memory for: those beyond it are told to come again, in the way of the protocol. Of many
//! sources: it is written to disk in few batches. Nothing is lost in either case.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::seat::{Endpoint, JUMPSEAT, SOURCE, Seat};
use support::{eventually, free_port, temp_dir};

const SPANS: usize = 500;
const CLIENTS: usize = 16;
/// Of all incomplete requests; a body has 128 KiB.
const MEMORY: u64 = 1 << 20;

#[test]
fn who_comes_when_memory_is_full_comes_again_and_nothing_is_lost() {
    let (dir, port) = (temp_dir(), free_port());
    let settings =
        format!("[otlp]\nlisten = \"localhost:{port}\"\nmax_body = \"512KiB\"\nmax_memory = \"{MEMORY}\"\n");
    let endpoint = Seat::in_dir(dir.path(), &settings).serve([]);
    eventually("the OTLP listener", || TcpStream::connect(("localhost", port)).ok());
    let body = body();
    let (mut waiting, mut refused) = (Vec::new(), 0);
    for _ in 0..CLIENTS {
        let before = own(&endpoint, "memory");
        let mut client = begun(port, &body);
        // What has come of it is held, or the client is told.
        let told = eventually("the agent to take notice", || {
            let told = told(&mut client);
            (told.is_some() || own(&endpoint, "memory") >= before + body.len() as u64 - 1).then_some(told)
        });
        match told {
            None => waiting.push(client),
            Some(told) => {
                let head = told.to_ascii_lowercase();
                assert!(
                    head.starts_with("http/1.1 503") && head.contains("\r\nretry-after: 1\r\n"),
                    "{told}"
                );
                assert!(told.contains("too many requests at the same time"), "{told}");
                refused += 1;
            }
        }
        assert!(own(&endpoint, "memory") <= MEMORY, "so much and no more");
    }
    assert!((MEMORY as usize / body.len() - 2..MEMORY as usize / body.len() + 1).contains(&waiting.len()));
    assert!(refused > 0 && waiting.len() + refused == CLIENTS);
    for mut client in waiting {
        client.write_all(&body[body.len() - 1..]).expect("it is read");
        taken(&mut client);
    }
    for _ in 0..refused {
        let mut client = begun(port, &body);
        client.write_all(&body[body.len() - 1..]).expect("it is read");
        taken(&mut client);
    }
    eventually("all spans to be counted, each once", || {
        let text = endpoint.run("pminfo", ["-f", "jumpseat.span.count"]).stdout;
        text.contains(&format!("or \"shop/checkout\"] value {}\n", SPANS * CLIENTS)).then_some(())
    });
    assert_eq!(own(&endpoint, "busy"), refused as u64);
    assert_eq!((own(&endpoint, "refused"), own(&endpoint, "memory")), (0, 0));
}

/// Lines of many sources in turn over one connection, by a sender that is told what is committed, and waits for that.
#[test]
fn events_of_many_sources_are_committed_each_once_and_none_is_lost() {
    const SOURCES: usize = 200;
    const EACH: usize = 300;
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "").patient();
    let endpoint = seat.serve([]);
    seat.wait_for_socket();
    let feed = |lines: String| {
        let path = dir.path().join("lines");
        fs::write(&path, lines).expect("ours");
        let mut feed = Command::new(JUMPSEAT)
            .args(["feed", "--quiet", "--sender", "the file", "--socket"])
            .args([seat.socket(), path])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        eventually("all to be committed", || feed.try_wait().expect("it is ours"));
        let said = feed.wait_with_output().expect("it has ended");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    };
    let line = |source: usize, n: usize| format!("{{\"source\":\"s{source}\",\"type\":\"a\",\"n\":{n}}}\n");
    let lines = |each: usize| (0..SOURCES * each).map(|n| line(n % SOURCES, n)).collect::<String>();
    feed(lines(EACH));
    let all = |metric: &str, each: usize| {
        let text = endpoint.run("pminfo", ["-f", metric]).ok();
        let of_source = |source: usize| text.contains(&format!("or \"s{source}\"] value {each}\n"));
        (0..SOURCES).all(of_source).then_some(())
    };
    eventually("all to be counted", || all("jumpseat.source.received", EACH));
    all("jumpseat.source.missed", 0).expect("nothing is lost");
    // Whoever waits in vain for word of what is committed comes again, with what was taken in before.
    all("jumpseat.source.repeated", 0).expect("nothing was sent again");
    let refused = endpoint.run("pminfo", ["-f", "jumpseat.source.malformed"]).ok();
    assert!(refused.contains(&format!("or \"{SOURCE}\"] value 0\n")), "{refused}");
    // The same file, and one more behind it: that alone is new.
    feed(lines(EACH) + &line(7, 0));
    eventually("the one more", || {
        let text = endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
        text.contains(&format!("or \"s7\"] value {}\n", EACH + 1)).then_some(())
    });
    all("jumpseat.source.missed", 0).expect("nothing is lost");
}

/// A request of spans that are like each other.
fn body() -> Vec<u8> {
    let spans: Vec<String> = (1..=SPANS)
        .map(|number| {
            format!(
                "{{\"traceId\":\"{number:032x}\",\"spanId\":\"{number:016x}\",\"name\":\"checkout\",\"kind\":2,\
                 \"startTimeUnixNano\":\"1700000000000000000\",\"endTimeUnixNano\":\"1700000000001000000\",\
                 \"attributes\":[{{\"key\":\"user\",\"value\":{{\"stringValue\":\"user{number}\"}}}}]}}"
            )
        })
        .collect();
    let name = r#"[{"key":"service.name","value":{"stringValue":"shop"}}]"#;
    format!(
        "{{\"resourceSpans\":[{{\"resource\":{{\"attributes\":{name}}},\"scopeSpans\":[{{\"spans\":[{}]}}]}}]}}",
        spans.join(",")
    )
    .into_bytes()
}

/// A client that has sent all but the last byte of a request.
fn begun(port: u16, body: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect(("localhost", port)).expect("the agent listens");
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).expect("it is read");
    // Who is refused on the way may be hung up on.
    let _ = client.write_all(&body[..body.len() - 1]);
    client
}

/// What the agent has answered so far, if it has.
fn told(client: &mut TcpStream) -> Option<String> {
    client.set_read_timeout(Some(Duration::from_millis(20))).expect("not zero");
    let mut answer = vec![0; 4096];
    let read = client.read(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer[..read]).into_owned())
}

#[track_caller]
fn taken(client: &mut TcpStream) {
    let told = eventually("an answer", || told(client));
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
}

/// A metric of the receiver.
#[track_caller]
fn own(endpoint: &Endpoint, metric: &str) -> u64 {
    let text = endpoint.run("pminfo", ["-f", &format!("jumpseat.self.otlp.{metric}")]).ok();
    text.rsplit_once("value ").and_then(|(_, value)| value.trim().parse().ok()).expect("a number")
}

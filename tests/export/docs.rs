//! The queries of docs/export.md, over archives of a real agent that were recorded for twenty hosts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use support::{PcpEnv, PrivatePmcd, Process, eventually, repository, temp_dir};

use crate::python;
use crate::seat::{JUMPSEAT, Seat, Transport};

const HOSTS: usize = 20;
const METRIC: &str = "jumpseat.event.highres_records";
/// Of each host and service.
const SPANS: usize = 10;
const START: u64 = 1_795_000_000;

/// The queries of the page, in their order.
fn queries() -> Vec<String> {
    let page = fs::read_to_string(repository().join("docs/export.md")).expect("the page is there");
    let block = |text: &str| text.split("```").next().map(str::to_owned);
    page.split("```sql\n").skip(1).filter_map(block).collect()
}

/// Events of a host: spans of two services, each a millisecond longer than the one before, of which some fail.
fn events(host: usize) -> String {
    let mut lines = String::new();
    for service in ["cart", "checkout"] {
        for n in 0..SPANS {
            let id = format!("{host}-{service}-{n}");
            let start = START + (host * SPANS + n) as u64;
            let end = format!("{start}.{:03}", duration_ms(host, n));
            let status = if failed(host, n) { "error" } else { "ok" };
            let _ = writeln!(
                lines,
                r#"{{"source":"{service}","type":"work","phase":"start","span_id":"{id}","time":{start}}}"#
            );
            let _ = writeln!(
                lines,
                r#"{{"source":"{service}","type":"work","phase":"end","span_id":"{id}","time":{end},"status":"{status}","bytes":{n}}}"#
            );
        }
    }
    lines
}

fn duration_ms(host: usize, n: usize) -> usize {
    10 + host * SPANS + n
}

fn failed(host: usize, n: usize) -> bool {
    host.is_multiple_of(4) && n == 0
}

#[test]
fn the_queries_of_the_page_answer_for_a_fleet_of_twenty_hosts() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    seat.wait_for_socket();
    let dir = temp_dir();
    let base = |host: usize| dir.path().join(format!("recorded{host}")).display().to_string();
    let address = pmcd.inet();
    let lake = dir.path().join("lake").display().to_string();
    let env = PcpEnv::new();
    for host in 0..HOSTS {
        let mut command = pmcd.env().command(JUMPSEAT);
        command.args([
            "record",
            "-h",
            &address,
            "-t",
            "50msec",
            "--quiet",
            &base(host),
            METRIC,
            "jumpseat.source",
            "jumpseat.self.uptime",
        ]);
        let mut recorder = Process::start(&mut command, dir.path(), "recorder");
        let exported = || {
            let found =
                env.run(JUMPSEAT, ["export", "-a", &base(host), "--json", "jumpseat.self.uptime", METRIC]);
            found.status.success().then_some(found.stdout).filter(|text| !text.is_empty())
        };
        eventually("the first sample", exported);
        seat.feed(["--quiet"], &events(host)).ok();
        eventually("all spans", || {
            exported().filter(|text| text.matches(r#""flags":12"#).count() == 2 * SPANS)
        });
        assert!(recorder.stop().success(), "{}", recorder.text());
        // The archive of another host, as far as any reader can tell.
        let rules = dir.path().join("rules");
        fs::write(&rules, format!("global {{ hostname -> host{host:02} }}\n")).expect("writable");
        let of_host = dir.path().join(format!("host{host:02}")).display().to_string();
        env.run("pmlogrewrite", ["-c", &rules.display().to_string(), &base(host), &of_host]).ok();
        env.run(JUMPSEAT, ["export", "-a", &of_host, "--parquet", &lake, METRIC, "jumpseat.source"]).ok();
    }
    let answers: Vec<Vec<Vec<serde_json::Value>>> = queries()
        .iter()
        .map(|query| {
            let ask = "import duckdb, json, os, sys; os.chdir(sys.argv[1]); duckdb.sql(\"set timezone = 'UTC'\"); \
                       print(json.dumps(duckdb.sql(sys.argv[2]).fetchall(), default=str))";
            let text = python(["-c", ask, &dir.path().display().to_string(), query]);
            serde_json::from_str(&text).expect("JSON")
        })
        .collect();
    let [slowest, ratios, units] = &answers[..] else { panic!("{} queries", answers.len()) };
    assert_eq!(slowest.len(), 10);
    for (place, row) in slowest.iter().enumerate() {
        let n = SPANS - 1 - place / 2;
        assert_eq!(row[0], format!("host{:02}", HOSTS - 1), "{row:?}");
        assert_eq!(row[4].as_f64(), Some(duration_ms(HOSTS - 1, n) as f64), "{row:?}");
    }
    let mut totals = BTreeMap::new();
    for row in ratios {
        let service = row[0].as_str().expect("a name");
        let (ratio, spans) = (row[2].as_f64().expect("a number"), row[3].as_f64().expect("a number"));
        let (failed, all) = totals.entry(service).or_insert((0.0, 0.0));
        *failed += ratio * spans;
        *all += spans;
    }
    let failures =
        (0..HOSTS).flat_map(|host| (0..SPANS).map(move |n| failed(host, n))).filter(|failed| *failed).count();
    let expected = (failures as f64, (HOSTS * SPANS) as f64);
    let rounded = |(failed, all): (f64, f64)| (failed.round(), all);
    assert_eq!(
        totals.into_iter().map(|(service, sums)| (service, rounded(sums))).collect::<Vec<_>>(),
        [("cart", expected), ("checkout", expected)]
    );
    assert!(
        units.iter().any(|row| row[0] == "jumpseat.source.received" && row[1] == "jumpseat.source"),
        "{units:?}"
    );
}

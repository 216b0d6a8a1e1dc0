//! The views of traces, spans and where their time goes.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use support::{PcpEnv, eventually, temp_dir};

use super::{address, assert_quiet, at};
use crate::browser::{DOWN, ENTER};
use crate::seat::{JUMPSEAT, Seat};
use crate::web_support::Web;

/// Traces of a shop with three services, which ended some seconds ago; of the last the bank has failed. Milliseconds:
///
/// ```text
/// web       checkout  0 ....................... 100+10n
/// orders      order     10 ........ 60
/// payment        charge    20 ... 50
/// web          render             70 .. 90
/// ```
pub(super) fn feed(seat: &Seat, traces: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_nanos() as u64 - 5_000_000_000;
    for source in ["web", "orders", "payment"] {
        let mut lines: Vec<(u64, String)> = Vec::new();
        for n in 0..traces {
            let begin = now - (traces - n) * 1_000_000_000;
            let trace = format!("{:032x}", n + 1);
            let mut span = |of: &str,
                            name: &str,
                            id: u64,
                            parent: Option<u64>,
                            from: u64,
                            to: u64,
                            more: serde_json::Value| {
                if of != source {
                    return;
                }
                let id = format!("{:016x}", (n + 1) * 16 + id);
                let mut start = json!({ "time": begin + from * 1_000_000, "phase": "start", "type": name, "span_id": id, "trace_id": trace });
                if let Some(parent) = parent {
                    start["parent_id"] = format!("{:016x}", (n + 1) * 16 + parent).into();
                }
                let mut end = json!({ "time": begin + to * 1_000_000, "phase": "end", "type": name, "span_id": id, "trace_id": trace });
                for (key, value) in more.as_object().into_iter().flatten() {
                    end[key] = value.clone();
                }
                lines.push((begin + from * 1_000_000, start.to_string()));
                lines.push((begin + to * 1_000_000, end.to_string()));
            };
            let failed = if n + 1 == traces { json!({ "error": true, "bank": "closed" }) } else { json!({}) };
            span("web", "checkout", 1, None, 0, 100 + 10 * n, json!({ "cart": n }));
            span("orders", "order", 2, Some(1), 10, 60, json!({}));
            span("payment", "charge", 3, Some(2), 20, 50, failed);
            span("web", "render", 4, Some(1), 70, 90, json!({}));
        }
        lines.sort();
        let text: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
        seat.feed(["--source", source], &text).ok();
    }
}

#[test]
fn traces_are_listed_and_one_is_a_waterfall_with_its_critical_path() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let mut endpoint = seat.serve([]);
    feed(&seat, 6);
    let web = Web::start(dir.path(), &["-h", &endpoint.host()]);
    let source = format!("source=host:{}", endpoint.host());
    let browser = at(&web, &format!("traces?{source}"));
    browser.wait_for_text(".searching [role=status]", "6 traces");
    let rows = browser.texts(".traces tbody tr");
    assert!(rows[0].contains("150ms") && rows[0].contains("web checkout"), "{}", rows[0]);
    // Each service with the number of its spans.
    let words = rows[0].split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.ends_with("orders payment web 2"), "{words}");
    assert_eq!(browser.texts(".traces .number.bad"), ["1"]);

    browser.open(&address(&web, &format!("traces?{source}&service=payment&failed=1")));
    browser.wait_for_text(".searching [role=status]", "1 trace");
    browser.open(&address(&web, &format!("traces?{source}&min=130ms&sort=slowest")));
    browser.wait_for_text(".searching [role=status]", "3 traces");
    let slowest = browser.texts(".traces td:nth-child(2)");
    assert_eq!(slowest, ["150ms", "140ms", "130ms"]);
    browser.open(&address(&web, &format!("traces?{source}&text=closed")));
    browser.wait_for_text(".searching [role=status]", "1 trace");

    browser.click(".traces tbody a");
    browser.wait("the waterfall", "document.querySelectorAll('.list .span').length === 4");
    let names = browser.texts(".list .span .name");
    assert_eq!(names, ["checkout", "order", "charge", "render"]);
    assert_eq!(browser.texts(".list .span .took"), ["150ms", "50.0ms", "30.0ms", "20.0ms"]);
    let levels = browser.run(
        "return [...document.querySelectorAll('.list .span')].map((row) => row.getAttribute('aria-level'))",
    );
    assert_eq!(levels, json!(["1", "2", "3", "2"]));
    // Waited for: checkout before, between and after, order around charge.
    let critical = browser.run("return [...document.querySelectorAll('.list .span')].map((row) => row.querySelectorAll('.critical').length)");
    assert_eq!(critical, json!([3, 2, 1, 1]));
    // The next error by a key, and what it says.
    browser.keys("e");
    browser.wait_for_text(".detail", "closed");
    browser.wait_for_text(".detail", "20 % of the trace");
    browser.keys("\u{e014}");
    browser.run("document.querySelector('.list').focus()");
    // Folded, its children are not there.
    browser.keys("\u{e011}\u{e012}");
    browser.wait("fewer rows", "document.querySelectorAll('.list .span').length < 4");
    browser.keys("c");
    browser.wait("no critical path", "document.querySelectorAll('.critical').length === 0");
    assert_quiet(&browser);

    // It is there although the collector is not.
    endpoint.process.crash();
    browser.open("about:blank");
    browser.open(&address(&web, &format!("traces?{source}&id=6")));
    browser.wait("the waterfall", "document.querySelectorAll('.list .span').length === 4");
    browser.open(&address(&web, &format!("traces?{source}&id=abcdef")));
    browser.wait_for_text(".notice", "no records of this trace");
}

#[test]
fn spans_have_a_heat_map_with_examples_and_a_map_of_services() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    feed(&seat, 20);
    let web = Web::start(dir.path(), &["-h", &endpoint.host()]);
    let source = format!("source=host:{}", endpoint.host());
    let browser = at(&web, &format!("spans?{source}&from=-60"));
    browser.wait_for_text(".spans [role=status]", "80 spans");
    let names = browser.texts(".spans .some-rows tbody tr");
    assert_eq!(names.len(), 4, "{names:?}");
    let checkout = names.iter().find(|row| row.contains("checkout")).expect("its row");
    // 100, 110 .. 290 ms.
    let expected = ["20", "190ms", "280ms", "290ms", "290ms"];
    assert!(expected.iter().all(|text| checkout.contains(text)), "{checkout}");
    assert!(names.iter().any(|row| row.contains("charge") && row.contains("5.0%")), "{names:?}");
    assert_eq!(browser.texts(".map a").len(), 3);
    let map = browser.run("return document.querySelector('.map').textContent");
    let map = map.as_str().expect("a text");
    assert!(map.contains("web") && map.contains("5.0%"), "{map}");
    let calls =
        browser.run("return [...document.querySelectorAll('.map title')].map((title) => title.textContent)");
    assert_eq!(calls.as_array().expect("a list").len(), 2, "{calls}");
    let calls = calls.to_string();
    assert!(calls.contains("web calls orders") && calls.contains("orders calls payment"), "{calls}");

    // Of one name, from the list; a cell by keys leads to a trace.
    browser.open(&address(&web, &format!("spans?{source}&from=-60&service=payment&name=charge")));
    browser.wait_for_text(".spans [role=status]", "20 spans");
    browser.wait("one row of cells", "document.querySelectorAll('.heat .cell.failed').length === 1");
    browser.run("document.querySelector('.heat svg').focus()");
    browser.keys(DOWN);
    browser.wait_for_text(".readout", "failed");
    browser.keys(ENTER);
    browser.wait("the waterfall", "document.querySelectorAll('.list .span').length === 4");
    browser.wait("the trace that failed", "document.querySelector('.title').innerText.includes('1 error')");
    assert_quiet(&browser);
}

#[test]
fn the_flame_graph_has_the_time_of_spans_by_path_live_and_recorded() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let recorded = dir.path().join("recorded");
    std::fs::create_dir(&recorded).expect("writable");
    let archive = recorded.join("day");
    let archive = archive.to_str().expect("ASCII");
    let mut record = PcpEnv::new().command(JUMPSEAT);
    record.args(["record", "-h", &endpoint.host(), "-t", "0.2", archive, "jumpseat.event.highres_records"]);
    let mut recording = support::Process::start(&mut record, dir.path(), "record");
    eventually("a first record", || {
        std::fs::metadata(format!("{archive}.0")).ok().filter(|file| file.len() > 200)
    });
    feed(&seat, 4);
    eventually("the records", || {
        std::fs::metadata(format!("{archive}.0")).ok().filter(|file| file.len() > 4_000)
    });
    recording.stop();
    let web = Web::start(dir.path(), &["-h", &endpoint.host(), "-a", recorded.to_str().expect("ASCII")]);
    let check = |browser: &crate::browser::Browser| {
        browser.wait("frames", "document.querySelectorAll('.frame').length === 5");
        // 460 ms of checkouts, of which orders took 200 and renders 80.
        let told = browser.run("return [...document.querySelectorAll('.frame')].map((frame) => frame.getAttribute('aria-label'))").to_string();
        assert!(told.contains("web/checkout: 460ms, 100.0% of all; own 180ms; 4 spans"), "{told}");
        assert!(told.contains("payment/charge: 120ms, 26.1% of all; own 120ms; 4 spans, 1 failed"), "{told}");
    };
    let browser = at(&web, &format!("flame?source=host:{}", endpoint.host()));
    check(&browser);
    // Down to the checkout, and further to the order, which becomes the whole.
    browser.run("document.querySelector('.frame[tabindex=\"0\"]').focus()");
    browser.keys(&format!("{DOWN}{DOWN}"));
    browser.wait_for_text(".readout", "orders/order: 200ms");
    browser.keys(ENTER);
    browser.wait("fewer frames", "document.querySelectorAll('.frame').length === 4");
    browser.keys("t");
    browser.run("document.activeElement.blur()");
    browser.keys("t");
    browser.wait("a table", "document.querySelectorAll('.sheet tbody tr').length >= 4");
    // The same from the archive alone.
    browser.open("about:blank");
    browser.open(&address(&web, &format!("flame?source=archive:{archive}&from=-3600")));
    check(&browser);
    assert_quiet(&browser);
}

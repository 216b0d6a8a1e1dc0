//! The view of event records.

use support::temp_dir;

use super::{address, assert_quiet, at};
use crate::browser::{Browser, DOWN, ENTER, ESCAPE};
use crate::seat::Seat;
use crate::web_support::Web;

/// Records that are shown: their cells.
fn rows(browser: &Browser) -> Vec<String> {
    browser.texts(".list .row")
}

#[test]
fn records_are_shown_as_they_come_filtered_and_with_their_fields() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let lines: String = (0..40)
        .map(|n| {
            format!(
                "{{\"type\":\"request\",\"status\":{},\"path\":\"/p{n}\",\"message\":\"served {n}\"}}\n",
                if n % 10 == 0 { 503 } else { 200 }
            )
        })
        .collect();
    seat.feed([], &lines).ok();
    let web = Web::start(dir.path(), &["-h", &endpoint.host()]);
    let source = format!("source=host:{}", endpoint.host());
    let browser = at(&web, &format!("events?{source}"));
    browser.wait_for_text(".events [role=status]", "40 records");
    assert!(rows(&browser)[0].contains("served 39"), "{}", rows(&browser)[0]);

    // What comes now is on top.
    seat.feed([], "{\"type\":\"late\",\"severity\":\"error\",\"message\":\"broken <b>\"}\n").ok();
    browser.wait_for_text(".events [role=status]", "41 records");
    browser.wait("the record that came", "document.querySelector('.list').innerText.includes('broken <b>')");
    assert_eq!(browser.texts(".row .error"), ["error"]);

    // The filter is the agent's; what is none is told with its place.
    browser.keys("f");
    browser.keys("status = 503");
    browser.keys(ENTER);
    browser.wait_for_text(".problem", "column 8");
    browser.open(&address(&web, &format!("events?{source}&filter=status%3D%3D503")));
    browser.wait_for_text(".events [role=status]", "4 records");
    let shown = rows(&browser);
    assert!(shown.len() == 4 && shown.iter().all(|row| row.contains("status=503")), "{shown:?}");
    assert!(browser.text(".events .problem").is_empty());

    // A record by keys; its fields; only those with a value as this one.
    browser.run("document.querySelector('.list').focus()");
    browser.keys(&format!("{DOWN}{DOWN}{ENTER}"));
    browser.wait_for_text(".detail", "/p20");
    browser.click(".detail button[aria-label='Only records with this path']");
    browser.wait_for_text(".events [role=status]", "1 record");
    assert!(rows(&browser)[0].contains("/p20"));
    browser.run("document.querySelector('.list').focus()");
    browser.keys(&format!("{DOWN}{ENTER}"));
    browser.wait("the record", "!document.querySelector('.detail').hidden");
    browser.keys(ESCAPE);
    browser.wait("no record", "document.querySelector('.detail').hidden");

    // A field as a column.
    browser.click(".menu summary");
    browser.run("[...document.querySelectorAll('.menu label')].find((label) => label.innerText === 'status').querySelector('input').click()");
    browser.wait(
        "a column",
        "[...document.querySelectorAll('.row.head span')].some((head) => head.innerText === 'status')",
    );
    assert_eq!(browser.texts(".list .row .chosen"), ["503"]);
    // What is forbidden by the answer to a filter that is none is all there was.
    let console = browser.console();
    assert!(console.iter().all(|line| line.contains("400 (Bad Request)")), "{console:?}");
}

#[test]
fn a_hundred_thousand_records_scroll_and_those_lost_are_marked() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let lines: String = (0..100_000).map(|n| format!("{{\"type\":\"n\",\"n\":{n}}}\n")).collect();
    let web = Web::start(dir.path(), &["-h", &endpoint.host()]);
    // Followed from the start on: nothing is lost, however fast it comes.
    let source = format!("source=host:{}", endpoint.host());
    let browser = at(&web, &format!("events?{source}"));
    browser.wait_for_text(".events [role=status]", "0 records");
    seat.feed([], &lines).ok();
    let counted =
        "Number(document.querySelector('.events [role=status]').innerText.split(' ')[0].replaceAll(',', ''))";
    browser.open("about:blank");
    let all = support::eventually("all records, or what became of them", || {
        let answer = web.json(&format!("/page/events?{source}&limit=1"));
        let (total, missed) = (answer["total"].as_u64()?, answer["missed"].as_u64()?);
        (total + missed >= 100_000).then_some((total, missed))
    });
    assert_eq!(all.0 + all.1, 100_000);
    browser.open(&address(&web, &format!("events?{source}")));
    browser.wait("all records", &format!("{counted} === {}", all.0));
    // Only what is on the screen is there; the rest comes while one scrolls.
    for _ in 0..20 {
        let before = browser.run("return document.querySelector('.list').getAttribute('aria-rowcount')");
        browser.run("const list = document.querySelector('.list'); list.scrollTop = list.scrollHeight");
        browser.wait(
            "more rows",
            &format!("document.querySelector('.list').getAttribute('aria-rowcount') !== {before}"),
        );
    }
    assert!(
        browser.run("return document.querySelectorAll('.list .row').length").as_u64().expect("a number")
            < 100
    );
    let slow = browser.run(
        "const list = document.querySelector('.list'); const start = performance.now();
         for (let at = 0; at < 50; at += 1) { list.scrollTop = (list.scrollHeight * at) / 50; list.getBoundingClientRect(); }
         return performance.now() - start",
    );
    assert!(slow.as_f64().expect("milliseconds") < 2_000.0, "{slow}");
    assert_quiet(&browser);
}

/// Of one time, the last that came is the first, whether they were there or came meanwhile; and none comes twice or never.
#[test]
fn records_of_one_time_stay_in_their_order() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let web = Web::start(dir.path(), &["-h", &endpoint.host()]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let feed = |numbers: std::ops::Range<usize>| {
        let line = |n| format!("{{\"time\":{},\"message\":\"n{n}\"}}\n", now.as_secs());
        seat.feed([], &numbers.map(line).collect::<String>()).ok();
    };
    let messages = |answer: &serde_json::Value| -> Vec<String> {
        let records = answer["records"].as_array().expect("a list");
        let field =
            |field: &serde_json::Value| (field[0] == "message").then(|| field[1].as_str().map(str::to_owned));
        let message = |record: &serde_json::Value| record["fields"].as_array()?.iter().find_map(field)?;
        records.iter().map(|record| message(record).expect("a message")).collect()
    };
    let newest_first =
        |numbers: std::ops::Range<usize>| -> Vec<String> { numbers.rev().map(|n| format!("n{n}")).collect() };
    let path = format!("/page/events?source=host:{}", endpoint.host());
    feed(0..40);
    let first = support::eventually("the records", || {
        let answer = web.json(&path);
        (messages(&answer).len() == 40).then_some(answer)
    });
    assert_eq!(messages(&first), newest_first(0..40));
    feed(40..80);
    support::eventually("all records", || (messages(&web.json(&path)).len() == 80).then_some(()));
    let came = web.json(&format!("{path}&since={}", first["next"]));
    assert_eq!(messages(&came), newest_first(40..80));
    let next = &came["next"];
    assert_eq!(messages(&web.json(&format!("{path}&since={next}"))), newest_first(0..0));
}

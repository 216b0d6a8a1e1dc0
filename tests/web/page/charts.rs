//! The view of metrics and expressions.

use std::time::Duration;

use support::{AgentSpec, PcpEnv, PrivatePmcd, temp_dir};

use super::{address, assert_near, assert_quiet, at, number};
use crate::browser::{Browser, DOWN, ENTER, ESCAPE};
use crate::seat::JUMPSEAT;
use crate::web_support::Web;

/// The legend of a panel: names and the values of now, least, mean, largest.
fn legend(browser: &Browser) -> Vec<(String, Vec<f64>)> {
    let rows = browser.texts(".legend tbody tr");
    let row = |row: &String| {
        let mut parts = row.split('\t').map(str::trim);
        let name = parts.next().unwrap_or_default().to_owned();
        (name, parts.filter_map(number).collect())
    };
    rows.iter().map(row).collect()
}

#[test]
fn metrics_of_a_host_show_what_val_shows_and_a_lost_connection() {
    let mut pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["-h", &pmcd.inet()]);
    let browser = at(&web, &format!("charts?source=host:{}&expr=sample.bin&from=-30", pmcd.inet()));
    browser.wait("lines", "document.querySelectorAll('.legend tbody tr').length === 8");
    let printed = PcpEnv::new().run(JUMPSEAT, ["val", "-h", &pmcd.inet(), "-s", "1", "sample.bin"]).ok();
    let expected: Vec<f64> = printed
        .lines()
        .last()
        .expect("values")
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!(expected.len() >= 9, "{printed}");
    for (name, values) in legend(&browser) {
        let bin: f64 = name.strip_prefix("bin-").and_then(|bin| bin.parse().ok()).expect("a bin");
        assert!(expected.contains(&bin), "{name} is not in {expected:?}");
        assert_eq!(values, [bin; 4], "{name}");
    }
    // The whole legend by a click, and a line less by another one.
    browser.click(".legend .more");
    browser.wait("all lines", "document.querySelectorAll('.legend tbody tr').length === 9");
    browser.click(".legend button.line");
    assert_eq!(browser.texts(".legend button[aria-pressed=false]"), ["bin-900"]);

    // A metric that there is not: with the nearest name. An expression that is none: with the place.
    browser.open(&address(
        &web,
        &format!(
            "charts?source=host:{}&expr=sample.bim%0Asample.long.one%20%2B%0Asample.long.one*7",
            pmcd.inet()
        ),
    ));
    browser.wait_for_text(".panel:nth-child(1) .problem", "did you mean sample.bin?");
    browser.wait_for_text(".panel:nth-child(2) .problem", "^");
    browser.wait_for_text(".panel:nth-child(3) .now", "7");

    pmcd.stop();
    browser.wait("the loss of the connection", "!document.querySelector('.notice').hidden");
    assert!(browser.text(".notice").contains("is down since"), "{}", browser.text(".notice"));
    pmcd.start_again();
    browser.wait("the connection", "document.querySelector('.notice').hidden");
    assert_quiet(&browser);
}

#[test]
fn names_are_completed_and_views_chosen_with_keys() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["-h", &pmcd.inet()]);
    let browser = at(&web, "");
    browser.wait("a host", "document.querySelector('.card.up')");
    browser.keys("2");
    browser.wait("charts", "document.querySelector('.charts')");
    browser.keys("a");
    browser.keys("sample.long.hu");
    browser.wait_for_text("[role=option]", "sample.long.hundred");
    browser.keys(DOWN);
    let active = "document.activeElement.getAttribute('aria-activedescendant')";
    browser.wait(
        "an option",
        &format!("document.getElementById({active}).getAttribute('aria-selected') === 'true'"),
    );
    browser.keys(ENTER);
    assert_eq!(browser.run("return document.activeElement.value"), "sample.long.hundred");
    browser.keys(ENTER);
    browser.wait_for_text(".panel .now", "100");
    // Words that names have in them find them, too.
    browser.keys("long.mill");
    browser.wait_for_text("[role=option]", "sample.long.million");
    browser.keys(ESCAPE);
    browser.wait("no options", "document.querySelector('.options').hidden");
    assert_eq!(browser.run("return document.activeElement.getAttribute('aria-expanded')"), "false");
    // What is shown is in the address.
    let hash = browser.run("return location.hash");
    assert!(hash.as_str().expect("a text").contains("expr=sample.long.hundred"), "{hash}");
    browser.run("document.activeElement.blur()");
    browser.keys("t");
    browser.wait("a table", "!document.querySelector('.values').hidden");
    assert_eq!(browser.texts(".values tbody td")[0], "100");
    browser.keys("p");
    browser.wait("a window that stays", "location.hash.includes('to=1')");
    browser.keys("?");
    browser.wait("help", "document.querySelector('dialog').open");
    browser.keys(ESCAPE);
    browser.wait("no help", "!document.querySelector('dialog').open");
    assert_quiet(&browser);
}

#[test]
fn an_archive_shows_rates_as_val_does_and_is_zoomed_into() {
    // Of PCP's test suite: three hours, a sample each 15 seconds.
    let archive = "/var/lib/pcp/testsuite/archives/kenj-pc-1";
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["-a", archive]);
    let browser = at(&web, &format!("charts?source=archive:{archive}&expr=disk.all.total&from=-3600"));
    browser.wait("a line", "document.querySelectorAll('.legend tbody tr').length === 1");
    browser.keys("t");
    browser.wait("a table", "!document.querySelector('.values').hidden");
    // The newest is first.
    let shown: Vec<f64> = browser.texts(".values tbody td").iter().filter_map(|text| number(text)).collect();
    let printed = PcpEnv::new().run(JUMPSEAT, ["val", "-U", archive, "disk.all.total"]).ok();
    let expected: Vec<f64> =
        printed.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect();
    // But for the first, which is no rate.
    assert!((238..=240).contains(&shown.len()) && expected.len() > 700, "{}: {printed}", shown.len());
    for (&shown, &expected) in shown.iter().zip(expected.iter().rev()) {
        assert_near(shown, expected);
    }
    browser.keys("t");
    browser.wait("a chart", "document.querySelector('.u-over')");
    let length = "(() => { const p = new URLSearchParams(location.hash.split('?')[1]); return p.get('to') - p.get('from'); })()";
    browser.drag(".u-over", 0.5, 0.98);
    browser.wait("half of it", &format!("Math.abs({length} - 1728) < 60"));
    let before = browser.run(&format!("return {length}")).as_f64().expect("seconds");
    browser.keys("-");
    browser.wait("twice as long", &format!("Math.abs({length} - {}) < 1", 2.0 * before));
    browser.wait("the time", "document.querySelector('.when').innerText.includes('–')");
    assert_quiet(&browser);
}

#[test]
fn the_past_of_a_host_comes_from_its_archives() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let logger = pmcd.record(&["sample.bin"], Duration::from_millis(100));
    let volume = logger.archive().base().with_extension("0");
    support::eventually("some records", || (std::fs::metadata(&volume).ok()?.len() > 6_000).then_some(()));
    let archive = logger.finish();
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["-h", &pmcd.inet(), "-a", archive.base().to_str().expect("ASCII")]);
    let path = format!("/page/samples?source=host:{}&expr=sample.bin&start=-600&points=2000", pmcd.inet());
    let answer = support::eventually("values of now behind those of the archive", || {
        let answer = web.json(&path);
        let times = answer["series"][0]["lines"][0]["t"].as_array()?.clone();
        let last = answer["last"].as_f64()?;
        (times.len() > 10 && times.last()?.as_f64()? >= last - 0.01).then_some(answer)
    });
    let lines = answer["series"][0]["lines"].as_array().expect("lines");
    assert_eq!(lines.len(), 9);
    for line in lines {
        let times: Vec<f64> = serde_json::from_value(line["t"].clone()).expect("times");
        assert!(times.is_sorted(), "{times:?}");
    }
}

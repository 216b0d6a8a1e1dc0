//! The view of hosts and archives.

use support::{PcpEnv, free_port, temp_dir};

use super::{address, assert_quiet, at};
use crate::browser::{ENTER, TAB};
use crate::seat::{JUMPSEAT, Seat};
use crate::web_support::Web;

#[test]
fn hosts_and_archives_are_shown_and_what_is_down() {
    let dir = temp_dir();
    let mut endpoint = Seat::in_dir(dir.path(), "").serve([]);
    let archive = dir.path().join("recorded").join("day");
    std::fs::create_dir(dir.path().join("recorded")).expect("writable");
    let archive = archive.to_str().expect("ASCII");
    PcpEnv::new()
        .run(JUMPSEAT, ["record", "-h", &endpoint.host(), "-t", "0.1", "-s", "4", archive, "jumpseat.self"])
        .ok();
    let nobody = format!("127.0.0.1:{}", free_port());
    let recorded = dir.path().join("recorded");
    let web = Web::start(
        dir.path(),
        &["-h", &endpoint.host(), "-h", &nobody, "-a", recorded.to_str().expect("ASCII")],
    );
    let browser = at(&web, "");
    browser.wait("a host that is up", "document.querySelector('.card.up')");
    browser.wait("a host that is down", "document.querySelector('.card.down')");
    let cards = browser.texts(".card");
    assert_eq!(cards.len(), 2);
    assert!(cards[0].contains("up since") && cards[0].contains("1 archive"), "{}", cards[0]);
    assert!(cards[1].contains("down since") && cards[1].contains("Connection refused"), "{}", cards[1]);
    assert_eq!(browser.text("h2#hosts-title"), "Hosts 2, 1 down");
    let archives = browser.texts("table tbody tr");
    assert_eq!(archives.len(), 1, "{archives:?}");
    // Everything is reached with the keyboard, beginning with the way past the frame.
    browser.keys(TAB);
    assert_eq!(browser.run("return document.activeElement.innerText"), "Skip to content");
    browser.keys(ENTER);
    assert_eq!(browser.run("return document.activeElement.id"), "main");
    browser.keys(TAB);
    assert_eq!(browser.run("return document.activeElement.innerText"), "Charts");
    assert_quiet(&browser);

    endpoint.process.crash();
    browser.wait("the host to be down", "document.querySelectorAll('.card.down').length === 2");
    browser.wait_for_text("#status", "is down");
    assert_eq!(browser.text("h2#hosts-title"), "Hosts 2, 2 down");
    assert_quiet(&browser);
}

#[test]
fn colours_are_those_of_the_system_or_as_switched() {
    let dir = temp_dir();
    let endpoint = Seat::in_dir(dir.path(), "").serve([]);
    let web = Web::start(dir.path(), &["-h", &endpoint.host()]);
    let browser = at(&web, "");
    browser.wait("a host", "document.querySelector('.card.up')");
    // The contrast of text to ground: 4.5 is what WCAG asks for.
    let contrast = "
        const luminance = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
            .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
            .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
        const card = luminance(getComputedStyle(document.querySelector('.card')).backgroundColor);
        const texts = ['.card h3', '.card .dim', '.card strong', '.card a'].map((selector) => {
            const text = luminance(getComputedStyle(document.querySelector(selector)).color);
            return (Math.max(text, card) + 0.05) / (Math.min(text, card) + 0.05);
        });
        return [card > 0.5, Math.min(...texts)]";
    let check = |light: bool| {
        let found = browser.run(contrast);
        assert_eq!(found[0], light);
        assert!(found[1].as_f64().expect("a number") >= 4.5, "{found}");
    };
    browser.prefer("light");
    check(true);
    browser.prefer("dark");
    check(false);
    browser.click("#theme");
    check(true);
    browser.click("#theme");
    browser.prefer("light");
    check(false);
    // It is remembered.
    browser.open("about:blank");
    browser.open(&address(&web, ""));
    browser.wait("a host", "document.querySelector('.card.up')");
    check(false);
    assert_quiet(&browser);
}

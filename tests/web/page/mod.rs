//! The page, as people use it in a real browser: real collectors, archives of them, keys and colours.

mod charts;
mod contrast;
mod events;
mod files;
mod overview;
mod spans;

use crate::browser::Browser;
use crate::web_support::Web;

/// A browser at a view of a running `jumpseat web`.
#[track_caller]
fn at(web: &Web, hash: &str) -> Browser {
    let browser = Browser::start();
    browser.open(&address(web, hash));
    browser
}

fn address(web: &Web, hash: &str) -> String {
    format!("http://localhost:{}/#/{hash}", web.port)
}

/// Nothing has gone wrong in the page: no script, no request, nothing that its policy forbids.
#[track_caller]
fn assert_quiet(browser: &Browser) {
    let console = browser.console();
    assert!(console.is_empty(), "{}", console.join("\n"));
}

/// A number as the page writes it, or as a tool does.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * scale)
}

/// The numbers are the same, but for the three digits, two of them behind the point, that the page shows.
#[track_caller]
fn assert_near(shown: f64, expected: f64) {
    let rounded = (expected.abs() * 0.006).max(0.005_1);
    assert!((shown - expected).abs() <= rounded, "{shown} is shown for {expected}");
}

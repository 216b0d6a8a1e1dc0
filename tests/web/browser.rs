//! A real browser without a window, by WebDriver: Debian's chromium and chromium-driver.
//!
//! The client is the few requests that tests need, as JSON over HTTP (<https://www.w3.org/TR/webdriver2/>).

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value as Json, json};
use support::{PcpEnv, Process, eventually, free_port, temp_dir};
use tempfile::TempDir;

use crate::web_support::Answer;

pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const DOWN: &str = "\u{e015}";
pub(crate) const ESCAPE: &str = "\u{e00c}";

/// A browser with one page.
pub(crate) struct Browser {
    driver: Process,
    port: u16,
    session: String,
    _dir: TempDir,
}

impl Browser {
    /// Starts one with a profile of its own.
    #[track_caller]
    pub(crate) fn start() -> Browser {
        let dir = temp_dir();
        let port = free_port();
        let mut command = PcpEnv::new().command("chromedriver");
        command.arg(format!("--port={port}"));
        let driver = Process::start(&mut command, dir.path(), "chromedriver");
        let mut browser = Browser { driver, port, session: String::new(), _dir: dir };
        eventually("chromedriver", || TcpStream::connect(("127.0.0.1", port)).ok());
        let profile = browser._dir.path().join("profile");
        let args = json!([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,900",
            format!("--user-data-dir={}", profile.display()),
        ]);
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let session = browser.request("POST", "/session", Some(&wanted));
        browser.session = session["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// Goes to an address.
    #[track_caller]
    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// What the body of a function gives.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> Json {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, expression: &str) {
        let script = format!("try {{ return Boolean({expression}) }} catch {{ return false }}");
        let seen = support::wait_until(Duration::from_secs(30), || (self.run(&script) == true).then_some(()));
        assert!(
            seen.is_some(),
            "waited in vain: {what}\n{}\n--- console\n{}",
            self.text("body"),
            self.console().join("\n")
        );
    }

    /// Waits until the text of an element has this in it.
    #[track_caller]
    pub(crate) fn wait_for_text(&self, selector: &str, text: &str) {
        self.wait(
            text,
            &format!("document.querySelector({}).innerText.includes({})", quoted(selector), quoted(text)),
        );
    }

    /// The text that people see in an element; empty if there is none.
    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.run(&format!("return document.querySelector({})?.innerText ?? ''", quoted(selector)));
        text.as_str().expect("a text").to_owned()
    }

    /// The texts of all such elements.
    #[track_caller]
    pub(crate) fn texts(&self, selector: &str) -> Vec<String> {
        let script = format!(
            "return [...document.querySelectorAll({})].map((one) => one.innerText ?? one.textContent)",
            quoted(selector)
        );
        let texts = self.run(&script);
        texts
            .as_array()
            .expect("a list")
            .iter()
            .map(|text| text.as_str().expect("a text").to_owned())
            .collect()
    }

    /// Clicks where the middle of an element is.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        let element = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        let id = element.as_object().and_then(|object| object.values().next()).and_then(Json::as_str);
        self.post(&format!("/element/{}/click", id.expect("an element")), &json!({}));
    }

    /// Presses keys, one after the other, wherever the focus is.
    #[track_caller]
    pub(crate) fn keys(&self, keys: &str) {
        let press = |key: char| {
            [
                json!({ "type": "keyDown", "value": key.to_string() }),
                json!({ "type": "keyUp", "value": key.to_string() }),
            ]
        };
        let actions: Vec<Json> = keys.chars().flat_map(press).collect();
        self.post(
            "/actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }),
        );
    }

    /// Drags the mouse within an element, from one share of its width to another.
    #[track_caller]
    pub(crate) fn drag(&self, selector: &str, from: f64, to: f64) {
        // What has just been shown, or scrolled to, takes its size and tells of it within a frame or two; nobody's hand is as quick.
        let script = format!(
            "const done = arguments[0], element = document.querySelector({}); element.scrollIntoView({{ block: 'center' }});
             const settled = () => {{
               const {{ left, top, width, height }} = element.getBoundingClientRect(); done([left, top, width, height]);
             }};
             requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(settled)));",
            quoted(selector)
        );
        let place = self.post("/execute/async", &json!({ "script": script, "args": [] }));
        let place: Vec<f64> = serde_json::from_value(place).expect("a place");
        let at = |share: f64| {
            json!({
                "type": "pointerMove", "duration": 50, "origin": "viewport",
                "x": (place[0] + place[2] * share).round() as i64, "y": (place[1] + place[3] / 2.0).round() as i64,
            })
        };
        let actions = json!([
            at(from), { "type": "pointerDown", "button": 0 }, at((from + to) / 2.0), at(to), { "type": "pointerUp", "button": 0 },
        ]);
        let mouse = json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": actions });
        self.post("/actions", &json!({ "actions": [mouse] }));
    }

    /// What the system says of colours from now on: `light` or `dark`.
    #[track_caller]
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.post("/goog/cdp/execute", &command);
    }

    /// What is in the console since this was asked last: errors of scripts, of the policy, and of requests.
    #[track_caller]
    pub(crate) fn console(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({ "type": "browser" }));
        entries.as_array().expect("a list").iter().map(|entry| entry["message"].to_string()).collect()
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Json) -> Json {
        self.request("POST", &format!("/session/{}{path}", self.session), Some(body))
    }

    #[track_caller]
    fn request(&self, method: &str, path: &str, body: Option<&Json>) -> Json {
        let body = body.map(Json::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("it reads");
        let answer = Answer::parse(&whole(&mut stream).expect("it answers"));
        let mut json = answer.json();
        assert_eq!(answer.status, 200, "{path} {body}: {}\n{}", json["value"]["message"], self.driver.text());
        json["value"].take()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser with the session; a test that fails while it panics must not panic again.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let head = format!(
                "DELETE /session/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
                self.session
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = whole(&mut stream);
        }
    }
}

/// An answer with its length in its head: the driver leaves connections open whatever one asks for.
fn whole(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = [0; 65_536];
    loop {
        let count = stream.read(&mut part)?;
        bytes.extend_from_slice(&part[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            if count == 0 {
                return Ok(bytes);
            }
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        if count == 0 || bytes.len() >= end + 4 + length.unwrap_or_default() {
            return Ok(bytes);
        }
    }
}

/// A text in a script.
pub(crate) fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

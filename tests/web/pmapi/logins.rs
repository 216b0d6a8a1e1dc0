//! Logins of clients: basic authentication is for the collector, as with pmproxy.

use support::{PcpEnv, eventually, temp_dir};

use crate::seat::{JUMPSEAT, Seat};
use crate::web_support::{Answer, Web};

/// A user of the system who is not the one that runs the tests.
const OTHER: &str = "daemon";

#[test]
fn a_login_goes_to_the_collector_and_a_bad_one_is_told() {
    let dir = temp_dir();
    let passwords = dir.path().join("passwords").display().to_string();
    PcpEnv::new().run_with_input(JUMPSEAT, ["passwd", &passwords, OTHER], b"b\n").ok();
    let socket = dir.path().join("clients").display().to_string();
    let settings = format!("[[source]]\nname = \"secret\"\nreaders = [\"{OTHER}\"]\n");
    let seat = Seat::in_dir(dir.path(), &settings);
    let _endpoint = seat.serve(["--passwords", &passwords, "--listen", &format!("unix:{socket}")]);
    let web = Web::start(dir.path(), &["-h", &format!("unix://{socket}")]);
    seat.feed([], "{\"source\":\"secret\",\"note\":\"psst\"}\n").ok();
    let ask = |login: Option<&str>| -> Answer {
        let headers: Vec<(&str, &str)> = login.iter().map(|login| ("Authorization", *login)).collect();
        web.ask("GET", "/pmapi/fetch?names=jumpseat.event.recent&events=true", &headers, b"")
    };
    // daemon:b
    eventually("it is told to who may read it", || {
        ask(Some("Basic ZGFlbW9uOmI=")).text().contains("psst").then_some(())
    });
    let without = ask(None);
    assert!(without.status == 200 && !without.text().contains("psst"), "{}", without.text());
    // daemon:a
    let wrong = ask(Some("Basic ZGFlbW9uOmE="));
    assert_eq!(wrong.status, 400);
    let text = wrong.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(text.starts_with("cannot connect to PMCD: Authentication - "), "{text}");
    for bad in ["Basic abc", "Basic ", "Basic ZGFlbW9u", "Basic //79"] {
        assert_eq!(ask(Some(bad)).status, 401, "{bad}");
    }
    assert!(!web.process.text().contains("ZGFlbW9u"), "no secrets in what it says");
}

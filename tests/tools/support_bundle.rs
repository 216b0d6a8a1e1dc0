//! `jumpseat support`: one file with what helps to find a fault, and nothing of what was recorded.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use crate::seat::{JUMPSEAT, Seat};
use support::{PcpEnv, eventually, temp_dir};

fn parts(path: &Path) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(fs::File::open(path).expect("it was written"));
    let entries = archive.entries().expect("a tar file");
    let read = entries.map(|entry| {
        let mut entry = entry.expect("a whole entry");
        let name = entry.path().expect("a name").display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("a text");
        (name, text)
    });
    read.collect()
}

#[test]
fn a_bundle_has_what_helps_and_no_contents_of_records() {
    let dir = temp_dir();
    let log = dir.path().join("serve.log");
    let seat = Seat::in_dir(
        dir.path(),
        "[confine]\nfiles = false\nsystem_calls = false\n[[command]]\nrun = 'sleep 1000 --token=hushhush'\nsource = 'cmd'\n",
    );
    let endpoint = seat.serve(["--log", log.to_str().expect("ASCII")]);
    // Right ones, and one that is refused.
    let lines = "{\"type\":\"t\",\"message\":\"hushhush\",\"field_hushhush\":\"hushhush\"}\n{\"message\":\"hushhush\",broken\n";
    seat.feed(["--source", "app"], lines);
    eventually("the event", || {
        endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok().contains("\"app\"").then_some(())
    });
    let output = dir.path().join("bundle.tar");
    let config = seat.config();
    let args = |output: &str| {
        let (config, log, host) = (config.display().to_string(), log.display().to_string(), endpoint.host());
        ["support", "-o", output, "-c", &config, "-l", &log, "-h", &host].map(str::to_owned)
    };
    let told = PcpEnv::new().run(JUMPSEAT, args(output.to_str().expect("ASCII"))).ok();
    let parts = parts(&output);
    let part = |name: &str| {
        let name = format!("jumpseat-support/{name}");
        &parts.iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("{name} of {told}")).1
    };
    for (name, expected) in [
        ("versions.txt", &format!("jumpseat {}\n", env!("CARGO_PKG_VERSION")) as &str),
        ("configuration.json", "\"sleep\",\n        \"(left out)\""),
        ("check.txt", "a reload changes 0"),
        ("metrics.txt", "jumpseat.source.received[app]: 1"),
        ("metrics.txt", "jumpseat.self.confined.user: "),
        ("process.txt", "Max open files"),
        ("process.txt", "NoNewPrivs:"),
        ("files.txt", " 400.1\n"),
        ("files.txt", "400.log"),
        ("agent.log", "Log for jumpseat"),
    ] {
        assert!(part(name).contains(expected), "{name} {expected}: {}", part(name));
    }
    for (name, text) in &parts {
        assert!(!text.contains("hushhush"), "{name}: {text}");
    }
    assert!(told.contains("Look at it before you send it"), "{told}");
    // Nothing is written over.
    let again = PcpEnv::new().run(JUMPSEAT, args(output.to_str().expect("ASCII"))).fails(1);
    assert!(again.contains("exists"), "{again}");
}

#[test]
fn a_bundle_tells_what_could_not_be_had() {
    let dir = temp_dir();
    let config = dir.path().join("j.toml");
    fs::write(&config, "[evnts]\n").expect("the test's directory is writable");
    let output = dir.path().join("bundle.tar");
    let text = |path: &Path| path.display().to_string();
    let args = [
        "support",
        "-o",
        &text(&output),
        "-c",
        &text(&config),
        "-h",
        "unix:/nonexistent",
        "--no-log",
        "--state-dir",
        &text(dir.path()),
    ]
    .map(str::to_owned);
    let told = PcpEnv::new().run(JUMPSEAT, args).ok();
    assert!(told.contains("no agent runs with"), "{told}");
    let parts = parts(&output);
    let check = &parts.iter().find(|(name, _)| name.ends_with("check.txt")).expect("it is there").1;
    assert!(check.contains("did you mean `events`?"), "{check}");
    assert!(!parts.iter().any(|(name, _)| name.ends_with("agent.log")));
}

#[test]
fn a_bundle_has_no_password_of_a_host() {
    let dir = temp_dir();
    let config = dir.path().join("j.toml");
    let text = |path: &Path| path.display().to_string();
    for (at, (host, pmcd)) in [
        ("unix:/nonexistent?user=u&pass=Xq7unlikely", "localhost?user=u&pass=Xq7unlikely"),
        ("host?secure=x&password=Xq7unlikely", "host?secure=x&password=Xq7unlikely"),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(&config, format!("[derived]\npmcd = '{pmcd}'\n"))
            .expect("the test's directory is writable");
        let output = dir.path().join(format!("bundle{at}.tar"));
        let args = ["support", "-o", &text(&output), "-c", &text(&config), "-h", host, "--no-log"];
        let state_dir = ["--state-dir".to_owned(), text(dir.path())];
        let told = PcpEnv::new().run(JUMPSEAT, args.map(str::to_owned).into_iter().chain(state_dir)).ok();
        assert!(told.contains("pass=...") || told.contains("password=..."), "{told}");
        assert!(!told.contains("Xq7"), "{told}");
        for (name, text) in parts(&output) {
            assert!(!text.contains("Xq7"), "{name}: {text}");
        }
    }
}

//! `jumpseat config check`: before an agent reads it, and beside one that runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::seat::{JUMPSEAT, PMDA, Seat};
use support::{Output, PcpEnv, free_port, temp_dir};

fn check(args: &[&str]) -> Output {
    PcpEnv::new().run(JUMPSEAT, ["config", "check"].iter().chain(args))
}

fn file(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text.replace("DIR", &dir.display().to_string()))
        .expect("the test's directory is writable");
    path.display().to_string()
}

#[test]
fn all_mistakes_are_told_with_what_was_meant() {
    let dir = temp_dir();
    let path =
        file(dir.path(), "j.toml", "[evnts]\n[[file]]\npth = '/x'\nformat = 'jsn'\n[spans]\nwindow = '1w'\n");
    let told = check(&[&path]).fails(1);
    for (line, part) in [
        (1, "did you mean `events`?"),
        (3, "did you mean `path`?"),
        (4, "did you mean `json`?"),
        (6, "a time with a unit"),
    ] {
        let found = told.lines().find(|told| told.starts_with(&format!("{path}:{line}: ")));
        assert!(found.is_some_and(|found| found.contains(part)), "{line} {part}: {told}");
    }
    assert!(told.ends_with(&format!("{path}: 4 mistakes\n")), "{told}");
    let json: serde_json::Value = serde_json::from_str(&check(&["--json", &path]).fails(1)).expect("JSON");
    assert_eq!(json["errors"], 4);
    assert_eq!(json["findings"][1]["line"], 3);
    let missing = check(&["/nonexistent/j.toml"]).fails(1);
    assert!(missing.contains("/nonexistent/j.toml: cannot read the configuration"), "{missing}");
}

#[test]
fn what_the_machine_lacks_is_told() {
    let dir = temp_dir();
    let root = dir.path();
    let token = file(root, "token", "sixteen-characters-or-more");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).expect("ours");
    file(root, "wrong.conf", "a.b = (1 +\n");
    file(root, "not-a-socket", "");
    file(root, "app.log", "");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let path = file(
        root,
        "j.toml",
        &format!(
            "state_dir = 'DIR/ids'\n[derived]\nfiles = ['wrong.conf']\n[otlp]\nlisten = '127.0.0.1:{port}'\ntoken_file = 'DIR/token'\n\
             [[socket]]\npath = 'DIR/not-a-socket'\n[[socket]]\npath = '/nonexistent/s'\n[[file]]\npath = 'DIR/app.log'\n\
             [[file]]\npath = 'DIR/logs/*.log'\n[[command]]\nrun = ['no-such-program', 'x']\n[[source]]\nname = 'ap'\n\
             [control]\nusers = ['nobody-here']\n"
        ),
    );
    let told = check(&[&path]).fails(1);
    for part in [
        "error: derived.files: ".to_owned() + &root.display().to_string(),
        format!("error: otlp.listen: 127.0.0.1:{port}: Address already in use"),
        "everybody may use it (mode 644)".to_owned(),
        "not-a-socket: exists and is not a socket".to_owned(),
        "error: [[socket]] /nonexistent/s: there is no directory /nonexistent".to_owned(),
        "matches nothing yet: there is no directory".to_owned(),
        "error: [[command]] no-such-program x: there is no program no-such-program".to_owned(),
        "note: [[source]] ap: no source is called so yet; did you mean \"app\"?".to_owned(),
        "warning: control.users: there is no user \"nobody-here\"".to_owned(),
        "No agent runs with".to_owned(),
    ] {
        assert!(told.contains(&part), "{part}: {told}");
    }
    assert!(!told.contains("app.log:"), "{told}");
    let json: serde_json::Value = serde_json::from_str(&check(&["--json", &path]).fails(1)).expect("JSON");
    let errors =
        json["findings"].as_array().expect("a list").iter().filter(|found| found["grade"] == "error").count();
    assert_eq!(json["errors"], errors);
    assert_eq!(json["running"], serde_json::Value::Null);
}

#[test]
fn what_another_user_may_not_read_is_told_to_root() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let dir = temp_dir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let log = file(dir.path(), "closed.log", "");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o600)).expect("ours");
    let path = file(dir.path(), "j.toml", "state_dir = 'DIR/ids'\n[[file]]\npath = 'DIR/closed.log'\n");
    let told = check(&["-U", "nobody", &path]).fails(1);
    assert!(told.contains("nobody may not read") && told.contains("closed.log"), "{told}");
    assert!(told.contains("error: state_dir: nobody may not write to"), "{told}");
    let told = check(&["-U", "root", &path]).ok();
    assert!(told.ends_with("j.toml: no errors\n"), "{told}");
    let told = check(&["-U", "no-such-user", &path]);
    assert!(told.stderr.contains("there is no user \"no-such-user\""));
}

#[test]
fn what_a_reload_would_change_is_told_against_a_file_and_against_the_agent_that_runs() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[events]\nrecent = 20\n");
    let user = ["-U", "root"];
    let config = seat.config().display().to_string();
    let mut endpoint = seat.serve([]);
    let base = fs::read_to_string(seat.config()).expect("it is there");
    let args = |path: &str| user.iter().chain(&[path]).map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    let told = |path: &str| {
        let args = args(path);
        check(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let same = told(&config).ok();
    assert!(
        same.contains(&format!("(process {}, {config}) changes nothing.", endpoint.process.pid())),
        "{same}"
    );

    let port = free_port();
    let text = base.replace("recent = 20", "recent = 30\nmax_types = 9")
        + &format!("[otlp]\nlisten = '127.0.0.1:{port}'\n[[command]]\nrun = 'echo x'\nsource = 'c'\n");
    let other = file(dir.path(), "other.toml", &text);
    let changed = told(&other).ok();
    for part in [
        "  events.recent: 20 -> 30\n",
        "  events.max_types: 4096 -> 9; from the next start of the agent on (tables are as large as it was)\n",
        "  [[command]] c echo x: added\n",
        &format!("  otlp.listen: (default) -> \"127.0.0.1:{port}\"\n"),
        "  not with a reload: command echo x: the agent has given up starting programs",
    ] {
        assert!(changed.contains(part), "{part}: {changed}");
    }
    let against = check(&["-U", "root", "--against", &config, &other]).ok();
    assert!(
        against.contains(&format!("Against {config} changes:")) && against.contains("recent: 20 -> 30"),
        "{against}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&check(&["-U", "root", "--json", &other]).ok()).expect("JSON");
    assert_eq!(json["running"]["pid"], endpoint.process.pid());
    assert!(endpoint.process.stop().success());
    assert!(told(&other).ok().contains("No agent runs with"));
}

#[test]
fn the_agent_itself_checks_and_serves_nobody_then() {
    let dir = temp_dir();
    let wrong = file(dir.path(), "wrong.toml", "[evnts]\n[fields]\nmax = 1\n");
    let run = |path: &str| PcpEnv::new().run(PMDA, ["--check", "-U", "root", "-c", path]);
    let said = run(&wrong).fails(1);
    assert!(
        said.contains("did you mean `events`?") && said.contains("wrong.toml:3: fields.max = 1"),
        "{said}"
    );
    let lacking =
        file(dir.path(), "lacking.toml", "state_dir = 'DIR/ids'\n[[socket]]\npath = '/nonexistent/s'\n");
    let said = run(&lacking).fails(1);
    assert!(said.contains("error: [[socket]] /nonexistent/s: there is no directory /nonexistent"), "{said}");
    let right = file(dir.path(), "right.toml", "state_dir = 'DIR/ids'\n[[socket]]\npath = 'DIR/s'\n");
    run(&right).ok();
    assert!(!dir.path().join("ids").exists() && !dir.path().join("s").exists());
}

#[test]
fn the_log_is_json_if_that_is_asked_for() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[derived]\nfiles = ['missing.conf']\n");
    let mut endpoint = seat.serve(["--log-format", "json"]);
    assert!(endpoint.process.stop().success());
    let text = endpoint.process.text();
    let lines: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(lines.len() >= 2, "{text}");
    for line in &lines {
        for key in ["time", "level", "program", "pid", "message"] {
            assert!(!line[key].is_null(), "{key}: {line}");
        }
    }
    let derived =
        lines.iter().find(|line| line["message"].as_str().is_some_and(|text| text.contains("missing.conf")));
    let message = derived.expect("the missing file is told")["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("there are none until a reload finds them, and all else goes on"), "{message}");
    let said = PcpEnv::new().run(JUMPSEAT, ["serve", "--log-format", "xml"]).fails(2);
    assert!(said.contains("write text or json"), "{said}");
}

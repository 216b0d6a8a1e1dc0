//! `jumpseat demo` as somebody sees it who has nothing else yet.

use crate::seat::JUMPSEAT;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use support::{PcpEnv, eventually};

#[test]
fn the_demo_shows_requests_as_trees_and_a_line_of_rates_each_second() {
    let shown = PcpEnv::new().run(JUMPSEAT, ["demo", "--seconds", "2"]).ok();
    let spans = |span: &str| shown.lines().filter(|line| line.contains(&format!("  {span} "))).count();
    assert!(spans("web checkout") > 0 && spans("  orders order") > 0, "{shown}");
    assert!(spans("    payment charge") > 0, "{shown}");
    assert!(!shown.contains("FAILED"), "nothing is wrong yet: {shown}");
    // However many fetches the end of the time takes.
    let rates = shown.lines().filter(|line| line.contains(" events/s")).count();
    assert!(rates <= 2, "{shown}");
    assert!(shown.contains(" records shown, 0 missed. What to try next:"), "{shown}");
}

/// As somebody does who follows what is on the screen: while it runs, and when it is over. Something listens on pmcd's port,
/// as on every machine with PCP.
#[test]
fn what_the_demo_prints_can_be_typed() {
    let _pmcd = std::net::TcpListener::bind(("127.0.0.1", 44321));
    let home = tempfile::tempdir().expect("a directory of the test's");
    let mut env = PcpEnv::new();
    env.set("JUMPSEAT_SOCKET", home.path().join("default.socket"));
    env.set("XDG_STATE_HOME", home.path().join("state"));
    let mut demo = env.command(JUMPSEAT);
    let mut demo = demo.args(["demo", "--seconds", "30"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(demo.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let (mut during, mut page) = (Vec::new(), None);
    for line in lines.by_ref() {
        page = page.or_else(|| line.strip_prefix("See it in a browser:").map(|url| url.trim().to_owned()));
        during.extend(line.trim_start().starts_with(JUMPSEAT).then(|| line.trim().to_owned()));
        if line.contains("FAILED") {
            break;
        }
    }
    assert_eq!(during.len(), 4, "{during:?}");
    let page = page.expect("the address of the page");
    assert!(env.run("curl", ["-s", &page]).ok().contains("<title>jumpseat"), "{page}");
    let shell = |command: &str| env.run("sh", ["-c", command]).ok();
    // The first one is for a terminal.
    let spans = shell(&format!("{} --once", during[0]));
    assert!(spans.contains("payment/charge") && spans.contains("web/checkout"), "{spans}");
    let example = shell(&format!("{} --once --size 120x40 --keys 's s s s s s s Enter'", during[0]));
    assert!(example.contains("durations") && example.contains("slowest examples"), "{example}");
    let errors = eventually("errors to be seen", || {
        let errors = shell(&during[1]);
        errors.contains("the bank has refused card # after a timeout").then_some(errors)
    });
    assert!(errors.contains("payment") && errors.contains("charge"), "{errors}");
    assert!(shell(&during[2]).contains("charge"));
    shell(&during[3]);
    // What it says at the end.
    let rest: Vec<String> = lines.collect();
    demo.wait().expect("it ends");
    let at = rest.iter().position(|line| line.contains("What to try next")).expect("it says what to try");
    let commands: Vec<&str> = rest[at..]
        .iter()
        .filter_map(|line| line.split("  # ").next())
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .skip(1)
        .collect();
    let [serve, feed, info, top] = commands[..] else { panic!("{rest:?}") };
    let script = format!(
        "{serve}\nserver=$!\ntrap 'kill $server' EXIT\n\
         for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do {feed} && break; sleep 1; done\n\
         for i in 1 2 3 4 5; do {info} | grep hello && break; sleep 1; done\n{top} --once\n"
    );
    let typed = shell(&script);
    assert!(typed.contains("hello") && typed.contains("records"), "{typed}");
}

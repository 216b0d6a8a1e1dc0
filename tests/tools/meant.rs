//! "Did you mean": names that there are not, and are near one that there is.

use crate::seat::{JUMPSEAT, Seat};
use support::{PcpEnv, eventually, temp_dir};

#[test]
fn commands_are_offered_that_are_near() {
    let run = |word: &str| PcpEnv::new().run(JUMPSEAT, [word]).fails(2);
    assert!(run("evnts").contains("there is no command \"evnts\"; did you mean events?"), "{}", run("evnts"));
    assert!(run("serv").contains("did you mean serve?"));
    let far = run("xyzzy");
    assert!(!far.contains("did you mean") && far.contains("jumpseat --help"), "{far}");
}

#[test]
fn names_of_metrics_are_offered_that_are_near() {
    let dir = temp_dir();
    let endpoint = Seat::in_dir(dir.path(), "").serve([]);
    let host = endpoint.host();
    let meant = |args: &[&str], code: i32| {
        let (tool, rest) = args.split_first().expect("a tool");
        let words = [*tool, "-h", &host].into_iter().chain(rest.iter().copied());
        PcpEnv::new().run(JUMPSEAT, words).fails(code)
    };
    let near = "did you mean jumpseat.source.received?";
    for args in [
        &["info", "-f", "jumpseat.source.receive"][..],
        &["val", "-s", "1", "jumpseat.source.receive"],
        &["events", "-s", "1", "jumpseat.source.receive"],
        &["store", "jumpseat.source.receive", "1"],
    ] {
        let said = meant(args, 1);
        assert!(said.contains(near), "{args:?}: {said}");
    }
    // Its other rows are of use all the same.
    let said = PcpEnv::new().run(JUMPSEAT, ["top", "-h", &host, "--once", "jumpseat.source.receive"]);
    assert!(said.stdout.contains(near), "{said}");
    let said = meant(&["info", "jumpseat.sorce"], 1);
    assert!(said.contains("did you mean jumpseat.source?"), "{said}");
    let probe = endpoint.run(JUMPSEAT, [""; 0]);
    assert!(!probe.stderr.contains("did you mean"));
    let probed = PcpEnv::new().run(JUMPSEAT, ["probe", "-h", &host, "jumpseat.source.receive"]);
    assert!(probed.stderr.contains(near), "{probed}");
    // By PCP's name it says what PCP's tool says.
    let link = dir.path().join("pminfo");
    std::os::unix::fs::symlink(JUMPSEAT, &link).expect("the test's directory is writable");
    let said = PcpEnv::new().run(link.to_str().expect("ASCII"), ["-h", &host, "jumpseat.source.receive"]);
    assert!(
        said.stderr.starts_with("Error: jumpseat.source.receive:") && !said.stderr.contains("mean"),
        "{said}"
    );

    let explain = ["derive", "explain", "-H", &host, "rate(jumpseat.source.receive)"];
    let said = PcpEnv::new().run(JUMPSEAT, explain).fails(1);
    assert!(said.contains(near), "{said}");
    let said =
        PcpEnv::new().run(JUMPSEAT, ["derive", "explain", "-a", "jumpseat.source.receive + 1"]).fails(1);
    assert!(said.contains(near), "{said}");
}

#[test]
fn severities_and_event_types_of_filters_are_offered() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve(["--listen", &format!("unix:{}", dir.path().join("pcp").display())]);
    seat.feed(["--source", "shop"], "{\"type\":\"checkout\",\"message\":\"x\"}\n").ok();
    eventually("the event", || {
        endpoint.run("pminfo", ["-f", "jumpseat.event.count"]).ok().contains("shop/checkout").then_some(())
    });
    let host = format!("unix:{}", dir.path().join("pcp").display());
    let events = |filter: &str| {
        let args = ["events", "-h", &host, "-s", "1", "-t", "0.1", "-x", filter, "jumpseat.event.records"];
        PcpEnv::new().run(JUMPSEAT, args)
    };
    let wrong = events("severity >= warnin").fails(1);
    assert!(wrong.contains("warnin is not a severity") && wrong.contains("did you mean warning?"), "{wrong}");
    let far = events("type == 'chekout'");
    let words = "no event of type \"chekout\" has come yet; did you mean \"checkout\"?";
    assert!(far.status.success() && far.stderr.contains(words), "{far}");
    let right = events("type == 'checkout'");
    assert!(right.status.success() && right.stderr.is_empty(), "{right}");
}

//! Intervals, windows and zones next to those of the installed libpcp (`tests/c/time_oracle.c`).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use pcp_model::Timestamp;
use pcp_model::time::{Reference, Switches, Window, Zone, parse_interval, parse_window};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/c/time_oracle.c");

/// The oracle's answers to some lines.
fn ask(name: &str, lines: &[String]) -> Vec<String> {
    let program =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("time-oracle-{name}-{}", std::process::id()));
    let compiled = Command::new("cc").args(["-O1", "-o"]).arg(&program).args([SOURCE, "-lpcp"]).output();
    let compiled = compiled.expect("a C compiler is installed (./test installs it)");
    assert!(
        compiled.status.success(),
        "cannot compile {SOURCE} (it needs libpcp's headers; ./test installs them): {}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = lines.join("\n") + "\n";
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    std::fs::remove_file(&program).unwrap();
    assert!(output.status.success(), "the oracle ended with {}", output.status);
    let answers: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), lines.len(), "the oracle answers each line");
    answers
}

fn escaped(text: &str) -> String {
    text.replace('\n', "\\n")
}

/// What PCP accepts and gives no sense: not a number, more seconds than it can hold, a full second of
/// nanoseconds.
const SENSELESS: [&str; 4] = ["nan", "9223372036854775807", "1sec nan", "1.9999999999"];

#[test]
fn intervals() {
    let numbers =
        ["5", "1.5", ".5", "0x10", "1e3", "0", "-5", "+5", "inf", ".", "1.", "1e", "1e19", "0.0000000005"];
    let units = [
        "",
        "s",
        "sec",
        "secs",
        "second",
        "SECONDS",
        "ms",
        "msec",
        "us",
        "usecs",
        "nsec",
        "nanoseconds",
        "m",
        "min",
        "mins",
        "minute",
        "h",
        "hr",
        "hrs",
        "hour",
        "d",
        "ds",
        "day",
        "days",
        "dayss",
        "w",
        "week",
        "x",
        ",",
    ];
    let mut texts: Vec<String> = Vec::new();
    for number in numbers {
        for unit in units {
            texts.push(format!("{number}{unit}"));
            texts.push(format!("  {number} {unit} "));
            texts.push(format!("1 {number}{unit}2m"));
        }
    }
    texts.extend(
        [
            "",
            " ",
            "5 5",
            "1h30m",
            "1 hour 30 min",
            "1:30",
            "5,6",
            "1 m s",
            "5 m in",
            "1min-5",
            "1min+5",
            "1 nano",
        ]
        .map(str::to_owned),
    );
    texts.extend(SENSELESS.map(str::to_owned));
    let lines: Vec<String> = texts.iter().map(|text| format!("interval\t{text}")).collect();
    let mut senseless = 0;
    for (text, answer) in texts.iter().zip(ask("intervals", &lines)) {
        if SENSELESS.contains(&text.as_str()) {
            senseless += 1;
            continue;
        }
        let ours = match parse_interval(text) {
            Ok(time) => format!("0 {} {}", time.as_secs(), time.subsec_nanos()),
            Err(error) => format!("-1 {}", escaped(&error.to_string())),
        };
        assert_eq!(ours, answer, "{text:?}");
    }
    println!("{} intervals", texts.len());
    assert_eq!(senseless, SENSELESS.len());
}

/// Instants in all forms.
const INSTANTS: &[&str] = &[
    "@02:00",
    "@2:00",
    "@10",
    "@10:",
    "@Sun",
    "@Sun 02:00",
    "@Mon 02:00",
    "@Sep",
    "@Sep 10",
    "@Sep 9 02:00",
    "@Sep 8 02:00",
    "@Aug 9",
    "@2001",
    "@Sep 2001",
    "@ Mar 1996",
    "@01:00",
    "@01:50:30.5",
    "@02:10:11 PM",
    "@12:10 AM",
    "@12:10 PM",
    "@13:10 PM",
    "@Sun Sep  9 02:00:00 2001",
    "@Sun Sep 9 02:00:00.25 2001",
    "@02:00:61",
    "@25:00",
    "@24:00",
    "@02:60",
    "@02:00 2002",
    "@9 02:00",
    "@02:00 Sep 9",
    "@Sunday 02:00",
    "@September 9 02:00",
    "@9",
    "@32 02:00",
    "@1:2:",
    "@:30",
    "@::50",
    "@02:00pm",
    "@Oct 02:00",
    "@Feb 30 02:00",
    "@",
    "@x",
    "@02:00 x",
    "@2001-09-09 02:00",
    "@9/9/2001",
    "@yesterday",
    "@now",
    "@today",
    "@tomorrow",
    "@1 hour ago",
    "@-5min",
    "@-1 hour",
    "@- 1 hour",
    "@5 minutes",
    "@10min",
    "@10 sec ago",
    "@10 msec ago",
    "@32",
    "@99",
    "@100",
    "@1999",
    "@2038 02:00",
    "@Sep 9 2001 02:00",
    "@Sep 9 02:00 99",
    "@Sep 9 02:00 1",
    "@Sep 9 02:00 69",
    "@Sep 9 02:00 75",
    "@Sep 10:",
    "@10:5:7",
    "@Sep 9 :50",
    "@Sep 9 1",
    "@9 2",
    "@9 2 2001",
    "@Sun Sep",
    "@Sun 9",
    "@Sun 2002",
    "@8 02:00",
    "@31 02:00",
    "@Jan",
    "@Jan 31",
    "@Sep 31",
    "@Sep 0",
    "@10:00:62",
    "@Sep 9, 02:00",
    "@Sep09 02:00",
    "@2:00 pm 2001",
    "@2:00 p",
    "@2:00 p.m.",
    "@0:30 pm",
    "@12 am",
    "@2 PM 2001",
    "@Sep 9 2 pm",
    "@-1:00",
    "@+1:00",
    "@1 : 50",
    "@Sun Mon",
    "@Sep Oct",
    "@99 bottles",
    "@9 foo",
    "@10:00 foo",
    "@9 Sun",
    "@Mon,",
    "@Mon, Sep 10",
    "@10.5",
    "@10 10 10",
    "@31",
    "@24",
    "@Sep 32",
    "@Sep 9 25",
    "@14 pm",
    "@2 AM 10",
    "@10:00 40",
    "@1:00AMx",
    "@1:00 am2001",
    "@Sep:",
    "@sepx 9",
    "@10:00:1e1",
    "@10:00:-5",
    "x",
    "1x",
    "foo",
    "yesterday",
    "now",
    "2001-09-09 02:00",
    "02:00",
    "2:00pm",
    "5 minutes ago",
    "1 hour ago",
    "1hour ago",
    "hour ago",
    "hour",
    "hour hour",
    "last hour",
    "last day",
    "next hour",
    "this hour",
    "last monday",
    "monday",
    "second tuesday",
    "next month",
    "last month",
    "next year",
    "1 month",
    "1 year ago",
    "12:00 EST",
    "2001-09-09T02:00:00Z",
    "2001-09-09 02:00 UTC",
    "2001-09-09 02:00 +0100",
    "20010909",
    "-5min",
    "-x",
    "+5min",
    "+x",
    "",
    "5 fortnights",
    "noon",
    "Sep 9",
    "9 Sep",
    "Sep 9 2001",
    "Sep 9, 2001",
    "9 sep 2001 2am",
    "2am",
    "1996-03-04 13:07:47 EST Mon",
    "1996-03-05 14:07:47 EST -1hour",
    "Mon Mar  4 13:07:47 1996",
    "Mar 4 1996",
    "Mar",
    "13:07:50",
    "02:00:10.5",
    "@02:00:10.123456",
    "yesterday 02:00",
    "- 5min",
    "now 5 minutes ago",
    "yesterday 5 minutes ago",
    "today 5 minutes",
    "today 1 hour ago",
    "tomorrow 1 hour",
    "10:00 1 hour",
    "10:00 1 hour ago",
    "Sep 9, 2001 1 hour",
    "this",
    "last",
    "next",
    "ago",
    "in 5 minutes",
    "tues",
    "eighth",
    "months",
    "est",
    "12:00 nzdt",
    "12:00 idle",
    "10min",
    "-10min",
    "1.5h",
    "5 foo",
    "2h",
    "0",
    "1:30",
];

#[test]
fn windows() {
    let archive = ("1000000000\t250000000", "1000003600\t750000000");
    let long = ("1000000000\t250000000", "2000000000\t0");
    let live = ("1795000000\t250000000", "9223372036854775807\t0");
    let mut cases: Vec<([&str; 4], (&str, &str))> = Vec::new();
    for reference in [archive, long, live] {
        for text in INSTANTS {
            cases.push((["-", text, "-", "-"], reference));
            cases.push(([text, "-", "-", "-"], reference));
        }
        for align in ["0", "1", "10", "0.3", "1.5", "1h", "1e4", "1min", "-1", "x"] {
            // Without an end PCP aligns origins downwards: its comparison with the end overflows.
            let origins: &[&str] = if reference == live {
                &["-"]
            } else {
                &["-", "0", "5min", "-1min", "-0", "59min", "2h", "@02:00"]
            };
            for origin in origins {
                cases.push((["-", "-", align, origin], reference));
                cases.push((["10min", "30min", align, origin], reference));
            }
        }
        for (start, finish) in [("10min", "-5min"), ("-5min", "10min"), ("2h", "1h"), ("@01:50", "@01:55")] {
            cases.push(([start, finish, "-", "-"], reference));
        }
    }
    let mut wrong = Vec::new();
    for zone in ["UTC", "EST5EDT", ":Europe/London", "<+0530>-5:30"] {
        let ours = Zone::new(zone);
        let mut lines = vec![format!("zone\t{zone}")];
        lines.extend(
            cases.iter().map(|([s, t, a, o], (l0, l1))| format!("window\t{s}\t{t}\t{a}\t{o}\t{l0}\t{l1}")),
        );
        let before = Timestamp::from(SystemTime::now());
        let answers = ask("windows", &lines);
        let after = Timestamp::from(SystemTime::now());
        for ((switches, reference), answer) in cases.iter().zip(&answers[1..]) {
            // Dates in words are about the time of the call, of which we know the limits.
            let found: Vec<String> =
                (before.sec..=after.sec).map(|now| window(*switches, *reference, now, &ours)).collect();
            if !found.contains(answer) {
                wrong.push(format!("{zone} {switches:?} {reference:?}:\n{}\n{answer}", found[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} windows in 4 zones", cases.len());
}

fn window(switches: [&str; 4], reference: (&str, &str), now: i64, zone: &Zone) -> String {
    let [start, finish, align, origin] = switches.map(|text| (text != "-").then_some(text));
    let time = |text: &str| {
        let (sec, nsec) = text.split_once('\t').unwrap();
        Timestamp { sec: sec.parse().unwrap(), nsec: nsec.parse().unwrap() }
    };
    let now = Timestamp { sec: now, nsec: 0 };
    let reference = Reference { start: time(reference.0), end: time(reference.1), now };
    match parse_window(&Switches { start, finish, align, origin }, &reference, zone) {
        Ok(Window { start, end, origin, aligned }) => {
            let text = |t: Timestamp| format!("{}.{:09}", t.sec, t.nsec);
            format!("{} {} {} {}", i32::from(aligned), text(start), text(end), text(origin))
        }
        Err(error) => format!("-1 {}", escaped(&error.to_string())),
    }
}

#[test]
fn zones() {
    let zones = [
        "UTC",
        "EST",
        "EST5",
        "EST5EDT",
        "EST5EWT",
        "EST+5",
        ":Etc/UTC",
        "Etc/UTC",
        ":Europe/London",
        "Europe/London",
        ":America/New_York",
        "Asia/Kolkata",
        "<+0530>-5:30",
        "<-03>3",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        ":nonsense",
        "nonsense",
        "a b",
        "/usr/share/zoneinfo/Asia/Tokyo",
        ":/usr/share/zoneinfo/Asia/Tokyo",
        "AEST-10AEDT,M10.1.0,M4.1.0/3",
        "UTC0",
        "GMT",
    ];
    let times =
        [0, 1_000_000_000, 1_711_846_800, 1_711_850_400, 1_795_000_000, -1, 951_782_400, 4_102_444_800];
    for zone in zones {
        let mut lines = vec![format!("zone\t{zone}")];
        lines.extend(times.iter().map(|sec| format!("ctime\t{sec}")));
        let answers = ask("zones", &lines);
        let ours = Zone::new(zone);
        for (sec, answer) in times.iter().zip(&answers[1..]) {
            assert_eq!(format!("0 {}\\n", ours.ctime(*sec)), *answer, "{zone} {sec}");
        }
    }
}

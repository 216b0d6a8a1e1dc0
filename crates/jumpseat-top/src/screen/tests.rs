//! Whole screens, of samples made by hand.

use std::time::{Duration, Instant};

use pcp_event::EventFlags;
use pcp_model::time::Zone;
use pcp_model::{Desc, InDom, Inst, Pmid, Semantics, Timestamp, Units, ValueType};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;

use super::{Theme, draw};
use crate::app::{App, Command, Pane, Status};
use crate::keys::Key;
use crate::monitor::Link;
use crate::sample::{Batch, EventRecord, Id, Item, Reading, Sample};
use crate::text::text;

const PLAIN: Theme = Theme { colour: false, utf8: true };

/// An application that watches these metrics.
fn app(metrics: &[(&str, Semantics, Units, ValueType, InDom)]) -> App {
    let mut app = App::new(Status {
        host: "db1".to_owned(),
        link: Link::Up,
        trouble: None,
        interval: Duration::from_secs(2),
        zone: Zone::utc(),
        playing: None,
    });
    for (id, &(name, semantics, units, value_type, indom)) in (1..).zip(metrics) {
        app.model.add(id, name);
        let pmid = Pmid::new(1, 0, id as u16);
        app.model.describe(id, &Desc { pmid, value_type, indom, semantics, units });
    }
    app
}

fn numbers(values: &[(Inst, &str, f64)]) -> Reading {
    let item = |&(inst, name, value): &(Inst, &str, f64)| Item { inst, name: name.into(), value };
    Reading::Numbers(values.iter().map(item).collect())
}

fn sample(app: &mut App, sec: i64, readings: Vec<(Id, Reading)>) {
    app.model.apply(Sample { at: Timestamp { sec, nsec: 0 }, readings });
}

fn screen(app: &App, width: u16, height: u16, theme: Theme) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(&mut buffer, app, theme, Instant::now());
    text(&buffer)
}

#[track_caller]
fn check(app: &App, width: u16, height: u16, theme: Theme, expected: &str) {
    let shown = screen(app, width, height, theme);
    assert_eq!(shown.trim_end(), expected.trim_start_matches('\n').trim_end(), "\n{shown}");
}

fn disks() -> App {
    let disks = InDom::new(60, 1);
    let mut app = app(&[
        ("load", Semantics::Instant, Units::NONE, ValueType::Float, InDom::NULL),
        ("disk.dev.read_bytes", Semantics::Counter, Units::from_word(0x1001_0000), ValueType::U64, disks),
        ("app.gone", Semantics::Instant, Units::COUNT, ValueType::U32, InDom::NULL),
    ]);
    for turn in 0..8 {
        let work = f64::from(turn * turn);
        let load = if turn == 4 { numbers(&[]) } else { numbers(&[(-1, "", work / 8.0)]) };
        let disk = numbers(&[(0, "sda", 10.0 * work), (1, "sdb", 700.0), (7, "nvme0n1", work)]);
        let gone = Reading::Failed("Unknown metric name".to_owned());
        sample(&mut app, 1_000_000_000 + 2 * i64::from(turn), vec![(1, load), (2, disk), (3, gone)]);
    }
    app.key(Key::Down);
    app
}

fn events() -> App {
    let streams = InDom::new(400, 1);
    let mut app =
        app(&[("jumpseat.event.records", Semantics::Instant, Units::NONE, ValueType::Event, streams)]);
    let record = |sec: i64, flags, missed, params: &[(&str, &str)]| EventRecord {
        time: Timestamp { sec, nsec: 250_000_000 },
        flags,
        missed,
        params: params.iter().map(|&(name, value)| (name.into(), value.to_owned())).collect(),
    };
    let login = record(1_000_000_001, EventFlags::POINT, None, &[("user", "ann"), ("type", "login")]);
    let lost = record(1_000_000_001, EventFlags::MISSED, Some(17), &[]);
    let work = record(1_000_000_002, EventFlags::START, None, &[("type", "request"), ("severity", "error")]);
    let web = Batch { records: 2, missed: 17, newest: vec![login, lost, work] };
    let idle = Batch::default();
    for (sec, web) in [(1_000_000_000, Batch::default()), (1_000_000_004, web)] {
        let items = vec![
            Item { inst: 0, name: "web".into(), value: web },
            Item { inst: 1, name: "db".into(), value: idle.clone() },
        ];
        sample(&mut app, sec, vec![(1, Reading::Events(items))]);
    }
    app
}

#[test]
fn metrics_and_instances_are_shown_with_rates_units_and_errors() {
    check(
        &disks(),
        76,
        12,
        PLAIN,
        "
 jumpseat top │ db1 │ every 2 s │ 01:46:54 │ 8 samples │ 8 errors    ● live
─ metrics ─ 3 ───────────────────────────────────────────── now  unit ──────
  load                                         ▁▁▁▁·▄▆█    6.12
▶ disk.dev.read_bytes Σ3                       ·▁▂▃▄▆▇█   71.5K  byte / sec
  app.gone                  Unknown metric name
─ disk.dev.read_bytes ─ 3 instances ─ by value ▼ ─ byte / sec ──────────────
  sda                                             ·▁▂▃▄▆▇█   65.0K   +10.0K
  nvme0n1                                         ·▁▂▃▄▆▇█   6.50K   +1.00K
  sdb                                             ·▁▁▁▁▁▁▁       0        0


 q quit  ? help  ↑↓ select  ⏎ open  a add  d remove  Tab pane  +- interval
",
    );
}

#[test]
fn ascii_will_do() {
    check(
        &disks(),
        60,
        8,
        Theme { colour: false, utf8: false },
        "
 jumpseat top | db1 | every 2 s | 01:46:54             live
- metrics - 3 ----------------------------------------- now
  load                                     ____?-+#    6.12
> disk.dev.read_bytes +3                   ?_.,-+*#   71.5K
- disk.dev.read_bytes - 3 instances - by value v -----------
  sda                             ?_.,-+*#   65.0K   +10.0K
  nvme0n1                         ?_.,-+*#   6.50K   +1.00K
 q quit  ? help  jk select  Enter open  a add  d remove
",
    );
}

#[test]
fn instances_are_sorted_reversed_and_filtered() {
    let mut app = disks();
    let names = |app: &App| app.rows().iter().map(|(_, row)| row.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&app), ["sda", "nvme0n1", "sdb"]);
    app.key(Key::Char('s'));
    assert_eq!(names(&app), ["sda", "nvme0n1", "sdb"]);
    app.key(Key::Char('s'));
    assert_eq!(names(&app), ["nvme0n1", "sda", "sdb"]);
    app.key(Key::Char('r'));
    assert_eq!(names(&app), ["sdb", "sda", "nvme0n1"]);
    for key in [Key::Char('/'), Key::Char('S'), Key::Char('d')] {
        app.key(key);
    }
    assert_eq!(names(&app), ["sdb", "sda"]);
    assert!(screen(&app, 80, 12, PLAIN).contains("2 of 3 instances ─ by name ▼ ─ /Sd"));
    // Enter keeps the filter, Escape gives it up.
    app.key(Key::Enter);
    assert_eq!(names(&app), ["sdb", "sda"]);
    assert_eq!(app.key(Key::Esc), None);
    assert_eq!(names(&app).len(), 3);
    assert_eq!(app.key(Key::Esc), Some(Command::Quit));
}

#[test]
fn records_rates_and_losses_are_shown() {
    check(
        &events(),
        84,
        12,
        PLAIN,
        "
 jumpseat top │ db1 │ every 2 s │ 01:46:44 │ 2 samples                       ● live
─ metrics ─ 1 ──────────────────────────────────────────────────── now  unit ───────

▶ jumpseat.event.records                                    ·█    0.50  event / sec
─ events ─ 2 records ─ 17 missed ───────────────────────────────────────────────────
  web                                   ·▄   0.50/s       17 missed       2 records
  db                                    ·▁      0/s                       0 records
  01:46:41.250 web • login user=ann
  01:46:41.250 web ==> 17 records missed
  01:46:42.250 web ▷ request severity=error

 q quit  ? help  ↑↓ select  ⏎ open  a add  d remove  Tab pane  +- interval
",
    );
}

#[test]
fn records_can_be_gone_back_to() {
    let mut app = events();
    app.key(Key::Enter);
    assert_eq!(app.focus(), Pane::Events);
    app.key(Key::Up);
    let shown = screen(&app, 84, 12, PLAIN);
    assert!(shown.contains("1 newer below") && shown.contains("17 records missed"), "{shown}");
    assert!(!shown.contains("request"), "{shown}");
    app.key(Key::End);
    assert!(screen(&app, 84, 12, PLAIN).contains("request"));
}

#[test]
fn a_frozen_screen_stays_as_it_is_while_samples_come() {
    let mut app = disks();
    app.key(Key::Char(' '));
    let before = screen(&app, 80, 14, PLAIN);
    assert!(before.contains("paused"));
    sample(&mut app, 1_000_000_100, vec![(1, numbers(&[(-1, "", 99.0)]))]);
    assert_eq!(screen(&app, 80, 14, PLAIN), before);
    app.key(Key::Char('p'));
    assert!(screen(&app, 80, 14, PLAIN).contains("9 samples"));
}

#[test]
fn what_is_stale_is_marked_and_the_title_tells_why() {
    let mut app = disks();
    let again = Instant::now() + Duration::from_millis(3_900);
    app.status.link = Link::Lost { again, reason: "the collector closed the connection".to_owned() };
    app.model.gap();
    let shown = screen(&app, 76, 12, PLAIN);
    assert!(shown.contains("reconnecting in 4 s: the collector closed the connection"), "{shown}");
    let load = shown.lines().nth(2).unwrap();
    assert!(load.contains("▁▁▁▁·▄▆█·") && load.trim_end().ends_with("6.12?"), "{shown}");
}

#[test]
fn a_refused_expression_is_shown_with_pcps_words_and_can_be_corrected() {
    let mut app = disks();
    app.key(Key::Char('a'));
    "x=1+*2".chars().for_each(|c| drop(app.key(Key::Char(c))));
    assert_eq!(app.key(Key::Enter), Some(Command::Add("x=1+*2".to_owned())));
    let refused = "Syntax Error: pmAddDerivedMetric(\"x\", ...)\n1+*2\n  ^\nArithmetic expression expected\n";
    app.added(Err(refused.to_owned()));
    let shown = screen(&app, 76, 12, PLAIN);
    assert!(shown.contains("│ 1+*2") && shown.contains("│   ^") && shown.contains("add: x=1+*2"), "{shown}");
    app.key(Key::Backspace);
    let shown = screen(&app, 76, 12, PLAIN);
    assert!(shown.contains("add: x=1+*") && !shown.contains("Syntax"), "{shown}");
}

/// Draws an application in every size, in all states that keys lead to.
fn draw_all(mut app: App) {
    for keys in ["", "\t", "?", "?", "a", "\u{1b}", "/x", "\n", "d"] {
        for c in keys.chars() {
            app.key(match c {
                '\t' => Key::Tab,
                '\n' => Key::Enter,
                '\u{1b}' => Key::Esc,
                c => Key::Char(c),
            });
        }
        app.message = Some("one\ntwo".to_owned());
        for (width, height) in (0..30).flat_map(|w| (0..12).map(move |h| (w, h))).chain([(300, 90)]) {
            for colour in [false, true] {
                screen(&app, width, height, Theme { colour, utf8: colour });
            }
        }
    }
}

#[test]
fn instances_can_be_drawn_in_every_size_and_state() {
    draw_all(disks());
}

#[test]
fn records_can_be_drawn_in_every_size_and_state() {
    draw_all(events());
}

#[test]
fn nothing_can_be_drawn_in_every_size_and_state() {
    draw_all(app(&[]));
}

#[test]
fn the_selected_one_of_thousands_is_visible() {
    let mut app = app(&[("proc.cpu", Semantics::Instant, Units::NONE, ValueType::U32, InDom::new(3, 9))]);
    let names: Vec<String> = (0..20_000).map(|inst| format!("{inst:05}")).collect();
    let values: Vec<(Inst, &str, f64)> =
        (0..).zip(&names).map(|(inst, name)| (inst, name.as_str(), f64::from(inst))).collect();
    sample(&mut app, 1, vec![(1, numbers(&values))]);
    app.key(Key::Enter);
    assert!(screen(&app, 80, 24, PLAIN).contains("▶ 19999"));
    app.key(Key::PageDown);
    assert!(screen(&app, 80, 24, PLAIN).contains("▶ 19989"));
    app.key(Key::End);
    let last = screen(&app, 80, 24, PLAIN);
    assert!(last.contains("▶ 00000") && last.contains("20000 instances"), "{last}");
}

#[test]
fn losses_are_red() {
    let app = events();
    let mut buffer = Buffer::empty(Rect::new(0, 0, 84, 12));
    draw(&mut buffer, &app, Theme { colour: true, utf8: true }, Instant::now());
    let line = (0..12).find(|&y| {
        let line: String = (0..84).map(|x| buffer[(x, y)].symbol()).collect();
        line.contains("==> 17 records missed")
    });
    let line = line.expect("the missed record is shown");
    assert!((0..84).any(|x| buffer[(x, line)].symbol() == "=" && buffer[(x, line)].fg == Color::LightRed));
}

#[test]
fn control_characters_of_values_do_not_reach_the_terminal() {
    let indom = InDom::new(1, 1);
    let mut app = app(&[("a\u{1b}[2J", Semantics::Instant, Units::NONE, ValueType::U32, indom)]);
    sample(&mut app, 1, vec![(1, numbers(&[(0, "evil\u{1b}]0;x\u{7}", 1.0)]))]);
    assert!(!screen(&app, 80, 20, PLAIN).contains(['\u{1b}', '\u{7}']));
}

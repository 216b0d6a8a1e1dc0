//! Whole screens, of samples made by hand.

use std::sync::Arc;
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

const PLAIN: Theme = Theme::PLAIN;

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
        packed: Arc::default(),
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


 q quit  ? help  1-6 views  ↑↓ select  ⏎ open  a add  d remove  Tab pane
",
    );
}

#[test]
fn ascii_will_do() {
    check(
        &disks(),
        60,
        8,
        Theme { utf8: false, ..PLAIN },
        "
 jumpseat top | db1 | every 2 s | 01:46:54             live
- metrics - 3 ----------------------------------------- now
  load                                     ____:-+#    6.12
> disk.dev.read_bytes +3                   :_.,-+*#   71.5K
- disk.dev.read_bytes - 3 instances - by value v -----------
  sda                             :_.,-+*#   65.0K   +10.0K
  nvme0n1                         :_.,-+*#   6.50K   +1.00K
 q quit  ? help  1-6 views  jk select  Enter open  a add
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

 q quit  ? help  1-6 views  ↑↓ select  ⏎ open  a add  d remove  Tab pane
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
                screen(&app, width, height, Theme { colour, utf8: colour, light: false });
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
    draw(&mut buffer, &app, Theme { colour: true, ..PLAIN }, Instant::now());
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

/// An application with the records of a shop, in which a payment fails.
fn shop() -> App {
    let mut app = app(&[]);
    let spans = InDom::new(400, 5);
    let nanoseconds = Units::NANOSECOND;
    for (id, name, semantics, units) in [
        (10, "count", Semantics::Counter, Units::COUNT),
        (11, "errors", Semantics::Counter, Units::COUNT),
        (12, "p50", Semantics::Instant, nanoseconds),
        (13, "p99", Semantics::Instant, nanoseconds),
        (14, "histogram", Semantics::Counter, Units::COUNT),
    ] {
        app.model.add_hidden(id, &format!("jumpseat.span.{name}"));
        let pmid = Pmid::new(400, 7, id as u16);
        app.model.describe(id, &Desc { pmid, value_type: ValueType::U64, indom: spans, semantics, units });
    }
    for turn in 0..4 {
        let n = f64::from(turn);
        let both =
            |web: f64, payment: f64| numbers(&[(0, "web/checkout", web), (1, "payment/charge", payment)]);
        let buckets = numbers(&[
            (0, "payment/charge/60ms", 4.0),
            (1, "payment/charge/9ms", 8.0 + n),
            (2, "payment/charge/20ms", 0.0),
            (3, "payment/charge/100us", 0.0),
            (4, "web/checkout/90ms", 99.0),
        ]);
        let readings = vec![
            (10, both(20.0 * n, 10.0 * n)),
            (11, both(0.0, 3.0 * n)),
            (12, both(90e6, 9e6)),
            (13, both(120e6, 60e6)),
            (14, buckets),
        ];
        sample(&mut app, 1_000_000_000 + 2 * i64::from(turn), readings);
    }
    app.model.events = crate::trace::tests::shop();
    app
}

fn press(app: &mut App, keys: &str) {
    crate::keys::named(keys).into_iter().for_each(|key| drop(app.key(key)));
}

#[test]
fn spans_are_a_table_with_a_histogram_and_the_slowest_behind_it() {
    let mut app = shop();
    assert_eq!(app.key(Key::Char('3')), Some(Command::Views));
    check(
        &app,
        100,
        8,
        PLAIN,
        "
 jumpseat top │ db1 │ every 2 s │ 01:46:46 │ 4 samples                                       ● live
 1 metrics  2 events  3 spans  4 traces  5 errors  6 flame
─ spans ─ 2 spans ──────────────────────────────────────────────────────────────────────────────────
  span           count rate/s errors failing    p50 p95    p99 rate
▶ web/checkout      60   10.0      0      0% 90.0ms   -  120ms                                 ·▄▄▄
  payment/charge    30   5.00      9     30% 9.00ms   - 60.0ms                                 ·▄▄▄

 q quit  ? help  1-6 views  ↑↓ select  ⏎ histogram  s sort  r reverse  e export  Tab view
",
    );
    press(&mut app, "Down Enter");
    check(
        &app,
        80,
        12,
        PLAIN,
        "
 jumpseat top │ db1 │ every 2 s │ 01:46:46 │ 4 samples                   ● live
 1 metrics  2 events  3 spans  4 traces  5 errors  6 flame
─ payment/charge ─ durations ───────────────────────────────────────────────────
  below spans share of the largest
  9ms      11 █████████████████████████████████████████████████████████████████
  20ms      0
  60ms      4 ████████████████████████
─ slowest examples ─ 1 among 7 records ─────────────────────────────────────────
    took began        id fields
▶ 50.0ms 01:46:40.020 c  status=error message=card 4711 refused

 q quit  ? help  1-6 views  ↑↓ select  ⏎ trace  Esc back  s sort  e export
",
    );
    // The example is part of a trace.
    press(&mut app, "Enter");
    assert!(screen(&app, 80, 20, PLAIN).contains("trace t1 ─ 3 spans ─ 3 sources ─ 90.0ms ─ 1 failed"));
}

#[test]
fn a_trace_is_a_waterfall_over_sources() {
    let mut app = shop();
    press(&mut app, "4");
    let list = screen(&app, 90, 12, PLAIN);
    assert!(list.contains("01:46:40.000 90.0ms     3       3      1 web/checkout t1"), "{list}");
    press(&mut app, "Down Enter Down Down");
    check(
        &app,
        80,
        14,
        PLAIN,
        "
 jumpseat top │ db1 │ every 2 s │ 01:46:46 │ 4 samples                   ● live
 1 metrics  2 events  3 spans  4 traces  5 errors  6 flame
─ trace t1 ─ 3 spans ─ 3 sources ─ 90.0ms ─ 1 failed ───────────────────────────
  span                 took from the beginning to the end
  web/checkout       90.0ms ███████████████████████████████████████████████████
    orders/order     70.0ms      ████████████████████████████████████████
▶     payment/charge 50.0ms            █████████████████████████████
─ payment/charge ─ id c ────────────────────────────────────────────────────────
  field   value
  status  error
  message card 4711 refused


 q quit  ? help  1-6 views  ↑↓ select  Esc back  ,. sideways  e export  Tab view
",
    );
    press(&mut app, "Esc");
    assert!(screen(&app, 90, 12, PLAIN).contains("─ traces ─ 2 of 7 records"));
}

#[test]
fn records_are_searched_filtered_and_shown_in_detail() {
    let mut app = shop();
    press(&mut app, "2 / refused Enter");
    let shown = screen(&app, 90, 16, PLAIN);
    assert!(shown.contains("events ─ 1 of 7 records") && shown.contains("/refused"), "{shown}");
    press(&mut app, "Enter");
    let shown = screen(&app, 90, 20, PLAIN);
    assert!(shown.contains("message   card 4711 refused") && shown.contains("parent_id b"), "{shown}");
    // Texts go sideways, and back.
    press(&mut app, ".");
    assert!(!screen(&app, 90, 20, PLAIN).contains("message   card"));
    press(&mut app, ", Esc Esc");
    assert!(screen(&app, 90, 16, PLAIN).contains("events ─ 7 records"));
    // A filter that is none is told with the place, and stays to be corrected.
    press(&mut app, "f severity Space == Space loud Enter");
    let shown = screen(&app, 110, 16, PLAIN);
    assert!(
        shown.contains("loud is not a severity") && shown.contains("records where: severity == loud"),
        "{shown}"
    );
    press(&mut app, "Esc");
    // Who goes back stays there while records come.
    press(&mut app, "Up Up");
    assert!(screen(&app, 90, 16, PLAIN).contains("2 newer below"));
    press(&mut app, "End");
    assert!(!screen(&app, 90, 16, PLAIN).contains("newer below"));
}

#[test]
fn errors_are_told_by_what_they_say_and_the_time_of_spans_is_a_flame_graph() {
    let mut app = shop();
    press(&mut app, "5");
    let shown = screen(&app, 90, 16, PLAIN);
    assert!(shown.contains("    1 01:46:40.070 payment charge card # refused"), "{shown}");
    press(&mut app, "Enter");
    assert!(screen(&app, 90, 20, PLAIN).contains("card 4711 refused"));
    press(&mut app, "6");
    let shown = screen(&app, 90, 20, PLAIN);
    let line = |number: usize| shown.lines().nth(number).unwrap_or_default();
    assert!(line(2).starts_with("▏all spans") && line(3).starts_with("▏web/checkout"), "{shown}");
    assert!(line(4).starts_with("▏orders/order") && line(5).starts_with("▏payment/charge"), "{shown}");
    assert!(
        shown.contains("payment/charge 50.0ms 50.0ms     1 web/checkout > orders/order > payment/charge"),
        "{shown}"
    );
    // Zoomed into the second frame, it is the whole.
    press(&mut app, "Down Down Enter");
    assert!(screen(&app, 90, 20, PLAIN).contains("time of spans ─ 70.0ms in all"));
}

#[test]
fn a_number_that_does_not_fit_is_not_shown_in_part() {
    let mut app = shop();
    press(&mut app, "3");
    let narrow = screen(&app, 50, 10, PLAIN);
    let line = narrow.lines().find(|line| line.contains("60   10.0")).unwrap_or_else(|| panic!("{narrow}"));
    assert!(
        line.contains("90.0ms") && !line.contains("ms 1") && !line.trim_end().ends_with("0ms "),
        "{narrow}"
    );
    assert!(line.split_whitespace().all(|word| word != "ms" && word != "20ms" && word != "0ms"), "{narrow}");
}

#[test]
fn the_title_tells_how_busy_the_host_is_and_of_how_many_cpus() {
    let mut app =
        app(&[("busy % of 2 CPUs", Semantics::Instant, Units::NONE, ValueType::Double, InDom::NULL)]);
    sample(&mut app, 1_000_000_000, vec![(1, numbers(&[(-1, "", 86.6)]))]);
    assert!(screen(&app, 110, 8, PLAIN).lines().next().unwrap().contains("busy 87 % of 2 CPUs"));
}

#[test]
fn clicks_select_what_is_there() {
    let mut app = shop();
    press(&mut app, "3");
    let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 20));
    let hits = draw(&mut buffer, &app, PLAIN, Instant::now());
    let (_, line) = hits.iter().find(|(area, _)| area.y == 5).expect("the second line can be clicked on");
    app.click(*line);
    assert!(screen(&app, 80, 20, PLAIN).contains("▶ payment/charge"));
}

#[test]
fn views_can_be_drawn_in_every_size_and_state() {
    for keys in ["2 Enter", "3 Enter", "4 Down Enter", "5 Enter", "6 Enter"] {
        let mut app = shop();
        press(&mut app, keys);
        for (width, height) in
            (0..40).step_by(3).flat_map(|w| (0..14).map(move |h| (w, h))).chain([(300, 90)])
        {
            for colour in [false, true] {
                screen(&app, width, height, Theme { colour, utf8: colour, light: colour });
            }
        }
    }
}

//! `jumpseat demo` as somebody sees it who has nothing else yet.

use crate::seat::JUMPSEAT;
use support::PcpEnv;

#[test]
fn the_demo_shows_records_and_a_line_of_rates_each_second() {
    let shown = PcpEnv::new().run(JUMPSEAT, ["demo", "--seconds", "2"]).ok();
    let records = |source: &str| shown.lines().filter(|line| line.contains(&format!("  {source} "))).count();
    assert!(records("shop") > 0 && records("customers") > 0, "{shown}");
    // However many fetches the end of the time takes.
    let rates = shown.lines().filter(|line| line.contains(" events/s")).count();
    assert!(rates <= 2, "{shown}");
    assert!(shown.contains(" records shown, 0 missed. What to try next:"), "{shown}");
    assert!(shown.contains(&format!("{JUMPSEAT} serve ")), "{shown}");
}

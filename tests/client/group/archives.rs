//! Groups on archives of PCP's own test suite, against libpcp on the same files.

use jumpseat::client::group::{Falling, FetchGroup, GroupOptions};
use jumpseat::client::{Context, Mode};
use jumpseat::model::Timestamp;

use super::matrix::{Registration, indom, item};
use super::{Sides, check};

const ARCHIVES: &str = "/var/lib/pcp/testsuite/archives";

fn sides(archive: &str) -> Sides {
    let path = format!("{ARCHIVES}/{archive}");
    let context = Context::archive(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let options = GroupOptions { falling: Falling::NoValue, ..GroupOptions::default() };
    Sides::over(FetchGroup::with_options(context, options), &format!("create\t2\t={path}"), |_| ())
}

/// Registrations of `docs/pcp/fetchgroup.md` 18.1, and mistakes.
fn dyninsts() -> Vec<Registration> {
    vec![
        item("disk.dev.read", Some("sda"), None, 5),
        item("disk.dev.read", Some("sdc"), None, 5),
        item("disk.dev.read", Some("sda"), Some("instant"), 3),
        item("disk.dev.read", Some("sda"), Some("count x 10^3 / min"), 4),
        item("mem.util.used", None, None, 3),
        item("mem.util.used", None, Some("byte"), 3),
        item("mem.util.used", None, Some("Mbyte"), 5),
        item("mem.util.used", None, Some("rate"), 5),
        indom("disk.dev.write", None, 5, 8),
        indom("disk.dev.write", Some("instant"), 6, 2),
        item("disk.dev.read", Some("no such disk"), None, 5),
        item("disk.dev.read", None, None, 5),
        item("no.such.metric", None, None, 5),
        item("disk", None, None, 5),
        item("mem.util.used", Some("sda"), None, 5),
    ]
}

/// Registers, fetches to the end and beyond it.
fn play(sides: &mut Sides, registrations: &[Registration], fetches: usize) -> Vec<String> {
    let mut wrong: Vec<String> =
        registrations.iter().filter_map(|registration| sides.register(registration).err()).collect();
    for fetch in 0..fetches {
        wrong.extend(sides.fetch().into_iter().map(|text| format!("fetch {fetch}: {text}")));
    }
    wrong
}

#[test]
fn forward_to_the_end_and_beyond() {
    let mut sides = sides("dyninsts");
    let wrong = play(&mut sides, &dyninsts(), 22);
    println!("{} codes and outputs compared", sides.compared);
    check(&wrong);
    assert_eq!(sides.group.timestamp(), None, "the end has been reached");
}

#[test]
fn over_a_gap() {
    let mut sides = sides("changeinst");
    let all = [
        item("sample.seconds", None, None, 5),
        item("sample.seconds", None, Some("instant"), 1),
        item("sample.seconds", None, Some("min"), 5),
    ];
    let wrong = play(&mut sides, &all, 12);
    check(&wrong);
}

#[test]
fn interpolated() {
    let mut sides = sides("dyninsts");
    let (_, start) = sides.group.context().mode();
    let origin = Timestamp::from_nanos(start.as_nanos() + 3_000_000_000);
    sides.group.context_mut().set_mode(Mode::Interpolate { step: 2_500_000_000 }, Some(origin)).unwrap();
    let command = format!("mode\t1\t{}\t{}\t2\t500000000", origin.sec, origin.nsec);
    assert_eq!(sides.peer.ask(&command), "0");
    let all = [item("mem.util.used", None, None, 5), item("disk.dev.write", Some("sdb"), None, 5)];
    let wrong = play(&mut sides, &all, 4);
    check(&wrong);
}

/// An instance that the archive has only later is found, and looking for one that it never has disturbs nothing.
#[test]
fn registrations_on_the_way_keep_the_place() {
    let context = Context::archive(&format!("{ARCHIVES}/dyninsts")).unwrap();
    let mut group = FetchGroup::new(context);
    let used = group.item::<u64>("mem.util.used", None, "instant").unwrap();
    let (_, start) = group.context().mode();
    let (mut times, mut values) = (Vec::new(), Vec::new());
    for fetch in 0..6 {
        group.fetch().unwrap();
        times.push(group.timestamp().unwrap());
        // The number of the second, where the record has the metric.
        if let Ok(value) = group.value(used) {
            values.push((value as i64, times[fetch].sec - start.sec));
        }
        if fetch > 1 {
            assert!(group.item::<f64>("disk.dev.read", Some("no such disk"), "instant").is_err());
            group.item::<f64>("disk.dev.read", Some("sdc"), "instant").unwrap();
        }
    }
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    assert!(!values.is_empty() && values.iter().all(|(value, second)| value == second), "{values:?}");
}

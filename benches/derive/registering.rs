//! Registering definitions on an archive context that is open, looking up names and descriptors, binding and compiling: all that is to be
//! done before the first values, of one instance, come.

use std::hint::black_box;
use std::time::Duration;

use jumpseat::client::Fetched;
use jumpseat::derive::{Dialect, Registry, parse};

use crate::clients::{self, cpu};
use crate::common::{Figure, Goal, Row, Times, race as race_all, rounds};
use crate::peer::{Archive, Peer};
use crate::workload::expression;

pub(crate) fn race(archive: &Archive, definitions: usize, goal: f64) {
    let texts: Vec<(String, String)> =
        (0..definitions).map(|n| (format!("d.n{n}"), expression("m.n", n))).collect();
    let mut peer = Peer::start(
        &format!("archive\t{}", archive.path),
        texts.iter().map(|(_, expression)| expression.clone()),
    );
    let dir = tempfile::tempdir().expect("a directory");
    let registry = clients::registry(definitions);
    let ours = clients::sample(&mut clients::open(archive, &registry), "d.n", definitions, archive.records);
    ours.assert_same(&peer.values(archive.records, dir.path()), |_| false);
    // Such small times are measured over several turns, each with everything new.
    let turns = (1000 / definitions).max(1) as u32;
    let once = || -> Duration {
        let registry = std::sync::Arc::new(Registry::new(Dialect::default()).into());
        let mut context = clients::open(archive, &registry);
        let start = cpu();
        for (name, expression) in &texts {
            registry.write().expect("nobody has panicked").register(name, expression).expect("is correct");
        }
        let (pmids, _) = clients::look_up(&mut context, "d.n", definitions);
        let mut fetched = Fetched::new();
        context.fetch(&pmids, &mut fetched).expect("there is a record");
        let took = cpu() - start;
        assert_eq!(fetched.len(), definitions);
        took
    };
    let mut theirs = || (0..turns).map(|_| peer.nanos("register")).sum::<Duration>() / turns;
    // What there is to do before any name is looked up.
    let mut parsing = || -> Duration {
        let start = cpu();
        for _ in 0..turns {
            for (_, expression) in &texts {
                black_box(parse(expression, &Dialect::default()).expect("is correct"));
            }
        }
        (cpu() - start) / turns
    };
    let mut once = || (0..turns).map(|_| once()).sum::<Duration>() / turns;
    let [ours, theirs, parsing] = race_all(rounds(10), [&mut once, &mut theirs, &mut parsing]);
    let each = |times: &Times| Figure::time(times, definitions as f64, 1e-6, "us a definition");
    let what = format!("register, look up, bind and compile {definitions} definitions, archive");
    Row::new(&what, each(&ours)).peer("libpcp", each(&theirs)).goal(Goal::Ratio(goal)).headline().print();
    Row::new(what, each(&ours)).peer("parsing them, nothing else", each(&parsing)).print();
}

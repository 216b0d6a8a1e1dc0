//! What a definition costs in a fetch where there are few and where there are many.

use std::time::Duration;

use jumpseat::client::{Context, Fetched, Mode};
use jumpseat::model::Pmid;

use crate::clients::{self, cpu};
use crate::common::{Figure, Goal, Row, Times, race as race_all, rounds};
use crate::peer::Archive;
use crate::workload::operands;

const SIZES: [usize; 4] = [10, 100, 1000, 10_000];
/// Definitions that are evaluated in a round, of each size: few, in many rounds. What counts is the difference of two figures, and each has to
/// have been undisturbed once.
const EVALUATIONS: usize = 20_000;
const ROUNDS: usize = 200;
/// What many may cost, of what few do.
const GOAL: f64 = 1.2;

/// A context that goes through the archive again and again.
struct Reader<'a> {
    context: Context,
    archive: &'a Archive,
    pmids: Vec<Pmid>,
    fetched: Fetched,
}

impl Reader<'_> {
    fn new<'a>(archive: &'a Archive, definitions: usize, (prefix, metrics): (&str, usize)) -> Reader<'a> {
        let mut context = clients::open(archive, &clients::registry(definitions));
        let (pmids, _) = clients::look_up(&mut context, prefix, metrics);
        Reader { context, archive, pmids, fetched: Fetched::new() }
    }

    /// The time of all fetches, so many times.
    fn run(&mut self, turns: usize) -> Duration {
        let start = cpu();
        for _ in 0..turns {
            let begin = self.context.span().expect("it has a start").0;
            self.context.set_mode(Mode::Forward, Some(begin)).expect("an archive has it");
            for _ in 0..self.archive.records {
                self.context.fetch(&self.pmids, &mut self.fetched).expect("the record is there");
            }
        }
        cpu() - start
    }
}

pub(crate) fn race(archive: &Archive) {
    let mut readers = SIZES.map(|size| {
        let base = Reader::new(archive, 0, ("m.n", operands(size)));
        (size, Reader::new(archive, size, ("d.n", size)), base)
    });
    let each = readers.each_mut().map(|(size, derived, base)| {
        let turns = (EVALUATIONS / *size / archive.records).max(1);
        let thousands = (turns * archive.records) as u32 * *size as u32 / 1000;
        (move || derived.run(turns) / thousands, move || base.run(turns) / thousands)
    });
    let [(mut a, mut of_a), (mut b, mut of_b), (mut c, mut of_c), (mut d, mut of_d)] = each;
    let [a, of_a, b, of_b, c, of_c, d, of_d] = race_all(
        rounds(ROUNDS),
        [&mut a, &mut of_a, &mut b, &mut of_b, &mut c, &mut of_c, &mut d, &mut of_d],
    );
    let times = [(a, of_a), (b, of_b), (c, of_c), (d, of_d)].map(|(derived, base)| derived.beyond(&base));
    let figure = |times: &Times| Figure::time(times, 1000.0, 1e-9, "ns a definition");
    let [few, more @ ..] = times;
    for (size, times) in SIZES[1..].iter().zip(more) {
        Row::new(
            format!("a definition over {} instances in a fetch of {size}", archive.instances),
            figure(&times),
        )
        .peer(format!("in one of {}", SIZES[0]), figure(&few))
        .goal(Goal::Ratio(1.0 / GOAL))
        .print();
    }
}

//! Random definitions over random samples: descriptors, values, errors and messages against libpcp.
//!
//! Each batch is a world of metrics that change over time, some definitions, and the fetches of them. It
//! goes to two oracles ([`oracle`]) whose memory is filled with different bytes, so that results which
//! depend on memory contents show, and to the library ([`engine`]).
//!
//! What runs can be chosen by environment variables:
//!
//! * `JUMPSEAT_DERIVE_SEED`, `JUMPSEAT_DERIVE_COUNT`: the seed, and the number of expressions.
//! * `JUMPSEAT_DERIVE_LEVEL`: the PCP that is installed, if it is not Debian 12's 6.0.3.
//! * `JUMPSEAT_DERIVE_PREFIX`: a command that runs the compiler and the oracle where another PCP is (in a
//!   container, say). This directory and the target directory must be seen there under the same paths.

mod engine;
mod generate;
mod judge;
mod known;
mod oracle;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use generate::{Batch, Definition};
use judge::Verdict;
use known::{CRASH, Excuse};
use oracle::{Oracles, Program};
use pcp_derive::Level;
use support::random::Random;

const SEED: u64 = 20_240_607;
const EXPRESSIONS: usize = 20_000;
const BATCH: usize = 25;
const SAMPLES: usize = 7;
const WORKERS: usize = 2;
/// So many of each class that is listed may be let off whatever the number of expressions is.
const FEW: usize = 5;
/// How many libpcps are asked: about everything, and about what is not decided then.
const NUMBERS: [usize; 3] = [2, oracle::ZERO + 1, oracle::FILLS.len()];
/// So many differences are shown.
const SHOWN: usize = 20;

#[derive(Default)]
struct Count {
    expressions: AtomicUsize,
    refused: AtomicUsize,
    bound: AtomicUsize,
    value_sets: AtomicUsize,
    same: AtomicUsize,
    excused: Mutex<BTreeMap<(&'static str, &'static str), usize>>,
}

impl Count {
    fn add(&self, lines: &[String], verdicts: &[Verdict]) {
        let lines = |kind: &str, part: &str| {
            lines.iter().filter(|line| line.starts_with(kind) && line.contains(part)).count()
        };
        self.expressions.fetch_add(verdicts.len(), Ordering::Relaxed);
        self.refused.fetch_add(lines("reg", "rror"), Ordering::Relaxed);
        self.bound.fetch_add(lines("desc", "type"), Ordering::Relaxed);
        self.value_sets.fetch_add(lines("val", ""), Ordering::Relaxed);
        for verdict in verdicts {
            self.same.fetch_add(verdict.same, Ordering::Relaxed);
            for (&(why, how), &n) in &verdict.excused {
                (0..n).for_each(|_| self.excuse(why, how));
            }
        }
    }

    fn excuse(&self, why: &'static str, how: &'static str) {
        *self.excused.lock().unwrap_or_else(PoisonError::into_inner).entry((how, why)).or_default() += 1;
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
fn random_definitions_mean_what_they_mean_in_pcp() {
    let number = |name, default| match variable(name) {
        Some(text) => text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        None => default,
    };
    let seed: u64 = number("JUMPSEAT_DERIVE_SEED", SEED);
    let batches = (number("JUMPSEAT_DERIVE_COUNT", EXPRESSIONS as u64) as usize).div_ceil(BATCH);
    let level_name = variable("JUMPSEAT_DERIVE_LEVEL").unwrap_or("6.0.3".to_owned());
    let level: Level = level_name.parse().expect("JUMPSEAT_DERIVE_LEVEL names a level");
    println!("seed {seed}, level {level_name}");
    let program = Program::compile(&variable("JUMPSEAT_DERIVE_PREFIX").unwrap_or_default());
    let (next, count, problems) = (AtomicUsize::new(0), Count::default(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let mut oracles = program.start();
                assert_eq!(
                    oracles.ready(),
                    format!("ready {level_name}"),
                    "another PCP: see the top of this file"
                );
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= batches {
                        break;
                    }
                    let batch = Batch::new(level, BATCH, SAMPLES, &mut Random::new(seed, n as u64));
                    let found = compare(batch, level, &mut oracles, &count);
                    let found = found.into_iter().map(|text| format!("batch {n}: {text}"));
                    problems.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap_or_else(PoisonError::into_inner);
    let read = |n: &AtomicUsize| n.load(Ordering::Relaxed);
    println!(
        "{} expressions: {} refused, {} bound, {} value sets, {} of them the same; {} differ",
        read(&count.expressions),
        read(&count.refused),
        read(&count.bound),
        read(&count.value_sets),
        read(&count.same),
        problems.len()
    );
    let excused = count.excused.into_inner().unwrap_or_else(PoisonError::into_inner);
    for ((how, why), n) in &excused {
        println!("{n} {how}: {why}");
    }
    for problem in problems.iter().take(SHOWN) {
        println!("\n{problem}");
    }
    assert!(problems.is_empty(), "{} expressions differ from libpcp (seed {seed})", problems.len());
    let expressions = read(&count.expressions);
    for (&(how, why), &n) in &excused {
        // Few expressions, as somebody may ask for, can have more than their part of a class; one that is not listed has none.
        let most = known::most(&level_name, how, why)
            .map_or(0, |most| (most * expressions).div_ceil(EXPRESSIONS).max(FEW));
        assert!(n <= most, "{n} are let off ({how}: {why}), {most} at most");
    }
    assert!(read(&count.bound) * 2 > expressions, "too few expressions bind to be worth much");
    assert!(read(&count.same) > 5 * expressions, "too few values were compared to be worth much");
}

/// Compares a batch; where libpcp crashes, halves of it, down to the definition that does it.
fn compare(batch: Batch, level: Level, oracles: &mut Oracles, count: &Count) -> Vec<String> {
    let script = oracle::script(&batch);
    let (ours, bindings) = engine::answer(&batch, level);
    let excuses: Vec<Vec<Excuse>> = bindings
        .iter()
        .enumerate()
        .map(|(k, bound)| known::excuses(&batch, k, bound.as_deref(), level))
        .collect();
    let alone = batch.definitions.len() == 1;
    let how = match verdicts(&batch, &script, &ours, &excuses, oracles) {
        Ok((theirs, verdicts)) => {
            // What differs may come from memory that another definition has damaged.
            let damaged = excuses.iter().flatten().any(|excuse| excuse.crash);
            if alone || !damaged || verdicts.iter().all(|verdict| verdict.different.is_empty()) {
                count.add(&theirs, &verdicts);
                return verdicts.into_iter().flat_map(|verdict| verdict.different).collect();
            }
            String::new()
        }
        Err(how) => how,
    };
    if !alone {
        let (left, right) = halves(batch);
        let mut problems = compare(left, level, oracles, count);
        problems.extend(compare(right, level, oracles, count));
        return problems;
    }
    count.expressions.fetch_add(1, Ordering::Relaxed);
    match excuses[0].iter().find(|excuse| excuse.crash) {
        Some(excuse) => count.excuse(excuse.why, CRASH),
        None => return vec![format!("libpcp dies ({how}): {}", describe(&batch, 0))],
    }
    Vec::new()
}

/// What came of each definition, with the answer of a libpcp; or how one died. Two libpcps are asked, and more where
/// these agree on something else than we do in a place where memory may decide: a comparison with what memory
/// holds comes out the same for many contents.
fn verdicts(
    batch: &Batch,
    script: &str,
    ours: &[String],
    excuses: &[Vec<Excuse>],
    oracles: &mut Oracles,
) -> Result<(Vec<String>, Vec<Verdict>), String> {
    let (mut theirs, mut verdicts) = (Vec::new(), Vec::new());
    for number in NUMBERS {
        theirs.extend(oracles.answers(script, theirs.len()..number)?);
        verdicts = judge::judge(batch, &theirs, ours, excuses);
        let undecided = |(verdict, excuses): (&Verdict, &Vec<Excuse>)| {
            !verdict.different.is_empty() && !excuses.is_empty()
        };
        if !verdicts.iter().zip(excuses).any(undecided) {
            break;
        }
    }
    Ok((theirs.swap_remove(0), verdicts))
}

/// A batch as two, with the same world and the fetches of what each has.
fn halves(batch: Batch) -> (Batch, Batch) {
    let Batch { world, definitions, fetches } = batch;
    let middle = definitions.len() / 2;
    let mut left: Vec<Definition> = definitions;
    let right = left.split_off(middle);
    let some = |from: usize, to: usize| {
        fetches
            .iter()
            .map(|fetch| generate::Fetch {
                sample: fetch.sample,
                list: fetch.list.iter().filter(|&&k| k >= from && k < to).map(|k| k - from).collect(),
            })
            .collect::<Vec<_>>()
    };
    let fetches = (some(0, middle), some(middle, usize::MAX));
    let left = Batch { world: world.clone(), definitions: left, fetches: fetches.0 };
    let right = Batch { world, definitions: right, fetches: fetches.1 };
    (left, right)
}

/// A definition with the metrics that it names and their values.
fn describe(batch: &Batch, k: usize) -> String {
    let definition = &batch.definitions[k];
    let mut text = format!("{} ({}) = {}", definition.name, definition.scope, definition.expression);
    let words = known::words(&definition.expression);
    for (n, metric) in batch.world.metrics.iter().enumerate() {
        if !words.contains(&metric.name.as_str()) {
            continue;
        }
        text.push_str(&format!(
            "\n    {}: {} {} {} '{}' {:?}",
            metric.name,
            metric.value_type.name(),
            metric.semantics.name(),
            metric.indom,
            metric.units,
            metric.error
        ));
        for fetch in &batch.fetches {
            let sample = &batch.world.samples[fetch.sample];
            if fetch.list.contains(&k) {
                let set = &sample.sets[n];
                text.push_str(&format!(
                    "\n      {}.{:09} {:?} {}",
                    sample.time.sec, sample.time.nsec, set.values, set.in_situ
                ));
            }
        }
    }
    text
}

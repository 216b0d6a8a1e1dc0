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
mod known;
mod oracle;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use generate::{Batch, Definition};
use known::Excuse;
use oracle::{Oracle, Program};
use pcp_derive::Level;
use support::random::Random;

const SEED: u64 = 20_240_607;
const EXPRESSIONS: usize = 20_000;
const BATCH: usize = 25;
const SAMPLES: usize = 7;
const WORKERS: usize = 2;
/// So many differences are shown.
const SHOWN: usize = 20;

#[derive(Default)]
struct Count {
    expressions: AtomicUsize,
    refused: AtomicUsize,
    bound: AtomicUsize,
    value_sets: AtomicUsize,
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
            if let Verdict::Excused(why, how) = verdict {
                self.excuse(why, how);
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
                let mut oracles = [program.start(0x55), program.start(0xfe)];
                for oracle in &oracles {
                    assert_eq!(
                        oracle.ready,
                        format!("ready {level_name}"),
                        "another PCP: see the top of this file"
                    );
                }
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
        "{} expressions: {} refused, {} bound, {} value sets; {} differ",
        read(&count.expressions),
        read(&count.refused),
        read(&count.bound),
        read(&count.value_sets),
        problems.len()
    );
    let excused = count.excused.into_inner().unwrap_or_else(PoisonError::into_inner);
    for ((how, why), n) in &excused {
        println!("{n} have {why}: {how} in libpcp");
    }
    for problem in problems.iter().take(SHOWN) {
        println!("\n{problem}");
    }
    assert!(problems.is_empty(), "{} expressions differ from libpcp (seed {seed})", problems.len());
    let excused: usize = excused.values().sum();
    assert!(excused * 20 < read(&count.expressions), "{excused} are too many to be let off");
    assert!(read(&count.bound) * 4 > read(&count.expressions), "too few expressions bind to be worth much");
}

/// Compares a batch; where libpcp crashes, halves of it, down to the definition that does it.
fn compare(batch: Batch, level: Level, oracles: &mut [Oracle; 2], count: &Count) -> Vec<String> {
    let script = oracle::script(&batch);
    oracles.iter_mut().for_each(|oracle| oracle.ask(&script));
    let answers = match oracles.each_mut().map(Oracle::answer) {
        [Ok(first), Ok(second)] => Ok((first, second)),
        [Err(how), _] | [_, Err(how)] => Err(how),
    };
    let (ours, bindings) = engine::answer(&batch, level);
    let excuses: Vec<Vec<Excuse>> = bindings
        .iter()
        .enumerate()
        .map(|(k, bound)| known::excuses(&batch, k, bound.as_deref(), level))
        .collect();
    let alone = batch.definitions.len() == 1;
    let how = match answers {
        Ok((first, second)) => {
            let verdicts = judge(&batch, &first, &second, &ours, &excuses);
            // What is not excused may come from memory that another definition has damaged.
            let damaged = excuses.iter().flatten().any(|excuse| excuse.crash);
            if alone || !damaged || !verdicts.iter().any(|verdict| matches!(verdict, Verdict::Different(_))) {
                count.add(&first, &verdicts);
                return verdicts
                    .into_iter()
                    .filter_map(|verdict| match verdict {
                        Verdict::Different(problem) => Some(problem),
                        _ => None,
                    })
                    .collect();
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
        Some(excuse) => count.excuse(excuse.why, "crash"),
        None => return vec![format!("libpcp dies ({how}): {}", describe(&batch, 0))],
    }
    Vec::new()
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

/// The definition that a line of an answer is about.
fn subject(line: &str) -> Option<usize> {
    line.split(' ').nth(1)?.parse().ok()
}

/// What came of a definition.
enum Verdict {
    Same,
    /// It differs, as it may: why, and how.
    Excused(&'static str, &'static str),
    Different(String),
}

fn judge(
    batch: &Batch,
    first: &[String],
    second: &[String],
    ours: &[String],
    excuses: &[Vec<Excuse>],
) -> Vec<Verdict> {
    let verdict = |k: usize| {
        let about = |lines: &[String]| -> Vec<String> {
            lines.iter().filter(|line| subject(line) == Some(k)).cloned().collect()
        };
        let (a, b, c) = (about(first), about(second), about(ours));
        if a == b && a == c {
            return Verdict::Same;
        }
        let last = [&a, &b, &c].iter().map(|lines| lines.len()).max().unwrap_or(0);
        let at = (0..last).find(|&at| a.get(at) != b.get(at) || a.get(at) != c.get(at)).unwrap_or(0);
        let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
        let (a, b, c) = (line(&a), line(&b), line(&c));
        match excuses[k].iter().find(|excuse| excuse.values) {
            Some(excuse) if a.starts_with("val") && c.starts_with("val") => {
                Verdict::Excused(excuse.why, if a == b { "other values" } else { "undefined values" })
            }
            _ => {
                let what = describe(batch, k);
                Verdict::Different(format!("{what}\n  libpcp    {a}\n  again     {b}\n  jumpseat  {c}"))
            }
        }
    };
    (0..batch.definitions.len()).map(verdict).collect()
}

/// A definition with the metrics that it names and their values.
fn describe(batch: &Batch, k: usize) -> String {
    let definition = &batch.definitions[k];
    let mut text = format!("{} ({}) = {}", definition.name, definition.scope, definition.expression);
    let word = |c: char| !(c.is_alphanumeric() || c == '.' || c == '_');
    let words: Vec<&str> = definition.expression.split(word).collect();
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

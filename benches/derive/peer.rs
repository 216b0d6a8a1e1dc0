//! libpcp in a process of its own, the archives that it makes, and the comparison of values.

use std::path::Path;
use std::time::Duration;

use support::CPeer;

use crate::workload::operands;

/// The processor time of what one client did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Opening, looking up names and the first fetch.
    pub first: Duration,
    /// A fetch once there is a history.
    pub steady: Duration,
    /// Values that the last fetch had.
    pub values: u64,
}

impl Taken {
    /// What is beyond the same with operands only.
    pub(crate) fn beyond(self, base: Taken) -> Taken {
        let beyond = |all: Duration, base: Duration| all.saturating_sub(base).max(Duration::from_nanos(1));
        Taken {
            first: beyond(self.first, base.first),
            steady: beyond(self.steady, base.steady),
            values: self.values,
        }
    }
}

/// libpcp with definitions.
pub(crate) struct Peer(CPeer);

impl Peer {
    /// `source` is `archive PATH` or `host SPEC`, with a tab.
    pub(crate) fn start(source: &str, definitions: impl IntoIterator<Item = String>) -> Peer {
        let mut peer = Peer(CPeer::start("benches/c/derive.c"));
        peer.0.ask(&format!("source\t{source}"));
        for definition in definitions {
            peer.0.ask(&format!("expression\t{definition}"));
        }
        peer
    }

    /// Takes all definitions' values so often, and the operands' by the side of it: what the definitions take beyond those.
    pub(crate) fn run(&mut self, format: &str, operands: usize, fetches: usize) -> Taken {
        self.0.ask(&format!("operands\t{format}"));
        let derived = self.client(fetches);
        derived.beyond(self.taken(&format!("operands_only\t{operands} {fetches}")))
    }

    /// Takes all definitions' values so often: all that a client takes.
    pub(crate) fn client(&mut self, fetches: usize) -> Taken {
        self.taken(&format!("derived\t{fetches}"))
    }

    fn taken(&mut self, command: &str) -> Taken {
        let answer = self.0.ask(command);
        let mut numbers = answer.split('\t').map(|number| number.parse().expect("a number"));
        let mut next = || numbers.next().expect("three numbers");
        let (first, steady) = (Duration::from_nanos(next()), Duration::from_nanos(next()));
        Taken { first, steady, values: next() }
    }

    /// A command that answers with nanoseconds.
    pub(crate) fn nanos(&mut self, command: &str) -> Duration {
        Duration::from_nanos(self.0.ask(command).parse().expect("a number of nanoseconds"))
    }

    /// The values of the last of so many fetches in a new context.
    pub(crate) fn values(&mut self, fetches: usize, dir: &Path) -> Sample {
        let file = dir.join("values");
        let seconds = self.0.ask(&format!("values\t{fetches} {}", file.display()));
        Sample::read(&file, &seconds)
    }
}

/// All values of a fetch: for each definition instances and numbers.
pub(crate) struct Sample {
    pub sets: Vec<Vec<(i32, f64)>>,
    /// Since the fetch before.
    pub seconds: f64,
}

impl Sample {
    fn read(file: &Path, seconds: &str) -> Sample {
        let bytes = std::fs::read(file).expect("libpcp's side has written it");
        let (mut rest, mut sets) = (&bytes[..], Vec::new());
        while let Some((count, values)) = rest.split_first_chunk::<4>() {
            let (values, behind) = values.split_at(12 * i32::from_ne_bytes(*count).max(0) as usize);
            let value = |bytes: &[u8; 12]| {
                let (inst, number) = bytes.split_first_chunk::<4>().expect("twelve bytes");
                let number = f64::from_ne_bytes(number.try_into().expect("eight bytes"));
                (i32::from_ne_bytes(*inst), number)
            };
            sets.push(values.as_chunks::<12>().0.iter().map(value).collect());
            rest = behind;
        }
        Sample { sets, seconds: seconds.parse().expect("a number") }
    }

    /// How many values.
    pub(crate) fn len(&self) -> usize {
        self.sets.iter().map(Vec::len).sum()
    }

    /// Expects the same values in the other, to the last bit where the fetches were of one time. Of those that `by_time` says are
    /// rates, and of different times, what they come to over their time: as exact as libpcp's times are, whose two ends are cut to
    /// microseconds each.
    pub(crate) fn assert_same(&self, theirs: &Sample, by_time: impl Fn(usize) -> bool) {
        assert_eq!(self.sets.len(), theirs.sets.len(), "definitions");
        let exact = 2e-6 / self.seconds.min(theirs.seconds);
        for (n, (ours, others)) in self.sets.iter().zip(&theirs.sets).enumerate() {
            assert_eq!(ours.len(), others.len(), "values of definition {n}");
            for (&(inst, a), &(other, b)) in ours.iter().zip(others) {
                assert_eq!(inst, other, "instances of definition {n}");
                let (a, b) = if by_time(n) { (a * self.seconds, b * theirs.seconds) } else { (a, b) };
                let same = a == b || self.seconds != theirs.seconds && (a - b).abs() <= exact * a.abs();
                assert!(same, "definition {n}, instance {inst}: {a} and {b}");
            }
        }
    }
}

/// An archive of U64 counters `m.n0`, `m.n1`, ..., written by libpcp_import.
pub(crate) struct Archive {
    pub path: String,
    pub metrics: usize,
    pub instances: usize,
    pub records: usize,
}

impl Archive {
    /// With the operands of so many definitions.
    pub(crate) fn make(
        dir: &Path,
        name: &str,
        definitions: usize,
        instances: usize,
        records: usize,
    ) -> Archive {
        let path = dir.join(name).display().to_string();
        let metrics = operands(definitions);
        CPeer::start("benches/c/derive.c")
            .ask(&format!("archive\t{path}\t{metrics}\t{instances}\t{records}"));
        Archive { path, metrics, instances, records }
    }
}

//! Runs PCP's own tools and those that stand in for them with the same words, and compares what they print and how
//! they end.
//!
//! ```ignore
//! let mut pair = Pair::new(pmcd);
//! pair.compare("pminfo", "-f sample.long.one");
//! pair.finish();
//! ```

mod filters;

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::seat::JUMPSEAT;
use support::{Output, PcpEnv, PrivatePmcd};

pub(crate) use filters::FILTERS;

/// The names by which PCP's tools are called.
const NAMES: [&str; 5] = ["pminfo", "pmprobe", "pmstore", "pmval", "pmevent"];
/// Where PCP's own are.
const PCP_BIN: &str = "/usr/bin";
/// Differences printed in full; of more only the command.
const SHOWN: usize = 12;
/// Command lines that are compared at the same time.
const AT_ONCE: usize = 4;

/// What tells our tools which release they are to print as.
pub(crate) const LEVEL: &str = "JUMPSEAT_PCP_LEVEL";

/// The level of the installed PCP: that of the last release that we know and that is no newer.
pub(crate) fn installed_level() -> &'static str {
    static KNOWN: OnceLock<&str> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let version = PcpEnv::new().run("pmval", ["--version"]).stderr;
        let numbers = |text: &str| text.split('.').map_while(|part| part.parse().ok()).collect::<Vec<u32>>();
        let installed = numbers(version.split_whitespace().last().unwrap_or_default());
        let known = ["7.2.1", "6.3.8"].into_iter().find(|level| numbers(level) <= installed);
        known.unwrap_or("6.0.3")
    })
}

/// PCP's tools and ours, on one pmcd.
pub(crate) struct Pair {
    pmcd: PrivatePmcd,
    links: PathBuf,
    cases: usize,
    differences: Vec<String>,
    env: Vec<(String, String)>,
    /// A command that both are given before each case, to start from the same state.
    before: Option<Vec<String>>,
    /// Whether all that is compared was recorded, and so never moves.
    recorded: bool,
}

impl Pair {
    /// On this pmcd, which need not run.
    pub(crate) fn new(pmcd: PrivatePmcd) -> Pair {
        let links = pmcd.dir().join("links");
        std::fs::create_dir(&links).expect("the test's directory is writable");
        for name in NAMES {
            symlink(JUMPSEAT, links.join(name)).expect("the test's directory is writable");
        }
        Pair {
            pmcd,
            links,
            cases: 0,
            differences: Vec::new(),
            env: vec![(LEVEL.to_owned(), installed_level().to_owned())],
            before: None,
            recorded: false,
        }
    }

    /// For archives: nothing is let off but that jumpseat tells its own version.
    pub(crate) fn of_archives(pmcd: PrivatePmcd) -> Pair {
        Pair { recorded: true, ..Pair::new(pmcd) }
    }

    /// Goes on with ours at this level, until [`Pair::env_unset`].
    pub(crate) fn set_level(&mut self, level: &str) {
        self.env_set(LEVEL, level);
    }

    /// For a host that replays records: as archives, and what both print is the same to the last digit.
    pub(crate) fn of_replays(pmcd: PrivatePmcd) -> Pair {
        Pair { recorded: true, ..Pair::new(pmcd) }
    }

    pub(crate) fn pmcd(&self) -> &PrivatePmcd {
        &self.pmcd
    }

    /// A file for the tools, in the directory that they run in.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.pmcd.dir().join(name);
        std::fs::write(&path, text).expect("the test's directory is writable");
        path.display().to_string()
    }

    /// Compares with a variable set.
    pub(crate) fn with_env(&mut self, name: &str, value: &str, compare: impl FnOnce(&mut Pair)) {
        self.env_set(name, value);
        compare(self);
        self.env_unset();
    }

    /// Sets a variable, until [`Pair::env_unset`].
    pub(crate) fn env_set(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Takes back the last variable that was set.
    pub(crate) fn env_unset(&mut self) {
        self.env.pop();
    }

    /// Compares after each of the two has been preceded by a command of PCP's.
    pub(crate) fn after(&mut self, command: &str, compare: impl FnOnce(&mut Pair)) {
        self.before = Some(split(command));
        compare(self);
        self.before = None;
    }

    /// Runs both with the words of `args` (quotes hold words together), and keeps what differs.
    pub(crate) fn compare(&mut self, tool: &str, args: &str) {
        self.cases += 1;
        self.differences.extend(self.difference(tool, args));
    }

    /// Compares command lines of a tool that do not disturb each other, several at a time.
    pub(crate) fn compare_all(&mut self, tool: &str, lines: &[String]) {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                found.extend(self.difference(tool, line));
            }
            found
        };
        let found: Vec<String> = thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            let joined = workers.into_iter().map(|worker| worker.join());
            joined.flat_map(|found| found.unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        self.cases += lines.len();
        self.differences.extend(found);
    }

    /// How both differ, if they do.
    pub(crate) fn difference(&self, tool: &str, args: &str) -> Option<String> {
        let words = split(args);
        let pcp = self.run_words(&Path::new(PCP_BIN).join(tool), &words);
        let ours = self.run_words(&self.links.join(tool), &words);
        let filtered = |text: &str| match self.recorded {
            true => filters::apply_to_recorded(text),
            false => filters::apply(text, self.before.is_some()),
        };
        let sides = [&pcp, &ours]
            .map(|output| [filtered(&output.stdout), filtered(&output.stderr), output.status.to_string()]);
        if sides[0] == sides[1] {
            return None;
        }
        let env: String = self.env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let mut text = format!("$ {env}{tool} {args}\n");
        for ((what, pcp), ours) in ["stdout", "stderr", "status"].iter().zip(&sides[0]).zip(&sides[1]) {
            if pcp != ours {
                let _ = writeln!(text, "--- {what}, PCP's, then ours\n{}", difference(pcp, ours));
            }
        }
        Some(text)
    }

    /// Runs PCP's tool alone.
    pub(crate) fn pcps(&self, tool: &str, args: &str) -> Output {
        self.run_words(&Path::new(PCP_BIN).join(tool), &split(args))
    }

    /// Runs our tool alone.
    pub(crate) fn ours(&self, tool: &str, args: &str) -> Output {
        self.run_words(&self.links.join(tool), &split(args))
    }

    /// The path of our tool under PCP's name.
    pub(crate) fn path(&self, tool: &str) -> PathBuf {
        self.links.join(tool)
    }

    fn run_words(&self, program: &Path, words: &[String]) -> Output {
        let mut env = self.pmcd.env().clone();
        for (name, value) in &self.env {
            env.set(name, value);
        }
        if let Some((before, rest)) = self.before.as_deref().and_then(<[String]>::split_first) {
            env.run(before, rest).ok();
        }
        env.run(program.to_str().expect("temporary paths are ASCII"), words)
    }

    /// Fails if anything differed; else says how much was compared.
    #[track_caller]
    pub(crate) fn finish(self) -> usize {
        let Pair { cases, differences, .. } = self;
        println!("{cases} cases compared, {} differ", differences.len());
        for filter in FILTERS {
            println!("  let off: {}: {}", filter.name, filter.reason);
        }
        let mut text = String::new();
        for (at, difference) in differences.iter().enumerate() {
            let shown = if at < SHOWN { difference } else { difference.lines().next().unwrap_or_default() };
            let _ = writeln!(text, "{shown}");
        }
        assert!(differences.is_empty(), "{} of {cases} cases differ:\n{text}", differences.len());
        cases
    }
}

/// Lines that only one side has, with a mark, and how many there are in all.
fn difference(pcp: &str, ours: &str) -> String {
    let (pcp, ours): (Vec<&str>, Vec<&str>) = (pcp.lines().collect(), ours.lines().collect());
    let same = pcp.iter().zip(&ours).take_while(|(pcp, ours)| pcp == ours).count();
    let mut text = format!("{} and {} lines, from line {} on:\n", pcp.len(), ours.len(), same + 1);
    for (mark, lines) in [('<', pcp), ('>', ours)] {
        for line in lines.iter().skip(same).take(5) {
            let _ = writeln!(text, "{mark} {line}");
        }
    }
    text
}

/// Words at blanks; single quotes hold one together.
fn split(args: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in args.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

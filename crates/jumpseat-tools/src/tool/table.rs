//! Tables of options, and the options that most tools have.

use pcp_model::Level;

use super::call::Call;

/// A tool's command line. `O` is the type of the tool's own options, a variant for each: reading them is a `match` that
/// the compiler checks for completeness.
#[derive(Debug)]
pub(crate) struct Tool<O: 'static> {
    /// PCP's name for it.
    pub name: &'static str,
    /// What it is called as a subcommand.
    pub subcommand: &'static str,
    /// What follows the options in the usage text.
    pub operands: &'static str,
    /// Whether options may come after operands.
    pub permute: bool,
    /// Whether operands may name a host or an archive, so that what depends on the source is known only when they are read.
    pub operands_name_source: bool,
    /// Whether `-z` needs `-h` or `-a`.
    pub zone_needs_source: bool,
    /// Who reads `-t` in PCP, and is named in its messages.
    pub interval_parser: &'static str,
    /// Options in the order of the usage text.
    pub rows: &'static [Row<O>],
    /// Options that it has as a subcommand only.
    pub extra: &'static [Row<O>],
}

/// A line of a tool's table.
#[derive(Debug)]
pub(crate) enum Row<O: 'static> {
    /// The heading of a group.
    Heading(&'static str),
    /// An option that other tools have too.
    Standard(Standard),
    /// An option that other tools have too, in a form of its own.
    StandardAs(Standard, Opt),
    /// An option of its own.
    Own(O, Opt),
    /// What it has since a release of PCP.
    Since(Level, &'static Row<O>),
    /// What it had before one.
    Before(Level, &'static Row<O>),
}

/// What an option stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning<O> {
    /// The same in all tools.
    Standard(Standard),
    /// Something in this tool only.
    Own(O),
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt {
    /// Its letter.
    pub short: Option<char>,
    /// Whether the letter is taken, and not only shown in the usage text.
    pub short_works: bool,
    /// Its long name.
    pub long: &'static str,
    /// When it takes an argument.
    pub takes: Takes,
    /// What the usage text calls the argument.
    pub argument: &'static str,
    /// Its line of the usage text; options without one are not shown.
    help: &'static str,
    /// What that was before a release.
    formerly: Option<(Level, &'static str)>,
}

/// When an option takes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Never.
    Nothing,
    /// Always.
    Argument,
    /// In its long form only.
    ArgumentIfLong,
}

/// Options that mean the same in all tools that have them, and environment variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standard {
    Align,
    Archive,
    ArchiveFolio,
    ArchiveList,
    Container,
    Debug,
    Derived,
    Finish,
    GuiMode,
    GuiPort,
    Help,
    Host,
    HostList,
    HostZone,
    Interval,
    Local,
    Namespace,
    Origin,
    PcpLevel,
    Samples,
    SpecLocal,
    Start,
    TimeZone,
    UniqueNames,
    Version,
}

impl<O> Tool<O> {
    /// The rows for a call by one of its names, at its level.
    pub(crate) fn rows(&self, call: &Call) -> impl Iterator<Item = &'static Row<O>> + use<O> {
        let extra: &[Row<O>] = if call.pcp { &[] } else { self.extra };
        let level = call.level;
        self.rows.iter().chain(extra).filter_map(move |row| row.at(level))
    }
}

impl<O> Row<O> {
    /// The row itself, if a release has it.
    fn at(&'static self, level: Level) -> Option<&'static Row<O>> {
        match self {
            Row::Since(first, row) => row.at(level).filter(|_| level >= *first),
            Row::Before(end, row) => row.at(level).filter(|_| level < *end),
            row => Some(row),
        }
    }
}

impl<O: Copy> Row<O> {
    /// The option, if it is one, and what it stands for.
    pub(crate) fn option(&'static self) -> Option<(&'static Opt, Meaning<O>)> {
        match self {
            Row::Heading(_) | Row::Since(..) | Row::Before(..) => None,
            Row::Standard(standard) => {
                // A test holds the tables to it: those that only the environment asks for have no form.
                let (_, usual) = STANDARD.iter().find(|(other, _)| other == standard)?;
                Some((usual, Meaning::Standard(*standard)))
            }
            Row::StandardAs(standard, option) => Some((option, Meaning::Standard(*standard))),
            Row::Own(own, option) => Some((option, Meaning::Own(*own))),
        }
    }
}

impl Opt {
    /// An option without argument.
    pub(crate) const fn flag(short: Option<char>, long: &'static str, help: &'static str) -> Opt {
        Opt { short, short_works: true, long, takes: Takes::Nothing, argument: "", help, formerly: None }
    }

    /// An option with an argument.
    pub(crate) const fn with(
        short: Option<char>,
        long: &'static str,
        argument: &'static str,
        help: &'static str,
    ) -> Opt {
        Opt { takes: Takes::Argument, argument, ..Opt::flag(short, long, help) }
    }

    /// What its line was before a release.
    pub(crate) const fn formerly(self, end: Level, help: &'static str) -> Opt {
        Opt { formerly: Some((end, help)), ..self }
    }

    /// Its line of the usage text; empty if it is not shown.
    pub(crate) fn help(&self, level: Level) -> &'static str {
        match self.formerly {
            Some((end, help)) if level < end => help,
            _ => self.help,
        }
    }

    /// Its letter is shown in the usage text only.
    pub(crate) const fn without_letter(self) -> Opt {
        Opt { short_works: false, ..self }
    }
}

/// The standard options (`pmGetOptions(3)`), but for those that the environment alone can ask for.
static STANDARD: [(Standard, Opt); 22] = [
    (Standard::Align, Opt::with(Some('A'), "align", "TIME", "align sample times on natural boundaries")),
    (
        Standard::Archive,
        Opt::with(Some('a'), "archive", "FILE", "metrics source is a PCP archive")
            .formerly(Level::V638, "metrics source is a PCP log archive"),
    ),
    (
        Standard::Container,
        Opt::with(None, "container", "NAME", "specify an individual container to be queried"),
    ),
    (
        Standard::Debug,
        Opt::with(Some('D'), "debug", "DBG", "set debug options, see pmdbg(1)").formerly(Level::V721, ""),
    ),
    (Standard::Derived, Opt::with(None, "derived", "FILE", "load derived metric definitions from FILE(s)")),
    (Standard::Finish, Opt::with(Some('T'), "finish", "TIME", "end of the time window")),
    (
        Standard::GuiMode,
        Opt {
            takes: Takes::ArgumentIfLong,
            ..Opt::flag(Some('g'), "guimode", "start in GUI mode with new time control")
        },
    ),
    (Standard::GuiPort, Opt::with(Some('p'), "guiport", "N", "port for connection to existing time control")),
    (Standard::Help, Opt::flag(Some('?'), "help", "show this usage message and exit")),
    (Standard::Host, Opt::with(Some('h'), "host", "HOST", "metrics source is PMCD on host")),
    (
        Standard::HostZone,
        Opt::flag(Some('z'), "hostzone", "set reporting timezone to local time of metrics source"),
    ),
    (Standard::Interval, Opt::with(Some('t'), "interval", "DELTA", "sampling interval")),
    (Standard::Local, Opt::flag(Some('L'), "local-PMDA", "metrics source is local connection to a PMDA")),
    (Standard::Namespace, Opt::with(Some('n'), "namespace", "FILE", "use an alternative PMNS")),
    (Standard::Origin, Opt::with(Some('O'), "origin", "TIME", "initial sample time within the time window")),
    (
        Standard::PcpLevel,
        Opt::with(None, "pcp-level", "RELEASE", "print as this PCP does: 6.0.3, 6.3.8 or 7.2.1 (default)"),
    ),
    (Standard::Samples, Opt::with(Some('s'), "samples", "N", "terminate after this many samples")),
    (
        Standard::SpecLocal,
        Opt::with(Some('K'), "spec-local", "SPEC", "optional additional PMDA spec for local connection"),
    ),
    (Standard::Start, Opt::with(Some('S'), "start", "TIME", "start of the time window")),
    (Standard::TimeZone, Opt::with(Some('Z'), "timezone", "TZ", "set reporting timezone")),
    (
        Standard::UniqueNames,
        Opt::with(Some('N'), "uniqnames", "FILE", "like -n but only one name allowed for each PMID"),
    ),
    (Standard::Version, Opt::flag(Some('V'), "version", "display version number and exit")),
];

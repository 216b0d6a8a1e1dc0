//! Tables of options, and the options that most tools have.

use super::call::Call;

/// A tool's command line.
#[derive(Debug)]
pub struct Tool {
    /// PCP's name for it.
    pub name: &'static str,
    /// What it is called as a subcommand.
    pub subcommand: &'static str,
    /// What follows the options in the usage text.
    pub operands: &'static str,
    /// Whether options may come after operands.
    pub permute: bool,
    /// What it says it cannot do where agents cannot be loaded.
    pub local_failure: &'static str,
    /// Whether `-z` needs `-h` or `-a`.
    pub zone_needs_source: bool,
    /// Who reads `-t` in PCP, and is named in its messages.
    pub interval_parser: &'static str,
    /// Options in the order of the usage text.
    pub rows: &'static [Row],
    /// Options that it has as a subcommand only.
    pub extra: &'static [Row],
}

/// A line of a tool's table.
#[derive(Debug)]
pub enum Row {
    /// The heading of a group.
    Heading(&'static str),
    /// An option that other tools have too.
    Standard(Standard),
    /// An option of its own.
    Own(Opt),
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// Its letter.
    pub short: Option<char>,
    /// Whether the letter is taken, and not only shown in the usage text.
    pub short_works: bool,
    /// Its long name, by which the program knows it.
    pub long: &'static str,
    /// When it takes an argument.
    pub takes: Takes,
    /// What the usage text calls the argument.
    pub argument: &'static str,
    /// Its line of the usage text; options without one are not shown.
    pub help: &'static str,
    /// Which standard option it is; `None` for a tool's own.
    pub standard: Option<Standard>,
}

/// When an option takes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Never.
    Nothing,
    /// Always.
    Argument,
    /// In its long form only.
    ArgumentIfLong,
}

/// Options that mean the same in all tools that have them, and environment variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
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
    Samples,
    SpecLocal,
    Start,
    TimeZone,
    UniqueNames,
    Version,
}

impl Tool {
    /// The rows for a call by one of its names.
    pub fn rows(&self, call: &Call) -> impl Iterator<Item = &'static Row> + use<> {
        let extra: &[Row] = if call.pcp { &[] } else { self.extra };
        self.rows.iter().chain(extra)
    }
}

impl Row {
    /// The option, if it is one.
    pub fn option(&'static self) -> Option<&'static Opt> {
        match self {
            Row::Heading(_) => None,
            Row::Standard(standard) => STANDARD.iter().find(|option| option.standard == Some(*standard)),
            Row::Own(option) => Some(option),
        }
    }
}

impl Opt {
    /// An option without argument.
    pub const fn flag(short: Option<char>, long: &'static str, help: &'static str) -> Opt {
        Opt { short, short_works: true, long, takes: Takes::Nothing, argument: "", help, standard: None }
    }

    /// An option with an argument.
    pub const fn with(
        short: Option<char>,
        long: &'static str,
        argument: &'static str,
        help: &'static str,
    ) -> Opt {
        Opt { takes: Takes::Argument, argument, ..Opt::flag(short, long, help) }
    }

    /// Its letter is shown in the usage text only.
    pub const fn without_letter(self) -> Opt {
        Opt { short_works: false, ..self }
    }

    /// One of the standard options.
    pub const fn means(self, standard: Standard) -> Opt {
        Opt { standard: Some(standard), ..self }
    }
}

/// The standard options (`pmGetOptions(3)`), but for those that the environment alone can ask for.
static STANDARD: [Opt; 21] = [
    Opt::with(Some('A'), "align", "TIME", "align sample times on natural boundaries").means(Standard::Align),
    Opt::with(Some('a'), "archive", "FILE", "metrics source is a PCP archive").means(Standard::Archive),
    Opt::with(None, "container", "NAME", "specify an individual container to be queried")
        .means(Standard::Container),
    // No usage text of the releases followed here shows it.
    Opt::with(Some('D'), "debug", "DBG", "").means(Standard::Debug),
    Opt::with(None, "derived", "FILE", "load derived metric definitions from FILE(s)")
        .means(Standard::Derived),
    Opt::with(Some('T'), "finish", "TIME", "end of the time window").means(Standard::Finish),
    Opt {
        takes: Takes::ArgumentIfLong,
        ..Opt::flag(Some('g'), "guimode", "start in GUI mode with new time control").means(Standard::GuiMode)
    },
    Opt::with(Some('p'), "guiport", "N", "port for connection to existing time control")
        .means(Standard::GuiPort),
    Opt::flag(Some('?'), "help", "show this usage message and exit").means(Standard::Help),
    Opt::with(Some('h'), "host", "HOST", "metrics source is PMCD on host").means(Standard::Host),
    Opt::flag(Some('z'), "hostzone", "set reporting timezone to local time of metrics source")
        .means(Standard::HostZone),
    Opt::with(Some('t'), "interval", "DELTA", "sampling interval").means(Standard::Interval),
    Opt::flag(Some('L'), "local-PMDA", "metrics source is local connection to a PMDA").means(Standard::Local),
    Opt::with(Some('n'), "namespace", "FILE", "use an alternative PMNS").means(Standard::Namespace),
    Opt::with(Some('O'), "origin", "TIME", "initial sample time within the time window")
        .means(Standard::Origin),
    Opt::with(Some('s'), "samples", "N", "terminate after this many samples").means(Standard::Samples),
    Opt::with(Some('K'), "spec-local", "SPEC", "optional additional PMDA spec for local connection")
        .means(Standard::SpecLocal),
    Opt::with(Some('S'), "start", "TIME", "start of the time window").means(Standard::Start),
    Opt::with(Some('Z'), "timezone", "TZ", "set reporting timezone").means(Standard::TimeZone),
    Opt::with(Some('N'), "uniqnames", "FILE", "like -n but only one name allowed for each PMID")
        .means(Standard::UniqueNames),
    Opt::flag(Some('V'), "version", "display version number and exit").means(Standard::Version),
];

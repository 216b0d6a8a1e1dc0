//! A command line, option by option, with everything that is the same in all tools already done (`pmGetOptions(3)`).

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use pcp_client::{Duplicates, NameSpace, without_password};
use pcp_derive::Dialect;
use pcp_model::time::parse_interval;
use pcp_model::{Level, PmError};

use super::call::Call;
use super::common::{Common, Zone};
use super::derived::Definitions;
use super::getopt::{Getopt, Next};
use super::messages::Messages;
use super::source::local_agents;
use super::table::{Meaning, Standard, Tool};
use super::{conf, debug, environ, folio, level, usage};

/// The options of a command line. As an iterator: those that are the tool's own.
pub(crate) struct CommandLine<O: 'static> {
    tool: &'static Tool<O>,
    call: Call,
    words: Getopt<O>,
    common: Common,
    definitions: Definitions,
    messages: Messages,
    /// Whether the command line is wrong.
    wrong: bool,
    /// Whether something that it names is.
    failed: bool,
    /// Whether the version was all that was wanted.
    version: bool,
    at_end: bool,
}

/// One of the tool's own options, as it was given.
#[derive(Debug)]
pub(crate) struct Own<O> {
    /// Which.
    pub option: O,
    /// Its argument, empty if it takes none.
    pub argument: String,
}

/// A command line that makes sense.
pub(crate) struct Ready {
    /// How the tool was called.
    pub call: Call,
    /// The standard options.
    pub common: Common,
    /// Definitions of derived metrics.
    pub definitions: Definitions,
    /// What follows the options.
    pub operands: Vec<String>,
}

impl<O: Copy> CommandLine<O> {
    /// Of a tool, the way it was called, and the words after its name.
    pub(crate) fn new(tool: &'static Tool<O>, call: Call, words: Vec<String>) -> CommandLine<O> {
        // By PCP's name a script must not come to depend on what PCP does not have.
        let level = level::chosen(tool, &call, &words);
        let call = Call { level, ..call };
        let dialect = if call.pcp { Dialect::strict(level) } else { Dialect::at(level) };
        let definitions = Definitions::new(dialect, &call.name);
        let mut line = CommandLine {
            tool,
            words: Getopt::new(tool, &call, words),
            call,
            common: Common::default(),
            definitions,
            messages: Messages::default(),
            wrong: false,
            failed: false,
            version: false,
            at_end: false,
        };
        // Before the command line, so that this can contradict: PCP refuses both together.
        for (option, value) in environ::options() {
            if option == Standard::Debug && !debug::is_valid(&value) {
                complain!("Error: $PCP_DEBUG={value} is not valid, ignored");
            }
            // Of a host there may be a password.
            let shown = if matches!(option, Standard::Host | Standard::HostList) { "..." } else { &value };
            tracing::trace!(target: "pcp::config", "the environment asks for {option:?} {shown}");
            line.standard(option, value);
        }
        line
    }

    /// Adds a message about the command line, which is wrong.
    pub(crate) fn complain(&mut self, what: &str) {
        self.messages.add(&format!("{}: {what}\n", self.call.name));
        self.wrong = true;
    }

    /// Adds a text about the command line, which is wrong, as it stands.
    pub(crate) fn show(&mut self, text: &str) {
        self.messages.add(text);
        self.wrong = true;
    }

    /// Whether anything was wrong so far.
    pub(crate) fn is_wrong(&self) -> bool {
        self.wrong || self.failed || self.version
    }

    /// The standard options so far.
    pub(crate) fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    /// Says something at once, about what the tool can do without.
    pub(crate) fn warn(&self, what: &str) {
        complain!("{}: {what}", self.call.name);
    }

    /// The command line is wrong, and the usage text says enough.
    pub(crate) fn misused(&mut self) {
        self.wrong = true;
    }

    /// The words that are no options. To be asked when there are no more options.
    pub(crate) fn operands(&self) -> Vec<String> {
        self.words.operands()
    }

    /// Loads files with definitions of derived metrics.
    ///
    /// # Errors
    /// Why the first that cannot be read cannot.
    pub(crate) fn load_definitions(&mut self, files: &str) -> Result<(), PmError> {
        let loaded = self.definitions.load(files, &mut self.messages);
        self.messages.flush(&self.call);
        loaded
    }

    /// Puts out what there is to say.
    ///
    /// # Errors
    /// The exit code, if that is all that there is to do.
    pub(crate) fn finish(mut self) -> Result<Ready, ExitCode> {
        let ends = self.version || self.wrong || self.failed;
        // What the command line names and is not there is no misuse: the usage text would not help.
        if !self.version && self.wrong && !self.failed {
            self.messages.add(&usage::usage(self.tool, &self.call));
        }
        self.messages.flush(&self.call);
        if ends {
            return Err(ExitCode::from(u8::from(!self.version)));
        }
        let CommandLine { call, common, definitions, words, .. } = self;
        Ok(Ready { call, common, definitions, operands: words.operands() })
    }

    fn standard(&mut self, option: Standard, argument: String) {
        match option {
            Standard::Align => self.common.align = Some(argument),
            Standard::Archive => self.add_archive(argument, "only one host or archive allowed"),
            Standard::ArchiveList => self.add_archive(argument, "only one of hosts or archives allowed"),
            Standard::ArchiveFolio => self.add_folio(&argument),
            Standard::Container => self.common.container = Some(argument),
            Standard::Debug if debug::set(&argument) => {}
            Standard::Debug => {
                self.complain(&format!("unrecognized debug options specification ({argument})"));
            }
            Standard::Derived => {
                if let Err(error) = self.load_definitions(&argument) {
                    self.complain(&format!("pmLoadDerivedConfig failed: {error}"));
                }
            }
            Standard::Finish => self.common.finish = Some(argument),
            Standard::GuiMode if self.common.gui_port.is_some() => {
                self.complain("at most one of -g and -p allowed");
            }
            Standard::GuiMode => self.common.gui = true,
            Standard::GuiPort if self.common.gui => self.complain("at most one of -g and -p allowed"),
            Standard::GuiPort => self.common.gui_port = Some(argument),
            Standard::Help => self.wrong = true,
            Standard::Host => self.set_host(argument),
            Standard::HostList => self.set_host_list(argument),
            Standard::HostZone => self.set_zone(Zone::Source),
            Standard::Interval => self.set_interval(&argument),
            Standard::Local => self.common.local = true,
            Standard::Namespace => self.name_space(&argument, Duplicates::Allowed),
            Standard::UniqueNames => self.name_space(&argument, Duplicates::Refused),
            Standard::Origin => self.common.origin = Some(argument),
            Standard::PcpLevel => {
                if let Err(why) = argument.parse::<Level>() {
                    self.complain(&format!("--pcp-level {argument}: {why}"));
                }
            }
            Standard::Samples => match count(&argument) {
                Some(samples) => self.common.samples = Some(samples),
                None => self.complain("-s requires a positive numeric argument"),
            },
            Standard::SpecLocal => {
                let agents = self.common.local_agents.get_or_insert_with(|| local_agents(&self.call));
                if let Err(why) = agents.specify(&argument) {
                    self.complain(&format!("pmSpecLocalPMDA failed: {why}"));
                }
            }
            Standard::Start => self.common.start = Some(argument),
            Standard::TimeZone => self.set_zone(Zone::Named(argument)),
            Standard::Version => {
                self.messages.add(&format!("{}\n", self.call.version()));
                self.version = true;
            }
        }
    }

    fn add_archive(&mut self, archive: String, refusal: &str) {
        // One that is in the list is not added again.
        let listed = format!(",{},", self.common.archives.join(","));
        // Of an empty list an empty name is no part.
        let known = !self.common.archives.is_empty() && listed.contains(&format!(",{archive},"));
        match self.common.host {
            Some(_) => self.complain(refusal),
            None if known => {}
            None => self.common.archives.push(archive),
        }
    }

    fn add_folio(&mut self, folio: &str) {
        match folio::archives(folio) {
            Ok(archives) => archives
                .into_iter()
                .for_each(|archive| self.add_archive(archive, "only one of hosts or archives allowed")),
            Err(error) => self.fail(&error.of(folio).to_string()),
        }
    }

    fn set_host(&mut self, host: String) {
        if !self.common.archives.is_empty() {
            self.complain("only one host or archive allowed");
        } else if self.common.host.is_some() {
            self.complain(&format!("too many hosts requested: {}", without_password(&host)));
        } else {
            self.common.host = Some(host);
        }
    }

    /// Several hosts, of which these tools take one.
    fn set_host_list(&mut self, hosts: String) {
        if !self.common.archives.is_empty() {
            self.complain("only one of hosts or archives allowed");
        } else if self.common.host.is_some() || hosts.contains(',') {
            self.complain(&format!("too many hosts requested: {}", without_password(&hosts)));
            // So that an archive after it is refused, too.
            self.common.host.get_or_insert(hosts);
        } else {
            self.common.host = Some(hosts);
        }
    }

    fn set_interval(&mut self, interval: &str) {
        match parse_interval(interval) {
            Ok(interval) => self.common.interval = Some(interval),
            Err(error) => {
                // Since then all tools have one parser.
                let parser = match self.call.level {
                    Level::V721 => "pmParseInterval",
                    _ => self.tool.interval_parser,
                };
                self.complain(&format!("-t argument not in {parser}(3) format:\n{error}"));
            }
        }
    }

    /// Of two zones of the same kind the last counts; one of each kind is too many.
    fn set_zone(&mut self, zone: Zone) {
        let known = self.common.zone.as_ref();
        if known.is_some_and(|known| std::mem::discriminant(known) != std::mem::discriminant(&zone)) {
            return self.complain("at most one of -Z and -z allowed");
        }
        self.common.zone = Some(zone);
    }

    /// A name space from a file, in place of the source's.
    fn name_space(&mut self, file: &str, duplicates: Duplicates) {
        // Where #include looks, as in PCP's own files.
        let include = [conf::var_dir().join("pmns")];
        let why = match NameSpace::load(Path::new(file), duplicates, &include) {
            // Names of two files do not add up.
            Ok(_) if self.common.names.is_some() => PmError::DUPPMNS,
            Ok(names) => {
                tracing::trace!(target: "pcp::pmns", "names come from {file}, not from the source");
                self.common.names = Some(Arc::new(names));
                return;
            }
            Err(error) => {
                self.messages.add(&error.report());
                error.code()
            }
        };
        self.fail(&format!("Cannot load namespace from \"{file}\": {why}"));
    }

    /// Adds a message about something that the command line names.
    fn fail(&mut self, what: &str) {
        self.messages.add(&format!("{}: {what}\n", self.call.name));
        self.failed = true;
    }

    /// Checks what can only be known when the source is: behind the options, or the operands where these may name it.
    pub(crate) fn check_source(&mut self) {
        let common = &mut self.common;
        // A time without a source means the past of this very host.
        if common.origin.is_some() && common.host.is_none() && common.archives.is_empty() && !common.local {
            common.archives.push(default_archive());
        }
        let archive = !common.archives.is_empty();
        let source = archive || common.host.is_some();
        // An end alone makes sense for a collector, too.
        let window = common.start.is_some() || common.align.is_some() || common.origin.is_some();
        let unknown_zone =
            common.zone == Some(Zone::Source) && !source && (self.tool.zone_needs_source || common.local);
        if window && !archive {
            self.complain("time window options are supported for archives only");
        }
        if unknown_zone {
            self.complain("use of timezone from metric source requires a source");
        }
    }
}

impl<O: Copy> Iterator for CommandLine<O> {
    type Item = Own<O>;

    fn next(&mut self) -> Option<Own<O>> {
        if self.at_end {
            return None;
        }
        while let Some(next) = self.words.next() {
            match next {
                Next::Problem(message) => self.complain(&message),
                Next::Option(meaning, argument) => {
                    let argument = argument.unwrap_or_default();
                    match meaning {
                        Meaning::Standard(standard) => self.standard(standard, argument),
                        Meaning::Own(option) => return Some(Own { option, argument }),
                    }
                }
            }
        }
        self.at_end = true;
        if !self.tool.operands_name_source {
            self.check_source();
        }
        None
    }
}

/// A whole number as `strtol` takes it, not negative. No digits at all are 0.
pub(crate) fn count(text: &str) -> Option<u64> {
    let digits = text.trim_start();
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    if text.is_empty() { Some(0) } else { digits.parse().ok() }
}

/// Where pmlogger keeps the archive of this very host.
fn default_archive() -> String {
    let dir = conf::setting("PCP_ARCHIVE_DIR")
        .or_else(|| Some(conf::setting("PCP_LOG_DIR")? + "/pmlogger"))
        .unwrap_or_else(|| "/var/log/pcp/pmlogger".to_owned());
    let host = nix::unistd::gethostname().unwrap_or_default();
    format!("{dir}/{}", host.to_string_lossy())
}

//! A tool's options, one by one, with everything that is the same in all tools already done (`pmGetOptions(3)`).

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};

use jumpseat::client::{Context, Duplicates, NameSpace, SharedRegistry, global_registry};
use jumpseat::derive::{ConfigProblem, Dialect, Level, Registry};
use jumpseat::model::PmError;
use jumpseat::time::parse_interval;

use super::call::Call;
use super::common::{Common, Zone};
use super::getopt::{Getopt, Next};
use super::local::LocalAgents;
use super::messages::{Messages, error_text};
use super::table::{Standard, Tool};
use super::{conf, debug, environ, usage};
use crate::definitions;

/// The options of a command line. As an iterator: those that are the tool's own.
pub struct Options {
    tool: &'static Tool,
    call: Call,
    words: Getopt,
    common: Common,
    local_agents: LocalAgents,
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

/// One of the tool's own options.
#[derive(Debug)]
pub struct Own {
    /// Its long name.
    pub name: &'static str,
    /// Its argument, empty if it takes none.
    pub argument: String,
}

/// A command line that makes sense.
pub struct Ready {
    /// How the tool was called.
    pub call: Call,
    /// The standard options.
    pub common: Common,
    /// Definitions of derived metrics.
    pub definitions: Definitions,
    /// What follows the options.
    pub operands: Vec<String>,
    /// What the tool says it cannot do where agents cannot be loaded.
    pub local_failure: &'static str,
}

/// Definitions of derived metrics: those of the command line, and those that PCP has in every program.
pub struct Definitions {
    registry: SharedRegistry,
    initialised: bool,
}

impl Options {
    /// Of a tool, the way it was called, and the words after its name.
    pub fn new(tool: &'static Tool, call: Call, words: Vec<String>) -> Options {
        let dialect = if call.pcp { Dialect::strict(Level::V638) } else { Dialect::default() };
        let mut options = Options {
            tool,
            words: Getopt::new(tool, &call, words),
            call,
            common: Common::default(),
            local_agents: LocalAgents::default(),
            definitions: Definitions::new(dialect),
            messages: Messages::default(),
            wrong: false,
            failed: false,
            version: false,
            at_end: false,
        };
        for (option, value) in environ::options() {
            if option == Standard::Debug && !debug::is_valid(&value) {
                eprintln!("Error: $PCP_DEBUG={value} is not valid, ignored");
            }
            options.standard(option, value);
        }
        options
    }

    /// Adds a message about the command line, which is wrong.
    pub fn complain(&mut self, what: &str) {
        self.messages.add(&format!("{}: {what}\n", self.call.name));
        self.wrong = true;
    }

    /// Adds a text about the command line, which is wrong, as it stands.
    pub fn show(&mut self, text: &str) {
        self.messages.add(text);
        self.wrong = true;
    }

    /// Whether anything was wrong so far.
    pub fn is_wrong(&self) -> bool {
        self.wrong || self.failed || self.version
    }

    /// The standard options so far.
    pub fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    /// Says something at once, about what the tool can do without.
    pub fn warn(&self, what: &str) {
        eprintln!("{}: {what}", self.call.name);
    }

    /// The command line is wrong, and the usage text says enough.
    pub fn misused(&mut self) {
        self.wrong = true;
    }

    /// The words that are no options. To be asked when there are no more options.
    pub fn operands(&self) -> Vec<String> {
        self.words.operands()
    }

    /// Loads files with definitions of derived metrics.
    ///
    /// # Errors
    /// Why the first that cannot be read cannot.
    pub fn load_definitions(&mut self, files: &str) -> Result<(), PmError> {
        let loaded = self.definitions.load(files, &mut self.messages);
        self.messages.flush(&self.call);
        loaded
    }

    /// Puts out what there is to say.
    ///
    /// # Errors
    /// The exit code, if that is all that there is to do.
    pub fn finish(mut self) -> Result<Ready, ExitCode> {
        let ends = self.version || self.wrong || self.failed;
        if !self.version && self.wrong && !self.failed {
            self.messages.add(&usage::usage(self.tool, &self.call));
        }
        self.messages.flush(&self.call);
        if ends {
            return Err(ExitCode::from(u8::from(!self.version)));
        }
        let Options { tool, call, common, definitions, words, .. } = self;
        Ok(Ready { call, common, definitions, operands: words.operands(), local_failure: tool.local_failure })
    }

    fn standard(&mut self, option: Standard, argument: String) {
        match option {
            Standard::Align => self.common.align = Some(argument),
            Standard::Archive if self.common.host.is_some() => {
                self.complain("only one host or archive allowed")
            }
            Standard::ArchiveList if self.common.host.is_some() => {
                self.complain("only one of hosts or archives allowed");
            }
            Standard::Archive | Standard::ArchiveList => self.common.archives.push(argument),
            Standard::ArchiveFolio => {
                let why = match File::open(&argument) {
                    Ok(_) => "folios are not read here, name the archives in it".to_owned(),
                    Err(error) => error_text(&error),
                };
                self.fail(&format!("cannot open archive folio {argument}: {why}"));
            }
            Standard::Container => self.common.container = Some(argument),
            Standard::Debug if debug::is_valid(&argument) => {}
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
            Standard::HostList if !self.common.archives.is_empty() => {
                self.complain("only one of hosts or archives allowed");
            }
            Standard::Host if !self.common.archives.is_empty() => {
                self.complain("only one host or archive allowed");
            }
            Standard::Host if self.common.host.is_some() => {
                self.complain(&format!("too many hosts requested: {argument}"));
            }
            Standard::HostList if self.common.host.is_some() || argument.contains(',') => {
                self.complain(&format!("too many hosts requested: {argument}"));
                self.common.host.get_or_insert(argument);
            }
            Standard::Host | Standard::HostList => self.common.host = Some(argument),
            Standard::HostZone if matches!(self.common.zone, Some(Zone::Named(_))) => {
                self.complain("at most one of -Z and -z allowed");
            }
            Standard::HostZone => self.common.zone = Some(Zone::Source),
            Standard::Interval => match parse_interval(&argument) {
                Ok(interval) => self.common.interval = Some(interval),
                Err(error) => {
                    let parser = self.tool.interval_parser;
                    self.complain(&format!("-t argument not in {parser}(3) format:\n{error}"));
                }
            },
            Standard::Local => self.common.local = true,
            Standard::Namespace => self.name_space(&argument, Duplicates::Allowed),
            Standard::UniqueNames => self.name_space(&argument, Duplicates::Refused),
            Standard::Origin => self.common.origin = Some(argument),
            Standard::Samples => match count(&argument) {
                Some(samples) => self.common.samples = Some(samples),
                None => self.complain("-s requires a positive numeric argument"),
            },
            Standard::SpecLocal => {
                if let Err(why) = self.local_agents.specify(&argument) {
                    self.complain(&format!("pmSpecLocalPMDA failed: {why}"));
                }
            }
            Standard::Start => self.common.start = Some(argument),
            Standard::TimeZone if self.common.zone == Some(Zone::Source) => {
                self.complain("at most one of -Z and -z allowed");
            }
            Standard::TimeZone => self.common.zone = Some(Zone::Named(argument)),
            Standard::Version => {
                self.messages.add(&format!("{}\n", self.call.version()));
                self.version = true;
            }
        }
    }

    /// A name space from a file, in place of the source's.
    fn name_space(&mut self, file: &str, duplicates: Duplicates) {
        let include = [conf::var_dir().join("pmns")];
        let why = match NameSpace::load(Path::new(file), duplicates, &include) {
            Ok(_) if self.common.names.is_some() => PmError::DUPPMNS,
            Ok(names) => {
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

    /// Checks what can only be known when all options are.
    fn check(&mut self) {
        let common = &mut self.common;
        if common.origin.is_some() && common.host.is_none() && common.archives.is_empty() && !common.local {
            common.archives.push(default_archive());
        }
        let archive = !common.archives.is_empty();
        let source = archive || common.host.is_some();
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

impl Iterator for Options {
    type Item = Own;

    fn next(&mut self) -> Option<Own> {
        if self.at_end {
            return None;
        }
        while let Some(next) = self.words.next() {
            match next {
                Next::Problem(message) => self.complain(&message),
                Next::Option(option, argument) => {
                    let argument = argument.unwrap_or_default();
                    match option.standard {
                        Some(standard) => self.standard(standard, argument),
                        None => return Some(Own { name: option.long, argument }),
                    }
                }
            }
        }
        self.at_end = true;
        self.check();
        None
    }
}

impl Definitions {
    /// Loads the definitions that `PCP_DERIVED_CONFIG` names, or those that are installed with PCP, unless that has
    /// been done.
    pub fn load_defaults(&mut self, call: &Call) {
        let mut messages = Messages::default();
        self.initialise(&mut messages);
        messages.flush(call);
    }

    /// None yet, in a dialect.
    pub fn new(dialect: Dialect) -> Definitions {
        let registry = global_registry();
        *registry.write().unwrap_or_else(PoisonError::into_inner) = Registry::new(dialect);
        Definitions { registry, initialised: false }
    }

    fn load(&mut self, files: &str, messages: &mut Messages) -> Result<(), PmError> {
        self.initialise(messages);
        self.add(files, messages)
    }

    fn initialise(&mut self, messages: &mut Messages) {
        if std::mem::replace(&mut self.initialised, true) {
            return;
        }
        self.registry.write().unwrap_or_else(PoisonError::into_inner).initialise();
        let files = match std::env::var("PCP_DERIVED_CONFIG") {
            Ok(files) => files,
            Err(_) => conf::var_dir().join("config/derived").to_string_lossy().into_owned(),
        };
        if !files.is_empty() {
            // Files that nobody named on the command line may be missing.
            let _ = self.add(&files, messages);
        }
    }

    fn add(&mut self, files: &str, messages: &mut Messages) -> Result<(), PmError> {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let mut problem = |file: &Path, problem: &ConfigProblem| {
            messages.add(&problem.text(&file.display().to_string()));
        };
        let loaded = definitions::load(&mut registry, Path::new(files), &mut problem);
        loaded.map(|_| ()).map_err(|unreadable| PmError::from(&unreadable.error))
    }
}

/// Says which definitions of derived metrics turned out to be of no use with these metrics.
pub fn tell_of_definitions(context: &mut Context) {
    context.derived().take_messages().iter().for_each(|message| eprint!("{message}"));
}

/// A whole number as `strtol` takes it, not negative. No digits at all are 0.
pub fn count(text: &str) -> Option<u64> {
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

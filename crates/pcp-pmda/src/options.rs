//! The options every PMDA takes (`docs/pcp/agent.md` 20, `pmdaGetOptions(3)`).

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::Transport;
use super::builder::MAX_DOMAIN;
use super::log::LogFormat;

/// What the options said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-d`, `--domain`: the agent's domain.
    pub domain: u16,
    /// `-i`, `-6`, `-u`, `-p` and their long forms.
    pub transport: Transport,
    /// `-l`, `--log`: the log file.
    pub log: Option<PathBuf>,
    /// `--log-format`: the form of its lines.
    pub log_format: LogFormat,
    /// `-h`, `--helpfile`: help text to use in place of the built-in.
    pub help_file: Option<PathBuf>,
    /// `-U`, `--username`: the user to become when started as root.
    pub username: Option<String>,
    /// `-D`, `--debug`: debug options.
    pub debug: Option<String>,
    /// `-c`, `--config`: the configuration file.
    pub config: Option<PathBuf>,
}

/// The command line is wrong, or asks for help only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    /// What is wrong; `None` after `--help`.
    pub reason: Option<String>,
    program: String,
}

impl UsageError {
    /// The exit status of a program that prints this and ends.
    pub fn exit_code(&self) -> i32 {
        i32::from(self.reason.is_some())
    }
}

impl std::error::Error for UsageError {}

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(reason) = &self.reason {
            writeln!(f, "{}: {reason}", self.program)?;
        }
        writeln!(f, "Usage: {} [options]\n\nOptions:", self.program)?;
        for (index, option) in TABLE.iter().enumerate() {
            if index == FIRST_TRANSPORT {
                writeln!(f, "\nExactly one of the following options may appear:")?;
            }
            let argument = option.argument.map(|name| format!(" {name}")).unwrap_or_default();
            let long = option.argument.map(|name| format!("={name}")).unwrap_or_default();
            let left = match option.short {
                LONG_ONLY => format!("  --{}{long}", option.long),
                short => format!("  -{short}{argument}, --{}{long}", option.long),
            };
            if left.len() > 22 {
                writeln!(f, "{left}\n{:24}{}", "", option.text)?;
            } else {
                writeln!(f, "{left:24}{}", option.text)?;
            }
        }
        Ok(())
    }
}

struct Opt {
    short: char,
    long: &'static str,
    argument: Option<&'static str>,
    text: &'static str,
}

const fn opt(short: char, long: &'static str, argument: Option<&'static str>, text: &'static str) -> Opt {
    Opt { short, long, argument, text }
}

/// The letter of an option that has none: no command line has it.
const LONG_ONLY: char = '\0';
const FIRST_TRANSPORT: usize = 8;
const TABLE: [Opt; 12] = [
    opt('c', "config", Some("FILE"), "read configuration from FILE"),
    opt('D', "debug", Some("SPEC"), "set debug options"),
    opt('d', "domain", Some("NUM"), "use domain (numeric) for metrics domain of PMDA"),
    opt('h', "helpfile", Some("FILE"), "path to help text file"),
    opt('l', "log", Some("FILE"), "write log to FILE rather than using default log name"),
    opt(LONG_ONLY, "log-format", Some("FORMAT"), "lines of the log as text or json"),
    opt('U', "username", Some("USER"), "run the PMDA using the named user account"),
    opt('?', "help", None, "show this usage message and exit"),
    opt('i', "inet", Some("PORT"), "pmcd IPv4 connection service name or numeric port"),
    opt('p', "pipe", None, "use a pipe for communication with pmcd"),
    opt('u', "unix", Some("FILE"), "use a unix domain socket for communication with pmcd"),
    opt('6', "ipv6", Some("PORT"), "pmcd IPv6 connection service name or numeric port"),
];

impl Options {
    /// Reads the command line of `program`, without its first word. `domain` is the default.
    ///
    /// # Errors
    /// [`UsageError`]: print it and end with its exit code.
    pub fn parse(
        program: &str,
        domain: u16,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Options, UsageError> {
        let mut options = Options { domain, ..Options::default() };
        let mut transport = None;
        let found =
            split(arguments.into_iter(), |option, argument| options.apply(option, argument, &mut transport));
        match found {
            Ok(()) => Ok(options),
            Err(reason) => Err(UsageError { reason, program: program.to_owned() }),
        }
    }

    /// Takes one option; `transport` is the letter of the transport option seen before.
    fn apply(
        &mut self,
        option: &Opt,
        argument: Option<OsString>,
        transport: &mut Option<char>,
    ) -> Result<(), Option<String>> {
        let argument = argument.unwrap_or_default();
        let text = argument.to_string_lossy().into_owned();
        if matches!(option.short, 'i' | 'p' | 'u' | '6')
            && let Some(before) = transport.replace(option.short)
        {
            return Err(Some(format!("-{} option clashes with -{before} option", option.short)));
        }
        match option.short {
            LONG_ONLY => self.log_format = text.parse().map_err(Some)?,
            'c' => self.config = Some(argument.into()),
            'D' => self.debug = Some(text),
            'h' => self.help_file = Some(argument.into()),
            'l' => self.log = Some(argument.into()),
            'U' => self.username = Some(text),
            'd' => {
                let number =
                    text.parse::<u16>().map_err(|_| "-d requires numeric domain number".to_owned())?;
                if number > MAX_DOMAIN {
                    return Err(Some(format!("-d {number}: domain numbers are 0 to {MAX_DOMAIN}")));
                }
                self.domain = number;
            }
            'i' => self.transport = Transport::Inet(port(&text)?),
            '6' => self.transport = Transport::Ipv6(port(&text)?),
            'u' => self.transport = Transport::Unix(argument.into()),
            'p' => self.transport = Transport::Pipe,
            _ => return Err(None),
        }
        Ok(())
    }
}

/// Takes the words apart as `getopt_long(3)` does.
fn split(
    mut words: impl Iterator<Item = OsString>,
    mut apply: impl FnMut(&'static Opt, Option<OsString>) -> Result<(), Option<String>>,
) -> Result<(), Option<String>> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            return words.next().map_or(Ok(()), |extra| Err(Some(unexpected(&extra))));
        }
        if let Some(long) = bytes.strip_prefix(b"--") {
            let end = long.iter().position(|byte| *byte == b'=');
            let name = String::from_utf8_lossy(&long[..end.unwrap_or(long.len())]).into_owned();
            let option = long_option(&name)?;
            let argument = match (option.argument, end) {
                (None, Some(_)) => return Err(Some(format!("option '--{name}' doesn't allow an argument"))),
                (None, None) => None,
                (Some(_), Some(end)) => Some(OsString::from_vec(long[end + 1..].to_vec())),
                (Some(_), None) => match words.next() {
                    Some(argument) => Some(argument),
                    None => return Err(Some(format!("option '--{name}' requires an argument"))),
                },
            };
            apply(option, argument)?;
            continue;
        }
        let Some(mut letters) = bytes.strip_prefix(b"-").filter(|letters| !letters.is_empty()) else {
            return Err(Some(unexpected(&word)));
        };
        while let Some((letter, rest)) = letters.split_first() {
            letters = rest;
            let letter = char::from(*letter);
            let known = |option: &&Opt| option.short == letter && letter != LONG_ONLY;
            let Some(option) = TABLE.iter().find(known) else {
                return Err(Some(format!("invalid option -- '{letter}'")));
            };
            let argument = match option.argument {
                None => None,
                Some(_) if !rest.is_empty() => {
                    letters = &[];
                    Some(OsString::from_vec(rest.to_vec()))
                }
                Some(_) => match words.next() {
                    Some(argument) => Some(argument),
                    None => return Err(Some(format!("option requires an argument -- '{letter}'"))),
                },
            };
            apply(option, argument)?;
        }
    }
    Ok(())
}

/// The long option of this name, or of which this is an unambiguous beginning.
fn long_option(name: &str) -> Result<&'static Opt, Option<String>> {
    if let Some(option) = TABLE.iter().find(|option| option.long == name) {
        return Ok(option);
    }
    let mut matches = TABLE.iter().filter(|option| option.long.starts_with(name));
    match (matches.next(), matches.next()) {
        (Some(option), None) => Ok(option),
        (Some(_), Some(_)) => Err(Some(format!("option '--{name}' is ambiguous"))),
        (None, _) => Err(Some(format!("unrecognized option '--{name}'"))),
    }
}

fn unexpected(word: &OsString) -> String {
    format!("unexpected argument '{}'", word.to_string_lossy())
}

/// A port number, or the name of a service.
fn port(text: &str) -> Result<u16, Option<String>> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let services = fs::read_to_string("/etc/services").unwrap_or_default();
    service(&services, text).ok_or_else(|| Some(format!("{text}: neither a port nor a service known here")))
}

/// The port pmcd uses for the name of a service: it swaps the two bytes once too often on little-endian
/// machines, and an agent it is to find has to do the same (`docs/pcp/agent.md` 2).
fn service(services: &str, name: &str) -> Option<u16> {
    let port = services.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or("");
        let mut words = line.split_ascii_whitespace();
        let (first, port) = (words.next()?, words.next()?);
        let port = port.strip_suffix("/tcp")?;
        (first == name || words.any(|alias| alias == name)).then(|| port.parse::<u16>().ok()).flatten()
    })?;
    Some(port.to_be())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, String> {
        let words = words.iter().map(OsString::from);
        Options::parse("pmdax", 400, words).map_err(|error| error.reason.clone().unwrap_or_default())
    }

    #[test]
    fn short_and_long_forms() {
        let expected = Options {
            domain: 401,
            transport: Transport::Inet(7),
            log: Some("x.log".into()),
            log_format: LogFormat::Text,
            help_file: Some("help".into()),
            username: Some("pcp".into()),
            debug: Some("all".into()),
            config: Some("c.toml".into()),
        };
        let short = ["-d401", "-i", "7", "-lx.log", "-h", "help", "-U", "pcp", "-D", "all", "-c", "c.toml"];
        assert_eq!(parse(&short), Ok(expected.clone()));
        let long = [
            "--domain=401",
            "--inet",
            "7",
            "--log=x.log",
            "--helpfile=help",
            "--username=pcp",
            "--debug=all",
            "--conf=c.toml",
        ];
        assert_eq!(parse(&long), Ok(expected));
        assert_eq!(parse(&["-p"]).unwrap().transport, Transport::Pipe);
        assert_eq!(parse(&["-u", "/s"]).unwrap().transport, Transport::Unix("/s".into()));
        assert_eq!(parse(&["-6", "9", "--"]).unwrap().transport, Transport::Ipv6(9));
        assert_eq!(parse(&[]).unwrap().domain, 400);
        assert_eq!(parse(&["--log-format=json"]).unwrap().log_format, LogFormat::Json);
    }

    #[test]
    fn usage_errors_are_those_of_the_c_library() {
        for (words, reason) in [
            (&["-z"][..], "invalid option -- 'z'"),
            (&["-d"], "option requires an argument -- 'd'"),
            (&["-d", "xx"], "-d requires numeric domain number"),
            (&["-d", "511"], "-d 511: domain numbers are 0 to 510"),
            (&["-i", "1", "-u", "/x"], "-u option clashes with -i option"),
            (&["--pipe", "-6", "1"], "-6 option clashes with -p option"),
            (&["--log-format", "xml"], "--log-format xml: write text or json"),
            (&["--foo"], "unrecognized option '--foo'"),
            (&["--he"], "option '--he' is ambiguous"),
            (&["--domain"], "option '--domain' requires an argument"),
            (&["--pipe=1"], "option '--pipe' doesn't allow an argument"),
            (&["file"], "unexpected argument 'file'"),
            (&["-i", "no such service"], "no such service: neither a port nor a service known here"),
            (&["-?"], ""),
        ] {
            assert_eq!(parse(words), Err(reason.to_owned()), "{words:?}");
        }
        let usage = Options::parse("pmdax", 1, ["-z".into()]).unwrap_err();
        assert_eq!(usage.exit_code(), 1);
        assert!(usage.to_string().starts_with("pmdax: invalid option -- 'z'\nUsage: pmdax [options]\n"));
        assert_eq!(Options::parse("pmdax", 1, ["--help".into()]).unwrap_err().exit_code(), 0);
    }

    #[test]
    fn service_names_have_pmcds_byte_order() {
        let services = "# x\nhttp 80/tcp www # web\nzabbix-agent\t10050/tcp\nonly-udp 9/udp\n";
        assert_eq!(service(services, "zabbix-agent"), Some(10_050_u16.to_be()));
        assert_eq!(service(services, "www"), Some(80_u16.to_be()));
        assert_eq!(service(services, "only-udp"), None);
    }
}

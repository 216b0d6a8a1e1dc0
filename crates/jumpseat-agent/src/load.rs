//! Reads a configuration file and checks all of it.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::config::document::{Document, line_at};
use crate::config::{
    Config, ConfigError, ConfigProblem, InvalidTable, MIN_SOURCE_BUDGET, Mistake, check_objectives,
};
use crate::kinds;
use jumpseat_source::InvalidValue;

/// Longest configuration file: more than any real one, and little enough to read whatever a mistaken path leads to.
const MAX_FILE: u64 = 1 << 20;
/// Most mistakes that are told at once; of further ones only the number is.
const MOST_TOLD: usize = 50;
/// Most mistakes that are looked for: each costs another reading.
const MOST_COUNTED: usize = 500;

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, or all that is wrong in it.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = read(path).map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
        Config::parse(&text, path)
    }

    /// Reads and checks a configuration's text. `path` is for messages, and where relative paths begin.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let (mut document, errors) = Document::parse(text);
        let mut mistakes: Vec<Mistake> = errors.iter().map(|error| syntax(text, error)).collect();
        // What comes of a line that is no TOML is told with it.
        let broken: Vec<Option<usize>> = mistakes.iter().map(|mistake| mistake.line).collect();
        let config = loop {
            match find(&mut document, text) {
                Ok(config) => break Some(config),
                Err(Found { mistake, goes_on }) => {
                    mistakes.extend(mistake.filter(|mistake| !broken.contains(&mistake.line)));
                    if !goes_on || mistakes.len() >= MOST_COUNTED {
                        break None;
                    }
                }
            }
        };
        match config {
            Some(mut config) if mistakes.is_empty() => {
                if let Some(directory) = path.parent() {
                    config.start_paths_at(directory);
                }
                Ok(*config)
            }
            _ => {
                mistakes.sort_by_key(|mistake| mistake.line.unwrap_or(usize::MAX));
                let more = mistakes.len().saturating_sub(MOST_TOLD);
                mistakes.truncate(MOST_TOLD);
                Err(ConfigError::Invalid { path: path.to_owned(), mistakes, more })
            }
        }
    }
}

/// What a reading has come to that has found something wrong.
struct Found {
    /// What is wrong; `None`: the consequence of something that is known.
    mistake: Option<Mistake>,
    /// Whether there may be more.
    goes_on: bool,
}

/// Reads the document, sets aside the entry that is wrong, if any, and tells what is.
fn find(document: &mut Document<'_>, text: &str) -> Result<Box<Config>, Found> {
    let config = match document.read::<Config>() {
        Ok(config) => Box::new(config),
        Err((error, culprit)) => {
            let goes_on = culprit.is_some_and(|entry| document.set_aside(entry));
            let line = Some(line_at(text, error.offset()));
            return Err(Found { mistake: Some(Mistake { line, problem: error.into() }), goes_on });
        }
    };
    let Err(problem) = check(&config) else { return Ok(config) };
    let (located, is_clash) = match &problem {
        ConfigProblem::Table(InvalidTable { table, nth, invalid }) => {
            let is_clash = matches!(invalid.problem, InvalidValue::Duplicate(_));
            (document.locate(table, *nth, invalid.key), is_clash)
        }
        ConfigProblem::Limit(limit) => (document.locate(limit.table, 0, limit.key), false),
        ConfigProblem::Syntax(_) | ConfigProblem::Form(_) => <_>::default(),
    };
    // Of two tables that clash, one goes as a whole: without its key it would clash with others.
    let key = located.key.filter(|_| !is_clash);
    let mut goes_on = key.is_some_and(|entry| document.set_aside(entry));
    if !goes_on {
        goes_on = located.table.is_some_and(|entry| document.set_aside(entry));
    }
    let mistake = (!located.is_aside).then_some(Mistake { line: located.line, problem });
    Err(Found { mistake, goes_on })
}

fn syntax(text: &str, error: &toml::de::Error) -> Mistake {
    let offset = error.span().map_or(0, |span| span.start);
    let problem = ConfigProblem::Syntax(error.message().to_owned());
    Mistake { line: Some(line_at(text, offset)), problem }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let length = File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if length as u64 > MAX_FILE {
        let reason = format!("longer than {MAX_FILE} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(text)
}

/// Checks what the form of the values does not tell: each section itself, and what concerns more than one.
fn check(config: &Config) -> Result<(), ConfigProblem> {
    for kind in kinds::ALL {
        kind.check(config)?;
    }
    for (nth, rule) in config.source.iter().enumerate() {
        rule.validate(MIN_SOURCE_BUDGET).map_err(|invalid| InvalidTable { table: "source", nth, invalid })?;
    }
    for (nth, dimensions) in config.dimensions.iter().enumerate() {
        dimensions.check().map_err(|invalid| InvalidTable { table: "dimensions", nth, invalid })?;
    }
    check_objectives(&config.objective).map_err(|(nth, invalid)| InvalidTable {
        table: "objective",
        nth,
        invalid,
    })?;
    config.service_map.check()?;
    config.access.check()?;
    config.tls.check()?;
    config.derived.check_places().map_err(|invalid| InvalidTable { table: "derived", nth: 0, invalid })?;
    config.series.validate().map_err(|invalid| InvalidTable { table: "series", nth: 0, invalid })?;
    config.tail.validate().map_err(|invalid| InvalidTable { table: "tail", nth: 0, invalid })?;
    config.derived.check_limits()?;
    config.check_agent()?;
    config.events.check()?;
    config.log.check()?;
    config.spans.check()?;
    config.handover.check()?;
    config.fields.check()?;
    // The last, as it may be wrong because of tables that it is not in.
    config.events.check_sources(kinds::sources(config))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{ByteSize, DimensionsConfig, ObjectiveConfig, TlsConfig};
    use jumpseat_source::gate::SampleBy;
    use jumpseat_source::guard::tls::TlsFiles;
    use jumpseat_source::rules::{Pattern, SourceRule};
    use jumpseat_source::tracefs::KernelConfig;
    use jumpseat_source::{Interval, SocketConfig};

    fn error(text: &str) -> String {
        Config::parse(text, Path::new("j.toml")).expect_err("the text is wrong").to_string()
    }

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let config = Config::parse("", Path::new("j.toml")).unwrap();
        assert_eq!(config.events.source_budget, ByteSize(8 << 20));
        assert_eq!(config.fields.max, 4096);
    }

    #[test]
    fn the_installed_file_shows_every_key_with_its_default() {
        let text = include_str!("../install/jumpseat.toml");
        let set: String = text
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => {
                    format!("{key}\n")
                }
                _ => format!("{line}\n"),
            })
            .collect();
        let shown = Config::parse(&set, Path::new("jumpseat.toml")).unwrap();
        let mut defaults = Config {
            socket: vec![SocketConfig { group: Some("jumpseat".into()), ..SocketConfig::default() }],
            kernel: vec![KernelConfig::default()],
            ..Config::default()
        };
        // What these keys say is where the defaults come from elsewhere.
        defaults.derived.files = Some(vec!["derived.conf".into()]);
        defaults.derived.pmcd = Some("local:".into());
        defaults.tls = TlsConfig {
            certificate: Some("/etc/pcp/tls/jumpseat.crt".into()),
            key: Some("/etc/pcp/tls/jumpseat.key".into()),
            client_ca: Some("/etc/pcp/tls/ca.crt".into()),
            required: false,
        };
        defaults.access.passwords = Some("passwords".into());
        defaults.otlp.listen = Some("localhost:4318".into());
        defaults.otlp.grpc = Some("localhost:4317".into());
        defaults.otlp.tls = Some(TlsFiles {
            certificate: "/etc/pcp/tls/jumpseat.crt".into(),
            key: "/etc/pcp/tls/jumpseat.key".into(),
            client_ca: None,
        });
        defaults.otlp.token_file = Some("/etc/jumpseat/otlp.token".into());
        defaults.dimensions = vec![DimensionsConfig {
            fields: vec!["http.route".into(), "http.status_code".into()],
            ..DimensionsConfig::default()
        }];
        defaults.objective = vec![ObjectiveConfig {
            name: "checkout".into(),
            spans: Pattern("shop/checkout".into()),
            threshold: Some(Interval(Duration::from_millis(300))),
            target: 0.99,
            window: Interval(Duration::from_secs(30 * 24 * 3600)),
        }];
        defaults.source = vec![SourceRule {
            enabled: Some(true),
            filter: Some(String::new()),
            sample: Some(1),
            sample_by: Some(SampleBy::Count),
            budget: Some(ByteSize(0)),
            order_window: Some(Duration::ZERO),
            max_ahead: Some(Duration::from_secs(60)),
            max_behind: Some(Duration::from_secs(24 * 3600)),
            flag_clock: Some(false),
            readers: Some(vec!["*".into()]),
            senders: Some(vec!["*".into()]),
            ..SourceRule::default()
        }];
        defaults.domain = Some(crate::identity::DEFAULT_DOMAIN);
        defaults.state_dir = Some("/var/lib/pcp/config/pmda".into());
        defaults.log.dir = Some("/var/lib/pcp/config/pmda/400.log".into());
        defaults.log.contexts = Some("/run/pcp".into());
        assert_eq!(format!("{shown:?}"), format!("{defaults:?}"));
        for key in format!("{defaults:#?}").lines().filter_map(|line| line.trim().split_once(": ")) {
            if key.1 != "EventsConfig {" && key.0 != "events" {
                assert!(set.contains(key.0), "{} is not shown", key.0);
            }
        }
    }

    #[test]
    fn definition_files_are_looked_for_next_to_the_configuration() {
        let text = "[derived]\nfiles = [\"a.conf\", \"/b.d\"]\n";
        let config = Config::parse(text, Path::new("/etc/pcp/jumpseat/j.toml")).unwrap();
        let files = config.derived.files.unwrap();
        assert_eq!(files, [Path::new("/etc/pcp/jumpseat/a.conf"), Path::new("/b.d")]);
    }

    #[test]
    fn sizes_take_units() {
        let text = "[events]\nsource_budget = \"1 MiB\"\ntotal_budget = 33554432\nmax_sources = 8\n";
        let config = Config::parse(text, Path::new("j.toml")).unwrap();
        assert_eq!(config.events.source_budget, ByteSize(1 << 20));
        assert_eq!(config.events.total_budget, ByteSize(32 << 20));
        let socket =
            Config::parse("[[socket]]\nmax_line = \"128 KiB\"\nmax_field = 512\n", Path::new("j.toml"));
        assert_eq!(socket.map(|c| (c.socket[0].max_line, c.socket[0].max_field)).unwrap(), (128 << 10, 512));
    }

    #[test]
    fn errors_tell_file_line_what_and_what_is_allowed() {
        assert_eq!(
            error("\n[events]\nrecent = 5000\n"),
            "j.toml:3: events.recent = 5000 is out of range: allowed is 0 to 1000"
        );
        let unknown = error("[events]\nrecnt = 5\n");
        assert!(
            unknown.starts_with("j.toml:2: unknown field `recnt`, expected one of `source_budget`"),
            "{unknown}"
        );
        let size = error("[events]\n\nfetch_limit = \"2 pounds\"\n");
        assert!(size.starts_with("j.toml:3: ") && size.contains("\"64KiB\""), "{size}");
        assert_eq!(
            error("[[socket]]\npath=\"/a\"\n[[socket]]\npath=\"/b\"\nqueue = 0"),
            "j.toml:5: socket.queue: 0 is not between 1 and 65536"
        );
        assert_eq!(
            error("[[socket]]\npath=\"/a\"\n[[socket]]\npath=\"/a\""),
            "j.toml:4: socket.path: two sockets have the same path"
        );
        assert_eq!(
            error("[[socket]]\n\n[[socket]]\n"),
            "j.toml:3: socket.path: two sockets have the same path"
        );
        assert_eq!(
            error("[[source]]\nname = 'a'\n[[source]]\nname = 'b'\nfilter = 'a =='\n"),
            "j.toml:5: source.filter: column 5: found the end, expected a number, a text in quotes, true or false"
        );
        assert_eq!(
            error("[[file]]\npath=\"/a\"\n[[file]]\npath=\"/b\"\nformat = \"plain\"\npattern = '('"),
            "j.toml:6: file.pattern: (: unclosed group"
        );
        assert_eq!(
            error("[[file]]\npath=\"/a\"\n[[file]]\npath=\"/a\""),
            "j.toml:4: file.path: two tables have the same path and source"
        );
        assert_eq!(
            error("[[journal]]\n[[journal]]\n"),
            "j.toml:2: journal.source: two journals have the same source"
        );
        assert!(error("[[command]]\nrestart = 'always'\n").starts_with("j.toml:1: command.run: must be"));
        assert!(error("[[command]]\n\nrun = 7\n").starts_with("j.toml:3: command.run: a list such as"));
        assert!(error("state_dir = ''").ends_with("out of range: allowed is the path of a directory"));
        // Wrong because of a key that is not in the file: the line of its table.
        assert!(
            error("[events]\nsource_budget = '1GiB'")
                .starts_with("j.toml:1: events.total_budget = 67108864 is")
        );
        assert_eq!(
            error("[derived]\nportable = true\nfiles = [\"a\", \"\"]"),
            "j.toml:3: derived.files: an empty path"
        );
        assert_eq!(error("[derived]\nfiles = [\"a\", \"a\"]"), "j.toml:2: derived.files: a is there twice");
        assert!(error("[derived]\nfiles = \"a\"").starts_with("j.toml:2: derived.files: "));
        assert_eq!(
            error("[otlp]\nlisten = 'localhost:1'\nmax_fields = 0\n"),
            "j.toml:3: otlp.max_fields: 0 is not between 1 and 4096"
        );
        for (text, key) in [
            ("[tls]\ncertificate = 'x'", "2: tls.certificate: there is no key"),
            ("[tls]\nkey = 'x'", "2: tls.key: there is no certificate"),
            ("[tls]\nclient_ca = 'x'", "2: tls.client_ca: TLS needs a certificate"),
            ("[tls]\n\nrequired = true", "3: tls.required: TLS needs a certificate"),
        ] {
            assert!(error(text).starts_with(&format!("j.toml:{key}")), "{}", error(text));
        }
        assert!(error("domain = 511").contains("allowed is 1 to 510"));
        assert!(error("domain = ").starts_with("j.toml:1: "));
    }

    #[test]
    fn values_of_the_wrong_kind_are_told_with_their_key_and_without_jargon() {
        for (text, message) in [
            ("domain = 'x'", "1: domain: invalid type: string \"x\", expected a whole number, 0 or more"),
            (
                "\n[events]\nrecent = -3",
                "3: events.recent: invalid value: integer `-3`, expected a whole number, 0 or more",
            ),
            ("[[socket]]\npath = 5", "2: socket.path: invalid type: integer `5`, expected text in quotes"),
            (
                "[control]\nusers = 'root'",
                "2: control.users: invalid type: string \"root\", expected a list in brackets",
            ),
            (
                "[[socket]]\noversize = 'drop'",
                "2: socket.oversize: unknown variant `drop`, expected `refuse` or `truncate`",
            ),
            ("notready = 1", "1: notready: invalid type: integer `1`, expected true or false"),
            (
                "[socket]\npath = '/x'",
                "1: invalid type: map, expected tables of this name in double brackets, such as [[socket]]",
            ),
        ] {
            assert_eq!(error(text), format!("j.toml:{message}"));
        }
    }

    #[test]
    fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
        let text = r#"
domain = 511
[[file]]
pth = "/a"
format = "jsn"
max_line = "10 pounds"
[[file]]
path = "/b"
max_files = 0
partial_ms = 1
[[socket]]
path = "/s"
mode = 5
[[socket]]
path = "/s"
[[source]]
name = "x"
order_windw = "1s"
sample_by = "cuont"
filter = "severity >= "
[evnts]
[events]
recent = 5000
fetch_limit = 1
[otlp]
hosts = [1, "ok",
  2]
[log]
sync =
"#;
        let told = error(text);
        let expected = [
            ("2", "domain = 511 is out of range: allowed is 1 to 510"),
            ("4", "did you mean `path`?"),
            ("5", "did you mean `json`?"),
            ("6", "file.max_line: invalid value"),
            ("9", "file.max_files: 0 is not between"),
            ("10", "file.partial_ms: 1 is not between"),
            ("13", "socket.mode: "),
            ("15", "socket.path: two sockets have the same path"),
            ("18", "did you mean `order_window`?"),
            ("19", "did you mean `count`?"),
            ("20", "source.filter: column"),
            ("21", "did you mean `events`?"),
            ("23", "events.recent = 5000"),
            ("24", "events.fetch_limit = 1"),
            ("26", "otlp.hosts: invalid type: integer `1`"),
            ("27", "otlp.hosts: invalid type: integer `2`"),
            ("29", ""),
        ];
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{told}");
        for (line, (number, part)) in lines.iter().zip(expected) {
            assert!(line.starts_with(&format!("j.toml:{number}: ")) && line.contains(part), "{line}: {part}");
        }
    }

    #[test]
    fn a_mistake_costs_no_other_one_and_there_is_an_end_of_them() {
        // The directory of the one is not missed because its key was wrong.
        assert_eq!(error("[[file]]\npath = 5\n").lines().count(), 1);
        assert_eq!(error("[[command]]\nrnu = 'x'\n").lines().count(), 1);
        assert_eq!(error("[[journal]]\n[[journal]]\n[[journal]]\n").lines().count(), 2);
        assert_eq!(error("events = 5").lines().count(), 1, "{}", error("events = 5"));
        let many: String = (0..70).map(|number| format!("no{number} = 1\n")).collect();
        let told = error(&many);
        assert_eq!(told.lines().count(), 51, "{told}");
        assert!(told.ends_with("j.toml: and 20 more mistakes"), "{told}");
        let endless: String = (0..5000).map(|number| format!("[[file]]\npath = {number}\n")).collect();
        assert!(error(&endless).ends_with("more mistakes"));
    }

    #[test]
    fn a_path_that_leads_to_endless_bytes_is_refused() {
        let error = Config::load(Path::new("/dev/zero")).expect_err("no configuration").to_string();
        assert_eq!(error, "/dev/zero: cannot read the configuration: longer than 1048576 bytes");
    }
}

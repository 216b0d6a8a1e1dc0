//! Reads a configuration file and checks all of it.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::config::document::{Document, line_at};
use crate::config::{Config, ConfigError, ConfigProblem, InvalidTable, MIN_SOURCE_BUDGET};
use crate::kinds;

/// Longest configuration file: more than any real one, and little enough to read whatever a mistaken path leads to.
const MAX_FILE: u64 = 1 << 20;

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, or the first thing that is wrong in it.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = read(path).map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
        Config::parse(&text, path)
    }

    /// Reads and checks a configuration's text. `path` is for messages, and where relative paths begin.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let invalid =
            |line, problem| ConfigError::Invalid { path: path.to_owned(), line, problem: Box::new(problem) };
        let document = Document::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            invalid(Some(line_at(text, offset)), ConfigProblem::Syntax(error.message().to_owned()))
        })?;
        let mut config: Config = document
            .read()
            .map_err(|error| invalid(Some(line_at(text, error.offset())), ConfigProblem::Form(error)))?;
        check(&config).map_err(|problem| {
            // The first line that people have to change, as far as there is one.
            let line = match &problem {
                ConfigProblem::Table(table) => {
                    document.line_of_key(table.table, table.nth, table.invalid.key)
                }
                ConfigProblem::Limit(limit) => document.line_of_key(limit.table, 0, limit.key),
                ConfigProblem::Syntax(_) | ConfigProblem::Form(_) => None,
            };
            invalid(line, problem)
        })?;
        if let Some(directory) = path.parent() {
            config.start_paths_at(directory);
        }
        Ok(config)
    }
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
    config.access.check()?;
    config.tls.check()?;
    config.derived.check_places().map_err(|invalid| InvalidTable { table: "derived", nth: 0, invalid })?;
    config.derived.check_limits()?;
    config.check_agent()?;
    config.events.check(kinds::sources(config))?;
    config.log.check()?;
    config.spans.check()?;
    config.fields.check()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{ByteSize, TlsConfig};
    use jumpseat_source::SocketConfig;
    use jumpseat_source::gate::SampleBy;
    use jumpseat_source::rules::SourceRule;
    use jumpseat_source::tracefs::KernelConfig;

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
        defaults.otlp.token_file = Some("/etc/jumpseat/otlp.token".into());
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
    fn a_path_that_leads_to_endless_bytes_is_refused() {
        let error = Config::load(Path::new("/dev/zero")).expect_err("no configuration").to_string();
        assert_eq!(error, "/dev/zero: cannot read the configuration: longer than 1048576 bytes");
    }
}

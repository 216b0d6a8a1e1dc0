//! What is in the file that `jumpseat support` writes.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jumpseat_agent::check::{self, Setting};
use jumpseat_agent::{Config, ConfigError};
use jumpseat_source::follow::Run;
use pcp_client::{Context, Fetched, HostOptions, HostSpec, without_password};
use pcp_model::{InDom, PrintOptions};

/// Most bytes of the log: its end.
const LOG: u64 = 1 << 20;
/// Most files of a directory that are listed.
const FILES: usize = 10_000;
/// Roots of what is told of the agent itself. None of these metrics has anything of a record in it.
const METRICS: [&str; 4] = ["jumpseat.self", "jumpseat.source", "jumpseat.log", "jumpseat.kernel"];
/// But this one, which has the command lines of commands.
const LEFT_OUT: [&str; 1] = ["jumpseat.source.address"];

/// Where to look.
pub(super) struct Site<'a> {
    /// The configuration, as far as it can be read.
    pub(super) file: PathBuf,
    pub(super) config: Result<Config, ConfigError>,
    pub(super) state_dir: PathBuf,
    pub(super) domain: u16,
    pub(super) host: &'a str,
    pub(super) log: Option<PathBuf>,
}

/// A file in the file.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) text: Vec<u8>,
    /// Why it is not all that it should be.
    pub(super) problem: Option<String>,
}

/// All of them; what cannot be had is said in its place.
pub(super) fn all(site: &Site<'_>) -> Vec<Part> {
    let part = |name, about, text: Result<String, String>| match text {
        Ok(text) => Part { name, about, text: text.into_bytes(), problem: None },
        Err(problem) => {
            Part { name, about, text: format!("not there: {problem}\n").into_bytes(), problem: Some(problem) }
        }
    };
    let mut parts = vec![
        part("versions.txt", "of jumpseat, PCP and the system", Ok(versions())),
        part("configuration.json", "without what may be a secret", configuration(site)),
        part("check.txt", "what jumpseat config check says", checked(site)),
        part("metrics.txt", "of the agent itself and of its sources", metrics(site.host)),
        part("process.txt", "limits and state of the agent's process", process(site)),
        part("files.txt", "names and sizes of the agent's files", Ok(files(site))),
    ];
    if let Some(log) = &site.log {
        let text = end_of(log).map(|text| without_arguments(text, site));
        let text = text.map_err(|error| format!("{}: {error}", log.display()));
        parts.push(part("agent.log", "the end of the agent's log", text));
    }
    parts
}

/// Where the log of an agent under pmcd is.
pub(super) fn log_under_pmcd() -> PathBuf {
    let dir = std::env::var_os("PCP_LOG_DIR").map_or_else(|| PathBuf::from("/var/log/pcp"), PathBuf::from);
    dir.join("pmcd/jumpseat.log")
}

fn versions() -> String {
    let mut text = format!("jumpseat {}\n", env!("CARGO_PKG_VERSION"));
    let pcp = pcp_files::settings::setting("PCP_VERSION");
    let pcp =
        pcp.map_or_else(|| "not installed".to_owned(), |version| version.to_string_lossy().into_owned());
    line(&mut text, "PCP", &pcp);
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown");
    line(&mut text, "system", name.trim_matches('"'));
    for (what, file) in
        [("kernel", "version"), ("kernel command line's security modules", "../sys/kernel/security/lsm")]
    {
        if let Ok(found) = fs::read_to_string(Path::new("/proc").join(file)) {
            line(&mut text, what, found.trim());
        }
    }
    line(&mut text, "processors", &std::thread::available_parallelism().map_or(0, usize::from).to_string());
    text
}

fn line(text: &mut String, what: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{what}: {value}");
}

fn configuration(site: &Site<'_>) -> Result<String, String> {
    let config = site
        .config
        .as_ref()
        .map_err(|error| format!("{}: {} mistakes", site.file.display(), error.count()))?;
    let text = serde_json::to_string_pretty(&check::without_secrets(config));
    text.map(|text| text + "\n").map_err(|error| error.to_string())
}

fn checked(site: &Site<'_>) -> Result<String, String> {
    let mut text = format!("{}\n", site.file.display());
    match &site.config {
        // Messages cite what is wrong, which is the user's own text.
        Err(error) => error.messages().iter().for_each(|message| text += &format!("{message}\n")),
        Ok(config) => {
            let setting = Setting { state_dir: site.state_dir.clone(), domain: site.domain, user: None };
            let report = check::check(config, &setting)?;
            // What names a command has its arguments.
            let shown = report.findings.iter().filter(|finding| !finding.what.starts_with("[[command]]"));
            shown.for_each(|finding| text += &format!("{finding}\n"));
            if let Some(agent) = report.running {
                text += &format!("process {}: a reload changes {}\n", agent.pid, agent.changes.len());
            }
        }
    }
    Ok(text)
}

fn metrics(host: &str) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", without_password(host));
    let spec: HostSpec = host.parse().map_err(|error| failed(&error))?;
    let (options, _) = HostOptions::from_env();
    let mut context = Context::host_with(&spec, &options).map_err(|error| failed(&error))?;
    let mut text = String::new();
    for root in METRICS {
        // An older agent may not have all of them.
        for name in context.traverse(root).unwrap_or_default() {
            if !LEFT_OUT.contains(&name.as_str()) {
                values(&mut context, &name, &mut text);
            }
        }
    }
    match text.is_empty() {
        true => Err(failed(&"there is no jumpseat agent; --host names another collector")),
        false => Ok(text),
    }
}

fn values(context: &mut Context, name: &str, text: &mut String) {
    let mut fetched = Fetched::new();
    let told = context.pmid(name).and_then(|pmid| {
        let desc = context.desc(pmid)?;
        context.fetch(&[pmid], &mut fetched)?;
        Ok(desc)
    });
    let (desc, set) = match (told, fetched.set(0)) {
        (Ok(desc), Some(set)) => (desc, set),
        (Err(error), _) => return line(text, name, &error.to_string()),
        (Ok(_), None) => return line(text, name, "no answer"),
    };
    let values = match set.values {
        Ok(values) => values,
        Err(error) => return line(text, name, &error.to_string()),
    };
    for (inst, value) in values.iter() {
        let whose = match desc.indom {
            InDom::NULL => String::new(),
            indom => format!("[{}]", context.instance_name(indom, inst).unwrap_or_else(|_| inst.to_string())),
        };
        let mut shown = Vec::new();
        if let Ok(value) = value.to_value(desc.value_type) {
            value.print(PrintOptions::width(1), &mut shown);
        }
        line(text, &format!("{name}{whose}"), &String::from_utf8_lossy(&shown));
    }
}

fn process(site: &Site<'_>) -> Result<String, String> {
    let pid = check::running(&site.state_dir, site.domain);
    let pid = pid.ok_or_else(|| format!("no agent runs with {}", site.state_dir.display()))?;
    let mut text = format!("process {pid}\n");
    for file in ["limits", "status"] {
        match fs::read_to_string(format!("/proc/{pid}/{file}")) {
            Ok(found) => text += &found,
            Err(error) => line(&mut text, file, &error.to_string()),
        }
    }
    Ok(text)
}

fn files(site: &Site<'_>) -> String {
    let mut dirs = vec![site.state_dir.clone()];
    let log = site.config.as_ref().ok().and_then(|config| config.log.dir(Some(&site.state_dir), site.domain));
    dirs.extend(log);
    let mut text = String::new();
    for dir in dirs {
        line(&mut text, "directory", &dir.display().to_string());
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) => {
                line(&mut text, "  cannot be read", &error.to_string());
                continue;
            }
        };
        let mut listed: Vec<_> = entries.flatten().take(FILES).collect();
        listed.sort_by_key(fs::DirEntry::file_name);
        for entry in listed {
            let Ok(meta) = entry.metadata() else { continue };
            let (mode, owner) = (meta.mode(), format!("{}:{}", meta.uid(), meta.gid()));
            let name = entry.file_name().to_string_lossy().into_owned();
            let _ = writeln!(text, "  {mode:>7o} {owner:>12} {:>12} {} {name}", meta.len(), meta.mtime());
        }
    }
    text
}

/// Takes the arguments of commands out of a log, which has them in many messages.
fn without_arguments(mut text: String, site: &Site<'_>) -> String {
    /// Shorter ones are no secrets, and parts of other words.
    const SHORTEST: usize = 4;
    let commands = site.config.iter().flat_map(|config| &config.command);
    for argument in commands.flat_map(|command| arguments(&command.run)) {
        if argument.len() >= SHORTEST {
            text = text.replace(&argument, "(left out)");
        }
    }
    text
}

fn arguments(run: &Run) -> Vec<String> {
    let mut words: Vec<String> = match run {
        Run::Shell(text) => text.split_whitespace().map(str::to_owned).collect(),
        Run::Argv(argv) => argv.clone(),
    };
    words.drain(..words.len().min(1));
    // The longest first: others may be parts of it.
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    words
}

/// The end of a text, from the beginning of a line.
fn end_of(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG)))?;
    let mut bytes = Vec::new();
    file.take(LOG).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match length > LOG {
        true => Ok(text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_owned())),
        false => Ok(text),
    }
}

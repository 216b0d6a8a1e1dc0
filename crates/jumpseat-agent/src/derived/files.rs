//! The definition files of `jumpseat.derived`: found, read and checked, before anything is changed.
//!
//! The syntax is that of PCP's own derived metrics files (`pmLoadDerivedConfig(3)`), read by the same
//! engine; a bad line costs that line only. Files are read when the agent starts and when it is told to
//! reload, in the event loop: the limits below keep that to tens of milliseconds.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pcp_derive::{ConfigProblem, ConfigProblemKind, Dialect, RegisterError, Registry, is_name};

use crate::identity::{DERIVED_ROOT as ROOT, NAME, derived_name};

/// Longest file.
pub(super) const MAX_FILE: u64 = 1 << 20;
/// All files together.
pub(super) const MAX_TOTAL: u64 = 4 << 20;
/// Files.
pub(super) const MAX_FILES: usize = 256;
/// Definitions, over all files.
pub(super) const MAX_DEFINITIONS: i32 = 4096;
/// Longest name, the root included.
const MAX_NAME: usize = 255;

/// A definition as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Name below the root.
    pub name: String,
    /// What it stands for.
    pub expression: String,
    /// `name(oneline) = ...`.
    pub oneline: Option<String>,
    /// `name(helptext) = ...`.
    pub help: Option<String>,
    /// The file, for messages.
    pub file: PathBuf,
}

/// What the files say.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// The definitions, in the order they were read.
    pub wanted: Vec<Wanted>,
    /// What is wrong with lines of the files, for people: file, line, reason.
    pub problems: Vec<String>,
}

/// Why the files cannot be taken at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    /// A file or directory cannot be read.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// More than the agent reads in one go.
    #[error("{}: {what}", .path.display())]
    TooMuch {
        /// The file that goes beyond.
        path: PathBuf,
        /// Beyond what.
        what: String,
    },
}

/// The definitions of a configuration that names no files: those that are installed with it.
const BUILT_IN: &str = include_str!("../../install/derived.conf");

/// Reads definition files, or the built-in definitions. Directories stand for the files right in them, in the order of their names,
/// without hidden files and backups (`.x`, `x~`).
///
/// # Errors
/// [`FilesError`]: files that cannot be read or are too large. Whatever is wrong inside them is told in
/// [`Definitions::problems`].
pub(crate) fn read(paths: Option<&[PathBuf]>, dialect: Dialect) -> Result<Definitions, FilesError> {
    let files = match paths {
        Some(paths) => list(paths)?,
        None => vec!["built-in definitions".into()],
    };
    let mut found = Definitions::default();
    let mut registry = Registry::new(dialect);
    registry.set_limit(MAX_DEFINITIONS);
    let (mut room, mut names) = (MAX_TOTAL, Names::default());
    for path in files {
        let contents = match paths {
            Some(_) => contents(&path, &mut room)?,
            None => BUILT_IN.into(),
        };
        // One registry for all files: a later file may use names of an earlier one, and not define them again.
        let before = registry.definitions().len();
        let shown = path.display().to_string();
        let problems = registry.load(&contents).problems;
        found.problems.extend(problems.iter().map(|problem| describe(problem, &shown)));
        for definition in registry.definitions().iter().skip(before) {
            match names.check(&definition.name) {
                Ok(name) => found.wanted.push(Wanted {
                    name: name.to_owned(),
                    expression: definition.expression.trim_end().to_owned(),
                    oneline: None,
                    help: None,
                    file: path.clone(),
                }),
                Err(reason) => found.problems.push(format!("{shown}: {}: {reason}", definition.name)),
            }
        }
    }
    // Texts may stand in a later file than the definition.
    for wanted in &mut found.wanted {
        let full = derived_name(&wanted.name);
        let definition = registry.find(&wanted.name).or_else(|| registry.find(&full));
        if let Some(definition) = definition {
            wanted.oneline = definition.oneline.as_deref().map(str::to_owned);
            wanted.help = definition.help.as_deref().map(str::to_owned);
        }
    }
    Ok(found)
}

/// A problem in one line.
fn describe(problem: &ConfigProblem, file: &str) -> String {
    let place = format!("{file}:{}", problem.line);
    match &problem.kind {
        ConfigProblemKind::Line { message, .. } | ConfigProblemKind::Control(message) => {
            format!("{place}: {message}")
        }
        ConfigProblemKind::Definition { name, expression, error, .. } => {
            let text = error.text().unwrap_or_else(|| "syntax error".to_owned());
            match error {
                RegisterError::Syntax(_) => {
                    let expression = expression.trim();
                    format!("{place}: {name}: {text} (character {} of `{expression}')", error.position() + 1)
                }
                _ => format!("{place}: {name}: {text}"),
            }
        }
    }
}

/// Names that have been taken.
#[derive(Default)]
struct Names {
    leaves: HashSet<String>,
    /// Everything above a leaf.
    nodes: HashSet<String>,
}

impl Names {
    /// The name below the root that a name in a file stands for.
    fn check<'a>(&mut self, name: &'a str) -> Result<&'a str, String> {
        let below = name.strip_prefix(ROOT).and_then(|rest| rest.strip_prefix('.'));
        let below = match below {
            Some(below) => below,
            None if name == NAME || name.starts_with("jumpseat.") => {
                return Err(format!("derived metrics of this agent are below {ROOT}"));
            }
            None => name,
        };
        if below.ends_with('.') || !is_name(below) {
            return Err("not a metric's name".to_owned());
        }
        if below.len() + ROOT.len() + 1 > MAX_NAME {
            return Err(format!("the name is longer than {MAX_NAME} bytes"));
        }
        if self.leaves.contains(below) {
            return Err("defined twice; the first definition counts".to_owned());
        }
        let above = || below.match_indices('.').map(|(at, _)| &below[..at]);
        if let Some(leaf) = above().find(|above| self.leaves.contains(*above)) {
            return Err(format!("{leaf} is a metric, so there can be none below it"));
        }
        if self.nodes.contains(below) {
            return Err("there are metrics below this name, so it cannot be a metric".to_owned());
        }
        self.nodes.extend(above().map(str::to_owned));
        self.leaves.insert(below.to_owned());
        Ok(below)
    }
}

fn list(paths: &[PathBuf]) -> Result<Vec<PathBuf>, FilesError> {
    let mut files = Vec::new();
    for path in paths {
        let failed = |error| FilesError::Io { path: path.clone(), error };
        if std::fs::metadata(path).map_err(failed)?.is_dir() {
            let mut inside = Vec::new();
            for entry in std::fs::read_dir(path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = entry.file_name();
                let name = name.as_encoded_bytes();
                let path = entry.path();
                if name.starts_with(b".") || name.ends_with(b"~") {
                    continue;
                }
                let metadata =
                    std::fs::metadata(&path).map_err(|error| FilesError::Io { path: path.clone(), error })?;
                if metadata.is_file() {
                    inside.push(path);
                }
                // A directory given by mistake may have any number of files.
                if inside.len() > MAX_FILES {
                    break;
                }
            }
            inside.sort();
            files.extend(inside);
        } else {
            files.push(path.clone());
        }
        if files.len() > MAX_FILES {
            let what = format!("more than {MAX_FILES} files with definitions");
            return Err(FilesError::TooMuch { path: path.clone(), what });
        }
    }
    Ok(files)
}

/// A file's contents. The last line counts even if its line break is missing.
fn contents(path: &Path, room: &mut u64) -> Result<Vec<u8>, FilesError> {
    let failed = |error| FilesError::Io { path: path.to_owned(), error };
    // Opening a pipe by mistake must not make the agent wait.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC)
        .open(path)
        .map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let mut contents = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut contents).map_err(failed)?;
    let beyond = match contents.len() as u64 {
        length if length > MAX_FILE => format!("longer than {MAX_FILE} bytes"),
        length if length > *room => format!("with this file there are more than {MAX_TOTAL} bytes"),
        length => {
            *room -= length;
            if contents.last().is_some_and(|&last| last != b'\n') {
                contents.push(b'\n');
            }
            return Ok(contents);
        }
    };
    Err(FilesError::TooMuch { path: path.to_owned(), what: beyond })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Definitions {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, text).unwrap();
        let mut found = read(Some(&[file]), Dialect::default()).unwrap();
        let shown = dir.path().display().to_string();
        for problem in &mut found.problems {
            *problem = problem.replace(&shown, "");
        }
        found
    }

    #[test]
    fn names_get_the_root_and_fit_into_one_name_space() {
        let found = read_text(
            "a = 1\njumpseat.derived.b.c = 2\na = 3\njumpseat.derived.a = 4\na.x = 5\nb = 6\n\
             jumpseat.source.x = 7\nlast = 8",
        );
        let names: Vec<&str> = found.wanted.iter().map(|wanted| wanted.name.as_str()).collect();
        assert_eq!(names, ["a", "b.c", "last"]);
        let [twice, rest @ ..] = &found.problems[..] else { panic!("{:?}", found.problems) };
        assert!(twice == "/f:3: a: Duplicate global derived metric name", "{twice}");
        assert_eq!(
            rest,
            [
                "/f: jumpseat.derived.a: defined twice; the first definition counts",
                "/f: a.x: a is a metric, so there can be none below it",
                "/f: b: there are metrics below this name, so it cannot be a metric",
                "/f: jumpseat.source.x: derived metrics of this agent are below jumpseat.derived",
            ]
        );
    }

    #[test]
    fn a_bad_line_is_told_with_its_place() {
        let found = read_text("ok = 1\na = 1 +\nb\n");
        assert_eq!(found.wanted.len(), 1);
        assert_eq!(
            found.problems,
            [
                "/f:2: a: Arithmetic expression expected to follow PLUS (character 3 of `1 +')",
                "/f:3: missing ``='' after derived metric name",
            ]
        );
    }

    #[test]
    fn texts_come_with_their_definitions() {
        let found = read_text("a = 1\na(oneline) = short\na(helptext) = \"long\ntext\"\n");
        let a = &found.wanted[0];
        assert_eq!((a.oneline.as_deref(), a.help.as_deref()), (Some("short"), Some("long\ntext")));
    }

    #[test]
    fn a_directory_is_its_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("2", "b = 2\n"), ("1", "a = 1\n"), (".h", "c = 3\n"), ("1~", "d = 4\n")] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let found = read(Some(&[dir.path().to_owned()]), Dialect::default()).unwrap();
        let names: Vec<&str> = found.wanted.iter().map(|wanted| wanted.name.as_str()).collect();
        assert_eq!((names, found.problems), (vec!["a", "b"], vec![]));
    }

    #[test]
    fn what_cannot_be_read_or_is_too_large_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let error = |path: PathBuf| read(Some(&[path]), Dialect::default()).unwrap_err().to_string();
        assert!(error(dir.path().join("no")).contains("/no: No such file"));
        let large = dir.path().join("large");
        std::fs::write(&large, vec![b'#'; MAX_FILE as usize + 1]).unwrap();
        assert!(error(large.clone()).ends_with("/large: longer than 1048576 bytes"));
        std::fs::write(&large, vec![b'#'; MAX_FILE as usize]).unwrap();
        assert!(read(Some(&vec![large.clone(); 4]), Dialect::default()).is_ok());
        assert!(read(Some(&vec![large; 5]), Dialect::default()).is_err());
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(error(pipe).ends_with("/pipe: not a regular file"));
    }
}

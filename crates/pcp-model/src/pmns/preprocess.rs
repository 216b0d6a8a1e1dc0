//! The part of `pmcpp(1)` that name space sources use: comments, `#include`, macros without arguments, and
//! `#ifdef`/`#ifndef`/`#else`/`#endif` without nesting (`docs/pcp/agent.md` 19).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{PmnsError, Problem};

/// Files open at a time: the source, and those included within each other.
const MAX_OPEN: usize = 5;

/// A line of the source, ready to be cut into words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file that it is in.
    pub file: Arc<str>,
    /// Its number there, from 1.
    pub number: usize,
    /// Its text, without comments, with macros replaced. Blanks at the start are gone and several are one; so are
    /// those around a colon, as a PMID may be written with them.
    pub text: String,
}

/// Where `#include` looks.
#[derive(Clone, Debug)]
pub enum Includes {
    /// The source stands alone.
    Refused,
    /// The name as it stands, then in these directories.
    From(Vec<PathBuf>),
}

/// The lines that count, without those of directives. `symbols` are macros that the source cannot define otherwise.
pub fn lines(
    file: &str,
    source: &str,
    symbols: &[(&str, String)],
    includes: &Includes,
) -> Result<Vec<Line>, PmnsError> {
    let mut preprocessor =
        Preprocessor { symbols, includes, macros: HashMap::new(), out: Vec::new(), open: 0 };
    preprocessor.file(file, source)?;
    Ok(preprocessor.out)
}

struct Preprocessor<'a> {
    symbols: &'a [(&'a str, String)],
    includes: &'a Includes,
    macros: HashMap<String, String>,
    out: Vec<Line>,
    open: usize,
}

/// Where reading a file is.
struct Place {
    /// The file and the line as they are reported: a line directive changes them.
    file: Arc<str>,
    number: usize,
    /// Inside a conditional: its line, and whether what follows counts.
    conditional: Option<(usize, bool)>,
}

impl Place {
    fn counts(&self) -> bool {
        self.conditional.is_none_or(|(_, counts)| counts)
    }
}

impl Preprocessor<'_> {
    fn file(&mut self, name: &str, source: &str) -> Result<(), PmnsError> {
        self.open += 1;
        let source = without_comments(source)
            .map_err(|line| PmnsError::at_line(name, line, Problem::UnfinishedComment))?;
        let mut at = Place { file: name.into(), number: 0, conditional: None };
        for text in source.lines() {
            at.number = at.number.saturating_add(1);
            // Blanks before a directive are forgiven, which pmcpp(1) does not do.
            match text.trim_start().strip_prefix('#') {
                Some(directive) => self.directive(text, directive, &mut at)?,
                None if at.counts() => {
                    let text = tidy(&substitute(text, &|word| self.value(word)));
                    self.out.push(Line { file: at.file.clone(), number: at.number, text });
                }
                None => {}
            }
        }
        self.open -= 1;
        match at.conditional {
            Some((line, _)) => Err(PmnsError::at_line(name, line, Problem::UnfinishedConditional)),
            None => Ok(()),
        }
    }

    /// Does what a directive says; `text` is the whole line.
    fn directive(&mut self, text: &str, directive: &str, at: &mut Place) -> Result<(), PmnsError> {
        let (file, line) = (at.file.clone(), at.number);
        let bad = |problem| PmnsError { text: text.to_owned(), ..PmnsError::at_line(&file, line, problem) };
        let (name, rest) = split_word(directive);
        match name {
            "define" | "undef" | "ifdef" | "ifndef" => self.about_macro(name, rest, at).map_err(bad),
            "else" => match &mut at.conditional {
                Some((_, counts)) => {
                    *counts = !*counts;
                    Ok(())
                }
                None => Err(bad(Problem::NoConditional("else"))),
            },
            "endif" => at.conditional.take().map(drop).ok_or_else(|| bad(Problem::NoConditional("endif"))),
            _ if !at.counts() => Ok(()),
            "include" => {
                let (name, source) = self.include(rest).map_err(bad)?;
                self.file(&name, &source)
            }
            // What a preprocessor leaves: the line that follows is that line of that file.
            line => match (line.parse::<usize>(), quoted(rest)) {
                (Ok(line), Some(name)) => {
                    at.file = name.into();
                    at.number = line.saturating_sub(1);
                    Ok(())
                }
                _ => Err(PmnsError {
                    text: tidy(&substitute(text, &|word| self.value(word))),
                    ..PmnsError::at_line(&file, at.number, self.unknown(name))
                }),
            },
        }
    }

    /// The directives whose first word is the name of a macro, which is checked even where they do not count.
    fn about_macro(&mut self, directive: &str, rest: &str, at: &mut Place) -> Result<(), Problem> {
        let (word, value) = split_word(rest);
        if word.is_empty() {
            return Err(Problem::NoMacroName);
        }
        if !is_macro_name(word) {
            return Err(Problem::MacroName(word.to_owned()));
        }
        match directive {
            "define" if at.counts() => self.define(word, value)?,
            "undef" if at.counts() => drop(self.macros.remove(word)),
            "define" | "undef" => {}
            _ if at.conditional.is_some() => return Err(Problem::NestedConditional),
            _ => {
                let defined = self.value(word).is_some();
                at.conditional = Some((at.number, defined == (directive == "ifdef")));
            }
        }
        Ok(())
    }

    /// The file to be read in place of an `#include`: its name, and its text.
    fn include(&self, rest: &str) -> Result<(String, String), Problem> {
        let Includes::From(dirs) = self.includes else {
            return Err(self.unknown("include"));
        };
        let wanted = include_name(rest)?;
        if self.open == MAX_OPEN {
            return Err(Problem::TooDeep);
        }
        open(wanted, dirs).ok_or_else(|| Problem::IncludeFile(wanted.to_owned()))
    }

    /// A directive that is none. To PCP's parser it is a bad line marker, which it tells of at the word that it has read last.
    fn unknown(&self, name: &str) -> Problem {
        let text = self.out.iter().rev().map(|line| line.text.trim_end()).find(|text| !text.is_empty());
        let mark =
            text.map(|text| text.rfind(|c: char| c.is_ascii_whitespace()).map_or(0, |blank| blank + 1));
        Problem::Directive { name: name.to_owned(), mark }
    }

    /// What a macro stands for.
    fn value(&self, word: &str) -> Option<&str> {
        let symbol = self.symbols.iter().find(|(name, _)| *name == word);
        symbol.map(|(_, text)| text.as_str()).or_else(|| self.macros.get(word).map(String::as_str))
    }

    fn define(&mut self, word: &str, value: &str) -> Result<(), Problem> {
        let value = value.trim();
        let text = match quoted(value).or_else(|| within(value, '\'', '\'')) {
            Some(text) => text,
            None => {
                let (text, rest) = split_word(value);
                if !rest.trim().is_empty() {
                    return Err(Problem::ExtraText(rest.trim().to_owned()));
                }
                text
            }
        };
        match self.macros.insert(word.to_owned(), text.to_owned()) {
            Some(_) => Err(Problem::Redefined(word.to_owned())),
            None => Ok(()),
        }
    }
}

/// The file name after `#include`.
fn include_name(text: &str) -> Result<&str, Problem> {
    let text = text.trim();
    let close = match text.chars().next() {
        Some('"') => '"',
        Some('<') => '>',
        _ => return Err(Problem::IncludeName),
    };
    let (name, rest) = text[1..].split_once(close).ok_or(Problem::IncludeEnd(close))?;
    if rest.is_empty() { Ok(name) } else { Err(Problem::IncludeExtra) }
}

/// The name that a file was found by, and its text. What is not UTF-8 in it can be in comments only.
fn open(name: &str, dirs: &[PathBuf]) -> Option<(String, String)> {
    let paths = std::iter::once(PathBuf::from(name)).chain(dirs.iter().map(|dir| dir.join(name)));
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).ok()?;
        Some((display(&path), String::from_utf8_lossy(&bytes).into_owned()))
    };
    paths.into_iter().find_map(read)
}

fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What is between double quotes, if that is all.
fn quoted(text: &str) -> Option<&str> {
    within(text.trim(), '"', '"')
}

fn within(text: &str, open: char, close: char) -> Option<&str> {
    let inner = text.strip_prefix(open)?.strip_suffix(close)?;
    (!inner.contains(close)).then_some(inner)
}

/// The source with blanks for each `/* */`, line breaks kept; the line of an unfinished one on failure.
fn without_comments(source: &str) -> Result<String, usize> {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        let Some((comment, after)) = after.split_once("*/") else {
            return Err(out.matches('\n').count() + 1);
        };
        out.push_str("  ");
        out.extend(comment.chars().map(|c| if c == '\n' { c } else { ' ' }));
        out.push_str("  ");
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// See [`Line::text`].
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.trim_start();
    while let Some(at) = rest.bytes().position(|byte| byte == b':' || byte.is_ascii_whitespace()) {
        let (before, from) = rest.split_at(at);
        let (mark, after) = from.split_at(1);
        out.push_str(before);
        if mark == ":" {
            out.truncate(out.trim_end().len());
            out.push_str(mark);
        } else if !out.ends_with(|last: char| last == ':' || last.is_ascii_whitespace()) {
            out.push_str(mark);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Replaces whole words of letters, digits and `_`; replacements are not looked at again.
fn substitute<'a>(text: &str, replace: &impl Fn(&str) -> Option<&'a str>) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        // A character of several bytes has none that is one of a word.
        let same = is_word(first);
        let end = rest.bytes().position(|byte| is_word(byte) != same).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        out.push_str(if same { replace(part).unwrap_or(part) } else { part });
        rest = after;
    }
    out
}

fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len()))
}

fn is_macro_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Result<Vec<Line>, (usize, Problem)> {
        let read = lines("f", source, &[("SYM", "7".to_owned())], &Includes::Refused);
        read.map_err(|error| (error.line, error.problem))
    }

    fn words(source: &str) -> Result<String, (usize, Problem)> {
        let lines = read(source)?;
        let words = lines.iter().flat_map(|line| {
            line.text.split_ascii_whitespace().map(move |word| format!("{word}@{}", line.number))
        });
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn macros_replace_whole_words_once() {
        let source = "#define IT 9\n#define B IT\na SYM:IT:B SYM_z:IT/* x\n y */c\n#undef IT\nIT";
        assert_eq!(words(source).unwrap(), "a@3 7:9:IT@3 SYM_z:9@3 c@4 IT@6");
        assert_eq!(words("#define SYM 3\nSYM").unwrap(), "7@2", "the caller's symbol wins");
        assert_eq!(words("#define LIST 'a b'\n#define N\nx LIST N y").unwrap(), "x@3 a@3 b@3 y@3");
        assert_eq!(words("#define Q \"1\"\nQ").unwrap(), "1@2");
    }

    #[test]
    fn blanks_are_tidied() {
        let text = |source| read(source).unwrap().pop().map(|line| line.text);
        assert_eq!(text("  a \t 29 : 0:\t11  }"), Some("a 29:0:11 }".to_owned()));
        assert_eq!(text("a\t/* x */ b "), Some("a\tb ".to_owned()));
    }

    #[test]
    fn conditionals_choose_lines() {
        let source =
            "#ifdef SYM\nyes\n#define X 1\n#else\nno\n#define Y 2\n#endif\nX Y\n# ifndef SYM\nno\n#endif\n";
        assert_eq!(words(source).unwrap(), "yes@2 1@8 Y@8");
    }

    #[test]
    fn line_markers_say_where_a_line_is_from() {
        let lines = read("a\n# 7 \"other\"\nb\nc").unwrap();
        let places: Vec<_> = lines.iter().map(|line| (&*line.file, line.number)).collect();
        assert_eq!(places, [("f", 1), ("other", 7), ("other", 8)]);
        let last = read(&format!("# {} \"other\"\nb\nc", usize::MAX)).unwrap().pop();
        assert_eq!(last.map(|line| line.number), Some(usize::MAX), "no line follows the last");
    }

    fn unknown(name: &str, mark: Option<usize>) -> Problem {
        Problem::Directive { name: name.to_owned(), mark }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        assert_eq!(words("\n#include <stdpmid>"), Err((2, unknown("include", None))));
        assert_eq!(words("# comment"), Err((1, unknown("comment", None))));
        assert_eq!(words("root {\n  a SYM:1:1 \n\n#fumble"), Err((4, unknown("fumble", Some(2)))));
        assert_eq!(words("#define F(x) x"), Err((1, Problem::MacroName("F(x)".into()))));
        assert_eq!(words("#define"), Err((1, Problem::NoMacroName)));
        assert_eq!(words("#define A b c"), Err((1, Problem::ExtraText("c".into()))));
        assert_eq!(words("#define A b\n#define A b"), Err((2, Problem::Redefined("A".into()))));
        assert_eq!(words("#ifdef A\n#ifdef B"), Err((2, Problem::NestedConditional)));
        assert_eq!(words("#endif"), Err((1, Problem::NoConditional("endif"))));
        assert_eq!(words("#else"), Err((1, Problem::NoConditional("else"))));
        assert_eq!(words("a\n#ifdef A\nb"), Err((2, Problem::UnfinishedConditional)));
        assert_eq!(words("a\n/* b\nc"), Err((2, Problem::UnfinishedComment)));
    }
}

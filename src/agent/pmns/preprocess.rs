//! The part of `pmcpp(1)` that name space sources use: comments, macros without arguments, and
//! `#ifdef`/`#ifndef`/`#else`/`#endif` without nesting (spec `agent.md` 19).

use std::collections::HashMap;

use super::{PmnsError, Problem};

/// A word of the source and the line it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub line: usize,
    pub text: String,
}

/// Cuts the source into words, with comments gone and macros replaced. `symbols` are macros the source
/// cannot define otherwise.
pub(super) fn tokens(file: &str, source: &str, symbols: &[(&str, String)]) -> Result<Vec<Token>, PmnsError> {
    let bad = |line, problem| PmnsError { file: file.to_owned(), line, problem };
    let fixed: HashMap<&str, &str> = symbols.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let source = without_comments(source).map_err(|line| bad(line, Problem::UnfinishedComment))?;
    let mut macros: HashMap<&str, &str> = HashMap::new();
    // Inside a conditional: its line, and whether what follows counts.
    let mut conditional: Option<(usize, bool)> = None;
    let mut out = Vec::new();
    for (index, text) in source.lines().enumerate() {
        let line = index + 1;
        let counts = conditional.is_none_or(|(_, counts)| counts);
        let Some(directive) = text.trim_start().strip_prefix('#') else {
            if counts {
                let replace = |word: &str| fixed.get(word).or_else(|| macros.get(word)).copied();
                for word in text.split_ascii_whitespace() {
                    let text = substitute(word, &replace);
                    // A macro may stand for several words, or none.
                    let words = text.split_ascii_whitespace();
                    out.extend(words.map(|word| Token { line, text: word.to_owned() }));
                }
            }
            continue;
        };
        let (name, rest) = split_word(directive.trim_start());
        let (word, value) = split_word(rest);
        let defined = fixed.contains_key(word) || macros.contains_key(word);
        match name {
            "define" | "undef" | "ifdef" | "ifndef" if !is_macro_name(word) => {
                return Err(bad(line, Problem::MacroName(word.to_owned())));
            }
            "ifdef" | "ifndef" if conditional.is_some() => return Err(bad(line, Problem::NestedConditional)),
            "ifdef" => conditional = Some((line, defined)),
            "ifndef" => conditional = Some((line, !defined)),
            "else" => match &mut conditional {
                Some((_, counts)) => *counts = !*counts,
                None => return Err(bad(line, Problem::NoConditional)),
            },
            "endif" if conditional.take().is_none() => return Err(bad(line, Problem::NoConditional)),
            "endif" => {}
            _ if !counts => {}
            "define" => {
                macros.insert(word, value.trim());
            }
            "undef" => {
                macros.remove(word);
            }
            _ => return Err(bad(line, Problem::Directive(name.to_owned()))),
        }
    }
    match conditional {
        Some((line, _)) => Err(bad(line, Problem::UnfinishedConditional)),
        None => Ok(out),
    }
}

/// The source with each `/* */` made a blank, line breaks kept; the line of an unfinished one on failure.
fn without_comments(source: &str) -> Result<String, usize> {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        let Some((comment, after)) = after.split_once("*/") else {
            return Err(out.matches('\n').count() + 1);
        };
        out.push(' ');
        out.extend(comment.chars().filter(|c| *c == '\n'));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Replaces whole words of letters, digits and `_`; replacements are not looked at again.
fn substitute<'a>(text: &'a str, replace: &impl Fn(&str) -> Option<&'a str>) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = is_word(first);
        let end = rest.find(|c| is_word(c) != same).unwrap_or(rest.len());
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

    fn words(source: &str) -> Result<String, (usize, Problem)> {
        match tokens("f", source, &[("SYM", "7".to_owned())]) {
            Ok(tokens) => Ok(tokens
                .iter()
                .map(|token| format!("{}@{}", token.text, token.line))
                .collect::<Vec<_>>()
                .join(" ")),
            Err(error) => Err((error.line, error.problem)),
        }
    }

    #[test]
    fn macros_replace_whole_words_once() {
        let source = "#define IT 9\n#define B IT\na SYM:IT:B SYM_z:IT/* x\n y */c\n#undef IT\nIT";
        assert_eq!(words(source).unwrap(), "a@3 7:9:IT@3 SYM_z:9@3 c@4 IT@6");
        assert_eq!(words("#define SYM 3\nSYM").unwrap(), "7@2", "the caller's symbol wins");
        assert_eq!(words("#define LIST a b\nx LIST y").unwrap(), "x@2 a@2 b@2 y@2");
    }

    #[test]
    fn conditionals_choose_lines() {
        let source =
            "#ifdef SYM\nyes\n#define X 1\n#else\nno\n#define Y 2\n#endif\nX Y\n# ifndef SYM\nno\n#endif\n";
        assert_eq!(words(source).unwrap(), "yes@2 1@8 Y@8");
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        assert_eq!(words("\n#include <stdpmid>"), Err((2, Problem::Directive("include".into()))));
        assert_eq!(words("# comment"), Err((1, Problem::Directive("comment".into()))));
        assert_eq!(words("#define F(x) x"), Err((1, Problem::MacroName("F(x)".into()))));
        assert_eq!(words("#ifdef A\n#ifdef B"), Err((2, Problem::NestedConditional)));
        assert_eq!(words("#endif"), Err((1, Problem::NoConditional)));
        assert_eq!(words("#else"), Err((1, Problem::NoConditional)));
        assert_eq!(words("a\n#ifdef A\nb"), Err((2, Problem::UnfinishedConditional)));
        assert_eq!(words("a\n/* b\nc"), Err((2, Problem::UnfinishedComment)));
    }
}

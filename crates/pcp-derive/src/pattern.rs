//! POSIX extended regular expressions, as glibc's `regcomp(REG_EXTENDED | REG_NOSUB)` reads them.
//!
//! The pattern is checked with glibc's rules and error texts and then rewritten for the regex crate,
//! whose matching time is linear in the text whatever the pattern. Back-references cannot be had in
//! linear time and are refused. The C locale is assumed: character classes are ASCII.

use regex::{Regex, RegexBuilder};

/// Compiled patterns may take this many bytes; `a{32767}` and the like are refused.
const SIZE_LIMIT: usize = 1 << 20;
/// Repetitions of repetitions, and the largest count in braces.
const MAX_STACKED: usize = 100;
const RE_DUP_MAX: u32 = 0x7fff;

/// A compiled pattern. Two patterns are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: Box<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The text that `regerror(3)` has for what is wrong.
    pub fn new(source: &str) -> Result<Pattern, PatternError> {
        let rewritten = Rewriter { rest: source, out: String::new() }.pattern()?;
        let regex = RegexBuilder::new(&rewritten)
            .dot_matches_new_line(true)
            .size_limit(SIZE_LIMIT)
            .dfa_size_limit(SIZE_LIMIT)
            .build()
            .map_err(|_| PatternError::TooBig)?;
        Ok(Pattern { source: source.into(), regex })
    }

    /// The pattern's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether some part of `text` matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source == other.source
    }
}

/// What is wrong with a pattern, in glibc's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
#[non_exhaustive]
pub enum PatternError {
    #[error("Invalid regular expression")]
    Pattern,
    #[error("Invalid collation character")]
    Collation,
    #[error("Invalid character class name")]
    Class,
    #[error("Trailing backslash")]
    Backslash,
    #[error("Invalid back reference")]
    BackReference,
    #[error("Unmatched [, [^, [:, [., or [=")]
    Bracket,
    #[error("Unmatched ( or \\(")]
    Parenthesis,
    #[error("Unmatched \\{{")]
    Brace,
    #[error("Invalid content of \\{{\\}}")]
    BraceContent,
    #[error("Invalid range end")]
    Range,
    #[error("Invalid preceding regular expression")]
    Repetition,
    #[error("Regular expression too big")]
    TooBig,
    /// Not glibc's: it has them.
    #[error("Back-references are not supported")]
    NoBackReferences,
}

/// Checks the rest of a pattern and writes it for the regex crate.
struct Rewriter<'a> {
    rest: &'a str,
    out: String,
}

impl Rewriter<'_> {
    fn pattern(mut self) -> Result<String, PatternError> {
        let mut open_groups = Vec::new();
        let mut closed_groups = 0u32;
        while let Some(c) = self.take() {
            let start = self.out.len();
            match c {
                '(' => {
                    // None captures: only whether a name matches counts.
                    open_groups.push(start);
                    self.out.push_str("(?:");
                }
                ')' if let Some(start) = open_groups.pop() => {
                    closed_groups += 1;
                    self.out.push(')');
                    self.repetitions(start)?;
                }
                '|' | '^' | '$' => self.out.push(c),
                // Repetitions are taken with what they repeat; here there is nothing to repeat.
                '*' | '+' | '?' | '{' => return Err(PatternError::Repetition),
                '.' => {
                    self.out.push('.');
                    self.repetitions(start)?;
                }
                '[' => {
                    self.bracket()?;
                    self.repetitions(start)?;
                }
                '\\' => self.escape(closed_groups)?,
                _ => {
                    self.literal(c);
                    self.repetitions(start)?;
                }
            }
        }
        if open_groups.is_empty() { Ok(self.out) } else { Err(PatternError::Parenthesis) }
    }

    fn take(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn literal(&mut self, c: char) {
        if regex_syntax_char(c) {
            self.out.push('\\');
        }
        self.out.push(c);
    }

    fn escape(&mut self, closed_groups: u32) -> Result<(), PatternError> {
        let start = self.out.len();
        let c = self.take().ok_or(PatternError::Backslash)?;
        let anchor = match c {
            '<' => r"\b{start}",
            '>' => r"\b{end}",
            'b' => r"\b",
            'B' => r"\B",
            '`' => r"\A",
            '\'' => r"\z",
            _ => "",
        };
        if !anchor.is_empty() {
            self.out.push_str(anchor);
            return Ok(());
        }
        // GNU's classes, which are of ASCII: the locale is C.
        match c {
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str("[[:space:]]"),
            'S' => self.out.push_str("[^[:space:]]"),
            '1'..='9' if c.to_digit(10) > Some(closed_groups) => return Err(PatternError::BackReference),
            '1'..='9' => return Err(PatternError::NoBackReferences),
            _ => self.literal(c),
        }
        self.repetitions(start)
    }

    /// All the `*`, `+`, `?` and `{}` behind what was written from `start` on.
    fn repetitions(&mut self, start: usize) -> Result<(), PatternError> {
        for _ in 0..MAX_STACKED {
            let operator = match self.peek() {
                Some(c @ ('*' | '+' | '?')) => {
                    self.take();
                    c.to_string()
                }
                Some('{') => {
                    self.take();
                    self.interval()?
                }
                _ => return Ok(()),
            };
            // In a group, lest the regex crate takes `a+?` for a lazy repetition.
            self.out.insert_str(start, "(?:");
            self.out.push(')');
            self.out.push_str(&operator);
        }
        Err(PatternError::TooBig)
    }

    /// The inside of braces.
    fn interval(&mut self) -> Result<String, PatternError> {
        let (low, mut end) = self.number()?;
        let low = match (low, end) {
            (Some(low), _) => low,
            (None, ',') => 0,
            (None, _) => return Err(PatternError::BraceContent),
        };
        let mut high = Some(low);
        if end == ',' {
            (high, end) = self.number()?;
        }
        if end != '}' || high.is_some_and(|high| low > high) {
            return Err(PatternError::BraceContent);
        }
        if high.unwrap_or(low) > RE_DUP_MAX {
            return Err(PatternError::TooBig);
        }
        Ok(match high {
            Some(high) => format!("{{{low},{high}}}"),
            None => format!("{{{low},}}"),
        })
    }

    /// Digits up to `,` or `}`, which is taken and returned too.
    fn number(&mut self) -> Result<(Option<u32>, char), PatternError> {
        let mut number = None;
        let mut bad = false;
        loop {
            let mut next = self.take();
            if next == Some('\\') && !self.rest.is_empty() {
                // An escaped comma still is one; anything else escaped is neither digit nor end.
                next = self.take().filter(|&c| c == ',').or(Some('\\'));
            }
            match next {
                None => return Err(PatternError::Brace),
                Some(end @ (',' | '}')) if !bad => return Ok((number, end)),
                Some(',' | '}') => return Err(PatternError::BraceContent),
                Some(c) => match c.to_digit(10) {
                    Some(digit) => {
                        number = Some((number.unwrap_or(0) * 10 + digit).min(RE_DUP_MAX + 1));
                    }
                    None => bad = true,
                },
            }
        }
    }

    /// The inside of square brackets.
    fn bracket(&mut self) -> Result<(), PatternError> {
        self.out.push('[');
        if self.peek() == Some('^') {
            self.take();
            self.out.push('^');
        }
        if self.rest.is_empty() {
            return Err(PatternError::Pattern);
        }
        let mut first = true;
        loop {
            let element = self.element(first)?;
            first = false;
            match element {
                Element::Class(class) => {
                    self.out.push_str("[:");
                    self.out.push_str(class);
                    self.out.push_str(":]");
                    // A class cannot begin a range, but a hyphen behind it is looked at as an element.
                }
                Element::Equivalent(c) => self.member(c),
                Element::Char(low) => {
                    if self.rest.is_empty() {
                        return Err(PatternError::Bracket);
                    }
                    // A hyphen before the closing bracket is one of the characters.
                    let range = self.hyphen() && !self.rest[1..].starts_with(']');
                    if range {
                        self.take();
                        if self.rest.is_empty() {
                            return Err(PatternError::Bracket);
                        }
                        let Element::Char(high) = self.element(true)? else {
                            return Err(PatternError::Range);
                        };
                        if low > high {
                            return Err(PatternError::Range);
                        }
                        self.member(low);
                        self.out.push('-');
                        self.member(high);
                    } else {
                        self.member(low);
                    }
                }
            }
            match self.peek() {
                None => return Err(PatternError::Bracket),
                Some(']') => break,
                Some(_) => {}
            }
        }
        self.take();
        self.out.push(']');
        Ok(())
    }

    /// Whether a hyphen follows that stands for a range: three in a row are one plain hyphen.
    fn hyphen(&self) -> bool {
        self.rest.starts_with('-') && !self.rest.starts_with("---")
    }

    fn element(&mut self, accept_hyphen: bool) -> Result<Element, PatternError> {
        if self.rest.starts_with("---") {
            self.rest = &self.rest[3..];
            return Ok(Element::Char('-'));
        }
        if self.hyphen() && !accept_hyphen && !self.rest[1..].starts_with(']') {
            return Err(PatternError::Range);
        }
        let c = self.take().ok_or(PatternError::Bracket)?;
        let kind = self.peek();
        if c != '[' || !matches!(kind, Some('.' | '=' | ':')) {
            return Ok(Element::Char(c));
        }
        self.take();
        let end = match kind {
            Some('.') => ".]",
            Some('=') => "=]",
            _ => ":]",
        };
        let (name, rest) =
            self.rest.split_once(end).filter(|(name, _)| name.len() < 32).ok_or(PatternError::Bracket)?;
        self.rest = rest;
        if kind == Some(':') {
            const CLASSES: [&str; 12] = [
                "alpha", "digit", "alnum", "upper", "lower", "space", "blank", "punct", "print", "cntrl",
                "graph", "xdigit",
            ];
            let class = CLASSES.into_iter().find(|class| *class == name).ok_or(PatternError::Class)?;
            return Ok(Element::Class(class));
        }
        let mut chars = name.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) if kind == Some('=') => Ok(Element::Equivalent(c)),
            (Some(c), None) => Ok(Element::Char(c)),
            _ => Err(PatternError::Collation),
        }
    }

    fn member(&mut self, c: char) {
        if regex_syntax_char(c) {
            self.out.push('\\');
        }
        self.out.push(c);
    }
}

enum Element {
    Char(char),
    Equivalent(char),
    Class(&'static str),
}

/// Characters that the regex crate allows (and some of which it needs) a backslash before.
fn regex_syntax_char(c: char) -> bool {
    matches!(
        c,
        '\\' | '.'
            | '+'
            | '*'
            | '?'
            | '('
            | ')'
            | '|'
            | '['
            | ']'
            | '{'
            | '}'
            | '^'
            | '$'
            | '#'
            | '&'
            | '-'
            | '~'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        let compiled = Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        for text in matching {
            assert!(compiled.is_match(text), "{pattern} {text}");
        }
        for text in other {
            assert!(!compiled.is_match(text), "{pattern} {text}");
        }
    }

    #[test]
    fn matches_as_posix_has_it() {
        check("^(eth|lo)", &["eth0", "lo"], &["weth"]);
        check("a**", &[""], &[]);
        check("^a+?$", &["", "a", "aa"], &["b"]);
        check("^[]a]$", &["]", "a"], &["b"]);
        check("^[^]-]+$", &["ab"], &["a]", "a-"]);
        check(r"^[\d]+$", &["d", "\\"], &["1"]);
        check("a)", &["a)"], &["a"]);
        check("^a{,2}$", &["", "aa"], &["aaa"]);
        check("[[.x.]]", &["x"], &["."]);
        check(r"\<b\w+", &["a bc"], &["abc"]);
        check("^[[:digit:]a-c]+$", &["1b2"], &["d"]);
        check("", &["", "x"], &[]);
        check("^.$", &["\n", "é"], &["ab"]);
        check("#a b&&~", &["#a b&&~"], &["#ab&&~"]);
    }

    #[test]
    fn refuses_with_the_text_of_glibc() {
        for (pattern, text) in [
            ("[", "Invalid regular expression"),
            ("[a", "Unmatched [, [^, [:, [., or [="),
            ("(", "Unmatched ( or \\("),
            ("*", "Invalid preceding regular expression"),
            ("^*", "Invalid preceding regular expression"),
            ("a|*", "Invalid preceding regular expression"),
            ("a{1", "Unmatched \\{"),
            ("a{x}", "Invalid content of \\{\\}"),
            ("a{2,1}", "Invalid content of \\{\\}"),
            ("a{99999}", "Regular expression too big"),
            ("[[:foo:]]", "Invalid character class name"),
            ("[b-a]", "Invalid range end"),
            ("x\\", "Trailing backslash"),
            ("\\1", "Invalid back reference"),
        ] {
            let error = Pattern::new(pattern).expect_err(pattern);
            assert_eq!(error.to_string(), text, "{pattern}");
        }
    }

    #[test]
    fn hostile_patterns_are_refused_or_fast() {
        assert!(Pattern::new("((a{1,1000}){1,1000}){1,1000}").is_err());
        assert!(Pattern::new(&"*".repeat(100_000)).is_err());
        assert!(Pattern::new(&format!("a{}", "*".repeat(100_000))).is_err());
        assert!(Pattern::new(&"(".repeat(100_000)).is_err());
        let compiled = Pattern::new("(a*)*b").unwrap();
        assert!(!compiled.is_match(&"a".repeat(50_000)));
    }
}

//! Globs of clients, as fnmatch(3) without flags takes them. Their regular expressions are those of `pcp_derive::Pattern`.
//!
//! **Cost:** they are automata of the `regex` crate: linear in the text, whatever the pattern. How large they get is limited.

use regex::{Regex, RegexBuilder};

/// Most bytes of an automaton: some hundred times what people write.
const MAX_SIZE: usize = 1 << 20;

/// A pattern that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadPattern;

/// A glob, over the whole of a text.
///
/// # Errors
/// It is too large.
pub(super) fn glob(pattern: &str) -> Result<Regex, BadPattern> {
    compiled(&regex_of(pattern))
}

fn compiled(text: &str) -> Result<Regex, BadPattern> {
    RegexBuilder::new(text).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).build().map_err(|_| BadPattern)
}

/// The regular expression that a glob is.
fn regex_of(pattern: &str) -> String {
    let mut out = String::from(r"(?s)\A");
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '[' => match set_of(rest.as_str()) {
                Some((set, behind)) => {
                    out.push_str(&set);
                    rest = behind.chars();
                }
                // A bracket that nothing closes stands for itself.
                None => literal('[', &mut out),
            },
            '\\' => literal(rest.next().unwrap_or('\\'), &mut out),
            c => literal(c, &mut out),
        }
    }
    out.push_str(r"\z");
    out
}

/// The set behind a bracket, and what is behind the set.
fn set_of(text: &str) -> Option<(String, &str)> {
    let mut out = String::from("[");
    let mut rest = text;
    if let Some(behind) = rest.strip_prefix(['!', '^']) {
        out.push('^');
        rest = behind;
    }
    let mut first = true;
    loop {
        let c = rest.chars().next()?;
        if c == ']' && !first {
            out.push(']');
            return Some((out, &rest[1..]));
        }
        first = false;
        if let Some(class) = class_of(rest) {
            out.push_str(class);
            rest = &rest[class.len()..];
            continue;
        }
        let (low, behind) = one(rest)?;
        rest = behind;
        match rest.strip_prefix('-').filter(|behind| !behind.starts_with(']')) {
            Some(behind) => {
                let (high, behind) = one(behind)?;
                rest = behind;
                // A range that goes backward has nothing in it.
                if low <= high {
                    literal(low, &mut out);
                    out.push('-');
                    literal(high, &mut out);
                }
            }
            None => literal(low, &mut out),
        }
    }
}

/// A character of a set, which a backslash may protect, and what is behind it.
fn one(text: &str) -> Option<(char, &str)> {
    let text = text.strip_prefix('\\').unwrap_or(text);
    let c = text.chars().next()?;
    Some((c, &text[c.len_utf8()..]))
}

/// `[:alpha:]` and the like, which the `regex` crate knows by the same names.
fn class_of(text: &str) -> Option<&str> {
    const NAMES: [&str; 12] = [
        "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
        "xdigit",
    ];
    let (name, _) = text.strip_prefix("[:")?.split_once(":]")?;
    NAMES.contains(&name).then(|| &text[..name.len() + 4])
}

fn literal(c: char, out: &mut String) {
    let mut buffer = [0; 4];
    let text: &str = c.encode_utf8(&mut buffer);
    out.push_str(&regex::escape(text));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        glob(pattern).expect("a pattern").is_match(text)
    }

    #[test]
    fn globs_are_those_of_fnmatch() {
        for (pattern, text) in [
            ("disk.*", "disk.dev.read"),
            ("*", ""),
            ("dks[09]d1", "dks9d1"),
            ("[!a-c]x", "dx"),
            ("a?c", "aéc"),
            (r"a\*", "a*"),
            ("[]x]", "]"),
            ("[a-]", "-"),
            ("[[:digit:]x]", "7"),
            ("[", "["),
            ("a+(b)", "a+(b)"),
            ("x\ny*", "x\nyz"),
            ("[&&]", "&"),
            ("[~^]", "^"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("disk", "disk.dev"), ("", "x"), ("dks[09]d1", "dks1d1"), ("[!a]", "a"), ("a.c", "abc")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_class_that_nothing_ends_is_none() {
        for pattern in ["[[:upper", "[[:upper:", "[[:upper:é", "[[:alphaé", "[[:", "a[b[:digit"] {
            assert!(matches(pattern, pattern), "{pattern}: its brackets stand for themselves");
        }
        assert!(matches("[[:uppe:]]", "u]") && !matches("[[:uppe:]]", "U]"), "no class, but characters");
    }

    #[test]
    fn what_is_too_large_is_refused() {
        assert!(glob(&"[[:alpha:]]".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_glob(pattern in ".{0,40}", text in ".{0,20}") {
            let _ = glob(&pattern).map(|glob| glob.is_match(&text));
        }

        #[test]
        fn a_text_matches_itself(text in "[a-z. éß]{0,40}") {
            prop_assert!(matches(&text, &text));
        }
    }
}

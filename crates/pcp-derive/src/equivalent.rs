//! Instance domains declared equivalent (`PCP_INDOM_CONFIG`, `docs/pcp/derived-language.md` 8.13).

use std::sync::atomic::{AtomicBool, Ordering};

use pcp_model::InDom;

/// Sets of equivalent instance domains.
#[derive(Debug, Default)]
pub struct EquivalentIndoms {
    sets: Vec<Vec<Member>>,
    complaint: Option<String>,
    /// Whether two domains have been compared.
    asked: AtomicBool,
    told: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    domain: u32,
    /// `None` for all serials.
    serial: Option<u32>,
}

const MAX_DOMAIN: u32 = 511;
const MAX_SERIAL: u32 = 4_194_303;
/// Digits that PCP takes at most.
const DOMAIN_DIGITS: usize = 3;
const SERIAL_DIGITS: usize = 7;

impl EquivalentIndoms {
    /// Reads the text of a file of equivalent instance domains: a set a line, members as
    /// `DOMAIN.SERIAL` or `DOMAIN.*`. What stands before a malformed line counts, as in PCP.
    ///
    /// # Errors
    /// With the sets before it, what is wrong with the first malformed line: its number and PCP's text.
    pub fn parse(text: &str) -> (EquivalentIndoms, Option<(usize, String)>) {
        let mut found = EquivalentIndoms::default();
        let mut set = Vec::new();
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            match read_line(line, &mut set) {
                Ok(true) => found.sets.push(std::mem::take(&mut set)),
                // Blanks behind the last member: the set goes on in the next line.
                Ok(false) => {}
                Err(problem) => return (found, Some((number, problem))),
            }
        }
        (found, None)
    }

    /// With what is to be told of where they are from, once, when two domains have been compared: before that nobody misses what is
    /// not there. It comes with a context's messages.
    pub fn complaining(self, complaint: String) -> EquivalentIndoms {
        EquivalentIndoms { complaint: Some(complaint), ..self }
    }

    /// What is to be told now.
    pub(super) fn complaint(&self) -> Option<String> {
        let complaint = self.complaint.as_ref()?;
        let is_due = self.asked.load(Ordering::Relaxed) && !self.told.swap(true, Ordering::Relaxed);
        is_due.then(|| complaint.clone())
    }

    /// Whether one set has both.
    pub fn are_equivalent(&self, a: InDom, b: InDom) -> bool {
        self.asked.store(true, Ordering::Relaxed);
        let has = |set: &[Member], indom: InDom| {
            set.iter().any(|member| {
                member.domain == u32::from(indom.domain())
                    && member.serial.is_none_or(|serial| serial == indom.serial())
            })
        };
        self.sets.iter().any(|set| has(set, a) && has(set, b))
    }
}

/// Adds a line's members to a set. True if the line ends the set.
fn read_line(line: &str, set: &mut Vec<Member>) -> Result<bool, String> {
    let blank = |c: char| c == ' ' || c == '\t';
    let mut rest = line.trim_start_matches(blank);
    loop {
        if rest.is_empty() || rest.starts_with('\n') || rest.starts_with('#') {
            return Ok(false);
        }
        let found = |rest: &str| rest.chars().next().map(String::from).unwrap_or_default();
        let (domain, after) = digits(rest, "domain", DOMAIN_DIGITS)?;
        let domain = domain.ok_or_else(|| format!("<domain> expected, found '{}'", found(rest)))?;
        if domain > MAX_DOMAIN {
            return Err(format!("<domain> {domain} too big"));
        }
        let Some(after) = after.strip_prefix('.') else {
            return Err(format!("'.' expected after <domain> {domain}, found '{}'", found(after)));
        };
        let (serial, after) = match after.strip_prefix('*') {
            Some(after) => (None, after),
            None => {
                let (serial, rest) = digits(after, "serial", SERIAL_DIGITS)?;
                if serial.is_none() {
                    let found = found(after);
                    return Err(format!("digit or '*' expected after <domain> {domain}, found '{found}'"));
                }
                (serial, rest)
            }
        };
        if serial > Some(MAX_SERIAL) {
            return Err(format!("<serial> {} too big", serial.unwrap_or_default()));
        }
        set.push(Member { domain, serial });
        if after.starts_with('\n') {
            return Ok(true);
        }
        if after.is_empty() {
            return Err("expected newline, found End-of-File".to_owned());
        }
        rest = after.trim_start_matches(blank);
        if rest.len() == after.len() {
            let serial = serial.map_or_else(|| "*".to_owned(), |serial| serial.to_string());
            return Err(format!(
                "newline or whitespace expected after <serial> {serial}, found '{}'",
                found(after)
            ));
        }
    }
}

/// The number that a text begins with, if it does, and what is behind it.
fn digits<'t>(text: &'t str, what: &str, most: usize) -> Result<(Option<u32>, &'t str), String> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    if end > most {
        return Err(format!("<{what}> {}... too long", &text[..=most]));
    }
    let (digits, rest) = text.split_at(end);
    Ok((digits.parse().ok(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, pairs: &[(u32, u32, bool)]) {
        let (sets, _) = EquivalentIndoms::parse(text);
        for &(a, b, expected) in pairs {
            let found = sets.are_equivalent(InDom::new(245, a), InDom::new(245, b));
            assert_eq!(found, expected, "{text:?} {a} {b}");
        }
    }

    #[test]
    fn a_line_is_a_set() {
        check("# c\n245.3\t245.2 245.1\n", &[(1, 2, true), (1, 4, false)]);
        check("245.*\n", &[(1, 2, true)]);
        check("245.1 245.2 \n", &[(1, 2, false)]);
        check("245.1 \n245.2\n", &[(1, 2, true)]);
        check("245.1 245.2\nx\n245.3 245.4\n", &[(1, 2, true), (3, 4, false)]);
        assert!(EquivalentIndoms::parse("1.2x\n").1.is_some());
    }

    #[test]
    fn mistakes_have_their_place_and_pcps_words() {
        for (text, line, words) in [
            ("29.1 29.3\n29.2 29.x\n", 2, "digit or '*' expected after <domain> 29, found 'x'"),
            ("x\n", 1, "<domain> expected, found 'x'"),
            ("600.1 29.2\n", 1, "<domain> 600 too big"),
            ("29.2 4194304.1\n", 1, "<domain> 4194... too long"),
            ("29.4194304\n", 1, "<serial> 4194304 too big"),
            ("\n29.99999999 29.1\n", 2, "<serial> 99999999... too long"),
            ("29.2 29.4x\n", 1, "newline or whitespace expected after <serial> 4, found 'x'"),
            ("29.2 29.4", 1, "expected newline, found End-of-File"),
        ] {
            assert_eq!(EquivalentIndoms::parse(text).1, Some((line, words.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn a_complaint_comes_once_and_only_when_it_matters() {
        let sets = EquivalentIndoms::parse("245.1 245.2\n").0.complaining("bad".to_owned());
        assert_eq!(sets.complaint(), None);
        assert!(sets.are_equivalent(InDom::new(245, 1), InDom::new(245, 2)));
        assert_eq!(sets.complaint().as_deref(), Some("bad"));
        assert_eq!(sets.complaint(), None);
    }
}

//! Configuration files (`pmLoadDerivedConfig(3)`, spec `derived-language.md` 4).
//!
//! Reads text that somebody else got hold of; one bad line does not hurt the others.

use std::borrow::Cow;

use super::dialect::Level;
use super::registry::{HelpKind, RegisterError, Registry};
use super::report::report_refusal;
use pcp_model::PmError;

/// What came of a configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// How many definitions were registered.
    pub registered: usize,
    /// What was wrong, in the order of the file.
    pub problems: Vec<ConfigProblem>,
}

/// Something wrong with a configuration file.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigProblem {
    /// The line, from 1; of constructs over several lines the first.
    pub line: usize,
    /// Whether the line counts all the same.
    pub warning: bool,
    /// The line with its continuations, or what PCP shows of it.
    pub kind: ConfigProblemKind,
}

/// What is wrong with a line of a configuration file.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ConfigProblemKind {
    /// PCP's message, and the line if it shows it.
    Line { message: String, line: Option<String> },
    /// A definition that was refused.
    Definition { name: String, expression: String, column: usize, error: RegisterError },
    /// A `#control` line (7.2).
    Control(String),
}

impl ConfigProblem {
    /// PCP's message, with its newline.
    pub fn text(&self, file: &str) -> String {
        let level = if self.warning { "Warning" } else { "Error" };
        let place = format!("[{file}:{}] {level}: ", self.line);
        match &self.kind {
            ConfigProblemKind::Line { message, line: Some(line) } => {
                format!("{place}pmLoadDerivedConfig: {message}\n{line}\n")
            }
            ConfigProblemKind::Line { message, line: None } => {
                format!("{place}pmLoadDerivedConfig: {message}\n")
            }
            ConfigProblemKind::Control(message) => format!("{place}{message}\n"),
            ConfigProblemKind::Definition { name, expression, error, .. } => {
                let shown = expression.len() - expression.trim_start_matches(is_white).len();
                let at = shown as i64 + error.position();
                let mut marker: String = (0i64..)
                    .zip(expression.bytes())
                    .map(|(i, byte)| match byte {
                        _ if i == at => '^',
                        byte if byte.is_ascii_whitespace() || byte == b'\x0b' => char::from(byte),
                        _ => ' ',
                    })
                    .collect();
                marker.push('\n');
                if let Some(text) = error.text() {
                    marker.push_str(&text);
                    marker.push('\n');
                }
                format!("{place}pmRegisterDerived({name}, ...) syntax error\n{expression}\n{marker}")
            }
        }
    }
}

impl ConfigProblem {
    /// The problem for people: where it is (file, line and, in definitions, column), and what it is.
    pub fn report(&self, file: &str) -> String {
        let line = self.line;
        match &self.kind {
            ConfigProblemKind::Definition { name, expression, column, error } => {
                let expression = expression.trim_matches(is_white);
                format!("{file}:{line}:{column}: {}", report_refusal(name, expression, error))
            }
            ConfigProblemKind::Line { message, line: text } => {
                let level = if self.warning { "warning" } else { "error" };
                let shown = text.as_ref().map(|text| format!("  {text}\n")).unwrap_or_default();
                format!("{file}:{line}: {level}: {message}\n{shown}")
            }
            ConfigProblemKind::Control(message) => format!("{file}:{line}: error: {message}\n"),
        }
    }
}

/// How the one problem with an option begins that is an error in a file, where the others are warnings.
const MISSING_EQUALS: &str = "missing '='";

/// White space as C has it.
fn is_white(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

impl Registry {
    /// Registers what a configuration file defines. Text that is not UTF-8 has its bad bytes replaced.
    pub fn load(&mut self, contents: &[u8]) -> Loaded {
        let text = String::from_utf8_lossy(contents);
        // Replaced, not refused: only the definition that they are in is wrong then.
        let mut reader =
            Reader { rest: &text, number: 1, blamed: 1, joins: self.dialect.level >= Level::V638 };
        let mut loaded = Loaded::default();
        while let Some(line) = reader.line() {
            if let Err(kind) = self.load_line(&mut reader, &line, &mut loaded) {
                loaded.problems.push(ConfigProblem { line: reader.blamed, warning: false, kind });
            }
        }
        loaded
    }

    fn load_line(
        &mut self,
        reader: &mut Reader<'_>,
        line: &str,
        loaded: &mut Loaded,
    ) -> Result<(), ConfigProblemKind> {
        let bad = |message: &str| message_with(message, Some(line));
        if line.is_empty() || line.starts_with('#') {
            // A comment to every release before 7.2, so that a file can be for several.
            let control = line.get(..8).is_some_and(|word| word.eq_ignore_ascii_case("#control"));
            if control {
                let problems = self.control(line.get(9..).unwrap_or_default()).into_iter();
                loaded.problems.extend(problems.map(|problem| ConfigProblem {
                    line: reader.blamed,
                    warning: !problem.starts_with(MISSING_EQUALS),
                    kind: ConfigProblemKind::Control(problem),
                }));
            }
            return Ok(());
        }
        let (left, right) =
            line.split_once('=').ok_or_else(|| bad("missing ``='' after derived metric name"))?;
        let open = left.find('(');
        let name = left[..open.unwrap_or(left.len())].trim_matches(is_white);
        if name.is_empty() {
            return Err(bad("derived metric name missing"));
        }
        if !is_name(name) {
            return Err(message_with(&format!("illegal derived metric name ({name})"), None));
        }
        let Some(open) = open else {
            // A `)` without `(` would be part of the name.
            return self.load_definition(line, name, right, loaded);
        };
        let (attribute, _) =
            left[open + 1..].split_once(')').ok_or_else(|| bad("missing ')' after attribute"))?;
        let attribute = attribute.trim_matches(is_white);
        if attribute.is_empty() {
            return Err(bad("attribute name missing"));
        }
        let text = attribute_value(reader, line, right.trim_start_matches(is_white), loaded)?;
        // Only now, with the value taken: it may go on over several lines, which are no definitions.
        if self.find(name).is_none() {
            return Err(bad(&format!("cannot set attribute, derived metric ({name}) not defined")));
        }
        let kind = match attribute {
            "oneline" => HelpKind::Oneline,
            "helptext" => HelpKind::Help,
            _ => return Err(bad(&format!("attribute ({attribute}) is unknown for metric ({name})"))),
        };
        self.set_help(name, kind, &text).map_err(|_: PmError| {
            bad(&format!("duplicate value for attribute ({attribute}) of metric ({name})"))
        })
    }

    fn load_definition(
        &mut self,
        line: &str,
        name: &str,
        right: &str,
        loaded: &mut Loaded,
    ) -> Result<(), ConfigProblemKind> {
        let expression = right.trim_start_matches(is_white);
        if expression.is_empty() {
            return Err(message_with("expression missing", Some(line)));
        }
        self.register(name, expression).map_err(|error| {
            let place = line.len() - expression.len() + usize::try_from(error.position()).unwrap_or(0);
            let column = line.get(..place).map_or(1, |before| before.chars().count() + 1);
            ConfigProblemKind::Definition {
                name: name.to_owned(),
                expression: right.to_owned(),
                column,
                error,
            }
        })?;
        loaded.registered += 1;
        Ok(())
    }

    /// Sets options, `NAME=NUMBER[,NAME=NUMBER...]`, as `PCP_DERIVED_CONTROL` of 7.2 has them; releases before it do not know
    /// them. Gives what is wrong with them: the rest behind what is no option at all is not looked at.
    pub fn control(&mut self, options: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let mut rest = if self.dialect.level >= Level::V721 { options } else { "" };
        while !rest.is_empty() {
            let Some((name, value)) = rest.split_once('=') else {
                problems.push(format!("{MISSING_EQUALS} in derived metric control ({rest})"));
                break;
            };
            if value.is_empty() {
                problems.push(format!("missing value in derived metric control ({rest})"));
                break;
            }
            let end = value.find(',').unwrap_or(value.len());
            let Ok(setting) = value[..end].parse::<i32>() else {
                problems.push(format!("bad value ({value}) for derived metric control ({name})"));
                break;
            };
            rest = value.get(end + 1..).unwrap_or_default();
            if let Err(error) = self.set_control(name, setting) {
                problems.push(match error {
                    None => format!("unknown derived metric control ({name})"),
                    Some(error) => {
                        format!("failed to set derived metric control {name}={setting}: {error}")
                    }
                });
            }
        }
        problems
    }

    /// Sets an option of `PCP_DERIVED_CONTROL`; any beginning of a name will do.
    fn set_control(&mut self, name: &str, value: i32) -> Result<(), Option<PmError>> {
        const NAMES: [&str; 6] = [
            "GLOBAL_LIMIT",
            "CONTEXT_LIMIT",
            "DEBUG_SYNTAX",
            "DEBUG_SEMANTICS",
            "DEBUG_EVAL",
            "OPTION_NOVALUE",
        ];
        let option = NAMES
            .iter()
            .position(|option| option.get(..name.len()).is_some_and(|o| o.eq_ignore_ascii_case(name)));
        match option {
            None => Err(None),
            // There is no context yet whose limit it could be.
            Some(1) => Err(Some(PmError::NOCONTEXT)),
            Some(0) if value != -1 && value <= 0 => Err(Some(PmError::ARG)),
            Some(0) => {
                self.set_limit(value);
                Ok(())
            }
            Some(_) if !matches!(value, 0 | 1) => Err(Some(PmError::ARG)),
            Some(5) => {
                self.set_unknown_is_novalue(value == 1);
                Ok(())
            }
            // What PCP prints while it debugs is nothing that definitions depend on.
            Some(_) => Ok(()),
        }
    }
}

fn message_with(message: &str, line: Option<&str>) -> ConfigProblemKind {
    ConfigProblemKind::Line { message: message.to_owned(), line: line.map(str::to_owned) }
}

/// The value of an attribute, from its first character on; in quotes it may go on in the next lines.
fn attribute_value<'a>(
    reader: &mut Reader<'_>,
    line: &str,
    value: &'a str,
    loaded: &mut Loaded,
) -> Result<Cow<'a, str>, ConfigProblemKind> {
    let quote = match value.chars().next() {
        Some(quote @ ('"' | '\'')) if value.len() > 1 => quote,
        None | Some('"' | '\'') => return Err(message_with("attribute value missing", Some(line))),
        Some(_) => return Ok(Cow::Borrowed(value)),
    };
    let before = reader.number;
    let quoted = reader.quoted(&value[1..], quote);
    if !reader.joins && reader.number > before {
        // 6.0.3 does not count the last line of the value, and blames the line before it.
        reader.number -= usize::from(quoted.is_some());
        reader.blamed = reader.number - 1;
    }
    let (text, extra) =
        quoted.ok_or_else(|| message_with(&format!("missing termination ({quote}) for value"), None))?;
    if !extra.is_empty() {
        let message = format!("extra text ({extra}) after attribute value will be ignored");
        let kind = message_with(&message, None);
        loaded.problems.push(ConfigProblem { line: reader.blamed, warning: true, kind });
    }
    Ok(Cow::Owned(text))
}

/// Whether configuration files may define a metric of this name: dot-separated words of letters,
/// digits and `_`, each beginning with a letter. PCP lets a dot at the end pass.
pub fn is_name(name: &str) -> bool {
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    name.strip_suffix('.').unwrap_or(name).split('.').all(word)
}

/// Lines of a file. A last line without a newline does not count, as in PCP.
struct Reader<'a> {
    rest: &'a str,
    /// The number of the line to be read next.
    number: usize,
    /// The number that problems are reported with.
    blamed: usize,
    /// Whether a backslash joins lines.
    joins: bool,
}

impl<'a> Reader<'a> {
    /// The next line, continuations joined.
    fn line(&mut self) -> Option<Cow<'a, str>> {
        self.blamed = self.number;
        let mut line = Cow::Borrowed(self.physical()?);
        while self.joins && line.ends_with('\\') {
            let more = self.physical()?;
            let joined = line.to_mut();
            joined.pop();
            joined.push_str(more);
        }
        Some(line)
    }

    fn physical(&mut self) -> Option<&'a str> {
        let (line, rest) = self.rest.split_once('\n')?;
        self.rest = rest;
        self.number += 1;
        Some(line)
    }

    /// What is left of the file, which has no newline.
    fn last(&mut self) -> &'a str {
        self.number += usize::from(!self.rest.is_empty());
        std::mem::take(&mut self.rest)
    }

    /// The value in quotes whose text begins with `first`, perhaps going on in the next lines; and what
    /// stands behind the closing quote. `None` if the file ends before.
    fn quoted(&mut self, first: &str, quote: char) -> Option<(String, String)> {
        let mut text = String::new();
        if let Some(end) = take_quoted(first, quote, &mut text) {
            let extra = first[end..].trim_start_matches(is_white);
            return Some((text, extra.to_owned()));
        }
        let mut escaped = first.len() - first.trim_end_matches('\\').len();
        loop {
            // The newline is part of the value, unless a backslash hides it.
            if escaped.is_multiple_of(2) {
                text.push('\n');
            }
            // Inside a value a last line without a newline counts.
            let line = self.physical().or_else(|| Some(self.last()).filter(|line| !line.is_empty()))?;
            if let Some(end) = take_quoted(line, quote, &mut text) {
                // PCP loses one character here.
                let mut extra = line[end..].chars();
                extra.next();
                return Some((text, extra.as_str().trim_start_matches(is_white).to_owned()));
            }
            escaped = line.len() - line.trim_end_matches('\\').len();
        }
    }
}

/// Appends text up to the closing quote, backslashes taken off; where what follows the quote begins.
fn take_quoted(line: &str, quote: char, text: &mut String) -> Option<usize> {
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => text.extend(chars.next().map(|(_, c)| c)),
            c if c == quote => return Some(at + c.len_utf8()),
            c => text.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;

    fn check(contents: &str, registered: usize, messages: &str) {
        let mut registry = Registry::new(Dialect::default());
        let loaded = registry.load(contents.as_bytes());
        let found: String = loaded.problems.iter().map(|problem| problem.text("F")).collect();
        assert_eq!((loaded.registered, found.as_str()), (registered, messages), "{contents}");
    }

    #[test]
    fn one_bad_line_does_not_hurt_the_others() {
        check(
            "a = 1\nb\nc = 2\nd = 3",
            2,
            "[F:2] Error: pmLoadDerivedConfig: missing ``='' after derived metric name\nb\n",
        );
        check(
            "a = 1 +\n",
            0,
            "[F:1] Error: pmRegisterDerived(a, ...) syntax error\n 1 +\n   ^\nArithmetic expression expected to follow PLUS\n",
        );
        check(
            "a = 1 \\\n+ 2\nb..c = 1\n",
            1,
            "[F:3] Error: pmLoadDerivedConfig: illegal derived metric name (b..c)\n",
        );
    }

    #[test]
    fn values_may_go_on_in_the_next_lines() {
        let mut registry = Registry::new(Dialect::default());
        registry.load(b"a = 1\na(oneline) = 'x\ny\\'z'\na(helptext) = plain  \n");
        let definition = registry.find("a").unwrap();
        assert_eq!(definition.oneline.as_deref(), Some("x\ny'z"));
        assert_eq!(definition.help.as_deref(), Some("plain  "));
    }
}

//! Words of a command line to options and operands, as `getopt_long` takes them.

use std::collections::VecDeque;

use super::call::Call;
use super::table::{Meaning, Opt, Row, Takes, Tool};

/// What comes next on a command line.
#[derive(Debug)]
pub(super) enum Next<O> {
    /// An option, and its argument if it has one.
    Option(Meaning<O>, Option<String>),
    /// Something that is no option of the tool, and the message that says so.
    Problem(String),
}

/// A command line on its way through the parser.
pub(super) struct Getopt<O> {
    options: Vec<(&'static Opt, Meaning<O>)>,
    permute: bool,
    words: VecDeque<String>,
    /// Letters after the one just taken: `fv` of `-dfv`.
    bundle: String,
    operands: Vec<String>,
}

impl<O: Copy> Getopt<O> {
    /// Of a tool and the words after its name.
    pub(super) fn new(tool: &'static Tool<O>, call: &Call, words: Vec<String>) -> Getopt<O> {
        Getopt {
            options: tool.rows(call).filter_map(Row::option).collect(),
            permute: tool.permute && std::env::var_os("POSIXLY_CORRECT").is_none(),
            words: words.into(),
            bundle: String::new(),
            operands: Vec::new(),
        }
    }

    /// The words that are no options. All of them, once there are no more options.
    pub(super) fn operands(&self) -> Vec<String> {
        self.operands.iter().chain(&self.words).cloned().collect()
    }

    fn long(&mut self, word: &str) -> Next<O> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        if name.is_empty() {
            // What the headings of PCP's tables are named.
            return Next::Problem("option '--' doesn't allow an argument".to_owned());
        }
        let starting = || self.options.iter().copied().filter(|(option, _)| option.long.starts_with(name));
        // A whole name wins over those that it begins: getopt_long(3) takes any beginning that is one option's.
        let (option, meaning) = match starting().find(|(option, _)| option.long == name) {
            Some(found) => found,
            None => match starting().collect::<Vec<_>>()[..] {
                [found] => found,
                [] => return Next::Problem(format!("unrecognized option '--{word}'")),
                [first, ref others @ ..] => {
                    // The order in which glibc names them.
                    let names = [first].into_iter().chain(others.iter().copied().rev());
                    let names: Vec<String> =
                        names.map(|(option, _)| format!(" '--{}'", option.long)).collect();
                    return Next::Problem(format!(
                        "option '--{word}' is ambiguous; possibilities:{}",
                        names.concat()
                    ));
                }
            },
        };
        match (option.takes, value) {
            (Takes::Nothing, None) => Next::Option(meaning, None),
            (Takes::Nothing, Some(_)) => {
                Next::Problem(format!("option '--{}' doesn't allow an argument", option.long))
            }
            (_, Some(value)) => Next::Option(meaning, Some(value.to_owned())),
            (_, None) => match self.words.pop_front() {
                Some(argument) => Next::Option(meaning, Some(argument)),
                None => Next::Problem(format!("option '--{}' requires an argument", option.long)),
            },
        }
    }

    fn short(&mut self, letter: char) -> Next<O> {
        let found =
            self.options.iter().find(|(option, _)| option.short_works && option.short == Some(letter));
        let Some(&(option, meaning)) = found else {
            return Next::Problem(format!("invalid option -- '{letter}'"));
        };
        if option.takes != Takes::Argument {
            return Next::Option(meaning, None);
        }
        let rest = std::mem::take(&mut self.bundle);
        match if rest.is_empty() { self.words.pop_front() } else { Some(rest) } {
            Some(argument) => Next::Option(meaning, Some(argument)),
            None => Next::Problem(format!("option requires an argument -- '{letter}'")),
        }
    }
}

impl<O: Copy> Iterator for Getopt<O> {
    type Item = Next<O>;

    fn next(&mut self) -> Option<Next<O>> {
        loop {
            let mut letters = self.bundle.chars();
            if let Some(letter) = letters.next() {
                self.bundle = letters.as_str().to_owned();
                return Some(self.short(letter));
            }
            let word = self.words.pop_front()?;
            if word == "--" {
                return None;
            }
            if let Some(long) = word.strip_prefix("--") {
                return Some(self.long(long));
            }
            match word.strip_prefix('-') {
                Some(letters) if !letters.is_empty() => self.bundle = letters.to_owned(),
                _ if self.permute => self.operands.push(word),
                _ => {
                    // As POSIX has it: the first operand ends the options.
                    self.words.push_front(word);
                    return None;
                }
            }
        }
    }
}

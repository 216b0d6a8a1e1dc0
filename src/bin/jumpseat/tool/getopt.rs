//! Words of a command line to options and operands, as `getopt_long` takes them.

use std::collections::VecDeque;

use super::call::Call;
use super::table::{Opt, Row, Takes, Tool};

/// What comes next on a command line.
#[derive(Debug)]
pub enum Next {
    /// An option.
    Option(&'static Opt, Option<String>),
    /// Something that is no option of the tool, and the message that says so.
    Problem(String),
}

/// A command line on its way through the parser.
pub struct Getopt {
    options: Vec<&'static Opt>,
    permute: bool,
    words: VecDeque<String>,
    /// Letters after the one just taken: `fv` of `-dfv`.
    bundle: String,
    operands: Vec<String>,
}

impl Getopt {
    /// Of a tool and the words after its name.
    pub fn new(tool: &'static Tool, call: &Call, words: Vec<String>) -> Getopt {
        Getopt {
            options: tool.rows(call).filter_map(Row::option).collect(),
            permute: tool.permute && std::env::var_os("POSIXLY_CORRECT").is_none(),
            words: words.into(),
            bundle: String::new(),
            operands: Vec::new(),
        }
    }

    /// The words that are no options. All of them, once there are no more options.
    pub fn operands(&self) -> Vec<String> {
        self.operands.iter().chain(&self.words).cloned().collect()
    }

    fn long(&mut self, word: &str) -> Next {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        if name.is_empty() {
            // What the headings of PCP's tables are named.
            return Next::Problem("option '--' doesn't allow an argument".to_owned());
        }
        let starting = || self.options.iter().copied().filter(|option| option.long.starts_with(name));
        let option = match starting().find(|option| option.long == name) {
            Some(option) => option,
            None => match starting().collect::<Vec<_>>()[..] {
                [option] => option,
                [] => return Next::Problem(format!("unrecognized option '--{word}'")),
                [first, ref others @ ..] => {
                    let names = [first].into_iter().chain(others.iter().copied().rev());
                    let names: Vec<String> = names.map(|option| format!(" '--{}'", option.long)).collect();
                    return Next::Problem(format!(
                        "option '--{word}' is ambiguous; possibilities:{}",
                        names.concat()
                    ));
                }
            },
        };
        match (option.takes, value) {
            (Takes::Nothing, None) => Next::Option(option, None),
            (Takes::Nothing, Some(_)) => {
                Next::Problem(format!("option '--{}' doesn't allow an argument", option.long))
            }
            (_, Some(value)) => Next::Option(option, Some(value.to_owned())),
            (_, None) => match self.words.pop_front() {
                Some(argument) => Next::Option(option, Some(argument)),
                None => Next::Problem(format!("option '--{}' requires an argument", option.long)),
            },
        }
    }

    fn short(&mut self, letter: char) -> Next {
        let found = self.options.iter().find(|option| option.short_works && option.short == Some(letter));
        let Some(option) = found else {
            return Next::Problem(format!("invalid option -- '{letter}'"));
        };
        if option.takes != Takes::Argument {
            return Next::Option(option, None);
        }
        let rest = std::mem::take(&mut self.bundle);
        match if rest.is_empty() { self.words.pop_front() } else { Some(rest) } {
            Some(argument) => Next::Option(option, Some(argument)),
            None => Next::Problem(format!("option requires an argument -- '{letter}'")),
        }
    }
}

impl Iterator for Getopt {
    type Item = Next;

    fn next(&mut self) -> Option<Next> {
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
                    self.words.push_front(word);
                    return None;
                }
            }
        }
    }
}

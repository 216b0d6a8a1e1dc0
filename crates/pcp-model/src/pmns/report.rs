//! What PCP's loader says about a name space source (`pmLoadASCIINameSpace(3)`, DIAGNOSTICS).

use std::fmt::Write;

use super::{PmnsError, Problem};

const WHO: &str = "Error Parsing ASCII PMNS: ";

impl PmnsError {
    /// The lines that `pmLoadASCIINameSpace(3)` and `pmcpp(1)` print.
    pub fn report(&self) -> String {
        let PmnsError { file, line, text, .. } = self;
        let (place, what) = match self.words() {
            Words::Preprocessor { place, what } => (place, what),
            Words::Syntax(what) => return self.with_place(&what),
            Words::Marker { line, mark } => return self.bad_marker(line, mark),
            Words::Whole(what) => return format!("{WHO}{what}\n"),
        };
        let place = if place { format!("{file}[{line}]: {text}") } else { format!("{file}:") };
        format!("pmcpp: {place}\npmcpp: Error: {what}\n{WHO}pmcpp returned non-zero exit status\n")
    }

    /// A directive that the preprocessor has left to the parser.
    fn bad_marker(&self, line: usize, mark: Option<usize>) -> String {
        let PmnsError { file, text, .. } = self;
        let what = format!("{WHO}Illegal line number control number");
        let mark = mark.map(|column| format!("    {}^\n", " ".repeat(column))).unwrap_or_default();
        match line {
            0 => format!("{what}\n"),
            line => format!("[{file}:{line}] {what}\n    {text}\n{mark}"),
        }
    }

    /// A problem of the text, with the line and a mark below the place.
    fn with_place(&self, what: &str) -> String {
        let PmnsError { file, line, text, column, problem } = self;
        let before = text.get(..*column).unwrap_or_default();
        let pad: String = before.chars().map(|c| if c == '\t' { c } else { ' ' }).collect();
        // What these say about the second time is in PCP's words, too.
        let mut report = match problem {
            Problem::DuplicateName { .. } => {
                format!("[{file}:{line}] {WHO}{what}\n\n    {what}\n    {pad}^\n")
            }
            _ => format!("[{file}:{line}] {WHO}{what}\n    {text}\n    {pad}^\n"),
        };
        if let Problem::Pmid { .. } = problem {
            let next = "Expected NAME, PMID or }";
            // Writing to a String does not fail.
            let _ = write!(report, "[{file}:{line}] {WHO}{next}\n    {pad}^\n    {pad}^\n");
        }
        report
    }

    fn words(&self) -> Words {
        use Problem::*;
        let preprocessor = |what: &str| Words::Preprocessor { place: true, what: what.to_owned() };
        let at_end = |what: String| Words::Preprocessor { place: false, what };
        let syntax = |what: &str| Words::Syntax(what.to_owned());
        match &self.problem {
            UnfinishedComment => {
                at_end(format!("Comment at line {} not terminated before end of file", self.line))
            }
            UnfinishedConditional => at_end(format!(
                "End of input and no matching #endif for #ifdef or #ifndef at line {}",
                self.line
            )),
            // What is no number leaves the parser at the line before.
            Directive { name, mark } => {
                let line = name.parse().unwrap_or(self.line.saturating_sub(1));
                Words::Marker { line, mark: *mark }
            }
            MacroName(_) => preprocessor("Illegal character in macro name"),
            NoMacroName => preprocessor("Missing macro name"),
            ExtraText(_) => preprocessor("Unexpected extra text in a control line"),
            Redefined(_) => preprocessor("Macro redefinition"),
            NestedConditional => preprocessor("Nested #ifdef or #ifndef"),
            NoConditional(name) => preprocessor(&format!("No matching #ifdef or #ifndef for #{name}")),
            IncludeName => preprocessor("Expected \" or < after #include"),
            IncludeEnd(close) => preprocessor(&format!("Expected {close} after file name")),
            IncludeExtra => preprocessor("Unexpected extra text in #include line"),
            IncludeFile(_) => preprocessor("Cannot open file for #include"),
            TooDeep => preprocessor("#include and/or #shell nesting too deep"),
            ExpectedPath(_) => syntax("Expected NAME or PATH"),
            ExpectedName(_) => syntax("Expected NAME or }"),
            ExpectedNameOrPmid(_) => syntax("Expected NAME, PMID or }"),
            ExpectedBrace(_) => syntax("{ expected"),
            Pmid { part: None, .. } => syntax("Illegal PMID"),
            Pmid { part: Some(part), pmid } => {
                let dynamic = if pmid.ends_with('*') { "dynamic " } else { "" };
                syntax(&format!("Illegal {part} field in {dynamic}PMID"))
            }
            DuplicateName { name, block } => {
                Words::Syntax(format!("Duplicate name \"{name}\" in subtree for \"{block}\""))
            }
            // PCP's loader knows no agents.
            Domain { .. } => Words::Whole(self.problem.to_string()),
            NoRoot => Words::Whole("No name space entry for \"root\"".to_owned()),
            TwoRoots => Words::Whole("Multiple name space entries for \"root\"".to_owned()),
            Disconnected(name) => Words::Whole(format!("Disconnected subtree (\"{name}\") in name space")),
            Undefined(name) => {
                Words::Whole(format!("Cannot find definition for non-terminal node \"{name}\" in name space"))
            }
            DuplicatePmid { pmid, first, name } => Words::Whole(format!(
                "Duplicate metric id ({pmid}) in name space for metrics \"{name}\" and \"{first}\"\n"
            )),
        }
    }
}

/// PCP's words, and who says them.
enum Words {
    /// `pmcpp`, with or without the line.
    Preprocessor { place: bool, what: String },
    /// The parser, with the line.
    Syntax(String),
    /// The parser, of a line that it takes for a marker: with the line where it was, and the place of the word before.
    Marker { line: usize, mark: Option<usize> },
    /// The loader, about the whole.
    Whole(String),
}

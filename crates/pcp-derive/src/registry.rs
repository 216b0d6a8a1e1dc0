//! Definitions that hold in every context (`docs/pcp/derived-language.md` 2 and 3, `docs/pcp/derived-eval.md` 2).

use hashbrown::HashMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use super::debug;
use super::dialect::Dialect;
use super::equivalent::EquivalentIndoms;
use super::parser::parse;
use super::syntax::SyntaxError;
use super::tree::Tree;
use pcp_model::{PmError, Pmid};

/// The domain of derived metrics.
pub const DERIVED_DOMAIN: u16 = 511;
/// Clusters from here on are those of derived metrics in archives, where they are ordinary metrics.
const LOGGED_CLUSTER: u16 = 2048;
const MAX_ITEM: u16 = 1023;

/// A definition: a name and what it stands for.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The metric's name. Names that no configuration file may have are allowed here.
    pub name: Arc<str>,
    /// The expression as written.
    pub expression: Arc<str>,
    /// The expression, parsed.
    pub tree: Arc<Tree>,
    /// The metric's PMID.
    pub pmid: Pmid,
    /// Made by the library for event records, not by a user.
    pub anonymous: bool,
    /// One line of help.
    pub oneline: Option<Arc<str>>,
    /// The whole help text.
    pub help: Option<Arc<str>>,
}

impl Definition {
    /// What a user has defined, without help text yet.
    pub(super) fn new(name: &str, expression: &str, tree: Tree, pmid: Pmid) -> Definition {
        Definition {
            name: name.into(),
            expression: expression.into(),
            tree: Arc::new(tree),
            pmid,
            anonymous: false,
            oneline: None,
            help: None,
        }
    }
}

/// Why a definition is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The limit is reached.
    #[error("Too many {0} derived metrics")]
    TooMany(Scope),
    /// There is a definition of that name.
    #[error("Duplicate {0} derived metric name")]
    Duplicate(Scope),
    /// All PMIDs are taken.
    #[error("{0} PMID space exhausted")]
    Exhausted(Scope),
    /// The expression is wrong.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
}

/// Where a definition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// In every context.
    Global,
    /// In one context.
    Context,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Global => "global",
            Scope::Context => "per-context",
        })
    }
}

impl RegisterError {
    /// The byte of the expression that PCP points at, -1 for an empty one.
    pub fn position(&self) -> i64 {
        match self {
            RegisterError::Syntax(error) => error.position,
            _ => 0,
        }
    }

    /// PCP's words, if it has any.
    pub fn text(&self) -> Option<String> {
        match self {
            RegisterError::Syntax(error) => error.text.as_deref().map(str::to_owned),
            other => Some(other.to_string()),
        }
    }

    /// The message of `pmRegisterDerivedMetric(3)`.
    pub fn report(&self, name: &str, expression: &str) -> String {
        report("Error: pmRegisterDerivedMetric", name, expression, self.position(), self.text().as_deref())
    }
}

/// The three or four lines that PCP's calls leave about a definition.
pub(super) fn report(call: &str, name: &str, expression: &str, position: i64, text: Option<&str>) -> String {
    // Not by a width of `format!`, which can be 65,535 at most.
    let pad = " ".repeat(usize::try_from(position.unsigned_abs()).unwrap_or(0));
    let mut message = format!("{call}(\"{name}\", ...)\n{expression}\n{pad}^\n");
    if let Some(text) = text {
        // Writing to a String does not fail.
        let _ = writeln!(message, "{text}");
    }
    message
}

/// Which help text is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelpKind {
    /// One line.
    Oneline,
    /// The whole text.
    Help,
}

/// The definitions of a process. A clone is a snapshot that shares them: it costs no more than two reference counts,
/// and the first change of either afterwards copies the lists.
#[derive(Clone, Debug)]
pub struct Registry {
    pub(super) dialect: Dialect,
    pub(super) equivalent: Arc<EquivalentIndoms>,
    entries: Arc<Entries>,
    /// Largest number of definitions, the anonymous ones not counted; -1 for no limit.
    limit: i32,
    anonymous: i32,
    next: Option<(u16, u16)>,
    /// Changes whenever definitions are added or removed.
    pub(super) version: u64,
}

/// Definitions, in the order of registration, and where they are.
#[derive(Clone, Debug, Default)]
struct Entries {
    definitions: Vec<Arc<Definition>>,
    by_name: HashMap<Arc<str>, usize>,
    by_pmid: HashMap<Pmid, usize>,
}

impl Registry {
    /// No definitions yet.
    pub fn new(dialect: Dialect) -> Registry {
        Registry {
            dialect,
            equivalent: Arc::default(),
            entries: Arc::default(),
            limit: -1,
            anonymous: 0,
            next: Some((0, 1)),
            version: 0,
        }
    }

    /// The language.
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Declares instance domains equivalent. For definitions bound from now on.
    pub fn set_equivalent_indoms(&mut self, equivalent: EquivalentIndoms) {
        self.equivalent = Arc::new(equivalent);
    }

    /// Unknown operands have no values, instead of failing (`PCP_DERIVED_OPTION_NOVALUE`).
    pub fn set_unknown_is_novalue(&mut self, on: bool) {
        self.dialect.unknown_is_novalue = on;
    }

    /// The largest number of definitions, -1 for no limit. PCP takes any number, negative ones
    /// included, and then refuses everything.
    pub fn set_limit(&mut self, limit: i32) {
        self.limit = limit;
    }

    /// Registers `event.flags` and `event.missed`, which give the parameters of event records a name.
    /// PCP does it when it makes the first context; only the first call here does something.
    pub fn initialise(&mut self) {
        if self.anonymous > 0 {
            return;
        }
        for (name, oneline, help) in ANONYMOUS {
            // A name or a limit in the way is the user's wish.
            if self.register(name, "anon(PM_TYPE_U32)").is_ok() {
                self.anonymous += 1;
                self.update(name, |definition| {
                    definition.anonymous = true;
                    definition.oneline = Some(oneline.into());
                    definition.help = Some(help.into());
                });
            }
        }
    }

    /// Adds a definition (`pmRegisterDerived(3)`).
    ///
    /// # Errors
    /// Why it is not taken; then nothing has changed.
    pub fn register(&mut self, name: &str, expression: &str) -> Result<Pmid, RegisterError> {
        let made = self.define(name, expression);
        debug::defined(name, expression, made.as_deref());
        made.map(|definition| definition.pmid)
    }

    fn define(&mut self, name: &str, expression: &str) -> Result<Arc<Definition>, RegisterError> {
        let count = self.entries.definitions.len() as i64 - i64::from(self.anonymous);
        if self.limit != -1 && count >= i64::from(self.limit) {
            return Err(RegisterError::TooMany(Scope::Global));
        }
        if self.entries.by_name.contains_key(name) {
            return Err(RegisterError::Duplicate(Scope::Global));
        }
        let tree = parse(expression, &self.dialect)?;
        let (cluster, item) = self.next.ok_or(RegisterError::Exhausted(Scope::Global))?;
        self.next = match (cluster, item) {
            (cluster, item) if item < MAX_ITEM => Some((cluster, item + 1)),
            (cluster, _) if cluster + 1 < LOGGED_CLUSTER => Some((cluster + 1, 1)),
            _ => None,
        };
        let pmid = Pmid::new(DERIVED_DOMAIN, cluster, item);
        let definition = Arc::new(Definition::new(name, expression, tree, pmid));
        let entries = Arc::make_mut(&mut self.entries);
        entries.place(&definition.name, pmid, entries.definitions.len());
        entries.definitions.push(definition.clone());
        self.version += 1;
        Ok(definition)
    }

    /// Removes a definition (`pmUnregisterDerived(3)` of 7.1). Its PMID is not used again. Contexts
    /// notice when they are used next.
    ///
    /// # Errors
    /// `PM_ERR_NAME` if there is none of that name.
    pub fn unregister(&mut self, name: &str) -> Result<Arc<Definition>, PmError> {
        let at = *self.entries.by_name.get(name).ok_or(PmError::NAME)?;
        let entries = Arc::make_mut(&mut self.entries);
        let removed = entries.definitions.remove(at);
        entries.reindex();
        self.anonymous -= i32::from(removed.anonymous);
        self.version += 1;
        Ok(removed)
    }

    /// Removes all definitions but those that `keep` says yes to, in one pass, as [`Registry::unregister`]
    /// does one by one.
    pub fn retain(&mut self, mut keep: impl FnMut(&Definition) -> bool) {
        let entries = Arc::make_mut(&mut self.entries);
        let before = entries.definitions.len();
        entries.definitions.retain(|definition| keep(definition));
        if entries.definitions.len() < before {
            entries.reindex();
            let anonymous = entries.definitions.iter().filter(|definition| definition.anonymous).count();
            self.anonymous = i32::try_from(anonymous).unwrap_or(i32::MAX);
            self.version += 1;
        }
    }

    /// All definitions, in the order of registration.
    pub fn definitions(&self) -> &[Arc<Definition>] {
        &self.entries.definitions
    }

    /// The definition of a name.
    pub fn find(&self, name: &str) -> Option<&Arc<Definition>> {
        let entries = &self.entries;
        entries.by_name.get(name).and_then(|&at| entries.definitions.get(at))
    }

    /// The definition with a PMID.
    pub fn find_pmid(&self, pmid: Pmid) -> Option<&Arc<Definition>> {
        let entries = &self.entries;
        entries.by_pmid.get(&pmid).and_then(|&at| entries.definitions.get(at))
    }

    /// Gives a definition a help text (`pmAddDerivedText(3)`).
    ///
    /// # Errors
    /// `PM_ERR_NAME` for an unknown name, `PM_ERR_TEXT` if it has that text already.
    pub fn set_help(&mut self, name: &str, kind: HelpKind, text: &str) -> Result<(), PmError> {
        let definition = self.find(name).ok_or(PmError::NAME)?;
        let present = match kind {
            HelpKind::Oneline => &definition.oneline,
            HelpKind::Help => &definition.help,
        };
        if present.is_some() {
            return Err(PmError::TEXT);
        }
        self.update(name, |definition| match kind {
            HelpKind::Oneline => definition.oneline = Some(text.into()),
            HelpKind::Help => definition.help = Some(text.into()),
        });
        Ok(())
    }

    fn update(&mut self, name: &str, change: impl FnOnce(&mut Definition)) {
        if let Some(&at) = self.entries.by_name.get(name)
            && let Some(definition) = Arc::make_mut(&mut self.entries).definitions.get_mut(at)
        {
            change(Arc::make_mut(definition));
            self.version += 1;
        }
    }
}

impl Entries {
    fn place(&mut self, name: &Arc<str>, pmid: Pmid, at: usize) {
        self.by_name.insert(name.clone(), at);
        self.by_pmid.insert(pmid, at);
    }

    /// Finds definitions by name and PMID again after some have gone.
    fn reindex(&mut self) {
        self.by_name.clear();
        self.by_pmid.clear();
        for (at, definition) in self.definitions.iter().enumerate() {
            self.by_name.insert(definition.name.clone(), at);
            self.by_pmid.insert(definition.pmid, at);
        }
    }
}

impl Definition {
    /// A help text (`pmLookupText(3)`): the whole text falls back on the one line, not the other way.
    ///
    /// # Errors
    /// `PM_ERR_TEXT` if there is none.
    pub fn help_text(&self, kind: HelpKind) -> Result<&str, PmError> {
        let text = match kind {
            HelpKind::Oneline => self.oneline.as_deref(),
            HelpKind::Help => self.help.as_deref().or(self.oneline.as_deref()),
        };
        text.ok_or(PmError::TEXT)
    }
}

/// Name, one line and help text of the metrics for event records.
const ANONYMOUS: [(&str, &str, &str); 2] = [
    (
        "event.flags",
        "Flags for event records",
        "An anonymous derived metric that is used to encode the event flags\n\
         associated with event records.   See pmUnpackEventRecords(3).",
    ),
    (
        "event.missed",
        "Count of missed event records",
        "An anonymous derived metric that is used to encode the number of\n\
         event records missed because either the PMDA could not keep up\n\
         or the PMAPI client did not collect the event records fast\n\
         enough.  See pmUnpackEventRecords(3).",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pmids_count_up_and_skip_item_zero() {
        let mut registry = Registry::new(Dialect::default());
        registry.initialise();
        assert_eq!(registry.register("a", "1").unwrap().to_string(), "511.0.3");
        for n in 0..1021 {
            registry.register(&format!("n{n}"), "1").unwrap();
        }
        assert_eq!(registry.find("n1019").unwrap().pmid.to_string(), "511.0.1023");
        assert_eq!(registry.find("n1020").unwrap().pmid.to_string(), "511.1.1");
    }

    #[test]
    fn refusals_change_nothing() {
        let mut registry = Registry::new(Dialect::default());
        assert!(matches!(registry.register("a", "1 +"), Err(RegisterError::Syntax(_))));
        assert_eq!(registry.register("a", "1").unwrap().to_string(), "511.0.1");
        let duplicate = registry.register("a", "2").unwrap_err();
        assert_eq!(
            duplicate.report("a", "2"),
            "Error: pmRegisterDerivedMetric(\"a\", ...)\n2\n^\nDuplicate global derived metric name\n"
        );
        registry.set_limit(1);
        assert_eq!(registry.register("b", "1").unwrap_err().to_string(), "Too many global derived metrics");
        let syntax = registry.dialect;
        assert_eq!(
            RegisterError::from(parse("a b", &syntax).unwrap_err()).report("d.x", "a b"),
            "Error: pmRegisterDerivedMetric(\"d.x\", ...)\na b\n  ^\n\
             Arithmetic or relational or boolean operator expected to follow NAME\n"
        );
        assert_eq!(registry.unregister("a").unwrap().pmid.to_string(), "511.0.1");
        assert_eq!(registry.register("a", "1").unwrap().to_string(), "511.0.2");
        registry.set_limit(-1);
        registry.initialise();
        registry.register("c", "1").unwrap();
        registry.retain(|definition| &*definition.name != "a" && &*definition.name != "event.flags");
        assert!(registry.find("a").is_none());
        assert_eq!(registry.find("c").unwrap().pmid.to_string(), "511.0.5");
        assert_eq!((registry.definitions().len(), registry.anonymous), (2, 1));
    }
}

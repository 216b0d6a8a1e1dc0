//! What one configuration changes in another: for the log at a reload, and for `jumpseat config check`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::Config;
use crate::running::tables;

/// Keys, or whole tables, that are read at the start only, and why.
const AT_START: [(&str, &str); 14] = [
    ("domain", "all numbers of metrics are made with it"),
    ("state_dir", "the files with identifiers are open"),
    ("notready", "pmcd is told once"),
    ("events.max_sources", "tables are as large as it was"),
    ("events.max_types", "tables are as large as it was"),
    ("fields.max", "tables are as large as it was"),
    ("spans.max_names", "tables are as large as it was"),
    ("log.dir", "the log is open"),
    ("log.contexts", "their file is open"),
    ("log.sync", "the log is open"),
    ("log.sync_interval", "the log is open"),
    ("confine", "what was given up does not come back"),
    ("handover", "the keeper of listeners was started with it"),
    ("access.passwords", "the endpoint has its passwords"),
];

/// The tables there may be several of, and the keys that each is known by.
const LISTS: [(&str, &[&str]); 9] = [
    ("socket", &["path"]),
    ("source", &["name"]),
    ("dimensions", &["source"]),
    ("objective", &["name"]),
    ("file", &["path", "source"]),
    ("command", &["source", "run"]),
    ("journal", &["source"]),
    ("kernel", &["source"]),
    ("scrape", &["name"]),
];

/// One thing that another configuration changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// A key, such as `events.recent`, or a table, such as `[[file]] /var/log/app.log`.
    pub what: String,
    /// What becomes of it.
    pub how: How,
    /// Why a reload does not bring it into effect, if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_start: Option<String>,
}

/// What becomes of a key or a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The table is new.
    Added,
    /// The table is gone.
    Removed,
    /// Keys have other values.
    Changed(Vec<NewValue>),
}

/// Another value of a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewValue {
    /// The key, without its table.
    pub key: String,
    /// What it was; null: the default, or none.
    pub from: Value,
    /// What it is.
    pub to: Value,
}

/// What `new` changes in `old`, in the order of the tables' names.
pub fn changes(old: &Config, new: &Config) -> Vec<Change> {
    between(&tables(old), &tables(new))
}

/// The same for configurations as data.
pub(crate) fn between(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (table, new) in new {
        let before = old.get(table).unwrap_or(&Value::Null);
        match LISTS.iter().find(|(list, _)| list == table) {
            Some((_, keys)) => lists(table, keys, before, new, &mut changes),
            None => single(table, before, new, &mut changes),
        }
    }
    changes
}

fn single(table: &str, before: &Value, after: &Value, changes: &mut Vec<Change>) {
    let mut tell = |what: String, new: NewValue| {
        let at_start = at_start(&what);
        changes.push(Change { what, how: How::Changed(vec![new]), at_start });
    };
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for new in new_values(before, after) {
                tell(format!("{table}.{}", new.key), new);
            }
        }
        _ if before != after => {
            let new = NewValue { key: table.to_owned(), from: before.clone(), to: after.clone() };
            tell(table.to_owned(), new);
        }
        _ => {}
    }
}

fn at_start(what: &str) -> Option<String> {
    let table = what.split('.').next();
    let found = AT_START.iter().find(|(key, _)| *key == what || Some(*key) == table);
    found.map(|(_, why)| (*why).to_owned())
}

fn lists(table: &str, keys: &[&str], before: &Value, after: &Value, changes: &mut Vec<Change>) {
    let (before, after) = (known_by(keys, before), known_by(keys, after));
    let name = |known: &(String, usize)| match known {
        (name, 0) => format!("[[{table}]] {name}"),
        (name, nth) => format!("[[{table}]] {name} (number {})", nth + 1),
    };
    let mut tell = |known, how| changes.push(Change { what: name(known), how, at_start: None });
    for known in before.keys().filter(|known| !after.contains_key(known)) {
        tell(known, How::Removed);
    }
    for (known, after) in &after {
        match before.get(known) {
            None => tell(known, How::Added),
            Some(before) => {
                let new = new_values(before, after);
                if !new.is_empty() {
                    tell(known, How::Changed(new));
                }
            }
        }
    }
}

/// The tables of a list by what they are called, and which of that name each is.
fn known_by<'a>(keys: &[&str], list: &'a Value) -> BTreeMap<(String, usize), &'a Map<String, Value>> {
    let mut known = BTreeMap::new();
    for table in list.as_array().into_iter().flatten().filter_map(Value::as_object) {
        let parts: Vec<String> = keys.iter().filter_map(|key| table.get(*key)).filter_map(words).collect();
        let name = parts.join(" ");
        let nth = (0..).find(|nth| !known.contains_key(&(name.clone(), *nth))).unwrap_or_default();
        known.insert((name, nth), table);
    }
    known
}

fn new_values(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<NewValue> {
    let differs = after.iter().filter_map(|(key, to)| {
        let from = before.get(key).unwrap_or(&Value::Null);
        (from != to).then(|| NewValue { key: key.clone(), from: from.clone(), to: to.clone() })
    });
    differs.collect()
}

/// A text, or a list of words, as a name; `None` for what is not there.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => Some(list.iter().filter_map(words).collect::<Vec<_>>().join(" ")),
        other => Some(other.to_string()),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.what)?;
        match &self.how {
            How::Added => f.write_str("added")?,
            How::Removed => f.write_str("removed")?,
            How::Changed(keys) if self.what.starts_with('[') => {
                let keys: Vec<String> = keys.iter().map(|new| format!("{} {new}", new.key)).collect();
                write!(f, "changed: {}", keys.join(", "))?;
            }
            How::Changed(keys) => {
                let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
                f.write_str(&keys.join(", "))?;
            }
        }
        match &self.at_start {
            Some(why) => write!(f, "; from the next start of the agent on ({why})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for NewValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Value| match value {
            Value::Null => "(default)".to_owned(),
            other => other.to_string(),
        };
        write!(f, "{} -> {}", shown(&self.from), shown(&self.to))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn told(old: &str, new: &str) -> Vec<String> {
        let parse = |text| Config::parse(text, Path::new("j.toml")).expect("right");
        changes(&parse(old), &parse(new)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn changes_are_told_by_key_and_by_table() {
        let old = "domain = 400\n[events]\nrecent = 10\n[[file]]\npath = '/a'\n[[file]]\npath = '/b'\n\
                   [[command]]\nrun = ['x', 'y']\n[[source]]\nname = 'app'\norder_window = '1s'\n";
        let new = "domain = 401\n[events]\nrecent = 20\nmax_types = 9\n[[file]]\npath = '/b'\nformat = 'json'\n\
                   [[file]]\npath = '/c'\n[[source]]\nname = 'app'\norder_window = '2s'\n[log]\nsync = 'batch'\ntotal_budget = '2GiB'\n";
        assert_eq!(
            told(old, new),
            [
                "[[command]] x y: removed",
                "domain: 400 -> 401; from the next start of the agent on (all numbers of metrics are made with it)",
                "events.max_types: 4096 -> 9; from the next start of the agent on (tables are as large as it was)",
                "events.recent: 10 -> 20",
                "[[file]] /a: removed",
                "[[file]] /b: changed: format \"text\" -> \"json\"",
                "[[file]] /c: added",
                "log.sync: \"never\" -> \"batch\"; from the next start of the agent on (the log is open)",
                "log.total_budget: 1073741824 -> 2147483648",
                "[[source]] app: changed: order_window \"1s\" -> \"2s\"",
            ]
        );
        assert_eq!(told(old, old), <[String; 0]>::default());
        assert_eq!(told("", "[events]\nrecent = 10\n[spans]\nwindow = '60s'\n"), <[String; 0]>::default());
    }

    #[test]
    fn every_key_that_is_read_at_the_start_only_is_one() {
        let tables = tables(&Config::default());
        for (key, _) in AT_START {
            let (table, key) = key.split_once('.').unwrap_or((key, ""));
            let found = tables.get(table).unwrap_or_else(|| panic!("{table}"));
            assert!(key.is_empty() || found.get(key).is_some(), "{table}.{key}");
        }
        for (list, _) in LISTS {
            assert!(tables.get(list).is_some_and(Value::is_array), "{list}");
        }
    }
}

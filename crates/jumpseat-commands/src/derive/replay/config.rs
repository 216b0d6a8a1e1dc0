//! Cases of configuration files: `file`, and `ret`, `defs`, `help` and `stderr`.

use serde_json::{Map, Value as Json, json};

use super::cases::{BadCase, Outcome, compare};
use pcp_derive::{Dialect, HelpKind, Registry};

pub(super) fn replay(case: &Json, expected: &Json, dialect: &Dialect) -> Result<Outcome, BadCase> {
    let file = case["file"].as_str().ok_or(BadCase::Field("file"))?;
    let mut registry = Registry::new(*dialect);
    registry.initialise();
    let loaded = registry.load(file.as_bytes());
    let stderr: String = loaded.problems.iter().map(|problem| problem.text("FILE")).collect();
    let user = || registry.definitions().iter().filter(|definition| !definition.anonymous);
    let definitions: Vec<Json> =
        user().map(|definition| json!([definition.name.as_ref(), definition.expression.as_ref()])).collect();
    let mut help = Map::new();
    // The metrics for event records are recorded only where the file names them.
    let named = |name: &str| expected["help"].get(name).is_some();
    for definition in registry.definitions().iter().filter(|d| !d.anonymous || named(&d.name)) {
        let mut texts = Map::new();
        for (key, kind) in [("oneline", HelpKind::Oneline), ("helptext", HelpKind::Help)] {
            if let Ok(text) = definition.help_text(kind) {
                texts.insert(key.to_owned(), json!(text));
            }
        }
        if !texts.is_empty() {
            help.insert(definition.name.to_string(), Json::Object(texts));
        }
    }
    let found = json!({ "ret": loaded.registered, "defs": definitions, "help": help, "stderr": stderr });
    let wanted = json!({
        "ret": expected["ret"], "defs": expected["defs"], "help": expected["help"], "stderr": expected["stderr"]
    });
    Ok(compare(file, wanted.to_string(), found.to_string()))
}

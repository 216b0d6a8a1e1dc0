//! Cases of binding: `metrics` and `expr`, and `desc`, `error` or `real`.

use serde_json::Value as Json;

use super::cases::{BadCase, Outcome, compare, registry};
use super::source::{Recorded, describe, describe_recorded};
use pcp_derive::{AddError, DerivedContext, Dialect, RegisterError, Registry};

pub(super) fn replay(case: &Json, expected: &Json, dialect: &Dialect) -> Result<Outcome, BadCase> {
    if expected.get("crash").is_some() {
        return Ok(Outcome::Undefined);
    }
    let name = case["name"].as_str().unwrap_or("d.x");
    let expression = case["expr"].as_str().ok_or(BadCase::Field("expr"))?;
    let mut registry = registry(case, dialect)?;
    for definition in case["defs"].as_array().into_iter().flatten() {
        let (Some(name), Some(expression)) = (definition["name"].as_str(), definition["expr"].as_str())
        else {
            return Err(BadCase::Field("defs"));
        };
        // A definition that is refused is not there; its user then shows it.
        let _ = registry.register(name, expression);
    }
    if expected["syntax"] == true {
        return Ok(match registry.register(name, expression) {
            Err(RegisterError::Syntax(_)) => Outcome::Passed,
            _ => Outcome::Failed(format!("{expression}\n  expected a syntax error")),
        });
    }
    // The per-context definition, in a context of its own.
    let found = in_context(case, &registry, name, expression)?;
    let wanted = expected_in_context(expected)?;
    let per_context = compare(&format!("{expression} (per-context)"), wanted, found);
    if per_context != Outcome::Passed {
        return Ok(per_context);
    }
    let found = global(case, &mut registry, name, expression)?;
    let wanted = if expected["real"] == true {
        "real".to_owned()
    } else if let Some(error) = expected.get("error") {
        format!("error {} {}", error["code"], error["print"].as_str().unwrap_or_default())
    } else {
        let print = expected["print"].as_str().unwrap_or_default();
        format!("{print}{}", describe_recorded(&expected["desc"])?)
    };
    Ok(compare(expression, wanted, found))
}

fn global(case: &Json, registry: &mut Registry, name: &str, expression: &str) -> Result<String, BadCase> {
    let mut source = Recorded::new(case)?;
    let pmid = match registry.register(name, expression) {
        Ok(pmid) => pmid,
        Err(error) => return Ok(format!("refused: {error}")),
    };
    let mut context = DerivedContext::new();
    let meta = context.attach(registry, &mut source).meta(pmid);
    let print: String = context.take_messages().concat();
    Ok(match meta {
        Ok(meta) => format!("{print}{}", describe(meta, registry.dialect().level)),
        Err(_) if context.attach(registry, &mut source).binding(pmid) == Err(None) => "real".to_owned(),
        Err(code) => format!("error {} {print}", code.0),
    })
}

fn in_context(case: &Json, registry: &Registry, name: &str, expression: &str) -> Result<String, BadCase> {
    let mut source = Recorded::new(case)?;
    let mut context = DerivedContext::new();
    let added = context.attach(registry, &mut source).add(name, expression);
    let print: String = context.take_messages().concat();
    let pmid = match added {
        Ok(pmid) => pmid,
        Err(AddError::Broken(error)) => return Ok(format!("{print}error {}", error.text())),
        Err(AddError::Refused(error)) => return Ok(format!("{print}refused: {error}")),
    };
    Ok(match context.attach(registry, &mut source).meta(pmid) {
        Ok(meta) => format!("{print}{}", describe(meta, registry.dialect().level)),
        Err(_) if context.attach(registry, &mut source).binding(pmid) == Err(None) => "real".to_owned(),
        Err(_) => format!("{print}added, does not bind"),
    })
}

fn expected_in_context(expected: &Json) -> Result<String, BadCase> {
    let in_context = expected.get("ctx");
    let print = in_context.and_then(|ctx| ctx["print"].as_str()).unwrap_or_default();
    let of =
        in_context.filter(|ctx| ctx.get("desc").is_some() || ctx.get("error").is_some()).unwrap_or(expected);
    if of["real"] == true {
        return Ok("real".to_owned());
    }
    Ok(match of.get("error") {
        Some(error) => match error["text"].as_str() {
            Some(text) => format!("{print}error {text}"),
            None => format!("{print}added, does not bind"),
        },
        None => format!("{print}{}", describe_recorded(&of["desc"])?),
    })
}

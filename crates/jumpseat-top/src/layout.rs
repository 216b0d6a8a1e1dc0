//! Layouts: what is watched and how, under a name of the user's.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::LEAST_INTERVAL;
use super::app::App;
use super::desk::View;
use super::monitor::Monitor;
use super::operand::Operand;

/// What a layout says.
#[derive(Debug, PartialEq)]
pub(crate) struct Layout {
    pub view: View,
    pub interval: Duration,
    pub operands: Vec<Operand>,
}

/// Saves what is watched now. Where.
///
/// # Errors
/// Why it cannot be saved.
pub(crate) fn save(name: &str, monitor: &Monitor, app: &App) -> Result<PathBuf, String> {
    let path = path(name)?;
    let layout =
        Layout { view: app.desk.view, interval: app.status.interval, operands: monitor.operands(&app.model) };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    pcp_files::replace(&path, written(&layout).as_bytes()).map_err(|error| format!("not saved: {error}"))?;
    Ok(path)
}

/// The layout of a name.
///
/// # Errors
/// Why there is none.
pub(crate) fn load(name: &str) -> Result<Layout, String> {
    let path = path(name)?;
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("layout {name}: {}: {error}; the key w saves one", path.display()))?;
    read(&text)
        .ok_or_else(|| format!("layout {name}: {} is no layout: save it anew with the key w", path.display()))
}

/// Where layouts are: where the user's configuration is.
fn path(name: &str) -> Result<PathBuf, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || !name.chars().all(plain) {
        return Err(format!("{name:?} is no name for a layout: letters, digits, - and _ make one"));
    }
    let of = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = of("XDG_CONFIG_HOME").or_else(|| of("HOME").map(|home| home.join(".config")));
    let home = home.ok_or("there is no place for layouts: neither XDG_CONFIG_HOME nor HOME is set")?;
    Ok(home.join("jumpseat").join("top").join(format!("{name}.json")))
}

fn written(layout: &Layout) -> String {
    let operand = |operand: &Operand| match operand {
        Operand::Metric(name) => json!({ "metric": name }),
        Operand::Expression { name, text } => json!({ "name": name, "expression": text }),
    };
    let operands: Vec<Value> = layout.operands.iter().map(operand).collect();
    let object = json!({
        "view": layout.view.name(),
        "interval": layout.interval.as_secs_f64(),
        "show": operands,
    });
    format!("{object:#}\n")
}

fn read(text: &str) -> Option<Layout> {
    let value: Value = serde_json::from_str(text).ok()?;
    let word = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let operand = |value: &Value| match word(value, "metric") {
        Some(name) => Some(Operand::Metric(name)),
        None => Some(Operand::Expression { name: word(value, "name")?, text: word(value, "expression")? }),
    };
    let interval = Duration::try_from_secs_f64(value.get("interval")?.as_f64()?).ok()?;
    Some(Layout {
        view: View::from_str(&word(&value, "view")?, true).ok()?,
        interval: interval.max(LEAST_INTERVAL),
        operands: value.get("show")?.as_array()?.iter().map(operand).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_read_as_it_was_written() {
        let operands = vec![
            Operand::Metric("kernel.all.load".into()),
            Operand::Expression { name: "busy % of 2 CPUs".into(), text: "1 + 1".into() },
        ];
        let layout = Layout { view: View::Traces, interval: Duration::from_millis(500), operands };
        assert_eq!(read(&written(&layout)), Some(layout));
        assert_eq!(read("{}"), None);
        assert!(path("../x").is_err() && path("").is_err());
    }
}
